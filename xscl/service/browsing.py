"""Documents that a user may see, newest first, by stream and by text."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from feeds.xml.xmlparse import parse
from xscl.documents.document_ids import number_in
from xscl.service.accounts import Account
from xscl.shredding.nodes.tree import number_nodes
from xscl.store.queries.owners import own_condition
from xscl.store.store import Store
from xscl.subscriptions.match import MatchDocument

SEARCHED = 50_000
"""Number of the newest documents whose texts a search reads."""
END = 1 << 62
"""A number above those of all documents."""


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

    def part(self, xml: bytes) -> MatchDocument:
        """Return the document with the nodes of its text."""
        tree, version = number_nodes(parse(xml)), number_in(self.name)
        return MatchDocument(self.name, self.ts, tree, self.streams[0], self.id, version)


def browse(
    store: Store, who: Account, *, stream: str = "", text: str = "", before: int = END, limit: int
) -> list[BrowsedDocument]:
    """Return visible documents, the last one to arrive first.

    `stream` is the engine's name of a visible stream.  `text` is part of the id or of the text, in
    any capitals; only the newest documents are searched.
    """
    conditions = [_visible(who), "d.doc < ?"]
    parameters: list[object] = [before]
    if stream:
        conditions.append("list_contains(d.streams, ?)")
        parameters.append(stream)
    if text:
        wanted = text.lower()
        body = "lower(try(decode(t.xml)))"
        conditions.append(
            f"d.doc > (SELECT next_doc FROM state.progress) - {SEARCHED} AND (contains(lower(d.id),"
            f" ?) OR contains({body}, ?) OR contains({body}, ?))"
        )
        parameters += [wanted, wanted, escape(wanted)]
    rows = store.fetch(
        "SELECT d.doc, d.id, d.given, d.streams, d.ts, d.arrived, d.history, t.xml"
        " FROM state.document d"
        f" LEFT JOIN state.text t USING (doc) WHERE {' AND '.join(conditions)}"
        " ORDER BY d.doc DESC LIMIT ?",
        [*parameters, limit],
    )
    return [_browsed(row) for row in rows]


def arrivals(store: Store, names: Collection[str]) -> dict[str, int]:
    """Return the times of arrival of documents by their engine names, of the newest ones only."""
    rows = store.fetch(
        "SELECT id, max(arrived) FROM state.document"
        f" WHERE doc > (SELECT next_doc FROM state.progress) - {SEARCHED}"
        " AND list_contains(?::VARCHAR[], id) GROUP BY id",
        [list(names)],
    )
    return dict(rows)


def visible_names(who: Account, streams: Sequence[str]) -> list[str]:
    """Return the user's names of those streams that he sees."""
    return [name for one in streams if (name := who.visible(one)) is not None]


def _visible(who: Account) -> str:
    """Return the SQL condition that a document is on a stream that the user sees."""
    public = own_condition("s", 0)
    mine = public if who.is_operator else f"({public} OR {own_condition('s', who.number)})"
    return f"len([s FOR s IN d.streams IF {mine}]) > 0"


def _browsed(row: Sequence[Any]) -> BrowsedDocument:
    number, name, id, streams, ts, arrived, history, xml = row
    text = None if xml is None else bytes(xml)
    return BrowsedDocument(number, name, id, tuple(streams), ts, arrived, history, text)
