"""The names of tests and the table of promises agree."""

from tests.reliability import ELSEWHERE, GROUPS, ROWS, all_tests, named, report, untested


def test_every_row_in_a_name_is_one_of_the_table() -> None:
    assert set(named()) <= set(ROWS)
    assert len(set(ROWS)) == len(ROWS)


def test_tests_of_other_names_are_there() -> None:
    known = {f"{file}::{name}" for file, name in all_tests()}
    assert set(ELSEWHERE) <= set(ROWS)
    assert {test for listed in ELSEWHERE.values() for test in listed} <= known


def test_the_report_names_what_is_missing() -> None:
    lines = list(report())
    assert len(lines) == len(GROUPS) + len(untested())
    assert lines[len(GROUPS) :] == [f"{row} has no test" for row in untested()]
    assert "S9" in named()
    assert {f"S{number}" for number in GROUPS["S"][1]}.isdisjoint(untested())
