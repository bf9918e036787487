"""The second opinion: XSCL by brute force, from the definitions alone.

The engine is fast because it shares work, drops pattern nodes, groups joins and forgets
documents.  None of that is here.  `evaluate` tries every pair of documents, every way in
which the two patterns lie in them and every comparison, and reads a query as a tree of
frozen values (tests/strategies.py), never its text.  It shares no code with the engine.

A match is a distinct tuple (subscription, documents, nodes of the user's variables that
occur in the join predicate); a subscription of one block has one match for each document.
Times: JOIN has |t1 - t2| <= T, FOLLOWED BY has 0 < t2 - t1 <= T.  With M(n) the largest
timestamp that arrived before the newcomer n, on any stream, n meets an earlier arrival o
only if M(n) <= o.t + T + L, L being the larger lateness of the streams of the join.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product
from operator import eq, ge, gt, le, lt, ne
from typing import TypeAlias, assert_never

from lxml import etree

from tests.strategies import (
    NAMESPACES,
    And,
    Block,
    Compare,
    Condition,
    Doc,
    Event,
    Exists,
    Not,
    Operand,
    Or,
    Path,
    Push,
    Query,
    Restriction,
    Step,
    StringTest,
    Subscribe,
    Subscription,
    Unsubscribe,
    ValueJoin,
    plain,
)

Match: TypeAlias = tuple[str, tuple[str, ...], tuple[tuple[str, str, int], ...]]
Sequences: TypeAlias = dict[str, tuple[int, ...]]
NUMBER = re.compile(r"[ \t\r\n]*-?([0-9]+(\.[0-9]*)?|\.[0-9]+)[ \t\r\n]*")
COMPARATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}

# -- Documents as trees of numbered nodes ---------------------------------------------------


@dataclass(frozen=True, slots=True)
class Text:
    """A text node; `place` only tells which of two comes first in the document."""

    place: int
    value: str


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """An element or attribute; `content` has elements and text nodes in document order."""

    number: int
    name: str
    attributes: tuple[Node, ...]
    content: tuple[Node | Text, ...]
    attribute: bool = False


Binding: TypeAlias = dict[str, Node]


def read(xml: bytes) -> Node:
    """Return the document node; below it all elements and attributes have pre-order numbers."""
    return Node(-1, "", (), (_numbered(etree.fromstring(xml), count(), count()),))


def _numbered(element: etree._Element, numbers: Iterator[int], places: Iterator[int]) -> Node:
    number = next(numbers)
    attributes = tuple(
        Node(next(numbers), str(name), (), (Text(next(places), str(value)),), attribute=True)
        for name, value in element.attrib.items()
    )
    content: list[Node | Text] = [Text(next(places), element.text or "")]
    for child in element:
        if isinstance(child.tag, str):
            content.append(_numbered(child, numbers, places))
        content.append(Text(next(places), child.tail or ""))
    kept = tuple(part for part in content if isinstance(part, Node) or part.value)
    return Node(number, str(element.tag), attributes, kept)


def string_value(node: Node) -> str:
    """Return the XPath string value: all text below a node, without comments."""
    parts = node.content
    return "".join(part.value if isinstance(part, Text) else string_value(part) for part in parts)


def _children(node: Node) -> list[Node]:
    return [part for part in node.content if isinstance(part, Node)]


def _descendants(node: Node) -> list[Node]:
    return [found for child in _children(node) for found in (child, *_descendants(child))]


def _texts(node: Node, deep: bool) -> set[Text]:
    """Return the text nodes among the children of a node, or among all its descendants."""
    if node.attribute:
        return set()
    own = {part for part in node.content if isinstance(part, Text)}
    return own.union(*(_texts(child, deep) for child in _children(node))) if deep else own


# -- Patterns -------------------------------------------------------------------------------


def _named(node: Node, test: str) -> bool:
    name = etree.QName(node.name)
    prefix, _, local = test.rpartition(":")
    if test == "*":
        return True
    space_fits = prefix == "*" or (name.namespace or "") == NAMESPACES.get(prefix, "")
    return space_fits and local in ("*", name.localname)


def select(context: Node, step: Step) -> list[Node]:
    """Return the nodes that one step reaches by axis and name, in document order."""
    match step.axis:
        case "child":
            found = _children(context)
        case "descendant":
            found = _descendants(context)
        case "attribute":
            found = list(context.attributes)
        case "descendant-attribute":
            owners = (context, *_descendants(context))
            found = [attribute for owner in owners for attribute in owner.attributes]
        case _:
            assert_never(step.axis)
    return [node for node in found if _named(node, step.name)]


def embeddings(context: Node, step: Step) -> Iterator[tuple[Node, Binding]]:
    """Return every way in which a path lies below a node: its last node and its variables."""
    for node in select(context, step):
        own = {} if step.variable is None else {step.variable: node}
        for parts in product(*(list(ways(node, condition)) for condition in step.conditions)):
            binding = {key: value for part in (own, *parts) for key, value in part.items()}
            if step.then is None:
                yield node, binding
            else:
                for last, rest in embeddings(node, step.then):
                    yield last, {**binding, **rest}


def ways(node: Node, condition: Condition) -> Iterator[Binding]:
    """Return the distinct bindings with which a node meets a condition."""
    match condition:
        case Exists(step):
            seen = set[frozenset[tuple[str, int]]]()
            for _, binding in embeddings(node, step):
                key = frozenset((name, bound.number) for name, bound in binding.items())
                if key not in seen:
                    seen.add(key)
                    yield binding
        case And(parts):
            for made in product(*(list(ways(node, part)) for part in parts)):
                yield {key: value for part in made for key, value in part.items()}
        case _:
            if holds(node, condition):
                yield {}


def holds(node: Node, condition: Condition) -> bool:
    """Return whether a node meets a condition, as XPath 1.0 defines it."""
    match condition:
        case Compare(path, operator, constant):
            return any(_compares(value, operator, constant) for value in values(node, path))
        case StringTest(function, path, constant):
            first = next(iter(values(node, path)), "")
            return first.startswith(constant) if function == "starts-with" else constant in first
        case Exists():
            return any(True for _ in ways(node, condition))
        case And(parts):
            return all(holds(node, part) for part in parts)
        case Or(parts):
            return any(holds(node, part) for part in parts)
        case Not(part):
            return not holds(node, part)
        case _:
            assert_never(condition)


def values(node: Node, path: Path) -> list[str]:
    """Return the string values of the nodes of a path, in document order without doubles."""
    nodes = _nodes(node, path.step)
    if not path.texts:
        return [string_value(found) for found in nodes]
    texts = set[Text]().union(*(_texts(found, path.texts == "//text()") for found in nodes))
    return [text.value for text in sorted(texts, key=lambda text: text.place)]


def _nodes(node: Node, step: Step | None) -> list[Node]:
    if step is None:
        return [node]
    found = {last.number: last for last, _ in embeddings(node, step)}
    return [found[number] for number in sorted(found)]


def number(value: str) -> float:
    """Return XPath's number(): NaN for all that is not a decimal number."""
    return float(value) if NUMBER.fullmatch(value) else math.nan


def _compares(value: str, operator: str, constant: str | int | float) -> bool:
    if isinstance(constant, str):
        if operator not in ("=", "!="):
            raise ValueError("an order against a string is not defined here; compare with a number")
        return bool(COMPARATORS[operator](value, constant))
    return bool(COMPARATORS[operator](number(value), constant))


# -- Joins ----------------------------------------------------------------------------------


def _operand_values(operand: Operand, binding: Binding) -> list[str]:
    return [string_value(node) for node in _nodes(binding[operand.variable], operand.step)]


def _satisfied(atom: ValueJoin | Restriction, binding: Binding) -> bool:
    match atom:
        case ValueJoin(left, operator, right):
            pairs = product(_operand_values(left, binding), _operand_values(right, binding))
            return any(COMPARATORS[operator](a, b) for a, b in pairs)
        case Restriction(variable, condition):
            return holds(binding[variable], condition)
        case _:
            assert_never(atom)


def predicate_variables(query: Query) -> tuple[str, ...]:
    """Return the variables that occur in the join predicate, in order of name."""
    found = set[str]()
    for atom in query.atoms:
        match atom:
            case ValueJoin(left, _, right):
                found |= {left.variable, right.variable}
            case Restriction(variable):
                found.add(variable)
    return tuple(sorted(found))


def _in_time(query: Query, first: Doc, second: Doc) -> bool:
    distance = second.timestamp - first.timestamp
    if query.operator == "FOLLOWED BY" and distance <= 0:
        return False
    return query.window is None or abs(distance) <= query.window


# -- Histories ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """A document that arrived: its place, M(n), the id that it got, its version."""

    place: int
    clock: int
    id: str
    version: int
    document: Doc
    tree: Node


def arrivals(events: Sequence[Event]) -> list[Row]:
    """Return the rows of the documents that count: a repetition is none, a change is a version."""
    rows = list[Row]()
    for place, event in enumerate(events):
        if not isinstance(event, Push):
            continue
        doc = event.document
        earlier = [row for row in rows if row.document.id == doc.id]
        if any(row.document.xml == doc.xml for row in earlier):
            continue
        clock = max((row.document.timestamp for row in rows), default=doc.timestamp)
        version = len(earlier) + 1
        name = doc.id if version == 1 else f"{doc.id}@{version}"
        rows.append(Row(place, clock, name, version, doc, read(doc.xml)))
    return rows


def _registrations(events: Sequence[Event]) -> Iterator[tuple[Subscription, int, int]]:
    """Return every registration with the places between which it is in force."""
    for place, event in enumerate(events):
        if isinstance(event, Subscribe):
            name = event.subscription.name
            ends = (
                later
                for later, other in enumerate(events)
                if later > place and isinstance(other, Unsubscribe) and other.name == name
            )
            yield event.subscription, place, next(ends, len(events))


def _still_kept(query: Query, first: Row, second: Row, lateness: Mapping[str, int]) -> bool:
    old, new = sorted((first, second), key=lambda row: row.place)
    if query.window is None or query.right is None:
        return True
    late = max(lateness.get(block.stream, 0) for block in (query.left, query.right))
    return new.clock <= old.document.timestamp + query.window + late


def _witnesses(block: Block, rows: Iterable[Row]) -> list[tuple[Row, list[Binding]]]:
    """Return, for each row of the block's stream that it matches, all its bindings."""
    found = list[tuple[Row, list[Binding]]]()
    for row in rows:
        if block.stream in row.document.streams:
            bindings = list(ways(row.tree, Exists(block.step)))
            if bindings:
                found.append((row, bindings))
    return found


Found: TypeAlias = Iterator[tuple[tuple[Row, ...], Binding, dict[str, str]]]


def _joined(query: Query, rows: Sequence[Row], lateness: Mapping[str, int]) -> Found:
    """Return documents, binding and the document of each variable, for all that satisfies."""
    left = _witnesses(query.left, rows)
    if query.right is None:
        for row, bindings in left:
            for binding in bindings:
                yield (row,), binding, dict.fromkeys(binding, row.id)
        return
    for (first, ones), (second, others) in product(left, _witnesses(query.right, rows)):
        different = first.document.id != second.document.id
        if not (different and _in_time(query, first.document, second.document)):
            continue
        if not _still_kept(query, first, second, lateness):
            continue
        for one, other in product(ones, others):
            binding = {**one, **other}
            if all(_satisfied(atom, binding) for atom in query.atoms):
                places = {**dict.fromkeys(one, first.id), **dict.fromkeys(other, second.id)}
                yield (first, second), binding, places


def replay(events: Sequence[Event], lateness: Mapping[str, int]) -> dict[Match, Sequences]:
    """Return the matches of a history, each with the nodes of every variable of its query."""
    rows = arrivals(events)
    found: dict[Match, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for subscription, start, end in _registrations(events):
        seen = [
            row
            for row in rows
            if start < row.place < end and (subscription.updates or row.version == 1)
        ]
        joins = predicate_variables(subscription.query)
        for documents, binding, places in _joined(subscription.query, seen, lateness):
            nodes = tuple((name, places[name], binding[name].number) for name in joins)
            match = (subscription.name, tuple(row.id for row in documents), nodes)
            sequences = found[match]
            for name, node in binding.items():
                sequences[name].add(node.number)
    return {match: {n: tuple(sorted(s)) for n, s in seq.items()} for match, seq in found.items()}


def matches(events: Sequence[Event], lateness: Mapping[str, int]) -> Counter[Match]:
    """Return the matches of a history as a multiset (each occurs once)."""
    return Counter(replay(events, lateness).keys())


def evaluate(
    subscriptions: Sequence[Subscription],
    documents: Sequence[Doc],
    lateness: Mapping[str, int] | None = None,
) -> Counter[Match]:
    """Return the matches of subscriptions that were there before the first document."""
    return matches(plain(subscriptions, documents), lateness or {})
