"""Documents that a user may see, newest first, by stream and by text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from feeds.xml.xmlparse import parse
from xscl.documents.document_ids import number_in
from xscl.service.accounts import Account
from xscl.shredding.nodes.tree import number_nodes
from xscl.store.queries.browsing import END, documents_seen
from xscl.store.store import Store
from xscl.subscriptions.match import MatchDocument

SEARCHED = 50_000
"""Number of the newest documents whose texts a search reads."""


@dataclass(frozen=True, slots=True)
class BrowsedDocument:
    """A document by its number in the order of arrival; `xml` is None if its text is not kept.

    Names are the engine's.
    """

    number: int
    name: str
    id: str
    streams: tuple[str, ...]
    ts: int
    arrived: int
    history: bool
    xml: bytes | None
    feed_title: str = ""

    def part(self, xml: bytes) -> MatchDocument:
        """Return the document with the nodes of its text."""
        tree, version = number_nodes(parse(xml)), number_in(self.name)
        return MatchDocument(
            self.name, self.ts, tree, self.streams[0], self.id, version, self.feed_title
        )


class DocumentPlace(NamedTuple):
    """The place of a document in a list: its number, and its time in ticks in a list by dates."""

    number: int
    ts: int | None = None

    def __str__(self) -> str:
        return str(self.number) if self.ts is None else f"{self.number}.{self.ts}"


def place_read(text: str, *, by_date: bool) -> DocumentPlace | None:
    """Return the place that a text names, None for the empty one; raises ValueError."""
    number, _, ts = text.partition(".")
    if not text:
        return None
    return DocumentPlace(int(number), int(ts) if by_date else None)


def browse(
    store: Store,
    account: Account,
    *,
    stream: str = "",
    text: str = "",
    before: DocumentPlace | None = None,
    limit: int,
    by_date: bool = False,
) -> list[BrowsedDocument]:
    """Return visible documents, the last one to arrive first, or `by_date` the newest one.

    `stream` is the engine's name of a visible stream.  `text` is part of the id or of the text, in
    any capitals; only the newest documents are searched.
    """
    rows = documents_seen(
        store,
        account.number,
        stream=stream,
        text=text,
        searched=SEARCHED,
        before=END if before is None else before.number,
        limit=limit,
        by_date=by_date,
        earlier=None if before is None else before.ts,
    )
    return [BrowsedDocument(**row | {"streams": tuple(row["streams"])}) for row in rows]


def visible_names(account: Account, streams: Sequence[str]) -> list[str]:
    """Return the user's names of those streams that he sees."""
    return [name for one in streams if (name := account.visible(one)) is not None]
