"""`python -m tests.simulation --seed 1 --hours 10`: one simulation after another.

Each seed runs in a process of its own, with the recorder of the disk and fixed hashes; it prints
what is wrong, the seed first.  `--child` is such a process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Run simulations; return 1 if one of them found something."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--runs", type=int, default=1, help="the number of seeds")
    parser.add_argument("--hours", type=float, default=1.0, help="virtual hours of each")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plant", help="a defect of tests.simulation.planted")
    parser.add_argument("--until-found", action="store_true", help="end with the first failure")
    parser.add_argument("--events", action="store_true", help="print what happened")
    given = parser.parse_args()
    if given.child is not None:
        from tests.simulation.child import simulate

        return simulate(given.seed, given.hours, given.child, given.plant, events=given.events)
    from tests.simulation.disk import build

    shared = Path("/dev/shm")
    failed = 0
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None) as made:
        library = build(Path(made))
        for seed in range(given.seed, given.seed + given.runs):
            root = Path(made) / str(seed)
            root.mkdir()
            environment = {
                **os.environ,
                "PYTHONHASHSEED": "0",
                "LD_PRELOAD": str(library),
                "DISK_UNDER": str(root / "life"),
                "DISK_LOG": str(root / "log"),
            }
            command = [sys.executable, "-m", "tests.simulation", "--child", str(root)]
            options = ["--seed", str(seed), "--hours", str(given.hours)]
            options += ["--plant", given.plant] if given.plant else []
            options += ["--events"] if given.events else []
            if failed and given.until_found:
                break
            failed += subprocess.run([*command, *options], env=environment).returncode != 0
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
