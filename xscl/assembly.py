"""An engine's parts, put together from the store, and changed together or not at all."""

from __future__ import annotations

import logging
import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from templates.processor import Processor, Pushed
from templates.registry import Registry
from templates.result_bound import RESULTS
from templates.viewcache import a_quarter
from xscl.collector import paused, settle, unsettle
from xscl.compile import compile_query
from xscl.composites import Composite, Composites
from xscl.compositestreams import CompositeStreams
from xscl.cuts import Cuts
from xscl.documents import Documents, Origin, Stored
from xscl.errors import StoreError
from xscl.forgetting import Forgetting
from xscl.lateness import Readings
from xscl.ledger import Ledger
from xscl.match import Reader, groups_of, output_of
from xscl.match_reader import MatchReader
from xscl.network import Network
from xscl.outlets import Published
from xscl.pace import Laps, Pace
from xscl.pages import Pages
from xscl.plangraph import Flow
from xscl.push_size import PushSize
from xscl.registration import Registration
from xscl.relations import Relations
from xscl.retention import Retention
from xscl.shapes import Shapes
from xscl.store import Store
from xscl.streams import Streams
from xscl.subscriptions import Subscriptions
from xscl.xpath.arrivals import Arrivals
from xscl.xpath.image import Image

_log = logging.getLogger(__name__)

WAITING = 2_000
"""Rows that wait to be written at most: they are made again from the queries after a kill."""
SETTLED = 1_000
"""Subscriptions that come before the collector is told that they are here to stay."""


def warn_of_removed(**arguments: object) -> None:
    """Warn the caller of `Engine` of arguments that have no effect any more."""
    for name, value in arguments.items():
        if value is not None:
            message = f"xscl.Engine({name}=...) has no effect since version 0.1.0"
            warnings.warn(message, DeprecationWarning, stacklevel=3)


class Assembly:
    """The store, and what is in memory of it."""

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        views: bool | None = None,
        retention: Retention | None = None,
        workers: int | None = None,
        kept_memory: int | None = None,
        result_bound: int = RESULTS,
    ) -> None:
        warn_of_removed(views=views, workers=workers)
        self._result_bound = result_bound
        self._kept_memory = a_quarter() if kept_memory is None else kept_memory
        self._store = Store(path)
        self._lock = threading.RLock()
        self._close_by = math.inf
        self._pages: Pages | None = None
        self._instances = Counter[int]()  # of operators over time by how long, when last counted
        self._instances_lately = Counter[int]()  # those of the last day
        self._settled = 0  # subscriptions that were there when the collector was last told
        self.pace = Pace()
        self._laps = Laps(self.pace)
        self._ending = threading.Event()
        self._push_size = PushSize()
        self._compile = lru_cache(maxsize=10_000)(compile_query)
        try:
            with self._store.telling(), paused():
                self._load()
                self._match_reader = MatchReader(self._store.beside(), self._recent)
                self._image.keep(self._network.automaton, self._registry.describe)
            self._settle()
        except BaseException:
            self._store.close()
            raise
        if retention is not None:
            self.retain(retention)

    def _load(self) -> None:
        """Rebuild everything in memory from the store."""
        self._registry = Registry(self._store.connection)
        self._processor = Processor(
            self._store.connection,
            self._registry,
            budget=self._kept_memory,
            lender=self._store.lender,
            most=self._result_bound,
        )
        self._documents = Documents(self._store)
        self._composites = Composites(self._store, self._documents)
        self._subscriptions = Subscriptions(self._store, self._registry)
        self._reader = Reader(self._compile, self._documents.tree)
        self._position, self._told = self._store.numbers("position", "told")
        self._ledger = Ledger(self._store)
        shapes = Shapes(self._compile)
        self._streams = Streams(self._store, self._subscriptions, self._compile, shapes.prepare)
        self._numbers = CompositeStreams(self._store)
        self._accepted: list[Arrivals] = []
        self._image = Image(self._store.image_path)
        self._results = 0  # matches of the push that was finished last
        self._pushes = 0
        self._flow = Flow()
        self._network = Network(
            self._registry,
            self._processor,
            self._documents,
            self._composites,
            self._numbers.take,
            self._streams.lateness,
            self._publish,
            self._streams.schema,
            self._image,
            Cuts(self._store, self._documents.stored, self._result_bound),
        )
        self._forgetting = Forgetting(
            self._store,
            self._documents,
            self._composites,
            self._network.core.plan,
            self._network.waiting,
        )
        self._registration = Registration(
            self._store,
            self._registry,
            self._processor,
            self._subscriptions,
            self._streams,
            self._numbers,
            self._network,
            shapes,
        )
        self._registration.plan_again()
        self._readings = Readings(
            self._subscriptions, self._registry, self._streams.lateness, self._compile
        )
        self._relations = Relations(
            self._store, self._registry, self._processor, self._readings, self._streams
        )
        self._pushed: Pushed | None = self._processor.pushed  # None: a commit is under way

    def _recent(self, doc: int) -> Stored | None:
        return self._documents.recent(doc)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hurry(self, seconds: float) -> None:
        """Set a deadline for `close`: past it, work that only speeds up the next start ends."""
        self._close_by = time.monotonic() + seconds

    def close(self) -> None:
        """Close the store; the engine cannot be used any more."""
        with self._lock:
            try:
                if self._pages is not None:
                    self._pages.close()
                    self._pages = None
                self._match_reader.close()
                if self._store.path is not None:
                    self.save()
            finally:
                self._store.close()
                if self._pushed is not None:  # else a change has failed
                    automaton = self._network.automaton
                    self._image.keep(automaton, self._registry.describe, self._close_by)
                self._unsettle()

    def save(self) -> None:
        """Write the rows of R_T that wait to be written, if there is room.

        They follow from the queries, so nothing is lost without it: they go on waiting.
        """
        with self._lock:
            if self._registry.waiting:
                with _only_told(), self._store.transaction(self._registry.written):
                    self._registry.write()

    @contextmanager
    def _changing(self, *, waits: bool = False) -> Iterator[None]:
        """Make a change whole: if it fails, the store and what is in memory are as before.

        Rows of R_T that wait to be written are, unless those of this change may wait, too.
        """
        with self._lock:
            self._store.expect_open()
            try:
                with self._store.transaction():
                    if not waits:
                        self._registry.save()
                    yield
                    if not waits or self._registry.waiting > WAITING:
                        self._registry.save()
                    self._pushed = None
                self._pushed = self._processor.pushed
            except BaseException as error:
                self._recover(error)
                raise

    def _recover(self, error: BaseException) -> None:
        """Make what is in memory as the store is again; an engine that cannot is closed."""
        self._pushed = None
        self._unsettle()
        try:
            self._load()
            self._settle()
        except Exception as again:
            self._store.close()
            raise StoreError(
                f"the engine is closed: after a failure its state could not be read again: {again}",
                hint="is the disk full or failing? mend that and start again, or report this",
            ) from error

    @property
    def retention(self) -> Retention | None:
        """How long things are kept that no query needs; None: as `Retention()`, nobody said."""
        return self._forgetting.told

    def retain(self, retention: Retention) -> None:
        """Say how long to keep what no query needs any more: texts, matches, identities.

        The store remembers it.  It changes no match: only what can be read again, tried or asked
        about later.
        """
        with self._lock:
            if retention != self.retention:
                with self._changing():
                    self._forgetting.retain(retention)

    def _unsettle(self) -> None:
        if self._settled:
            self._settled = 0
            unsettle()

    def _settle(self) -> None:
        if len(self._subscriptions) >= self._settled + SETTLED:
            self._settled = len(self._subscriptions)
            settle()

    def _numbered(self, found: pa.Table) -> pa.Table:
        """Return results, each with its position."""
        first, self._position = self._position + 1, self._position + found.num_rows
        positions = np.arange(first, first + found.num_rows, dtype=np.int64)
        return found.add_column(0, "position", pa.array(positions))

    def _publish(self, found: Sequence[Published]) -> None:
        """Take the output documents of matches in: what their subscriptions publish."""
        sources = {doc for _, composites in found for one in composites for doc in one.sources}
        stored = self._documents.stored(sources)
        made = [
            (output_of(subscription, group, stored, self._reader), _place(group[0]))
            for subscription, composites in found
            for group in groups_of(subscription, composites)
        ]
        if not made:
            return
        documents, origins = zip(*made, strict=True)
        accepted = self._documents.accept(documents, origins)
        self._accepted.append(accepted)
        self._network.take(accepted)


@contextmanager
def _only_told() -> Iterator[None]:
    """Have the log told if what waits cannot be written: it is made again from the queries."""
    try:
        yield
    except StoreError as error:
        _log.warning("what follows from queries is not written now: %s", error)


def _place(composite: Composite) -> Origin:
    """Return the place of what is published of a composite: right after it."""
    return Origin(composite.clock, composite.rank + 1, composite.first, composite.version)
