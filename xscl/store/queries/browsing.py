"""Documents with their texts, as users look for them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any
from xml.sax.saxutils import escape

from xscl.store.queries.analysis import DAY, analysed, days_ago
from xscl.store.queries.owners import OPERATOR, own_condition
from xscl.store.queries.rows import LISTED, any_of, contains
from xscl.store.store import Store

END = 1 << 62
"""A number above those of all documents."""
_NEWEST = "doc > (SELECT next_doc FROM state.progress) - ?"
_BY_DAY = (
    "WITH one AS (SELECT ts, unnest(streams) AS name FROM state.document WHERE ts > ?)"
    f" SELECT name, {days_ago('ts')} AS days_ago FROM one"
    " WHERE list_contains(?, name) GROUP BY name"
)


def documents_seen(
    store: Store,
    owner: int,
    *,
    stream: str = "",
    text: str = "",
    searched: int,
    before: int,
    limit: int,
    by_date: bool = False,
    earlier: int | None = None,
) -> Iterator[dict[str, Any]]:
    """Return the newest documents before a number that an owner sees, the last one first.

    `by_date` they are the newest `searched` ones by their own times, and those before the number
    and the time `earlier`, if that is given.

    They are those on a stream, by the engine's name, and those of the newest `searched` documents
    with a text in id or text, in any capitals, as far as these are given.  Columns are number, name
    (the engine's), id, streams, ts, arrived, history and xml, None if the text is not kept, and
    the user's name for its feed.
    """
    seen = " OR ".join(own_condition("value", each) for each in {OPERATOR, owner})
    conditions, parameters = [any_of("d.streams", seen)], list[object]()
    if by_date:
        conditions.append(_NEWEST)
        parameters.append(searched)
        if earlier is not None:
            conditions.append("(d.ts, doc) < (?, ?)")
            parameters += [earlier, before]
    else:
        conditions.append("doc < ?")
        parameters.append(before)
    if stream:
        conditions.append(contains("d.streams"))
        parameters.append(stream)
    if text:
        wanted = text.lower()
        conditions.append(
            f"{_NEWEST} AND (instr(in_small_letters(d.id), ?) > 0"
            " OR instr(in_small_letters(t.xml), ?) > 0"
            " OR instr(in_small_letters(t.xml), ?) > 0)"
        )
        parameters += [searched, wanted, wanted, escape(wanted)]
    return store.rows(
        "SELECT doc AS number, d.id AS name, d.given AS id, d.streams, d.ts, d.arrived, d.history,"
        " t.xml, coalesce(f.given_title, '') AS feed_title FROM state.document d"
        " LEFT JOIN state.text t USING (doc) LEFT JOIN state.feed f ON f.key = d.origin"
        f" WHERE {' AND '.join(conditions)}"
        f" ORDER BY {'d.ts DESC, ' if by_date else ''}doc DESC LIMIT ?",
        [*parameters, limit],
    )


def times_of_arrival(store: Store, names: Collection[str], *, searched: int) -> dict[str, int]:
    """Return the times of arrival of documents by name, among the newest `searched` ones."""
    rows = store.rows(
        "SELECT id, max(arrived) AS arrived FROM state.document"
        f" WHERE {_NEWEST} AND id IN {LISTED} GROUP BY id",
        [searched, list(names)],
    )
    return {row["id"]: row["arrived"] for row in rows}


def documents_by_day(
    store: Store, streams: Sequence[str], *, now: int, days: int
) -> dict[str, dict[int, int]]:
    """Return the numbers of documents of streams by days ago, for some days before `now`."""
    begin = now - days * DAY
    rows = analysed(store, _BY_DAY, [begin, now, begin, list(streams)])
    return {row["name"]: row["days_ago"] for row in rows}
