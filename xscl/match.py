"""Matches: what subscribers receive.

Results are stored once for each distinct join and expanded to its subscribers
when somebody reads them; a match's bindings and its output document are
worked out when they are asked for.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, overload

import pyarrow as pa

from templates.relations import INFINITE
from xscl.compile import CompiledQuery
from xscl.composites import Composite, joined, qualified
from xscl.construct import constructed, constructed_document, default_document, row_document
from xscl.documents import Stored
from xscl.xpath.bind import bind
from xscl.xpath.pattern import Pattern
from xscl.xpath.tree import Tree
from xscl.xpath.values import Item, string_value

XSCL = "xscl"


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

    `qid` is the number of its stream of results: its row in the R_T of its
    `template`, or below 0 (then `template` is 0).  `outputs` are the variables
    that its results bind, in their order, each with the place of its document
    among a result's.  It sees documents whose `first` is at least `since`.
    `ordered`: an operator over time is in it.  `columns` are the attributes of
    what a query in another `language` finds.
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
    ordered: bool = False
    language: str = XSCL
    columns: tuple[str, ...] = ()

    @property
    def relational(self) -> bool:
        """Whether the query is in a language of events, such as CEL."""
        return self.language != XSCL

    @property
    def split(self) -> int:
        """How many of the outputs are of the first document."""
        return sum(1 for place, _ in self.outputs if not place)


@dataclass(frozen=True, slots=True)
class Result:
    """A row of results: documents, None where there is none, and the nodes of each output."""

    position: int
    qid: int
    composite: Composite
    documents: tuple[Stored | None, ...]
    nodes: tuple[tuple[int, ...], ...]

    @property
    def present(self) -> tuple[Stored, ...]:
        """The documents that there are."""
        return tuple(document for document in self.documents if document is not None)


def result_of(group: Sequence[Composite], documents: Mapping[int, Stored]) -> Result:
    """Return composites of the same documents as one result, each variable with all its nodes."""
    head = group[0]
    columns = zip(*(one.nodes for one in group), strict=True)
    numbers = ({n if n < 0 else qualified(n)[1] for n in column} for column in columns)
    nodes = tuple(tuple(sorted(column)) for column in numbers)
    return Result(0, 0, head, tuple(documents.get(doc) for doc in head.sources), nodes)


class Results(Sequence[Result]):
    """Rows of the table of results, made into objects as they are read.

    `rows` has the columns position, qid, doc1, doc2, nodes; `composites` reads
    what numbers stand for, `documents` documents.  A result that is one
    composite or one document has doc1 = doc2.
    """

    def __init__(
        self,
        rows: pa.Table,
        splits: Mapping[int, int],
        composites: Callable[[set[int]], Mapping[int, Composite]],
        documents: Callable[[set[int]], dict[int, Stored]],
    ) -> None:
        self._rows = rows
        self._splits = splits
        self._read_composites = composites
        self._read_documents = documents

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
        composite = joined(self._parts, doc1, doc2, nodes, self._splits.get(qid, 0))
        return Result(
            position,
            qid,
            composite,
            tuple(self._documents.get(doc) for doc in composite.sources),
            tuple((node if node < 0 else qualified(node)[1],) for node in composite.nodes),
        )

    def age(self, index: int) -> tuple[int, int, bool]:
        """Return a row's stream, its oldest part's arrival, and whether a part is an update."""
        _, qids, docs1, docs2, _ = self._columns
        one, two = self._parts[docs1[index]], self._parts[docs2[index]]
        return qids[index], min(one.first, two.first), one.version > 1 or two.version > 1

    def group(self, index: int) -> tuple[object, ...]:
        """Return what is equal for the results of one stream with the same documents."""
        _, qids, docs1, docs2, _ = self._columns
        one, two = self._parts[docs1[index]], self._parts[docs2[index]]
        return qids[index], one.docs, two.docs

    @cached_property
    def _columns(self) -> list[list[Any]]:
        return [column.to_pylist() for column in self._rows.columns]

    @cached_property
    def _parts(self) -> Mapping[int, Composite]:
        return self._read_composites({*self._columns[2], *self._columns[3]})

    @cached_property
    def _documents(self) -> dict[int, Stored]:
        return self._read_documents({doc for part in self._parts.values() for doc in part.sources})


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
        """The ids of the documents, in the order of the query's blocks."""
        return tuple(document.id for document in self._result.present)

    @property
    def t0(self) -> int:
        """The time of the earliest document, in ticks."""
        return self._result.composite.start

    @property
    def t1(self) -> int:
        """When the match was complete: the time of the latest document, or of a deadline."""
        return self._result.composite.ts

    @property
    def history(self) -> bool:
        """Whether all documents are from before their sources were followed."""
        return all(document.history for document in self._result.present)

    @property
    def publish(self) -> str | None:
        """The stream that the output document belongs to, if the query publishes."""
        return self._subscription.publish

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
        return _hash(parts)

    @cached_property
    def bindings(self) -> dict[str, list[Node]]:
        """Every variable of the query with its nodes, in document order."""
        by_variable: dict[str, list[Node]] = {}
        for variable, (place, numbers) in self._bound.items():
            document = self._result.documents[place]
            by_variable[variable] = [
                _node(document.id, self._tree(document), number)
                for number in numbers
                if document is not None
            ]
        wanted = self._compiled.normal.variables
        return {variable: by_variable[variable] for variable in wanted}

    def xml(self) -> bytes:
        """Return the output document."""
        constructor = self._compiled.normal.select
        if constructor is None:
            return default_document(self._selected())
        return constructed_document(constructor, self._items)

    @property
    def _compiled(self) -> CompiledQuery:
        return self._reader.compiled(self._subscription.query)

    def _tree(self, document: Stored) -> Tree:
        return self._reader.tree(document.doc)

    @property
    def _patterns(self) -> list[Pattern]:
        """The tree pattern of each document."""
        return [self._compiled.patterns[component] for component in self._compiled.components]

    @property
    def _items(self) -> Mapping[str, Sequence[Item]]:
        """The items of each variable, and the texts of aggregates."""
        items: dict[str, Sequence[Item]] = {}
        for variable, (place, numbers) in self._bound.items():
            document = self._result.documents[place]
            items[variable] = (
                [] if document is None else [self._tree(document).items[n] for n in numbers]
            )
        values = self._result.composite.values
        named = zip(self._compiled.values, values, strict=True)
        items.update((name, [] if value is None else [value]) for name, value in named)
        return items

    @cached_property
    def _nodes(self) -> list[list[list[int]]]:
        """The bindings of the nodes of each document's pattern."""
        fixed: list[dict[str, frozenset[int]]] = [{} for _ in self._result.documents]
        for (place, name), nodes in zip(
            self._subscription.outputs, self._result.nodes, strict=True
        ):
            fixed[place][name] = frozenset(nodes)
        each = zip(self._patterns, self._result.documents, fixed, strict=True)
        return [
            [[] for _ in pattern.nodes]
            if document is None
            else bind(pattern, self._tree(document), chosen)
            for pattern, document, chosen in each
        ]

    @property
    def _bound(self) -> dict[str, tuple[int, list[int]]]:
        """The place of each variable's document, and its nodes there."""
        return {
            node.variable: (place, self._nodes[place][number])
            for place, pattern in enumerate(self._patterns)
            for number, node in enumerate(pattern.nodes)
            if node.variable is not None
        }

    def _selected(self) -> Iterator[Item]:
        """Yield what the main paths select, or for a sub-query what it constructs."""
        components = self._compiled.components
        made = {first: (last, element) for first, last, element in self._compiled.normal.made}
        done = -1
        for place, (component, pattern) in enumerate(zip(components, self._patterns, strict=True)):
            document = self._result.documents[place]
            if component <= done:
                continue
            if component in made:
                done, constructor = made[component]
                yield constructed(constructor, self._items)
            elif document is not None:
                for number in self._nodes[place][pattern.main]:
                    yield self._tree(document).items[number]


def _hash(parts: Iterable[str]) -> str:
    framed = "".join(f"{len(part.encode())}:{part}" for part in parts)
    return hashlib.blake2b(framed.encode(), digest_size=16).hexdigest()


def match_of(subscription: Subscription, result: Result, reader: Reader) -> Match:
    """Return the match that a result is for a subscription."""
    made = EventMatch if subscription.relational else Match
    return made(subscription, result, reader)


def _node(document: str, tree: Tree, number: int) -> Node:
    return Node(document, number, tree.path(number), string_value(tree.items[number]))


class EventMatch(Match):
    """A match of a relational query: a row, whose values are leaves of its output document.

    Of its documents only the first is known.  `id` is a hash of the subscription, that document,
    the times and the values.
    """

    @property
    def documents(self) -> tuple[str, ...]:
        return ()

    @property
    def history(self) -> bool:
        """Whether it is a single event, and one from before its source was followed."""
        return self.t0 == self.t1 and super().history

    @cached_property
    def id(self) -> str:
        row = self._result.composite
        first = super().documents
        parts = [row.start, row.ts, *(json.dumps(value) for value in row.values)]
        return _hash([self.subscription, *first, *map(str, parts)])

    @property
    def values(self) -> dict[str, str | None]:
        """The attributes of the row, as texts."""
        row = self._result.composite
        return dict(zip(self._subscription.columns, row.values, strict=True))

    @cached_property
    def bindings(self) -> dict[str, list[Node]]:
        return {
            name: [] if value is None else [Node("", 0, name, value)]
            for name, value in self.values.items()
        }

    def xml(self) -> bytes:
        return row_document(self._subscription.publish or "result", self.values)


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

    def of_one(self) -> tuple[Subscription, Results]:
        """Return the results, and the one subscription whose matches these are."""
        ((subscription,),) = self._subscribers.values()
        return subscription, self._results

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
        return index > 0 and self._results.group(index - 1) == self._results.group(index)

    def _match(self, index: int, subscription: Subscription) -> Match:
        result = self._results[index]
        return match_of(
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
        return replace(head, nodes=united)
