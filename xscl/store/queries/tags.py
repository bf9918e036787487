"""Tags of subscriptions, by the engine's names of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from xscl.store.queries.owners import own_condition
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

TAGGED = "name IN (SELECT subscription FROM state.subscription_tag WHERE tag = ?)"
"""The SQL condition that the subscription of a name has a tag."""


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
    """Return the tags of a user, given by number, with the subscriptions of each."""
    rows = store.rows(
        "SELECT tag, count(*) AS subscriptions FROM state.subscription_tag"
        f" WHERE {own_condition('subscription', number)} GROUP BY tag ORDER BY tag"
    )
    return [(row["tag"], row["subscriptions"]) for row in rows]
