"""An engine that goes through a drawn history, with documents in batches, and what it delivers.

What the engine delivers is compared, as a multiset, with what `tests.oracle` finds by brute force.
A published document is known by its match.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import strategies as st

import xscl
from tests.joining import in_database
from tests.oracle.evaluation import Match, end_of_run, identity, named, outputs, replay
from tests.oracle.output import nodes_of
from tests.oracle.queries import Case, Doc, Event, Push, Subscribe, Subscription, Unsubscribe
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.engine.catalog import RegistrationOptions


def begin_history(engine: xscl.Engine, name: str, query: str, **options: Any) -> int | None:
    """Register a query whose history is still to be read; return the number of its backfill."""
    numbers = engine.catalog.subscribe_from([(name, query)], RegistrationOptions(**options))
    return numbers[0] if numbers else None


CUTS = st.lists(st.sampled_from((True, False, False)), min_size=6, max_size=6)
Batch: TypeAlias = list[Push] | Subscribe | Unsubscribe


@dataclass(frozen=True, slots=True)
class Delivered:
    """A match with all that may be compared, read while the engine is open.

    `nodes` has the numbers of the nodes of every variable.
    """

    match: Match
    id: str
    times: tuple[int, int]
    nodes: tuple[tuple[str, tuple[int, ...]], ...]


class Player:
    """An engine that goes through a history, and what it has delivered.

    With `step` its documents come from a spool, a batch every so many ticks, whatever their times.
    """

    def __init__(self, case: Case, step: int | None = None) -> None:
        self._step = step
        self._batches = 0
        self.delivered: list[Delivered] = []
        self._case = case
        self._queries = {one.name: one.query for one in case.subscriptions}
        self._known: dict[str, str] = {}  # published documents, by their ids in the engine

    @property
    def found(self) -> list[Match]:
        """The matches, as the oracle names them."""
        return [one.match for one in self.delivered]

    @property
    def ids(self) -> list[str]:
        """The ids that the engine gave to the matches."""
        return [one.id for one in self.delivered]

    def prepare(self, engine: xscl.Engine) -> None:
        """Set the lateness of the streams."""
        for stream, lateness in self._case.lateness.items():
            engine.stream(stream, lateness=lateness)

    def play(self, engine: xscl.Engine, events: Sequence[Event], cuts: Sequence[bool]) -> None:
        """Push documents in batches, register and remove subscriptions."""
        for number, item in enumerate(batches(events, cuts)):
            match item:
                case Subscribe(Subscription(name, query, updates)):
                    engine.subscribe(name, query.text(), updates=updates)
                case Unsubscribe(name):
                    engine.unsubscribe(name)
                case list():
                    with in_database((number + len(events)) % 2 == 0):
                        source = self._source()
                        documents = [pushed(push.document) for push in item]
                        delivered = engine.push(documents, source=source)
                    self._deliver(delivered)

    def _source(self) -> BatchKey | None:
        if self._step is None:
            return None
        self._batches = number = self._batches + 1
        return BatchKey(SPOOL, number, number, (), number * self._step)

    def flush(self, engine: xscl.Engine) -> None:
        """End the history."""
        self._deliver(engine.flush())

    def _deliver(self, delivered: Sequence[xscl.Match]) -> None:
        """Note matches; those that publish come first, so that their documents are known."""
        levels = sorted(delivered, key=lambda match: match.subscription)
        for match in levels:
            made = self._named(match)
            if match.publish is not None:
                self._known[named(match.publish, match.id)] = identity(made)
            nodes = {name: tuple(node.node for node in of) for name, of in match.bindings.items()}
            times = (match.t0, match.t1)
            self.delivered.append(Delivered(made, match.id, times, tuple(sorted(nodes.items()))))

    def _named(self, match: xscl.Match) -> Match:
        query = self._queries[match.subscription]
        wanted = frozenset() if query.distinct else outputs(query.expression)
        nodes = [
            (name, self._known.get(node.document, node.document), node.node)
            for name in wanted
            for node in match.bindings[name]
        ]
        documents = tuple(self._known.get(one, one) for one in match.by_block)
        return match.subscription, documents, (*end_of_run(query, match.t1), *sorted(nodes))


def played(
    case: Case,
    cuts: Sequence[bool],
    make: Callable[[], xscl.Engine] = xscl.Engine,
    *,
    pauses: Sequence[int] = (),
    flush: bool = False,
) -> Player:
    """Play a case on an engine, on another one from `make` after each of some events."""
    player, ends = Player(case), [*pauses, len(case.events)]
    for start, end in pairwise([0, *ends]):
        with make() as engine:
            if not start:
                player.prepare(engine)
            player.play(engine, case.events[start:end], cuts)
            if flush and end == ends[-1]:
                player.flush(engine)
    return player


def played_in_file(case: Case, cuts: Sequence[bool], pause: int, *, flush: bool = False) -> Player:
    """Play a case on an engine in a file that is closed and reopened midway."""
    with tempfile.TemporaryDirectory() as folder:
        make = partial(xscl.Engine, Path(folder) / "state.sqlite")
        return played(case, cuts, make, pauses=[pause], flush=flush)


def batches(events: Sequence[Event], cuts: Sequence[bool]) -> Iterator[Batch]:
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


def pushed(doc: Doc) -> xscl.Document:
    stream = doc.streams[0] if len(doc.streams) == 1 else doc.streams
    return xscl.Document(stream=stream, id=doc.id, timestamp=doc.timestamp, xml=doc.xml)


def cut(documents: Iterable[xscl.Document], cuts: Sequence[bool]) -> list[list[xscl.Document]]:
    """Return documents in batches; a cut ends one."""
    made: list[list[xscl.Document]] = [[]]
    for document, ends in zip(documents, cycle(cuts), strict=False):
        made[-1].append(document)
        if ends:
            made.append([])
    return [batch for batch in made if batch]


@contextmanager
def engine_after(
    batches: Iterable[Sequence[xscl.Document]],
    prepare: Callable[[xscl.Engine], object],
    path: Path | None = None,
    **settings: Any,
) -> Iterator[xscl.Engine]:
    """Return an engine after some pushes; with a path it is opened anew after each of them."""
    engine = xscl.Engine(path, **settings)
    prepare(engine)
    for batch in batches:
        engine.push(batch)
        if path is not None:
            engine.close()
            engine = xscl.Engine(path, **settings)
    with engine:
        yield engine


def agrees(player: Player, case: Case, nodes_too: bool = False) -> None:
    """Fail unless the engine delivered exactly the oracle's matches, each once.

    With `nodes_too`, of joins of blocks, also all nodes and times.
    """
    expected = replay(case.events, case.lateness)
    queries = {one.name: one.query for one in case.subscriptions}
    assert Counter(player.found) == Counter(expected.keys())
    assert len(set(player.ids)) == len(player.ids)
    for made in player.delivered if nodes_too else ():
        rows = expected[made.match]
        _, nodes = nodes_of(queries[made.match[0]], rows)
        numbers = {name: tuple(node.number for node in of) for name, of in nodes.items()}
        assert dict(made.nodes) == numbers
        assert made.times == (rows[0].t0, rows[0].t1)
