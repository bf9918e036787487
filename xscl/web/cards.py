"""Matches as they are shown: the documents side by side, and in them what was compared.

Values that a comparison joins have one number, on all sides.  A document of a feed is shown as
its item: title, origin, text, categories; any other by its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from lxml import etree

from feeds.formats.display import plain_text
from xscl.errors import StoreError
from xscl.planning.join_groups import Place, compared
from xscl.shredding.conditions.navigate import select
from xscl.shredding.nodes.tree import Attribute, Item, Tree, string_value
from xscl.subscriptions.match import EventMatch, Match, Node, Part
from xscl.web.links import link

LONGEST = 280
"""Characters of a value that are shown."""
OUTPUT = 1_000
"""Characters of an output document that are shown."""
LEAVES = 10
"""Leaves of a document that are shown; those that were compared come in any case."""
GROUPS = 6
"""Numbers of joined values; further ones begin anew."""

_QUIET = frozenset(
    ["id", "item_url", "published", "updated", "seen_at", "description", "content", "author"]
)
"""Leaves of items that are shown only where they were compared."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a document: its name there, its text, and its number among those joined, or 0."""

    name: str
    text: str
    joined: int = 0


@dataclass(frozen=True, slots=True)
class Card:
    """A document: what heads it, where it is from, and its values."""

    document: str
    ts: int
    title: Value
    url: str | None
    origin: Value | None
    text: Value | None
    categories: tuple[Value, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class MatchView:
    """A match as it is shown; `values` are those of a match without documents.

    `place` says where it stands among all: position and subscription.  `output` is the document
    that the query makes of it, if it says how.
    """

    id: str
    subscription: str
    place: tuple[int, int]
    t1: int
    history: bool
    cards: tuple[Card, ...]
    values: tuple[Value, ...] = ()
    output: str = ""
    gone: bool = False

    @property
    def summary(self) -> str:
        """The match in one line."""
        if self.cards:
            return " · ".join(card.title.text for card in self.cards)
        return ", ".join(f"{value.name} {value.text}" for value in self.values)


def shown(match: Match, name: str, called: Callable[[str], str] = str) -> MatchView:
    """Return a match as it is shown to whoever calls its subscription `name`.

    `called` gives the ids that he knows documents by.
    """
    place = (match.position, match.number)
    if isinstance(match, EventMatch):
        values = (Value(key, shortened(value or "")) for key, value in match.values.items())
        return MatchView(match.id, name, place, match.t1, match.history, (), tuple(values))
    try:
        parts = list(match.read())
        joined = _joined(match, {part.document: part.tree for part in parts})
        cards = tuple(
            replace(card(part, joined.get(part.document, {})), document=called(part.document))
            for part in parts
        )
        output = shortened(match.xml().decode(), OUTPUT) if match.constructed else ""
    except StoreError:
        return MatchView(match.id, name, place, match.t1, match.history, (), gone=True)
    return MatchView(match.id, name, place, match.t1, match.history, cards, output=output)


def _joined(match: Match, trees: Mapping[str, Tree]) -> dict[str, dict[int, int]]:
    """Return the numbers of the joined values by document and node."""
    found: dict[str, dict[int, int]] = {}
    numbers = {document: _numbers(tree) for document, tree in trees.items()}
    for index, group in enumerate(compared(match.query)):
        for place in group:
            for node in match.bindings.get(place.variable, ()):
                tree = trees[node.document]
                for number in _selected(place, node, tree, numbers[node.document]):
                    found.setdefault(node.document, {}).setdefault(number, index % GROUPS + 1)
    return found


def _numbers(tree: Tree) -> dict[object, int]:
    """Return the numbers of a document's nodes by what tells them apart."""
    return {_key(item): number for number, item in enumerate(tree.items)}


def _selected(place: Place, node: Node, tree: Tree, numbers: Mapping[object, int]) -> Iterator[int]:
    """Yield the numbers of the nodes that are compared; an element's, for a text of it."""
    if not place.path.steps:
        yield node.node
        return
    for item in select(place.path, tree.items[node.node]):
        number = numbers.get(_key(item))
        if number is not None:
            yield number


def _key(item: Item) -> object:
    """Return what tells a node from the others of its document."""
    if isinstance(item, Attribute):
        return id(item.owner), item.name
    return id(item) if isinstance(item, etree._Element) else None


# -- A document ------------------------------------------------------------------------------


def card(part: Part, joined: Mapping[int, int]) -> Card:
    """Return a document as it is shown, given the numbers of its joined nodes."""
    values = list(_values(part.tree, joined))
    if any(value.name == "channel_url" for value in values):
        return _item(part, values)
    title = _named(values, "title") or next(iter(values), Value("", part.document))
    return Card(part.document, part.ts, title, None, None, None, (), _others(values, [title]))


def _item(part: Part, values: list[Value]) -> Card:
    """Return an item of a feed as it is shown."""
    title = _named(values, "title") or Value("title", "(without a title)")
    text = _text(part.tree, _named(values, "description") or _named(values, "content"))
    channel, address = _named(values, "channel_url"), _named(values, "item_url")
    origin = None if channel is None else Value("from", host(channel.text), channel.joined)
    categories = tuple(value for value in values if value.name == "category")
    plain = [value for value in values if value.joined or value.name not in _QUIET]
    others = _others(plain, [title, text, channel, *categories])
    url = None if address is None else link(address.text)
    return Card(part.document, part.ts, title, url, origin, text, categories, others)


def _text(tree: Tree, found: Value | None) -> Value | None:
    """Return what an item says, without its HTML, which a value that is compared keeps."""
    if found is None or found.joined:
        return found
    written = next(string_value(item) for item in tree.items if name_of(item) == found.name)
    return replace(found, text=shortened(plain_text(written)))


def _named(values: Iterable[Value], name: str) -> Value | None:
    """Return the value of a name, one that is joined if there is one."""
    found = [value for value in values if value.name == name]
    return max(found, key=lambda value: bool(value.joined), default=None)


def _others(values: Iterable[Value], told: Iterable[Value | None]) -> tuple[Value, ...]:
    """Return the values that are not shown elsewhere: the first ones, and all that are joined."""
    others = [value for value in values if value not in told]
    return tuple(value for at, value in enumerate(others) if at < LEAVES or value.joined)


def _values(tree: Tree, joined: Mapping[int, int]) -> Iterator[Value]:
    """Yield the leaves of a document, and what else was compared, in document order."""
    for number, item in enumerate(tree.items):
        inner = isinstance(item, etree._Element) and len(item) > 0
        text = "" if inner and number not in joined else shortened(string_value(item))
        if text:
            yield Value(name_of(item), text, joined.get(number, 0))


def name_of(item: Item) -> str:
    """Return the name of a node, without its namespace; `enclosure url` for an attribute."""
    if isinstance(item, Attribute):
        return f"{etree.QName(item.owner).localname} {etree.QName(item.name).localname}"
    return etree.QName(item).localname if isinstance(item, etree._Element) else ""


def host(address: str) -> str:
    """Return the host of an address, or the address where it has none."""
    try:
        return urlsplit(address).hostname or address
    except ValueError:
        return address


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text with single blanks, cut where it is too long."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"
