"""Closed, full or narrow standard streams: a command does its work, without a traceback."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import usually
from tests.xscl.commandline import called
from xscl.cli.commands import lazy_commands

QUERY = "S//item[./title->t] FOLLOWED BY{t = u, 3 d} S//item[./title->u]"
FEED = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>Caf\u00e9</title>
<item><guid>1</guid><title>\u00e9 \u2192 \u65e5</title>
<pubDate>Mon, 02 Mar 2026 10:00:00 GMT</pubDate></item>
<item><guid>2</guid><title>\u00e9 \u2192 \u65e5</title>
<pubDate>Tue, 03 Mar 2026 10:00:00 GMT</pubDate></item></channel></rss>
"""
RUN = f"run -v --stream S=f.xml -q {shlex.quote(QUERY)}"
PUSH = "push --data d --stream S f.xml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "f.xml").write_text(FEED, "utf-8")
    return tmp_path


def command(folder: Path, line: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the shell in which `xscl` is the command."""
    xscl = f'xscl() {{ timeout 60 {shlex.quote(sys.executable)} -m xscl "$@"; }}'
    shell = f"{xscl}; {line}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", shell],
        cwd=folder,
        env=os.environ | variables,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=300,
    )


@pytest.mark.parametrize("encoding", usually(["ascii", "latin-1"], "latin-1"))
@pytest.mark.parametrize("form", usually(["text", "xml", "jsonl"], "text", "xml"))
def test_an_encoding_that_lacks_a_character(folder: Path, encoding: str, form: str) -> None:
    """Text has an escape in its place, XML a reference."""
    ran = command(folder, f"xscl {RUN} --format {form}", PYTHONIOENCODING=encoding)
    assert (ran.returncode, ran.stderr) == (0, "")
    escaped = {"xml": "&#8594; &#26085;", "text": r"\u2192 \u65e5", "jsonl": ""}
    assert escaped[form] in ran.stdout


def test_an_error_in_an_encoding_that_lacks_a_character(folder: Path) -> None:
    ran = command(folder, "xscl run -q 'S//\u00e9[->x' f.xml", PYTHONIOENCODING="ascii")
    assert ran.returncode == 2
    assert "\\xe9" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_an_argument_that_is_no_text(folder: Path) -> None:
    ran = command(folder, r"xscl run -q 'S//a->x' $'\xff.xml'")
    assert ran.returncode != 0
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("closed", usually([">&-", "2>&-", "<&- >&- 2>&-"], "<&- >&- 2>&-"))
@pytest.mark.parametrize("line", usually([RUN, PUSH, "--version"], PUSH))
def test_a_closed_stream(folder: Path, line: str, closed: str) -> None:
    """The work is done as with a stream that nobody reads."""
    ran = command(folder, f"xscl {line} {closed}")
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr
    if "push" in line:
        told = called("status", "--data", str(folder / "d"), "--json").stdout
        assert json.loads(told)["documents"] == 2


def test_what_a_closed_standard_input_has_is_nothing(folder: Path) -> None:
    ran = command(folder, "xscl push --data d --stream S - <&-")
    assert "Traceback" not in ran.stderr
    assert ran.returncode in (0, 1, 2)


@pytest.mark.parametrize("line", usually([RUN, "help xscl", "run --help"], "help xscl"))
def test_a_reader_that_goes_away(folder: Path, line: str) -> None:
    ran = command(folder, f"xscl {line} | head -n 1; exit ${{PIPESTATUS[0]}}")
    assert ran.stderr == ""
    assert ran.returncode in (0, 1)


@pytest.mark.parametrize("line", usually([RUN, "--version"], "--version"))
def test_a_full_disk_behind_the_output(folder: Path, line: str) -> None:
    ran = command(folder, f"xscl {line} > /dev/full")
    assert ran.returncode == 1
    assert "No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_a_full_disk_behind_the_errors(folder: Path) -> None:
    ran = command(folder, "xscl nix 2> /dev/full")
    assert ran.returncode in (1, 2)  # a buffered error is lost at the end of the process


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(lazy_commands()))
def test_each_command_without_streams(folder: Path, name: str) -> None:
    """Its help, and its error or answer, with streams closed and narrow."""
    lines = (f"{name} --help", f"{name} \u00e9 --data d", name)
    for arguments in lines[: 1 if name in ("serve", "demo") else None]:
        for streams in ("2>errors >&- <&-", "2>&- <&-", ">&- 2>&-", "2>errors < /dev/null"):
            ran = command(folder, f"xscl {arguments} {streams}", PYTHONIOENCODING="ascii")
            errors = (folder / "errors").read_text() if "errors" in streams else ""
            assert "Traceback" not in errors + ran.stderr + ran.stdout
