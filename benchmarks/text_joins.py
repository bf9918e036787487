"""`text-joins`: joins within a window by `contains` and by the similarity of titles.

Items come 5,000 to a window.  Each query is alone in its engine, in a process of its own, so that
the memory is that of one query.  The throughput is that of the second half of the items, which all
meet a full window.  The matches of the first items are compared with those of all pairs.
"""

from __future__ import annotations

import multiprocessing
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import xscl
from benchmarks.feed_items import BETWEEN, SECOND, Item, items
from benchmarks.harness import Options, Row, Value, require_equal

NAME = "text-joins"
SEED = 27
QUICK_KEPT, KEPT = 500, 5_000
BATCHES = (50, 500)
CHECKED = 400

TITLES = "feed//item->x[./title->t] JOIN{%s, %d} feed//item->y[./title->u]"
TEXTS = "feed//item->x[./title->t] JOIN{%s, %d} feed//item->y[./description->u]"


def _jaccard(one: str, other: str) -> float:
    mine, others = set(one.lower().split()), set(other.lower().split())
    return len(mine & others) / len(mine | others)


QUERIES: dict[str, tuple[str, str, int, Callable[[str, str], bool]]] = {
    "title in text": (TEXTS, "contains(u, t)", 4, lambda t, u: t in u),
    "title in title": (TITLES, "contains(u, t)", 2, lambda t, u: t in u),
    "title begins text": (TEXTS, "starts-with(u, t)", 4, lambda t, u: u.startswith(t)),
    "similar titles": (
        TITLES,
        "jaccard(tokens(t), tokens(u)) > 0.6",
        2,
        lambda t, u: _jaccard(t, u) > 0.6,
    ),
}
"""For each query its form, its predicate, the place of the right text, and the same in Python."""


def run(options: Options) -> Iterator[Row]:
    """Yield a row for each query and size of batch."""
    kept = QUICK_KEPT if options.quick else KEPT
    spawn = multiprocessing.get_context("spawn")
    for query in QUERIES:
        for batch in BATCHES[:1] if options.quick else BATCHES:
            with spawn.Pool(1) as pool:
                yield pool.apply(measured, (query, kept, batch))


def measured(query: str, kept: int, batch: int) -> Row:
    """Return the throughput of a query and the memory of this process."""
    form, predicate, place, holds = QUERIES[query]
    stream = items(2 * kept, SEED)
    window = int(kept * BETWEEN * SECOND)
    found: list[tuple[str, str]] = []
    spent = 0.0
    with xscl.Engine(owns_process=True) as engine:
        engine.subscribe("q", form % (predicate, window))
        for start in range(0, len(stream), batch):
            documents = [item.document() for item in stream[start : start + batch]]
            began = time.process_time()
            matches = engine.push(documents).matches
            if start >= kept:
                spent += time.process_time() - began
            found += [(match.documents[0], match.documents[1]) for match in matches]
    first = stream[:CHECKED]
    expected = list(_pairs(first, place, holds, window))
    early = {f"i{item.number}" for item in first}
    require_equal([one for one in found if early.issuperset(one)], expected, query)
    parameters: dict[str, Value] = {"query": query, "kept": kept, "batch": batch}
    figures: dict[str, Value] = {
        "items_per_s": kept / spent,
        "matches": len(found),
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / (1 << 20 if sys.platform == "darwin" else 1 << 10),
    }
    return Row(NAME, parameters, figures)


def _pairs(
    stream: Sequence[Item], place: int, holds: Callable[[str, str], bool], window: int
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of items that match, by a test of each."""
    texts = [re.sub(r"\s+", " ", item.values[place]) for item in stream]
    for one in stream:
        for other, text in zip(stream, texts, strict=True):
            near = one is not other and abs(one.ts - other.ts) <= window
            if near and holds(one.values[2], text):
                yield f"i{one.number}", f"i{other.number}"
