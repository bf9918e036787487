"""Calendars in an engine: instants follow from the documents and the clock, however they come."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.ingestion.test_heartbeat import Place
from xscl.delivery.cards import shown
from xscl.delivery.history_summary import history_summary
from xscl.documents.retention import Retention
from xscl.errors import QueryError, XsclError
from xscl.language.sentence import sentence
from xscl.subscriptions.match import Match

SECOND = 1_000_000
H = 3_600 * SECOND
SASE = "EVENT SEQ(AT '0 0 * * MON' a, !(invoice i), AT '0 9 * * MON' b) WITHIN 10 hours RETURN b.at"
BLOCK = "AT '0 0 * * MON'->t NOT FOLLOWED BY{9 h} invoice//n"


def seconds(text: str) -> int:
    """Return a time of November 2026 in seconds."""
    return int(datetime.fromisoformat(f"2026-11-{text}+00:00").timestamp())


def invoice(text: str, stream: str = "invoice") -> Document:
    """Return an invoice whose number is its time."""
    xml = f"<invoice><n>{text}</n></invoice>".encode()
    return Document(stream, f"{stream} {text}", seconds(text) * SECOND, xml)


TIMES = ("15 12:00", "16 08:59", "22 10:00", "23 09:01", "23 09:30", "29 12:00", "30 08:00")
INVOICES = tuple(map(invoice, (*TIMES, "30 09:00", "30 12:00")))


@pytest.fixture
def engine(engine: xscl.Engine) -> xscl.Engine:
    """An engine that knows the attributes of invoices."""
    engine.stream("invoice", attributes={"n": str}, live=True)
    return engine


@pytest.fixture
def place(engine: xscl.Engine, spool: Spool) -> Place:
    return Place(engine, spool)


def test_instants_occur_while_nothing_comes(place: Place) -> None:
    place.engine.subscribe("sase", SASE, language="sase")
    assert "AT '0 9 * * MON': At 09:00 on Monday, UTC" in str(place.engine.explain("sase"))
    place.send(invoice("22 10:00"))
    assert place.at(seconds("22 23:00")) == []
    assert place.at(seconds("23 00:01")) == []
    assert place.at(seconds("23 09:00")) == []
    written = place.spool.latest()
    (found,) = (place.at(seconds("23 09:00") + 1), place.engine.matches())[1]
    assert (instant_in(found, "at"), found.history) == ("2026-11-23T09:00:00+00:00", False)
    assert place.spool.latest() == written + 1
    place.at(seconds("23 10:00"))
    assert place.spool.latest() == written + 1, "nobody waits before the next Monday"


@pytest.mark.parametrize(
    "query",
    [
        "AT '0 9 * * MON'->t FOLLOWED BY{1 h} invoice//n",
        "AT '0 9 * * MON'->t JOIN{20 h} invoice//n PUBLISH near",
        "invoice//n FOLLOWED BY{2 d} AT '0 9 * * MON'->t",
    ],
)
def test_why_agrees_with_the_matches_of_a_calendar(engine: xscl.Engine, query: str) -> None:
    engine.subscribe("texts", "invoice//n->x")
    engine.subscribe("live", query.partition(" PUBLISH")[0])
    engine.push(INVOICES)
    engine.subscribe("history", query, history=True)
    for name in ("live", "history"):
        matched = {(one.id,) for one in INVOICES if engine.why(name, one.id).matched}
        assert matched == {one.documents for one in engine.matches(name)} != set()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("AT '0 9 * *'->t", 5, "five or six fields, not 4"),
        ("S//a FOLLOWED BY{1 d} AT '0 9 * * MOX'->t", 35, "'MOX' is no day of week"),
        ("S JOIN{1 d} AT '0 9 * * *' ZONE 'Europe/Berln'->t", 34, "there is no time zone"),
        ("AT'0 9 * * MON'->t", 6, "found '9'"),
        ("AT '0 9 * * MON'//a", 17, "found '//a'"),
        ("AT '0 9 * * MON'->t JOIN{1 d} S//a->t", 37, "bound twice"),
        ("AT '0 9 * * MON'->t NOT FOLLOWED BY S//a", 21, "needs a window"),
    ],
)
def test_a_wrong_calendar_is_refused_with_its_place(text: str, place: int, message: str) -> None:
    with xscl.Engine() as engine, pytest.raises(QueryError, match=re.escape(message)) as caught:
        engine.subscribe("q", text)
    assert caught.value.column == place
    if message == "found '9'":
        assert "AT '0 9 * * MON'->t" in str(caught.value.hint)


def test_two_instants_are_two_matches(engine: xscl.Engine) -> None:
    """Also with DISTINCT; and an instant is never paired with itself."""
    hourly = "AT '0 * * * *'"
    engine.subscribe("near", f"SELECT DISTINCT * FROM invoice//n JOIN{{2 h}} {hourly}->t")
    engine.subscribe("pairs", f"{hourly}->t JOIN{{1 h}} {hourly}->u")
    engine.push([invoice("22 10:30"), invoice("22 12:30")])
    near = sorted(instant_in(one, "t")[11:13] for one in engine.matches("near"))
    assert near == ["11", "11", "12", "12"]
    assert len({one.id for one in engine.matches("near")}) == 4
    pairs = [(instant_in(one, "t"), instant_in(one, "u")) for one in engine.matches("pairs")]
    assert [(t[11:13], u[11:13]) for t, u in sorted(pairs)] == [("11", "12"), ("12", "11")]


def test_why_knows_which_version_has_a_match_of_a_calendar(engine: xscl.Engine) -> None:
    def come(name: str, day: int) -> None:
        engine.push(Document("S", name, (24 * day + 10) * H, b"<a/>"))
        engine.advance((24 * day + 20) * H)

    engine.subscribe("texts", "S//a->x")
    engine.subscribe("q", "S//a FOLLOWED BY{3 h} AT '0 12 * * *'->t")
    come("first", 1)
    engine.edit("q", "S//a FOLLOWED BY{4 h} AT '0 12 * * *'->t")
    come("second", 2)
    engine.edit("q", paused=True)
    come("paused", 3)
    engine.edit("q", paused=False)
    assert [engine.why("q", name).matched for name in ("first", "second")] == [True, True]
    lost = engine.why("q", "paused")
    assert not lost.matched
    assert "it was paused" in str(lost)


def test_why_tells_the_sides_before_an_instant_apart(engine: xscl.Engine) -> None:
    for stream in ("S", "T"):
        engine.subscribe(stream, f"{stream}//a->x")
    engine.subscribe("q", "(S//a JOIN{1 h} T//a ELSE) FOLLOWED BY{9 h} AT '0 12 * * *'->t")
    engine.push(Document("S", "d", 10 * H, b"<a/>"))
    engine.advance(20 * H)
    for asked in (("d",), ("d", "-")):
        why = engine.why("q", *asked)
        assert (why.matched, why.documents) == (True, ("d", "-"))
    assert not engine.why("q", "-", "d").matched


def test_matches_of_instants_are_told(engine: xscl.Engine) -> None:
    """An instant is a value of the match, and an element of its document."""
    engine.subscribe("block", BLOCK)
    engine.subscribe("each", "SELECT <due by='{t}'/> FROM AT '0 9 * * MON'->t PUBLISH due")
    engine.subscribe("due", "SELECT by FROM due", language="cel")
    engine.push(INVOICES)
    block, *rest = engine.matches("block")
    assert not rest
    assert (instant_in(block, "t"), block.documents, block.history) == (
        "2026-11-23T00:00:00+00:00",
        (),
        False,
    )
    assert block.xml() == b"<result><at>2026-11-23T00:00:00+00:00</at></result>"
    assert block.t1 - block.t0 == 9 * 3_600 * SECOND
    due = [instant_in(one, "by")[:10] for one in engine.matches("due")]
    assert due == ["2026-11-16", "2026-11-23", "2026-11-30"]
    view = shown(block, "block")
    assert [(one.name, one.text) for one in view.values] == [("t", instant_in(block, "t"))]
    assert "2026-11-23" in view.summary


def test_a_match_of_instants_alone_has_no_documents_in_sql(engine: xscl.Engine) -> None:
    engine.subscribe("block", BLOCK)
    engine.push(INVOICES)
    (match,) = engine.matches("block")
    (row,) = engine.sql("SELECT documents, docids, history FROM matches").to_pylist()
    assert row == {"documents": [], "docids": [], "history": False}
    assert match.documents == ()
    assert match.id not in history_summary([match], "30 d")


@pytest.mark.parametrize("history", [True, False])
def test_sql_says_of_a_match_what_it_says_itself(engine: xscl.Engine, history: bool) -> None:
    """Rows of events have no documents; with an instant or over time they are no history."""
    engine.stream("S", attributes={"k": str})
    calendar = "AT '* * * * * *'"
    queries = {
        "row": ("SELECT * FROM S", "cel"),
        "run": ("EVENT SEQ(S a, S b) WHERE a.k = b.k WITHIN 9 s", "sase"),
        "instant": (f"SELECT * FROM {calendar}", "cel"),
        "pair": (f"SELECT * FROM S NEXT {calendar}", "cel"),
        "document": (f"S//i->a JOIN{{9 s}} {calendar}->t", "xscl"),
        "alone": (f"{calendar}->t JOIN{{0 s TO 1 s}} S//i->a ELSE", "xscl"),
        "documents": ("S//i[./k->a] FOLLOWED BY{a = b, 9 s} S//i[./k->b]", "xscl"),
    }
    for name, (query, language) in queries.items():
        engine.subscribe(name, query, language=language)
    for number in range(4):
        xml = f"<i><k>{number % 2}</k></i>".encode()
        engine.push(xscl.Document("S", f"d{number}", number * SECOND, xml, history=history))
    engine.flush()
    rows = engine.sql("SELECT * FROM matches").to_pylist()
    told = [(row["subscription"], row["docids"], row["history"]) for row in rows]
    matches = list(engine.matches())
    assert told == [(one.subscription, list(one.names), one.history) for one in matches]
    assert {one.subscription for one in matches} == queries.keys()
    assert {name for name, _, is_history in told if is_history} == (
        {"row", "document", "alone", "documents"} if history else set()
    )


def instant_in(match: Match, name: str) -> str:
    """Return the local time that a variable of a match has."""
    return str(match.bindings[name][0].value)


def test_a_query_with_a_calendar_is_tried_and_explained(engine: xscl.Engine) -> None:
    engine.retain(Retention(history=None))
    engine.push(INVOICES)
    text = BLOCK
    assert [instant_in(one, "t")[:10] for one in engine.try_query(text)] == ["2026-11-23"]
    assert not list(engine.try_query(text, since="2 d"))
    soon = "AT '0 9 * * MON'->t FOLLOWED BY{1 h} invoice//n"
    found = {one.documents[0] for one in engine.try_query(soon)}
    assert found == {"invoice 23 09:01", "invoice 23 09:30"}
    assert engine.why(soon, "invoice 23 09:01").matched
    assert not engine.why(soon, "invoice 30 12:00").matched
    assert engine.why(text).closest is None
    with pytest.raises(XsclError, match="no documents to ask about"):
        engine.why(text, "invoice 23 09:01")
    explained = str(engine.explain(soon))
    assert "AT '0 9 * * MON': At 09:00 on Monday, UTC" in explained
    assert "nothing has come" not in explained
    assert sentence(soon).startswith("Tell me when an instant at 09:00 on Monday, UTC is foll")
