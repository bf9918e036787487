"""The state of an engine in memory, as of the last commit of its store.

`load` builds it from the store and writes nothing, so a restart and the recovery from a failed
transaction are the same code.  The state is replaced as a whole, never repaired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from feeds.documents import Document
from templates.batch_join import Pushed
from templates.model.result_bound import RESULTS
from templates.processor import Processor
from templates.registry.registry import Registry
from templates.state.join_state import a_quarter
from xscl.documents.composite_events import Composite, CompositeEvents
from xscl.documents.composite_ids import CompositeIds
from xscl.documents.document_log import DocumentLog, DocumentOrigin
from xscl.engine.eviction import Forgetting
from xscl.engine.throughput import Flow
from xscl.inspection.relations import Relations
from xscl.planning.compile import CompiledQuery
from xscl.planning.compile_cache import Shapes
from xscl.planning.dataflow import Dataflow
from xscl.planning.result_sinks import Published
from xscl.planning.truncations import Cuts
from xscl.shredding.arrivals import Arrivals
from xscl.shredding.remote.image import AutomatonImage
from xscl.store.consumed_offsets import ConsumedOffsets
from xscl.store.store import Store
from xscl.subscriptions.lateness import LatenessBounds
from xscl.subscriptions.match import MatchSource, groups_of, output_of
from xscl.subscriptions.registration import Registration
from xscl.subscriptions.streams import Streams
from xscl.subscriptions.subscriptions import Subscriptions


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of join evaluation, fixed while an engine is open.

    `kept_memory` bounds the join state in memory, in bytes; None: a quarter of the machine's.
    `result_bound` is the largest number of results of one arriving document with one join.
    """

    kept_memory: int | None = None
    result_bound: int = RESULTS


@dataclass(slots=True, eq=False)
class EngineState:
    """The components of an engine, which belong to one commit of the store.

    `position` is that of the last result, `acknowledged` that of the last delivered one.
    `arrived` are the documents of the transaction under way, published ones included.  `pushed`
    is the outcome of the last commit: the same object as long as nothing is committed, and None
    while a commit is under way.
    """

    store: Store
    registry: Registry
    processor: Processor
    documents: DocumentLog
    composites: CompositeEvents
    subscriptions: Subscriptions
    streams: Streams
    ledger: ConsumedOffsets
    dataflow: Dataflow
    registration: Registration
    eviction: Forgetting
    image: AutomatonImage
    readings: LatenessBounds
    relations: Relations
    arrived: list[Arrivals]
    position: int
    acknowledged: int
    pushed: Pushed | None
    pushes: int = 0
    flow: Flow = field(default_factory=Flow)

    def keep_image(self, close_by: float = math.inf) -> None:
        """Write the image of the automaton, which a restart reads; give up at a time."""
        self.image.keep(self.dataflow.automaton, self.registry.pairs.describe, close_by)


def load(store: Store, settings: Settings, compiled: Callable[[str], CompiledQuery]) -> EngineState:
    """Build the state from the store; `compiled` returns the compiled query of a text."""
    registry = Registry(store.connection)
    memory = settings.kept_memory
    processor = Processor(
        store.connection,
        registry,
        budget=a_quarter() if memory is None else memory,
        lender=store.lender,
        most=settings.result_bound,
    )
    documents = DocumentLog(store)
    composites = CompositeEvents(store, documents)
    subscriptions = Subscriptions(store, registry)
    shapes = Shapes(compiled)
    streams = Streams(store, subscriptions, compiled, shapes.prepare)
    numbers = CompositeIds(store)
    image = AutomatonImage(store.image_path)
    arrived: list[Arrivals] = []

    def publish(found: Sequence[Published]) -> None:
        outputs = _outputs(found, documents, MatchSource(compiled, documents.tree))
        if outputs:
            arrivals = documents.accept(*zip(*outputs, strict=True)).arrivals
            arrived.append(arrivals)
            dataflow.enter(arrivals)

    dataflow = Dataflow(
        registry,
        processor,
        documents,
        composites,
        numbers.acquire,
        streams.lateness,
        publish,
        streams.schema,
        image,
        Cuts(store, documents.stored, settings.result_bound),
    )
    registration = Registration(
        store, registry, processor, subscriptions, streams, numbers, dataflow, shapes
    )
    eviction = Forgetting(
        store, documents, composites, dataflow.core.plan, dataflow.state.documents
    )
    registration.plan_again()
    readings = LatenessBounds(subscriptions, registry, streams.lateness, compiled)
    position, acknowledged = store.numbers("position", "told")
    return EngineState(
        store=store,
        registry=registry,
        processor=processor,
        documents=documents,
        composites=composites,
        subscriptions=subscriptions,
        streams=streams,
        ledger=ConsumedOffsets(store),
        dataflow=dataflow,
        registration=registration,
        eviction=eviction,
        image=image,
        readings=readings,
        relations=Relations(store, registry, processor, readings, streams),
        arrived=arrived,
        position=position,
        acknowledged=acknowledged,
        pushed=processor.pushed,
    )


def _outputs(
    found: Sequence[Published], documents: DocumentLog, reader: MatchSource
) -> list[tuple[Document, DocumentOrigin]]:
    """Return the output documents of matches, each with its place right after its composite."""
    sources = {doc for _, composites in found for one in composites for doc in one.sources}
    stored = documents.stored(sources)
    return [
        (output_of(subscription, group, stored, reader), _place(group[0]))
        for subscription, composites in found
        for group in groups_of(subscription, composites)
    ]


def _place(composite: Composite) -> DocumentOrigin:
    return DocumentOrigin(composite.clock, composite.rank + 1, composite.first, composite.version)
