"""Shrinks the schedule of a failure: fewer hours, fewer acts, fewer switches of tasks.

A smaller schedule counts if its run fails too, with whatever violation.  As leaving out an act
changes the interleaving of the others, each size is tried once, largest parts first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from tests.simulation.runs import Outcome, Runner
from tests.simulation.schedule import Schedule

TRIES = 80
"""Runs at most."""
SHORTEST = 0.02
"""Hours of the shortest schedule."""


def shrink(schedule: Schedule, runner: Runner) -> Schedule:
    """Return a smaller schedule that fails too; raises ValueError if the schedule does not fail."""
    outcome = runner.run(schedule)
    if not outcome.is_failure:
        raise ValueError("the schedule does not fail")
    tries = 1
    smaller = True
    while smaller and tries < TRIES:
        smaller = False
        for candidate in _smaller(schedule, _acts(outcome)):
            tries += 1
            found = runner.run(candidate)
            if found.is_failure:
                schedule, outcome, smaller = candidate, found, True
                print(f"{tries} runs: {schedule}", flush=True)
                break
            if tries >= TRIES:
                break
    return schedule


def _smaller(schedule: Schedule, acts: dict[str, int]) -> Iterator[Schedule]:
    """Yield smaller schedules, the most different first."""
    for part in (4, 2, 1.25):
        if (hours := round(schedule.hours / part, 3)) >= SHORTEST:
            yield replace(schedule, hours=hours)
    for name, made in sorted(acts.items()):
        left = [n for n in range(made) if n not in schedule.skipped.get(name, ())]
        for size in (len(left), len(left) // 2, len(left) // 4, 1):
            for start in range(0, len(left), size) if size else ():
                skipped = {*schedule.skipped.get(name, ()), *left[start : start + size]}
                yield replace(schedule, skipped={**schedule.skipped, name: sorted(skipped)})
    if schedule.keep < 0.97:
        yield replace(schedule, keep=0.97)
    if schedule.stalls < 2_000:
        yield replace(schedule, stalls=schedule.stalls * 4)


def _acts(outcome: Outcome) -> dict[str, int]:
    """Return the number of acts of each client, which a run prints."""
    found = re.search(r"^acts (.*)$", outcome.output, re.MULTILINE)
    return dict(json.loads(found[1])) if found else {}
