"""Tags of subscriptions: words of their owner, by which lists are filtered.

They are rows of `state.subscription_tag`, by the engine's names of subscriptions: a renamed one
keeps them, and a removed one loses them (`xscl.subscriptions`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TypeAlias

from xscl.errors import XsclError
from xscl.store.queries.owners import own_condition
from xscl.store.store import Store

MOST = 20
"""Tags of one subscription."""
LONGEST = 50
"""Characters of a tag."""

Reading: TypeAlias = Callable[[], AbstractContextManager[Store]]
"""A function that lends a connection while a block runs."""

_SEPARATORS = re.compile(r"[,\s]+")
TAGGED = "name IN (SELECT subscription FROM state.subscription_tag WHERE tag = ?)"
"""The SQL condition that the subscription of a name has a tag."""


class WrongTag(XsclError):
    """A tag that cannot be written, or too many of them."""

    code = "wrong_tag"


def split_tags(text: str) -> list[str]:
    """Return the tags of a text, which commas or blanks separate."""
    return [tag for tag in _SEPARATORS.split(text) if tag]


def checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags in their order, each once; raises WrongTag."""
    wanted = tuple(dict.fromkeys(tags))
    for tag in wanted:
        if not 1 <= len(tag) <= LONGEST or not tag.isprintable() or _SEPARATORS.search(tag):
            raise WrongTag(
                f"{tag[:LONGEST]!r} cannot be a tag",
                hint=f"a tag has 1 to {LONGEST} characters, without blanks and commas",
            )
    if len(wanted) > MOST:
        raise WrongTag(f"a subscription has {MOST} tags at the most")
    return wanted


def set_tags(store: Store, tagged: Mapping[str, Iterable[str]]) -> None:
    """Replace the tags of subscriptions, by engine name, by checked ones."""
    if not tagged:
        return
    with store.transaction():
        store.fetch(
            "DELETE FROM state.subscription_tag WHERE list_contains(?, subscription)",
            [list(tagged)],
        )
        store.insert_rows(
            "state.subscription_tag",
            ({"subscription": name, "tag": tag} for name, tags in tagged.items() for tag in tags),
        )


def tags_of(store: Store, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Return the tags of subscriptions in their order, by engine name; () without any."""
    found = dict(
        store.fetch(
            "SELECT subscription, list(tag ORDER BY tag) FROM state.subscription_tag"
            " WHERE list_contains(?, subscription) GROUP BY subscription",
            [list(names)],
        )
    )
    return {name: tuple(found.get(name, ())) for name in names}


def tag_counts(store: Store, number: int) -> list[tuple[str, int]]:
    """Return the tags of a user, given by number, with the subscriptions of each."""
    return [
        (str(tag), int(count))
        for tag, count in store.fetch(
            "SELECT tag, count(*) FROM state.subscription_tag"
            f" WHERE {own_condition('subscription', number)} GROUP BY tag ORDER BY tag"
        )
    ]
