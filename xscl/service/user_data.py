"""All data of a user: exported as lines of JSON, and erased.

An export has what the user sees, in the forms of the API: account, tokens without secrets, streams,
subscriptions with their versions and endpoints, feeds, documents that are kept, starred matches,
and matches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any, TypeAlias

from feeds.spool import Spool
from xscl.delivery.message import row_of
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.delivery.syndication.secret_addresses import SecretAddresses
from xscl.documents.document_ids import number_in
from xscl.documents.results import Subscription
from xscl.engine.facade import Engine
from xscl.errors import XsclError
from xscl.polling.feed_repository import FeedRepository
from xscl.service.accounts import Account, Accounts
from xscl.service.saved_statements import saved_statements
from xscl.service.stars import MOST
from xscl.service.tokens import Tokens
from xscl.store.queries.stars import stars
from xscl.store.queries.tags import tags_of
from xscl.store.queries.user_rows import documents_of
from xscl.store.store import Store
from xscl.time_format import written

Row: TypeAlias = dict[str, Any]

_PATIENCE = 30.0
"""Seconds for which an erasure waits for what was taken before."""


class ErasureWaits(XsclError):
    """Documents of the user may be on their way from the spool to the store."""

    code = "busy"


class UserData:
    """The data of one user, in the repositories of a service or of a data directory."""

    def __init__(
        self,
        engine: Engine,
        accounts: Accounts,
        tokens: Tokens,
        feeds: FeedRepository,
        account: Account,
    ) -> None:
        self._engine = engine
        self._accounts = accounts
        self._tokens = tokens
        self._feeds = feeds
        self._account = account

    def names(self) -> list[str]:
        """Return the engine's names of the subscriptions, those removed with matches included."""
        subscriptions = self._engine.state.subscriptions
        known = [*(one.name for one in subscriptions), *subscriptions.removed()]
        return [name for name in known if self._account.own(name) is not None]

    # -- Export ----------------------------------------------------------------------------

    def export(self, endpoints: Endpoints, addresses: SecretAddresses) -> Iterator[Row]:
        """Yield the data as JSON values, each with its `kind`."""
        account = self._account
        yield {"kind": "user", "name": account.name, "quota": asdict(account.quota)}
        for token in self._tokens.of(account):
            told = {"id": token.id, "label": token.label, "created": written(token.created)}
            yield {"kind": "token", **told}
        for stream in sorted(self._accounts.streams(account)):
            yield {"kind": "stream", "name": stream}
        for feed in self._feeds.owned(account.qualify("")):
            tags = [account.visible(tag) or tag for tag in feed.tags]
            yield {
                **{"kind": "feed", "url": feed.shown_url, "title": feed.title},
                **{"stream": account.visible(feed.stream), "tags": tags},
            }
        with closing(self._engine.connect()) as store:
            tagged = tags_of(store, self.names())
        for name in self.names():
            for version in self._engine.state.subscriptions.versions(name):
                yield {"kind": "subscription", **self._version(version), "tags": tagged[name]}
            for endpoint in endpoints.of(name):
                yield {
                    **{"kind": "endpoint", "id": endpoint.id, "subscription": account.named(name)},
                    **{"channel": endpoint.channel.kind, "to": asdict(endpoint.channel)},
                }
        for name in [*self.names(), account.qualify("")]:  # the last has those of all matches
            for address in addresses.of(name):
                told = {
                    "id": address.id,
                    "subscription": account.own(name) or "",
                    "label": address.label,
                }
                yield {"kind": "secret_address", **told}
        with closing(self._engine.connect()) as store:
            yield from self._documents(store)
            yield from self._stars(store)
            for one in saved_statements(store, account):
                yield {"kind": "statement", **one.model_dump(mode="json")}
        for name in self.names():
            for match in self._engine.matches(name):
                yield {"kind": "match", **row_of(match, account.named)}

    def _version(self, one: Subscription) -> Row:
        return {
            "name": self._account.named(one.name),
            "version": one.version,
            "query": self._account.shown(one.query),
            "language": one.language,
            "current": self._engine.subscription(one.name) is one,
        }

    def _documents(self, store: Store) -> Iterator[Row]:
        """Yield the kept documents of the user's streams."""
        for row in documents_of(store, self._account.number):
            yield {
                "kind": "document",
                "document": self._account.named(row["name"]),
                "id": row["id"],
                "version": number_in(row["name"]),
                "streams": [self._account.visible(one) or one for one in row["streams"]],
                "timestamp": written(row["ts"]),
                "xml": row["xml"].decode("utf-8", "replace"),
            }

    def _stars(self, store: Store) -> Iterator[Row]:
        """Yield the starred matches, as they were shown."""
        for row in reversed(list(stars(store, self._account.number, limit=MOST))):
            subscription = self._account.named(row["subscription"])
            yield {
                **{"kind": "star", "match": row["match"], "subscription": subscription},
                **{"starred": written(row["starred"]), "shown": json.loads(row["view"])},
            }

    # -- Erasure ---------------------------------------------------------------------------

    def erase(
        self, unsubscribe: Callable[..., object], spool: Spool, *, is_consumed: bool = False
    ) -> None:
        """Delete everything; `unsubscribe` is that of the engine or of its deliveries.

        Tokens go first, so that no request of the user comes between.  With `is_consumed` somebody
        consumes the spool meanwhile, and has taken what it may have read before the documents are
        deleted.  Raises ErasureWaits if that takes too long; the erasure is to be repeated then.
        """
        account = self._account
        self._tokens.revoke_all(account)
        while names := self.names():
            unsubscribe(names[0], cascade=True, purge=True)
        for feed in self._feeds.owned(account.qualify("")):
            self._feeds.remove(feed)
        with self._engine.transactions.between_batches():
            spool.erase(account.qualify(""))
        if is_consumed:
            self._await(spool.latest())
        self._engine.catalog.erase(account.qualify(""))
        with closing(self._engine.connect()) as store:
            store.plan_rewrite()
            self._accounts.erase(account)
            store.rewrite()

    def _await(self, segment: int) -> None:
        """Wait until a segment is consumed."""
        until = time.monotonic() + _PATIENCE
        while self._engine.ingest.segment < segment:
            if time.monotonic() > until:
                raise ErasureWaits(
                    f"documents that were taken before are not consumed after {_PATIENCE:g} s",
                    hint="erase the user again when the service consumes documents",
                )
            time.sleep(0.02)
