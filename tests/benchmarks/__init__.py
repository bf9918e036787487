"""Alias of `benchmarks`, so that `python -m tests.benchmarks NAME` goes on working."""

from pathlib import Path

__path__.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
