"""Executors change nothing that an engine shows, whatever happens to it.

They are those of `bucket_executors`, in this process; now and then they lose their memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, usually
from tests.oracle.queries import Case, subscribed_first
from tests.strategies.language import KINDS, joins
from tests.xscl.engine.player import CUTS, Delivered, Player
from tests.xscl.engine.test_refused_queries import QUERIES, documents, refuse
from tests.xscl.inspection.drawn_histories import History
from tests.xscl.spark.bucket_executors import EngineWithExecutors
from xscl.documents.retention import Retention
from xscl.errors import XsclError

KEPT = Retention.of(history="30000 d")
"""Executors keep documents that an engine alone would not, and so a history has more."""
BUCKETS = st.sampled_from((1, 4, 64))
MS = 1_000


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


def shown(matches: Iterable[xscl.Match]) -> list[tuple[Any, ...]]:
    """Return all that may be compared of matches."""
    return [
        (
            one.subscription,
            one.id,
            one.documents,
            (one.t0, one.t1, one.version, one.backfilled),
            _text(one),
        )
        for one in matches
    ]


def _text(match: xscl.Match) -> str:
    """Return the bindings and the output of a match, as far as its documents are kept."""
    try:
        return f"{match.bindings} {match.xml()!r}"
    except XsclError as error:
        return type(error).__name__


@pytest.mark.hypothesis
@examples(12)
@given(st.one_of(joins(), KINDS["chains"]), CUTS, BUCKETS, st.sampled_from((1, 3)))
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


def played(case: Case, cuts: list[bool], engine: xscl.Engine) -> list[Delivered]:
    """Return the matches that an engine delivers."""
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


def test_rows_that_a_release_refuses_are_evaluated_nowhere(path: Path) -> None:
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
