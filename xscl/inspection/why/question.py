"""The question: a query, a document for each of its blocks, and their records in the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any, TypeAlias

from feeds.xml.xmlparse import parse
from templates.model.join_graph import SYMMETRIC_JOIN
from xscl.documents.document_ids import StoredDocument, find_document
from xscl.documents.results import Subscription
from xscl.errors import DocumentError, XsclError
from xscl.inspection.reasons import NONE
from xscl.inspection.replay import TrialScope
from xscl.language.normalform import (
    AbsenceForm,
    CalendarForm,
    JoinForm,
    NormalForm,
    Scan,
    forms,
)
from xscl.planning.compile import CompiledQuery
from xscl.plurals import counted
from xscl.shredding.nodes import DocumentTree, number_nodes
from xscl.store.queries.documents import document_named
from xscl.store.queries.kept_matches import match_among
from xscl.store.store import Store
from xscl.subscriptions.match import Match

TextReader: TypeAlias = "Callable[[str], bytes]"
"""Returns, by name, the text of a document that the engine does not keep any more."""
Visible: TypeAlias = "Callable[[str], str | None]"
"""Returns the reader's name of a stream, None for a stream that he does not see."""
DocumentRow: TypeAlias = dict[str, Any]
"""The columns of a document, with its streams and its text."""


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document of the question: its record, its streams, its text and its nodes."""

    stored: StoredDocument
    streams: tuple[str, ...]
    xml: bytes
    tree: DocumentTree


@dataclass(frozen=True, slots=True)
class WhyQuestion:
    """A query, its subscription (None if it is not registered), and a document for each block.

    `lateness` is that of each stream that the query reads; `attempt` returns the matches of a
    trial, and absences are certain up to `watermark`, which the wall clock does not advance if some
    streams are `not_live`.  `names` are the given names of the `documents`.

    `found` says whether the subscription has the match; None without a subscription: then the
    conditions alone decide.  If all conditions hold and the subscription lacks the match, `lost`
    returns the reason.  With `own_time` documents of history are not late: see
    `xscl.inspection.replay`.
    """

    query: CompiledQuery
    subscription: Subscription | None
    lateness: Mapping[str, int]
    attempt: Callable[[TrialScope], Sequence[Match]]
    watermark: int
    not_live: Sequence[str] = ()
    names: tuple[str, ...] = ()
    documents: tuple[KnownDocument | None, ...] = ()
    own_time: bool = False
    found: bool | None = None
    lost: Callable[[WhyQuestion], str] = lambda _: ""

    @property
    def label(self) -> str:
        """The subscription's name, or `the query` without one."""
        return "the query" if self.subscription is None else self.subscription.name

    @property
    def trees(self) -> Mapping[int, DocumentTree]:
        """The nodes of each component's document, by component; those without one are left out."""
        return {place: one.tree for place, one in enumerate(self.documents) if one is not None}

    @property
    def parts(self) -> tuple[KnownDocument, ...]:
        """Those documents of the question that a match has, in the order of its components."""
        found = (self.documents[place] for place in self.query.components)
        return tuple(one for one in found if one is not None)

    @property
    def counts_in_own_time(self) -> bool:
        """True if the documents may be a match of history with which the subscription began."""
        began = self.subscription is not None and self.subscription.backfilled >= 0
        return began and all(part.stored.history for part in self.parts)

    def about(
        self,
        names: Sequence[str],
        documents: Iterable[KnownDocument | None],
        found: bool,
    ) -> WhyQuestion:
        """Return the same question about other documents.

        `names` are their given names.  `found` says that the subscription has a match of them;
        without a subscription it is ignored.
        """
        placed = self._ordered(documents)
        asked = replace(self, names=tuple(names), documents=placed)
        is_own = self.subscription is not None
        return replace(asked, found=found) if is_own else asked.in_own_time()

    def _ordered(
        self, documents: Iterable[KnownDocument | None]
    ) -> tuple[KnownDocument | None, ...]:
        """Return documents in the order of a match: by time and number within a symmetric join."""
        found = list(documents)
        for form in forms(self.query.normal.form):
            if isinstance(form, JoinForm) and form.relation.operator is SYMMETRIC_JOIN:
                pair = covered(form)
                known = [each for place in pair if (each := found[place]) is not None]
                if len(known) == len(pair):
                    known.sort(key=lambda each: (each.stored.ts, each.stored.doc))
                    for place, each in zip(pair, known, strict=True):
                        found[place] = each
        return tuple(found)

    def in_own_time(self) -> WhyQuestion:
        """Return the question with the documents of history as if they had come in their time."""
        return replace(self, documents=tuple(map(_in_own_time, self.documents)), own_time=True)

    def unseen(self, known: KnownDocument) -> str | None:
        """Return the reason why the subscription does not see a document; None if it does."""
        one, subscription = known.stored, self.subscription
        if subscription is None:
            return None
        if one.first < subscription.since:
            version = f"version {subscription.version} of " if subscription.version > 1 else ""
            return f"{one.id} arrived before {version}the subscription"
        if one.version > 1 and not subscription.updates:
            return f"{one.id} is a new version, and the subscription sees first ones only"
        return None


def _in_own_time(known: KnownDocument | None) -> KnownDocument | None:
    if known is None or not known.stored.history:
        return known
    one = known.stored
    return replace(known, stored=one._replace(clock=min(one.clock, one.ts)))


def question_of(
    store: Store,
    question: WhyQuestion,
    names: Sequence[str],
    read: TextReader | None,
    visible: Visible,
) -> WhyQuestion:
    """Return the same question about the documents with some names.

    `find_document` finds each, with the stream of the block that its name stands for.  Names stand
    for all blocks, or for those of a match.  Raises DocumentError for an unknown document, or one
    whose text is neither kept nor given by `read`; XsclError for a wrong number of documents.
    """
    query, subscription = question.query, question.subscription
    of_a_side = len(names) == 1 and not needed_blocks(query)
    if of_a_side:
        names = _of_a_side(store, query, names[0], visible)
    names = _names(store, query, names, visible)
    rows = {name: document_named(store, name) for name in names if name != NONE}
    placed = None
    if subscription is not None:
        given: Iterable[DocumentRow | None] = map(rows.get, names)
        if of_a_side:  # it may be alone on the other one
            given = filter(None, given)
        elif NONE in names:
            by_block = dict(zip(_chosen(query, len(names)), given, strict=False))
            given = map(by_block.get, query.components)
        placed = _kept(store, query, subscription, list(given))
        if of_a_side and placed is not None:
            names = tuple(placed[place] or NONE for place in _chosen(query, len(names)))
    found = placed is not None
    if placed is None:
        placed = _placed(query, names)
    known = {name: _known(rows[name], read) for name in placed if name is not None}
    documents = (None if one is None else known[one] for one in placed)
    asked = question.about(names, documents, found)
    if subscription is not None and not found:
        blocks = (asked.documents[place] for place in query.components)
        parts = [None if one is None else rows[one.stored.id] for one in blocks]
        return replace(asked, found=_kept(store, query, subscription, parts) is not None)
    return asked


def _kept(
    store: Store,
    query: CompiledQuery,
    subscription: Subscription,
    rows: Sequence[DocumentRow | None],
) -> tuple[str | None, ...] | None:
    """Return for each block the name of its document, or None, in a kept match of documents.

    With a None in `rows` these are by component, else in any components.  None if the subscription
    has no match of them.
    """
    names = {row["doc"]: str(row["id"]) for row in rows if row is not None}
    match = match_among(
        store,
        [0 if row is None else row["doc"] for row in rows],
        number=subscription.number,
        after=subscription.after,
        until=subscription.until,
    )
    if match is None:
        return None
    by_place = dict(zip(query.components, map(names.get, match), strict=True))
    return tuple(by_place.get(place) for place in range(len(query.normal.blocks)))


def known_document(row: DocumentRow, text: bytes) -> KnownDocument:
    """Return a document from its row and its text."""
    others = ("streams", "hash", "xml")
    fields = {name: value for name, value in row.items() if name not in others}
    streams = tuple(row["streams"])
    document = StoredDocument(**fields, stream=streams[0])
    return KnownDocument(document, streams, text, number_nodes(parse(text), document.ts))


def _known(row: DocumentRow, read: TextReader | None) -> KnownDocument:
    name, xml = row["id"], row["xml"]
    if xml is None and read is None:
        raise DocumentError(
            f"the text of {name!r} is not kept any more: no subscription needs it",
            reason_code="text_dropped",
        )
    text = read(name) if xml is None and read is not None else bytes(xml)
    return known_document(row, text)


# -- Documents and blocks --------------------------------------------------------------------


def _names(
    store: Store, query: CompiledQuery, names: Sequence[str], visible: Visible
) -> tuple[str, ...]:
    """Return the full names of documents (`stream/id`); an id counts on the stream of its block."""
    blocks = (query.normal.blocks[place].stream for place in _chosen(query, len(names)))
    placed = zip_longest(names, blocks)
    return tuple(
        name if name == NONE else find_document(store, name, visible, stream)
        for name, stream in islice(placed, len(names))
    )


def _of_a_side(store: Store, query: CompiledQuery, name: str, visible: Visible) -> tuple[str, ...]:
    """Return `name` for the first block whose stream has this document, and `-` for all others.

    The result is only `name` if no stream of a block has this document.
    """
    blocks = [one for one in query.normal.blocks if not one.is_calendar]
    for place, block in enumerate(blocks):
        try:
            found = find_document(store, name, visible, block.stream)
        except DocumentError:
            continue
        if block.stream in document_named(store, found)["streams"]:
            return tuple(found if at == place else NONE for at in range(len(blocks)))
    return (name,)


def _chosen(query: CompiledQuery, number: int) -> list[int]:
    """Return the blocks, by number, whose documents are named if there are `number` names.

    They are the blocks of a match if their count fits, else all; instants have no names.
    """
    asked = [place for place, one in enumerate(query.normal.blocks) if not one.is_calendar]
    parts = [place for place in query.components if place in asked]
    needed = needed_blocks(query)
    if number == len(needed) < len(parts):
        return sorted(needed)
    return parts if number == len(parts) else asked


def _placed(query: CompiledQuery, names: Sequence[str]) -> tuple[str | None, ...]:
    """Return for each block the name of its document, None without one.

    `names` are for all blocks, or for those of a match only (`_chosen`).  Raises XsclError if they
    do not fit the query.
    """
    given = [None if name == NONE else name for name in names]
    blocks = sum(not block.is_calendar for block in query.normal.blocks)
    if all(query.normal.blocks[place].is_calendar for place in query.components):
        raise XsclError(
            "a match of this query has instants and no documents to ask about",
            hint="try the query instead: that finds its matches",
        )
    placed = zip(_chosen(query, len(given)), given, strict=False)
    by_place: Mapping[int, str | None] = dict(placed)
    found = [by_place.get(place) for place in range(len(query.normal.blocks))]
    has_gaps = lacks(query.normal.form, found)
    if len(given) == blocks and has_gaps and any(found):
        raise XsclError(
            f"{NONE!r} stands for a block that a match need not have a document of",
            hint="name a document for each other block",
        )
    if len(given) > blocks or has_gaps or not any(found):
        raise XsclError(
            f"{counted(len(names), 'document')} for a query of {counted(blocks, 'block')}",
            hint="name a document for each block, in their order",
        )
    return tuple(found)


def needed_blocks(query: CompiledQuery) -> set[int]:
    """Return the blocks, by number, of which each match has a document: none may be absent."""
    absent = [form for form in forms(query.normal.form) if isinstance(form, AbsenceForm)]
    read = {place for place, one in enumerate(query.normal.blocks) if not one.is_calendar}
    sides = [one.right for one in absent if one.alone[0]]
    sides += [one.left for one in absent if one.alone[1]]
    return read.difference(*map(covered, sides))


def lacks(form: NormalForm, found: Sequence[object | None]) -> bool:
    """Return True if a needed block has no document; `found` has the documents by block.

    Of an outer join one side suffices.
    """
    match form:
        case Scan():
            return found[form.component] is None
        case CalendarForm():
            return False
        case AbsenceForm():
            if form.alone[1] and lacks(form.left, found):
                return lacks(form.right, found)
            return lacks(form.left, found)
        case _:
            return lacks(form.left, found) or lacks(form.right, found)


def paired_blocks(form: NormalForm) -> set[int]:
    """Return the blocks, by number, of the documents that form a match together.

    Of NOT FOLLOWED BY and ELSE they are those of the sides that may be alone.
    """
    match form:
        case Scan():
            return {form.component}
        case CalendarForm():
            return set()
        case AbsenceForm():
            sides = zip((form.left, form.right), form.alone, strict=True)
            return set().union(*[paired_blocks(side) for side, alone in sides if alone])
        case _:
            return paired_blocks(form.left) | paired_blocks(form.right)


def covered(form: NormalForm) -> tuple[int, ...]:
    """Return all components of a form, also those without documents in its results."""
    return tuple(one.component for one in forms(form) if isinstance(one, Scan))
