"""The benchmarks of stage 2 and of registration: both sides find the same, and state stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import kept_bytes, memory, mmqjp, mmqjp_complex, register, views
from benchmarks.feed_items import CHANNELS
from benchmarks.harness import Options, Row
from benchmarks.mmqjp import flat, measure, random_queries
from benchmarks.query_shapes import Kind, Queries, skeletons
from tests.examples import usually
from xscl.language.constants import split

pytestmark = pytest.mark.slow

PNG = b"\x89PNG"


# -- mmqjp-complex ---------------------------------------------------------------------------


def test_the_complex_schema_has_three_levels() -> None:
    schema = mmqjp_complex.three_levels()
    assert len(schema.leaves) == 16
    assert {len(list(schema.above(leaf))) for leaf in schema.leaves} == {3}


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


def test_queries_have_as_many_shapes_as_asked_for() -> None:
    texts = [text for _, text in Queries("joins", 1_000, seed=3).take(2_000)]
    shapes = {found[0] for text in texts if (found := split(text)) is not None}
    assert len(shapes) >= 1_000
    assert len(set(texts)) > 1_900
    assert texts == [text for _, text in Queries("joins", 1_000, seed=3).take(2_000)]
    assert skeletons("joins", 20, 3) != skeletons("joins", 20, 4)


@pytest.mark.parametrize("kind", usually(["joins", "over time"], "joins"))
def test_subscriptions_find_the_same_however_they_came_in(kind: Kind) -> None:
    assert register.verify(kind, subscriptions=12, count=60) > 0


@pytest.mark.slow
def test_names_of_register(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plan = register.Plan("joins", (0, 10, 30), 5, 2, shapes=10)
    monkeypatch.setattr(register, "QUICK", (plan,))
    monkeypatch.setattr(register, "verify", lambda *_: 1)
    rows = _run("register", capsys, tmp_path / "register.png", "--profile", "--most", "20")
    present = {row["parameters"].get("subscriptions") for row in rows}
    assert present == {None, 0, 10, 20}
    modes = {
        row["parameters"]["mode"]: row["figures"].keys()
        for row in rows
        if row["parameters"].get("subscriptions") == 20 and "profile" not in row["parameters"]
    }
    assert modes["bulk"] >= {"registrations_per_s", "ratio"}
    assert modes["one by one"] >= {"p50_ms", "p95_ms", "ratio"}
    assert modes["remove"] >= {"p50_ms", "p95_ms", "ratio"}
    assert modes["restart"] >= {"milliseconds", "ratio"}
    assert sum("exponent" in row["figures"] for row in rows) == 4


# -- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize("thing", usually(kept_bytes.THINGS, "instance"))
def test_one_more_of_a_thing_is_one_more_in_the_engines_counts(thing: str) -> None:
    grown = kept_bytes.measure(thing, 40)
    assert grown[memory.THINGS[thing]] == 40


@pytest.mark.slow
def test_bytes_are_measured_in_a_process_of_its_own() -> None:
    figures = memory.each("document", 30).figures
    assert figures["count"] == 30
    assert figures.keys() >= {"bytes", "rss_bytes", "join_state_bytes", "text_bytes"}


@pytest.mark.slow
def test_what_is_kept_returns_to_its_steady_size(tmp_path: Path) -> None:
    """An hour may end with the expired rows of four pushes more, which are deleted together."""
    *series, silent = memory.hours(memory.Day(hours=16, faster=2, batch=40))
    assert all(counted["kept_rows"] > 50 for counted in series)
    assert any(counted["instances"] > 10 for counted in series)
    for name in ("kept_rows", "value", "document", "text", "result"):
        assert memory.largest_late_to_early(series, name) < 1.6, name
    assert max(silent[name] for name in ("kept_rows", "value", "result")) < 10
    assert silent["instances"] <= CHANNELS + 2  # NEXT waits for the next item of each channel
    assert silent["document"] <= silent["instances"] + 4
    rows = [
        Row(memory.NAME, {"hour": hour}, {name: counted[name] for name in memory.STATE})
        for hour, counted in enumerate(series, 1)
    ]
    memory.BENCHMARK.plot(rows, tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(PNG)


def _run(
    name: str, capsys: pytest.CaptureFixture[str], picture: Path, *options: str
) -> list[dict[str, dict[str, object]]]:
    """Return the rows that a benchmark prints; it has drawn its picture, too."""
    assert Options().quick
    assert command.main([name, "--quick", "--json", "--plot", str(picture), *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["benchmark"] for row in rows} == {name}
    assert picture.read_bytes().startswith(PNG)
    return rows
