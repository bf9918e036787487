"""Documents that come too late are counted and shown, with who may have missed them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xscl
from tests.examples import MORE, examples
from tests.oracle.composites import Composite, in_time, kept
from tests.oracle.evaluation import Arrival, arrivals, registrations, replay
from tests.oracle.queries import (
    Case,
    FollowedBy,
    Join,
    Query,
    subscribed_first,
)
from tests.oracle.steps import Block
from tests.strategies.language import histories, joins
from tests.xscl.engine.player import Player

Missed = set[tuple[str, str]]
"""Documents and subscriptions that may have missed them."""


def test_a_document_behind_the_lateness_is_in_late_and_still_joined(engine: xscl.Engine) -> None:
    engine.stream("S", lateness=2)
    engine.subscribe("next", "S//a[./k->x] NEXT{x = y} S//b[./k->y]")
    engine.subscribe("pairs", "S//a[./k->x] FOLLOWED BY{x = y, 9} S//b[./k->y]")
    engine.push(
        [
            xscl.Document("S", "b", 8, b"<b><k>1</k></b>"),
            xscl.Document("S", "in time", 6, b"<a><k>1</k></a>"),
            xscl.Document("S", "late", 5, b"<a><k>1</k></a>"),
        ]
    )
    found = [(m.subscription, m.documents) for m in (*engine.matches(), *engine.flush())]
    assert sorted(found) == [
        ("next", ("in time", "b")),
        ("pairs", ("in time", "b")),
        ("pairs", ("late", "b")),
    ]
    (row,) = engine.sql("SELECT * EXCLUDE streams FROM late").to_pylist()
    assert row == {
        "docid": "late",
        "id": "late",
        "timestamp": 5,
        "watermark": 6,
        "behind": 1,
        "missed": ["next", "pairs"],
    }


# -- What joins may have missed ------------------------------------------------------------


def happened(case: Case) -> xscl.Engine:
    """An engine after a history."""
    engine, player = xscl.Engine(), Player(case)
    player.prepare(engine)
    player.play(engine, case.events, (True,))
    return engine


def told(engine: xscl.Engine) -> Missed:
    rows = engine.sql("SELECT docid, unnest(missed) AS name FROM late").to_pylist()
    return {(row["docid"], row["name"]) for row in rows}


def may_have_missed(query: Query, row: Arrival, lateness: Mapping[str, int]) -> bool:
    """By the definitions: would some earlier arrival have matched in time, but be kept no more?"""
    joined = query.expression
    if not isinstance(joined, Join | FollowedBy) or joined.window is None:
        return False
    sides = joined.left, joined.right
    streams = [side.stream for side in sides if isinstance(side, Block)]
    late = max(lateness.get(stream, 0) for stream in streams)
    time, came = row.document.timestamp, row.place
    here = _at(time, came, row.clock)
    reach = joined.window + 1
    for earlier in range(time - reach, time + reach + 1):
        there = _at(earlier, -1, earlier)
        for stream, pair in zip(streams, ((here, there), (there, here)), strict=True):
            timely = stream in row.document.streams and in_time(joined, *pair)
            if timely and not kept(*pair, joined.window, late):
                return True
    return False


def _at(time: int, rank: int, clock: int) -> Composite:
    """A row of one document that came at a place in the order of arrival."""
    return Composite((), {}, time, time, rank, rank, clock, rank)


def expected(case: Case) -> Missed:
    found: Missed = set()
    rows = arrivals(case.events)
    for subscription, start, end in registrations(case.events):
        if end == math.inf:
            found |= {
                (row.id, subscription.name)
                for row in rows
                if row.place > start
                and (subscription.updates or row.version == 1)
                and may_have_missed(subscription.query, row, case.lateness)
            }
    return found


@examples(4)
@given(histories())
def test_who_may_have_missed_a_document_is_told_by_the_definition(case: Case) -> None:
    with happened(case) as engine:
        assert told(engine) == expected(case)


@examples(4)
@given(joins(), st.randoms(use_true_random=False))
def test_a_match_lost_to_the_order_of_arrival_is_told_by_its_last_document(
    case: Case, dice: random.Random
) -> None:
    documents = list(case.documents)
    dice.shuffle(documents)
    shuffled = Case(subscribed_first(case.subscriptions, documents), case.lateness)
    found = replay(shuffled.events, case.lateness).keys()
    documents.sort(key=lambda document: document.timestamp)
    by_time = subscribed_first(case.subscriptions, documents)
    lost = replay(by_time, case.lateness).keys() - found
    places = {row.id: row.place for row in arrivals(shuffled.events)}
    with happened(shuffled) as engine:
        missed = told(engine)
    for name, ids, _ in lost:
        assert (max(ids, key=places.__getitem__), name) in missed


@pytest.mark.hypothesis
def test_the_histories_have_late_documents() -> None:
    """The coverage of the two properties: the number of pairs of document and subscription."""
    found = Counter[str]()

    @settings(max_examples=100 * MORE, derandomize=True, database=None)
    @given(histories())
    def count(case: Case) -> None:
        pairs = expected(case)
        rows = {row.id: row for row in arrivals(case.events)}
        queries = {one.name: one.query for one in case.subscriptions}
        found["late"] += bool(pairs)
        found["in time"] += any((name, one) not in pairs for name in rows for one in queries)
        found["followed"] += any(
            isinstance(queries[name].expression, FollowedBy) for _, name in pairs
        )

    count()
    assert found["late"] >= 5
    assert found["followed"] >= 1


# -- Watermarks ----------------------------------------------------------------------------


def test_watermarks_say_for_each_stream_what_is_late_and_how_much_was(engine: xscl.Engine) -> None:
    engine.stream("S", lateness=2)
    engine.subscribe("q", "S//a[./k->x] JOIN{x = y, 9} R//b[./k->y]")
    engine.subscribe("p", "SELECT <c/> FROM S//a PUBLISH made")
    nothing = engine.sql("SELECT DISTINCT clock, watermark, documents FROM watermarks")
    assert nothing.to_pylist() == [{"clock": None, "watermark": None, "documents": 0}]
    for id_, stream, time in (
        ("1", "S", 9),
        ("2", "S", 7),
        ("3", ("S", "T"), 6),
        ("4", "R", 8),
    ):
        engine.push(xscl.Document(stream, id_, time, b"<a><k>1</k></a>"))
    engine.push(xscl.Document("T", "5", 10, b"<a>"))
    rows = engine.sql("SELECT * EXCLUDE live FROM watermarks").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("R", 0, 9, 9, 1, 1, 0),
        ("S", 2, 9, 7, 3, 1, 0),
        ("T", 0, 9, 9, 1, 1, 1),
        ("made", 2, 9, 7, 3, 1, 0),
    ]
    (row,) = engine.sql("SELECT * FROM rejected").to_pylist()
    assert (row["stream"], row["id"], row["line"], row["timestamp"]) == ("T", "5", 1, 9)
    published = engine.sql("SELECT published, count(*) AS n FROM documents GROUP BY ALL")
    assert sorted(map(tuple, (row.values() for row in published.to_pylist()))) == [
        (False, 4),
        (True, 3),
    ]


def test_what_is_published_from_a_late_document_is_late_too(engine: xscl.Engine) -> None:
    engine.subscribe("p", "SELECT <c/> FROM S//a PUBLISH made")
    engine.subscribe("q", "made//c->x JOIN{x = y, 5} made//c->y")
    engine.push(xscl.Document("S", "1", 40, b"<a/>"))
    engine.push(xscl.Document("S", "2", 30, b"<a/>"))
    assert {name for _, name in told(engine)} == {"q"}
    engine.unsubscribe("q")
    assert told(engine) == set()
