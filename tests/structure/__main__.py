"""Print the measurements: `python -m tests.structure modules|names`."""

from __future__ import annotations

import argparse

from tests.project import ROOT
from tests.structure import modules
from tests.structure.docstrings import Names


def main() -> None:
    """Print one measurement, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("measurement", nargs="?", choices=("modules", "names"))
    asked = parser.parse_args().measurement
    if asked in (None, "modules"):
        calls = modules.traced()
        for title, one in calls.items():
            print(modules.report(title, one))
        for step, entered in modules.entries(calls["push"]).items():
            print(f"{step} enters through {', '.join(entered)}")
    if asked in (None, "names"):
        found = Names(ROOT).ambiguous()
        print(f"{len(found)} names of classes are defined in several modules")
        for name, defined in found.items():
            print(f"  {name}: {', '.join(defined)}")


if __name__ == "__main__":
    main()
