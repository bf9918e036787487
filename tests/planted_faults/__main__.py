"""Plant faults and run the tests that must fail: `python -m tests.planted_faults [--only NAME]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.planted_faults.faults import FAULTS, BadFault, Fault
from tests.planted_faults.trial import Copy


def main() -> int:
    """Return 1 if a fault was missed or could not be planted."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted_faults", description=__doc__)
    parser.add_argument("--only", action="append", help="a part of the names of faults to plant")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    asked = parser.parse_args()
    faults = [one for one in FAULTS if not asked.only or any(n in one.name for n in asked.only)]
    if asked.list or not faults:
        print(*(f"{one.module}: {one.name}" for one in faults), sep="\n")
        return int(not faults)
    with tempfile.TemporaryDirectory() as directory:
        copy = Copy(Path(directory))
        copy.expect_sound(faults)
        caught = [_is_caught(copy, one) for one in faults]
    print(f"{sum(caught)} of {len(caught)} faults were caught")
    return int(not all(caught))


def _is_caught(copy: Copy, fault: Fault) -> bool:
    """Plant one fault and print what came of it."""
    try:
        outcome = copy.run_with(fault)
    except BadFault as error:
        print(f"ERROR   {fault.name}: {error}", flush=True)
        return False
    if not outcome.passed:
        print(f"caught  {fault.name}", flush=True)
        return True
    print(f"MISSED  {fault.name} in {fault.module} by {', '.join(outcome.passed)}", flush=True)
    print(outcome.printed, flush=True)
    return False


if __name__ == "__main__":
    sys.exit(main())
