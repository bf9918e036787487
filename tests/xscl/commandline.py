"""The command line, called within this process."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from xscl.cli import app

_made = cache(get_command)


def called(*arguments: str, given: str | None = None) -> Result:
    """Return the result of a command that reads `given` as its standard input.

    All commands are made once: typer would make them for each call, which takes longer (70 ms)
    than most of them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.testing._get_command", _made)
        return CliRunner().invoke(app, arguments, input=given)


def json_rows(output: str) -> list[Any]:
    """Return the values of JSON Lines."""
    return [json.loads(line) for line in output.splitlines()]


def answered(*arguments: str) -> str:
    """Return the output of a command that succeeds."""
    done = called(*arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def failed(code: int, *arguments: str) -> str:
    """Return the error of a command that prints nothing else."""
    done = called(*arguments)
    assert (done.exit_code, done.stdout) == (code, ""), done.output
    return done.stderr
