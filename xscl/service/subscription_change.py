"""A change of a subscription, as commands and HTTP ask for it; it needs no extra."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from xscl.documents.results import Subscription
from xscl.service.names import refuse_unaddressable


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """A change of a subscription; None leaves something as it is, `name` is another one."""

    query: str | None = None
    updates: bool | None = None
    language: str | None = None
    name: str | None = None
    paused: bool | None = None

    def apply(self, edit: Callable[..., Subscription], name: str) -> Subscription:
        """Return the subscription that is changed by `Engine.edit`, or a function like it."""
        if self.name is not None:
            refuse_unaddressable(self.name)
        wanted = asdict(self)
        return edit(name, wanted.pop("query"), rename=wanted.pop("name"), **wanted)


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
