"""Subscriptions, and the retired versions of which matches are kept.

The two tables have equal columns; `outputs`, `places`, `reads`, `columns` and `live` are lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, TypedDict, Unpack

from xscl.store.queries.owners import own_condition
from xscl.store.queries.rows import contains, delete_rows, found_number, rows_of, update_rows
from xscl.store.queries.tables import TABLES, named
from xscl.store.store import Store

_NAMED = ("endpoint", "secret_address", "star", "subscription_tag")
"""The tables with names of subscriptions."""


_TAGGED = "name IN (SELECT subscription FROM state.subscription_tag WHERE tag = ?)"
"""The SQL condition that the subscription of a name has a tag."""
_FILTERS = {
    "after": "name > ?",
    "prefix": "instr(name, ?) = 1",
    "part": "instr(lower(name), lower(?)) > 0",
    "template": "template = ?",
    "language": "language = ?",
    "reads": contains("reads"),
    "tag": _TAGGED,
}
"""The SQL conditions of `NameFilters`."""
_ALL = 1 << 62


# -- Rows ----------------------------------------------------------------------------------


def all_subscriptions(store: Store, *, retired: bool = False) -> dict[str, Sequence[Any]]:
    """Return the columns of subscriptions by number, or of retired ones by version and end."""
    table, order = ("retired", "version, until") if retired else ("subscription", "number")
    names = named(TABLES[table].names)
    return store.columns(f"SELECT {names} FROM state.{table} ORDER BY {order}")


# -- Names ---------------------------------------------------------------------------------


def rename_retired(store: Store, name: str, new: str) -> None:
    """Rename the retired versions of a name, and what refers to that name."""
    update_rows(store, "retired", {"name": new}, name=name)
    for table in _NAMED:
        update_rows(store, table, {"subscription": new}, subscription=name)


def delete_endpoints_and_tags(store: Store, name: str) -> None:
    """Delete what refers to a subscription by its name, except the stars of its matches.

    So the next subscription of the name does not inherit it.
    """
    store.fetch(
        "DELETE FROM state.dead_letter WHERE endpoint IN"
        " (SELECT id FROM state.endpoint WHERE subscription = ?)",
        [name],
    )
    for table in _NAMED:
        if table != "star":
            delete_rows(store, table, subscription=name)


# -- Of an owner ---------------------------------------------------------------------------


class NameFilters(TypedDict, total=False):
    """A filter of subscriptions by name: those after a name, with a prefix, or with a part.

    The part is in capitals or not.  The others select subscriptions of a template, in a language,
    with a tag, or that read a stream.
    """

    after: str
    prefix: str
    part: str
    template: int
    language: str
    reads: str
    tag: str


def names_of(
    store: Store, owner: int, *, limit: int = _ALL, **wanted: Unpack[NameFilters]
) -> list[str]:
    """Return the first names of an owner's subscriptions that pass all filters, in order."""
    given = {name: value for name, value in wanted.items() if value}
    conditions = [own_condition("name", owner), *map(_FILTERS.__getitem__, given)]
    rows = store.rows(
        f"SELECT name FROM state.subscription WHERE {' AND '.join(conditions)}"
        " ORDER BY name LIMIT ?",
        [*given.values(), limit],
    )
    return [row["name"] for row in rows]


def count_of(store: Store, owner: int) -> int:
    """Return the number of an owner's subscriptions."""
    own = own_condition("name", owner)
    return found_number(store, f"SELECT count(*) FROM state.subscription WHERE {own}") or 0


def streams_read(store: Store, owner: int) -> list[str]:
    """Return the streams that an owner's subscriptions read, each once."""
    rows = store.rows(
        f"SELECT DISTINCT reads FROM state.subscription WHERE {own_condition('name', owner)}"
    )
    return list(dict.fromkeys(chain.from_iterable(row["reads"] for row in rows)))


def count_sharing(store: Store, qid: int, template: int) -> tuple[int, int]:
    """Return the number of subscriptions with a `qid`, and of those with a template."""
    ((equal, alike),) = store.fetch(
        "SELECT count(*) FILTER (WHERE qid = ?), count(*) FILTER (WHERE template = ?)"
        " FROM state.subscription",
        [qid, template],
    )
    return equal, alike


# -- Tags --------------------------------------------------------------------------------


def replace_tags(store: Store, tagged: Mapping[str, Iterable[str]]) -> None:
    """Replace the tags of subscriptions, in a transaction of the caller."""
    delete_rows(store, "subscription_tag", subscription=tagged)
    store.insert_rows(
        "state.subscription_tag",
        ({"subscription": name, "tag": tag} for name, tags in tagged.items() for tag in tags),
    )


def tags_of(store: Store, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of subscriptions in their order, by engine name; () without any."""
    rows = rows_of(store, "subscription_tag", order="tag", subscription=names)
    found: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    for row in rows:
        found[row["subscription"]] += (row["tag"],)
    return found


def tag_counts(store: Store, number: int) -> list[tuple[str, int]]:
    """Return (tag, number of subscriptions) for the tags of a user, given by number, in order."""
    rows = store.rows(
        "SELECT tag, count(*) AS subscriptions FROM state.subscription_tag"
        f" WHERE {own_condition('subscription', number)} GROUP BY tag ORDER BY tag"
    )
    return [(row["tag"], row["subscriptions"]) for row in rows]
