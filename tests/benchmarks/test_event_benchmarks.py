"""The event benchmarks compare equal results before they time anything, and there are some."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.benchmarks import cayuga, double_top, feed_patterns, rumor
from tests.benchmarks.event_workloads import (
    TEMPLATES,
    Pattern,
    Table41,
    Table53,
    Template,
    workload_1,
)
from tests.benchmarks.event_workloads import cayuga as technical


@pytest.mark.parametrize("template", TEMPLATES)
def test_all_modes_of_cayuga_find_the_same(template: Template) -> None:
    assert cayuga.verify(template) > 0


@pytest.mark.parametrize("pattern", get_args(Pattern))
def test_all_modes_of_the_feed_patterns_find_the_same(pattern: Pattern) -> None:
    assert feed_patterns.verify(pattern) > 0


def test_all_rule_sets_of_rumor_find_the_same() -> None:
    assert rumor.verify() > 0


def test_both_formulations_of_the_double_top_find_the_same() -> None:
    rows = list(double_top.compared(5, 4_000))
    assert {row.parameters["variant"] for row in rows} == {"mu", "resubscription"}
    (matches,) = {row.figures["matches"] for row in rows}
    assert isinstance(matches, int)
    assert matches > 0


def test_workloads_are_seeded() -> None:
    assert technical("Filter", 50, 20, Table41(), 3) == technical("Filter", 50, 20, Table41(), 3)
    assert technical("Filter", 50, 20, Table41(), 3) != technical("Filter", 50, 20, Table41(), 4)
    assert workload_1(20, 20, Table53(), 3) == workload_1(20, 20, Table53(), 3)
