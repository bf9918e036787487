"""Changes of a subscription: what commands, HTTP and the page ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from xscl.documents.results import XSCL, Subscription
from xscl.service.accounts import Account
from xscl.service.installation import Installation
from xscl.service.names import refuse_unaddressable
from xscl.service.subscribing import SubscriptionRequest, claim, existing, resolved_query


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


def change(here: Installation, who: Account, name: str, wanted: SubscriptionChange) -> Subscription:
    """Change a user's subscription, and make its deliveries follow."""
    found = existing(here, who, name)
    rename = None if wanted.name is None else who.qualify(wanted.name)
    text, paused = wanted.query, wanted.paused
    is_written = (
        text is not None
        and found.language == XSCL
        and here.resolver.written(who, found.query) == text
    )
    asked = SubscriptionChange(None, wanted.updates, wanted.language, rename, paused)
    if text is None or (is_written and wanted.language in (None, XSCL)):
        return asked.apply(here.outbox.edit, found.name)
    here.usage.refuse_many_matches(who)
    request = SubscriptionRequest(name, text, language=wanted.language or found.language)
    query = resolved_query(here, who, request)
    claim(here, who, query)
    asked = SubscriptionChange(query.text, wanted.updates, wanted.language, rename, paused)
    with query.as_written():
        return asked.apply(here.outbox.edit, found.name)


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
