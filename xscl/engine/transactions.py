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
        self._frozen = 0  # the number of subscriptions at the last `freeze`, 0 without one
        self._is_reloaded = False  # a failed change has left an old state to be collected
        self.settings = settings
        self.executors: Executors | None = None
        self.ending = threading.Event()  # set when the engine ends: trials and backfills stop
        try:
            with self.paused():  # collections before `freeze` would take a tenth of the start
                self._load()
                self.freeze(loaded=True)
        except BaseException:
            self.store.close()
            raise

    def _load(self) -> None:
        """Replace `state` by one that is built from the store, as of its last commit."""
        self.state = EngineState(self.store, self.settings, self.compiled)
        self._is_loaded = True

    def expect_current(self) -> None:
        """Load the state if that failed after a failed change.

        The caller holds the lock.  Raises StoreError, also if the store is closed.
        """
        self.store.expect_open()
        if not self._is_loaded:
            self._load()

    def between_batches(self) -> AbstractContextManager[None]:
        """Return a context in which executors evaluate no documents; enter it without the lock.

        Changes of the plan or the spool are made in it, so that the results of a batch on executors
        are all of one plan.
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
                del state  # the traceback keeps this frame, and would keep the old state
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
        """Load the state from the store after a change that failed with `error`.

        If the store cannot be read now, the state is loaded before its next use.  A damaged store
        is closed.  The next change freezes the loaded state: until `error` is handled, the frames
        of its traceback refer to the old state, which would be frozen, too.
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
        """Return a context in which the garbage collector is off, if `owns_process` is set."""
        return paused() if self.settings.owns_process else nullcontext()

    def freeze(self, *, loaded: bool = False) -> None:
        """Exclude what is in memory from garbage collection (`gc.freeze`).

        It does so if `FROZEN_AFTER` subscriptions were added since the last time, and
        `owns_process` is set.  Garbage is collected before, but not that of a state that was just
        `loaded`: it is a megabyte of the parser's, once in a process.
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
