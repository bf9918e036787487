"""The event benchmarks compare equal results before they time anything, and there are some."""

from __future__ import annotations

from typing import get_args

import pytest

from benchmarks import cayuga, double_top, feed_patterns, patterns, rumor
from benchmarks.event_workloads import (
    TEMPLATES,
    Pattern,
    Template,
)
from benchmarks.runtime_stack import BASIC
from benchmarks.sase_workload import Table1, events, query, side, warmed
from tests.examples import usually

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("template", usually(TEMPLATES, "Filter", "LinearDyn"))
def test_all_modes_of_cayuga_find_the_same(template: Template) -> None:
    many = template.startswith("NonDeterministic")  # matches, that grow with the square of events
    assert cayuga.verify(template, events=150 if many else 300) > 0


@pytest.mark.parametrize("pattern", get_args(Pattern))
def test_all_modes_of_the_feed_patterns_find_the_same(pattern: Pattern) -> None:
    assert feed_patterns.verify(pattern) > 0


@pytest.mark.slow
def test_all_rule_sets_of_rumor_find_the_same() -> None:
    assert rumor.verify() > 0


def test_both_formulations_of_the_double_top_find_the_same() -> None:
    rows = list(double_top.compared(5, 4_000))
    assert {row.parameters["variant"] for row in rows} == {"mu", "resubscription"}
    (matches,) = {row.figures["matches"] for row in rows}
    assert isinstance(matches, int)
    assert matches > 0


def test_all_ways_to_scan_for_sequences_find_the_same() -> None:
    table = Table1(6, (4, 3))
    taken = events(table, 600)
    text = query(3, 60, ("attr1", "attr2"), "x0.attr2 < 2")
    sides = {
        "ais": side(table, text, taken),
        "basic": side(table, text, taken, BASIC),
        "basic, own types": side(table, text, taken, BASIC, one_stream=False),
    }
    assert warmed(sides, 600) > 0


@pytest.mark.parametrize("form", patterns.FORMS)
@pytest.mark.parametrize("kind", ["broad", "narrow", "narrow everywhere"])
def test_patterns_by_constants_find_what_a_query_of_all_keys_finds(form: str, kind: str) -> None:
    rows = {
        row.parameters["side"]: row for row in patterns.compared(form, kind, patterns.Plan(20, 300))
    }
    assert kind == "broad" or int(str(rows[patterns.ALL].figures["matches"])) > 0
    apart = kind == "narrow everywhere"
    assert (int(str(rows[patterns.ALL].figures["mops"])) > 20) == apart
