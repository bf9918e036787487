"""The state of an engine in memory, as of the last commit of its store.

It is built from the store, in which nothing is written, so a restart and the recovery from a failed
transaction are the same code.  The state is replaced as a whole, never repaired.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from feeds.documents import Document
from templates.model.result_bound import RESULTS
from templates.processor import Processor, Pushed
from templates.registry import Registry
from templates.state.join_state import a_quarter
from xscl.documents.composite_events import Composite, CompositeEvents
from xscl.documents.composite_ids import CompositeIds
from xscl.documents.consumed_offsets import ConsumedOffsets
from xscl.documents.document_log import DocumentLog, DocumentOrigin
from xscl.engine.eviction import Eviction
from xscl.engine.throughput import PlanThroughput
from xscl.planning.compile import CompiledQuery, QueryPlans
from xscl.planning.dataflow import Dataflow
from xscl.planning.operators.joins import PublishedMatches
from xscl.planning.truncations import Cuts
from xscl.shredding.arrivals import Arrivals
from xscl.store.consumed_note import expect_consumed
from xscl.store.queries.join_storage import JoinStorage
from xscl.store.store import Store
from xscl.subscriptions.construct import OutputTooLarge
from xscl.subscriptions.lateness import LatenessBounds
from xscl.subscriptions.match import MatchSource, groups_of, output_of
from xscl.subscriptions.registration import Registration
from xscl.subscriptions.story_groups import StoryGroups
from xscl.subscriptions.streams import StreamDefinitions
from xscl.subscriptions.subscriptions import Subscriptions

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of join evaluation, fixed while an engine is open.

    `kept_memory` bounds the join state in memory, in bytes; None: a quarter of the machine's.
    `result_bound` is the largest number of results of one arriving document with one join.
    `owns_process`: the process is the engine's own, whose garbage collector it controls.
    """

    kept_memory: int | None = None
    result_bound: int = RESULTS
    owns_process: bool = False

    @property
    def of_twin(self) -> Settings:
        """The settings of a twin of the engine: the same ones, but with `kept_memory` None."""
        return replace(self, kept_memory=None)


class EngineState:
    """All components of an engine in memory, which belong to one commit of the store.

    It is built from the store, in which nothing is written.  No attribute is added later.
    `position` is the position of the last result, `acknowledged` that of the last delivered one.
    `arrived` are the documents of the transaction under way, published ones included.  `pushed` is
    the outcome of stage 2 at the last commit: another object after each commit, and None while a
    commit is under way.
    """

    def __init__(
        self, store: Store, settings: Settings, compiled: Callable[[str], CompiledQuery]
    ) -> None:
        """Build the state from a store; `compiled` returns the compiled query of a text in XSCL."""
        memory = settings.kept_memory
        self.store = store
        storage = JoinStorage(store)
        self.registry = Registry(storage)
        self.processor = Processor(
            storage,
            self.registry,
            budget=a_quarter() if memory is None else memory,
            most=settings.result_bound,
        )
        self.documents = DocumentLog(store)
        self.composites = CompositeEvents(store, self.documents)
        self.subscriptions = Subscriptions(store, self.registry)
        self.ledger = ConsumedOffsets(store)
        expect_consumed(store.path, self.ledger.segment)
        self.arrived: list[Arrivals] = []
        self.pushes = 0
        self.flow = PlanThroughput()
        shapes = QueryPlans(compiled)
        self.composite_ids = CompositeIds(store)
        self.streams = StreamDefinitions(store, self.subscriptions, compiled, shapes.prepare)
        self._matches = MatchSource(compiled, self.documents.tree)
        self.dataflow = Dataflow(
            self.registry,
            self.processor,
            self.documents,
            self.composites,
            self.composite_ids.acquire,
            self.streams.lateness,
            self._publish,
            self.streams.schema,
            Cuts(store, self.documents.stored, settings.result_bound),
        )
        self.registration = Registration(
            store,
            self.registry,
            self.processor,
            self.subscriptions,
            self.streams,
            self.composite_ids,
            self.dataflow,
            shapes,
        )
        self.eviction = Eviction(
            store,
            self.documents,
            self.dataflow.core.plan,
            self.subscriptions.needed_from,
            self.registry,
        )
        self.stories = StoryGroups(store, self.documents, self.subscriptions, self._matches)
        self.registration.plan_again()
        self.readings = LatenessBounds(
            self.subscriptions, self.registry, self.streams.lateness, compiled
        )
        self.position, self.acknowledged = store.numbers("position", "told")
        self.pushed: Pushed | None = self.processor.pushed

    def oldest_elsewhere(self) -> int:
        """Return the time, in ticks, of the oldest document that executors may still join.

        INFINITE if executors evaluate no joins.
        """
        return self.registry.elsewhere.oldest(self.documents.clock)

    def _publish(self, found: Sequence[PublishedMatches]) -> None:
        """Accept the output documents of matches as arrivals, and shred them."""
        outputs = _outputs(found, self.documents, self._matches)
        if outputs:
            arrivals = self.documents.accept(*zip(*outputs, strict=True)).arrivals
            self.arrived.append(arrivals)
            self.dataflow.shred(arrivals)


def _outputs(
    found: Sequence[PublishedMatches], documents: DocumentLog, reader: MatchSource
) -> list[tuple[Document, DocumentOrigin]]:
    """Return the output document of each match with its origin, in the order of the matches.

    A document has the clock of its match's composite, and the rank after it.  One that is too large
    is left out, with a warning in the log.
    """
    sources = {
        doc for _, composites in found for composite in composites for doc in composite.sources
    }
    stored = documents.stored(sources)
    outputs = []
    for subscription, composites in found:
        for group in groups_of(subscription, composites):
            try:
                made = output_of(subscription, group, stored, reader)
            except OutputTooLarge as error:
                _log.warning("a match of %s is not published: %s", subscription.name, error)
            else:
                outputs.append((made, _place(group[0])))
    return outputs


def _place(composite: Composite) -> DocumentOrigin:
    return DocumentOrigin(composite.clock, composite.rank + 1, composite.first, composite.version)
