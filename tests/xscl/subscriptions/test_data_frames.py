"""Matches as data frames; pandas and Polars are optional, and are no test dependencies."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
from pathlib import Path

import pytest

import xscl
from xscl.subscriptions.matches import MatchSequence

MOMENT = datetime.datetime(1970, 1, 1, 0, 0, 0, 1, datetime.UTC)
_ABSENT = """
import os, pathlib
pathlib.Path(os.environ["MARKS"], str(os.getpid())).touch()
raise ImportError("not installed")
"""


def matches(engine: xscl.Engine) -> MatchSequence:
    engine.subscribe("twice", "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y")
    engine.push(xscl.Document("S", f"d{time}", time, b"<r><a>hi</a></r>") for time in (1, 2))
    return engine.matches("twice")


def test_a_frame_of_pandas() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: it is optional")
    with xscl.Engine() as engine:
        found = matches(engine)
        frame = found.to_pandas()
        assert list(frame.columns) == found.to_arrow().column_names
        (row,) = frame.to_dict("records")
        assert (row["subscription"], list(row["documents"])) == ("twice", ["d1", "d2"])
        assert {name: list(values) for name, values in row["values"].items()} == {
            "x": ["hi"],
            "y": ["hi"],
        }
        assert row["start"] == MOMENT
        assert len(found[:0].to_pandas()) == 0


def test_a_frame_of_polars() -> None:
    pytest.importorskip("polars", reason="Polars is not installed: it is optional")
    with xscl.Engine() as engine:
        found = matches(engine)
        frame = found.to_polars()
        assert frame.columns == found.to_arrow().column_names
        (row,) = frame.to_dicts()
        assert (row["subscription"], row["documents"]) == ("twice", ["d1", "d2"])
        assert row["values"] == {"x": ["hi"], "y": ["hi"]}
        assert row["start"] == MOMENT
        assert found[:0].to_polars().is_empty()


@pytest.mark.slow
def test_matches_are_used_without_both(tmp_path: Path) -> None:
    program = (
        "import xscl\nwith xscl.Engine() as engine:\n"
        "    engine.subscribe('each', 'S//a->x')\n"
        "    found = engine.push(xscl.Document('S', 'd', 1, b'<a/>')).matches\n"
        "    print(len(found), found.to_arrow().num_rows, len(found._repr_html_()) > 0)\n"
        "    try:\n        found.to_polars()\n"
        "    except ImportError as error:\n        print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=without_frames(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1 1 True\nnot installed\n"


def without_frames(directory: Path) -> dict[str, str]:
    """Return an environment without pandas and Polars; a process that imports one leaves a mark."""
    (directory / "marks").mkdir()
    for name in ("pandas", "polars"):
        module = directory / "modules" / name / "__init__.py"
        module.parent.mkdir(parents=True)
        module.write_text(_ABSENT, "utf-8")
    path = os.pathsep.join((str(directory / "modules"), str(Path(xscl.__file__).parents[1])))
    return os.environ | {"PYTHONPATH": path, "MARKS": str(directory / "marks")}
