"""`window-joins`: a join without an equality, in stage 2 and as a WindowJoin of the event core.

Both engines find the pairs of a day in which the address of one item is longer than that of the
other by more than three characters, which no index answers.  The XSCL query joins constants in
stage 2 and tests the lengths of all candidates; the CEL query is the core's WindowJoin over the
same leaves.  The sides alternate batch by batch in one run, so their ratio holds on a busy machine.
Times are processor time of the second half of the items.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import xscl
from benchmarks.feed_items import items
from benchmarks.harness import Options, Row, Value, require_equal

NAME = "window-joins"
SEED = 64
QUICK_SIZES, SIZES = ((400, 1), (1_000, 50)), ((1_000, 1), (2_000, 50), (2_000, 500))
STAGE_2, CORE = "stage 2", "core"

XSCL = (
    "feed//item->x[./item_url->i] JOIN{string-length(j) > string-length(i) + 3, 1 d}"
    " feed//item->y[./item_url->j]"
)
CEL = (
    "SELECT * FROM (SELECT item_url AS i FROM feed)"
    " JOIN{string_length(j) > string_length(i) + 3, 86400 s}"
    " (SELECT item_url AS j FROM feed)"
)


def run(options: Options) -> Iterator[Row]:
    """Yield both evaluators for each number of items and size of batch."""
    for count, batch in QUICK_SIZES if options.quick else SIZES:
        yield from compared(count, batch)


def compared(count: int, batch: int) -> Iterator[Row]:
    """Yield the rows of both evaluators, which find the same intervals."""
    documents = [item.document() for item in items(count, SEED)]
    spent = {STAGE_2: 0.0, CORE: 0.0}
    found: dict[str, list[tuple[int, int]]] = {STAGE_2: [], CORE: []}
    with xscl.Engine(owns_process=True) as relational, xscl.Engine(owns_process=True) as core:
        relational.subscribe("pairs", XSCL)
        core.stream("feed", attributes={"item_url": str})
        core.subscribe("pairs", CEL, language="cel")
        for start in range(0, count, batch):
            for side, engine in ((STAGE_2, relational), (CORE, core)):
                began = time.process_time()
                matches = engine.push(documents[start : start + batch]).matches
                if start >= count // 2:
                    spent[side] += time.process_time() - began
                found[side].extend((match.t0, match.t1) for match in matches)
    matched = require_equal(found[STAGE_2], found[CORE], f"{count} items")
    for side in found:
        parameters: dict[str, Value] = {"evaluator": side, "items": count, "batch": batch}
        figures: dict[str, Value] = {
            "ms_per_item": 1e3 * spent[side] / (count - count // 2),
            "ratio": spent[side] / spent[CORE],
            "matches": matched,
        }
        yield Row(NAME, parameters, figures)
