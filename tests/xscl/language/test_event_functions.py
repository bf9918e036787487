"""The functions of XSCL in CEL, SASE and EQL."""

from __future__ import annotations

import re
from typing import Any

import pytest

import cep_core
from tests.project import ROOT
from xscl.language.functions import EVENT_FUNCTIONS

GUIDE = (ROOT / "docs" / "languages" / "expressions.md").read_text("utf-8")


def value(expression: str) -> Any:
    """Return the value of an expression over an event, x is a text and n is null."""
    core = cep_core.Engine(1, functions=EVENT_FUNCTIONS)
    core.stream("s", {"x": str, "n": str})
    core.register("q", f"SELECT {expression} AS y FROM s")
    ((_, found),) = core.push([cep_core.Event("s", ("  Rust  and C ", None), 1)])
    return found.values[0]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("matches(x, 'r.st', 'i')", True),
        ("matches(x, 'r.st')", False),
        ("matches(x, '(')", None),
        ("number('1.50') + 1", 2.5),
        ("number('one')", None),
        ("normalize_space(x)", "Rust and C"),
        ("substring('abcd', 2)", "bcd"),
        ("substring('abcd', 2, 2)", "bc"),
        ("substring_before('a=b', '=') + substring_after('a=b', '=')", "ab"),
        ("translate('abc', 'ab', 'x')", "xc"),
        ("replace('a1b2', '[0-9]', '-')", "a-b-"),
        ("replace('aA', 'a', '-', 'i')", "--"),
        ("plain_text('<p>a &amp; b</p>')", "a & b"),
        ("canonical_url('HTTP://Example.org/?utm_source=x')", "http://example.org/"),
        ("year_from_date('Mon, 06 Jan 2025 10:00:00 GMT')", 2025),
        ("month_from_date('2025-02-03')", 2),
        ("day_from_date('soon')", None),
        ("hours_from_dateTime('2025-02-03T23:00:00-02:00')", 23),
        ("COALESCE(normalize_space(n), 'none')", "none"),
        ("concat('a', '-', 'b', 'c')", "a-bc"),
        ("concat('a', n)", None),
        ("tokenize(x)", ("Rust", "and", "C")),
        ("tokenize('a1b2c', '[0-9]')", ("a", "b", "c")),
        ("tokenize('aXb', 'x', 'i')", ("a", "b")),
        ("xs_dateTime('1970-01-02T00:00:01Z')", 86401.0),
        ("xs_date('1970-01-02T23:00:01Z')", 86400.0),
        ("xs_dayTimeDuration('P1DT1H')", 90000.0),
        ("xs_dayTimeDuration('1 d')", None),
        (
            "xs_dateTime('2026-01-02T00:00:01Z') - xs_dateTime('2026-01-01T00:00:00Z')"
            " > xs_dayTimeDuration('P1D')",
            True,
        ),
    ],
)
def test_values(expression: str, expected: object) -> None:
    found = value(expression)
    assert (found, type(found)) == (expected, type(expected))


def test_the_functions_are_those_of_the_guide() -> None:
    text = GUIDE.partition("In the service")[2].partition("## By example")[0]
    assert set(re.findall(r"`(\w+)\(", text)) == set(EVENT_FUNCTIONS)


def test_too_many_arguments_are_refused() -> None:
    with pytest.raises(cep_core.errors.QueryError, match="substring takes 2 to 3 arguments, not 1"):
        value("substring(x)")
