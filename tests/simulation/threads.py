"""Locks and threads of the standard library as tasks of a scheduler.

`install` replaces the names of `threading`, `time` and `queue`, before any module of the product is
imported: each lock, queue, condition, event, executor and timeout is then a scheduling point in
virtual time.  `Condition`, `Event`, `Queue` and the executors are the ones of the standard library,
which are made of the replaced lock.
"""

from __future__ import annotations

import _thread
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from tests.simulation.scheduler import NS, Scheduler, Task


class Lock:
    """`threading.Lock` of a scheduler; a task that ends its process leaves it as it is."""

    scheduler: Scheduler

    def __init__(self) -> None:
        self._held = False
        self._waiting: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, waiting at most `timeout` virtual seconds unless it is -1."""
        scheduler = self.scheduler
        if not scheduler.is_task():
            return self._acquire_outside()
        scheduler.switch("acquire")
        until = None if timeout < 0 else scheduler.now + int(timeout * NS)
        while self._held:
            if not blocking:
                return False
            left = None if until is None else (until - scheduler.now) / NS
            if left is not None and left <= 0:
                return False
            task = scheduler.current
            self._waiting.append(task)
            try:
                scheduler.block("lock", left)
            finally:
                if task in self._waiting:
                    self._waiting.remove(task)
        self._held = True
        return True

    def _acquire_outside(self) -> bool:
        """Acquire it in a thread that the scheduler does not know; such a thread may not wait."""
        if self._held:
            raise RuntimeError("a thread outside the simulation waits for a lock of it")
        self._held = True
        return True

    def release(self) -> None:
        """Release the lock and wake all that wait; the first that is drawn acquires it."""
        if not self._held:
            raise RuntimeError("release unlocked lock")
        self._held = False
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            self.scheduler.wake(task)
        if self.scheduler.is_task() and not self.scheduler.current.killed:
            self.scheduler.switch("release")

    def locked(self) -> bool:
        """Return True if a task holds the lock."""
        return self._held

    def _at_fork_reinit(self) -> None:
        self._held = False
        self._waiting = []

    def __enter__(self) -> bool:
        """Acquire the lock."""
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()


class RLock:
    """`threading.RLock` over a `Lock`; of the owner's acquisitions only the first may switch."""

    def __init__(self) -> None:
        self._block = Lock()
        self._owner: int | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, at once if this thread holds it."""
        me = _thread.get_ident()
        if self._owner == me:
            self._count += 1
            return True
        if not self._block.acquire(blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        """Release the lock once."""
        if self._owner != _thread.get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            self._owner = None
            self._block.release()

    def __enter__(self) -> bool:
        """Acquire the lock."""
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self.release()

    def _release_save(self) -> tuple[int, int | None]:
        state = self._count, self._owner
        self._count, self._owner = 0, None
        self._block.release()
        return state

    def _acquire_restore(self, state: tuple[int, int | None]) -> None:
        self._block.acquire()
        self._count, self._owner = state

    def _is_owned(self) -> bool:
        return self._owner == _thread.get_ident()

    def _at_fork_reinit(self) -> None:
        self.__init__()  # type: ignore[misc]  # no subclass has another


class Thread:
    """`threading.Thread` as a task; `failures` collects what the threads raise."""

    scheduler: Scheduler
    failures: list[tuple[str, BaseException]] = []  # noqa: RUF012  # of the one simulation
    _count = 0

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        Thread._count += 1
        self._number = Thread._count
        self.name = name or f"Thread-{Thread._count}"
        self.daemon = bool(daemon)
        self.ident: int | None = None
        self._call = target, tuple(args), dict(kwargs or {})
        self._ended = threading.Event()

    def __hash__(self) -> int:
        """Return a number that does not depend on addresses: executors join a set of threads."""
        return self._number

    @property
    def native_id(self) -> int | None:
        """Return the identifier of the thread."""
        return self.ident

    def start(self) -> None:
        """Start the task; it runs when the scheduler draws it."""
        if self.ident is not None:
            raise RuntimeError("threads can only be started once")
        self.ident = -1
        self.scheduler.spawn(self.name, self._bootstrap)
        self.scheduler.switch("start")

    def run(self) -> None:
        """Call the target; subclasses override it."""
        target, args, kwargs = self._call
        if target is not None:
            target(*args, **kwargs)

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the thread."""
        if self.ident is None:
            raise RuntimeError("cannot join thread before it is started")
        self._ended.wait(timeout)

    def is_alive(self) -> bool:
        """Return True if the thread was started and has not ended."""
        return self.ident is not None and not self._ended.is_set()

    def _bootstrap(self) -> None:
        self.ident = _thread.get_ident()
        _THREADS[self.ident] = self
        try:
            self.run()
        except Exception as error:
            if not self.scheduler.current.killed:  # unwinding meets locks that it does not hold
                Thread.failures.append((self.name, error))
        finally:
            del _THREADS[_thread.get_ident()]
            if not self.scheduler.current.killed:
                self._ended.set()


_THREADS: dict[int, Any] = {}


def install(scheduler: Scheduler) -> None:
    """Replace locks, threads and clocks of the standard library; the process has no way back."""
    if "concurrent.futures.thread" in sys.modules:
        raise RuntimeError("the locks of concurrent.futures.thread were made before")
    Lock.scheduler = Thread.scheduler = scheduler
    main = threading.current_thread()

    def current_thread() -> Any:
        return _THREADS.get(_thread.get_ident(), main)

    replaced: dict[Any, dict[str, object]] = {
        threading: {
            "_allocate_lock": Lock,
            "Lock": Lock,
            "_PyRLock": RLock,
            "_CRLock": None,
            "RLock": RLock,
            "Thread": Thread,
            "current_thread": current_thread,
            "_time": lambda: scheduler.now / NS,
        },
        time: {
            "monotonic": lambda: scheduler.now / NS,
            "monotonic_ns": lambda: scheduler.now,
            "perf_counter": lambda: scheduler.now / NS,
            "perf_counter_ns": lambda: scheduler.now,
            "time": lambda: (scheduler.now + scheduler.wall_offset) / NS,
            "time_ns": lambda: scheduler.now + scheduler.wall_offset,
            "clock_gettime_ns": lambda _: scheduler.now,
            "clock_gettime": lambda _: scheduler.now / NS,
            "sleep": lambda seconds: scheduler.block("sleep", seconds) and None,
        },
        queue: {
            "SimpleQueue": queue._PySimpleQueue,  # type: ignore[attr-defined]
            "time": lambda: scheduler.now / NS,
        },
        # Virtual time stands still while a child process runs, or its real time would matter.
        subprocess: {
            "threading": SimpleNamespace(Lock=_thread.allocate_lock),
            "time": SimpleNamespace(sleep=time.sleep),
        },
    }
    for module, names in replaced.items():
        for name, value in names.items():
            setattr(module, name, value)
