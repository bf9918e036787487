"""Changes of a subscription: what HTTP and the page ask for."""

from __future__ import annotations

from dataclasses import replace

from xscl.documents.results import XSCL, Subscription
from xscl.service.accounts import Account
from xscl.service.installation import Installation
from xscl.service.subscribing import SubscriptionRequest, claim, committed, resolved_query
from xscl.service.subscription_change import SubscriptionChange


def change(here: Installation, who: Account, name: str, wanted: SubscriptionChange) -> Subscription:
    """Change a user's subscription, and make its deliveries follow."""
    found = committed(here, who, name)
    rename = None if wanted.name is None else who.qualify(wanted.name)
    text = wanted.query
    is_written = (
        text is not None
        and found.language == XSCL
        and here.resolver.written(who, found.query) == text
    )
    asked = replace(wanted, query=None, name=rename)
    if text is None or (is_written and wanted.language in (None, XSCL)):
        return asked.apply(here.outbox.edit, found.name, here.reading)
    here.usage.refuse_many_matches(who)
    request = SubscriptionRequest(name, text, language=wanted.language or found.language)
    query = resolved_query(here, who, request)
    claim(here, who, query)
    with query.as_written():
        return replace(asked, query=query.text).apply(here.outbox.edit, found.name, here.reading)
