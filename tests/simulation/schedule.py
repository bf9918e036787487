"""The schedule of one simulation: its seed, skipped acts, and rates of task switches.

A schedule is replayed from its JSON text.  Each act draws from numbers of its own, so that leaving
one out changes no other; the shrinker relies on this.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from random import Random
from typing import ClassVar

from tests.simulation.scheduler import Scheduler

KEEPS = (0.5, 0.7, 0.9, 0.97)
"""Probabilities that a task goes on at a scheduling point; a seed draws one (swarm testing)."""
STALLS = (150, 500, 2_000)
"""Scheduling points for each stall; a seed draws one."""


@dataclass(frozen=True)
class Schedule:
    """A simulation; `skipped` has the numbers of the acts left out, by the name of the client."""

    seed: int
    hours: float = 1.0
    keep: float = 0.7
    stalls: int = 500
    plant: str | None = None
    skipped: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def drawn(cls, seed: int, hours: float, plant: str | None = None) -> Schedule:
        """Return the schedule of a seed."""
        draw = Random(f"schedule {seed}")
        return cls(seed, hours, draw.choice(KEEPS), draw.choice(STALLS), plant)

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return the schedule of a JSON text."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        """Return the JSON text, without what is as by default."""
        fields = {name: value for name, value in asdict(self).items() if value not in (None, {})}
        return json.dumps(fields)

    def scheduler(self) -> Scheduler:
        """Return the scheduler of tasks."""
        return Scheduler(self.seed, keep=self.keep, stalls=self.stalls)


class Draws(Random):
    """Random numbers of one part of the world, in the act that the running task is in.

    So the draws of an act depend on no other act; those of a task outside of acts follow in turn.
    """

    _acts: ClassVar[dict[int, str]] = {}

    def __init__(self, scheduler: Scheduler, part: str) -> None:
        self._scheduler = scheduler
        self._part = part
        self._of: dict[str, Random] = {}
        super().__init__()

    @classmethod
    def begin(cls, scheduler: Scheduler, act: str) -> None:
        """Begin an act in the running task."""
        cls._acts[scheduler.current.number] = act

    def random(self) -> float:
        """Return a number from 0 to 1."""
        return self._current().random()

    def getrandbits(self, k: int, /) -> int:
        """Return a number of `k` bits."""
        return self._current().getrandbits(k)

    def _current(self) -> Random:
        act = self._acts.get(self._scheduler.current.number, "")
        if act not in self._of:
            self._of[act] = Random(f"{self._part} {act} {self._scheduler.seed}")
        return self._of[act]
