"""The components of a running service: each starts and stops, in the order of a list."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Protocol

_log = logging.getLogger(__name__)

GRACE = 2.0
"""Seconds for a component to end."""


class ServiceComponent(Protocol):
    """A part of a service that works between `start` and `stop`."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@contextmanager
def started(components: Sequence[ServiceComponent], end: Callable[[], None]) -> Iterator[None]:
    """Start components in order; then call `end`, and stop them, the last one first."""
    begun = list[ServiceComponent]()
    try:
        for component in components:
            component.start()
            begun.append(component)
        yield
    finally:
        end()
        for component in reversed(begun):
            component.stop()


class ServiceJob:
    """Work until the service stops: `begin` starts it, and `failed` is called with its error."""

    def __init__(
        self, name: str, begin: Callable[[], Future[None]], failed: Callable[[BaseException], None]
    ) -> None:
        self._name = name
        self._begin = begin
        self._failed = failed
        self._done: Future[None] | None = None

    def start(self) -> None:
        """Begin the work."""
        self._done = self._begin()
        self._done.add_done_callback(self._ended)

    def stop(self) -> None:
        """Wait until the work has ended; leave it if it does not."""
        if self._done is not None and wait([self._done], GRACE).not_done:
            _log.warning("%s does not end; the service goes without it", self._name)

    def _ended(self, done: Future[None]) -> None:
        if not done.cancelled() and (error := done.exception()) is not None:
            self._failed(error)
