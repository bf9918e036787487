"""The names of tests and the table of promises agree."""

from tests.reliability import (
    ELSEWHERE,
    GROUPS,
    ROWS,
    all_tests,
    named,
    report,
    seldom_tested,
    slow_tests,
    untested,
)


def test_every_row_in_a_name_is_one_of_the_table() -> None:
    assert set(named()) <= set(ROWS)
    assert len(set(ROWS)) == len(ROWS)


def test_tests_of_other_names_are_there() -> None:
    known = {f"{file}::{name}" for file, name in all_tests()}
    assert set(ELSEWHERE) <= set(ROWS)
    assert {test for listed in ELSEWHERE.values() for test in listed} <= known


def test_the_report_names_what_is_missing() -> None:
    lines = list(report())
    assert lines[len(GROUPS) :] == [
        *(f"{row} has no test" for row in untested()),
        *(f"{row} has slow tests only" for row in seldom_tested()),
    ]
    assert "S9" in named()
    assert {f"S{number}" for number in GROUPS["S"][1]}.isdisjoint(untested())


def test_every_row_is_tested_and_all_but_the_steady_load_in_the_usual_run() -> None:
    assert untested() == []
    assert seldom_tested() == ["L1"]


def test_slow_tests_are_known_by_their_marks_and_those_of_their_files() -> None:
    slow = slow_tests()
    assert slow < {f"{file}::{name}" for file, name in all_tests()}
    assert "kills/test_many_kills.py::test_c1_killed_with_spark" in slow
    assert "xscl/service/sql/test_sql_service.py::test_l3_a_million_witnesses_are_published" in slow
    assert "kills/test_kills.py::test_c1_killed_at_a_point" not in slow
