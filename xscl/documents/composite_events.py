"""Composites: rows of expressions, with one document and some nodes for each component.

A composite that is joined again, or that is a result, gets a number from the
sequence of documents: to stage 2 it is a document whose nodes are its variables
(docs/decisions/composites.md).  It arrives with its newest document.  A composite of a temporal
operator counts as earlier than all documents, because it is joined with whatever
lies within its window.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from xscl.documents.document_ids import StoredDocument
from xscl.documents.document_log import DocumentLog, stored_in
from xscl.shredding.nodes import DocumentTree, Item
from xscl.store.queries.composites import relational_results
from xscl.store.queries.rows import rows_of
from xscl.store.queries.tables import EARLIEST
from xscl.store.store import Store

ABSENT = 0
"""The number in place of an absent document, as after ELSE; its nodes are -1."""
_NODE_BITS = 24
NODE = (1 << _NODE_BITS) - 1
"""The bits of a node of a composite that are its number in its document."""


class Composite(NamedTuple):
    """Documents by component, and the nodes of the variables that its stream has, in order.

    A node has its component in its number: see `qualified`.  `values` are aggregates, or those of a
    relational row.  The interval of its documents is [`start`, `ts`], in ticks; `clock`, `rank` and
    `first` mean the same as for a document.  `version` is the highest of its documents; `bases` are
    the numbers of their first versions.
    """

    docs: tuple[int, ...]
    nodes: tuple[int, ...]
    values: tuple[str | None, ...]
    start: int
    ts: int
    clock: int
    rank: int
    first: int
    version: int
    bases: tuple[int, ...]

    @property
    def sources(self) -> tuple[int, ...]:
        """The numbers of the documents of the composite.

        A relational row has none; then the number of its oldest document, which `bases` has.
        """
        return self.docs or self.bases

    @property
    def row(self) -> tuple[int, int, int, Composite]:
        """The row of the plan: begin and end in ticks, `first`, the composite itself."""
        return (self.start, self.ts, self.first, self)


def composite_of(fields: Iterable[Any]) -> Composite:
    """Return a composite from its fields as plain data."""
    return Composite._make(tuple(field) if isinstance(field, list) else field for field in fields)


def stored_composite(row: Mapping[str, Any]) -> Composite:
    """Return the composite of a stored row, which has its values by the names of columns."""
    return composite_of({**row, "values": row["vals"]}[name] for name in Composite._fields)


def composites_of(store: Store, numbers: Collection[int] | None = None) -> dict[int, Composite]:
    """Return the composites of a store by their numbers: all, or those among some numbers."""
    wanted = {} if numbers is None else {"doc": numbers}
    rows = rows_of(store, "composite", order="doc", **wanted)
    return {row["doc"]: stored_composite(row) for row in rows}


def kept_parts(
    store: Store, numbers: Set[int], recent: Callable[[int], StoredDocument | None]
) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
    """Return (composites, documents) of those `numbers` that are kept, each by number.

    The documents are those that the composites have.  `recent` returns a document from memory, None
    if it has to be read.
    """
    documents = stored_in(store, numbers, recent)
    composites = {n: of_document(document) for n, document in documents.items()}
    missing = sorted(numbers - composites.keys())
    if missing:
        composites.update(composites_of(store, missing))
    sources = {doc for one in composites.values() for doc in one.sources}
    documents.update(stored_in(store, sources - documents.keys(), recent))
    return composites, documents


def of_document(document: StoredDocument) -> Composite:
    """Return the composite of one document, without nodes."""
    return Composite(
        (document.doc,),
        (),
        (),
        document.ts,
        document.ts,
        document.clock,
        document.rank,
        document.first,
        document.version,
        (document.base,),
    )


def absent(documents: int, nodes: int, values: int) -> Composite:
    """Return the composite of an absent part, with given counts of documents, nodes and values."""
    never = -EARLIEST
    return Composite(
        docs=(ABSENT,) * documents,
        nodes=(-1,) * nodes,
        values=(None,) * values,
        start=never,
        ts=EARLIEST,
        clock=0,
        rank=0,
        first=never,
        version=1,
        bases=(),
    )


def together(parts: Sequence[Composite], nodes: Sequence[Sequence[int]] = ()) -> Composite:
    """Return the composite of several parts, in order of their components.

    `nodes` are those of each part, by default its own.
    """
    newest = max(parts, key=lambda part: part.rank)
    placed: list[int] = []
    before = 0
    for part, own in zip(parts, nodes or [part.nodes for part in parts], strict=True):
        placed += [n if n < 0 else n + (before << _NODE_BITS) for n in own]
        before += len(part.docs)
    return Composite(
        tuple([doc for part in parts for doc in part.docs]),
        tuple(placed),
        tuple([value for part in parts for value in part.values]),
        min([part.start for part in parts]),
        max([part.ts for part in parts]),
        newest.clock,
        newest.rank,
        min([part.first for part in parts]),
        max([part.version for part in parts]),
        tuple([base for part in parts for base in part.bases]),
    )


def joined(
    parts: Mapping[int, Composite], one: int, other: int, nodes: Sequence[int], split: int
) -> Composite:
    """Return the composite of a result: of the parts `one` and `other`, by number in `parts`.

    For a join of one side both are the same part.  `nodes` are the result's nodes in those parts
    that are documents: if both are, the first `split` belong to the left one.
    """
    left, right = parts[one], parts[other]
    if one == other:
        return left._replace(nodes=tuple(nodes)) if left.docs == (one,) else left
    is_left, is_right = left.docs == (one,), right.docs == (other,)
    if not is_left or not is_right:
        split = len(nodes) if is_left else 0
    ones = nodes[:split] if is_left else left.nodes
    others = nodes[split:] if is_right else right.nodes
    return together((left, right), (ones, others))


def qualified(node: int) -> tuple[int, int]:
    """Return the component of a node of a composite, and its number in that document."""
    return node >> _NODE_BITS, node & NODE


def item_at(
    composite: Composite, position: int, tree: Callable[[int], DocumentTree]
) -> Item | None:
    """Return the item that the variable at a position is bound to; for an aggregate its text.

    `tree` returns the nodes of a document.  None if the variable is bound to nothing.
    """
    if position >= len(composite.nodes):
        return composite.values[position - len(composite.nodes)]
    if composite.nodes[position] < 0:
        return None
    component, node = qualified(composite.nodes[position])
    return tree(composite.docs[component]).items[node]


def over_time(
    parts: Sequence[Composite], values: tuple[str | None, ...], row: Sequence[int]
) -> Composite:
    """Return the composite of a temporal operator's parts, with rank 0.

    `row` is the operator's row in the plan: it has the interval and `first`.  `values` are the
    aggregates, which follow the values of the parts.
    """
    joined = together(parts)
    return joined._replace(
        values=(*joined.values, *values),
        start=row[0],
        ts=row[1],
        first=row[2],
        clock=EARLIEST,
        rank=0,
    )


class CompositeEvents:
    """The composites that have numbers: recent ones in memory, all of them in the store."""

    def __init__(self, store: Store, documents: DocumentLog) -> None:
        self._store = store
        self._documents = documents
        self.new: dict[Composite, int] = {}
        self._known: dict[int, Composite] = {}

    def number(self, composite: Composite) -> int:
        """Return the number of a composite, a new one if it has none in this push."""
        number = self.new.get(composite)
        if number is None:
            number = self._documents.next_number()
            self.new[composite] = number
            self._known[number] = composite
        return number

    def save(self) -> set[int]:
        """Write the composites numbered in this push; return the numbers of their documents."""
        self._store.insert_rows(
            "composite",
            (
                {"doc": number, "vals": composite.values, **composite._asdict()}
                for composite, number in self.new.items()
            ),
        )
        documents = {doc for composite in self.new for doc in composite.docs}
        self.new.clear()
        self._known.clear()
        return documents

    def of(self, numbers: Iterable[int]) -> Mapping[int, Composite]:
        """Return the composites of some numbers, by number; a document is one of one part."""
        found = {n: self._known[n] for n in numbers if n in self._known}
        missing = {n for n in numbers if n not in found}
        if not missing:
            return found
        documents = self._documents.stored(missing)
        found.update((n, of_document(document)) for n, document in documents.items())
        missing.difference_update(documents)
        if missing:
            found.update(composites_of(self._store, missing))
        return found

    def rows_before(self, rows: Iterable[tuple[int, Composite]]) -> set[tuple[int, Composite]]:
        """Return those of some rows that are stored as results already.

        A row is (qid, relational composite).
        """
        asked = set(rows)
        times = [composite.ts for _, composite in asked]
        stored = relational_results(self._store, min(times), max(times))
        return {(row["qid"], stored_composite(row)) for row in stored} & asked
