"""Two documents, many random queries: shared templates against one SQL query for each.

Hong 2009, section 6.6.1.  Both documents conform to one schema; leaves at
corresponding places have equal string values, all others differ.  A query
joins k leaves of d1 with k leaves of d2, both chosen at random, k by Zipf.

*Shared* is the join of d2's witnesses by `templates.Processor`, with d1 kept;
`sequential` has the baseline.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.harness import REPEATS, interleaved, require_equal, seconds
from benchmarks.sequential import FORMS, WITH_JOINS, Found, Sequential
from templates import Edge, JoinGraph, Node, Processor, Witnesses, minor
from templates.columns import InternedValues, table_of
from templates.evaluators import ConjunctiveQueries, SmallBatch
from templates.model.join_graph import UNBOUNDED
from templates.model.relations import BINDINGS, TIMES, VALUES, Pair
from templates.processor import BatchJoin
from templates.registry import Registry
from templates.state.stored_state import StoredState
from tests.algorithm_1 import ProcessorOfBase
from tests.templates.memory_storage import MemoryStorage

SAMPLE = 250  # queries of the baseline that are run; its time is scaled to all
MATCHING = 20  # queries with matches that are compared in any case
PILOT = 10  # queries on which the baseline's best form is found
LEFT, RIGHT = "L", "R"  # the streams of d1 and d2
D1, D2 = 1, 2

STAGE_2: dict[str, tuple[Any, str]] = {
    "intern values": (InternedValues, "intern"),
    "store": (StoredState, "add"),
    "views": (BatchJoin, "join"),
    "small batches": (SmallBatch, "answers"),
    "templates' queries": (ConjunctiveQueries, "answers"),
    "project": (BatchJoin, "found"),
    "other": (Processor, "join"),
}


@dataclass(frozen=True, slots=True)
class Schema:
    """A document schema: the parent of each node, in document order; node 0 is the root."""

    parents: tuple[int | None, ...]

    @property
    def leaves(self) -> tuple[int, ...]:
        """The nodes without children."""
        return tuple(n for n in range(len(self.parents)) if n not in self.parents)

    def above(self, node: int) -> Iterator[int]:
        """Yield a node and all nodes above it."""
        current: int | None = node
        while current is not None:
            yield current
            current = self.parents[current]


def flat(leaves: int) -> Schema:
    """Return the two-level schema: a root and its leaves."""
    return Schema((None, *(0 for _ in range(leaves))))


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """Value joins between leaves: the i-th of `left` (in d1) equals the i-th of `right` (in d2)."""

    left: tuple[int, ...]
    right: tuple[int, ...]


def zipf_weights(largest: int, skew: float) -> list[float]:
    """Return the weights of 1 ... largest: that of k is k to the power of -skew."""
    return [k**-skew for k in range(1, largest + 1)]


def random_queries(
    leaves: Sequence[int], count: int, skew: float, most: int, seed: int
) -> list[JoinQuery]:
    """Return queries as in Figure 6.17, with 1 to `most` value joins."""
    source = random.Random(seed)
    numbers = source.choices(range(1, most + 1), zipf_weights(most, skew), k=count)
    return [
        JoinQuery(tuple(source.sample(leaves, k)), tuple(source.sample(leaves, k))) for k in numbers
    ]


@lru_cache(maxsize=200_000)
def reduced_graph(schema: Schema, query: JoinQuery) -> tuple[JoinGraph, tuple[str, ...]]:
    """Return the minor of a query's join graph, and the definitions of its variables."""
    nodes: list[Node] = []
    names: list[str] = []
    at: list[dict[int, int]] = []
    for side, (stream, leaves) in enumerate(((LEFT, query.left), (RIGHT, query.right))):
        numbers = sorted({above for leaf in leaves for above in schema.above(leaf)})
        place = {number: len(nodes) + i for i, number in enumerate(numbers)}
        for number in numbers:
            parent = schema.parents[number]
            nodes.append(Node(side, None if parent is None else place[parent], number in leaves))
            names.append(_definition(stream, number))
        at.append(place)
    joins = zip(query.left, query.right, strict=True)
    edges = tuple(Edge(at[0][left], at[1][right]) for left, right in joins)
    reduced, kept = minor(JoinGraph(tuple(nodes), edges))
    return reduced, tuple(names[number] for number in kept)


def _definition(stream: str, node: int) -> str:
    return f"{stream}#{node}"


def witnesses(schema: Schema, stream: str, doc: int, pairs: Iterable[Pair]) -> Witnesses:
    """Return the witnesses of one document: every pair of its stream, every leaf's value."""
    leaves = schema.leaves
    rows = []
    for pair in pairs:
        (first, upper), (_, lower) = (d.split("#") for d in (pair.first, pair.second))
        if first == stream:
            value = leaves.index(int(lower)) if int(lower) in leaves else None
            rows.append((doc, pair.number, int(upper), int(lower), value))
    values = [(f"the string value of leaf {leaf}", 1) for leaf in leaves]
    times = [(doc, doc, doc, doc - 1, doc, doc, doc)]
    return Witnesses(table_of(rows, BINDINGS), table_of(times, TIMES), table_of(values, VALUES))


# -- The shared side -------------------------------------------------------------------------


class Shared:
    """All queries in one registry, d1 in the join state."""

    def __init__(self, schema: Schema, queries: Sequence[JoinQuery], *, views: bool = True) -> None:
        self.connection = duckdb.connect()
        self.storage = MemoryStorage()
        self.registry = Registry(self.storage)
        self.qids: list[int] = []
        self.subscribers: dict[int, list[int]] = defaultdict(list)
        for number, query in enumerate(queries):
            graph, definitions = reduced_graph(schema, query)
            qid = self.registry.add(graph, definitions, UNBOUNDED).qid
            self.qids.append(qid)
            self.subscribers[qid].append(number)
        self.registry.save()
        pairs = self.registry.take_changed()
        self.processor = (Processor if views else ProcessorOfBase)(self.storage, self.registry)
        self.processor.join(witnesses(schema, LEFT, D1, pairs))
        self._second = witnesses(schema, RIGHT, D2, pairs)
        self.rows = self.processor.join(Witnesses(*_nothing())).found
        self._before = dict(self.storage.relations)

    def join(self) -> None:
        """Join d2: Algorithm 4 from the witnesses to the rows of all templates."""
        self.rows = self.processor.join(self._second).found

    def register(self) -> None:
        """Register the relations of the last join in the database of the baseline."""
        pushed = self.processor.pushed
        relations = {
            "kept_binding": self.storage.relations["binding"],
            "kept_times": self.storage.relations["times"],
            "batch_binding": pushed.bindings,
            "batch_times": pushed.times,
        }
        for name, table in relations.items():
            self.connection.register(name, table)
        self.connection.execute("BEGIN TRANSACTION")  # one for all queries of the baseline

    def fan_out(self) -> list[Found]:
        """Return the rows expanded to the queries that share them."""
        columns = [column.to_pylist() for column in self.rows.columns]
        return [
            (query, doc1, doc2, tuple(nodes))
            for qid, doc1, doc2, nodes in zip(*columns, strict=True)
            for query in self.subscribers[qid]
        ]

    def take_back(self) -> None:
        """Undo the join of d2, so that it can be repeated."""
        self.storage.relations = dict(self._before)
        self.processor.state.reload()
        len(self.processor.state.memory)  # read before it is measured

    def close(self) -> None:
        """Close the database of the baseline."""
        self.connection.close()


def _nothing() -> list[pa.Table]:
    return [schema.empty_table() for schema in (BINDINGS, TIMES, VALUES)]


# -- One measurement -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Measured:
    """Medians in milliseconds for all queries, and their results."""

    shared: float
    fan_out: float
    sequential: float
    with_joins: float  # the baseline, if it is given R_vj, ready-made
    form: str  # the form of the baseline that was fastest
    rows: int
    matches: int
    templates: int
    distinct: int  # rows in all R_T


def measure(
    schema: Schema, queries: Sequence[JoinQuery], *, repeats: int = REPEATS, sample: int = SAMPLE
) -> Measured:
    """Return the times of both sides for d2; raises ResultsDiffer if they disagree."""
    shared = Shared(schema, queries)
    try:
        return _measure(shared, repeats, sample)
    finally:
        shared.close()


def _measure(shared: Shared, repeats: int, sample: int) -> Measured:
    members = shared.registry.members
    sequential = Sequential(
        shared.connection,
        [shared.registry.row(qid) for qid in shared.qids],
        {number: members[number].template.graph for number in members},
    )
    chosen = _sample(len(shared.qids), sample)
    shared.join()
    shared.register()
    sequential.prepare()
    matches = shared.fan_out()
    ours = [found for found in matches if found[0] in set(chosen)] if chosen else matches
    form, with_joins = (_fastest(sequential, chosen, forms) for forms in (FORMS, WITH_JOINS))
    texts, best = (sequential.texts(each, chosen) for each in (form, with_joins))
    require_equal(ours, sequential.run(texts), f"{len(chosen)} queries, {form}")
    require_equal(ours, sequential.run(best), f"{len(chosen)} queries, {with_joins}")
    _verify_matching(sequential, matches, form)

    def once_shared() -> float:
        shared.take_back()
        return seconds(shared.join)

    def once_sequential(queries: list[tuple[int, str]]) -> float:
        sequential.prepare()
        return seconds(lambda: sequential.run(queries))

    medians = interleaved(
        {
            "shared": once_shared,
            "fan-out": lambda: seconds(shared.fan_out),
            "sequential": lambda: once_sequential(texts),
            "with joins": lambda: once_sequential(best),
        },
        repeats,
    )
    return Measured(
        shared=medians["shared"] * 1000,
        fan_out=medians["fan-out"] * 1000,
        sequential=medians["sequential"] * 1000 * len(shared.qids) / len(chosen),
        with_joins=medians["with joins"] * 1000 * len(shared.qids) / len(chosen),
        form=form,
        rows=shared.rows.num_rows,
        matches=len(matches),
        templates=len(shared.registry.members),
        distinct=len(shared.subscribers),
    )


def _sample(count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted(random.Random(count).sample(range(count), most))


def _verify_matching(sequential: Sequential, matches: Sequence[Found], form: str) -> None:
    """Compare some of the queries that match: of a random sample few may."""
    some = sorted({found[0] for found in matches})
    some = some[:: max(1, len(some) // MATCHING)]
    ours = [found for found in matches if found[0] in set(some)]
    require_equal(ours, sequential.run(sequential.texts(form, some)), f"{len(some)} that match")


def _fastest(sequential: Sequential, queries: Sequence[int], forms: Sequence[str]) -> str:
    """Return the form in which a few of the queries run fastest; all forms must agree."""
    few = queries[:: max(1, len(queries) // PILOT)]
    results = [sequential.run(sequential.texts(form, few)) for form in forms]
    for form, found in zip(forms, results, strict=True):
        require_equal(found, results[0], form)
    sides = {form: _timer(sequential, sequential.texts(form, few)) for form in forms}
    medians = interleaved(sides)
    return min(forms, key=medians.__getitem__)


def _timer(sequential: Sequential, texts: list[tuple[int, str]]) -> Callable[[], float]:
    return lambda: seconds(lambda: sequential.run(texts))
