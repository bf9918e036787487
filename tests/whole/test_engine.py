"""The engine equals the oracle of the whole language, however its input is cut or interrupted.

Each history ends with a flush.  What the engine delivers is compared, as a multiset, with what
tests/whole/oracle.py finds by brute force.  A published document is known by its match.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, usually
from tests.joining import in_database
from tests.oracle import Match
from tests.strategies import Push, Unsubscribe
from tests.whole import strategies as drawn
from tests.whole.oracle import identity, matches, outputs
from tests.whole.queries import Case, Event, Subscribe, Subscription

CUTS = st.lists(st.sampled_from((True, False, False)), min_size=6, max_size=6)
KINDS = {
    "chains": drawn.chains(),
    "residuals": drawn.residuals(),
    "functions": drawn.functions(),
    "ordered": drawn.ordered(),
    "mixes": drawn.mixes(),
    "published": drawn.published(),
    "published in time": drawn.published(waiting=True),
}
Batch: TypeAlias = list[Push] | Subscribe | Unsubscribe


class Player:
    """An engine that goes through a history, and what it has delivered."""

    def __init__(self, case: Case) -> None:
        self.found: list[Match] = []
        self.ids: list[str] = []
        self._case = case
        self._queries = {one.name: one.query for one in case.subscriptions}
        self._known: dict[str, str] = {}  # published documents, by their ids in the engine

    def prepare(self, engine: xscl.Engine) -> None:
        """Set the lateness of the streams."""
        for stream, lateness in self._case.lateness.items():
            engine.stream(stream, lateness=lateness)

    def play(self, engine: xscl.Engine, events: Sequence[Event], cuts: Sequence[bool]) -> None:
        """Have an engine take events, with documents in batches."""
        for number, item in enumerate(_batches(events, cuts)):
            match item:
                case Subscribe(Subscription(name, query, updates)):
                    engine.subscribe(name, query.text(), updates=updates)
                case Unsubscribe(name):
                    engine.unsubscribe(name)
                case list():
                    with in_database((number + len(events)) % 2 == 0):
                        pushed = engine.push([_document(push) for push in item])
                    self._deliver(pushed)

    def flush(self, engine: xscl.Engine) -> None:
        """End the history."""
        self._deliver(engine.flush())

    def _deliver(self, delivered: Sequence[xscl.Match]) -> None:
        """Note matches; those that publish come first, so that their documents are known."""
        levels = sorted(delivered, key=lambda match: match.subscription)
        for match in levels:
            made = self._named(match)
            self._known[match.id] = identity(made)
            self.found.append(made)
            self.ids.append(match.id)

    def _named(self, match: xscl.Match) -> Match:
        query = self._queries[match.subscription]
        wanted = frozenset() if query.distinct else outputs(query.expression)
        nodes = [
            (name, self._known.get(node.document, node.document), node.node)
            for name in wanted
            for node in match.bindings[name]
        ]
        documents = tuple(self._known.get(one, one) for one in match.documents)
        return match.subscription, documents, tuple(sorted(nodes))


def _batches(events: Sequence[Event], cuts: Sequence[bool]) -> Iterator[Batch]:
    """Return the events with the documents in batches; a cut ends the batch."""
    batch, ends = list[Push](), cycle(cuts)
    for event in events:
        if isinstance(event, Push):
            batch.append(event)
            if not next(ends):
                continue
        if batch:
            yield batch
            batch = []
        if not isinstance(event, Push):
            yield event
    if batch:
        yield batch


def _document(push: Push) -> xscl.Document:
    doc = push.document
    stream = doc.streams[0] if len(doc.streams) == 1 else doc.streams
    return xscl.Document(stream=stream, id=doc.id, timestamp=doc.timestamp, xml=doc.xml)


def run(case: Case, cuts: Sequence[bool]) -> Player:
    """Return what an engine in memory delivers."""
    player = Player(case)
    with xscl.Engine() as engine:
        player.prepare(engine)
        player.play(engine, case.events, cuts)
        player.flush(engine)
    return player


def run_in_file(case: Case, cuts: Sequence[bool], pause: int) -> Player:
    """Return what an engine in a file delivers that is closed and opened again midway."""
    player = Player(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.duckdb"
        with xscl.Engine(path) as engine:
            player.prepare(engine)
            player.play(engine, case.events[:pause], cuts)
        with xscl.Engine(path) as engine:
            player.play(engine, case.events[pause:], cuts)
            player.flush(engine)
    return player


def agrees(player: Player, case: Case) -> None:
    """Fail unless the engine delivered exactly the oracle's matches, each once."""
    expected = matches(case.events, case.lateness)
    assert Counter(player.found) == expected
    assert len(set(player.ids)) == len(player.ids)


@st.composite
def interrupted(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> tuple[Case, int]:
    """Return a case and the number of events before a pause in its midst.

    Documents that came before the pause match with some that came after it.
    """
    case = draw(cases)
    found = matches(case.events, case.lateness)
    pauses = [place for place in range(1, len(case.events)) if _spans(case, place, found)]
    assume(pauses)
    return case, draw(st.sampled_from(pauses))


def _spans(case: Case, pause: int, found: Iterable[Match]) -> bool:
    """Whether there is such a match; documents that come on both sides do not count."""
    before, after = (
        {event.document.id for event in events if isinstance(event, Push)}
        for events in (case.events[:pause], case.events[pause:])
    )
    old, new = before - after, after - before
    return any(old & {*documents} and new & {*documents} for _, documents, _ in found)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_engine_equals_oracle(kind: str) -> None:
    """A third of the cases have matches."""
    cases = [0, 0]

    @examples(5, counted=True)
    @given(KINDS[kind], CUTS)
    def property_holds(case: Case, cuts: list[bool]) -> None:
        player = run(case, cuts)
        agrees(player, case)
        cases[0] += 1
        cases[1] += bool(player.found)

    property_holds()
    assert 3 * cases[1] >= cases[0], f"{cases[1]} of {cases[0]} cases had matches"


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "mixes", "published in time"))
def test_a_file_closed_and_opened_again_changes_nothing(kind: str) -> None:
    @examples(3)
    @given(interrupted(KINDS[kind]), CUTS)
    def property_holds(drawn: tuple[Case, int], cuts: list[bool]) -> None:
        case, pause = drawn
        agrees(run_in_file(case, cuts, pause), case)

    property_holds()
