"""Retention changes no match, and expired data leaves the store."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples, usually
from tests.oracle.evaluation import matches
from tests.oracle.queries import Case, Push, Unsubscribe
from tests.strategies.language import KINDS
from tests.xscl.engine.player import CUTS, Player, agrees
from tests.xscl.planning.test_event_queries import FLAT, flat
from tests.xscl.stored_tables import stored_tables
from xscl import Document, Engine, Match
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.documents.retention import (
    DAY,
    SERVICE,
    RetainedTexts,
    Retention,
    changed_retention,
    retained_texts,
)
from xscl.engine import eviction, ingest
from xscl.ingestion.data_directory import DataDirectory
from xscl.server.serve import ServeSettings, Service
from xscl.shredding import nodes as tree_cache

PAIR = "S//a->x FOLLOWED BY{x=y, 10} S//a->y"
FILTER = "S//b->b"


def document(time: int, xml: bytes = b"<a>k</a>", name: str | None = None) -> Document:
    return Document("S", f"d{time}" if name is None else name, time, xml)


def numbers(engine: Engine, query: str) -> list[Any]:
    """Return the only column of an answer."""
    return list(engine.sql(query).column(0).to_pylist())


def size(engine: Engine, table: str) -> int:
    return int(numbers(engine, f"SELECT count(*) FROM state.{table}")[0])


def texts(engine: Engine) -> list[str]:
    """Return the ids of the documents that have a text."""
    return numbers(
        engine, "SELECT d.id FROM state.text JOIN state.document d USING (doc) ORDER BY doc"
    )


def bytes_of_texts(engine: Engine) -> int:
    return int(numbers(engine, "SELECT coalesce(sum(octet_length(xml)), 0) FROM state.text")[0])


def told(engine: Engine) -> RetainedTexts:
    with closing(engine.connect()) as store:
        return retained_texts(store)


@contextmanager
def pushed(retention: Retention, *queries: str) -> Iterator[Engine]:
    """Return an engine with some queries."""
    with Engine(retention=retention) as engine:
        for number, query in enumerate(queries):
            engine.subscribe(f"q{number}", query)
        yield engine


# -- No match changes ----------------------------------------------------------------------

AGES = st.sampled_from((0, 0, 0, 1, 2, 1000, None))
RETENTIONS = st.builds(
    Retention, history=AGES, text_bytes=st.sampled_from((0, 1, 90, 200, None)), matches=AGES
)


STEPS = st.sampled_from((None, 0, 1, 1000))
"""Ticks between two batches of a spool, or none."""


def run(
    case: Case, cuts: Sequence[bool], retention: Retention, step: int | None = None
) -> tuple[Player, list[str]]:
    """Return the delivered matches of an engine, and the ids of those it still has."""
    player = Player(case, step)
    with Engine(retention=retention) as engine:
        player.prepare(engine)
        player.play(engine, case.events, cuts)
        player.flush(engine)
        for match in engine.matches():
            assert match.xml()
        assert told(engine).text_bytes == bytes_of_texts(engine)
        return player, [match.id for match in engine.matches()]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget whatever can be forgotten, with every push."""
    monkeypatch.setattr(eviction._Horizon, "due", lambda horizon, clock, age: age is not None)
    monkeypatch.setattr(eviction.Eviction, "_pays", lambda forgetting: True)
    monkeypatch.setattr(eviction, "BOUNDED", 1)
    monkeypatch.setattr(ingest, "EVICTED_AFTER", 1)
    monkeypatch.setattr(tree_cache, "TREES", 1)  # what is read is read from its text


def matching(cases: st.SearchStrategy[Case]) -> st.SearchStrategy[Case]:
    """Return the cases with matches: the oracle tells in a tenth of the time of an engine."""
    return cases.filter(lambda case: bool(matches(case.events, case.lateness)))


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "chains", "mixes", "published in time"))
def test_no_retention_changes_a_match(kind: str, eager: None) -> None:
    @examples(2)
    @given(matching(KINDS[kind]), CUTS, RETENTIONS, STEPS)
    def property_holds(
        case: Case, cuts: list[bool], retention: Retention, step: int | None
    ) -> None:
        player, left = run(case, cuts, retention, step=step)
        agrees(player, case)
        assert len(set(left)) == len(left)
        assert set(left) <= set(player.ids)
        if retention.matches is None and not any(isinstance(e, Unsubscribe) for e in case.events):
            assert set(left) == set(player.ids)

    property_holds()


def _told_apart(case: Case) -> Case:
    """Return a case without versions: every document has an id of its own."""
    events = [
        Push(replace(event.document, id=f"{number}")) if isinstance(event, Push) else event
        for number, event in enumerate(case.events)
    ]
    return replace(case, events=tuple(events))


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "published in time"))
def test_forgetting_identities_changes_no_match_of_documents_that_come_once(
    kind: str, eager: None
) -> None:
    apart, ages = KINDS[kind].map(_told_apart), st.sampled_from((0, 1, 2))

    @examples(2)
    @given(matching(apart), CUTS, RETENTIONS, ages)
    def property_holds(case: Case, cuts: list[bool], retention: Retention, age: int) -> None:
        player, _ = run(case, cuts, replace(retention, identities=age))
        agrees(player, case)

    property_holds()


@pytest.mark.parametrize("window", ["3 ms", "30 ms"])
def test_an_event_join_makes_no_row_twice_though_its_result_was_forgotten(window: str) -> None:
    query = f"SELECT * FROM S JOIN{{$1.k = $2.k AND $1.v < $2.v, {window}}} R PUBLISH pairs"
    found: list[list[Match]] = []
    for retention in (None, Retention(matches=0, identities=0)):
        with Engine(retention=retention) as engine:
            for stream in "SR":
                engine.stream(stream, attributes=FLAT, lateness=5_000)
            engine.subscribe("pairs", query, language="cel")
            engine.subscribe("readers", "pairs//pairs->p")
            matches: list[Match] = []
            for number, time in enumerate((1, 2, 2, 3, 2, 4, 2, 9, 2, 20)):
                stream, value = ("S", 1) if number == 0 else ("R", 2)
                # the same event again, in a document of its own
                matches += engine.push(flat(number, time, "k", value, stream))
            found.append(matches)
    assert found[0] == found[1]
    assert len(found[0]) >= 6


# -- Texts ---------------------------------------------------------------------------------


def arriving(engine: Engine, number: int, days: float, *documents: Document) -> None:
    """Push a batch of a spool that arrived so many days after the first."""
    engine.push(documents, source=BatchKey(SPOOL, number, number, (), int(days * DAY)))


def test_a_feed_of_old_items_stays_when_a_newer_feed_comes() -> None:
    retention = Retention(history=30 * DAY, matches=30 * DAY, identities=30 * DAY)
    year = 365 * DAY
    with pushed(retention, "S//a->x FOLLOWED BY{x=y, 10 d} S//a->y") as engine:
        arriving(engine, 1, 0, document(0), document(5 * DAY, name="second"))
        arriving(engine, 2, 1, document(7 * year, b"<c/>"))
        assert texts(engine) == ["d0", "second", f"d{7 * year}"]
        query = "S//a->p JOIN{p=q, 10 d} S//a->q"
        found = {match.documents for match in engine.try_query(query)}
        assert found == {("d0", "second"), ("second", "d0")}
        assert [m.documents for m in engine.matches()] == [("d0", "second")]
        arriving(engine, 3, 29, document(7 * year + 1, b"<c/>"))
        assert len(texts(engine)) == 4
        arriving(engine, 4, 35, document(7 * year + 2, b"<c/>"))
        assert texts(engine) == [f"d{7 * year + 1}", f"d{7 * year + 2}"]
        assert len(engine.matches()) == 0
        assert told(engine).since == 29 * DAY


def test_without_a_history_only_what_queries_need_has_a_text() -> None:
    with pushed(Retention(), PAIR) as engine:
        engine.push([document(1, b"<b/>"), document(2), document(3, b"<c/>")])
        assert texts(engine) == ["d2"]
        assert told(engine) == RetainedTexts(1, 8, None, 2)


def test_all_texts_of_the_history_are_kept_published_ones_too() -> None:
    with pushed(Retention(history=100), f"SELECT <hit/> FROM {FILTER} PUBLISH hits") as engine:
        engine.push([document(5, b"<x/>"), document(6, b"<b/>"), document(7)])
        (match,) = engine.matches()
        assert texts(engine) == ["d5", "d6", "d7", f"hits/{match.id}"]
        assert told(engine) == RetainedTexts(4, 22, 5, 0)
        assert [m.documents for m in engine.try_query("S//a->a")] == [("d7",)]
        assert [m.documents for m in engine.try_query("hits//hit->h")] == [(match.id,)]
        assert engine.why("S//b->x JOIN{x=y} S//a->y", "d6", "d7").edges
        engine.subscribe("since", "S//x->x", since=3)
        assert [m.documents for m in engine.matches("since")] == [("d5",)]


@pytest.mark.parametrize("cut", usually([3, 7, 100], 7))
def test_texts_leave_when_they_are_older_than_the_history(cut: int) -> None:
    with pushed(Retention(history=40), PAIR, FILTER) as engine:
        stream = [document(t, b"<b/>" if t == 31 else b"<c>%d</c>" % t) for t in range(200)]
        for start in range(0, 200, cut):
            engine.push(stream[start : start + cut])
            clock = min(199, start + cut - 1)
            assert set(texts(engine)) >= {f"d{t}" for t in range(max(0, clock - 40), clock + 1)}
        left = texts(engine)
        assert left[0] == "d31"  # of a match
        assert len(left) <= 1 + 40 + 40 // 8 + 1
        assert told(engine).text_bytes == bytes_of_texts(engine)
        assert 199 - 40 - 6 <= (told(engine).since or 0) <= 159


def test_the_oldest_texts_leave_when_there_are_too_many_bytes() -> None:
    with pushed(Retention(history=None, text_bytes=800), FILTER) as engine:
        for start in range(0, 120, 3):
            tags = [b"<b>%05d</b>" if t == 10 else b"<c>%05d</c>" for t in range(start, start + 3)]
            engine.push([document(t, tag % t) for t, tag in enumerate(tags, start)])
            assert bytes_of_texts(engine) <= 800
        left = texts(engine)
        assert left[0] == "d10"  # of a match
        assert left[1:] == [f"d{t}" for t in range(120 - len(left) + 1, 120)]
        assert 58 <= len(left) <= 66  # of 12 bytes


# -- Matches -------------------------------------------------------------------------------


def test_matches_are_kept_for_so_long_and_the_positions_go_on() -> None:
    with pushed(Retention(matches=40), FILTER) as engine:
        found: list[Match] = []
        for start in range(0, 100, 2):
            found += engine.push([document(t, b"<b>%d</b>" % t) for t in (start, start + 1)])
        left = list(engine.matches())
        assert left == found[-len(left) :]
        assert 41 <= len(left) <= 41 + 40 // 8 + 2
        assert [m.position for m in left] == [m.position for m in found[-len(left) :]]
        assert list(engine.matches(after=found[-3])) == found[-2:]
        for gone in (found[0], found[20], found[20].position, 0):
            assert list(engine.matches(after=gone)) == left
        assert list(engine.matches(after=found[-1])) == []
        assert len(texts(engine)) == size(engine, "result") == len(left)


@pytest.mark.parametrize(
    ("query", "found", "later"), [(FILTER, 400, 1), (f"{FILTER} NEXT{{b = c}} S//b->c", 398, 1)]
)
def test_the_results_of_a_push_can_be_read_until_the_next_one(
    query: str, found: int, later: int
) -> None:
    with pushed(Retention(matches=0), query) as engine:
        matches = engine.push([document(t, b"<b/>") for t in range(400)])
        assert len([m.xml() for m in matches]) == len(matches) == found
        assert len(engine.push(document(1000, b"<b/>"))) == later
        assert size(engine, "result") == later


def test_a_new_subscription_over_the_past_gives_nobody_an_old_match_again() -> None:
    with pushed(Retention(history=1000, matches=40), PAIR) as engine:
        for time in range(0, 100, 5):
            batch = range(time, time + 5)
            engine.push([document(t, b"<a>%d</a>" % (t // 2)) for t in batch])
        old = [m.id for m in engine.matches()]
        last = list(engine.matches())[-1]
        engine.subscribe("late", PAIR, since=1000)
        assert [m.id for m in engine.matches("q0")] == old
        mine = engine.matches("late")
        assert [m.documents for m in mine] == [m.documents for m in engine.matches("q0")]
        engine.subscribe("other", PAIR.replace("10", "9"), since=1000)
        assert {m.subscription for m in engine.matches(after=last)} == {"late", "other"}
        assert all(m.t1 > 50 for m in engine.matches())
        assert len(engine.try_query(PAIR)) == 50


# -- Identities ----------------------------------------------------------------------------


def test_within_their_time_documents_are_recognised_and_later_they_are_new() -> None:
    with pushed(Retention(matches=10, identities=40), FILTER) as engine:
        one = document(1, b"<b>1</b>", "one")
        assert len(engine.push(one)) == 1
        assert engine.push([document(40), one]) == []
        assert engine.push(document(41, b"<b>2</b>", "one")) == []  # a new version
        engine.push(document(70))
        assert engine.push(one) == []  # the second version is young enough for both
        engine.push(document(90))
        (again,) = engine.push(one)
        assert again.documents == ("one",)
        assert numbers(engine, "SELECT id FROM documents ORDER BY id") == ["d70", "d90", "one"]
        assert numbers(engine, "SELECT documents_forgotten FROM state.progress") == [3]


def test_a_document_that_something_refers_to_is_recognised_for_ever() -> None:
    with pushed(Retention(identities=40), FILTER, PAIR.replace("10", "INF")) as engine:
        engine.subscribe("next", "S//n->x NEXT{x=y} S//m->y")
        kinds = [b"<b>1</b>", b"<a>1</a>", b"<n>1</n>", b"<c>1</c>"]
        engine.push([document(1, xml, f"{xml!r}") for xml in kinds])
        engine.push(document(1000))
        assert engine.push([document(1, xml, f"{xml!r}") for xml in kinds]) == []
        assert size(engine, "document") == 5  # the last kind is new, and not kept for long
        engine.push(document(2000))
        assert numbers(engine, "SELECT id FROM documents WHERE id LIKE '%<c>%'") == []
        engine.push(document(2001, b"<m>1</m>"))
        (match,) = engine.flush()
        assert match.documents == (f"{kinds[2]!r}", "d2001")


# -- Other tables --------------------------------------------------------------------------


@pytest.mark.parametrize("most", [16, 0])
def test_rejected_and_late_documents_are_kept_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(eviction, "BOUNDED", 1)
    with Engine(retention=Retention(rows=most)) as engine:
        engine.subscribe("next", "S//a->x NEXT{x=y} S//b->y")
        engine.push(document(1000))
        for time in range(0, 40, 2):
            names = [f"bad{time}", f"bad{time + 1}"]
            bad_ones = [document(time, b"<a", name) for name in names]
            engine.push([*bad_ones, document(time), document(time + 1)])
            assert size(engine, "late") <= most + most // 8
            assert size(engine, "rejected") <= most + most // 8
        bad = numbers(engine, "SELECT id FROM rejected")
        assert bad == [f"bad{t}" for t in range(40 - len(bad), 40)]
        assert len(bad) >= most
        late = numbers(engine, "SELECT doc FROM state.late")
        assert late == sorted(late)
        assert len(late) >= most


def test_everything_returns_to_a_steady_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row L6 of the reliability table, in small."""
    monkeypatch.setattr(eviction, "BOUNDED", 4)
    retention = Retention(history=200, matches=100, identities=200, rows=10)
    sizes: list[dict[str, int]] = []
    with Engine(tmp_path / "state.sqlite", retention=retention) as engine:
        engine.subscribe("pair", PAIR)
        engine.subscribe("chain", f"{PAIR} FOLLOWED BY{{y=z, 10}} S//a->z")
        engine.subscribe("next", "S//b->x NEXT{x=y} S//b->y PUBLISH hits")
        engine.subscribe("hits", "hits//b->h")
        for start in range(0, 1200, 100):
            batch = [document(start + t, b"<a>%d</a>" % (t // 3)) for t in range(0, 100, 2)]
            batch += [document(start + t, b"<b>%d</b>" % (t % 4)) for t in range(1, 100, 2)]
            batch += [document(start, b"<a", f"bad{start}.{n}") for n in range(3)]
            engine.push(sorted(batch, key=lambda one: one.timestamp))
            if start % 400 == 300:
                tables = stored_tables(engine.state.store)
                sizes.append({name: table.num_rows for name, table in tables.items()})
    first, *rest = sizes
    assert first["result"] > 50
    assert first["text"] > 200
    for later in rest:
        for name, rows in later.items():
            assert rows <= 1.3 * first[name] + 10, (name, first[name], rows)


# -- What was said -------------------------------------------------------------------------


def test_a_store_remembers_what_it_is_to_keep(path: Path) -> None:
    with Engine(path) as engine:
        assert engine.retention is None
    said = Retention.of(history="30 d", matches="inf", identities="1 w", text_bytes=None, rows=7)
    with Engine(path, retention=said) as engine:
        assert engine.retention == said
        assert said == Retention(30 * DAY, None, None, 7 * DAY, 7)
    with Engine(path) as engine:
        assert engine.retention == said
        engine.retain(Retention())
    with Engine(path) as engine:
        assert engine.retention == Retention()


def served(home: DataDirectory, serving: ServeSettings) -> Retention | None:
    """Run a service until it is idle; return the content of its directory."""
    until = threading.Event()
    until.set()
    Service(home, serving, lambda matches: None).run(until)
    with Engine(home.database) as engine:
        return engine.retention


def test_a_service_keeps_what_it_was_told_last(home: DataDirectory) -> None:
    serving = ServeSettings(poll_interval=0.01)
    assert served(home, serving) == SERVICE
    changed = replace(SERVICE, history=7 * DAY)
    assert served(home, replace(serving, history="7 d")) == changed
    assert served(home, replace(serving, keep_matches="inf")) == replace(changed, matches=None)
    assert served(home, serving) == replace(changed, matches=None)
    before = Retention(history=1, matches=2, identities=3, text_bytes=4, rows=5)
    assert changed_retention(before) == before
    assert changed_retention(before, None, "INF") == replace(before, matches=None)
