"""A change of a subscription, as commands and HTTP ask for it; it needs no extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xscl.documents.results import Subscription
from xscl.service.names import refuse_unaddressable
from xscl.service.tags import Reading, checked_tags, set_tags


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """A change of a subscription; None leaves something as it is, `name` is another one."""

    query: str | None = None
    updates: bool | None = None
    language: str | None = None
    name: str | None = None
    paused: bool | None = None
    tags: Sequence[str] | None = None

    def apply(self, edit: Callable[..., Subscription], name: str, reading: Reading) -> Subscription:
        """Return the subscription that is changed by `Engine.edit`, or a function like it.

        Its tags are written to a store that `reading` lends.
        """
        if self.name is not None:
            refuse_unaddressable(self.name)
        wanted = asdict(self)
        tags = wanted.pop("tags")
        checked = None if tags is None else checked_tags(tags)
        changed = edit(name, wanted.pop("query"), rename=wanted.pop("name"), **wanted)
        if checked is not None:
            with reading() as store:
                set_tags(store, {changed.name: checked})
        return changed


def version_row(one: Subscription, query: str) -> dict[str, Any]:
    """Return a version of a subscription as a JSON value; `query` is its text for the reader."""
    return {
        "name": one.name,
        "version": one.version,
        "query": query,
        "language": one.language,
        "after": one.after,
        "until": one.until,
    }
