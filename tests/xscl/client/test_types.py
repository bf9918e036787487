"""`mypy --strict` on programs that use library and client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.project import ROOT

WRONG = """
import xscl
from xscl.client import Client

client = Client("http://127.0.0.1:8425")
client.subscribe(1, "S//a")  # E
client.subscribe("a", "S//a", sinse="7 d")  # E
found: int = client.subscription("a")  # E
for match in client.matches("a"):
    match.tittle  # E
xscl.Document("S", "d", 1, "<a/>")  # E
xscl.Engine().try_query("S//a", since=1.5)  # E
"""
_MYPY = (sys.executable, "-m", "mypy", "--strict", "--cache-dir")


@pytest.mark.slow
def test_programs_are_checked_strictly(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, "utf-8")
    sample = ROOT / "examples" / "typed_program.py"
    done = subprocess.run(
        [*_MYPY, tmp_path / "cache", sample, wrong],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    expected = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# E")]
    assert [(Path(e.split(":")[0]).name, int(e.split(":")[1])) for e in errors] == [
        ("wrong.py", number) for number in expected
    ], done.stdout
