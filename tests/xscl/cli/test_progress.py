"""Progress: on a terminal only, after a while, and never with --quiet."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tests.waiting import eventually
from xscl.cli import progress
from xscl.cli.progress import Quiet, working


class Terminal(io.StringIO):
    """A standard error that says whether it is a terminal."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], Terminal]:
    """Give the process a standard error; progress is shown at once."""
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setenv("TERM", "xterm")

    def given(is_terminal: bool) -> Terminal:
        made = Terminal(is_terminal)
        monkeypatch.setattr(sys, "stderr", made)
        return made

    return given


def test_a_terminal_shows_what_is_done_and_how_far(terminal: Callable[[bool], Terminal]) -> None:
    shown = terminal(True)
    with working("joining", 40) as advance:
        advance(7)
        eventually(lambda: "joining" in shown.getvalue() and "7/40" in shown.getvalue())
    with working("trying"):
        eventually(lambda: "trying" in shown.getvalue())


def test_there_is_none_without_a_terminal(terminal: Callable[[bool], Terminal]) -> None:
    shown = terminal(False)
    assert list(progress.progress("ab", "reading", 2)) == ["a", "b"]
    assert shown.getvalue() == ""


def test_short_work_shows_nothing(
    terminal: Callable[[bool], Terminal], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = terminal(True)
    monkeypatch.setattr(progress, "DELAY", 600.0)
    with working("joining"):
        pass
    assert "joining" not in shown.getvalue()


def test_quiet_hides_it_for_one_command(
    terminal: Callable[[bool], Terminal],
) -> None:
    app = typer.Typer()
    hidden = list[bool]()

    @app.command()
    def command(word: Annotated[str, typer.Argument()] = "", quiet: Quiet = False) -> None:
        with working("joining"):
            hidden.append(progress._hidden.get())

    runner = CliRunner()
    assert runner.invoke(app, ["--quiet"]).exit_code == 0
    assert runner.invoke(app, []).exit_code == 0
    assert hidden == [True, False]
