"""Executors change nothing that an engine shows, whatever happens to it.

They are those of `bucket_executors`, in this process; now and then they lose their memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, usually
from tests.oracle.queries import Case, subscribed_first
from tests.strategies.joins import cases
from tests.strategies.language import KINDS
from tests.xscl.engine.player import CUTS, Delivered, Player
from tests.xscl.engine.test_refused_queries import QUERIES, documents, refuse
from tests.xscl.inspection.drawn_histories import History
from tests.xscl.spark.bucket_executors import EngineWithExecutors
from tests.xscl.spark.lives import MS, Step, led, shown
from xscl.documents.retention import Retention

KEPT = Retention.of(history="30000 d")
"""Executors keep documents that an engine alone would not, and so a history has more."""
BUCKETS = st.sampled_from((1, 4, 64))
PAIR = "S//a->x[./k->u] JOIN{u=v, 9 ms} S//a->y[./k->v]"
OTHER = "P//a->x[./k->u] JOIN{u=v, 9 ms} S//a->y[./k->v]"


def pushed(*times: int, stream: str = "S") -> Step:
    """Return a push of documents of some times with one key."""
    text = b"<a><k>a</k><v>1</v></a>"
    return "push", [xscl.Document(stream, f"d{time}", time * MS, text) for time in times], 99


def changed(streams: str | tuple[str, ...], time: int, keys: str) -> Step:
    """Return a push of a version of one document."""
    text = f"<a>{''.join(f'<k>{key}</k>' for key in keys)}</a>".encode()
    return "push", [xscl.Document(streams, "d", time * MS, text)], 99


def subscribed(name: str, query: str, since: int | None = None) -> Step:
    return "subscribe", name, query, "xscl", False, since


NEXT = "S//{0}->u NEXT{{u=v}} S//{0}->v"
MINUTE = 60_000 * MS

STORIES: dict[str, list[Step]] = {
    "begins in the last batch": [
        ("retain", Retention(history=None)),
        subscribed("first", "R//k->u JOIN{u=v, 9 ms} R//k->v"),
        pushed(1, 2, 3),
        subscribed("later", PAIR, since=2 * MS),
        pushed(4),
    ],
    "publishes a shared row": [
        subscribed("pair", PAIR),
        subscribed("reader", OTHER),
        pushed(1),
        subscribed("publisher", f"SELECT <a>{{u}}</a> FROM {PAIR} PUBLISH P"),
        pushed(2),
        pushed(3),
    ],
    "registers before a batch comes again": [
        ("retain", Retention(history=None)),
        subscribed("first", OTHER),
        pushed(1),
        ("broken", pushed(2, 3)[1], "stored", 1, 99),
        subscribed("later", PAIR, since=1 * MS),
        subscribed("shared", OTHER, since=1 * MS),
        ("push", [], 99),
        pushed(4),
        pushed(5, stream="P"),
    ],
    "fails": [
        subscribed("pair", PAIR),
        subscribed("other", OTHER),
        pushed(1),
        ("broken", pushed(2, 3)[1], "joined", 2, 1),
        pushed(4),
        ("open", True),
        pushed(5),
    ],
    "gives a number again": [
        subscribed("pair", PAIR),
        subscribed("next", NEXT.format("v")),
        pushed(1),
        ("unsubscribe", "next", False, True),
        ("fail",),
        subscribed("other", NEXT.format("k")),
        pushed(3),
        pushed(4),
        pushed(5),
    ],
    "joins with a version on another stream": [
        ("subscribe", "pair", "R//k->u JOIN{u=v, 9 ms} S//k->v", "xscl", True, None),
        changed("R", 1, "a"),
        changed("S", 2, "bc"),
        changed(("S", "R"), 3, "c"),
        changed("S", 4, "ca"),
        changed(("R", "S"), 5, "ab"),
    ],
    "brings on one stream what was known on another": [
        subscribed("pair", "S//k->u JOIN{u=v, 9 ms} R//k->v"),
        changed("S", 1, "a"),
        changed(("R", "S"), 2, "a"),
        changed("S", 3, "b"),
        changed("R", 4, "a"),
    ],
    "has each pair of one time once": [
        subscribed("pair", PAIR.replace(" JOIN", " SYMMETRIC JOIN")),
        pushed(5, 7),
        ("push", [xscl.Document("S", "same", 7 * MS, b"<a><k>a</k><v>1</v></a>")], 99),
        pushed(3, 9),
    ],
    "publishes instants": [
        subscribed("reader", "P//i->u JOIN{u=v, 9 min} P//i->v"),
        pushed(1),
        subscribed("clock", "SELECT <i>1</i> FROM AT '* * * * *'->i PUBLISH P"),
        ("beat", 2 * MINUTE),
        ("push", [], 99),
        ("beat", 4 * MINUTE),
        ("push", [], 99),
    ],
}


@pytest.mark.hypothesis
@examples(12)
@given(st.integers(0, 10_000), BUCKETS, st.booleans())
def test_a_history_with_executors_shows_what_one_without_them_shows(
    number: int, buckets: int, in_file: bool
) -> None:
    alone = shown_in(number, in_file, xscl.Engine)
    assert alone == shown_in(number, in_file, partial(EngineWithExecutors, buckets=buckets))


def shown_in(number: int, in_file: bool, make: Callable[..., xscl.Engine]) -> list[Any]:
    """Return the matches in the course of a history, in an engine that is opened again midway."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.sqlite" if in_file else None

        def reopen(engine: xscl.Engine) -> xscl.Engine:
            engine.close()
            return make(path)

        engine, seen = make(path, retention=KEPT), list[Any]()
        for current in History(number, reopen=reopen if in_file else None).play(engine):
            seen.append(shown((engine := current).matches()))
        engine.close()
        return seen


@pytest.mark.hypothesis
@examples(12)
@given(st.one_of(cases(), KINDS["chains"]), CUTS, BUCKETS, st.sampled_from((1, 3)))
def test_results_are_bounded_as_those_of_an_engine(
    case: Case, cuts: list[bool], buckets: int, bound: int
) -> None:
    """An engine may count results with documents from before a row, which nobody sees."""
    first = Case(subscribed_first(case.subscriptions, case.documents), case.lateness)
    alone = played(first, cuts, xscl.Engine(result_bound=bound))
    assert alone == played(first, cuts, EngineWithExecutors(buckets=buckets, result_bound=bound))


@pytest.mark.parametrize("buckets", [1, 16])
def test_results_of_several_buckets_are_bounded_together(buckets: int) -> None:
    text = f"<a>{''.join(f'<k>{number}</k>' for number in range(200))}</a>".encode()
    with EngineWithExecutors(buckets=buckets) as engine:
        engine.subscribe("q", "S//k->u FOLLOWED BY{u=v, 1 d} R//k->v")
        engine.push([xscl.Document("S", f"s{number}", number, text) for number in range(49)])
        found = []
        for number in range(49, 52):
            found.append(len(engine.push(xscl.Document("R", f"r{number}", MS * number, text))))
            engine.push(xscl.Document("S", f"s{number}", MS * number, text))
        stopped = engine.stopped("q")
    assert found == [9_800, 10_000, 0]
    assert stopped is not None
    assert (stopped.documents, stopped.latest) == (1, "R/r51")


@pytest.mark.parametrize("story", STORIES)
def test_a_story_shows_the_same(story: str) -> None:
    alone = led(STORIES[story], with_executors=False)
    assert alone == led(STORIES[story], with_executors=True)


def played(case: Case, cuts: list[bool], engine: xscl.Engine) -> list[Delivered]:
    """Return what an engine delivers."""
    player = Player(case)
    with engine:
        player.prepare(engine)
        player.play(engine, case.events, cuts)
        player.flush(engine)
    return player.delivered


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "mixes"))
def test_documents_of_the_whole_language_may_be_evaluated_elsewhere(kind: str) -> None:
    @examples(4)
    @given(KINDS[kind], CUTS, BUCKETS)
    def property_holds(case: Case, cuts: list[bool], buckets: int) -> None:
        found = played(case, cuts, EngineWithExecutors(buckets=buckets))
        assert found == played(case, cuts, xscl.Engine())

    property_holds()


@pytest.mark.parametrize("again", range(10, 24, 3))
def test_a_document_that_was_forgotten_is_new_to_executors(again: int) -> None:
    """A bucket keeps a late document longer than the window of its join."""
    with EngineWithExecutors(buckets=1, retention=Retention(identities=1)) as engine:
        engine.subscribe("q", "S//a->x FOLLOWED BY{x=y, 10 ms} S//a->y")
        times = [9, 0, *range(10, again), again, again + 1]
        for number, time in enumerate(times):
            name = "twice" if time in (0, again) else f"d{number}"
            text = b"<a>k</a>" if time in (0, again, again + 1) else b"<a>%d</a>" % time
            found = engine.push(xscl.Document("S", name, time * MS, text))
            if time == again:
                is_new = found.accepted
        assert len(found) == is_new


def test_texts_that_only_executors_have_read_are_forgotten() -> None:
    with EngineWithExecutors() as engine:
        engine.subscribe("q", "S//a->x FOLLOWED BY{x=y, 10 ms} S//a->y")
        for time in range(0, 100, 5):
            engine.push(xscl.Document("S", f"d{time}", time * MS, b"<a>%d</a>" % time))
        (kept,) = engine.sql("SELECT count(*) AS n FROM state.text").to_pylist()
        assert 2 <= kept["n"] <= 5


def test_rows_that_a_release_refuses_are_evaluated_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "engine.sqlite"
    for with_executors in (True, True, False, True):
        engine = EngineWithExecutors(path) if with_executors else xscl.Engine(path)
        with engine:
            if not engine.subscriptions:
                engine.stream("S", attributes={"k": str})
                for name, query in QUERIES.items():
                    language = "cel" if name == "events" else "xscl"
                    engine.subscribe(name, query, language=language)
                engine.push(documents(0))
            else:
                first = engine.state.documents.clock // 1_000_000 + 1
                found = {one.subscription for one in engine.push(documents(first))}
                assert found == {"good", "events"}
        refuse(path)
