"""A block refuses XPath before any part of it is evaluated."""

from __future__ import annotations

import pytest

from xscl.errors import QueryError
from xscl.language.parser import parse

FUNCTIONS = "http://www.w3.org/2005/xpath-functions"
UCA = "http://www.w3.org/2013/collation/UCA"

UNBOUNDED = (
    f'compare("a", "b", "{UCA}") = 0',
    f'fn:compare("a", "b", "{UCA}") = 0',
    f'starts-with("a", "b", "{UCA}")',
    f'Q{{{FUNCTIONS}}}contains("a", "b", "{UCA}")',
    f'max(("a", "b"), "{UCA}") = "a"',
    f'deep-equal("a", "b", "{UCA}")',
    f'exists(collation-key("a", "{UCA}"))',
    f'sort(("a", "b"), "{UCA}") = "a"',
    "round(1.5, 9999999) = 1",
    "round(15, -999999999) = 1",
    "round-half-to-even(1.5, 10 * 99999) = 1",
    "round(1.5, count(b)) = 1",
    "format-integer(3000000000000, 'I') = 'x'",
    f"Q{{{FUNCTIONS}}}format-integer(3000000000000, 'I') = 'x'",
    "format-date(xs:date('2000-01-01'), '[D,999999999-*]') = 'x'",
    "format-dateTime(xs:dateTime('2000-01-01T00:00:00'), '[D,999999999-*]') = 'x'",
    "format-time(xs:time('00:00:00'), '[H,999999999-*]') = 'x'",
    "format-number(1, '0000000000') = 'x'",
    "count(1 to 999999999) = 1",
    "count(1 to b) = 1",
    "(for $x in 1 to 100, $y in 1 to 100 return $x) = 1",
    "matches(b, '(a+)+\\1')",
    "matches(b, c)",
    f"b = '{'x' * 3000}' + c",
    "count(-5 to 999999999) = 1",
    "(1 to 3)[. = (1 to 9999999)]",
    f"b + {'9' * 1500} = 3",
    f"b + 1e{'9' * 500} = 3",
    f"{'(' * 900}b = c{')' * 900}",
    f"b{'[c' * 600}{']' * 600} = d + 1",
    f"not({'not(' * 600}b = c{')' * 600})",
    f"- {'-' * 1500}b = 3",
    "concat(?, 'b')('c') = d",
    "let $x := b return $x = c",
    "function($x) { $x }(b) = c",
    "map { 'a': 1 }?a = b",
    "array { 1 to 5 }(1) = b",
    "id('x') = b",
    "exists(namespace::*)",
    "parse-json('[1]')(1) = b",
    "error() = b",
    *("Q{1|following-sibling}", "b[(: c", "b ! !", "b => c", "b => contains('q')"),
    *("(b => contains('q'))", "c ! (. => contains('q'))"),
    "some $x in b satisfies ($x => contains('q'))",
)
"""Expressions whose work has no bound, which cannot hold, or which the parser does not take."""


@pytest.mark.parametrize("condition", UNBOUNDED, ids=lambda one: one[:40])
def test_refused_before_anything_is_evaluated(condition: str) -> None:
    for _ in range(2):  # a lock that the first one left would stop the second one
        with pytest.raises(QueryError) as caught:
            parse(f"S//a[{condition}]")
    assert caught.value.line == 1
    assert caught.value.column > 1


@pytest.mark.parametrize(
    "condition", ["round(v, 2) = 1.23", "round(v, -3) = 1000", "fn:round(v) = 1"]
)
def test_bounded_forms_are_accepted(condition: str) -> None:
    assert parse(f"S/a[{condition}]")
