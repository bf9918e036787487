"""Calendars in an engine: instants follow from the documents and the clock, however they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import pytest

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.xscl.ingestion.test_heartbeat import Place
from xscl.documents.retention import Retention
from xscl.errors import QueryError
from xscl.subscriptions.match import Match

SECOND = 1_000_000
QUERIES = {
    "sase": (
        "sase",
        "EVENT SEQ(AT '0 0 * * MON' a, !(invoice i), AT '0 9 * * MON' b) WITHIN 10 hours"
        " RETURN b.at",
    ),
    "eql": ("eql", "SELECT A.n, B.at FROM invoice A ; AT '0 9 * * *' ZONE 'Europe/Berlin' B"),
    "join": ("cel", "SELECT n, at FROM invoice JOIN{n != 'x', 12 h} AT '30 * * * *'"),
    "published": ("cel", "SELECT at FROM AT '0 9 * * MON' PUBLISH nine"),
    "xscl": ("xscl", "nine//at->a FOLLOWED BY{2 d} invoice//n->b"),
}


def seconds(text: str) -> int:
    """Return a time of November 2026 in seconds."""
    return int(datetime.fromisoformat(f"2026-11-{text}+00:00").timestamp())


def invoice(text: str, stream: str = "invoice") -> Document:
    """Return an invoice whose number is its time."""
    xml = f"<invoice><n>{text}</n></invoice>".encode()
    return Document(stream, f"{stream} {text}", seconds(text) * SECOND, xml)


TIMES = ("15 12:00", "16 08:59", "22 10:00", "23 09:01", "23 09:30", "29 12:00", "30 08:00")
INVOICES = tuple(map(invoice, (*TIMES, "30 09:00", "30 12:00")))


def declared(engine: xscl.Engine, lateness: int = 0) -> xscl.Engine:
    """Return an engine that knows the attributes of invoices."""
    engine.stream("invoice", lateness=lateness, attributes={"n": str}, live=True)
    return engine


def subscribe(engine: xscl.Engine, **history: bool) -> None:
    """Subscribe to all queries."""
    for name, (language, text) in QUERIES.items():
        engine.subscribe(name, text, language=language, **history)


def found(engine: xscl.Engine) -> list[tuple[object, ...]]:
    """Return the matches of an engine, in an order of their own."""
    matches = engine.matches()
    return sorted(
        (one.subscription, one.t0, one.t1, one.xml(), one.history, len(one.documents))
        for one in matches
    )


def instant(match: Match) -> str:
    """Return the local time of the instant in a match."""
    return str(match.bindings["at"][0].value)


def results(pushes: Sequence[Sequence[Document]], lateness: int = 0) -> list[tuple[object, ...]]:
    """Return the matches of documents that are pushed in some batches."""
    with declared(xscl.Engine(), lateness) as engine:
        subscribe(engine)
        for batch in pushes:
            engine.push(batch)
        engine.advance(seconds("30 13:00") * SECOND)
        return found(engine)


@pytest.mark.slow
def test_batches_make_no_difference() -> None:
    whole = results([INVOICES])
    assert {name for name, *_ in whole} == QUERIES.keys()
    assert results([[one] for one in INVOICES]) == whole
    assert results([INVOICES[:4], INVOICES[4:5], INVOICES[5:]]) == whole


@pytest.mark.slow
def test_an_order_within_the_lateness_makes_no_difference() -> None:
    swapped = (*INVOICES[:3], INVOICES[4], INVOICES[3], *INVOICES[5:])
    assert results([swapped], 2 * 3_600 * SECOND) == results([INVOICES], 2 * 3_600 * SECOND)


@pytest.mark.slow
def test_an_engine_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    with declared(xscl.Engine(tmp_path / "store")) as engine:
        subscribe(engine)
    for one in INVOICES:
        with xscl.Engine(tmp_path / "store") as engine:
            engine.push(one)
    with xscl.Engine(tmp_path / "store") as engine:
        engine.advance(seconds("30 13:00") * SECOND)
        assert found(engine) == results([INVOICES])


@pytest.mark.parametrize("name", usually(["sase", "eql", "join"], "sase"))
def test_a_history_has_the_instants_of_its_time(name: str) -> None:
    """Documents of streams that the query does not read pass instants, too."""
    language, text = QUERIES[name]
    documents = [*INVOICES[:4], invoice("23 23:00", "other"), *INVOICES[4:6]]
    answers = []
    for late in (False, True):
        with declared(xscl.Engine(retention=Retention(history=None))) as engine:
            if not late:
                engine.subscribe(name, text, language=language)
            engine.push(documents)
            if late:
                engine.subscribe(name, text, language=language, since=1 << 60)
            for one in INVOICES[6:]:
                engine.push(one)
            engine.advance(seconds("30 13:00") * SECOND)
            answers.append(sorted(one.id for one in engine.matches()))
    assert answers[0] == answers[1]
    assert answers[0]


@pytest.mark.slow
def test_a_later_query_sees_later_instants_only() -> None:
    with declared(xscl.Engine()) as engine:
        text = "SELECT n, at FROM AT '0 * * * *' NEXT invoice"
        engine.subscribe("early", text, language="cel")
        engine.push(invoice("22 10:30"))
        engine.advance(seconds("22 11:30") * SECOND)
        engine.subscribe("late", text, language="cel")
        engine.push(invoice("22 12:30"))
        engine.push(invoice("22 13:30"))
        engine.advance(seconds("22 14:00") * SECOND)
        early, late = (sorted(map(instant, engine.matches(one))) for one in ("early", "late"))
        assert [one[11:13] for one in early] == ["11", "12", "13"]
        assert [one[11:13] for one in late] == ["12", "13"]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with declared(xscl.Engine()) as engine, Spool(tmp_path / "spool") as spool:
        yield Place(engine, spool)


def test_instants_occur_while_nothing_comes(place: Place) -> None:
    place.engine.subscribe("sase", QUERIES["sase"][1], language="sase")
    assert "AT '0 9 * * MON': At 09:00 on Monday, UTC" in str(place.engine.explain("sase"))
    place.send(invoice("22 10:00"))
    assert place.at(seconds("22 23:00")) == []
    assert place.at(seconds("23 00:01")) == []
    assert place.at(seconds("23 09:00")) == []
    written = place.spool.latest()
    (found,) = (place.at(seconds("23 09:00") + 1), place.engine.matches())[1]
    assert (instant(found), found.history) == ("2026-11-23T09:00:00+00:00", False)
    assert place.spool.latest() == written + 1
    place.at(seconds("23 10:00"))
    assert place.spool.latest() == written + 1, "nobody waits before the next Monday"


@pytest.mark.slow
def test_calendars_of_streams_that_are_not_live_cause_no_beats(place: Place) -> None:
    place.engine.stream("replayed", attributes={"n": str}, live=False)
    text = "SELECT n, at FROM replayed NEXT AT '0 * * * *'"
    place.engine.subscribe("q", text, language="cel")
    place.send(invoice("22 10:00", "replayed"))
    written = place.spool.latest()
    place.at(seconds("23 10:00"))
    assert place.spool.latest() == written


def test_xscl_says_how_a_calendar_is_read() -> None:
    with xscl.Engine() as engine, pytest.raises(QueryError) as caught:
        engine.subscribe("q", "S//a->x FOLLOWED BY{2 d} AT '0 9 * * MON'->m")
    assert "PUBLISH nine in CEL" in str(caught.value.hint)
