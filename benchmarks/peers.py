"""`peers`: title joins across channels beside what a user would pick instead.

A subscription names two channels and reports an item of the second whose title an item of the first
had within a day before.  The pairs of popular channels come first.  Ours is timed from the bytes
of a batch to its committed matches; the variants `from bytes` do as much, the others get ready
rows.  `ratio` is a peer's time by ours, medians of batches in turns: above 1 we are faster.

Each side is a process, so `bytes` is the growth of its memory.  The matches of all sides are
compared with those of the dict before any row is printed.  Of the sides with a query for each
subscription some queries run, and their time is scaled.
"""

from __future__ import annotations

import multiprocessing
import statistics
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice, product
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import feed_readers
from benchmarks.feed_items import CHANNELS, Item, items
from benchmarks.harness import Options, Row, Value, require_equal
from benchmarks.kept_bytes import resident
from benchmarks.peer_systems import FROM_BYTES, SIDES, Channels, Match

NAME = "peers"
SEED = 28
SIZES = (1, 100, 1_000, 10_000, 100_000)
ABSENT = {
    "Siddhi": ("PySiddhi", "PySiddhi is not installed, or the SDK that it loads"),
    "Flink SQL": ("pyflink", "PyFlink is not installed"),
}
"""Peers that are measured where somebody has installed them, their module, and why they are not."""


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches that all sides ingest, in turns; the first ones warm up."""

    size: int
    count: int
    warming: int


QUICK = (Batches(1_000, 5, 2), Batches(10, 15, 4))
FULL = (Batches(1_000, 20, 3), Batches(10, 200, 10))


def run(options: Options) -> Iterator[Row]:
    """Yield a row for each number of subscriptions, size of batch and side; then reading feeds."""
    for count in SIZES:
        yield from compared(count, QUICK if options.quick else FULL)
    for entries in feed_readers.ENTRIES:
        feeds = feed_readers.QUICK_FEEDS if options.quick else feed_readers.FEEDS
        yield from feed_readers.compared(NAME, feeds, entries)


def channels(count: int) -> list[Channels]:
    """Return pairs of different channels, those of popular ones first."""
    pairs = product(range(CHANNELS), range(CHANNELS))
    ordered = sorted(pairs, key=lambda pair: ((pair[0] + 1) * (pair[1] + 1), pair))
    return list(islice((pair for pair in ordered if pair[0] != pair[1]), count))


class Process:
    """A side in a process of its own, which generates the same stream of items."""

    def __init__(self, name: str, asked: Sequence[Channels], stream: int, folder: str) -> None:
        self.name = name
        spawn = multiprocessing.get_context("forkserver")
        spawn.set_forkserver_preload([__name__])
        self._pipe, theirs = spawn.Pipe()
        file = Path(folder, str(list(SIDES).index(name)))
        self._process: BaseProcess = spawn.Process(
            target=_serve, args=(theirs, name, asked, stream, file), daemon=True
        )
        self._process.start()
        theirs.close()
        self.counted: int = self._pipe.recv()

    def push(self, first: int, end: int) -> float:
        """Push items of the stream, and return the seconds that it took."""
        self._pipe.send((first, end))
        spent: float = self._pipe.recv()
        return spent

    def close(self) -> tuple[list[Match], int]:
        """End the process; return its matches and the bytes by which its memory grew."""
        self._pipe.send(None)
        matches, grown = self._pipe.recv()
        self._process.join()
        return matches, grown


def _serve(pipe: Connection, name: str, asked: list[Channels], stream: int, file: Path) -> None:
    """Be a side: answer the requests of a `Process`."""
    every: list[Item] = items(stream, SEED)
    before = resident()
    with closing(SIDES[name](asked, file)) as side:
        pipe.send(side.counted)
        while (part := pipe.recv()) is not None:
            first, end = part
            pipe.send(side.push(every[first:end]))
        grown = resident() - before
        pipe.send((side.matches(), grown))


def compared(count: int, plan: Sequence[Batches]) -> Iterator[Row]:
    """Yield the rows of so many subscriptions, after all sides have found the same matches."""
    asked, stream = channels(count), sum(batches.size * batches.count for batches in plan)
    spent: dict[tuple[str, int], float] = {}
    with TemporaryDirectory() as folder:
        sides = [Process(name, asked, stream, folder) for name in SIDES]
        first = 0
        for batches in plan:
            times: dict[str, list[float]] = {name: [] for name in SIDES}
            for _ in range(batches.count):
                for side in sides:
                    times[side.name].append(side.push(first, first + batches.size))
                first += batches.size
            for name, measured in times.items():
                spent[name, batches.size] = statistics.median(measured[batches.warming :])
        counted = {side.name: side.counted for side in sides}
        ends = {side.name: side.close() for side in sides}
    expected, _ = ends["Python dict"]
    for name, (found, _) in ends.items():
        some = (match for match in expected if match[0] < counted[name])
        require_equal(found, some, f"{name}, {count} subscriptions")
    for batches in plan:
        for name, (_, grown) in ends.items():
            parameters = _parameters(name.removesuffix(FROM_BYTES), count, batches.size)
            parameters |= {"input": SIDES[name].input, "storage": SIDES[name].storage}
            figures: dict[str, Value] = {
                "items_per_s": batches.size / spent[name, batches.size],
                "ratio": spent[name, batches.size] / spent["xscl", batches.size],
                "matches": len(expected),
                "bytes": grown,
            }
            if counted[name] < count:
                figures["sampled"] = counted[name]
            yield Row(NAME, parameters, figures)
        for name, (module, reason) in ABSENT.items():
            why = "no adapter was written yet" if find_spec(module) else reason
            yield Row(NAME, _parameters(name, count, batches.size), {"failure": why})


def _parameters(name: str, count: int, batch: int) -> dict[str, Value]:
    return {"work": "joins", "subscriptions": count, "batch": batch, "variant": name}
