"""`xscl doctor`: a check of this machine and the data directory, with remedies."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from xscl.cli.diagnostics import checkup
from xscl.cli.options import DATA, Data, Json, home, setting
from xscl.cli.output import answer


def doctor(
    host: Annotated[str, setting("host", help="Where 'serve' would listen.")] = "127.0.0.1",
    port: Annotated[int, setting("port", help="The port it would take.", min=0, max=65535)] = 8425,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Look at this machine and the data directory; say what is wrong, and how to mend it.

    Each line is ok, warn or bad; if one is bad, the exit code is 1. Nothing
    is changed.

    \b
    Example:
      xscl doctor
    """
    found = list(checkup(home(data), host, port))
    lines = []
    for one in found:
        lines.append(f"{one.sign:<4}  {one.what:<8}  {one.found}")
        if one.hint is not None:
            lines.append(f"{'':14}  hint: {one.hint}")
    answer([asdict(one) for one in found], lines, as_json=as_json)
    if any(one.sign == "bad" for one in found):
        raise typer.Exit(1)
