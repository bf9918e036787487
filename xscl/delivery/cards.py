"""View models of matches: the documents side by side, with joined values marked.

Values that a comparison joins have the same number in all documents.  A feed item is shown by
title, origin, text and categories, any other document by its leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, groupby
from typing import NamedTuple

from lxml import etree

from feeds.formats.display import plain_text, safe_link
from feeds.xml.xmlparse import parse
from xscl.errors import StoreError
from xscl.planning.join_groups import ComparedOperand, compared
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes import (
    AttributeNode,
    DocumentTree,
    Item,
    number_nodes,
    string_value,
)
from xscl.store.store_errors import StoreUnavailable
from xscl.subscriptions.match import EventMatch, Match, MatchDocument, Node, host

LONGEST = 280
"""Maximum number of characters of a value."""
OUTPUT = 1_000
"""Maximum number of characters of an output document."""
_READ = 100_000
"""Most bytes of an output document whose beginning is shown; of a larger one its size is."""
FIRST, LAST = 7, 3
"""Numbers of first and last values that are shown, besides compared ones: a total comes last."""
ROOT = "root"
"""The name of the origin of a document that is no feed item: its root element."""
DOT = " \N{MIDDLE DOT} "
"""The separator of the parts of a line."""
GROUPS = 6
"""Number of marks for joined values; further groups reuse them."""

_ORIGINS = ("feed_title", "feed", "channel_url")
"""Leaves of items that tell where they are from, the most readable first."""
_QUIET = frozenset(
    [
        *("id", *_ORIGINS, "item_url", "feed_url", "raw_title", "description", "content", "author"),
        *("description type", "content type"),
        *("published", "updated", "seen_at", "comments", "rights", "image", "duration"),
        *("enclosure url", "enclosure type", "enclosure length"),
    ]
)
"""Leaves of items that are shown only if they were compared."""


UNTOLD = _QUIET - {"author", "description"} | {"title"}
"""Leaves of items that the text of a message omits: it has title and address before."""


@dataclass(frozen=True, slots=True)
class CardValue:
    """A value of a document: its name, its text and its join mark, or 0.

    `differs` if the values with this mark are compared otherwise than for equality.  An element
    that is repeated, such as a line of an order, is one value with its leaves as `parts`.
    """

    name: str
    text: str
    joined: int = 0
    differs: bool = False
    parts: tuple[CardValue, ...] = ()

    @property
    def leaves(self) -> tuple[CardValue, ...]:
        """The values in it, itself if it has no parts."""
        return self.parts or (self,)


class JoinMark(NamedTuple):
    """The mark of a compared node: the number of its group, and if its values may differ."""

    number: int
    differs: bool


@dataclass(frozen=True, slots=True)
class Card:
    """The view model of a document: its name (`document`), time in ticks, title, origin, values."""

    document: str
    ts: int
    title: CardValue
    url: str | None
    origin: CardValue | None
    text: CardValue | None
    categories: tuple[CardValue, ...]
    values: tuple[CardValue, ...]
    stream: str = ""
    id: str = ""
    version: int = 1
    root: str = ""


class StoryShown(NamedTuple):
    """The story of a view: its id, the number of its documents, and the place of its newest growth.

    `compared` is the number of documents of its first match.
    """

    id: str
    total: int
    head: tuple[int, int]
    compared: int


@dataclass(frozen=True, slots=True)
class MatchView:
    """The view model of a match, or of a story; `values` are those of a match without documents.

    `place` is its cursor: position and number of the subscription.  `output` is the document that
    the query constructs, if any, and `built` has its leaves; `absence` says what did not come.
    `gone` is True if its documents cannot be read; `arrived` is when, in ticks, the last of them
    arrived, if known.
    """

    id: str
    subscription: str
    place: tuple[int, int]
    t1: int
    history: bool
    cards: tuple[Card, ...] = ()
    values: tuple[CardValue, ...] = ()
    output: str = ""
    built: tuple[CardValue, ...] = ()
    absence: str = ""
    gone: bool = False
    arrived: int | None = None
    story: StoryShown | None = None

    @property
    def cursor(self) -> tuple[int, int]:
        """Its place in a list of matches: of a story, that of its newest growth."""
        return self.place if self.story is None else self.story.head

    @property
    def compared(self) -> tuple[Card, ...]:
        """The documents of the match, of a story those of its first one."""
        return self.cards if self.story is None else self.cards[: self.story.compared]

    @property
    def at(self) -> str:
        """Its place as text: the position and the number, with a dot between them."""
        position, number = self.place
        return f"{position}.{number}"

    @property
    def summary(self) -> str:
        """The match in one line."""
        if self.cards:
            return DOT.join(card.title.text for card in self.cards)
        return ", ".join(f"{value.name} {value.text}" for value in self.values)


def shown(
    match: Match,
    name: str,
    called: Callable[[str], str] = str,
    *,
    together: Sequence[Match] = (),
) -> MatchView:
    """Return the view model of a match; `name` is the reader's name of its subscription.

    `called` maps document names to the reader's.  `together` are other matches on the same
    documents or of the same story, whose joined values are marked, too.
    """
    place = (match.position, match.number)
    view = MatchView(match.id, name, place, match.t1, match.history)
    if isinstance(match, EventMatch):
        values = (CardValue(key, shortened(value or "")) for key, value in match.values.items())
        return replace(view, values=tuple(values))
    if match.refusal is not None:
        return replace(view, gone=True)
    try:
        parts = documents_of([match, *together])
        joined = _joined([match, *together], {part.document: part.tree for part in parts})
        cards = _told_apart(
            [of_reader(card(part, joined.get(part.document, {})), called) for part in parts]
        )
        xml = match.xml(_READ) if match.constructed else b""
    except StoreUnavailable:
        raise
    except StoreError:
        return replace(view, gone=True)
    instants = tuple(CardValue(key or "at", at or "") for key, at in match.instants)
    built = _others(built_values(xml), ()) if xml else ()
    output = shortened(xml.decode(), OUTPUT)
    return replace(
        view, cards=cards, values=instants, output=output, built=built, absence=match.absence
    )


def built_values(xml: bytes) -> list[CardValue]:
    """Return the values of a document that SELECT constructs, as people read them."""
    return list(rows_of(number_nodes(parse(xml)), {}))


def documents_of(matches: Sequence[Match]) -> list[MatchDocument]:
    """Return the documents of matches, each once; the matches of a story have different ones."""
    found: dict[str, MatchDocument] = {}
    for match in matches:
        if not found.keys() >= set(match.names) or not found:
            found |= {part.document: part for part in match.read() if part.document not in found}
    return list(found.values())


def of_reader(shown: Card, called: Callable[[str], str]) -> Card:
    """Return a card with the reader's names.

    The origin of a document that is no feed item begins with the document's name.
    """
    document, origin = called(shown.document), shown.origin
    if origin is not None and origin.name == ROOT:
        origin = replace(origin, text=f"{document}{DOT}{origin.text}")
    return replace(shown, document=document, stream=called(shown.stream), origin=origin)


def _told_apart(cards: Sequence[Card]) -> tuple[Card, ...]:
    """Return the cards; equal texts of origins that may differ are followed by their streams."""
    names = Counter(one.origin.text for one in cards if one.origin and one.origin.differs)
    return tuple(
        replace(one, origin=replace(one.origin, text=f"{one.origin.text} ({one.stream})"))
        if one.origin and one.origin.differs and names[one.origin.text] > 1
        else one
        for one in cards
    )


def _joined(
    matches: Sequence[Match], trees: Mapping[str, DocumentTree]
) -> dict[str, dict[int, JoinMark]]:
    """Return the join marks by document and node, of matches of one query on the same documents."""
    found: dict[str, dict[int, JoinMark]] = {}
    numbers = {document: _numbers(tree) for document, tree in trees.items()}
    for index, group in enumerate(compared(matches[0].query)):
        mark = JoinMark(index % GROUPS + 1, not group.is_equal)
        for place in group.places:
            bound = (match.bindings.get(place.variable, ()) for match in matches)
            nodes = dict.fromkeys(chain.from_iterable(bound))
            for node in (one for one in nodes if one.document in trees):  # a calendar has none
                tree = trees[node.document]
                for number in _selected(place, node, tree, numbers[node.document]):
                    found.setdefault(node.document, {}).setdefault(number, mark)
    return found


def _numbers(tree: DocumentTree) -> dict[object, int]:
    """Return the node numbers of a document by node identity."""
    return {_key(item): number for number, item in enumerate(tree.items)}


def _selected(
    place: ComparedOperand, node: Node, tree: DocumentTree, numbers: Mapping[object, int]
) -> Iterator[int]:
    """Yield the numbers of the nodes that an operand compares, at or below a bound node."""
    if not place.path.steps:
        yield node.node
        return
    for item in select(place.path, tree.items[node.node]):
        number = numbers.get(_key(item))
        if number is not None:
            yield number


def _key(item: Item) -> object:
    """Return the identity of a node within its document."""
    if isinstance(item, AttributeNode):
        return id(item.owner), item.name
    return id(item) if isinstance(item, etree._Element) else None


# -- A document ------------------------------------------------------------------------------


def card(part: MatchDocument, joined: Mapping[int, JoinMark]) -> Card:
    """Return the card of a document, given the join marks of its nodes."""
    values = [value for _, value in _leaves(part.tree, joined)]
    root = name_of(part.tree.items[0])
    if any(value.name == "channel_url" for value in values):
        shown = _item(part, values)
    else:
        title = _named(values, "title") or _subject(part, joined)
        others = _others(rows_of(part.tree, joined), [title])
        shown = Card(part.document, part.ts, title, None, CardValue(ROOT, root), None, (), others)
    return replace(shown, stream=part.stream, id=part.id, version=part.version, root=root)


def _subject(part: MatchDocument, joined: Mapping[int, JoinMark]) -> CardValue:
    """Return the first value of a document; of a list of records, the first compared one."""
    leaves, rows = list(_leaves(part.tree, joined)), repeated_elements(part.tree)
    if leaves and rows[leaves[0][0]] is not None:
        leaves.sort(key=lambda leaf: not leaf[1].joined or rows[leaf[0]] is None)
    return leaves[0][1] if leaves else CardValue("", part.document)


def _item(part: MatchDocument, values: list[CardValue]) -> Card:
    """Return the card of a feed item."""
    title = _named(values, "title") or CardValue("title", "(without a title)")
    text = _text(part.tree, _named(values, "description") or _named(values, "content"))
    origins, address = [_named(values, name) for name in _ORIGINS], _named(values, "item_url")
    told = max(filter(None, origins), key=lambda one: bool(one.joined))
    origin = replace(told, name="from", text=_publisher(part, origins))
    categories = tuple(value for value in values if value.name == "category")
    plain = [value for value in values if value.joined or value.name not in _QUIET]
    others = _others(plain, [title, text, told, *categories])
    url = None if address is None else safe_link(address.text)
    return Card(part.document, part.ts, title, url, origin, text, categories, others)


def _publisher(part: MatchDocument, origins: Sequence[CardValue | None]) -> str:
    """Return the name of the feed of an item: the user's, its title, else the host."""
    title, _, channel = origins
    assert channel is not None
    return part.feed_title or (title.text if title else host(channel.text))


def _text(tree: DocumentTree, found: CardValue | None) -> CardValue | None:
    """Return the text of an item without HTML; a compared value keeps its HTML."""
    if found is None or found.joined:
        return found
    item = next(item for item in tree.items if name_of(item) == found.name)
    written = string_value(item)
    return replace(found, text=shortened(written if is_text(item) else plain_text(written)))


def is_text(item: Item) -> bool:
    """Return True for an element of a feed item that has plain text, whose tags are no HTML."""
    return isinstance(item, etree._Element) and item.get("type") == "text"


def _named(values: Iterable[CardValue], name: str) -> CardValue | None:
    """Return a value by name, preferably a joined one."""
    found = [value for value in values if value.name == name]
    return max(found, key=lambda value: bool(value.joined), default=None)


def _others(values: Iterable[CardValue], told: Iterable[CardValue | None]) -> tuple[CardValue, ...]:
    """Return the values except `told`: the first and the last ones, and all joined ones.

    One value, `N more`, stands for each run that is left out.
    """
    others = [value for value in values if value not in told]
    last = len(others) - LAST
    shown: list[CardValue] = []
    for is_shown, run in groupby(
        enumerate(others),
        lambda one: not FIRST <= one[0] < last or any(leaf.joined for leaf in one[1].leaves),
    ):
        row = [value for _, value in run]
        is_cut = not is_shown and len(row) > 1
        shown += [CardValue("…", f"{len(row)} more")] if is_cut else row
    return tuple(shown)


def rows_of(tree: DocumentTree, joined: Mapping[int, JoinMark]) -> Iterator[CardValue]:
    """Yield the values of a document, in document order; a repeated element is one of them."""
    rows = repeated_elements(tree)
    for row, group in groupby(_leaves(tree, joined), lambda one: rows[one[0]]):
        leaves = [leaf for _, leaf in group]
        if row is None:
            yield from leaves
            continue
        name = name_of(tree.items[row])
        parts = _others([replace(leaf, name=within(name, leaf.name)) for leaf in leaves], ())
        text = DOT.join(f"{part.name} {part.text}".strip() for part in parts)
        yield CardValue(name, text, parts=parts)


def within(row: str, name: str) -> str:
    """Return the name of a leaf in a repeated element: `sku` for `line sku`, '' for its text."""
    return name.removeprefix(row).strip() if name == row or name.startswith(f"{row} ") else name


def repeated_elements(tree: DocumentTree) -> list[int | None]:
    """Return for each node the number of its repeated element, None without one.

    Such as a line of an order, this is the outermost element around the node that has siblings of
    its name, and children or attributes.
    """
    names = [(at, name_of(item)) for at, item in zip(tree.parents, tree.items, strict=True)]
    counts = Counter(names)
    found: list[int | None] = []
    for number, (parent, item) in enumerate(zip(tree.parents, tree.items, strict=True)):
        above = None if parent < 0 else found[parent]
        has_more = isinstance(item, etree._Element) and (len(item) > 0 or len(item.attrib) > 0)
        is_row = has_more and counts[names[number]] > 1
        found.append(number if above is None and is_row else above)
    return found


def _leaves(tree: DocumentTree, joined: Mapping[int, JoinMark]) -> Iterator[tuple[int, CardValue]]:
    """Yield the leaves and the compared nodes of a document with their numbers."""
    for number, item in enumerate(tree.items):
        inner = isinstance(item, etree._Element) and len(item) > 0
        text = "" if inner and number not in joined else shortened(string_value(item))
        if text:
            yield number, CardValue(name_of(item), text, *joined.get(number, ()))


def name_of(item: Item) -> str:
    """Return the local name of a node; `enclosure url` for an attribute."""
    if isinstance(item, AttributeNode):
        return f"{etree.QName(item.owner).localname} {etree.QName(item.name).localname}"
    return etree.QName(item).localname if isinstance(item, etree._Element) else ""


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text with white space collapsed, cut to at most `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def sentence_case(text: str) -> str:
    """Return words as the beginning of a sentence."""
    return text[:1].upper() + text[1:]
