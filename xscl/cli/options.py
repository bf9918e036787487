"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from xscl.home import Home

Data: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--data",
        envvar="XSCL_DATA",
        metavar="DIR",
        help="The data directory.",
        show_default=True,
    ),
]
DATA = Path("xscl-data")
"""The data directory unless --data or XSCL_DATA says otherwise."""

Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Answer in JSON, for programs.")]


def home(data: Path) -> Home:
    """Return the data directory that was asked for."""
    return Home(data.expanduser().absolute())


NotifyHistory: TypeAlias = Annotated[
    bool,
    typer.Option("--notify-history", help="Print matches between items of first polls too."),
]
AllowAddress: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-address",
        metavar="HOST:PORT",
        help="A private address that feeds may be fetched from; repeatable.",
    ),
]
