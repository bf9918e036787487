"""Run a soak: `python -m tests.soak --hours 1 --report DIR`; exit code 1 if the verdict fails.

`--seconds 60 --faults all --runs 10` makes short runs instead, as fast as clients can, with seeds
one after another, and compares the store.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from tests.soak.faults import KINDS
from tests.soak.program import SHORT, Settings, run
from tests.soak.report import write


def main() -> int:
    """Return 1 if a condition does not hold."""
    usual = Settings()
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--hours", type=float, default=usual.hours)
    parser.add_argument("--subscriptions", type=int, default=usual.subscriptions)
    parser.add_argument("--feeds", type=int, default=usual.feeds)
    parser.add_argument("--pace", type=float, default=usual.pace, help="factor of all pauses")
    parser.add_argument("--report", type=Path, default=Path("build/soak"), help="its folder")
    parser.add_argument("--seconds", type=float, help="of a short run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--faults", default="", metavar="FAULT,FAULT|all", help=", ".join(KINDS))
    parser.add_argument("--hostile", action="store_true", help="one client does its worst")
    asked = parser.parse_args()
    keep = bool(os.environ.get("KEEP"))
    if asked.seconds is None:
        size = (asked.hours, asked.subscriptions, asked.feeds, asked.pace)
        found = run(Settings(*size), keep=keep)
        write(found, asked.report)
        print(found, f"the report is {asked.report / 'soak.md'}", sep="\n")
        return int(not found.holds)
    faults = KINDS if asked.faults == "all" else tuple(filter(None, asked.faults.split(",")))
    short = replace(
        SHORT,
        hours=asked.seconds / 3_600,
        faults=faults,
        hostile=asked.hostile,
    )
    holds = True
    for seed in range(asked.seed, asked.seed + asked.runs):
        found = run(replace(short, seed=seed), keep=keep)
        print(f"seed {seed}: {found}", flush=True)
        holds &= found.holds
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())
