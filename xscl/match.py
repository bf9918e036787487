"""Matches: what subscribers receive.

Results are stored once for each distinct join and expanded to its subscribers
when somebody reads them; a match's bindings and its output document are
worked out when they are asked for.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import pyarrow as pa

from templates.relations import INFINITE
from xscl.compile import CompiledQuery
from xscl.construct import constructed_document, default_document
from xscl.xpath.bind import bind
from xscl.xpath.tree import Tree
from xscl.xpath.values import Item, string_value


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a document: its number, its location, and its string value."""

    document: str
    node: int
    path: str
    value: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A registered query.

    `qid` is its row in the R_T of its template, `outputs` are the variables
    that its results bind, in the template's order, with the side of each.
    It sees documents whose `first` is at least `since`.
    """

    number: int
    name: str
    query: str
    template: int
    qid: int
    outputs: tuple[tuple[int, str], ...]
    since: int
    distinct: bool = False
    updates: bool = False
    publish: str | None = None
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """A stored document, as far as matches need it."""

    doc: int
    id: str
    ts: int
    first: int
    version: int
    history: bool
    clock: int
    rank: int


@dataclass(frozen=True, slots=True)
class Result:
    """A row of results: a distinct join that holds between documents, with its bindings."""

    position: int
    qid: int
    documents: tuple[Stored, ...]
    nodes: tuple[tuple[int, ...], ...]


class Results(Sequence[Result]):
    """Rows of the table of results, made into objects as they are read.

    `rows` has the columns position, qid, doc1, doc2, nodes; `fetch` reads the
    documents of a set of numbers.  A join of one side has doc1 = doc2.
    """

    def __init__(self, rows: pa.Table, fetch: Callable[[set[int]], dict[int, Stored]]) -> None:
        self._rows = rows
        self._fetch = fetch

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        position, qid, doc1, doc2, nodes = (column[index] for column in self._columns)
        documents = (self._documents[doc1], self._documents[doc2])
        return Result(
            position,
            qid,
            documents if doc1 != doc2 else documents[:1],
            tuple((node,) for node in nodes),
        )

    def age(self, index: int) -> tuple[int, int, bool]:
        """Return a row's join, its oldest part's arrival, and whether a part is an update."""
        _, qids, docs1, docs2, _ = self._columns
        one, two = self._documents[docs1[index]], self._documents[docs2[index]]
        return qids[index], min(one.first, two.first), one.version > 1 or two.version > 1

    @cached_property
    def _columns(self) -> list[list[Any]]:
        return [column.to_pylist() for column in self._rows.columns]

    @cached_property
    def _documents(self) -> dict[int, Stored]:
        return self._fetch({*self._columns[2], *self._columns[3]})


@dataclass(frozen=True, slots=True)
class Reader:
    """How matches get at queries and documents: compiled and parsed once each."""

    compiled: Callable[[str], CompiledQuery]
    tree: Callable[[int], Tree]


class Match:
    """A subscription's match: documents that satisfy its query together.

    `id` is a hash of the subscription, the documents and the nodes that the
    join compared: unique, and the same whenever the documents are replayed.
    """

    def __init__(self, subscription: Subscription, result: Result, reader: Reader) -> None:
        self._subscription = subscription
        self._result = result
        self._reader = reader

    def __repr__(self) -> str:
        return f"Match({self.subscription!r}, documents={self.documents!r}, id={self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Match) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self._subscription.name

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids of the documents, left side first."""
        return tuple(document.id for document in self._result.documents)

    @property
    def t0(self) -> int:
        """The time of the earliest document, in ticks."""
        return min(document.ts for document in self._result.documents)

    @property
    def t1(self) -> int:
        """The time of the latest document: when the match was complete."""
        return max(document.ts for document in self._result.documents)

    @property
    def history(self) -> bool:
        """Whether all documents are from before their sources were followed."""
        return all(document.history for document in self._result.documents)

    @property
    def publish(self) -> str | None:
        """The stream that the output document belongs to, if the query publishes."""
        return self._subscription.publish

    @property
    def arrived(self) -> tuple[int, int, int]:
        """When the match arose: the clock then, its rank among arrivals, its oldest part."""
        newest = max(self._result.documents, key=lambda document: document.rank)
        first = min(document.first for document in self._result.documents)
        return newest.clock, newest.rank + 1, first

    @property
    def version(self) -> int:
        """The highest version of a document in the match; above 1 it is an update."""
        return max(document.version for document in self._result.documents)

    @property
    def position(self) -> int:
        """The number of the result in this engine, to continue reading after it."""
        return self._result.position

    @cached_property
    def id(self) -> str:
        """A stable, unique name: 32 hexadecimal digits."""
        parts = [self.subscription, *self.documents]
        if not self._subscription.distinct:
            named = zip(self._subscription.outputs, self._result.nodes, strict=True)
            parts.extend(f"{name}={nodes[0]}" for (_, name), nodes in sorted(named))
        framed = "".join(f"{len(part.encode())}:{part}" for part in parts)
        return hashlib.blake2b(framed.encode(), digest_size=16).hexdigest()

    @cached_property
    def bindings(self) -> dict[str, list[Node]]:
        """Every variable of the query with its nodes, in document order."""
        by_variable: dict[str, list[Node]] = {}
        for variable, (side, numbers) in self._bound.items():
            tree, document = self._trees[side], self._result.documents[side].id
            by_variable[variable] = [_node(document, tree, number) for number in numbers]
        wanted = self._compiled.normal.variables
        return {variable: by_variable[variable] for variable in wanted}

    def xml(self) -> bytes:
        """Return the output document."""
        constructor = self._compiled.normal.select
        if constructor is None:
            return default_document(self._selected())
        items: Mapping[str, list[Item]] = {
            variable: [self._trees[side].items[number] for number in numbers]
            for variable, (side, numbers) in self._bound.items()
        }
        return constructed_document(constructor, items)

    @property
    def _compiled(self) -> CompiledQuery:
        return self._reader.compiled(self._subscription.query)

    @property
    def _trees(self) -> list[Tree]:
        return [self._reader.tree(document.doc) for document in self._result.documents]

    @cached_property
    def _nodes(self) -> list[list[list[int]]]:
        """The bindings of each side's pattern nodes."""
        fixed: list[dict[str, frozenset[int]]] = [{} for _ in self._result.documents]
        for (side, name), nodes in zip(self._subscription.outputs, self._result.nodes, strict=True):
            fixed[side][name] = frozenset(nodes)
        sides = zip(self._compiled.patterns, self._trees, fixed, strict=True)
        return [bind(pattern, tree, chosen) for pattern, tree, chosen in sides]

    @property
    def _bound(self) -> dict[str, tuple[int, list[int]]]:
        """The side and the nodes of each variable."""
        return {
            node.variable: (side, self._nodes[side][number])
            for side, pattern in enumerate(self._compiled.patterns)
            for number, node in enumerate(pattern.nodes)
            if node.variable is not None
        }

    def _selected(self) -> Iterator[Item]:
        """Yield what the main paths select."""
        for side, pattern in enumerate(self._compiled.patterns):
            for number in self._nodes[side][pattern.main]:
                yield self._trees[side].items[number]


def _node(document: str, tree: Tree, number: int) -> Node:
    return Node(document, number, tree.path(number), string_value(tree.items[number]))


class Matches(Sequence[Match]):
    """The matches of some results, in order: a sequence that is expanded as it is read."""

    def __init__(
        self,
        results: Results,
        subscribers: Mapping[int, Sequence[Subscription]],
        reader: Reader,
    ) -> None:
        self._results = results
        self._subscribers = subscribers
        self._reader = reader
        self._since: dict[int, int] = {}

    @cached_property
    def _ends(self) -> list[int]:
        """The number of matches up to and with each result."""
        ends, total = [], 0
        for index in range(len(self._results)):
            total += len(self._receivers(index))
            ends.append(total)
        return ends

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Match]:
        for index in range(len(self._results)):
            for subscription in self._receivers(index):
                yield self._match(index, subscription)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: int | slice) -> Match | list[Match]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(index)
        result = bisect_right(self._ends, number)
        before = self._ends[result - 1] if result else 0
        return self._match(result, self._receivers(result)[number - before])

    def count_first(self) -> int:
        """Return how many matches the first result has."""
        return self._ends[0] if self._ends else 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __add__(self, other: Sequence[Match]) -> list[Match]:
        return [*self, *other]

    def __radd__(self, other: Sequence[Match]) -> list[Match]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))

    def _receivers(self, index: int) -> Sequence[Subscription]:
        """Return the subscriptions that a result is a match of (a test at fan-out).

        A DISTINCT subscription receives the first result of each group of
        documents only.
        """
        qid, first, updated = self._results.age(index)
        sharers = self._subscribers.get(qid, ())
        if not updated and self._plain(qid, sharers) <= first:
            return sharers
        return [
            s
            for s in sharers
            if s.since <= first
            and (s.updates or not updated)
            and not (s.distinct and self._continues(index))
        ]

    def _plain(self, qid: int, sharers: Sequence[Subscription]) -> int:
        """Return from when on all of a join's subscriptions receive every result."""
        known = self._since.get(qid)
        if known is None:
            distinct = any(s.distinct for s in sharers)
            known = INFINITE if distinct else max((s.since for s in sharers), default=0)
            self._since[qid] = known
        return known

    def _continues(self, index: int) -> bool:
        return index > 0 and _group(self._results[index - 1]) == _group(self._results[index])

    def _match(self, index: int, subscription: Subscription) -> Match:
        result = self._results[index]
        return Match(
            subscription, self._grouped(index) if subscription.distinct else result, self._reader
        )

    def _grouped(self, index: int) -> Result:
        """Return the results of a group as one, each variable with all its nodes."""
        group = [self._results[index]]
        while index + 1 < len(self._results) and self._continues(index + 1):
            index += 1
            group.append(self._results[index])
        nodes = zip(*(result.nodes for result in group), strict=True)
        united = tuple(tuple(sorted({n for each in column for n in each})) for column in nodes)
        head = group[0]
        return Result(head.position, head.qid, head.documents, united)


def _group(result: Result) -> tuple[int, ...]:
    return (result.qid, *(document.doc for document in result.documents))
