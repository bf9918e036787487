"""`backfill`: what a history that is read costs the pushes of the same time.

An engine on disk keeps many feed items.  One thread pushes an item at a time, at a steady rate;
another subscribes with all that is kept, again and again.  Phases with and without a backfill
alternate, so the ratio of their latencies holds on a busy machine.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import xscl
from benchmarks.feed_items import items
from benchmarks.harness import Benchmark, Options, Row, log_log

NAME = "backfill"
SEED = 67
PACE = 0.04
"""Seconds from one push to the next."""
QUICK_SIZES, SIZES = (2_000, 200, 60), (20_000, 1_000, 150)
"""Kept items, other subscriptions, and pushes of a phase without a backfill."""
ROUNDS = 3
QUERIES = {
    "join": "feed//item->a[./title->t] JOIN{t=u, 2 d} feed//item->b[./title->u]",
    "next": "feed//item->a[./author->t] NEXT{t=u} feed//item->b[./author->u]",
}


def run(options: Options) -> Iterator[Row]:
    """Yield the latencies beside a backfill of each kind."""
    for kind in QUERIES:
        yield measured(kind, *(QUICK_SIZES if options.quick else SIZES))


def measured(kind: str, kept: int, subscriptions: int, pushes: int) -> Row:
    """Return the latencies of pushes with and without a backfill of one kind."""
    documents = (item.document() for item in items(2 * kept + 20_000, SEED))
    quiet: list[float] = []
    beside: list[float] = []
    took: list[float] = []
    with tempfile.TemporaryDirectory() as made, xscl.Engine(Path(made) / "store") as engine:
        engine.retain(xscl.Retention(history=None))
        engine.subscribe_many(
            (f"other-{n}", f'feed//item[contains(title, "w{n}")]') for n in range(subscriptions)
        )
        engine.push([next(documents) for _ in range(kept)])

        def push() -> float:
            began = time.perf_counter()
            engine.push(next(documents))
            spent = time.perf_counter() - began
            time.sleep(max(0.0, PACE - spent))
            return spent

        for number in range(ROUNDS):
            quiet += [push() for _ in range(pushes)]
            past = threading.Thread(
                target=engine.subscribe,
                args=(f"q{number}", QUERIES[kind]),
                kwargs={"since": 1 << 60},
            )
            began = time.perf_counter()
            past.start()
            while past.is_alive():
                beside.append(push())
            took.append(time.perf_counter() - began)
            past.join()
        matches = len(engine.matches("q0"))
        for number in range(ROUNDS):
            engine.unsubscribe(f"q{number}")
    return Row(
        NAME,
        {"kind": kind, "kept": kept, "subscriptions": subscriptions},
        {
            "p95_ms": 1e3 * _p95(quiet),
            "p95_ms_beside": 1e3 * _p95(beside),
            "ratio": _p95(beside) / _p95(quiet),
            "backfill_s": sum(took) / ROUNDS,
            "pushes_beside": len(beside),
            "matches": matches,
        },
    )


def _p95(seconds: Sequence[float]) -> float:
    return float(np.percentile(seconds, 95))


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write a picture: the ratio of each kind."""
    lines = {
        str(row.parameters["kind"]): [
            (float(str(row.parameters["kept"])), float(str(row.figures["ratio"])))
        ]
        for row in rows
    }
    log_log(path, [("pushes beside a backfill", "kept items", lines)], "times the p95 without")


BENCHMARK = Benchmark(NAME, "pushes while the history of a subscription is read", run, plot)
