"""Questions before something is deleted for good."""

from __future__ import annotations

import sys

import typer

from xscl.cli.output import UsageError


def confirm(question: str, told: str) -> None:
    """Ask whether to continue; abort if the answer is no, or if nobody can answer."""
    if not sys.stdin.isatty():
        raise UsageError(told, hint="add --yes to confirm it")
    typer.confirm(question, abort=True, err=True)
