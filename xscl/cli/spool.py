"""`xscl spool skip`: give up segments of the spool that are lost or damaged."""

from __future__ import annotations

import re

from feeds.spool import Spool
from xscl.cli.options import DATA, Data, Json, argument, command_group, home
from xscl.cli.output import UsageError, answer

app = command_group("The queue of documents that were taken and not consumed yet.")


@app.callback()
def spool() -> None:
    """The queue of documents that were taken and not consumed yet."""


@app.command()
def skip(
    numbers: str = argument("The segment, or the first and the last one.", "N[-M]"),
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Go on without segments that are lost or damaged; their documents are given up.

    A service stops at such a segment, and names its file. Put the file back if
    you can. What is left of a damaged one stays there with the others.

    \b
    Example:
      xscl spool skip 17
      xscl spool skip 17-20
    """
    found = re.fullmatch(r"([0-9]{1,12})(?:-([0-9]{1,12}))?", numbers)
    if found is None:
        raise UsageError(f"{numbers!r} names no segments", hint="write 17, or 17-20")
    first, last = int(found[1]), int(found[2] or found[1])
    at = home(data)
    at.expect()
    with at.hold("spool skip"), Spool(at.spool) as opened:
        opened.skip(first, last)
    what = f"segment {first}" if first == last else f"segments {first} to {last}"
    line = f"gave up {what}: the next 'xscl serve' goes on without the documents in it"
    answer({"first": first, "last": last}, [line], as_json=as_json)
