"""The transactions of an engine: a change of the store and of the state in memory, or none.

One lock guards the store's connection and the state.  If a transaction fails, the store is rolled
back and the state is loaded again, so the object `Transactions.state` is another one afterwards.
Read it anew after each change.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from xscl.engine.executors import Executors
from xscl.engine.state import EngineState, Settings
from xscl.errors import StoreError
from xscl.gc_control import paused, settle, unsettle
from xscl.planning.compile import compile_query
from xscl.store.store import Store
from xscl.store.store_errors import StoreDamaged

FROZEN_AFTER = 1_000
"""New subscriptions after which what is in memory is excluded from garbage collection."""


class Transactions:
    """The store and the state of one engine, changed together or not at all.

    Any thread may change them; they do so one at a time.  `state` may be read without the lock
    where its component allows that (docs/internals/state-and-threads.md).
    """

    def __init__(self, path: str | Path | None, settings: Settings) -> None:
        self.store = Store(path)
        self.lock = threading.RLock()
        self.compiled = lru_cache(maxsize=10_000)(compile_query)
        self._frozen = 0  # subscriptions when objects were last excluded from collection
        self._is_reloaded = False  # a failed change has left an old state to the collector
        self.settings = settings
        self.executors: Executors | None = None
        self.ending = threading.Event()  # set at the end: readers of the past raise Stopping
        try:
            with self.paused():  # collections before `freeze` would take a tenth of the start
                self._load()
                self.freeze(loaded=True)
        except BaseException:
            self.store.close()
            raise

    def _load(self) -> None:
        """Replace the state by that of the last commit."""
        self.state = EngineState(self.store, self.settings, self.compiled)
        self._is_loaded = True

    def expect_current(self) -> None:
        """Load the state if it could not be read after a failed change; raises StoreError.

        The caller holds the lock.
        """
        self.store.expect_open()
        if not self._is_loaded:
            self._load()

    def between_batches(self) -> AbstractContextManager[None]:
        """Return a context in which no documents are on executors; entered without the lock.

        If a plan or a spool changed meanwhile, only some of their results would be of that plan.
        """
        return nullcontext() if self.executors is None else self.executors.changing()

    @contextmanager
    def change(self) -> Iterator[EngineState]:
        """Yield the state within a transaction; if the block raises, nothing has changed.

        Raises StoreError.
        """
        with self.lock:
            self.expect_current()
            if self._is_reloaded:
                self.freeze()
            state = self.state
            try:
                with self.store.transaction():
                    yield state
                    state.registry.save()
                    state.pushed = None
                state.pushed = replace(state.processor.pushed)  # a new object marks a commit
            except BaseException as error:
                del state  # the traceback refers to this frame
                self._recover(error)
                raise

    @contextmanager
    def committed(self) -> Iterator[EngineState]:
        """Yield the state of the last commit; the block excludes changes.

        Without the lock, `state` may be that of a change that is not committed.  Raises StoreError.
        """
        with self.lock:
            self.expect_current()
            yield self.state

    def _recover(self, error: BaseException) -> None:
        """Replace the state by what the store has; if that cannot be read now, before the next use.

        A damaged store is closed.  The next change freezes the new state: until the error is
        handled, the frames of its traceback refer to the old one, which would be frozen, too.
        """
        self.state.pushed = None
        self._unfreeze()
        self._is_reloaded, self._is_loaded = True, False
        try:
            self.expect_current()
        except Exception as again:
            if isinstance(again, StoreError) and not isinstance(again, StoreDamaged):
                return
            self.store.close()
            raise StoreError(
                f"the engine is closed: after a failure its state could not be read again: {again}",
                hint="is the disk full or failing? mend that and start again, or report this",
            ) from error

    def connect(self) -> Store:
        """Return the store on a new connection, for another thread; close it before the engine."""
        with self.lock:
            return self.store.connect_again()

    def paused(self) -> AbstractContextManager[None]:
        """Return a context in which no garbage is collected, if the process is the engine's own."""
        return paused() if self.settings.owns_process else nullcontext()

    def freeze(self, *, loaded: bool = False) -> None:
        """Move the state to the permanent generation (`gc.freeze`) after many new subscriptions.

        A state that was just `loaded` needs no collection before: its garbage is a megabyte of the
        parser's, once in a process.
        """
        if not self.settings.owns_process:
            return
        if len(self.state.subscriptions) >= self._frozen + FROZEN_AFTER:
            self._frozen = len(self.state.subscriptions)
            settle(None if loaded else 2 if self._is_reloaded else 1)
            self._is_reloaded = False

    def _unfreeze(self) -> None:
        if self._frozen:
            self._frozen = 0
            unsettle()

    def close(self) -> None:
        """Close the store.  The caller holds the lock."""
        self.store.close()
        self._unfreeze()
