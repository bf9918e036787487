"""`xscl help`: pages of the languages and their sections."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from inspect import signature
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from tests.project import ROOT
from tests.waiting import eventually
from tests.xscl.commandline import called
from xscl.cli import progress
from xscl.cli.commands import as_typer_reads
from xscl.cli.options import option
from xscl.cli.progress import Quiet, working
from xscl.language.topics import PAGES, found, topics
from xscl.time_format import choose_zone, ticks_to_second, to_second


def test_the_pages_are_those_of_the_documentation() -> None:
    documents = {path.stem for path in (ROOT / "docs" / "languages").glob("*.md")}
    assert set(PAGES) == documents
    for page in PAGES:
        (topic,) = found(page)
        assert topic.text.startswith("# ")
        assert "<!--" not in topic.text


def test_the_list_of_commands_has_clauses_and_fits_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = called("--help").stdout
    assert "  subscribe      Register a query under a name.\n" in said
    assert "  feeds          Follow feeds: RSS, Atom and JSON Feed.\n" in said
    monkeypatch.setenv("COLUMNS", "30")
    assert "subscribe" in called("--help").stdout


def test_it_lists_the_topics() -> None:
    lines = called("help").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(PAGES)
    assert "windows" in lines[0]
    assert all(found(one.name) for one in topics())


def test_a_page_has_its_grammar_and_a_heading_its_pages() -> None:
    assert "?expression: primary" in called("help", "xscl").stdout
    for heading, pages in (("Windows", ["xscl"]), ("Functions", ["xscl", "expressions"])):
        said = called("help", heading.lower()).stdout
        headings = re.findall("^## (.+)$", said, re.MULTILINE)
        assert headings == [f"{page}: {heading}" for page in pages]
        assert said.startswith("## ")


FIRST, LAST = (one.replace(tzinfo=UTC) for one in (datetime.min, datetime.max))


@pytest.fixture(autouse=True)
def _in_utc_again() -> Iterator[None]:
    yield
    choose_zone("UTC")


ENDS = ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
ZONES = {
    **dict.fromkeys(("UTC", "local"), ENDS),
    "America/New_York": (ENDS[0], "9999-12-31T18:59:59-05:00"),
    "Asia/Kolkata": ("0001-01-01T05:53:28+05:53:28", ENDS[1]),
}


@pytest.mark.parametrize("zone", ZONES)
def test_a_time_that_the_zone_does_not_have_is_in_utc(zone: str) -> None:
    choose_zone(zone)
    assert (to_second(FIRST), to_second(LAST)) == ZONES[zone]
    assert ticks_to_second(1 << 62) == str(1 << 62)


@dataclass(frozen=True)
class Size:
    width: Annotated[int, option("How wide.", min=1)] = 80
    unit: Annotated[str, option("Of the width.", envvar="SIZE_UNIT")] = "cells"


def draw(
    size: Size,
    name: str,
    very_loud: bool = option("Not softly."),
    deep: bool | None = option("Or high."),
    by: list[str] | None = option("Whose.", flags="--by -b"),
) -> None:
    typer.echo(f"{name} {size} {very_loud} {deep} {by}")


def answer(*arguments: str, **environment: str) -> str:
    app = typer.Typer()
    app.command()(as_typer_reads(draw))
    done = CliRunner().invoke(app, arguments, env=environment)
    return f"{done.exit_code}: {done.output}"


def test_a_command_is_called_with_the_dataclass() -> None:
    assert answer("a") == "0: a Size(width=80, unit='cells') False None None\n"
    given = answer("--width", "3", "--very-loud", "--no-deep", "-b", "me", "a", SIZE_UNIT="mm")
    assert given == "0: a Size(width=3, unit='mm') True False ['me']\n"


def test_options_and_fields_are_checked_and_a_flag_has_no_other_form() -> None:
    assert answer("--no-very-loud", "a").startswith("2:")
    assert answer("--width", "0", "a").startswith("2:")


def test_the_options_of_groups_follow_those_of_the_command() -> None:
    options = ["name", "very_loud", "deep", "by", "width", "unit"]
    assert list(signature(as_typer_reads(draw)).parameters) == options
    assert list(signature(as_typer_reads(as_typer_reads(draw))).parameters) == options


# -- Progress ------------------------------------------------------------------------------


@contextmanager
def standard_error(is_terminal: bool, delay: float = 0.0) -> Iterator[io.StringIO]:
    """Give the process a standard error in the block, where progress is shown after a delay."""
    made = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "isatty", lambda: is_terminal)
        patch.setattr(sys, "stderr", made)
        patch.setattr(progress, "DELAY", delay)
        patch.setenv("TERM", "xterm")
        yield made


def test_a_terminal_shows_what_is_done_and_how_far() -> None:
    with standard_error(is_terminal=True) as shown:
        with working("joining", 40) as advance:
            advance(7)
            eventually(lambda: "joining" in shown.getvalue() and "7/40" in shown.getvalue())
        with working("trying"):
            eventually(lambda: "trying" in shown.getvalue())


def test_there_is_none_without_a_terminal() -> None:
    with standard_error(is_terminal=False) as shown:
        assert list(progress.progress("ab", "reading", 2)) == ["a", "b"]
    assert shown.getvalue() == ""


def test_short_work_shows_nothing() -> None:
    with standard_error(is_terminal=True, delay=600.0) as shown, working("joining"):
        pass
    assert "joining" not in shown.getvalue()


def test_quiet_hides_it_for_one_command() -> None:
    app = typer.Typer()
    hidden = list[bool]()

    @app.command()
    def command(quiet: Quiet = False) -> None:
        with working("joining"):
            hidden.append(progress._hidden.get())

    with standard_error(is_terminal=True):
        for arguments in (["--quiet"], []):
            assert CliRunner().invoke(app, arguments).exit_code == 0
    assert hidden == [True, False]
