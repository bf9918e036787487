"""All data of a user: exported as lines of JSON, and erased.

An export has what the user sees, in the forms of the API: account, tokens without secrets, streams,
subscriptions with their versions and endpoints, feeds, documents that are kept, starred matches,
and matches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any, TypeAlias

from xscl.delivery.message import row_of
from xscl.documents.document_ids import number_in
from xscl.engine.facade import Engine
from xscl.errors import XsclError
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.saved_statements import saved_statements
from xscl.service.stars import MOST
from xscl.store.queries.subscriptions import tags_of
from xscl.store.queries.user_rows import documents_of, stars
from xscl.time_format import written

Row: TypeAlias = dict[str, Any]

_PATIENCE = 30.0
"""Seconds for which an erasure waits for what was taken before."""


class ErasureWaits(XsclError):
    """Documents of the user may be on their way from the spool to the store."""

    code = "busy"


def _names(app: App, account: Account) -> list[str]:
    """Return the engine's names of the subscriptions, those removed with matches included."""
    subscriptions = app.engine.state.subscriptions
    known = [*(one.name for one in subscriptions), *subscriptions.removed()]
    return [name for name in known if account.own(name) is not None]


# -- Export --------------------------------------------------------------------------------


def export(app: App, account: Account) -> Iterator[Row]:
    """Yield the data of a user as JSON values, each with its `kind`."""
    yield {"kind": "user", "name": account.name, "quota": asdict(account.quota)}
    for token in app.tokens.of(account):
        shown = {"id": token.id, "label": token.label, "created": written(token.created)}
        yield {"kind": "token", **shown}
    for stream in sorted(app.accounts.streams(account)):
        yield {"kind": "stream", "name": stream}
    with app.feeds() as feeds:
        followed = feeds.owned(account.qualify(""))
    for feed in followed:
        yield {
            "kind": "feed",
            "url": feed.shown_url,
            "title": feed.title,
            "stream": account.visible(feed.stream),
            "tags": [account.visible(tag) or tag for tag in feed.tags],
        }
    names = _names(app, account)
    with app.store() as store:
        tagged = tags_of(store, names)
    for name in names:
        for version in app.engine.state.subscriptions.versions(name):
            yield {
                "kind": "subscription",
                "name": account.named(version.name),
                "version": version.version,
                "query": account.shown(version.query),
                "language": version.language,
                "current": app.engine.subscription(version.name) is version,
                "tags": tagged[name],
            }
        for endpoint in app.delivery.endpoints.of(name):
            yield {
                "kind": "endpoint",
                "id": endpoint.id,
                "subscription": account.named(name),
                "channel": endpoint.channel.kind,
                "to": asdict(endpoint.channel),
            }
    for name in [*names, account.qualify("")]:  # the last has those of all matches
        for address in app.delivery.addresses.of(name):
            yield {
                "kind": "secret_address",
                "id": address.id,
                "subscription": account.own(name) or "",
                "label": address.label,
            }
    with closing(app.engine.connect()) as store:  # for long: the client may be slow
        for row in documents_of(store, account.number):
            yield {
                "kind": "document",
                "document": account.named(row["name"]),
                "id": row["id"],
                "version": number_in(row["name"]),
                "streams": [account.visible(one) or one for one in row["streams"]],
                "timestamp": written(row["ts"]),
                "xml": row["xml"].decode("utf-8", "replace"),
            }
        for row in reversed(list(stars(store, account.number, limit=MOST))):
            yield {
                "kind": "star",
                "match": row["match"],
                "subscription": account.named(row["subscription"]),
                "starred": written(row["starred"]),
                "shown": json.loads(row["view"]),
            }
        for one in saved_statements(store, account):
            yield {"kind": "statement", **one.model_dump(mode="json")}
    for name in names:
        for match in app.engine.matches(name):
            yield {"kind": "match", **row_of(match, account.named)}


# -- Erasure -------------------------------------------------------------------------------


def erase(app: App, account: Account, *, is_consumed: bool = False) -> None:
    """Delete all data of a user.

    Tokens go first, so that no request of the user comes between.  With `is_consumed` somebody
    consumes the spool meanwhile, and has taken what it may have read before the documents are
    deleted.  Raises ErasureWaits if that takes too long; the erasure is to be repeated then.
    """
    app.tokens.revoke_all(account)
    while names := _names(app, account):
        app.delivery.unsubscribe(names[0], cascade=True, purge=True)
    with app.feeds() as feeds:
        for feed in feeds.owned(account.qualify("")):
            feeds.remove(feed)
    with app.engine.transactions.between_batches():
        app.spool.erase(account.qualify(""))
    if is_consumed:
        _await(app.engine, app.spool.latest())
    app.engine.catalog.erase(account.qualify(""))
    with closing(app.engine.connect()) as store:
        store.plan_rewrite()
        app.accounts.erase(account)
        store.rewrite()


def _await(engine: Engine, segment: int) -> None:
    """Wait until a segment is consumed."""
    until = time.monotonic() + _PATIENCE
    while engine.ingest.segment < segment:
        if time.monotonic() > until:
            raise ErasureWaits(
                f"documents that were taken before are not consumed after {_PATIENCE:g} s",
                hint="erase the user again when the service consumes documents",
            )
        time.sleep(0.02)
