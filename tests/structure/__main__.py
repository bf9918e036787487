"""Print the measurements: `python -m tests.structure modules|lines|sql`."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.structure import lines, modules, sql_of_state


def main() -> None:
    """Print one measurement, or all."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("measurement", nargs="?", choices=("modules", "lines", "sql"))
    asked = parser.parse_args().measurement
    if asked in (None, "sql"):
        print(sql_of_state.report(Path(__file__).resolve().parents[2]))
    if asked in (None, "modules"):
        calls = modules.first_push()
        print(modules.report("first push", dict.fromkeys(called for _, called in calls)))
        for step, entered in modules.entries(calls).items():
            print(f"  {step} enters through {', '.join(entered)}")
        print(modules.report("first subscribe", modules.first_subscribe()))
    if asked in (None, "lines"):
        print(lines.report())


if __name__ == "__main__":
    main()
