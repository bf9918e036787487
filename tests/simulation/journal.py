"""Events and violations of a simulation with their virtual times, those in the log among them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from tests.simulation.scheduler import NS, Scheduler


class Journal:
    """The events of a simulation, and the violations among them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.events: list[str] = []
        self.violations: list[str] = []

    def note(self, text: str) -> None:
        """Record an event."""
        self.events.append(f"{self._scheduler.now / NS:10.3f} s  {text}")

    def wrong(self, text: str) -> None:
        """Record a violation."""
        self.note(f"WRONG: {text}")
        self.violations.append(text)

    def record(self, violations: Iterable[str]) -> None:
        """Record several violations."""
        for text in violations:
            self.wrong(text)


class ServiceLog(logging.Handler):
    """Records warnings as events, and errors as violations unless a fault is to blame."""

    def __init__(self, journal: Journal, is_disturbed: Callable[[], bool]) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal
        self._is_disturbed = is_disturbed

    def emit(self, record: logging.LogRecord) -> None:
        """Record a message with its exception."""
        error = record.exc_info[1] if record.exc_info else None
        text = record.getMessage() + ("" if error is None else f" ({error!r})")
        if record.levelno >= logging.ERROR and not self._is_disturbed():
            self._journal.wrong(f"the log says: {text}")
        else:
            self._journal.note(f"log: {text}")
