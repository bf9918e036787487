"""The schedule of one simulation: its seed, and rates of task switches; replayed from its JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from random import Random

from tests.simulation.scheduler import Scheduler

KEEPS = (0.5, 0.7, 0.9, 0.97)
"""Probabilities that a task goes on at a scheduling point; a seed draws one (swarm testing)."""
STALLS = (150, 500, 2_000)
"""Scheduling points for each stall; a seed draws one."""


@dataclass(frozen=True)
class Schedule:
    """A simulation."""

    seed: int
    hours: float = 1.0
    keep: float = 0.7
    stalls: int = 500

    @classmethod
    def drawn(cls, seed: int, hours: float) -> Schedule:
        """Return the schedule of a seed."""
        draw = Random(f"schedule {seed}")
        return cls(seed, hours, draw.choice(KEEPS), draw.choice(STALLS))

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Return the schedule of a JSON text."""
        return cls(**json.loads(text))

    def __str__(self) -> str:
        """Return the JSON text, without what is as by default."""
        fields = {name: value for name, value in asdict(self).items() if value is not None}
        return json.dumps(fields)

    def scheduler(self) -> Scheduler:
        """Return the scheduler of tasks."""
        return Scheduler(self.seed, keep=self.keep, stalls=self.stalls)
