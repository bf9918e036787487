"""Run the stress program: `python -m tests.stress --seed 1 --seconds 60 --runs 10`."""

from __future__ import annotations

import argparse
import sys

from tests.stress.clients import KINDS
from tests.stress.faults import KINDS as FAULTS
from tests.stress.program import run
from tests.stress.service import PLANTED, SERVE


def main() -> int:
    """Return 1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.stress", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--runs", type=int, default=1, help="runs with seeds one after another")
    parser.add_argument("--within", type=float, default=5.0, help="seconds for SIGTERM")
    parser.add_argument("--clients", type=int, default=len(KINDS))
    parser.add_argument(
        "--faults",
        type=lambda text: FAULTS if text == "all" else tuple(text.split(",")),
        default=(),
        metavar="KIND,KIND|all",
        help=f"what breaks meanwhile: {', '.join(FAULTS)}",
    )
    parser.add_argument(
        "--no-mount",
        dest="mounts",
        action="store_false",
        help="simulate the full disk by a library",
    )
    parser.add_argument("--planted", action="store_true", help="with a fault that must be found")
    asked = parser.parse_args()
    failed = False
    for seed in range(asked.seed, asked.seed + asked.runs):
        report = run(
            seed,
            asked.seconds,
            clients=asked.clients,
            stops_within=asked.within,
            faults=asked.faults,
            mounts=asked.mounts,
            program=PLANTED if asked.planted else SERVE,
        )
        failed |= bool(report.wrong)
        print(report, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
