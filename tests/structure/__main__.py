"""Print the measurements: `python -m tests.structure modules|lines`."""

from __future__ import annotations

import argparse

from tests.structure import lines, modules


def main() -> None:
    """Print one measurement, or both."""
    parser = argparse.ArgumentParser(prog="python -m tests.structure", description=__doc__)
    parser.add_argument("measurement", nargs="?", choices=("modules", "lines"))
    asked = parser.parse_args().measurement
    if asked != "lines":
        calls = modules.first_push()
        print(modules.report("first push", dict.fromkeys(called for _, called in calls)))
        for step, entered in modules.entries(calls).items():
            print(f"  {step} enters through {', '.join(entered)}")
        print(modules.report("first subscribe", modules.first_subscribe()))
    if asked != "modules":
        print(lines.report())


if __name__ == "__main__":
    main()
