"""The transactions of an engine: a change of the store and of the state in memory, or none.

One lock guards the store's connection and the state.  If a transaction fails, the store is rolled
back and the state is loaded again, so the object `Transactions.state` is another one afterwards.
Read it anew after each change.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from xscl.engine.state import EngineState, Settings
from xscl.errors import StoreError
from xscl.gc_control import paused, settle, unsettle
from xscl.planning.compile import compile_query
from xscl.store.store import Store

_log = logging.getLogger(__name__)

WAITING = 2_000
"""Rows of R_T that wait to be written at most: after a kill they are made from the queries."""
FROZEN_AFTER = 1_000
"""New subscriptions after which what is in memory is excluded from garbage collection."""


class Transactions:
    """The store and the state of one engine, changed together or not at all.

    Any thread may change them; they do so one at a time.  `state` may be read without the lock
    where its component allows that (docs/internals/state-and-threads.md).
    """

    def __init__(self, path: str | Path | None, settings: Settings) -> None:
        self.settings = settings
        self.store = Store(path)
        self.lock = threading.RLock()
        self.compiled = lru_cache(maxsize=10_000)(compile_query)
        self._close_by = math.inf
        self._frozen = 0  # subscriptions when objects were last excluded from collection
        self._is_reloaded = False  # a failed change has left an old state to the collector
        try:
            with self.store.translate_errors(), paused():
                self.state = EngineState(self.store, settings, self.compiled)
                self.state.keep_image()
            self.freeze()
        except BaseException:
            self.store.close()
            raise

    @contextmanager
    def change(self, *, waits: bool = False) -> Iterator[EngineState]:
        """Yield the state within a transaction; if the block raises, nothing has changed.

        Rows of R_T that wait to be written are written, unless `waits` allows those of this change
        to wait, too.  Raises StoreError, also if the state cannot be loaded again after a failure;
        then the engine is closed.
        """
        with self.lock:
            self.store.expect_open()
            if self._is_reloaded:
                self.freeze()
            state = self.state
            try:
                with self.store.transaction():
                    if not waits:
                        state.registry.save()
                    yield state
                    if not waits or state.registry.waiting > WAITING:
                        state.registry.save()
                    state.pushed = None
                state.pushed = state.processor.pushed
            except BaseException as error:
                del state  # the traceback refers to this frame
                self._recover(error)
                raise

    def _recover(self, error: BaseException) -> None:
        """Replace the state by what the store has; close the store if that fails.

        The next change freezes the new state: until the error is handled, the frames of its
        traceback refer to the old one, which would be frozen, too.
        """
        self.state.pushed = None
        self._unfreeze()
        self._is_reloaded = True
        try:
            self.state = EngineState(self.store, self.settings, self.compiled)
        except Exception as again:
            self.store.close()
            raise StoreError(
                f"the engine is closed: after a failure its state could not be read again: {again}",
                hint="is the disk full or failing? mend that and start again, or report this",
            ) from error

    def save(self) -> None:
        """Write the rows of R_T that wait to be written, if there is room.

        They follow from the queries, so nothing is lost without it: they continue to wait.
        """
        with self.lock:
            registry = self.state.registry
            if registry.waiting:
                try:
                    with self.store.transaction(registry.written):
                        registry.write()
                except StoreError as error:
                    _log.warning("what follows from queries is not written now: %s", error)

    def connect(self) -> Store:
        """Return the store on a new connection, for another thread; close it before the engine."""
        with self.lock:
            return self.store.connect_again()

    def freeze(self) -> None:
        """Move the state to the permanent generation (`gc.freeze`) after many new subscriptions."""
        if len(self.state.subscriptions) >= self._frozen + FROZEN_AFTER:
            self._frozen = len(self.state.subscriptions)
            settle(full=self._is_reloaded)
            self._is_reloaded = False

    def _unfreeze(self) -> None:
        if self._frozen:
            self._frozen = 0
            unsettle()

    def limit_closing(self, seconds: float) -> None:
        """Set a deadline for `close`: past it, work that only speeds up the next start ends."""
        self._close_by = time.monotonic() + seconds

    def close(self) -> None:
        """Write what waits, and close the store.  The caller holds the lock."""
        try:
            if self.store.path is not None:
                self.save()
        finally:
            self.store.close()
            if self.state.pushed is not None:  # else a change has failed
                self.state.keep_image(self._close_by)
            self._unfreeze()
