"""Changes of a subscription: what HTTP and the page ask for."""

from __future__ import annotations

from dataclasses import replace

from xscl.documents.results import XSCL, Subscription
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.subscribing import SubscriptionRequest, claim, committed, resolved_query
from xscl.service.subscription_change import SubscriptionChange


def change(app: App, account: Account, name: str, wanted: SubscriptionChange) -> Subscription:
    """Change a user's subscription, and make its deliveries follow."""
    found = committed(app, account, name)
    rename = None if wanted.name is None else account.qualify(wanted.name)
    text = wanted.query
    is_written = (
        text is not None
        and found.language == XSCL
        and app.resolver.written(account, found.query) == text
    )
    asked = replace(wanted, query=None, name=rename)
    if text is None or (is_written and wanted.language in (None, XSCL)):
        return asked.apply(app.delivery.edit, found.name, app.store)
    app.usage.refuse_many_matches(account)
    request = SubscriptionRequest(name, text, language=wanted.language or found.language)
    query = resolved_query(app, account, request)
    claim(app, account, query)
    with query.as_written():
        return replace(asked, query=query.text).apply(app.delivery.edit, found.name, app.store)
