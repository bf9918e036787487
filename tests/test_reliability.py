"""The names of tests and the table of promises agree."""

from tests.reliability import ELSEWHERE, ROWS, all_tests, named, untested


def test_every_row_in_a_name_is_one_of_the_table() -> None:
    assert set(named()) <= set(ROWS)
    assert len(set(ROWS)) == len(ROWS)


def test_every_row_is_tested() -> None:
    assert set(ELSEWHERE) <= set(ROWS)
    assert set(ELSEWHERE.values()) <= {f"{file}::{name}" for file, name in all_tests()}
    assert untested() == []
