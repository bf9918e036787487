"""The availability of a service's executors: the start of an outage and its reason.

It works without the engine's lock, which a long push holds.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from xscl.errors import XsclError

AGAIN = 5.0
"""Seconds after which executors that are away are asked again."""

STARTING = "Spark is starting"
_LASTS = "if that lasts: does the master have executors? spark/spark.log in the data says more"


@dataclass(frozen=True, slots=True)
class Away:
    """Executors that evaluate no documents, since a time in ticks, for a reason."""

    since: int
    reason: str
    hint: str | None = None


class ExecutorsWatch:
    """Notes whether executors are away, as they are until they have started; thread-safe.

    `now` returns the time in ticks.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._mutex = threading.Lock()
        self._away: Away | None = Away(now(), STARTING, _LASTS)

    @property
    def away(self) -> Away | None:
        """Since when executors are away, and why; None if they are there."""
        with self._mutex:
            return self._away

    def note(self, failure: XsclError | None) -> bool:
        """Record why executors are away, None if they are there; return True for a new reason."""
        with self._mutex:
            before = self._away
            if failure is None:
                self._away = None
                return before is not None
            since = self._now() if before is None else before.since
            self._away = Away(since, failure.message, failure.hint)
            return before is None or before.reason != failure.message
