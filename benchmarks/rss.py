"""`rss`: Figure 6.16 of Hong 2009, subscriptions over a stream of feed items.

Subscriptions (a) are those of section 6.6.1 over the five leaves, without
those that join channel_url alone; there are a few thousand distinct ones.
Subscriptions (b) are all distinct: each watches one channel for a keyword and
joins what it finds with later items, on leaves of the same name.

End to end is from the bytes of a batch to its committed results, the store on
a file.  Results are stored once for each distinct join and expanded to the
subscribers when they are read.  Rows and matches are counted, and the rate of
constructing output documents is shown beside.

Join state must not slow down a small batch: batches of 1 and of 50 items are
pushed at the beginning and at the end; `ratio` is the first time by the second.
Millions of witness rows are *put in* instead of pushed: the existing rows are
repeated in the database under other numbers of documents and other values;
values that very many share (a channel's address) stay.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise, product
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.feed_items import DAY, Item, Wish, expected, items, wishes
from benchmarks.harness import (
    Options,
    Row,
    Stages,
    Value,
    growth_row,
    require_equal,
    seconds,
    timed_stages,
)
from benchmarks.mmqjp import STAGE_2, JoinQuery
from feeds.documents import Document
from templates.state.stored_state import StoredState
from xscl.documents.document_log import DocumentLog
from xscl.engine.eviction import Eviction
from xscl.engine.facade import Engine
from xscl.planning import dataflow as flow
from xscl.shredding.batch.known_markup import MarkupCache
from xscl.store.queries.tables import LEVELS
from xscl.store.store import Store
from xscl.subscriptions.matches import Matches

NAME = "rss"
SMALL = (1, 50)  # items in a batch
TIMES = 15  # that a small batch is pushed
SEED = 2006
WINDOWS = {"INF": None, "1 d": DAY}
STAGES = {
    **STAGE_2,
    "accept": (DocumentLog, "accept"),
    "parse": (MarkupCache, "read"),
    "shred": (flow, "shred"),
    "insert": (Store, "insert"),
    "texts": (Eviction, "keep_texts"),
    "evict": (StoredState, "evict"),
    "commit and other": (Engine, "push"),
}
STAGE_1 = ("parse", "shred")
SHARED = 20
"""Documents that have a value from which on it is the same in rows that are put in."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Engines with different numbers of subscriptions, for the same items in turns."""

    variant: str
    window: str
    counts: tuple[int, ...]
    items: int
    budget: float = math.inf  # seconds for getting any one engine ready
    put_in: int = 0  # witness rows
    batch: int = 2_000  # items; a service closes a batch after as many as it does in a second


TENS = (10, 100, 1_000, 10_000)
QUICK = (
    Plan("a", "INF", (10, 10_000), 2_500, batch=500),
    *(
        Plan(variant, window, TENS, 2_500, budget=4, batch=500)
        for variant, window in (("a", "1 d"), ("b", "INF"), ("b", "1 d"))
    ),
)
FULL = (
    *(
        Plan(variant, window, (10, 1_000, 10_000, 100_000, 1_000_000), 20_000)
        for variant in ("a", "b")
        for window in WINDOWS
    ),
    *(Plan(variant, "INF", (100_000,), 225_000) for variant in ("a", "b")),
    Plan("b", "INF", (2_000,), 2_500, put_in=10_000_000, batch=500),
)


def run(options: Options) -> Iterator[Row]:
    """Yield the rates of stage 1, stage 2 and the whole, with the store on a file."""
    for variant, window in product(("a", "b"), WINDOWS):
        verify(variant, window)
    for plan in QUICK if options.quick else FULL:
        yield from _beside_many(plan) if plan.put_in else _points(plan, options)


def verify(variant: str, window: str, subscriptions: int = 60, count: int = 150) -> int:
    """Return the number of matches of a small run; raises ResultsDiffer if they are wrong."""
    stream, asked = items(count, SEED), wishes(variant, subscriptions, SEED)
    found: list[tuple[str, tuple[str, ...]]] = []
    with Engine(owns_process=True) as engine:
        _subscribe(engine, asked, window)
        for batch in batches(stream, 37):
            found.extend((m.subscription, m.documents) for m in engine.push(batch))
    return require_equal(
        found, expected(stream, asked, WINDOWS[window]), f"subscriptions ({variant}), {window}"
    )


def batches(stream: Sequence[Item], size: int) -> Iterator[list[Document]]:
    """Yield the documents of a stream, `size` at a time."""
    for start in range(0, len(stream), size):
        yield [item.document() for item in stream[start : start + size]]


def _subscribe(engine: Engine, asked: Sequence[Wish], window: str) -> None:
    engine.subscribe_many((f"s{number}", wish.query(window)) for number, wish in enumerate(asked))


class Side:
    """One engine on a file, and the measurements of each batch."""

    def __init__(self, folder: str, plan: Plan, subscriptions: int) -> None:
        self.batch = plan.batch
        self.asked = wishes(plan.variant, subscriptions, SEED)
        self.engine = Engine(Path(folder, f"{subscriptions}.sqlite"), owns_process=True)
        self.registering = seconds(lambda: _subscribe(self.engine, self.asked, plan.window))
        self.spent: dict[str, list[float]] = {"end_to_end": [], "stage1": [], "stage2": []}
        self.small: dict[tuple[int, str], list[float]] = {}  # seconds, by size of batch and when
        self.stages = Stages()
        self.rows = self.deliveries = 0
        self._latest: Matches | None = None

    def warm_up(self, batch: list[Document]) -> None:
        """Push the first batch."""
        self.engine.push(batch)

    def push(self, batch: list[Document]) -> None:
        """Push a batch, by stages, and count its results."""
        stages = Stages()
        with timed_stages(stages, STAGES):
            self._latest = self.engine.push(batch).matches
        self.stages.spent += stages.spent
        groups = {"end_to_end": STAGES, "stage1": STAGE_1, "stage2": STAGE_2}
        for scope, names in groups.items():
            self.spent[scope].append(sum(stages.spent[name] for name in names) / 1e9)
        self._count()

    def push_small(self, stream: Sequence[Item], when: str) -> None:
        """Push items in small batches, and keep the times of each size."""
        at = 0
        for size in SMALL:
            times = []
            for batch in batches(stream[at : at + size * TIMES], size):
                times.append(seconds(partial(self.engine.push, batch)))
            self.small[size, when] = times
            at += size * TIMES

    def put_in(self, witnesses: int) -> None:
        """Repeat the kept witness rows, until there are about so many."""
        store, documents = self.engine.transactions.store, self.engine.state.documents
        span = documents.next
        repeated = f"range(1, {max(1, witnesses // self.witnesses)}) r(n)"
        with closing(store.duck("binding", "times")) as database:
            shared = (
                f"SELECT key FROM state.binding GROUP BY key HAVING count(DISTINCT doc) > {SHARED}"
            )
            bindings = database.sql(
                f"SELECT doc + n * {span} AS doc, pair, node1, node2, CASE WHEN key IN ({shared})"
                " THEN key WHEN key IS NOT NULL THEN hash(key, n) END AS key"
                f" FROM state.binding, {repeated} ORDER BY n"
            ).to_arrow_table()
            times = database.sql(
                f"SELECT doc + n * {span} AS doc, start, ts, clock,"
                f" rank + n * {span * LEVELS} AS rank, base + n * {span} AS base"
                f" FROM state.times, {repeated} ORDER BY n"
            ).to_arrow_table()
        with store.transaction():
            store.append("binding", bindings)
            store.append("times", times)
        documents.next += span * (witnesses // self.witnesses)
        self.engine.state.processor.state.reload()
        len(self.engine.state.processor.state.memory)  # read before it is measured

    @property
    def witnesses(self) -> int:
        """The number of kept rows of R_bin."""
        ((rows,),) = self.engine.sql("SELECT count(*) AS n FROM state.binding").to_pydict().values()
        return int(rows)

    def _count(self) -> None:
        """Count the rows of R_out and the deliveries that they stand for."""
        (numbers,) = self.engine.sql("SELECT DISTINCT template FROM R_sub").to_pydict().values()
        every = " UNION ALL ".join(f"SELECT qid FROM R_out_{number}" for number in numbers)
        ((rows,), (deliveries,)) = (
            self.engine.sql(
                "SELECT count(*) AS n, coalesce(sum(sharers), 0)::BIGINT AS d FROM"
                f" ({every}) JOIN (SELECT qid, count(*) AS sharers FROM R_sub GROUP BY qid)"
                " USING (qid)"
            )
            .to_pydict()
            .values()
        )
        self.rows += rows
        self.deliveries += deliveries

    def rate(self, scope: str, first: int = 0, last: int | None = None) -> float:
        """Return items a second, by the median of some batches."""
        return self.batch / statistics.median(self.spent[scope][first:last])

    def constructed_per_s(self, most: int = 50) -> float:
        """Return the output documents of the latest batch that are constructed a second."""
        assert self._latest is not None
        some = list(islice(self._latest, most))
        return len(some) / seconds(lambda: [match.xml() for match in some]) if some else 0.0

    def blocks(self, sample: Sequence[Item]) -> float:
        """Return the mean number of distinct blocks that match an item."""
        earlier = {
            Wish(JoinQuery(tuple(sorted(w.joins.left)), ()), w.channel, w.keyword)
            for w in self.asked
        }
        later = {frozenset(wish.joins.right) for wish in self.asked}
        later -= {frozenset(block.joins.left) for block in earlier if block.channel is None}
        matched = sum(block.watches(item) for item in sample for block in earlier)
        return len(later) + matched / len(sample)


def _points(plan: Plan, options: Options) -> Iterator[Row]:
    few = TIMES * sum(SMALL)
    every = items(plan.items + 2 * few, SEED)
    cuts = (0, plan.batch, plan.batch + few, plan.items + few, len(every))
    warming, before, stream, after = (every[a:b] for a, b in pairwise(cuts))
    (first,), others = batches(warming, plan.batch), list(batches(stream, plan.batch))
    with TemporaryDirectory() as folder:
        sides = list(_ready(plan, folder, first))
        for side in sides:
            side.push_small(before, "before")
        for batch in others:
            for side in sides:
                side.push(batch)
        for side in sides:
            yield from _rows(plan, side, sides[0], stream)
            side.push_small(after, "after")
            yield from _small(plan, side)
            if options.profile:
                parameters = _parameters(plan, len(side.asked))
                parameters["profile"] = "share of time by stage"
                yield Row(NAME, parameters, side.stages.shares())
        for count in plan.counts[len(sides) :]:
            reason = f"would not be ready within {plan.budget:g} s"
            yield Row(NAME, _parameters(plan, count), {"skipped": reason})
        yield from _growth(plan, sides)
        for side in sides:
            side.engine.close()


def _ready(plan: Plan, folder: str, first: list[Document]) -> Iterator[Side]:
    """Yield engines with their subscriptions and warmed up, as far as the budget goes."""
    each = 0.0
    for count in plan.counts:
        if each * count > plan.budget:
            return
        began = time.perf_counter()
        side = Side(folder, plan, count)
        side.warm_up(first)
        each = (time.perf_counter() - began) / count if count >= 100 else 0.0
        yield side


def _beside_many(plan: Plan) -> Iterator[Row]:
    """Yield the times of small batches beside witness rows that are put in."""
    few = TIMES * sum(SMALL)
    every = items(plan.items + 2 * few, SEED)
    warming, before, after = (every[a:b] for a, b in pairwise((0, plan.items, -few, None)))
    with TemporaryDirectory() as folder:
        side = Side(folder, plan, plan.counts[0])
        for batch in batches(warming, plan.batch):
            side.warm_up(batch)
        side.push_small(before, "before")
        side.put_in(plan.put_in)
        side.push_small(after, "after")
        yield from _small(plan, side)
        side.engine.close()


def _parameters(plan: Plan, subscriptions: int) -> dict[str, Value]:
    return {
        "variant": plan.variant,
        "window": plan.window,
        "subscriptions": subscriptions,
        "kept": _kept(plan),
        "batch": plan.batch,
        "storage": "file",
    }


def _kept(plan: Plan) -> Value:
    if plan.put_in:
        return f"{plan.items} and what is put in"
    return plan.items if plan.window == "INF" else "1 day's"


def _rows(plan: Plan, side: Side, first: Side, stream: Sequence[Item]) -> Iterator[Row]:
    """Yield one row for each scope; `ratio` compares with the fewest subscriptions."""
    counted = plan.items - plan.batch
    shared: dict[str, Value] = {
        "rows": side.rows,
        "matches": side.deliveries,
        "rows_per_item": side.rows / counted,
        "blocks_per_item": side.blocks(stream[:: max(1, len(stream) // 20)]),
        "constructed_per_s": side.constructed_per_s(),
        "registrations_per_s": len(side.asked) / side.registering,
    }
    for scope in side.spent:
        rate = side.rate(scope)
        figures: dict[str, Value] = {"items_per_s": rate, "ratio": rate / first.rate(scope)}
        if scope == "end_to_end":
            figures |= shared
        yield Row(NAME, _parameters(plan, len(side.asked)) | {"scope": scope}, figures)


def _small(plan: Plan, side: Side) -> Iterator[Row]:
    """Yield the times of small batches at the end; `ratio` compares with the beginning."""
    for size in SMALL:
        parameters = _parameters(plan, len(side.asked)) | {"scope": "small batch", "batch": size}
        before, after = (statistics.median(side.small[size, when]) for when in ("before", "after"))
        figures: dict[str, Value] = {
            "milliseconds": after * 1000,
            "p95_ms": statistics.quantiles(side.small[size, "after"], n=20)[-1] * 1000,
            "ratio": before / after,
            "witness_rows": side.witnesses,
        }
        yield Row(NAME, parameters, figures)


def _growth(plan: Plan, sides: Sequence[Side]) -> Iterator[Row]:
    """Yield the growth of the cost with the number of subscriptions, and with the state."""
    if len(sides) > 1:
        sizes = [len(side.asked) for side in sides]
        costs = [1 / side.rate("end_to_end") for side in sides]
        parameters: dict[str, Value] = {"variant": plan.variant, "window": plan.window}
        yield growth_row(NAME, parameters, sizes, costs)
    for side in sides:
        count = len(side.spent["end_to_end"])
        if count < 20:
            continue
        few, all_ = side.rate("end_to_end", 0, 10), side.rate("end_to_end", -10)
        parameters = _parameters(plan, len(side.asked)) | {
            "growth_over": "kept",
            "scope": "end_to_end",
        }
        yield Row(NAME, parameters, {"items_per_s": all_, "ratio": all_ / few})
