"""Changes of a subscription: what HTTP and the page ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xscl.documents.results import XSCL, Subscription
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.names import refuse_unaddressable
from xscl.service.subscribing import SubscriptionRequest, claim, committed, resolved_query
from xscl.service.tags import checked_tags, set_tags


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """A change of a subscription; None leaves something as it is, `name` is another one."""

    query: str | None = None
    updates: bool | None = None
    stories: bool | None = None
    language: str | None = None
    name: str | None = None
    paused: bool | None = None
    tags: Sequence[str] | None = None


def change(app: App, account: Account, name: str, wanted: SubscriptionChange) -> Subscription:
    """Change a user's subscription, and make its deliveries follow."""
    found = committed(app, account, name)
    how: dict[str, Any] = {
        "updates": wanted.updates,
        "stories": wanted.stories,
        "language": wanted.language,
        "paused": wanted.paused,
    }
    if wanted.name is not None:
        how["rename"] = account.qualify(wanted.name)
        refuse_unaddressable(how["rename"])
    tags = None if wanted.tags is None else checked_tags(wanted.tags)
    text = wanted.query
    is_written = (
        text is not None
        and found.language == XSCL
        and app.accounts.resolver.written(account, found.query) == text
    )
    if text is None or (is_written and wanted.language in (None, XSCL)):
        changed = app.delivery.edit(found.name, **how)
    else:
        app.accounts.usage.refuse_many_matches(account)
        request = SubscriptionRequest(name, text, language=wanted.language or found.language)
        query = resolved_query(app, account, request)
        claim(app, account, query)
        with query.as_written():
            changed = app.delivery.edit(found.name, query.text, **how)
    if tags is not None:
        with app.store() as store:
            set_tags(store, {changed.name: tags})
    return changed
