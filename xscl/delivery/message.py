"""Messages: the channel-independent form in which matches are delivered.

By default a subscription's matches on the same documents are grouped into one message of at most
`TOGETHER` matches, because they differ only in the pairs of nodes that agree.  A message has the id
and the position of its first match, so that rendering it again gives the same message.  Results of
one push are sorted by their documents, so a group is contiguous.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice
from typing import Any

from lxml import etree

from feeds.formats.display import plain_text
from xscl.delivery.cards import (
    DOT,
    LAST,
    UNTOLD,
    built_values,
    is_text,
    name_of,
    repeated_elements,
    shortened,
    within,
)
from xscl.delivery.entry_html import entry_html
from xscl.engine.story_log import Growth, Story
from xscl.language.names import owner_name
from xscl.shredding.nodes import DocumentTree, Item, string_value
from xscl.subscriptions.construct import OutputTooLarge
from xscl.subscriptions.match import DocumentSource, Match, Node, digest
from xscl.time_format import written

TOGETHER = 100
"""Maximum number of matches in a message."""
LARGEST = 256_000
"""Size in bytes above which a message's texts are cut to `CUT` characters, and its lists cut."""
LINES = 1_000
"""Maximum number of lines of text of a message."""
_NODES = 10
_SOURCES = 100


@dataclass(frozen=True, slots=True)
class Message:
    """The unit of delivery: matches of one subscription on the same documents, or a story.

    `subscription` is the owner's name for it.  `position` and `last` are the positions of the first
    and the last match.  `time` is the time in ticks at which the match was complete.  `text` lists
    the variable bindings in lines, `html` has the documents for a mail.  If it is `cut`, texts and
    lists are shortened.  The message of a `story` that has grown has no matches.
    """

    id: str
    subscription: str
    number: int
    position: int
    last: int
    time: int
    history: bool
    sources: tuple[DocumentSource, ...]
    matches: tuple[Mapping[str, Any], ...]
    text: tuple[str, ...] = ()
    cut: bool = False
    html: str = ""
    story: Story | None = None

    @property
    def backfilled(self) -> bool:
        """True if its matches are of documents that were kept when it was subscribed to."""
        if self.story is not None and self.story.growth is not None:
            return self.story.growth.backfilled
        return bool(self.matches[0]["backfilled"])

    @property
    def title(self) -> str:
        """The subscription's name and the titles of the documents, at most 200 characters."""
        titles = dict.fromkeys(" ".join(s.title.split()) for s in self.sources if s.title.strip())
        what = " + ".join(titles) or " + ".join(s.document for s in self.sources)
        if self.absence:
            what = f"{what} \N{EM DASH} {self.absence}" if what else self.absence
        line = f"{self.subscription}: {what}" if what else self.subscription
        return shortened(line, 200)

    @property
    def page(self) -> str:
        """The path of the page of its first match; empty for a story whose matches are gone."""
        first = self if self.story is None else next(iter(self.story), None)
        return "" if first is None else f"/matches/{first.id}?at={first.position}.{first.number}"

    def lines(self) -> Iterator[str]:
        """Yield the message as lines of text: the documents, then the bindings."""
        for source in self.sources:
            yield " ".join(f"{source.label} {source.url or ''}".split())
        yield from self.told

    @property
    def told(self) -> tuple[str, ...]:
        """The lines of text after the documents: what did not come, then values."""
        return (self.absence, *self.text) if self.absence else self.text

    @property
    def absence(self) -> str:
        """The documents that did not come in time, in words; empty if all did."""
        if self.story is not None and self.story.growth is not None:
            return self.story.absence
        return str(self.matches[0].get("absence", "")) if self.matches else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the message as a JSON value.

        A story has its present state, with what was `added` to it, and if it is `new`.
        """
        data = {
            "id": self.id,
            "subscription": self.subscription,
            "position": self.position,
            "history": self.history,
            "sources": sources_of(self.sources),
            "matches": list(self.matches),
        }
        if self.story is not None and (growth := self.story.growth) is not None:
            added = list(map(owner_name, growth.documents))
            grown = {"new": growth.is_first, "added": added, "merged": list(growth.merged)}
            data = {**row_of_story(self.story), **data, "story": self.story.id, **grown}
        kind = "story" if "story" in data else "match"
        return {"type": kind, "timestamp": written(self.time), "data": data}

    def json(self) -> bytes:
        """Return the message as one line of JSON; texts of a large one are cut."""
        body = json.dumps(self.as_dict()).encode()
        if len(body) <= LARGEST and not self.cut:
            return body
        smaller = self.as_dict()
        data, kept = smaller["data"], [_cut(match) for match in self.matches]
        data |= {"matches": kept, "cut": True, "sources": data["sources"][:_SOURCES]}
        body = json.dumps(smaller).encode()
        if len(body) > LARGEST:
            data["matches"] = kept = [{**match, "bindings": {}} for match in kept]
            body = json.dumps(smaller).encode()
        while len(body) > LARGEST and len(kept) > 1:
            del kept[len(kept) // 2 :]
            body = json.dumps(smaller).encode()
        return body


def row_of(match: Match, named: Callable[[str], str] | None = None) -> dict[str, Any]:
    """Return a match as a JSON value: the one form of the API, of deliveries and of commands.

    `named` maps engine names to those of the reader; by default the owner's prefix is stripped.
    `match` repeats `id`, and `t0` and `t1` are the ticks of `started` and `timestamp`.
    """
    return _row(match, named or owner_name, match.xml().decode())


def row_of_story(story: Story, named: Callable[[str], str] | None = None) -> dict[str, Any]:
    """Return a story as a JSON value, the one form of the API and of deliveries.

    `named` is as for `row_of`; `documents` is the number of its documents, `sources` has the first.
    """
    called = named or owner_name
    return {
        "id": story.id,
        "subscription": called(story.subscription),
        "timestamp": None if story.t1 is None else written(story.t1),
        "started": None if story.t0 is None else written(story.t0),
        "began": story.began,
        "position": story.last,
        "documents": story.total,
        "sources": sources_of(story.sources, called),
        "merged_into": story.merged_into,
        "absence": story.absence,
    }


def size_of(row: Mapping[str, Any]) -> int:
    """Return the number of characters in the texts of a match, given as `row_of` returns it."""
    values = sum(len(n["value"]) + len(n["path"]) for ns in row["bindings"].values() for n in ns)
    return len(row["xml"] or "") + values


def _row(match: Match, named: Callable[[str], str], xml: str | None) -> dict[str, Any]:
    return {
        "id": match.id,
        "match": match.id,
        "subscription": named(match.subscription),
        "timestamp": written(match.t1),
        "started": written(match.t0),
        "history": match.history,
        "backfilled": match.backfilled,
        "position": match.position,
        "version": match.version,
        "documents": list(match.documents),
        "sources": sources_of(match.sources, named),
        "t0": match.t0,
        "t1": match.t1,
        "bindings": {
            variable: [
                {"document": named(n.document), "node": n.node, "path": n.path, "value": n.value}
                for n in nodes
            ]
            for variable, nodes in match.bindings.items()
        },
        "xml": xml,
        "constructed": match.constructed,
        "absence": match.absence,
    }


def sources_of(
    sources: Iterable[DocumentSource], named: Callable[[str], str] = str
) -> list[dict[str, Any]]:
    """Return the documents of a match as JSON values."""
    return [
        {
            "document": named(source.document),
            "stream": named(source.stream),
            "id": source.id,
            "version": source.version,
            "root": source.root,
            "title": source.title,
            "url": source.url,
            "timestamp": written(source.ts),
            "source": source.source,
            "feed_title": source.feed_title,
        }
        for source in sources
    ]


def messages_of(
    matches: Iterable[Match], *, grouped: bool = True, html: bool = False
) -> Iterator[Message]:
    """Group matches of one subscription, given in order of position, into messages."""
    for part in in_messages(matches, grouped=grouped):
        shown = entry_html(part) if html else ""
        yield replace(message_of(part), html=shown)


def in_messages(matches: Iterable[Match], *, grouped: bool = True) -> Iterator[Sequence[Match]]:
    """Yield the matches of each message, of matches of a subscription in order of position."""
    for _, found in groupby(matches, key=_group_of if grouped else _alone):
        group = list(found)
        for begin in range(0, len(group), TOGETHER):
            yield group[begin : begin + TOGETHER]


def whole_groups(matches: Sequence[Match]) -> Sequence[Match]:
    """Return the matches of a page without its last group, which may continue on the next page.

    Matches of a group are on the same documents.  Full messages of that group are kept; the rest
    starts the next page.
    """
    if not matches:
        return matches
    last = _group_of(matches[-1])
    begin = next(
        (at for at in range(len(matches) - 1, -1, -1) if _group_of(matches[at]) != last), -1
    )
    full = (len(matches) - begin - 1) // TOGETHER * TOGETHER
    return matches[: begin + 1 + full]


def message_of(matches: Sequence[Match]) -> Message:
    """Return matches on the same documents as one message, with the first lines of their text.

    Texts of a large message are cut as it is made.
    """
    first = matches[0]
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    left, cut = LARGEST, False
    for match in matches:
        try:
            xml = None if cut else match.output(max(0, left)).decode()
        except OutputTooLarge:
            xml = None
        row = _row(match, owner_name, xml)
        left -= size_of(row)
        if not cut and (xml is None or left < 0):
            cut, rows = True, list(map(_cut, rows))
        rows.append(_cut(row) if cut else row)
        built = built_values(xml.encode()) if match.constructed and xml else []
        told = [f"{value.name}: {value.text}" for value in built] or bound_lines(match)
        lines += islice(told, LINES - len(lines))
        match.forget()
    return Message(
        id=first.id,
        subscription=owner_name(first.subscription),
        number=first.number,
        position=first.position,
        last=matches[-1].position,
        time=first.t1,
        history=first.history,
        sources=tuple(map(_of_owner, first.sources)),
        matches=tuple(rows),
        text=tuple(lines),
        cut=cut,
    )


def message_of_story(story: Story, growth: Growth, *, html: bool = False) -> Message:
    """Return a story that has grown as a message, with its first documents."""
    sources = tuple(map(_of_owner, story.sources))
    others = story.total - len(sources)
    return Message(
        id=digest([story.id, str(growth.position)]),
        subscription=owner_name(story.subscription),
        number=story.number,
        position=growth.position,
        last=growth.position,
        time=story.t1 or 0,
        history=growth.history,
        sources=sources,
        matches=(),
        text=(f"and {others} more",) if others > 0 else (),
        html=entry_html(story) if html and len(story) else "",
        story=story,
    )


def _of_owner(one: DocumentSource) -> DocumentSource:
    return replace(one, document=owner_name(one.document), stream=owner_name(one.stream))


def _group_of(match: Match) -> tuple[str, ...]:
    """Return the same value for all matches of a message.

    They are found at once: matches of the same documents may end at several times, for a document
    that is alone on both sides of ELSE, several instants or runs, and be sent one by one.
    """
    if not match.names:
        return (match.id,)
    instants = (at or "" for _, at in match.instants)
    return (str(match.version), str(match.t1), *match.by_block, *instants)


def _alone(match: Match) -> str:
    return match.id


def _cut(match: Mapping[str, Any]) -> dict[str, Any]:
    """Return a match without its output document and with shortened values and lists."""
    bindings = {
        name: [
            {**node, "value": node["value"][:CUT], "path": node["path"][:CUT]}
            for node in nodes[:_NODES]
        ]
        for name, nodes in match["bindings"].items()
    }
    short = {name: match[name][:_SOURCES] for name in ("documents", "sources")}
    return {**match, **short, "bindings": bindings, "xml": None}


# -- Wording -----------------------------------------------------------------------------


CUT = 500
"""Maximum number of characters of a shortened text."""
LEAVES = 50
"""Maximum number of elements of a node that its text lists."""


def bound_lines(match: Match) -> Iterator[str]:
    """Yield the bindings of a match, in the order of the query.

    Of feed items, values are left out that repeat title and address or describe the transfer.
    """
    trees = dict(match.trees)
    for name, nodes in match.bindings.items():
        for node in nodes:
            tree = trees.get(node.document)
            if tree and _is_of_feed(tree.items[0]) and name_of(tree.items[node.node]) in UNTOLD:
                continue
            leaves = _leaves(node, tree)
            if not leaves:
                yield f"{name} = {shortened(node.value, CUT)}"
                continue
            yield name
            yield from (f"  {leaf}: {shortened(text, CUT)}" for leaf, text in leaves)


def _leaves(node: Node, tree: DocumentTree | None) -> list[tuple[str, str]]:
    """Return the leaf texts of a node by element name; empty for mixed or plain text.

    A repeated element below the node is one entry.  Of a feed item only values are returned that
    add to its title.
    """
    item = None if tree is None or node.node >= len(tree.items) else tree.items[node.node]
    if tree is None or not isinstance(item, etree._Element) or (item.text or "").strip():
        return []  # mixed content is one value
    of_feed = _is_of_feed(item)
    rows = repeated_elements(tree)
    found: dict[tuple[str, int | None], list[str]] = {}
    for number in range(node.node + 1, len(tree.items)):
        if tree.parents[number] < node.node:
            break
        leaf, row = tree.items[number], rows[number]
        name = name_of(leaf)
        written = leaf.text or "" if isinstance(leaf, etree._Element) else string_value(leaf)
        is_html = of_feed and name == "description" and not is_text(leaf)
        text = " ".join((plain_text(written) if is_html else written).split())
        if not text or (of_feed and name in UNTOLD):
            continue
        if row is None or row <= node.node or of_feed:
            found.setdefault((name, None), []).append(text)
        else:
            called = name_of(tree.items[row])
            told = f"{within(called, name)} {text}".strip()
            found.setdefault((called, row), []).append(told)
    leaves = [
        (name, (", " if row is None else DOT).join(texts)) for (name, row), texts in found.items()
    ]
    if len(leaves) > LEAVES:  # a total comes last
        leaves[LEAVES - LAST : -LAST] = [("…", f"{len(leaves) - LEAVES:,} more")]
    return leaves


def _is_of_feed(item: Item) -> bool:
    """Return True for the element of an item of a feed."""
    return isinstance(item, etree._Element) and item.find("channel_url") is not None
