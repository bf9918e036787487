"""Tags of subscriptions: words of their owner, by which lists are filtered.

They are stored by the engine's names of subscriptions (`xscl.store.queries.subscriptions`): a
renamed one keeps them, and a removed one loses them (`xscl.subscriptions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from xscl.errors import XsclError
from xscl.store.queries.subscriptions import replace_tags
from xscl.store.store import Store

MOST = 20
"""Maximum number of tags of one subscription."""
LONGEST = 50
"""Maximum number of characters of a tag."""

_SEPARATORS = re.compile(r"[,\s]+")


class WrongTag(XsclError):
    """A tag that is not allowed, or too many tags."""

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
    """Replace the tags of subscriptions; `tagged` maps engine names to checked tags."""
    if not tagged:
        return
    with store.transaction():
        replace_tags(store, tagged)
