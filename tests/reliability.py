"""Which promises have a test: `python -m tests.reliability` prints those that have none.

It prints as well those of which no test is in the usual run, all being marked as slow.

A promise is a row of a table, such as S9: hostile values in answers.  A test of it says so in its
name: `test_s9_rows_are_capped`, or `test_x1_x2_...` for two of them.  Tests that were there before
the table are listed in `ELSEWHERE` under their own names.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent

GROUPS = {
    "X": ("hostile XML", (1, 2, 3, 4, 6, 7, 8, 9, 13, 14, 15, 16, 17)),
    "F": ("hostile feeds", (1, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
    "Q": ("hostile queries", (1, 2, 3, 4, 6, 7, 8, 9)),
    "S": ("hostile SQL", (1, 3, 4, 6, 7, 9, 11, 12, 13)),
    "W": (
        "hostile requests and receivers",
        (1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19),
    ),
    "C": ("crashes and faults", (1, 2, 4, 5, 7, 8, 12, 14, 15, 16, 17, 18, 19, 20)),
    "L": ("load", (1, 2, 3, 4, 6)),
}
"""The rows by their groups."""

ROWS = tuple(f"{group}{number}" for group, (_, numbers) in GROUPS.items() for number in numbers)

ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "C5": (
        "xscl/store/test_store.py::test_the_second_is_told_who_is_first",
        "xscl/store/test_data_directory.py::test_the_second_is_told_who_is_first",
    ),
    "C8": (
        "xscl/store/test_store.py::test_damage_is_refused_and_left_as_it_is",
        "xscl/store/test_store.py::test_a_flipped_byte_anywhere_that_matters_is_noticed",
        "xscl/store/test_store.py::test_a_removed_log_is_noticed",
    ),
    "C12": ("xscl/ingestion/test_pipeline.py::test_a_damaged_checkpoint_is_named",),
    "C15": (
        "xscl/engine/test_engine_properties.py::"
        "test_output_does_not_depend_on_order_of_arrival_within_lateness",
        "xscl/subscriptions/test_late.py::test_who_may_have_missed_a_document_is_told_by_the_definition",
    ),
    "C18": (
        "xscl/store/test_backup.py::test_while_another_thread_pushes",
        "xscl/store/test_backup.py::test_on_another_machine",
        "xscl/store/test_backup.py::test_a_backup_of_an_earlier_version",
        "xscl/store/test_store.py::test_a_store_of_another_release_is_refused",
    ),
    "L6": ("xscl/engine/test_retention.py::test_everything_returns_to_a_steady_size",),
}
"""Tests of rows that do not have them in their names."""

_TEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
_SLOW = "pytest.mark.slow"
_NAMED = re.compile(r"test_((?:[a-z]\d+_)+)")


@cache
def all_tests() -> tuple[tuple[str, str], ...]:
    """Return the file and the name of each test."""
    return tuple(
        (path.relative_to(TESTS).as_posix(), name)
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in _TEST.findall(path.read_text("utf-8"))
    )


@cache
def slow_tests() -> frozenset[str]:
    """Return the tests, as file::name, that are marked as slow, or whose file is.

    A test some of whose parameters are slow is none of them.
    """
    found = set[str]()
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if _SLOW not in text:
            continue
        body = ast.parse(text).body
        whole = any(
            _SLOW in ast.unparse(one.value)
            for one in body
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"
        )
        found.update(
            f"{path.relative_to(TESTS).as_posix()}::{one.name}"
            for one in body
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            and one.name.startswith("test_")
            and (whole or _SLOW in map(ast.unparse, one.decorator_list))
        )
    return frozenset(found)


def named() -> dict[str, list[str]]:
    """Return the tests of each row that have it in their names."""
    found: dict[str, list[str]] = defaultdict(list)
    for file, name in all_tests():
        if match := _NAMED.match(name):
            for row in match[1].rstrip("_").split("_"):
                found[row.upper()].append(f"{file}::{name}")
    return dict(found)


def untested() -> list[str]:
    """Return the rows that have no test."""
    found = named()
    return [row for row in ROWS if row not in found and row not in ELSEWHERE]


def seldom_tested() -> list[str]:
    """Return the rows that have tests, but none that is in the usual run."""
    found, slow = named(), slow_tests()
    tests = {row: {*found.get(row, ()), *ELSEWHERE.get(row, ())} for row in ROWS}
    return [row for row, of_row in tests.items() if of_row and of_row <= slow]


def report() -> Iterator[str]:
    """Yield a line for each group, and one for each row without a test, or with slow ones only."""
    found, missing = named(), untested()
    for group, (what, numbers) in GROUPS.items():
        rows = [f"{group}{number}" for number in numbers]
        count = sum(len(found.get(row, ())) + len(ELSEWHERE.get(row, ())) for row in rows)
        done = sum(row not in missing for row in rows)
        yield f"{group}  {what}: {done} of {len(rows)} rows, {count} tests"
    for row in missing:
        yield f"{row} has no test"
    for row in seldom_tested():
        yield f"{row} has slow tests only"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in report())
