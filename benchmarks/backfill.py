"""`backfill`: what a history that is read costs the pushes of the same time.

An engine on disk keeps many feed items.  One thread pushes an item at a time, at a steady rate;
another subscribes with all that is kept, again and again.  Phases with and without a backfill
alternate, and a phase without one pushes as many items as the phase before it, so the ratio of
their latencies holds on a busy machine and while the state grows.  One 95th percentile of few
pushes moves by a third from run to run; `ratio_of_phases` is the median over the phases.
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
from benchmarks.harness import Options, Row

NAME = "backfill"
SEED = 67
PACE = 0.04
"""Seconds from one push to the next."""
QUICK_SIZES, SIZES = (2_000, 200, 60), (20_000, 1_000, 150)
"""Kept items, other subscriptions, and pushes of the first phase, which has no backfill."""
ROUNDS = 5
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
    quiet: list[list[float]] = []
    beside: list[list[float]] = []
    took: list[float] = []
    with (
        tempfile.TemporaryDirectory() as made,
        xscl.Engine(Path(made) / "store", owns_process=True) as engine,
    ):
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

        quiet.append([push() for _ in range(pushes)])
        for number in range(ROUNDS):
            past = threading.Thread(
                target=engine.subscribe,
                args=(f"q{number}", QUERIES[kind]),
                kwargs={"since": 1 << 60},
            )
            began = time.perf_counter()
            past.start()
            beside.append([push()])
            while past.is_alive():
                beside[-1].append(push())
            took.append(time.perf_counter() - began)
            past.join()
            quiet.append([push() for _ in beside[-1]])
        matches = len(engine.matches("q0"))
        for number in range(ROUNDS):
            engine.unsubscribe(f"q{number}")
    return Row(
        NAME,
        {"kind": kind, "kept": kept, "subscriptions": subscriptions},
        {
            "p50_ms": 1e3 * _percentile(50, *quiet),
            "p50_ms_beside": 1e3 * _percentile(50, *beside),
            "p95_ms": 1e3 * _percentile(95, *quiet),
            "p95_ms_beside": 1e3 * _percentile(95, *beside),
            "ratio": _percentile(95, *beside) / _percentile(95, *quiet),
            "ratio_of_phases": float(
                np.median(
                    [
                        _percentile(95, past) / _percentile(95, before, after)
                        for past, before, after in zip(beside, quiet, quiet[1:], strict=False)
                    ]
                )
            ),
            "backfill_s": sum(took) / ROUNDS,
            "pushes_beside": sum(map(len, beside)),
            "matches": matches,
        },
    )


def _percentile(percent: int, *phases: Sequence[float]) -> float:
    return float(np.percentile(np.concatenate(phases), percent))
