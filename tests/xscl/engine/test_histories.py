"""A subscription with a history finds what it would have found from the first document on.

The engine that it is compared with had the subscription before the documents came.  Ids are hashes
of subscription, documents and nodes, so equal ids are equal matches.
"""

from __future__ import annotations

import errno
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

import xscl
from feeds.documents import Document
from feeds.formats.times import SECOND
from tests.examples import examples, usually
from tests.oracle.queries import Case
from tests.strategies.language import KINDS
from tests.waiting import PATIENCE, beside, eventually
from tests.xscl.engine.player import Player, begin_history, pushed
from tests.xscl.failing_commits import POINTS, failing_commit, unread_after_commit
from tests.xscl.planning.test_event_languages import QUERIES
from tests.xscl.planning.test_event_queries import FLAT, flat
from xscl.documents.results import WITHOUT_PAST
from xscl.documents.retention import Retention
from xscl.engine.backfills import MOST_FAILURES, Backfills
from xscl.engine.twin import Twin
from xscl.errors import StoreError, StreamInUse, TooLong
from xscl.store.store_errors import StoreUnavailable

LONG = 1 << 60
"""A history that goes back to the first document."""
KEPT = Retention(history=None)


def ids(engine: xscl.Engine, names: Sequence[str]) -> Counter[tuple[str, str]]:
    return Counter(
        (one.subscription, one.id) for one in engine.matches() if one.subscription in names
    )


@contextmanager
def engine_of(case: Case, without: Sequence[str] = ()) -> Iterator[xscl.Engine]:
    """Return an engine with the streams and subscriptions of a case, but for some of these."""
    with xscl.Engine(retention=KEPT) as engine:
        Player(case).prepare(engine)
        for one in case.subscriptions:
            if one.name not in without:
                engine.subscribe(one.name, one.query.text(), updates=one.updates)
        yield engine


def found_from_the_first(case: Case, names: Sequence[str]) -> Counter[tuple[str, str]]:
    with engine_of(case) as engine:
        for one in case.documents:
            engine.push(pushed(one))
        engine.flush()
        return ids(engine, names)


def found_with_history(
    case: Case, names: Sequence[str], late: int, early: bool, meanwhile: int = 0
) -> tuple[Counter[tuple[str, str]], set[tuple[str, str]]]:
    """Return the matches of subscriptions that came late, and those marked as backfilled.

    `early`: equal ones were there.  So many documents arrive `meanwhile`, during the backfill.
    """
    documents = [pushed(one) for one in case.documents]
    chosen = [one for one in case.subscriptions if one.name in names]
    with engine_of(case, names) as engine:
        engine.push(documents[: late // 2])
        if early:
            for one in chosen:
                engine.subscribe(f"{one.name} too", one.query.text(), updates=one.updates)
        engine.push(documents[late // 2 : late])
        begun = [
            begin_history(engine, one.name, one.query.text(), updates=one.updates, since=LONG)
            for one in chosen
        ]
        for document in documents[late : late + meanwhile]:
            engine.push(document)
        for number in filter(None, begun):
            engine.catalog.backfills.complete(number)
        past = backfilled(engine)
        engine.push(documents[late + meanwhile :])
        engine.flush()
        assert backfilled(engine) == past
        return ids(engine, names), past


def backfilled(engine: xscl.Engine) -> set[tuple[str, str]]:
    return {(one.subscription, one.id) for one in engine.matches() if one.backfilled}


@pytest.mark.hypothesis
@pytest.mark.parametrize(
    "kind", usually(KINDS, "ordered", "published", "published in time", "mixes")
)
def test_a_history_makes_no_difference(kind: str) -> None:
    """Whatever the slices in which it is read, and whatever arrives meanwhile.

    A published document is numbered after its batch, and belongs between its documents.
    """

    @examples(4)
    @given(KINDS[kind], st.integers(0, 12), st.booleans(), st.integers(0, 3), st.integers(0, 5))
    def property_holds(case: Case, late: int, early: bool, size: int, meanwhile: int) -> None:
        names = [case.subscriptions[late % len(case.subscriptions)].name]
        try:
            expected = found_with_history(case, names, late, early)
            with slices_of(size or 1_000):
                found = found_with_history(case, names, late, early, meanwhile)
        except StreamInUse:  # its reader is there, and keeps less
            reject()
        assert found == expected
        assert found[0] == found_from_the_first(case, names)

    property_holds()


@contextmanager
def slices_of(size: int) -> Iterator[None]:
    """Read histories in slices of so many documents."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xscl.engine.backfills.LARGEST_SLICE", size)
        yield


Query = tuple[str, str]
"""A query and its language."""


def found_by_reader(
    publishers: Sequence[Query],
    reader: Query,
    before: Sequence[Sequence[Document]],
    after: Sequence[Sequence[Document]],
) -> Counter[tuple[str, str]]:
    """Return the matches of a reader that came after some pushes."""
    with xscl.Engine(retention=KEPT) as engine:
        engine.stream("S", attributes=FLAT)
        for number, (query, language) in enumerate(publishers):
            engine.subscribe(f"publisher {number}", query, language=language)
        for some in before:
            engine.push(some)
        engine.subscribe("reader", reader[0], language=reader[1], since=LONG)
        for some in after:
            engine.push(some)
        engine.flush()
        return ids(engine, ["reader"])


@pytest.mark.parametrize("size", [1, 1_000])
@pytest.mark.parametrize("together", [False, True])
def test_what_two_publishers_make_is_read_in_the_order_of_time(size: int, together: bool) -> None:
    """One of them waits for time to pass, and its reader does not read what makes time pass."""
    publishers = [
        ("SELECT <p><k>{x}</k></p> FROM S//k->x NEXT{x=y} R//k->y PUBLISH P", "xscl"),
        ("SELECT <q><k>{x}</k></q> FROM R//k->x PUBLISH P", "xscl"),
    ]
    places = (("S", 2), ("R", 3), ("R", 5), ("R", 6))
    documents = [
        Document(stream, f"d{number}", time, b"<a><k>a</k></a>")
        for number, (stream, time) in enumerate(places)
    ]
    pushes = [documents] if together else [[one] for one in documents]
    with slices_of(size):
        found = found_by_reader(publishers, ("P//k->x NEXT{x=y} P//k->y", "xscl"), pushes, [])
    assert found == found_by_reader(publishers, ("P//k->x NEXT{x=y} P//k->y", "xscl"), [], pushes)
    assert found


@pytest.mark.parametrize("change", ["pause", "edit", "late"])
def test_a_history_of_events_has_nothing_that_was_not_published(change: str) -> None:
    """A reader of the documents sees what was published."""
    query = SELECTED[0]
    documents = [flat(number, number, "a", 5) for number in range(8)]
    with xscl.Engine(retention=KEPT) as engine:
        engine.stream("S", attributes=FLAT)
        if change != "late":
            engine.subscribe("publisher", query, language="cel")
        engine.push(documents[:3])
        if change == "late":
            engine.subscribe("publisher", query, language="cel")
        elif change == "pause":
            engine.edit("publisher", paused=True)
            engine.push(documents[3:5])
            engine.edit("publisher", paused=False)
        else:
            engine.edit("publisher", query.replace("> 1", "> 9"))
            engine.push(documents[3:5])
            engine.edit("publisher", query)
        engine.push(documents[5:7])
        engine.subscribe("events", PAIRS_OF_P[0], language="cel", since=LONG)
        engine.subscribe("documents", "P//k->x NEXT{x=y} P//k->y", since=LONG)
        engine.push(documents[7:])
        engine.flush()
        times = {
            name: {(one.t0, one.t1) for one in engine.matches(name)}
            for name in ("events", "documents")
        }
    assert times["events"] <= times["documents"]
    assert (6_000, 7_000) in times["documents"]


EVENTS = {
    **QUERIES,
    "fold": ("SELECT * FROM S FOLD{$1.k = $2.k, $.v < $2.v} S", "cel"),
    "join": ("SELECT * FROM S JOIN{$1.k = $2.k, 3 ms} R", "cel"),
}
ROWS = [*zip(range(10), range(10), "abaabbaaba", range(10), "SRSSRRSRSR", strict=True)]


@pytest.mark.parametrize("late", usually([0, 3, 6, 10], 6))
@pytest.mark.parametrize("query", usually(EVENTS, "sequence", "all", "cel"))
def test_a_history_of_events_makes_no_difference(query: str, late: int) -> None:
    text, language = EVENTS[query]
    documents = [flat(*row) for row in ROWS]
    found = []
    for begun in (0, late):
        with xscl.Engine(retention=KEPT) as engine:
            for stream in "SR":
                engine.stream(stream, attributes=FLAT)
            engine.push(documents[: begun // 2])
            if begun:
                engine.subscribe("too", text, language=language)
            engine.push(documents[begun // 2 : begun])
            number = begin_history(engine, "q", text, language=language, since=LONG)
            engine.push(documents[begun : begun + 2])
            if number is not None:
                engine.catalog.backfills.complete(number)
            engine.push(documents[begun + 2 :])
            engine.flush()
            found.append(ids(engine, ["q"]))
    assert found[0] == found[1]
    assert found[0]


PAIRS_OF_P = ("SELECT * FROM P NEXT{$1.k = $2.k} P", "cel")
SELECTED = ("SELECT k FROM FILTER{v > 1}(S) PUBLISH P", "cel")
CONSTRUCTED = "SELECT <p><k>{x}</k></p> FROM S//e->r[./k->x][./v > 1] PUBLISH P"
CHAINS = {
    "events of events": [SELECTED, PAIRS_OF_P],
    "events of documents": [(CONSTRUCTED, "xscl"), PAIRS_OF_P],
    "documents of events": [SELECTED, ("P//k->x NEXT{x=y} P//k->y", "xscl")],
    "events beside their input": [SELECTED, ("SELECT * FROM P NEXT{$1.k = $2.k} S", "cel")],
    "two levels": [
        (CONSTRUCTED.replace("PUBLISH P", "PUBLISH O"), "xscl"),
        ("SELECT k FROM FILTER{k = 'a'}(O) PUBLISH P", "cel"),
        PAIRS_OF_P,
    ],
}


@pytest.mark.parametrize("late", usually([3, 5, 10], 5))
@pytest.mark.parametrize("chain", usually(CHAINS, *CHAINS))
def test_a_history_reads_what_queries_of_all_languages_have_published(
    chain: str, late: int
) -> None:
    *publishers, reader = CHAINS[chain]
    documents = [flat(*row[:4], "S") for row in ROWS]
    found = found_by_reader(publishers, reader, [documents[:late]], [documents[late:]])
    assert found == found_by_reader(publishers, reader, [], [documents])
    assert found


NEXT = "S//e->a[./k->x] NEXT{x = y} S//e->b[./k->y]"


def test_a_history_is_bounded_and_marked(path: Path) -> None:
    day = 86_400_000
    with xscl.Engine(path, retention=KEPT) as engine:
        engine.push([item(number, day * number, "a") for number in range(40)])
        engine.push([item(100 + number, day * 39, "b") for number in range(34)])
        engine.subscribe("q", NEXT, history=True)
        engine.subscribe("many", "S//e->a[./k->x] JOIN{x = y} S//e->b[./k->y]", history=True)
        assert {one.subscription for one in engine.matches("q")} == {"q"}
        first = engine.matches("q")[0].documents
        assert first == ("d9", "d10")
        assert len(engine.matches("q")) == 29
        assert len(engine.matches("many")) == 1_000
    with xscl.Engine(path) as engine:
        found = engine.push(item(40, day * 40, "a"))
        assert [one.documents for one in found if one.subscription == "q"] == [("d38", "d39")]
        assert [one.backfilled for one in engine.matches("q")] == [True] * 29 + [False]


DAY = 86_400_000_000
_A, _B = "council//item->x[./category->c]", "town//item->y[./category->d]"
_LAST = "town//item->z[./category->e]"
IN_OWN_TIME = {
    "absence": f"{_A} NOT FOLLOWED BY{{c = d, 3 d}} {_B}",
    "else": f"{_A} FOLLOWED BY{{c = d, 3 d}} {_B} ELSE",
    "next": f"{_A} NEXT{{c = d}} {_B}",
    "fold": 'SELECT <run n="{k}" of="{p}"/> FROM town//item[./n->p]'
    " FOLD{$2.p > $.p, $2.p > $.p, $.k + 1 AS k} town//item[./n->p]",
    "pair": f"{_A} FOLLOWED BY{{c = d, 3 d}} {_B}",
    "distinct": f"SELECT DISTINCT * FROM {_A} JOIN{{c = d, 9 d}} {_B}",
    "chain": f"({_A} JOIN{{c = d, 9 d}} {_B}) FOLLOWED BY{{d = e, 9 d}} {_LAST}",
    "right": f"{_A} JOIN{{c = d, 9 d}} ({_B} JOIN{{d = e, 9 d}} {_LAST})",
    "instant": f"AT '0 0 * * *'->t FOLLOWED BY{{1 d}} {_A}",
}


def items(stream: str, *rows: tuple[int, str], history: bool = True) -> list[Document]:
    """Return items of a stream: the days of their times, and their categories."""
    return [
        Document(
            *(stream, f"{stream}{at}", (100 + at) * DAY),
            f"<item><category>{name}</category><n>{at + 9}</n></item>".encode(),
            history=history,
        )
        for at, name in rows
    ]


HELD: tuple[tuple[list[Document], list[Document], list[Document]], ...] = (
    (
        items("town", (-1, "local"), (0, "tram"), (1, "tram")),
        items("council", (-5, "tram"), (-4, "bridge"), (-2, "tram")),
        [],
    ),
    (
        items("town", (-1, "local"), (0, "bridge")),
        items("council", (-5, "tram"), (-2, "tram"), (-1, "lock")),
        items("town", (1, "lock"), (2, "lock"), (9, "end"), history=False),
    ),
)
"""What two feeds held, and what one of them has later, which completes it."""


@pytest.mark.parametrize(("town", "council", "later"), HELD, ids=["alone", "completed later"])
@pytest.mark.parametrize("kind", usually(IN_OWN_TIME, "absence", "fold", "chain", "instant"))
def test_the_order_in_which_feeds_are_followed_makes_no_difference_to_history(
    kind: str, town: list[Document], council: list[Document], later: list[Document]
) -> None:
    query, found = IN_OWN_TIME[kind], []
    for first, second in ((council, town), (town, council)):
        with xscl.Engine(retention=Retention.of(history="30 d")) as engine:
            engine.push(first)
            engine.push(second)
            engine.subscribe("q", query, history=True)
            for one in later:
                engine.push(one)
            if later:
                engine.flush()  # as in a trial, the last document has no successor
            for matches in (engine.matches("q"), engine.try_query(query)):
                shown = ((m.documents, m.t0, m.t1, m.xml(), m.bindings) for m in matches)
                found.append(sorted(shown, key=str))
    assert found[0]
    assert all(one == found[0] for one in found)


def item(number: int, time: int, key: str) -> Document:
    return Document("S", f"d{number}", time * 1_000, f"<e><k>{key}</k></e>".encode())


@pytest.mark.parametrize("size", usually([72, 120], 72))
def test_histories_one_after_the_other_hold_back_no_eviction(size: int) -> None:
    """At any time one is being read: without a bound each would begin where the first one did."""
    with xscl.Engine() as engine:
        engine.retain(Retention(history=20 * SECOND))
        pending = []
        for number in range(size):
            text = f"<a>{number}</a>".encode()
            engine.push(Document("S", f"d{number}", number * SECOND, text))
            if not number % 5:
                query = "S//a->x FOLLOWED BY{x=y, 3 s} S//a->y"
                pending.append(begin_history(engine, f"q{number}", query))
            if len(pending) > 2:
                one = pending.pop(0)
                assert one is not None
                engine.catalog.backfills.complete(one)
        assert engine.state.subscriptions.backfills
        assert engine.state.eviction.texts_from > size - 50
        (row,) = engine.sql("SELECT count(*) AS texts FROM state.text").to_pylist()
        assert row["texts"] < 60


def test_a_history_that_is_too_long_is_begun_without_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The bound is the user's to know of, not a fault of the service: no error in its log."""
    monkeypatch.setattr("xscl.engine.backfills.LONGEST", -1.0)
    with xscl.Engine(retention=KEPT) as engine:
        engine.push([item(number, number, "a") for number in range(9)])
        catalog = engine.catalog
        number = begin_history(engine, "q", NEXT, since=LONG)
        assert number is not None
        engine.push([item(10 + one, 10 + one, "a") for one in range(9)])
        catalog.backfills.serve(catalog.backfills.end, catalog.begin_without_past)
        begun = engine.subscription("q")
        assert begun is not None
        assert begun.backfilled == WITHOUT_PAST
    (record,) = [one for one in caplog.records if one.name == "xscl.engine.backfills"]
    assert record.levelname == "WARNING"
    assert record.getMessage() == f"the history of subscription {number} is too long to be read"


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("goes_on", [False, True], ids=["all fails", "documents are taken"])
def test_a_history_waits_for_the_disk_as_documents_do(
    monkeypatch: pytest.MonkeyPatch, error: int, goes_on: bool
) -> None:
    """It is begun without only if nothing but the history fails."""
    with xscl.Engine(retention=KEPT) as engine:
        engine.push([item(number, number, "a") for number in range(9)])
        catalog, tried = engine.catalog, 0
        assert begin_history(engine, "q", NEXT, since=LONG) is not None
        run = Backfills._run

        def fail(*arguments: Any) -> None:
            nonlocal tried
            tried += 1
            if tried < 3 * MOST_FAILURES:
                raise StoreError("planted") from OSError(error, "planted")
            run(*arguments)

        monkeypatch.setattr(Backfills, "_run", fail)
        for number in range(3 * MOST_FAILURES):
            with suppress(StoreError):
                catalog.backfills.serve(catalog.backfills.end, catalog.begin_without_past)
                break
            if goes_on:
                engine.push(item(10 + number, 10 + number, "a"))
        begun = engine.subscription("q")
        assert begun is not None
        assert (begun.backfilled == WITHOUT_PAST) == goes_on
        assert tried == (MOST_FAILURES if goes_on else 3 * MOST_FAILURES)


@contextmanager
def reading_another(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> Iterator[threading.Event]:
    """Read histories in a thread, as a service does; the first until the event or the exit."""
    catalog, run, may_run = engine.catalog, Backfills._run, threading.Event()

    def run_when_allowed(*arguments: Any) -> None:
        assert may_run.wait(PATIENCE)
        run(*arguments)

    def serve() -> None:
        while not ended.is_set():
            with suppress(StoreError):
                catalog.backfills.serve(lambda: None, catalog.begin_without_past)

    monkeypatch.setattr(Backfills, "_run", run_when_allowed)
    begin_history(engine, "another", "T//a->x FOLLOWED BY{x = y, 1 h} T//a->y", since=LONG)
    ended = threading.Event()
    with beside(serve):
        try:
            yield may_run
            may_run.set()
            eventually(lambda: not engine.state.subscriptions.backfills)
        finally:
            may_run.set()
            ended.set()
            catalog.backfills.end()


def _commit_and_fail(engine: xscl.Engine, may_run: threading.Event) -> None:
    """Register a query, durably, whose registration raises, while no history is read."""
    may_run.set()
    eventually(lambda: not engine.state.subscriptions.backfills)

    def fail(point: str) -> None:
        if point == "after_commit":
            raise StoreError("planted")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(POINTS, fail)
        with pytest.raises(StoreError, match="planted"):
            begin_history(engine, "q", NEXT, since=LONG)


def _edit(engine: xscl.Engine, _: threading.Event) -> None:
    """Replace a query whose history is not read yet."""
    begin_history(engine, "q", "S//a->x FOLLOWED BY{x = y, 1 h} S//b->y", since=LONG)
    engine.edit("q", NEXT)


def _begun(engine: xscl.Engine) -> Future[None]:
    """Begin a history, and return the future of its end."""
    number = begin_history(engine, "q", NEXT, since=LONG)
    assert number is not None
    return engine.catalog.backfills.completion(number)


def _fail_to_remove(engine: xscl.Engine, _: threading.Event) -> None:
    """Remove it, which fails, while another history ends."""
    future = _begun(engine)
    ends = threading.Thread(target=engine.catalog.backfills._resolve)

    def end_beside() -> None:
        ends.start()
        ends.join(0.2)  # it waits for the end of the change

    with failing_commit(end_beside), pytest.raises(OSError, match="Input/output"):
        engine.unsubscribe("q")
    ends.join()
    assert not future.done()


def _fail_to_remove_and_lose(engine: xscl.Engine, _: threading.Event) -> None:
    """Remove it, after which the state cannot be read, while another history ends."""
    future = _begun(engine)
    with unread_after_commit(engine):
        with pytest.raises(StoreUnavailable):
            engine.unsubscribe("q")
        engine.catalog.backfills._resolve()
        assert not future.done()


@pytest.mark.parametrize(
    "begin", [_commit_and_fail, _edit, _fail_to_remove, _fail_to_remove_and_lose]
)
def test_a_history_that_nobody_waits_for_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    begin: Callable[[xscl.Engine, threading.Event], None],
) -> None:
    with xscl.Engine(tmp_path / "state.sqlite", retention=KEPT) as engine:
        engine.push([item(number, number, "a") for number in range(4)])
        with reading_another(engine, monkeypatch) as may_run:
            begin(engine, may_run)
        engine.push(item(4, 4, "a"))
        engine.flush()
        assert engine.subscription("q") is not None
        assert [one.documents for one in engine.matches()] == [
            (f"d{number}", f"d{number + 1}") for number in range(4)
        ]


def test_slow_slices_catch_up_with_what_arrives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice of any duration has more documents than arrive until the next one."""
    for name in ("BUSY", "IDLE", "REST"):  # any slice is too slow, and no pause is made
        monkeypatch.setattr(f"xscl.engine.backfills.{name}", 0.0)
    query = "S//a->x FOLLOWED BY{x = y, 1 h} S//a->y"
    made = 0

    def more(number: int) -> list[Document]:
        nonlocal made
        made += number
        return [Document("S", f"d{n}", n, b"<a>%d</a>" % n) for n in range(made - number, made)]

    with xscl.Engine(tmp_path / "state.sqlite", retention=KEPT) as engine:
        engine.subscribe("keeper", "S//a->x")
        engine.push(more(400))
        replay, slices = Twin.replay, 0

        def beside_pushes(twin: Twin, *arguments: Any) -> None:
            nonlocal slices
            if arguments[0] is not engine.state.store:  # which the cut-over reads, locked
                slices += 1
                assert slices < 100, "the backfill does not end"
                engine.push(more(20))
            replay(twin, *arguments)

        monkeypatch.setattr(Twin, "replay", beside_pushes)
        engine.subscribe("late", query, since=LONG)
        assert not engine.state.subscriptions.backfills


def test_a_history_that_another_thread_reads_is_not_waited_for_too_long() -> None:
    with xscl.Engine() as engine, ThreadPoolExecutor(1) as others:
        backfills = engine.catalog.backfills
        is_running, is_over = threading.Event(), threading.Event()

        def run() -> None:
            with backfills.exclusive():
                is_running.set()
                is_over.wait()

        reading = others.submit(run)
        is_running.wait()
        try:
            with pytest.raises(TooLong):
                backfills.complete(1, time.monotonic() + 0.01)
        finally:
            is_over.set()
        reading.result()
        backfills.complete(1, time.monotonic() + 0.01)
