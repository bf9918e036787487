"""`python -m tests.simulation --seed 1 --hours 10`: one simulation after another.

Each seed runs in a process of its own, with the recorder of the disk and fixed hashes; it prints
what is wrong, the seed first.  `--replay` runs the schedules of a file.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.simulation.runs import runner
from tests.simulation.schedule import Schedule


def main() -> int:
    """Run simulations; return 1 if one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="the number of seeds")
    parser.add_argument("--hours", type=float, default=1.0, help="virtual hours of each")
    parser.add_argument("--jobs", type=int, default=1, help="simulations at the same time")
    parser.add_argument("--until-found", action="store_true", help="end with the first failure")
    parser.add_argument("--events", action="store_true", help="print what happened")
    parser.add_argument("--replay", type=Path, help="run the schedules of a file, one a line")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.runs)
    schedules = [Schedule.drawn(seed, given.hours) for seed in seeds]
    if given.replay is not None:
        lines = given.replay.read_text().splitlines()
        schedules = [Schedule.parse(line) for line in lines if not line.startswith("#")]
    began, failed, done = time.monotonic(), 0, 0
    with runner(events=given.events) as run, ThreadPoolExecutor(given.jobs) as pool:
        pending = pool.map(run, schedules)
        for outcome in pending:
            print(outcome.output, end="", flush=True)
            done += 1
            failed += outcome.is_failure
            if failed and given.until_found:
                pool.shutdown(wait=False, cancel_futures=True)
                break
    if len(schedules) > 1:
        hours = sum(schedule.hours for schedule in schedules[:done])
        minutes = (time.monotonic() - began) / 60
        print(f"{done} seeds, {hours:g} h in {minutes:.1f} min, {failed} with violations")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
