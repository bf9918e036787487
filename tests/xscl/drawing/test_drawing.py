"""Drawings of plans, queries and what happens over time."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise

import pytest
from lxml import etree

import xscl
from xscl.drawing.charts import (
    MOST_OF_SERIES,
    Chart,
    TimelineEvent,
    chart_of,
    draw_chart,
    draw_series,
    draw_sparkline,
    draw_timeline,
)
from xscl.drawing.plans import MOST, draw_plan, largest, shares
from xscl.drawing.queries import draw_query
from xscl.drawing.svg import NAMESPACE, printable
from xscl.engine.throughput import LOOK, OVER, PlanThroughput
from xscl.planning.compile import compile_query
from xscl.planning.plan_graph import PlanGraph, PlanNode
from xscl.web.gallery import cases
from xscl.web.samples import subscriptions


def test_the_plan_has_streams_scans_templates_and_operators(engine: xscl.Engine) -> None:
    engine.subscribe_many(subscriptions().items())
    engine.subscribe(
        "next", "weather//item->a[./title->t] NEXT{t = u} weather//item->b[./title->u]"
    )
    graph = engine.plan()
    kinds = {node.kind for node in graph.nodes}
    assert {"stream", "xpath_scan", "template"} < kinds
    assert sum(node.operators for node in graph.nodes if node.kind == "template") == 7
    names = {node.name for node in graph.nodes}
    assert names.issuperset(end for edge in graph.edges for end in edge)
    read = {target for source, target in graph.edges if source == "weather"}
    assert read == {"xpath_scan#1"}
    other = graph.renamed(lambda name: f"alice: {name}")
    assert {"alice: weather", "xpath_scan#1"} < {node.name for node in other.nodes}
    assert ("alice: weather", "xpath_scan#1") in other.edges
    svg = etree.fromstring(draw_plan(graph).svg())
    texts = {each.text for each in svg.iter(f"{{{NAMESPACE}}}text")}
    assert names <= texts


def test_an_empty_plan_is_an_empty_picture() -> None:
    assert etree.fromstring(draw_plan(xscl.Engine().plan()).svg()).get("role") == "img"


def test_of_a_large_plan_the_largest_part_is_drawn() -> None:
    nodes = tuple(PlanNode(f"n{i}", "select", i) for i in range(5 * MOST))
    graph = PlanGraph(nodes, tuple((a.name, b.name) for a, b in pairwise(nodes)))
    part = largest(graph)
    assert [node.name for node in part.nodes] == [f"n{i}" for i in range(4 * MOST, 5 * MOST)]
    assert len(part.edges) == MOST - 1


def test_nodes_say_what_has_passed_them(engine: xscl.Engine) -> None:
    engine.subscribe("pair", "S//a[./t->t] FOLLOWED BY{t = u, 1 h} S//b[./t->u] PUBLISH pairs")
    engine.subscribe("next", "pairs//a->x NEXT S//b->y")
    assert all(node.rows == 0 == node.rate for node in engine.plan().nodes)
    for number, text in enumerate(("<a><t>1</t></a>", "<b><t>1</t></b>", "<b><t>1</t></b>")):
        engine.push(xscl.Document("S", f"d{number}", number * 1_000_000, text.encode()))
    engine.flush()
    rows = {node.name: node.rows for node in engine.plan().nodes}
    by_kind = {node.kind: node.rows for node in engine.plan().nodes}
    assert (rows["S"], rows["pairs"]) == (3, 2)
    assert rows["template 1"] >= 2
    assert by_kind["sequence"] == 1
    assert all(node.rate > 0 for node in engine.plan().nodes if node.rows)


def test_rates_are_those_of_the_last_minute() -> None:
    now, rows = 1_000.0, 0
    flow = PlanThroughput(lambda: now)
    graph = PlanGraph((PlanNode("S", "stream"),), ())

    def passed() -> dict[str, int]:
        return {"S": rows}

    def rate() -> float:
        return flow.rated(graph, passed()).nodes[0].rate

    def push(documents: int) -> None:
        nonlocal rows
        flow.look(passed)
        rows += documents

    assert rate() == 0
    push(30)
    now += 30
    assert rate() == 1
    push(30)
    now += 30
    assert rate() == 1
    now += OVER + LOOK
    assert rate() == 0
    push(120)
    assert rate() == 2
    now += LOOK / 2
    push(60)
    assert rate() == 3


def test_a_node_has_a_bar_of_its_share_of_the_time_and_may_be_a_link() -> None:
    nodes = [PlanNode("S", "stream", rows=90), PlanNode("idle", "select", rows=50)]
    nodes += [PlanNode("a", "select", seconds=3.0), PlanNode("b<", "join", seconds=1.0)]
    graph = PlanGraph(tuple(nodes), (("S", "a"),))
    assert shares(graph) == {"a": 0.75, "b<": 0.25}
    svg = draw_plan(graph).svg()
    assert svg.count('class="d-bar"') == 2
    assert "href" not in svg
    assert etree.fromstring(svg).get("role") == "img"
    linked = etree.fromstring(draw_plan(graph, (), lambda name: f"/at?{name}").svg())
    links = [(each.get("href"), each[0].tag) for each in linked.iter(f"{{{NAMESPACE}}}a")]
    assert links == [(f"/at?{node.name}", f"{{{NAMESPACE}}}rect") for node in nodes]
    assert linked.get("role") == "group"  # an image would hide its links from screen readers
    assert shares(PlanGraph((), ())) == {}


# -- Pictures of queries -------------------------------------------------------------------


SVG = f"{{{NAMESPACE}}}"


def drawn(query: str, *, alone: bool = False) -> etree._Element:
    return etree.fromstring(draw_query(compile_query(query)).svg(alone=alone))


def texts(query: str) -> list[str]:
    return [each.text or "" for each in drawn(query).iter(f"{SVG}text")]


def test_both_sides_and_what_joins_them() -> None:
    assert texts("S//book[./title->t] FOLLOWED BY{t = u, 7 d} S//post[./title->u]") == [
        *("stream S", "book", "title → t", "stream S", "post", "title → u"),
        *("FOLLOWED BY", "1 w", "="),
    ]


PAIR = "S//a[./k->x] {} S//b[./k->y]"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (
            "S//a[contains(./t, 'x')]->p[./k->x] JOIN{x = y AND v > x + 1, 1 h}"
            " S//b[./k->y][./v->v]",
            ['a[contains(./t, "x")] → p', "tested on each candidate: v > (x + 1)"],
        ),
        (
            PAIR.format("FOLLOWED BY{x = y, 1 h}") + " FOLLOWED BY{y = z, 1 h} S//c[./k->z]",
            ["FOLLOWED BY", "FOLLOWED BY", "what came before"],
        ),
        ("S//a->x", ["stream S"]),
        (PAIR.format("NEXT{x = y}"), ["NEXT"]),
        (PAIR.format("NOT FOLLOWED BY{x = y, 1 h}"), ["NOT FOLLOWED BY"]),
        (PAIR.format("FOLLOWED BY{x = y, 1 h}") + " ELSE", ["... ELSE"]),
    ],
)
def test_a_picture_has_its_texts(query: str, found: list[str]) -> None:
    """A residual is below; each join of a chain has a band."""
    assert Counter(found) <= Counter(texts(query))


def test_nodes_that_stage_1_settles_are_faint_and_those_of_the_match_filled() -> None:
    root = drawn("S//a[b][./k->x] JOIN{x = y, 1 h} S//c[./k->y][./l->z]")
    kinds = [each.get("class") for each in root.iter(f"{SVG}rect")]
    assert kinds.count("d-output") == 2
    assert kinds.count("d-faint") == 3


def test_everything_of_the_gallery_is_within_its_picture() -> None:
    for case in cases():
        picture = draw_query(compile_query(case.query))
        root = etree.fromstring(picture.svg())
        for each in root.iter(f"{SVG}rect"):
            assert float(each.get("x", "")) + float(each.get("width", "")) <= picture.width


def test_w9_markup_in_a_query_is_text() -> None:
    root = drawn("S//a[k = '</text><script>x</script>']->x")
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (each.text or "") for each in root.iter(f"{SVG}text"))


def test_only_a_picture_that_stands_alone_has_a_style() -> None:
    assert not list(drawn("S//a").iter(f"{SVG}style"))
    assert list(drawn("S//a", alone=True).iter(f"{SVG}style"))
    assert drawn("S//a").find(f"{SVG}title") is not None


def test_what_xml_cannot_hold_is_replaced() -> None:
    assert printable("a\x00b\x1bc") == "a\ufffdb\ufffdc"


# -- Pictures of figures over time ---------------------------------------------------------


def heights(counts: list[int]) -> list[float]:
    root = etree.fromstring(draw_sparkline(counts, "t").svg())
    return [float(one.get("height", "")) for one in root.iter("{*}rect")]


def test_a_bar_is_as_high_as_its_number_and_a_day_without_any_is_a_line() -> None:
    none, few, half, most = heights([0, 1, 50, 100])
    assert none < few < half < most
    assert most == 24
    assert heights([]) == []
    assert heights([0, 0]) == [1, 1]


def test_a_series_begins_at_its_first_time_and_tells_the_last_and_the_largest_value() -> None:
    minute = 60_000_000
    drawn = draw_series("Lag", "s", [(0, 0.5), (minute, 12.25), (2 * minute, 3.0)])
    assert drawn.title == "Lag: 3 s now, at most 12.2 s"
    assert "00:00 UTC" in drawn.svg()
    idle = draw_series("Lag", "s", [(0, 0.0), (minute, 0.0)])
    assert idle.title == "Lag: 0 s now, at most 0 s"


def test_of_many_points_the_largest_of_each_few_is_drawn() -> None:
    points = [(at, 0.0 if at % 50 else float(at)) for at in range(5_000)]
    drawn = draw_series("x", "y", points)
    (line,) = re.findall(r'<polyline points="([^"]*)"', drawn.svg())
    assert MOST_OF_SERIES // 2 < len(line.split()) <= MOST_OF_SERIES
    assert "at most 4,950 y" in drawn.title


def test_a_series_of_nothing_is_flat() -> None:
    (line,) = re.findall(
        r'<polyline points="([^"]*)"', draw_series("x", "y", [(0, 0.0), (9, 0.0)]).svg()
    )
    assert len({point.partition(",")[2] for point in line.split()}) == 1


def test_a_timeline_has_a_bar_with_words_for_each_event_and_failed_ones_are_tall() -> None:
    events = [TimelineEvent(0.1, "bar", "a < b"), TimelineEvent(0.4, "none", "c")]
    events.append(TimelineEvent(0.0, "bad", "d"))
    root = etree.fromstring(draw_timeline(events, "t").svg())
    bars = list(root.iter("{*}rect"))
    assert [one.get("class") for one in bars] == ["d-bar", "d-none", "d-bad"]
    assert [one[0].text for one in bars] == ["a < b", "c", "d"]
    short, long, failed = (float(one.get("height", "")) for one in bars)
    assert short < long == failed == 48
    assert draw_timeline([], "t").elements == ()


def test_the_first_two_columns_of_numbers_make_a_chart() -> None:
    rows = [["a", 2, 5.0], ["b", 1, None], ["c", 3, 7.5]]
    assert chart_of(["name", "n", "x"], rows) == Chart("n", "x", ((2, 5.0), (3, 7.5)))


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [[1, 2]],
        [["1", "2"], ["3", "4"]],
        [[1, "x"], [2, "y"]],
        [[True, False], [False, True]],
        [[1, math.nan], [2, 3]],
        [[1, math.inf], [2, 3]],
        [[1, None], [2, None]],
        [[10**400, 1], [2, 3]],
    ],
)
def test_anything_else_makes_none(rows: list[list[object]]) -> None:
    assert chart_of(["a", "b"], rows) is None


def test_equal_values_can_be_drawn() -> None:
    picture = draw_chart(Chart("a", "b", ((1.0, 2.0), (1.0, 2.0))))
    assert "2 points" in picture.svg()


def test_a_line_has_a_place_for_each_point() -> None:
    svg = draw_chart(Chart("a", "b", tuple((float(i), float(i * i)) for i in range(9)))).svg()
    assert svg.count("<circle") == 9


def test_instants_are_drawn_across_but_not_upwards() -> None:
    now = 1_795_516_225_132_617
    names = ["position", "timestamp", "matches"]
    rows = [(1, now, 3), (2, now + 1, 5)]
    assert chart_of(names[:2], [row[:2] for row in rows]) is None
    assert chart_of(names, rows) == Chart("position", "matches", ((1.0, 3.0), (2.0, 5.0)))
    times = [row[1:] for row in rows]
    assert chart_of(names[1:], times) == Chart("timestamp", "matches", ((now, 3.0), (now + 1, 5.0)))
