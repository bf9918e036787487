"""The matches of a history, by brute force.

Composites are in composites.py, formulas in formulas.py, output documents in output.py.
Nothing is indexed, forgotten or shared, and the trees of queries.py are read, never a text.

A match is a distinct tuple (subscription, documents by component, nodes of the variables that occur
in a predicate and that the results have); with SELECT DISTINCT, one without nodes.  Runs of LONGEST
FOLD that end at several times are several matches.  A query sees documents that arrived after its
registration, and what appears before its end.

A published document has its match's t1, the rank after that of the match's newest document, and
that document's clock; its `first` is the smallest of the match's.  An ordered match's is always in
time.  It is known by its match (`identity`).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tests.oracle.composites import Arrived, Composite, World, composites, reach
from tests.oracle.output import document_of
from tests.oracle.queries import (
    Constant,
    Decorated,
    Doc,
    Event,
    Expression,
    Fold,
    FollowedBy,
    Formula,
    Join,
    Next,
    Operand,
    Push,
    Query,
    Subscribe,
    Subscription,
    Unsubscribe,
    Var,
    blocks,
    bound,
    leaves,
)
from tests.oracle.steps import Block
from tests.oracle.trees import Node, read

RANKS = 64  # from one arrival to the next: one for each level of publishing

Match: TypeAlias = tuple[str, tuple[str, ...], tuple[tuple[str, str, int], ...]]
"""The name of the subscription, the documents by component, and (variable, document, node).

A component of which ELSE has none has the empty name.  The end of a LONGEST FOLD is a node of the
variable "".
"""

# -- Matches -------------------------------------------------------------------------------


def mentioned(expression: Expression) -> frozenset[str]:
    """Return the names in all predicates of an expression, and those that a FOLD begins with."""
    match expression:
        case Block():
            return frozenset()
        case Query(inner):
            return mentioned(inner)
        case Join(left, right) | FollowedBy(left, right) | Next(left, right) | Fold(left, right):
            return _read(expression) | mentioned(left) | mentioned(right)
        case _:
            assert_never(expression)


def outputs(expression: Expression) -> frozenset[str]:
    """Return the variables in predicates of an expression that its composites have."""
    match expression:
        case Block():
            return frozenset()
        case Query(inner):
            return outputs(inner)
        case FollowedBy(left, negated=True):
            return outputs(left) | (_names(expression) & visible(left))
        case Join(left, right) | FollowedBy(left, right) | Next(left, right) | Fold(left, right):
            return outputs(left) | outputs(right) | (_read(expression) & visible(expression))
        case _:
            assert_never(expression)


def _read(expression: Expression) -> frozenset[str]:
    """Return the names in an operator's predicates, and those that a FOLD begins with."""
    last = (leaf for leaf in _leaves(expression) if isinstance(leaf, Decorated) and not leaf.side)
    return _names(expression) | {f"{leaf.name}_1" for leaf in last}


def _names(expression: Expression) -> frozenset[str]:
    """Return the names in an operator's own predicates and aggregates."""
    found = _leaves(expression)
    return frozenset(leaf.name for leaf in found if not isinstance(leaf, Constant))


def _leaves(expression: Expression) -> Iterator[Var | Decorated | Constant]:
    assert isinstance(expression, Join | FollowedBy | Next | Fold)
    parts: list[Formula | Operand | None] = [expression.predicate]
    if isinstance(expression, Fold):
        parts += [expression.again, *(operand for _, operand in expression.aggregates)]
    for part in parts:
        if part is not None:
            yield from leaves(part)


def visible(expression: Expression) -> frozenset[str]:
    """Return the variables that the composites of an expression have."""
    match expression:
        case Block(_, step):
            return frozenset(bound(step))
        case Query(inner) | FollowedBy(inner, negated=True):
            return visible(inner)
        case Join(left, right) | FollowedBy(left, right) | Next(left, right) | Fold(left, right):
            return visible(left) | visible(right)
        case _:
            assert_never(expression)


def identity(match: Match) -> str:
    """Return the name of a match, which is also the id of a document that it publishes."""
    name, documents, nodes = match
    bindings = " ".join(f"{variable}={document}#{node}" for variable, document, node in nodes)
    return f"{name}({' '.join(documents)}|{bindings})"


def places(expression: Expression, first: int = 0) -> tuple[int, ...]:
    """Return the components of an expression's results; its first block is `first`."""
    match expression:
        case Block():
            return (first,)
        case Query(inner):
            return places(inner, first)
        case FollowedBy(left, negated=True):
            return places(left, first)
        case Join(left, right) | FollowedBy(left, right) | Next(left, right) | Fold(left, right):
            return places(left, first) + places(right, first + len(blocks(left)))
        case _:
            assert_never(expression)


def _matches(subscription: Subscription, rows: Iterable[Composite]) -> dict[Match, list[Composite]]:
    """Return the composites of each match: those with its documents and its variables' nodes."""
    components = places(subscription.query)
    wanted = frozenset() if subscription.query.distinct else outputs(subscription.query.expression)
    found: dict[Match, list[Composite]] = defaultdict(list)
    for row in rows:
        nodes = sorted((n, d.id, node.number) for n, (d, node) in row.nodes.items() if n in wanted)
        nodes = [*end_of_run(subscription.query, row.t1), *nodes]
        by_place = {place: document.id for place, document in row.documents}
        documents = tuple(by_place.get(place, "") for place in components)
        found[subscription.name, documents, tuple(nodes)].append(row)
    return found


def end_of_run(query: Query, t1: int) -> Iterator[tuple[str, str, int]]:
    """Yield the end of a match of LONGEST FOLD, as a node of it."""
    if isinstance(query.expression, Fold) and query.expression.longest:
        yield "", "", t1


# -- Histories -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Arrival:
    """A document that arrived: its place, M(n), its name, that of its first version.

    Of several first versions, on different streams, the first one counts.
    """

    place: int
    clock: int
    id: str
    base: str
    version: int
    document: Doc
    tree: Node


def named(stream: str, id: str, version: int = 1) -> str:
    """Return the name of a document, whose id has neither `/` nor `@`."""
    name = id if stream == "S" else f"{stream}/{id}"
    return name if version == 1 else f"{name}@{version}"


def arrivals(events: Sequence[Event]) -> list[Arrival]:
    """Return the rows of the documents that count: a repetition is none, a change is a version.

    Documents with one id that share no stream have only the id in common.
    """
    rows = list[Arrival]()
    for place, event in enumerate(events):
        if not isinstance(event, Push):
            continue
        doc = event.document
        earlier = [
            row
            for row in rows
            if row.document.id == doc.id and set(row.document.streams) & set(doc.streams)
        ]
        if any(row.document.xml == doc.xml for row in earlier):
            continue
        clock = max((row.document.timestamp for row in rows), default=doc.timestamp)
        version = max((row.version for row in earlier), default=0) + 1
        name = named(doc.streams[0], doc.id, version)
        bases = {row.base for row in earlier}
        base = next((row.id for row in rows if row.id in bases), name)
        rows.append(Arrival(place, clock, name, base, version, doc, read(doc.xml)))
    return rows


def registrations(events: Sequence[Event]) -> Iterator[tuple[Subscription, int, float]]:
    """Return every registration with its place and that of its end; publishers come first."""
    found = list[tuple[Subscription, int, float]]()
    for place, event in enumerate(events):
        if isinstance(event, Subscribe):
            name = event.subscription.name
            ends = (
                float(later)
                for later, other in enumerate(events)
                if later > place and isinstance(other, Unsubscribe) and other.name == name
            )
            found.append((event.subscription, place, next(ends, math.inf)))
    while found:
        awaited = {one.query.publish for one, _, _ in found}
        ready = [one for one in found if not awaited & _reads(one[0].query)]
        assert ready, "the streams that are published form a cycle"
        yield from ready
        found = [one for one in found if one not in ready]


def _reads(query: Query) -> set[str | None]:
    return {block.stream for block in blocks(query)}


def _lateness(expression: Expression, lateness: Mapping[str, int]) -> int:
    """Return the lateness of a stream of results: the inputs' largest, plus T for ELSE and NOT."""
    match expression:
        case Block(stream):
            return lateness.get(stream, 0)
        case Query(inner):
            return _lateness(inner, lateness)
        case Join(left, right) | FollowedBy(left, right) | Next(left, right) | Fold(left, right):
            most = max(_lateness(left, lateness), _lateness(right, lateness))
            match expression:
                case FollowedBy(negated=True) | FollowedBy(otherwise=True):
                    return most + (expression.window or 0)
                case Join(otherwise="both" | "left" | "right"):
                    return most + (reach(expression) or 0)
                case _:
                    return most
        case _:
            assert_never(expression)


def replay(events: Sequence[Event], lateness: Mapping[str, int]) -> dict[Match, list[Composite]]:
    """Return the matches of a history that ends with a flush, each with its composites."""
    return _run(events, lateness)[0]


def appeared(events: Sequence[Event], lateness: Mapping[str, int]) -> list[Arrived]:
    """Return the documents of a history, then the published ones."""
    return _run(events, lateness)[1]


def matches(events: Sequence[Event], lateness: Mapping[str, int]) -> Counter[Match]:
    """Return the matches of a history as a multiset (each occurs once)."""
    return Counter(replay(events, lateness).keys())


def _run(
    events: Sequence[Event], lateness: Mapping[str, int]
) -> tuple[dict[Match, list[Composite]], list[Arrived]]:
    documents = _pushed(events)
    clocks = [(document.first, document.timestamp) for document in documents]
    late = dict(lateness)
    found = dict[Match, list[Composite]]()
    for subscription, start, end in registrations(events):
        query = subscription.query
        seen = [
            document
            for document in documents
            if document.first > start and (subscription.updates or document.version == 1)
        ]
        most = max(late.get(block.stream, 0) for block in blocks(query))
        world = World(seen, late, mentioned(query), most, clocks)
        rows = [row for row in composites(query, world) if row.moment < end]
        matched = _matches(subscription, rows)
        if query.publish is not None:
            late[query.publish] = max(late.get(query.publish, 0), _lateness(query, late))
            documents += [_published(query, match, of) for match, of in matched.items()]
        for match, of in matched.items():
            found.setdefault(match, []).extend(of)
    return found, documents


def _pushed(events: Sequence[Event]) -> list[Arrived]:
    rows = arrivals(events)
    return [
        Arrived(
            row.id,
            row.base,
            row.version,
            row.document.streams,
            row.document.timestamp,
            row.tree,
            row.place * RANKS,
            row.clock,
            row.place,
            row.place,
        )
        for row in rows
    ]


def _published(query: Query, match: Match, rows: Sequence[Composite]) -> Arrived:
    assert query.publish is not None
    name, row = identity(match), rows[0]
    return Arrived(
        name,
        name,
        max(document.version for _, document in row.documents),
        (query.publish,),
        row.t1,
        read(document_of(query, rows).encode()),
        row.rank + 1 if row.rank >= 0 else -1,
        row.clock,
        min(row.first for row in rows),
        row.moment,
    )
