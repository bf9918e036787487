"""`small-pushes`: pushes of few items to a store on a file, with the journal and without.

Engines with the same subscriptions receive the same items in turns: one commits to its journal,
one to the database (`Engine(journalled=False)`), and one to its journal with a reader after each
push, as in a service that shows every match.  Times are processor time of this process with what
it takes to bring records to the database.  The matches of all sides are compared.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from statistics import fmean, median

import xscl
from benchmarks.feed_items import items
from benchmarks.harness import Benchmark, Options, Row, log_log, require_equal

NAME = "small-pushes"
SEED = 103
KEPT, UNCOUNTED = 500, 20
SIZES = (1, 10)
QUICK, FULL = (200, 80), (1_000, 300)
"""Subscriptions, and pushes that count."""
JOINS = 30
"""Subscriptions that join titles; the others have a constant that no item has."""
SIDES = {"direct": (False, False), "journal": (True, False), "journal, read": (True, True)}
_READ = "SELECT max(position) FROM state.result"


def run(options: Options) -> Iterator[Row]:
    """Yield a row for each side and size of a push."""
    subscriptions, pushes = QUICK if options.quick else FULL
    for size in SIZES:
        yield from compared(size, subscriptions, pushes)


def compared(size: int, subscriptions: int, pushes: int) -> Iterator[Row]:
    """Yield the cost of a push on each side; `ratio` is that of the direct side by it."""
    count = KEPT + size * (UNCOUNTED + pushes)
    documents = [item.document() for item in items(count, SEED)]
    spent: dict[str, list[float]] = {side: [] for side in SIDES}
    found: dict[str, list[str]] = {side: [] for side in SIDES}
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines, readers = {}, {}
        for number, (side, (journalled, is_read)) in enumerate(SIDES.items()):
            engine = xscl.Engine(
                place / f"{number}.duckdb", journalled=journalled, owns_process=True
            )
            engines[side] = stack.enter_context(engine)
            engine.subscribe_many(_queries(subscriptions))
            engine.push(documents[:KEPT])
            if is_read:
                readers[side] = stack.enter_context(closing(engine.host.connect()))
        for start in range(KEPT, count, size):
            for side, engine in engines.items():
                began = time.process_time()
                matches = engine.push(documents[start : start + size]).matches
                if side in readers:
                    readers[side].fetch(_READ)
                spent[side].append(time.process_time() - began)
                found[side] += [match.id for match in matches]
    for side in SIDES:
        require_equal(found[side], found["direct"], side)
    costs = {side: 1e3 * fmean(times[UNCOUNTED:]) for side, times in spent.items()}
    for side, cost in costs.items():
        yield Row(
            NAME,
            {"side": side, "size": size, "subscriptions": subscriptions},
            {
                "ms": cost,
                "median_ms": 1e3 * median(spent[side][UNCOUNTED:]),
                "ratio": costs["direct"] / cost,
                "matches": len(found[side]),
            },
        )


def _queries(count: int) -> Iterator[tuple[str, str]]:
    for number in range(count):
        first = (
            f"[./channel_url->c{number}][./title->t]"
            if number < JOINS
            else f'[./title->t][contains(title, "w{number}a")]'
        )
        yield (
            f"s{number}",
            f"feed//item{first} FOLLOWED BY{{t=u, {number % JOINS + 1} d}} feed//item[./title->u]",
        )


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write a picture: the time of a push by its size."""
    lines = {
        side: [
            (float(str(row.parameters["size"])), float(str(row.figures["ms"])))
            for row in rows
            if row.parameters["side"] == side
        ]
        for side in SIDES
    }
    log_log(path, [("small pushes", "items of a push", lines)], "milliseconds")


BENCHMARK = Benchmark(NAME, "pushes of 1 and 10 items with the journal and without", run, plot)
