"""Groups of options: a parameter of a dataclass type stands for an option for each field."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from xscl.cli.commands import with_options_of_groups


@dataclass(frozen=True)
class Size:
    width: Annotated[int, typer.Option("--width", help="How wide.", min=1)] = 80
    unit: Annotated[str, typer.Option("--unit", envvar="SIZE_UNIT")] = "cells"


def draw(size: Size, name: str, loud: Annotated[bool, typer.Option("--loud")] = False) -> None:
    typer.echo(f"{name} {size} {loud}")


def plain(name: str) -> None:
    typer.echo(name)


def answer(*arguments: str, **environment: str) -> str:
    app = typer.Typer()
    app.command()(with_options_of_groups(draw))
    done = CliRunner().invoke(app, arguments, env=environment)
    return f"{done.exit_code}: {done.output}"


def test_a_command_is_called_with_the_dataclass() -> None:
    assert answer("a") == "0: a Size(width=80, unit='cells') False\n"
    given = answer("--width", "3", "--loud", "a", SIZE_UNIT="mm")
    assert given == "0: a Size(width=3, unit='mm') True\n"


def test_the_fields_are_checked_as_options_are() -> None:
    assert answer("--width", "0", "a").startswith("2:")


def test_the_options_of_groups_follow_those_of_the_command() -> None:
    command = with_options_of_groups(draw)
    assert list(signature(command).parameters) == ["name", "loud", "width", "unit"]
    assert with_options_of_groups(command) is command


@pytest.mark.parametrize("command", [plain, with_options_of_groups(draw)])
def test_a_command_without_groups_stays_as_it_is(command: typer.models.CommandFunctionType) -> None:
    assert with_options_of_groups(command) is command
