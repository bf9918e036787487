"""The benchmarks of stage 2 and of registration: both sides find the same, and state stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import kept_bytes, memory, mmqjp, mmqjp_complex, register, views
from benchmarks.mmqjp import flat, measure, random_queries
from benchmarks.query_shapes import Kind
from tests.examples import usually

pytestmark = pytest.mark.slow

PNG = b"\x89PNG"


# -- mmqjp-complex ---------------------------------------------------------------------------


def test_both_sides_of_mmqjp_complex_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmqjp, "PILOT", 2)
    schema = mmqjp_complex.three_levels(2)
    measured = measure(schema, random_queries(schema.leaves, 40, 0.8, 3, seed=1), sample=20)
    assert measured.templates > 3
    assert measured.matches >= measured.rows > 0


def test_templates_are_as_many_as_in_the_paper() -> None:
    for most in (2, 3):
        row = mmqjp_complex.count_templates(400, most, 0.8, range(2009, 2012))
        apart, merged = mmqjp_complex.EXPECTED[most]
        assert row.figures["templates"] == apart
        assert row.figures["templates_merged"] == merged == mmqjp_complex.PAPER[most]


# -- views -----------------------------------------------------------------------------------


def test_views_and_no_views_find_the_same() -> None:
    workload = views.Workload("6.14", "flat", flat(3), 3)
    rows = views.two_documents(workload, 60)
    assert [row.parameters["variant"] for row in rows] == [views.WITH] * 2 + [views.WITHOUT] * 2
    (matches,) = {row.figures["matches"] for row in rows if "matches" in row.figures}
    assert isinstance(matches, int)
    assert matches > 0
    parts = [set(row.figures) for row in rows if "profile" in row.parameters]
    assert "R_vj" in parts[0]
    assert "over R_bin and R_doc" in parts[1] - parts[0]


@pytest.mark.slow
def test_a_stream_is_joined_warm_cold_and_off(tmp_path: Path) -> None:
    rows = list(views.over_stream(views.Stream(15, 90, 15, timed=2)))
    totals = {str(r.parameters["variant"]): r.figures for r in rows if "ratio" in r.figures}
    assert totals.keys() == {"warm", "cold", "off"}
    assert {figures["rows"] for figures in totals.values()} != {0}
    assert "loading_ms" in totals["cold"].keys() - totals["warm"].keys()
    views.BENCHMARK.plot(rows, tmp_path / "views.png")
    assert (tmp_path / "views.png").read_bytes().startswith(PNG)


# -- register --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", usually(["joins", "over time"], "joins"))
def test_subscriptions_find_the_same_however_they_came_in(kind: Kind) -> None:
    assert register.verify(kind, subscriptions=12, count=60) > 0


# -- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", usually(kept_bytes.THINGS, "instance"))
def test_one_more_of_a_thing_is_one_more_in_the_engines_counts(thing: str) -> None:
    grown = kept_bytes.measure(thing, 40)
    assert grown[memory.THINGS[thing]] == 40
