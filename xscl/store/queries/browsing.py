"""Documents with their texts, as users look for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.sax.saxutils import escape

from xscl.store.queries.analysis import DAY, analysed, days_ago
from xscl.store.queries.owners import OPERATOR, own_condition
from xscl.store.queries.rows import LISTED, any_of, contains
from xscl.store.store import Store

SEARCHED = 50_000
"""Number of the newest documents that a search, or a list by dates, reads."""
_NEWEST = "doc > (SELECT next_doc FROM state.progress) - ?"
_BY_DAY = (
    "WITH one AS (SELECT ts, unnest(streams) AS name FROM state.document WHERE ts > ?)"
    f" SELECT name, {days_ago('ts')} AS days_ago FROM one"
    " WHERE list_contains(?, name) GROUP BY name"
)


@dataclass(frozen=True, slots=True)
class BrowsedDocument:
    """A document by its number in the order of arrival; `xml` is None if its text is not kept.

    `name` and `streams` are the engine's names, `feed_title` is the user's name for its feed.
    """

    number: int
    name: str
    id: str
    streams: tuple[str, ...]
    ts: int
    arrived: int
    history: bool
    xml: bytes | None
    feed_title: str


class DocumentPlace(NamedTuple):
    """The place of a document in a list: its number, and its time in ticks in a list by dates."""

    number: int
    ts: int | None = None

    def __str__(self) -> str:
        return str(self.number) if self.ts is None else f"{self.number}.{self.ts}"


def documents_seen(
    store: Store,
    owner: int,
    *,
    stream: str = "",
    text: str = "",
    before: DocumentPlace | None = None,
    limit: int,
    by_date: bool = False,
) -> list[BrowsedDocument]:
    """Return documents that an owner sees, the last one to arrive first, or `by_date` the newest.

    Conditions that are given select those before a place, on a stream (by the engine's name), and
    with `text` in the id or the XML, in capitals or not.  With `text` or `by_date` only the newest
    `SEARCHED` documents are read.
    """
    seen = " OR ".join(own_condition("value", each) for each in {OPERATOR, owner})
    conditions, parameters = [any_of("d.streams", seen)], list[object]()
    if by_date or text:
        conditions.append(_NEWEST)
        parameters.append(SEARCHED)
    if before is not None and by_date:
        conditions.append("(d.ts, doc) < (?, ?)")
        parameters += [before.ts, before.number]
    elif before is not None:
        conditions.append("doc < ?")
        parameters.append(before.number)
    if stream:
        conditions.append(contains("d.streams"))
        parameters.append(stream)
    if text:
        wanted = text.lower()
        conditions.append(
            "(instr(in_small_letters(d.id), ?) > 0 OR instr(in_small_letters(t.xml), ?) > 0"
            " OR instr(in_small_letters(t.xml), ?) > 0)"
        )
        parameters += [wanted, wanted, escape(wanted)]
    order = f"ORDER BY {'d.ts DESC, ' if by_date else ''}doc DESC"
    # Texts are read of the documents that are returned, not of all that are sorted.
    rows = store.rows(
        "WITH found AS (SELECT doc FROM state.document d LEFT JOIN state.text t USING (doc)"
        f" WHERE {' AND '.join(conditions)} {order} LIMIT ?)"
        " SELECT doc AS number, d.id AS name, d.given AS id, d.streams, d.ts, d.arrived, d.history,"
        " t.xml, coalesce(f.given_title, '') AS feed_title"
        " FROM found JOIN state.document d USING (doc)"
        f" LEFT JOIN state.text t USING (doc) LEFT JOIN state.feed f ON f.key = d.origin {order}",
        [*parameters, limit],
    )
    return [BrowsedDocument(**row | {"streams": tuple(row["streams"])}) for row in rows]


def times_of_arrival(store: Store, names: Collection[str]) -> dict[str, int]:
    """Return the times of arrival of documents by name, among the newest `SEARCHED`."""
    rows = store.rows(
        "SELECT id, max(arrived) AS arrived FROM state.document"
        f" WHERE {_NEWEST} AND id IN {LISTED} GROUP BY id",
        [SEARCHED, list(names)],
    )
    return {row["id"]: row["arrived"] for row in rows}


def documents_by_day(
    store: Store, streams: Sequence[str], *, now: int, days: int
) -> dict[str, dict[int, int]]:
    """Return by stream a mapping of days ago to documents, for some days before `now`."""
    begin = now - days * DAY
    rows = analysed(store, _BY_DAY, [begin, now, begin, list(streams)])
    return {row["name"]: row["days_ago"] for row in rows}
