"""Matches: the results that subscriptions receive, with their documents and variables.

The bindings of a match are computed on first use, its output document on each use.
"""

from __future__ import annotations

import hashlib
import html
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, TypeVar, overload
from urllib.parse import urlsplit

from lxml import etree

from cep_core import is_calendar
from cep_core.algebra.function_bounds import Budget, spending
from feeds.documents import Document
from xscl.documents.composite_events import NODE, Composite
from xscl.documents.document_ids import StoredDocument, number_in
from xscl.documents.results import Subscription
from xscl.errors import QueryError
from xscl.language.normalform import calendars, has_longest, instants
from xscl.planning.compile import CompiledQuery
from xscl.shredding.batch.bind import bind
from xscl.shredding.nodes import DocumentTree, Item, string_value
from xscl.subscriptions.absence_text import absences
from xscl.subscriptions.construct import (
    LARGEST,
    OutputTooLarge,
    Room,
    constructed,
    constructed_document,
    default_document,
    row_document,
)
from xscl.time_format import moment

# -- Rows as an HTML table, for notebooks -------------------------------------------------

SHOWN = 20
"""Matches in the text and the HTML of a sequence."""


def html_table(heads: Sequence[str], rows: Iterable[Sequence[str]], number: int) -> str:
    """Return the first `SHOWN` of `number` rows, escaped, as an HTML table under some headings."""
    shown = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>"
        for row in islice(rows, SHOWN)
    )
    head = "".join(f"<th>{one}</th>" for one in heads)
    more = f"<p>and {number - SHOWN:,} more</p>" if number > SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{shown}</tbody></table>{more}"


# -- Matches ---------------------------------------------------------------------------------

T = TypeVar("T")
VALUES = 4_000_000
"""Characters of the values of a match after which no further value is shown."""


class lazy(Generic[T]):
    """Decorator of a method: an attribute that the method computes on first use, without a lock.

    `functools.cached_property` of Python 3.11 holds one lock for all objects of a class while it
    computes.  Two threads that read two matches would wait for each other, and could deadlock with
    the lock of a connection.  Here two threads may both compute a value, which must be immutable.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> T | lazy[T]:
        if instance is None:
            return self
        value = self._compute(instance)
        setattr(instance, self._name, value)  # it hides this descriptor, so it is computed once
        return value


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a document: its number in document order, its path, and its string value."""

    document: str
    """The name of its document."""
    node: int
    path: str
    value: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class MatchDocument:
    """A document of a match with its nodes: `document` is its name, `ts` its time in ticks.

    The name consists of `stream`, `id` (with which it was posted) and `version` (from 1).
    `feed_title` is the user's name for the feed that it came from, empty if there is none.
    """

    document: str
    ts: int
    tree: DocumentTree
    stream: str
    id: str
    version: int
    feed_title: str = ""


@dataclass(frozen=True, slots=True)
class DocumentSource:
    """A document of a match as people are shown it.

    `title`, web address (`url`) and the publisher's host (`source`) are known only of feed items
    and of documents with such elements.  `feed_title` is the user's name for the feed, or else the
    title of the feed.  `document` is the name of the document, which consists of `stream`, `id` and
    `version`; `root` is the name of the root element, `ts` the time in ticks.
    """

    document: str
    title: str = ""
    url: str | None = None
    source: str = ""
    ts: int = 0
    id: str = ""
    stream: str = ""
    root: str = ""
    version: int = 1
    feed_title: str = ""

    @property
    def publisher(self) -> str:
        """The title of the feed, or else the publisher's host; empty if neither is known."""
        return self.feed_title or self.source

    @property
    def label(self) -> str:
        """The title, if known, and the publisher, or else the names of root and document."""
        named = self.publisher or f"{self.root} {self.document}".strip()
        return f"{self.title} ({named})" if self.title else named


@dataclass(frozen=True, slots=True, weakref_slot=True)
class MatchSource:
    """Functions for matches: the query of a text in XSCL, the nodes of a document by number."""

    compiled: Callable[[str], CompiledQuery]
    tree: Callable[[int], DocumentTree]
    feed_title: Callable[[int], str] = lambda _: ""
    """Returns the user's name for the feed of the document of a number, empty without."""


class Match:
    """A subscription's match: documents that satisfy its query together.

    `id` is a hash of the subscription, the names of the documents and the nodes that the
    join compared: unique, and the same whenever the documents are replayed.
    """

    def __init__(
        self,
        subscription: Subscription,
        composites: Sequence[Composite],
        documents: Mapping[int, StoredDocument],
        source: MatchSource,
        position: int = 0,
    ) -> None:
        """Make the match of the composite of a result, or (DISTINCT) of all with its documents.

        `documents` are the kept ones by number; `position` is 0 for a result that is in no log.
        """
        self._subscription = subscription
        self._composites = composites
        self._composite = composites[0]
        self._documents = tuple(map(documents.get, self._composite.sources))
        self._source = source
        self._numbers: list[list[list[int]]] | None = None
        self.position = position
        """The number of the result in this engine, to continue reading after it."""

    @property
    def _present(self) -> list[StoredDocument]:
        return [document for document in self._documents if document is not None]

    def __repr__(self) -> str:
        return f"Match({self.subscription!r}, documents={self.documents!r}, id={self.id!r})"

    def _repr_html_(self) -> str:
        """Return the match as an HTML table of one row, for notebooks."""
        return html_of([self])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Match) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self._subscription.name

    @property
    def version(self) -> int:
        """The version of the subscription's query that found it: 1 for the first one."""
        return self._subscription.version

    @property
    def number(self) -> int:
        """The number of the subscription: later registrations have larger ones."""
        return self._subscription.number

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids that the documents were posted with, in the order of the query's blocks.

        The id of a second version of a document is followed by `@2`.  Documents of two streams may
        have one id: `names` and `sources` tell them apart.
        """
        return tuple(document.posted for document in self._present)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the documents, such as `orders/17`, in the order of the query's blocks."""
        return tuple(filter(None, self.by_block))

    @property
    def by_block(self) -> tuple[str, ...]:
        """The name of each block's document, empty for an instant and what `ELSE` leaves out."""
        return tuple("" if one is None else one.id for one in self._documents)

    @property
    def trees(self) -> list[tuple[str, DocumentTree]]:
        """The (name, nodes) of each document in the order of the blocks; none for event queries."""
        return [(one.id, self._tree(one)) for one in self._present if self.names]

    @property
    def sources(self) -> tuple[DocumentSource, ...]:
        """Title, address and publisher of each document, in the order of the query's blocks."""
        found = {one.document: one for one in self.read()} if self.documents else {}
        return tuple(source_of(one) for one in found.values())

    @property
    def t0(self) -> int:
        """The time of the earliest document or instant, in ticks."""
        return self._composite.start

    @property
    def t1(self) -> int:
        """The time of its end, in ticks: that of the latest document or instant, or a deadline."""
        return self._composite.ts

    @property
    def history(self) -> bool:
        """True if all documents are from before their sources were followed; False without any."""
        present = self._present
        return bool(present) and all(document.history for document in present)

    @property
    def backfilled(self) -> bool:
        """True if it is one of the matches that its subscription began with."""
        return self._subscription.is_backfilled(self.position)

    @property
    def found_by(self) -> Subscription:
        """The subscription as it was when it found the match: one of its versions."""
        return self._subscription

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of the documents in this engine, in the order of the query's blocks."""
        return tuple(document.doc for document in self._present)

    @property
    def absence(self) -> str:
        """The documents that did not come in time, in words; empty if none was missing.

        Streams have the names that their owner uses.
        """
        if self.refusal is not None:
            return ""
        compiled, row = self.query, self._composite
        form = compiled.normal.form
        # What ELSE has left out is 0 in `sources`; an instant is None in `values`, too.
        there = {n for n, doc in zip(compiled.components, row.sources, strict=False) if doc}
        at = zip(calendars(form), instants(form), strict=True)
        there |= {n for n, place in at if row.values and row.values[place] is not None}
        return "; ".join(absences(form, compiled.normal.blocks, there)) if there else ""

    @property
    def publish(self) -> str | None:
        """The name of the stream that the query publishes its output documents on, or None."""
        return self._subscription.publish

    @property
    def _outputs(self) -> list[list[int]]:
        """For each variable in `Subscription.outputs` the numbers of its nodes, ascending."""
        columns = zip(*[composite.nodes for composite in self._composites], strict=True)
        return [sorted({n if n < 0 else n & NODE for n in column}) for column in columns]

    @lazy
    def id(self) -> str:
        """The id of the match (`match_id`): 32 hexadecimal digits, the same after a replay."""
        one, row = self._subscription, self._composite
        names = (*self.by_block, *(at or "" for _, at in self.instants))
        # Runs of the same documents and nodes that end at several times differ in aggregates.
        if self.refusal is None and has_longest(self.query.normal.form):
            names += (str(row.ts),) if one.distinct else tuple(at or "" for at in row.values)
        return match_id(one, names, () if one.distinct else [n[0] for n in self._outputs])

    @lazy
    def bindings(self) -> dict[str, list[Node]]:
        """The nodes of every variable of the query, by its name; nodes are in document order.

        The value of a node is `…` once the values before it have more than `VALUES` characters.
        An instant is a node of no document.
        """
        if self.refusal is not None:
            return {}
        by_variable: dict[str, list[Node]] = {}
        size, trees = 0, self._trees()
        for variable, place, numbers in self._bound(trees):
            document, tree = self._documents[place], trees[place]
            by_variable[variable] = nodes = []
            if document is None or tree is None:
                continue
            for number in numbers:
                value = "…" if size > VALUES else string_value(tree.items[number])
                size += len(value)
                nodes.append(Node(document.id, number, tree.path(number), value))
        wanted = self.query.normal.variables
        found = {variable: by_variable[variable] for variable in wanted}
        for name, at in self.instants:
            if name:
                found[name] = [] if at is None else [Node("", 0, name, at)]
        return found

    def forget(self) -> None:
        """Free the memory of `bindings`, which are computed again on their next use."""
        self.__dict__.pop("bindings", None)

    def read(self) -> Iterator[MatchDocument]:
        """Yield the documents in the order of the blocks; StoreError if a text is not kept."""
        for document in self._present:
            yield part_of(document, self._tree(document), self._source.feed_title(document.doc))

    @property
    def constructed(self) -> bool:
        """True if the output document is made by a constructor in SELECT."""
        return self.refusal is None and self.query.normal.select is not None

    @lazy
    def refusal(self) -> QueryError | None:
        """The error with which this release refuses the query (then no bindings), or None."""
        try:
            _ = self.query
        except QueryError as error:
            return error
        return None

    def xml(self, most: int = LARGEST) -> bytes:
        """Return the output document as XML.

        It is `<too-large bytes="..." limit="..."/>` if the document has more than `most` bytes, and
        `<refused>` with the reason if this release refuses the query.
        """
        try:
            return self.output(most)
        except OutputTooLarge as error:
            return f'<too-large bytes="{error.size}" limit="{most}"/>'.encode()

    def output(self, most: int = LARGEST) -> bytes:
        """Return the output document as `xml` does; raises OutputTooLarge above `most` bytes."""
        if self.refusal is not None:
            refused = etree.Element("refused")
            refused.text = self.refusal.message
            return etree.tostring(refused)
        normal = self.query.normal
        if normal.select is None and not normal.made:
            return default_document(self._selected(Room({}, most)), most)
        room = Room(self._items, most)
        with spending(Budget()):
            if normal.select is None:
                return default_document(self._selected(room), most)
            return constructed_document(normal.select, room)

    @property
    def query(self) -> CompiledQuery:
        """The compiled query that found the match; not for one in an event language."""
        return self._source.compiled(self._subscription.query)

    @lazy
    def instants(self) -> Sequence[tuple[str, str | None]]:
        """The (variable or "", text of the instant) of each calendar; None if ELSE left it out."""
        values = self._composite.values
        if not values or self.refusal is not None:
            return ()
        places = instants(self.query.normal.form)
        return [(self.query.values[at], values[at]) for at in places]

    def _tree(self, document: StoredDocument) -> DocumentTree:
        return self._source.tree(document.doc)

    def _trees(self) -> list[DocumentTree | None]:
        """Return the nodes of each document, None for one that is not kept.

        They are not cached: a list of matches would hold the nodes of all its documents.
        """
        return [None if document is None else self._tree(document) for document in self._documents]

    @property
    def _items(self) -> Mapping[str, Sequence[Item]]:
        """The items of each variable by name; for an aggregate or instant its text, if not null."""
        items: dict[str, Sequence[Item]] = {}
        trees = self._trees()
        for variable, place, numbers in self._bound(trees):
            tree = trees[place]
            items[variable] = [] if tree is None else [tree.items[n] for n in numbers]
        named = zip(self.query.values, self._composite.values, strict=True)
        items.update((name, [] if value is None else [value]) for name, value in named)
        return items

    def _nodes(self, trees: Sequence[DocumentTree | None]) -> list[list[list[int]]]:
        """Return, for each document and each node of its pattern, the numbers of bound nodes."""
        if self._numbers is None:
            fixed: list[dict[str, frozenset[int]]] = [{} for _ in trees]
            for (place, name), nodes in zip(self._subscription.outputs, self._outputs, strict=True):
                fixed[place][name] = frozenset(nodes)
            self._numbers = [
                [[] for _ in pattern.nodes] if tree is None else bind(pattern, tree, chosen)
                for pattern, tree, chosen in zip(self.query.covered, trees, fixed, strict=True)
            ]
        return self._numbers

    def _bound(self, trees: Sequence[DocumentTree | None]) -> Iterator[tuple[str, int, list[int]]]:
        """Yield each variable: its name, the index of its document, the numbers of its nodes."""
        patterns = self.query.covered
        for place, (pattern, bound) in enumerate(zip(patterns, self._nodes(trees), strict=True)):
            for node, numbers in zip(pattern.nodes, bound, strict=True):
                if node.variable is not None:
                    yield node.variable, place, numbers

    def _selected(self, room: Room) -> Iterator[Item]:
        """Yield the items of `SELECT *` in the order of the blocks.

        A block has those of its main path, a sub-query its element, a calendar `<at>`.
        """
        compiled = self.query
        blocks, times = compiled.normal.blocks, iter(self.instants)
        made = {first: (last, element) for first, last, element in compiled.normal.made}
        done = -1
        trees = self._trees()
        each = zip(compiled.components, compiled.covered, trees, self._nodes(trees), strict=True)
        for component, pattern, tree, nodes in each:
            at = next(times)[1] if self.instants and blocks[component].is_calendar else None
            if component <= done:
                continue
            if component in made:
                done, constructor = made[component]
                yield constructed(constructor, room)
            elif at is not None:
                element = etree.Element("at")
                element.text = at
                yield element
            elif tree is not None:
                for number in nodes[pattern.main]:
                    yield tree.items[number]


def match_id(one: Subscription, names: Iterable[str], nodes: Sequence[int]) -> str:
    """Return the id of a match: a hash of the subscription's key, documents and nodes.

    `names` are by block; `nodes` are numbers, one for each of `one.outputs` unless DISTINCT."""
    named = sorted(zip(one.outputs, nodes, strict=bool(nodes)))
    return digest([one.key, *names, *(f"{name}={node}" for (_, name), node in named)])


class MatchIds:
    """Makes the ids of many matches of two documents, as `match_id` does, but faster."""

    def __init__(self, subscriptions: Sequence[Subscription], names: Sequence[str]) -> None:
        self._keys = [_framed(subscription.key) for subscription in subscriptions]
        self._names = list(map(_framed, names))
        self._outputs = [
            () if subscription.distinct else subscription.outputs for subscription in subscriptions
        ]
        known: dict[tuple[tuple[int, str], ...], dict[tuple[int, ...], str]] = {}
        self._known = [known.setdefault(outputs, {}) for outputs in self._outputs]

    def of(self, subscription: int, one: int, other: int, nodes: tuple[int, ...]) -> str:
        """Return the id for the subscription and the names with these indexes, and some `nodes`."""
        named = self._known[subscription].get(nodes)
        if named is None:
            outputs = sorted(zip(self._outputs[subscription], nodes, strict=False))
            named = "".join(_framed(f"{name}={node}") for (_, name), node in outputs)
            self._known[subscription][nodes] = named
        return _hashed(self._keys[subscription] + self._names[one] + self._names[other] + named)


def _framed(part: str) -> str:
    """Return a text after its length in bytes and `:`; a concatenation of such is unambiguous."""
    return f"{len(part.encode())}:{part}"


def digest(parts: Iterable[str]) -> str:
    """Return a hash, 32 hexadecimal digits, of a sequence of texts, also of where each one ends."""
    return _hashed("".join(map(_framed, parts)))


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def match_of(
    subscription: Subscription,
    composites: Sequence[Composite],
    documents: Mapping[int, StoredDocument],
    source: MatchSource,
    position: int = 0,
) -> Match:
    """Return a `Match`, or an `EventMatch` for an event query; the arguments are those of both."""
    made = EventMatch if subscription.relational else Match
    return made(subscription, composites, documents, source, position)


def groups_of(
    subscription: Subscription, composites: Iterable[Composite]
) -> Iterator[list[Composite]]:
    """Yield the composites of each match that a subscription sees.

    They are one, or for DISTINCT all that have the same documents and end at the same time."""
    groups: dict[tuple[tuple[int, ...], int], list[Composite]] = {}
    for one in composites:
        if one.first >= subscription.since and (subscription.updates or one.version == 1):
            groups.setdefault((one.docs, one.ts), []).append(one)
    for group in groups.values():
        yield from [group] if subscription.distinct else [[one] for one in group]


def output_of(
    subscription: Subscription,
    group: Sequence[Composite],
    stored: Mapping[int, StoredDocument],
    source: MatchSource,
) -> Document:
    """Return the document that a subscription publishes for a match; raises OutputTooLarge.

    `group` are the composites of the match, `stored` has their documents by number.
    """
    assert subscription.publish is not None
    match = match_of(subscription, group, stored, source)
    return Document(subscription.publish, match.id, match.t1, match.output(), match.history)


def part_of(document: StoredDocument, tree: DocumentTree, feed_title: str = "") -> MatchDocument:
    """Return a stored document with its nodes, and the user's name for its feed, if any."""
    return MatchDocument(
        document.id,
        document.ts,
        tree,
        document.stream,
        document.given,
        number_in(document.id),
        feed_title,
    )


class EventMatch(Match):
    """A match of an event query: a row, whose values are leaves of its output document.

    Of its documents only the first is known.  `id` is a hash of the subscription, that document,
    the times and the values.  If the query reads a calendar, `id` does not depend on the document:
    that may be the one which advanced the clock past an instant.
    """

    @property
    def documents(self) -> tuple[str, ...]:
        return ()

    by_block = documents

    @property
    def history(self) -> bool:
        """True if it is a single event from before its source was followed, without an instant."""
        if self.t0 < self.t1 or not self._present:
            return False
        return super().history and not self._reads_calendar

    @lazy
    def id(self) -> str:
        row = self._composite
        first = () if self._reads_calendar else super().by_block
        parts = [row.start, row.ts, *(json.dumps(value) for value in row.values)]
        return digest([self._subscription.key, *first, *map(str, parts)])

    @property
    def absence(self) -> str:
        return ""

    @property
    def _reads_calendar(self) -> bool:
        return any(map(is_calendar, self._subscription.reads))

    @property
    def values(self) -> dict[str, str | None]:
        """The attributes of the row as texts, by name; None for null."""
        return dict(zip(self._subscription.columns, self._composite.values, strict=True))

    @lazy
    def bindings(self) -> dict[str, list[Node]]:
        return {
            name: [] if value is None else [Node("", 0, name, value)]
            for name, value in self.values.items()
        }

    @property
    def constructed(self) -> bool:
        return False

    def output(self, most: int = LARGEST) -> bytes:
        return row_document(self._subscription.publish or "result", self.values, Room({}, most))


# -- Documents for people --------------------------------------------------------------------

CUT = 500
"""Maximum number of characters of a title."""
FEED_TITLE = "feed_title"
"""The leaf of an item with the title of its feed."""
_ADDRESSES = ("item_url", "link")


def source_of(part: MatchDocument) -> DocumentSource:
    """Return a document with the title, web address and publisher that its elements have."""
    from feeds.formats.display import safe_link  # here, as a push does not need it

    title, address, channel, feed_title = "", None, "", part.feed_title
    for item in part.tree.items:
        if not isinstance(item, etree._Element):
            continue
        name = etree.QName(item).localname
        if name == "title" and not title:
            title = " ".join((item.text or "").split())[:CUT]
        elif name in _ADDRESSES and address is None:
            address = safe_link((item.text or item.get("href") or "").strip() or None)
        elif name == "channel_url" and not channel:
            channel = host((item.text or "").strip())
        elif name == FEED_TITLE and not feed_title:
            feed_title = " ".join((item.text or "").split())[:CUT]
    root = part.tree.items[0]
    assert isinstance(root, etree._Element)
    return DocumentSource(
        document=part.document,
        title=title,
        url=address,
        source=channel,
        ts=part.ts,
        id=part.id,
        stream=part.stream,
        root=etree.QName(root).localname,
        version=part.version,
        feed_title=feed_title,
    )


def host(address: str) -> str:
    """Return the host of a URL, or the text if it has none."""
    try:
        return urlsplit(address).hostname or address
    except ValueError:
        return address


def values_of(match: Match) -> dict[str, list[str]]:
    """Return the string values of the nodes of each variable, by its name."""
    return {name: [node.value for node in nodes] for name, nodes in match.bindings.items()}


def html_of(matches: Sequence[Match]) -> str:
    """Return the first `SHOWN` matches as an HTML table, a row for each; all text is escaped."""
    rows = (
        (match.subscription, moment(match.t1), ", ".join(match.names), _text(values_of(match)))
        for match in matches
    )
    return html_table(("subscription", "end", "documents", "values"), rows, len(matches))


def _text(values: Mapping[str, Sequence[str]]) -> str:
    return "; ".join(f"{name} = {', '.join(texts)}" for name, texts in values.items())
