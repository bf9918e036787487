"""`views`: Figures 6.14 and 6.15 of Hong 2009, and the join state in memory over a stream.

*With* views a batch is joined by Algorithm 4: the slices of R_L of its values
are found in memory and made into R_vj once for all templates, whose queries
read nothing else.  *Without*, by Algorithm 1, the query of each template reads
R_bin and R_doc.  The first part joins both documents of `mmqjp-flat` and
`mmqjp-complex`, with the cost of each part.  The second part pushes feed items, with
the join state in memory

- *warm*: as it grows with the stream,
- *cold*: in a batch after the engine was opened again, the state to be read from
  the database first (`loading_ms`, which `milliseconds` include; opening they do not),
- *off*: Algorithm 1 over the database.

`ratio` is how many times less a batch takes than without views.  An engine that is not told
otherwise has views: `times_the_better` says how many times the better of both ways it takes.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.feed_items import items, wishes
from benchmarks.harness import (
    REPEATS,
    Options,
    Row,
    Stages,
    Value,
    growth_row,
    require_equal,
    seconds,
    timed_stages,
)
from benchmarks.mmqjp import STAGE_2, Schema, Shared, flat, random_queries
from benchmarks.mmqjp_complex import MOST_JOINS, three_levels
from benchmarks.mmqjp_flat import LEAVES
from benchmarks.mmqjp_points import ZIPF
from feeds.documents import Document
from templates.processor import BatchJoin
from templates.state.join_state import JoinState
from templates.state.value_joins import Pass
from templates.template import TemplateIndex, TemplateRows
from tests import algorithm_1
from tests.joining import by_algorithm_1
from xscl.engine.facade import Engine

NAME = "views"
SEED = 2009
WITH, WITHOUT = "views", "no views"
COPIED = "copied to the database of Algorithm 1"  # which is not its work: it would have them
PARTS: dict[str, tuple[Any, str]] = {
    **STAGE_2,
    "views": (BatchJoin, "join"),
    "which value joins drive": (TemplateIndex, "driving"),
    "R_L by value": (JoinState, "of_values"),
    "R_L by value and pair": (JoinState, "of_pairs"),
    "R_vj": (Pass, "made"),
    "rows of R_T": (TemplateRows, "touched"),
    "over R_bin and R_doc": (algorithm_1, "joined_over_base"),
    COPIED: (algorithm_1.BatchJoinOfBase, "copy_relations"),
}


@dataclass(frozen=True, slots=True)
class Workload:
    """Two documents of a schema, and queries with up to so many value joins."""

    figure: str
    name: str
    schema: Schema
    most: int


@dataclass(frozen=True, slots=True)
class Stream:
    """Feed items in batches to engines with subscriptions; the last batches are timed."""

    subscriptions: int
    items: int
    batch: int
    timed: int = 5


WORKLOADS = (
    Workload("6.14", "flat", flat(LEAVES), LEAVES),
    Workload("6.15", "complex", three_levels(), MOST_JOINS),
)
QUICK_COUNTS = (100, 10_000)
COUNTS = (10, 100, 1_000, 10_000, 100_000)  # the last is the paper's
QUICK_STREAMS = (Stream(1_000, 1_500, 50),)
STREAMS = (
    *(Stream(subscriptions, 10_000, 500) for subscriptions in (100, 10_000, 100_000)),
    Stream(10_000, 10_000, 1),
)


def run(options: Options) -> Iterator[Row]:
    """Yield the cost with and without views: of two documents, then over a stream."""
    for workload in WORKLOADS:
        rows: list[Row] = []
        for count in QUICK_COUNTS if options.quick else COUNTS:
            found = two_documents(workload, count)
            rows += found
            yield from found
        yield from _growth(workload, rows)
    for stream in QUICK_STREAMS if options.quick else STREAMS:
        yield from over_stream(stream)


# -- Two documents ---------------------------------------------------------------------------


def two_documents(workload: Workload, count: int) -> list[Row]:
    """Return the cost of both sides and of their parts; raises ResultsDiffer."""
    schema = workload.schema
    queries = random_queries(schema.leaves, count, ZIPF, workload.most, SEED)
    sides = {
        name: Shared(schema, queries, views=views)
        for name, views in ((WITH, True), (WITHOUT, False))
    }
    try:
        for shared in sides.values():
            shared.join()
        found = [shared.fan_out() for shared in sides.values()]
        matches = require_equal(found[0], found[1], f"{count} queries, {workload.name}")
        spent = _interleaved_parts(sides)
        templates = len(sides[WITH].registry.members)
    finally:
        for shared in sides.values():
            shared.close()
    rows = []
    for name, parts in spent.items():
        parameters: dict[str, Value] = {
            "figure": workload.figure,
            "schema": workload.name,
            "queries": count,
            "variant": name,
            "scope": "stage2",
            "storage": "memory",
        }
        figures: dict[str, Value] = {"templates": templates, "matches": matches}
        rows += _costs(parameters, parts, spent[WITHOUT], figures)
    return rows


def _interleaved_parts(sides: Mapping[str, Shared]) -> dict[str, dict[str, float]]:
    """Return for each side the medians of its parts, in milliseconds, the sides taking turns."""
    spent: dict[str, list[Counter[str]]] = {name: [] for name in sides}
    for _ in range(REPEATS):
        for name, shared in sides.items():
            shared.take_back()
            stages = Stages()
            with timed_stages(stages, PARTS):
                shared.join()
            spent[name].append(stages.spent)
    return {name: _medians(parts) for name, parts in spent.items()}


def _medians(spent: Sequence[Counter[str]]) -> dict[str, float]:
    """Return the median of each part, in milliseconds."""
    parts = dict.fromkeys(part for one in spent for part in one if part != COPIED)
    return {part: statistics.median(one[part] for one in spent) / 1e6 for part in parts}


def _costs(
    parameters: dict[str, Value],
    parts: Mapping[str, float],
    baseline: Mapping[str, float],
    figures: Mapping[str, Value],
) -> list[Row]:
    """Return a row for the whole, and one for its parts."""
    whole, compared = sum(parts.values()), sum(baseline.values())
    total: dict[str, Value] = {
        "milliseconds": whole,
        "ratio": compared / whole,
        "times_the_better": whole / min(whole, compared),
        **figures,
    }
    ordered = sorted(parts.items(), key=lambda part: -part[1])
    return [
        Row(NAME, parameters, total),
        Row(NAME, {**parameters, "profile": "milliseconds by part"}, dict(ordered)),
    ]


def _growth(workload: Workload, rows: Sequence[Row]) -> Iterator[Row]:
    for variant in (WITH, WITHOUT):
        line = [r for r in rows if r.parameters["variant"] == variant and "ratio" in r.figures]
        sizes = [float(str(row.parameters["queries"])) for row in line]
        costs = [float(str(row.figures["milliseconds"])) for row in line]
        parameters = {"figure": workload.figure, "schema": workload.name, "variant": variant}
        yield growth_row(NAME, parameters, sizes, costs, "queries")


# -- A stream --------------------------------------------------------------------------------


@dataclass(slots=True)
class Side:
    """An engine on a file, and the costs of its timed batches."""

    path: Path
    views: bool
    reopened: bool
    engine: Engine = field(init=False)
    opening: list[float] = field(default_factory=list)
    loading: list[float] = field(default_factory=list)
    spent: list[Counter[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._open()

    def _open(self) -> None:
        with by_algorithm_1(not self.views):
            self.engine = Engine(self.path, owns_process=True)

    def push(self, batch: list[Document]) -> None:
        """Push a batch, and record the cost of stage 2."""
        stages = Stages()
        if self.reopened:
            self._reopen()
            stages.enter("loading")
            assert len(self.engine.state.processor.state.memory)
            stages.leave()
            self.loading.append(stages.spent["loading"] / 1e6)
        with timed_stages(stages, PARTS):
            self.engine.push(batch)
        self.spent.append(stages.spent)

    def _reopen(self) -> None:
        self.engine.close()
        self.opening.append(seconds(self._open) * 1000)

    def results(self) -> Iterator[tuple[object, ...]]:
        """Yield the rows of all results."""
        found = self.engine.sql("SELECT qid, doc1, doc2, nodes FROM state.result").to_pydict()
        for qid, doc1, doc2, nodes in zip(*found.values(), strict=True):
            yield qid, doc1, doc2, tuple(nodes)


def over_stream(stream: Stream) -> Iterator[Row]:
    """Yield the cost of a batch warm, cold and off; raises ResultsDiffer."""
    documents = [item.document() for item in items(stream.items, SEED)]
    batches = [documents[at : at + stream.batch] for at in range(0, len(documents), stream.batch)]
    asked = wishes("a", stream.subscriptions, SEED)
    with TemporaryDirectory() as folder:
        sides = {
            "warm": Side(Path(folder, "warm.sqlite"), views=True, reopened=False),
            "cold": Side(Path(folder, "cold.sqlite"), views=True, reopened=True),
            "off": Side(Path(folder, "off.sqlite"), views=False, reopened=False),
        }
        untimed = [one for batch in batches[: -stream.timed] for one in batch]
        for side in sides.values():
            side.engine.subscribe_many((f"s{n}", wish.query("INF")) for n, wish in enumerate(asked))
            for at in range(0, len(untimed), 500):
                side.engine.push(untimed[at : at + 500])
        for batch in batches[-stream.timed :]:
            for side in sides.values():
                side.push(batch)
        yield from _compared(stream, sides)
        for side in sides.values():
            side.engine.close()


def _compared(stream: Stream, sides: Mapping[str, Side]) -> Iterator[Row]:
    for name in ("warm", "cold"):
        what = f"{stream.subscriptions} subscriptions, {name}"
        rows = require_equal(sides[name].results(), sides["off"].results(), what)
    kept = sides["warm"].engine.state.processor.state.memory
    spent = {name: _medians(side.spent) for name, side in sides.items()}
    for name, side in sides.items():
        parameters: dict[str, Value] = {
            "variant": name,
            "subscriptions": stream.subscriptions,
            "kept": stream.items,
            "batch": stream.batch,
            "window": "INF",
            "scope": "stage2",
            "storage": "file",
        }
        figures: dict[str, Value] = {
            "items_per_s": stream.batch / sum(spent[name].values()) * 1000,
            "rows": rows,
            "kept_rows": len(kept),
        }
        if side.reopened:
            figures["loading_ms"] = statistics.median(side.loading)
            figures["opening_ms"] = statistics.median(side.opening)
        yield from _costs(parameters, spent[name], spent["off"], figures)
