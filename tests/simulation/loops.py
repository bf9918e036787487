"""Event loops in virtual time, without sockets.

A loop that has nothing to do blocks its task until a timer is due or another thread calls
`call_soon_threadsafe`.  Each turn of a loop is a scheduling point.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

from tests.simulation.scheduler import Scheduler, Task


class Selector(selectors.BaseSelector):
    """A selector that never has events, and whose wait ends with `wake`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._sleeper: Task | None = None
        self._awake = False
        self._keys: dict[Any, selectors.SelectorKey] = {}

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait until `wake`, at most some virtual seconds; return no events."""
        if self._awake or (timeout is not None and timeout <= 0):
            self._scheduler.switch("select")
        else:
            self._sleeper = self._scheduler.current
            self._scheduler.block("select", timeout)
            self._sleeper = None
        self._awake = False
        return []

    def wake(self) -> None:
        """End the wait of `select`, or the next one."""
        self._awake = True
        if self._sleeper is not None:
            self._scheduler.wake(self._sleeper)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """Note a file, which never becomes ready."""
        key = selectors.SelectorKey(fileobj, -1, events, data)
        self._keys[fileobj] = key
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """Remove a file."""
        return self._keys.pop(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return the files."""
        return self._keys


class Loop(asyncio.SelectorEventLoop):
    """A loop of the simulation; `call_soon_threadsafe` wakes its selector."""

    scheduler: Scheduler

    def __init__(self) -> None:
        self._waits = Selector(self.scheduler)
        super().__init__(self._waits)

    def _make_self_pipe(self) -> None:
        """Create no pipe; `_write_to_self` interrupts the selector."""

    def _close_self_pipe(self) -> None:
        """Close nothing."""

    def _write_to_self(self) -> None:
        self._waits.wake()


class Policy(asyncio.DefaultEventLoopPolicy):
    """Makes loops of the simulation."""

    _loop_factory = Loop


def install(scheduler: Scheduler) -> None:
    """Make `asyncio.run` and `asyncio.new_event_loop` use loops of the simulation."""
    Loop.scheduler = scheduler
    asyncio.set_event_loop_policy(Policy())
