"""All data of a user: exported as lines of JSON, and erased.

An export has the rows of the user in all tables that declare what users see of them
(`xscl.store.queries.owned_rows`), the documents that are kept, and matches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from xscl.delivery.message import row_of
from xscl.documents.document_ids import number_in
from xscl.engine.facade import Engine
from xscl.errors import XsclError
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.store.queries.owned_rows import OWNED, documents_of, rows_of_user
from xscl.time_format import written

_TIMES = ("created", "added", "starred", "saved", "read")
_JSON = ("quota", "config", "view")
"""The columns with times in ticks, and the columns with JSON."""

_PATIENCE = 30.0
"""Seconds for which an erasure waits until the documents in the spool are consumed."""


class ErasureWaits(XsclError):
    """Documents of the user may be on their way from the spool to the store."""

    code = "busy"


def _names(app: App, account: Account) -> list[str]:
    """Return the engine's names of a user's subscriptions, and of removed ones with matches."""
    subscriptions = app.engine.state.subscriptions
    known = [*(subscription.name for subscription in subscriptions), *subscriptions.removed()]
    return [name for name in known if account.owns(name)]


# -- Export --------------------------------------------------------------------------------


def export(app: App, account: Account) -> Iterator[dict[str, Any]]:
    """Yield the data of a user as JSON values, each with its `kind`: the name of its table."""
    with closing(app.engine.connect()) as store:  # a slow client holds it for long
        for table in OWNED:
            for row in rows_of_user(store, table, account.number):
                shown = {name: _shown(account, name, value) for name, value in row.items()}
                yield {"kind": table, **shown}
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
    for name in _names(app, account):
        for match in app.engine.matches(name):
            yield {"kind": "match", **row_of(match, account.named)}


def _shown(account: Account, column: str, value: Any) -> Any:
    """Return a column's value with the user's names; times become texts, and JSON is parsed."""
    if column in _TIMES:
        return written(value)
    if column in _JSON:
        return json.loads(account.shown(value))
    if isinstance(value, list):
        return [account.shown(one) for one in value]
    return account.shown(value) if isinstance(value, str) else value


# -- Erasure -------------------------------------------------------------------------------


def erase(app: App, account: Account, *, is_consumed: bool = False) -> None:
    """Delete all data of a user.

    Tokens are deleted first, so that no request of the user comes between.  `is_consumed` says that
    a consumer runs: then documents are deleted after it has consumed all segments, as it may have
    read them already.  Raises ErasureWaits if that takes too long; repeat the erasure then.
    """
    app.accounts.tokens.revoke_all(account)
    while names := _names(app, account):
        app.delivery.unsubscribe(names[0], cascade=True, purge=True)
    with app.feeds() as feeds:
        for feed in feeds.owned(account.qualify("")):
            feeds.remove(feed)
    with app.engine.transactions.between_batches():
        app.store.spool.erase(account.qualify(""))
    if is_consumed:
        _await(app.engine, app.store.spool.latest())
    app.engine.catalog.erase(account.qualify(""))
    with closing(app.engine.connect()) as store:
        store.plan_rewrite()
        app.accounts.users.erase(account)
        app.accounts.tokens.revoke_all(account)  # made meanwhile; ends their live connections
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
