"""Docstrings name classes, functions and exceptions that exist."""

from __future__ import annotations

import pytest

from tests.structure.docstrings import Docstring, Names


def test_docstrings_name_what_exists(names: Names) -> None:
    assert len(names.docstrings) > 5_000
    found = [f"{path}:{line}: {name}" for path, line, name in names.unknown(names.docstrings)]
    assert found == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Hold the directory; raises HomeInUse if another process has it.", "HomeInUse"),
        ("Raises StoreError, and StoreMissing after `close`.", "StoreMissing"),
        ("What ``DataDirectory.holds`` does.", "DataDirectory.holds"),
        ("See `Directory.hold`.", "Directory.hold"),
        ("See `xscl.store.chunk`.", "xscl.store.chunk"),
        ("See `xscl.store.store.Store.fetches()`.", "xscl.store.store.Store.fetches"),
        ("A `StoreErrors`.", "StoreErrors"),
        ("See `operators.joins.Interlaced3Way`.", "operators.joins.Interlaced3Way"),
    ],
)
def test_a_wrong_name_is_found(names: Names, text: str, name: str) -> None:
    assert [one.name for one in names.unknown([Docstring("a.py", 1, text)])] == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Raises StoreError; ValueError for a text that DuckDB refuses.",
        "What `DataDirectory.hold` holds, in `xscl.ingestion.data_directory`.",
        "The header `Host`, the file `xscl.toml`, and `SELECT * FROM R_bin`.",
        "The interval is P1DT12H.  FooBar is prose here.",
    ],
)
def test_right_names_and_other_words_are_left_alone(names: Names, text: str) -> None:
    assert list(names.unknown([Docstring("a.py", 1, text)])) == []
