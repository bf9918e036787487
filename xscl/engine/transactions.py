"""The transactions of an engine: a change of the store and of the state in memory, or none.

One lock guards the store's connection and the state.  If a transaction fails, the store is rolled
back and the state is loaded again, so the object `Transactions.state` is another one afterwards.
Read it anew after each change.

A failed write of its log or of a checkpoint invalidates the DuckDB database.  Then whoever holds
the lock opens it again, and loads the state: the thread whose change failed, and if that fails,
too, a thread that tries again with growing pauses (decision 065).  Other connections are replaced
by their owners, at their next use.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path

from xscl.engine.state import EngineState, Settings
from xscl.errors import StoreError
from xscl.gc_control import paused, settle, unsettle
from xscl.planning.compile import compile_query
from xscl.store.opening import open_store
from xscl.store.store import Store
from xscl.store.store_errors import StoreDamaged, StoreInUse, StoreWentBack, WrongVersion

_log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds between attempts to open a lost database again: doubled after each failure."""
_FINAL = (StoreDamaged, StoreInUse, StoreWentBack, WrongVersion)
FROZEN_AFTER = 1_000
"""New subscriptions after which what is in memory is excluded from garbage collection."""


class Transactions:
    """The store and the state of one engine, changed together or not at all.

    Any thread may change them; they do so one at a time.  `state` may be read without the lock
    where its component allows that (docs/internals/state-and-threads.md).
    """

    def __init__(self, path: str | Path | None, settings: Settings) -> None:
        self.store = open_store(path, journalled=settings.journalled)
        self.lock = threading.RLock()
        self.compiled = lru_cache(maxsize=10_000)(compile_query)
        self._close_by = math.inf
        self._frozen = 0  # subscriptions when objects were last excluded from collection
        self._is_reloaded = False  # a failed change has left an old state to the collector
        self._closing = threading.Event()
        self._mutex = threading.Lock()
        self._is_opening = False  # a thread opens a lost database; guarded by `_mutex`
        self.settings = settings
        try:
            with self.store.translate_errors(), self.paused():
                self._load()
                self.state.keep_image()
            self.freeze()
            if self.store.path is not None:
                self.store.when_lost(self._open_later)
        except BaseException:
            self.store.close()
            raise

    def _load(self) -> None:
        """Replace the state by that of the last commit."""
        with self.store.whole():
            self.state = EngineState(self.store, self.settings, self.compiled)

    @contextmanager
    def change(self) -> Iterator[EngineState]:
        """Yield the state within a transaction; if the block raises, nothing has changed.

        Raises StoreError; StoreUnavailable while the database is being opened again.
        If the state cannot be loaded again after a failure, for another reason than a disk that is
        full or fails, the engine is closed.
        """
        with self.lock:
            self.store.expect_open()
            if self._is_reloaded:
                self.freeze()
            state = self.state
            try:
                with self.store.transaction():
                    yield state
                    state.registry.save()
                    state.pushed = None
                state.pushed = state.processor.pushed
            except BaseException as error:
                del state  # the traceback refers to this frame
                self._recover(error)
                raise

    @contextmanager
    def committed(self) -> Iterator[EngineState]:
        """Yield the state of the last commit; the block excludes changes.

        Without the lock, `state` may be that of a change that is not committed, or of one that
        failed and whose database cannot be opened yet.  Raises StoreError; StoreUnavailable while
        the database is being opened again.
        """
        with self.lock:
            self.store.expect_open()
            yield self.state

    def _recover(self, error: BaseException) -> None:
        """Replace the state by what the store has, opened again if need be.

        A store that cannot be read now is opened later; a damaged one is closed.

        The next change freezes the new state: until the error is handled, the frames of its
        traceback refer to the old one, which would be frozen, too.
        """
        self.state.pushed = None
        self._unfreeze()
        self._is_reloaded = True
        try:
            try:
                with self.store.translate_errors():
                    self._load()
            except (StoreError, OSError) as again:
                if self.store.path is None or isinstance(again, _FINAL):
                    raise
                self.store.lose(again)
                self._open_again()
        except Exception as again:
            self.store.close()
            raise StoreError(
                f"the engine is closed: after a failure its state could not be read again: {again}",
                hint="is the disk full or failing? mend that and start again, or report this",
            ) from error

    # -- A lost database -------------------------------------------------------------------

    def _open_later(self) -> None:
        """Start a thread that opens the database again, unless there is one."""
        with self._mutex:
            if self._is_opening:
                return
            self._is_opening = True
        threading.Thread(target=self._keep_opening, name="opener", daemon=True).start()

    def _keep_opening(self) -> None:
        """Try to open the database again until it is open, damaged or closed."""
        pause = FIRST_PAUSE
        while self._has_to_open():
            with self.lock:
                try:
                    if self._closing.is_set() or self._open_again():
                        continue
                except Exception:
                    _log.exception("the engine is closed: its state cannot be read again")
                    self.store.close()
                    continue
            self._closing.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _has_to_open(self) -> bool:
        """Return whether the database is lost; if not, the next loss starts another thread."""
        with self._mutex:
            self._is_opening = self.store.is_lost and not self._closing.is_set()
            return self._is_opening

    def _open_again(self) -> bool:
        """Open the database and load the state if it is lost; return whether it is open now.

        The caller holds the lock.  Raises what no further attempt would change.
        """
        if not self.store.is_lost:
            return True
        self.state.pushed = None
        self._unfreeze()
        try:
            with self.store.translate_errors(), self.paused():
                self.store.reopen()
                self._load()
        except _FINAL:
            raise
        except (StoreError, OSError) as error:
            self.store.lose(error)
            _log.warning("the store cannot be opened again now: %s", error)
            return False
        self._is_reloaded = True
        _log.warning("the store is open again, at commit %d", self.store.seen().commits)
        return True

    def connect(self) -> Store:
        """Return the store on a new connection, for another thread; close it before the engine."""
        with self.lock:
            return self.store.connect_again()

    def paused(self) -> AbstractContextManager[None]:
        """Return a context in which no garbage is collected, if the process is the engine's own."""
        return paused() if self.settings.owns_process else nullcontext()

    def freeze(self) -> None:
        """Move the state to the permanent generation (`gc.freeze`) after many new subscriptions."""
        if not self.settings.owns_process:
            return
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
        """Close the store, and keep the image of stage 1.  The caller holds the lock."""
        self._closing.set()
        self.store.close()
        if self.state.pushed is not None:  # else a change has failed
            self.state.keep_image(self._close_by)
        self._unfreeze()
