"""`python -m benchmarks NAME [--quick] [--json] [--profile] [--plot FILE.png]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.catalog import BENCHMARKS
from benchmarks.harness import Options, ResultsDiffer, Row, line


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a benchmark, print its rows as they are measured, and return the exit status."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    if asked.list or asked.name is None:
        for name, benchmark in BENCHMARKS.items():
            print(f"{name:<14} {benchmark.about}")
        return 0
    if asked.name not in BENCHMARKS:
        parser.error(f"there is no benchmark {asked.name!r}; choose from {', '.join(BENCHMARKS)}")
    benchmark = BENCHMARKS[asked.name]
    rows: list[Row] = []
    try:
        for row in benchmark.run(
            Options(quick=asked.quick, profile=asked.profile, most=asked.most)
        ):
            rows.append(row)
            print(row.json() if asked.json else line(row), flush=True)
    except ResultsDiffer as error:
        print(f"{asked.name}: {error}", file=sys.stderr)
        return 1
    if asked.plot is not None:
        benchmark.plot(rows, asked.plot)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("name", nargs="?", metavar="NAME", help="the benchmark to run")
    parser.add_argument("--list", action="store_true", help="list the benchmarks")
    parser.add_argument("--quick", action="store_true", help="small sizes: within 60 s")
    parser.add_argument("--json", action="store_true", help="print one JSON object a row")
    parser.add_argument("--profile", action="store_true", help="print shares of time by stage")
    parser.add_argument("--most", type=int, help="the most subscriptions present (register)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw the paper's figure")
    return parser


if __name__ == "__main__":
    sys.exit(main())
