"""The benchmarks themselves: right results on tiny inputs, seeded generators, stable names."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import get_args

import pytest

from benchmarks import __main__ as command
from benchmarks import (
    capacity,
    cayuga,
    double_top,
    feed_patterns,
    feed_readers,
    harness,
    kept_bytes,
    memory,
    mmqjp,
    mmqjp_complex,
    next_cep,
    patterns,
    peer_systems,
    peers,
    register,
    rss,
    rumor,
    stage1,
    text_joins,
    views,
    window_joins,
)
from benchmarks.blocks import AUCTIONS, ITEMS, PREFIXES, shuffled
from benchmarks.catalog import BENCHMARKS
from benchmarks.event_workloads import TEMPLATES, Pattern
from benchmarks.feed_items import CHANNEL, CHANNELS, channel_url, items
from benchmarks.harness import Options, ResultsDiffer
from benchmarks.mmqjp import JoinQuery, flat, measure, random_queries
from benchmarks.next_cep import KINDS, MANY, PLACEMENTS, Kind
from benchmarks.query_shapes import Kind as Shapes
from benchmarks.runtime_stack import BASIC
from benchmarks.sase_workload import Table1, events, query, side, warmed
from tests.examples import usually
from xscl.language.parser import parse
from xscl.language.syntax import Block
from xscl.shredding.automaton.pattern import pattern

TINY = stage1.Plan((10, 20), 20, 10, 10)


@pytest.fixture
def pilot(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best form of the baseline is looked for with few queries."""
    monkeypatch.setattr(mmqjp, "PILOT", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("pilot")
def test_both_sides_of_mmqjp_flat_find_the_same() -> None:
    schema = flat(3)
    measured = measure(schema, random_queries(schema.leaves, 40, 0.8, 3, seed=1), sample=20)
    assert measured.templates == 3
    assert measured.matches >= measured.rows > 0


@pytest.mark.slow
@pytest.mark.usefixtures("pilot")
def test_queries_that_join_equal_places_match() -> None:
    schema = flat(3)
    queries = [JoinQuery((1, 2), (1, 2)), JoinQuery((1, 2), (2, 1)), JoinQuery((3,), (3,))]
    measured = measure(schema, [*queries, queries[0]])
    assert (measured.rows, measured.matches, measured.distinct) == (2, 3, 3)


def test_a_difference_is_reported() -> None:
    with pytest.raises(ResultsDiffer, match="1 results too many, 0 too few, such as 'b'"):
        harness.require_equal(["a", "b"], ["a"], "letters")
    with pytest.raises(ResultsDiffer, match="0 results too many, 1 too few"):
        harness.require_equal(["a"], ["a", "a"], "multisets")


VERIFIED: dict[str, Callable[[], int]] = {
    "rss a": partial(rss.verify, "a", "INF", subscriptions=40, count=120),
    "rss b": partial(rss.verify, "b", "1 d", subscriptions=40, count=120),
    "rumor": rumor.verify,
    **{
        f"cayuga {name}": partial(cayuga.verify, name, events=150 if name[0] == "N" else 300)
        for name in TEMPLATES  # the matches of those without determinism grow quickly
    },
    **{f"feed patterns {one}": partial(feed_patterns.verify, one) for one in get_args(Pattern)},
    **{f"next {kind}": partial(next_cep.verify, kind, 5, 4, 3.0) for kind in KINDS},
    **{f"register {kind}": partial(register.verify, kind, 12, 60) for kind in get_args(Shapes)},
}
"""Both sides of a benchmark find the same before they are timed, and something."""


@pytest.mark.parametrize("name", usually(VERIFIED, "rss a"))
def test_both_sides_find_the_same(name: str) -> None:
    assert VERIFIED[name]() > 0


@pytest.mark.parametrize("mix", usually([*ITEMS, *AUCTIONS], "mixed", "auction paths"))
def test_blocks_select_what_xpath_selects(mix: str) -> None:
    workload = stage1.Workload(mix, TINY)
    side = workload.side(120)
    assert len(set(side.blocks)) == 120
    assert stage1.verify(side, workload.next(60)) > 0
    some = side.blocks[:: 120 // 20]
    prefixes = "".join(f'NAMESPACE {p} = "{uri}" ' for p, uri in PREFIXES.items())
    for block in some:
        parsed = parse(f"{prefixes} {stage1.STREAM}{block.text()}").expression
        assert isinstance(parsed, Block)
        assert pattern(parsed) == pattern(block.pair(stage1.STREAM)[1])


@pytest.mark.slow
@pytest.mark.parametrize("mix", ITEMS)
def test_at_least_ten_blocks_match_an_item_and_idle_ones_none(mix: str) -> None:
    workload = stage1.Workload(mix, TINY)
    assert stage1._warm(stage1.Side(shuffled(workload.mix)), workload.next(40)) >= 10
    assert stage1._warm(workload.side(300, idle=True), workload.next(40)) == 0


def test_both_evaluators_of_a_window_join_find_the_same() -> None:
    stage_2, core = window_joins.compared(150, 25)
    assert (stage_2.parameters["evaluator"], core.parameters["evaluator"]) == ("stage 2", "core")
    assert stage_2.figures["matches"] == core.figures["matches"] != 0


def test_the_list_names_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    printed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == list(BENCHMARKS)
    names = (
        "mmqjp-flat mmqjp-complex views rss stage1 pipeline spark cayuga "
        "double-top feed-patterns rumor sase service capacity next noisy-neighbour patterns "
        "register backfill memory text-joins window-joins peers polling "
    )
    assert printed == names.split()


def test_all_readers_of_feeds_find_the_same_entries() -> None:
    rows = list(feed_readers.compared("peers", 2, 4))
    measured = [row for row in rows if "failure" not in row.figures]
    assert [row.parameters["variant"] for row in measured] == list(feed_readers.readers())
    assert measured[0].figures["ratio"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("query", text_joins.QUERIES)
def test_joins_by_texts_find_what_a_test_of_each_pair_finds(query: str) -> None:
    row = text_joins.measured(query, 100, 30)
    assert int(str(row.figures["matches"])) > 0


@pytest.mark.parametrize("name", peer_systems.SIDES)
def test_each_peer_finds_what_looking_at_every_pair_finds(name: str, tmp_path: Path) -> None:
    stream, asked = items(400, seed=28), peers.channels(30)
    with closing(peer_systems.SIDES[name](asked, tmp_path / "side")) as side:
        for start in range(0, len(stream), 150):
            assert side.push(stream[start : start + 150]) > 0
        matches = side.matches()
    numbers = {channel_url(one): one for one in range(CHANNELS)}
    homes = [numbers[item.values[CHANNEL]] for item in stream]
    found = [
        (asked.index(pair), one.number, other.number)
        for one in stream
        for other in stream[one.number + 1 :]
        if one.values[2] == other.values[2]
        and (pair := (homes[one.number], homes[other.number])) in asked
    ]
    assert sorted(matches) == sorted(found) != []


@pytest.mark.slow
def test_peers_are_compared_in_processes(tmp_path: Path) -> None:
    plan = (peers.Batches(40, 4, 1), peers.Batches(5, 3, 1))
    rows = list(peers.compared(peer_systems.SAMPLE + 20, plan))
    figures = [row.figures for row in rows if "failure" not in row.figures]
    assert len(figures) == 2 * len(peer_systems.SIDES)
    assert all(float(str(one["ratio"])) > 0 for one in figures)
    assert {row.parameters["variant"] for row in rows} >= {"xscl", "SQLite, each", *peers.ABSENT}
    BENCHMARKS["peers"].plot(rows, tmp_path / "peers.png")
    assert (tmp_path / "peers.png").read_bytes().startswith(b"\x89PNG")


def test_the_capacity_of_the_library_is_counted_with_what_it_keeps() -> None:
    rows = list(islice(capacity.run(Options()), 3))
    documents, witnesses, matches = (row.figures for row in rows)
    assert [row.parameters["of"] for row in rows] == ["documents", "witnesses", "matches"]
    assert (documents["kept_rows"], documents["text"]) == (0, 5_000)
    assert witnesses["result"] == 0 < int(str(witnesses["binding_bytes"]))
    assert int(str(matches["result"])) > 0 < int(str(matches["result_bytes"]))


@pytest.mark.slow
def test_both_formulations_of_the_double_top_find_the_same() -> None:
    rows = list(double_top.compared(5, 4_000))
    assert {row.parameters["variant"] for row in rows} == {"mu", "resubscription"}
    (matches,) = {row.figures["matches"] for row in rows}
    assert isinstance(matches, int)
    assert matches > 0


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("form", patterns.FORMS)
@pytest.mark.parametrize("kind", ["broad", "narrow", "narrow everywhere"])
def test_patterns_by_constants_find_what_a_query_of_all_keys_finds(form: str, kind: str) -> None:
    rows = {
        row.parameters["side"]: row for row in patterns.compared(form, kind, patterns.Plan(20, 300))
    }
    assert kind == "broad" or int(str(rows[patterns.ALL].figures["matches"])) > 0
    apart = kind == "narrow everywhere"
    assert (int(str(rows[patterns.ALL].figures["mops"])) > 20) == apart


@pytest.mark.slow
@pytest.mark.parametrize("kind", MANY)
def test_each_step_of_placement_carries_more(kind: Kind) -> None:
    """Round robin, greedy, with reuse, with rewriting: on five nodes never less, at last more."""
    carried = [next_cep.carried(name, kind, 5, 1) for name in PLACEMENTS]
    assert carried == sorted(carried)
    assert carried[-1] > 2 * carried[0]


@pytest.mark.slow
def test_both_sides_of_mmqjp_complex_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmqjp, "PILOT", 2)
    schema = mmqjp_complex.three_levels(2)
    measured = measure(schema, random_queries(schema.leaves, 40, 0.8, 3, seed=1), sample=20)
    assert measured.templates > 3
    assert measured.matches >= measured.rows > 0


@pytest.mark.slow
def test_templates_are_as_many_as_in_the_paper() -> None:
    for most in (2, 3):
        row = mmqjp_complex.count_templates(400, most, 0.8, range(2009, 2012))
        apart, merged = mmqjp_complex.EXPECTED[most]
        assert row.figures["templates"] == apart
        assert row.figures["templates_merged"] == merged == mmqjp_complex.PAPER[most]


@pytest.mark.slow
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
    BENCHMARKS["views"].plot(rows, tmp_path / "views.png")
    assert (tmp_path / "views.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
@pytest.mark.parametrize("thing", usually(kept_bytes.THINGS, "instance"))
def test_one_more_of_a_thing_is_one_more_in_the_engines_counts(thing: str) -> None:
    grown = kept_bytes.measure(thing, 40)
    assert grown[memory.THINGS[thing]] == 40
