"""`try_query`: what a query would have matched on the kept documents; nothing else changes."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples, until, usually
from tests.oracle.queries import Case
from tests.strategies import language as drawn
from tests.xscl.engine.player import Player
from tests.xscl.engine.player import pushed as document_of
from tests.xscl.stored_tables import stored_tables
from xscl import Document, Engine, Match
from xscl.engine.match_log import MatchLog
from xscl.errors import Stopping
from xscl.inspection import replay
from xscl.store.store_errors import StoreClosed
from xscl.subscriptions.matches import Matches

D = 86_400_000_000
PAIR = "S//a->x FOLLOWED BY{x=y, 3 d} S//b->y"
Found: TypeAlias = "Counter[tuple[tuple[str, ...], str, bytes, int, int]]"


def keep(engine: Engine, *streams: str) -> None:
    """Keep all documents of some streams in an engine."""
    for stream in streams:
        query = f"{stream}//*->k JOIN{{k=n}} T//none->n"
        engine.subscribe(f"keeper of {stream}", query, updates=True)


def reader(matches: Sequence[Match]) -> MatchLog:
    """Return a reader of the documents of matches in the store."""
    assert isinstance(matches, Matches)
    assert isinstance(matches.source.tree, partial)
    found = getattr(matches.source.tree.func, "__self__", None)
    assert isinstance(found, MatchLog)
    return found


def found(matches: Iterable[Match]) -> Found:
    """Return all that matters of matches but for the name of their subscription."""
    return Counter(
        (match.documents, str(sorted(match.bindings.items())), match.xml(), match.t0, match.t1)
        for match in matches
    )


def tables(engine: Engine) -> Mapping[str, list[Any]]:
    """Return the rows of every table, the engine's and those of its stages."""
    with closing(engine.connect()) as store:
        found = stored_tables(store)
    assert {"document", "subscription", "text"} <= found.keys()
    return {name: sorted(map(str, rows.to_pylist())) for name, rows in found.items()}


def text(name: str, day: int, root: str, **more: Any) -> Document:
    return Document("S", name, day * D, f"<{root}>u</{root}>".encode(), **more)


def documents(matches: Iterable[Match]) -> list[tuple[str, ...]]:
    return sorted(match.documents for match in matches)


# -- What would have been ------------------------------------------------------------------


AFTER_ALL = 1_000_000
"""A time after those that are drawn, and after their windows."""

KINDS: Mapping[str, st.SearchStrategy[Case]] = {
    "histories": drawn.histories(),
    "chains": drawn.chains(),
    "residuals": drawn.residuals(),
    "functions": drawn.functions(),
    "ordered": drawn.ordered(),
    "mixes": drawn.mixes(),
}


def delivered(query: str, pushed: Sequence[Document], lateness: Mapping[str, int]) -> Found:
    """Return the matches of a query that is registered from the beginning."""
    with Engine() as engine:
        for stream, ticks in lateness.items():
            engine.stream(stream, lateness=ticks)
        engine.subscribe("q", query)
        for document in pushed:
            engine.push(document)
        engine.flush()
        return found(engine.matches())


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories"))
def test_a_query_finds_what_it_would_have_matched(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = Counter[bool]()

    @examples(2)
    @given(KINDS[kind], st.sampled_from((1, 2, 1_000)))
    def property_holds(case: Case, batch: int) -> None:
        monkeypatch.setattr(replay, "BATCH", batch)
        pushed = [document_of(one) for one in case.documents]
        # Much later: a trial knows no absence whose deadline has not come.
        pushed += [Document(stream, "last", AFTER_ALL, b"<last/>") for stream in case.lateness]
        with Engine() as engine:
            for stream, ticks in case.lateness.items():
                engine.stream(stream, lateness=ticks)
            keep(engine, "S", "R")
            engine.push(pushed)
            before = tables(engine)
            for subscription in case.subscriptions:
                query = subscription.query.text()
                tried = found(engine.try_query(query))
                assert tried == delivered(query, pushed, case.lateness)
                cases[bool(tried)] += 1
            assert tables(engine) == before

    property_holds()
    until(lambda: 3 * cases[True] >= cases.total(), property_holds)
    assert 3 * cases[True] >= cases.total()


@pytest.mark.hypothesis
@pytest.mark.parametrize("waiting", usually([False, True], True))
def test_a_subscription_finds_what_it_was_given(waiting: bool) -> None:
    cases = Counter[bool]()

    @examples(2)
    @given(drawn.published(waiting=waiting))
    def property_holds(case: Case) -> None:
        with Engine() as engine:
            engine.stream("S", lateness=case.lateness["S"])
            engine.stream("R", lateness=case.lateness["R"])
            keep(engine, "S", "R")
            player = Player(case)
            player.play(engine, case.events, (True,))
            player.flush(engine)
            before, kept = tables(engine), engine.matches()
            for one in engine.subscriptions:
                if one.since == 1:
                    tried = Counter(match.id for match in engine.try_query(one.name))
                    assert tried == Counter(m.id for m in kept if m.subscription == one.name)
                    cases[bool(tried)] += 1
            assert tables(engine) == before

    property_holds()
    until(lambda: cases[True] >= 3, property_holds)
    assert cases[True] >= 3


# -- By hand -------------------------------------------------------------------------------


@pytest.fixture
def engine() -> Engine:
    """An engine that keeps some documents and knows no query."""
    engine = Engine()
    keep(engine, "S")
    engine.push([text("a1", 1, "a"), text("b2", 2, "b"), text("a5", 5, "a"), text("b7", 7, "b")])
    return engine


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        (None, [("a1", "b2"), ("a5", "b7")]),
        ("6 d", [("a1", "b2"), ("a5", "b7")]),
        ("5d", [("a5", "b7")]),
        (2 * D, [("a5", "b7")]),
        (2 * D - 1, []),
        (0, []),
    ],
)
def test_since_counts_back_from_the_clock(
    engine: Engine, since: str | int | None, expected: list[tuple[str, ...]]
) -> None:
    assert documents(engine.try_query(PAIR, since)) == expected


def test_what_is_published_can_be_read_and_is_not_published_again(engine: Engine) -> None:
    engine.subscribe("pairs", f"SELECT <hit>{{x}}</hit> FROM {PAIR} PUBLISH pairs")
    keep(engine, "pairs")
    engine.push([text("a8", 8, "a"), text("b9", 9, "b")])
    (made,) = [match.id for match in engine.matches("pairs")]
    before = tables(engine)
    assert documents(engine.try_query("pairs//hit->h")) == [(made,)]
    assert len(engine.try_query("pairs")) == 3
    assert len(engine.try_query(f"{PAIR} PUBLISH pairs")) == 3
    assert tables(engine) == before


def test_a_trial_ends_when_it_is_told_to(engine: Engine) -> None:
    engine.catalog.backfills.end()
    with pytest.raises(Stopping):
        engine.try_query(PAIR)


# -- What a feed held already ----------------------------------------------------------------


def an_old_feed(engine: Engine) -> None:
    """Push a document of today, then what a feed held already: items of long ago."""
    keep(engine, "S")
    engine.subscribe("there before", PAIR)
    engine.push(text("post", 100, "a"))
    old = [text("one", 1, "a", history=True), text("two", 3, "b", history=True)]
    engine.push([*old, text("three", 9, "b", history=True)])


def test_the_private_engine_of_a_trial_is_closed_with_the_last_of_its_matches() -> None:
    with Engine() as engine:
        keep(engine, "S")
        engine.push([text("a", 1, "a"), text("b", 2, "b")])
        gc.disable()
        try:
            matches = engine.try_query(PAIR)
            log, (match,) = reader(matches), matches
            del matches
            assert match.documents == ("a", "b")
            assert b"<b>" in match.xml()
            del match
            with pytest.raises(StoreClosed):
                log._store.fetch("SELECT 1")
        finally:
            gc.enable()


def test_a_trial_takes_history_in_its_own_time() -> None:
    with Engine() as engine:
        an_old_feed(engine)
        engine.push(text("slow", 2, "b"))  # no history: it comes late, as it did
        assert documents(engine.try_query(PAIR)) == [("one", "two")]
        assert engine.try_query(PAIR)[0].history
        silent = "S//a->x NOT FOLLOWED BY{x=y, 3 d} S//b->y"
        assert not engine.try_query(silent)
        engine.advance(engine.state.documents.clock + 3 * D + 1)
        assert documents(engine.try_query(silent)) == [("post",)]
