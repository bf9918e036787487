"""One simulation in this process, which it takes over: locks, clocks and loops are replaced.

`python -m tests.simulation.child DIRECTORY [--events] < SCHEDULE`
"""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.simulation.schedule import Schedule

LEAST = {"pushes": 300, "registrations": 30, "reads": 10, "faults": 3}
"""Minimum counts for each virtual hour, averaged over a run."""


def simulate(schedule: Schedule, root: Path, *, events: bool) -> int:
    """Run one simulation and end the process: 0 if nothing is wrong, else 1."""
    from tests.simulation import loops, threads
    from tests.simulation.scheduler import Deadlock

    seed, scheduler = schedule.seed, schedule.scheduler()
    _stay_on_one_processor(seed)
    threads.install(scheduler)  # before the product is imported
    loops.install(scheduler)
    gc.disable()
    random.seed(seed)

    import logging

    from tests.simulation import database, service
    from tests.simulation.world import World

    logging.getLogger("concurrent.futures").disabled = True
    logging.getLogger("asyncio").disabled = True
    logging.disable(logging.INFO)
    service.install()
    database.install(scheduler)
    world = World(scheduler, root, schedule)
    try:
        wrong = world.run()
    except Deadlock as error:
        wrong = [f"deadlock: {error}"]
    except Exception as error:
        import traceback

        traceback.print_exc()
        wrong = [f"{error!r}"]
    wrong += [f"the thread {name} failed: {error!r}" for name, error in threads.Thread.failures]
    wrong += database.WRONG[:5]
    wrong += _missing(world.model.counts, schedule)
    if events:
        print(*world.journal.events, sep="\n")
    counts = ", ".join(f"{n} {what}" for what, n in sorted(world.model.counts.items()))
    print(
        f"seed {seed}: {schedule.hours:g} h, {world.host.lives} lives, {scheduler.steps} steps,",
        end=" ",
    )
    print(f"trace {scheduler.trace:08x}; {counts}")
    for text in wrong:
        print(f"  seed {seed}: {text}")
    sys.stdout.flush()
    os._exit(1 if wrong else 0)  # tasks that wait are of no use any more


def _stay_on_one_processor(number: int) -> None:
    """Bind the process to one of its processors, where handing over to another thread costs least.

    One thread runs at a time.  An hour takes an eighth less processor time (measured in turns,
    docs/measurements.md#simulation).
    """
    if hasattr(os, "sched_setaffinity"):  # Linux
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[number % len(processors)]})


def _missing(counts: Mapping[str, int], schedule: Schedule) -> Iterator[str]:
    """Yield what a run of whole hours has had too little of."""
    if schedule.hours >= 1:
        for what, least in LEAST.items():
            if counts[what] < least * schedule.hours:
                yield f"only {counts[what]} {what} in {schedule.hours:g} h"


if __name__ == "__main__":
    simulate(Schedule.parse(sys.stdin.read()), Path(sys.argv[1]), events="--events" in sys.argv)
