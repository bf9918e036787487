"""Run a soak: `python -m tests.soak --hours 1 --report DIR`; exit code 1 if the verdict fails."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.soak.program import Settings, run
from tests.soak.report import write


def main() -> int:
    """Return 1 if a condition does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    usual = Settings()
    parser.add_argument("--hours", type=float, default=usual.hours)
    parser.add_argument("--subscriptions", type=int, default=usual.subscriptions)
    parser.add_argument("--feeds", type=int, default=usual.feeds)
    parser.add_argument("--pace", type=float, default=usual.pace, help="factor of all pauses")
    parser.add_argument("--report", type=Path, required=True, help="a folder for the report")
    asked = vars(parser.parse_args())
    report = asked.pop("report")
    found = run(Settings(**asked), keep=bool(os.environ.get("KEEP")))
    write(found, report)
    for one in found.judged:
        print(f"{'ok   ' if one.holds else 'FAILS'} {one.what}")
    print(f"the report is {report / 'soak.md'}")
    return 0 if found.holds else 1


if __name__ == "__main__":
    sys.exit(main())
