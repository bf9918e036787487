"""Events and violations of a simulation, with their virtual times."""

from __future__ import annotations

from collections.abc import Iterable

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
