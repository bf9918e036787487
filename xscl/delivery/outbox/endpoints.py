"""Repository of endpoints and their dead letters, backed by two tables of the store.

The state in memory is authoritative.  `save` writes all changes since the last save in one
transaction, several times a second.  Secrets are in the secrets file, never in the tables, so that
neither SQL nor backups nor listings contain them.
"""

from __future__ import annotations

import secrets as randomness
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields, replace

from feeds.formats.times import SECOND
from xscl.delivery.channels.mail import GOOD, TRIES, new_code
from xscl.delivery.channels.signature import new_secret
from xscl.delivery.endpoint import (
    NO_ADDRESS,
    NO_SECRET,
    DeliveryChannel,
    Endpoint,
    EndpointSecrets,
    EndpointState,
    Mail,
    Webhook,
    read,
    written,
)
from xscl.errors import XsclError
from xscl.polling.credentials import Credentials
from xscl.polling.feed import HIDDEN
from xscl.polling.feed_repository import ticks
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

OVERLAP = 86_400 * SECOND
"""Ticks for which a rotated secret still signs."""
NO_CODE = "the code that was mailed is not known on this machine: have another one mailed"
MOST = 100
"""Maximum number of endpoints of one subscription."""


class UnknownEndpoint(XsclError):
    """No endpoint has that id."""

    code = "unknown_endpoint"


class TooManyEndpoints(XsclError):
    """A subscription has the maximum number of endpoints."""

    code = "too_many_endpoints"


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on which an endpoint was disabled.

    `next_try` is None for a dead letter, and 0 if it is to be sent again.
    """

    endpoint: str
    message: str
    position: int
    last: int
    died: int
    attempts: int
    reason: str
    next_try: int | None = None


class Endpoints:
    """All endpoints by id, from any thread."""

    def __init__(self, store: Store, secrets: Credentials) -> None:
        self._store = store
        self._secrets = secrets
        self._mutex = threading.RLock()
        self._writing = threading.RLock()
        self._by_id: dict[str, Endpoint] = {}
        self._letters: dict[str, dict[str, Letter]] = {}
        self._changed: set[str] = set()
        self._failed: list[str] = []  # endpoints whose rows the next save deletes
        self.wake: Callable[[str], object] = len
        """Called, in any thread, with the id of an endpoint that was added, changed or removed."""
        self._load()

    def _load(self) -> None:
        for row in rows_of(self._store, "endpoint", order="created, id"):
            channel = read(row.pop("kind"), row.pop("config"))
            endpoint = Endpoint(channel=channel, **row)
            self._by_id[endpoint.id] = found = self._after_restore(endpoint)
            if found != endpoint:
                self._changed.add(found.id)
        for row in rows_of(self._store, "dead_letter", order="position"):
            letter = Letter(**row)
            self._letters.setdefault(letter.endpoint, {})[letter.message] = letter

    def close(self) -> None:
        """Save changes and close the connection."""
        self.save()
        self._store.close()

    # -- Queries ---------------------------------------------------------------------------

    def all(self) -> list[Endpoint]:
        """Return all endpoints."""
        with self._mutex:
            return list(self._by_id.values())

    def of(self, *subscriptions: str) -> list[Endpoint]:
        """Return the endpoints of subscriptions in order of creation."""
        return [one for one in self.all() if one.subscription in subscriptions]

    def count(self, wanted: Callable[[str], bool]) -> int:
        """Count the endpoints of all subscriptions whose name satisfies a predicate."""
        return sum(wanted(one.subscription) for one in self.all())

    def get(self, id: str) -> Endpoint | None:
        """Return an endpoint by id, or None."""
        with self._mutex:
            return self._by_id.get(id)

    def __getitem__(self, id: str) -> Endpoint:
        found = self.get(id)
        if found is None:
            raise UnknownEndpoint(f"there is no endpoint {id!r}", hint="it may have been deleted")
        return found

    def letters(self, id: str) -> list[Letter]:
        """Return the letters of an endpoint in order of position."""
        with self._mutex:
            return sorted(self._letters.get(id, {}).values(), key=lambda one: one.position)

    def hidden(self, id: str, now: int) -> EndpointSecrets:
        """Return the secrets of an endpoint that are valid at a time in ticks."""
        kept = self._secrets.of(secrets_key(id))
        found = [kept["secret"]] if "secret" in kept else []
        if "old" in kept and now < kept["until"]:
            found.append(kept["old"])
        endpoint = self._by_id.get(id)
        plain = endpoint.channel.url if endpoint and isinstance(endpoint.channel, Webhook) else ""
        return EndpointSecrets(kept.get("url") or ("" if HIDDEN in plain else plain), tuple(found))

    def lacking(self, endpoint: Endpoint) -> str:
        """Return a note of the secrets that a webhook lacks, empty if it lacks none."""
        if not isinstance(endpoint.channel, Webhook):
            return ""
        kept = self._secrets.of(secrets_key(endpoint.id))
        lost = [NO_SECRET] if endpoint.channel.is_signed and "secret" not in kept else []
        if HIDDEN in endpoint.channel.url and not kept.get("url"):
            lost.append(NO_ADDRESS)
        return "; ".join(lost)

    def _after_restore(self, endpoint: Endpoint) -> Endpoint:
        """Return a stored endpoint, incomplete if this machine lacks its secrets."""
        if endpoint.state == "unconfirmed" and not self._secrets.of(secrets_key(endpoint.id)):
            return replace(endpoint, note=NO_CODE)
        return endpoint.completed(self.lacking(endpoint))

    # -- Changes ---------------------------------------------------------------------------

    def add(
        self,
        subscription: str,
        channel: DeliveryChannel,
        position: int,
        *,
        secret: str | None = None,
        state: EndpointState = "active",
    ) -> tuple[Endpoint, str | None]:
        """Create an endpoint whose cursor starts at a position; durable on return.

        Returns the secret of a webhook with it, which is shown only once.
        """
        with self._writing:
            with self._mutex:
                if len(self.of(subscription)) >= MOST:
                    raise TooManyEndpoints(
                        f"a subscription has at most {MOST} endpoints", hint="delete one first"
                    )
                id = f"ep_{randomness.token_hex(12)}"
                is_signed = isinstance(channel, Webhook) and channel.is_signed
                secret = (secret or new_secret()) if is_signed else None
                if isinstance(channel, Webhook):
                    kept = {"url": channel.url, **({"secret": secret} if secret else {})}
                    self._secrets.change({secrets_key(id): kept})
                    channel = channel.redacted()
                endpoint = Endpoint(id, subscription, channel, ticks(), position, state)
                self._by_id[id] = endpoint
                self._changed.add(id)
            try:
                self.save()
            except BaseException:
                self._forget([id])  # else a later save would write the endpoint
                self._failed.append(id)  # its rows may be there: a commit may take effect and raise
                raise
        self.wake(id)
        return endpoint, secret

    def update(self, id: str, change: Callable[[Endpoint], Endpoint]) -> Endpoint | None:
        """Apply a change to an endpoint and return the result; `save` makes it durable."""
        with self._mutex:
            endpoint = self._by_id.get(id)
            if endpoint is None:
                return None
            changed = change(endpoint)
            changed = changed.completed(self.lacking(changed))
            if changed != endpoint:
                self._by_id[id] = changed
                self._changed.add(id)
            return changed

    def change(
        self, id: str, change: Callable[[Endpoint], Endpoint], *, url: str | None = None
    ) -> Endpoint | None:
        """Apply a change as `update` does, durably; `url` is the new address of a webhook."""
        with self._mutex:
            if url is not None and id in self._by_id:
                kept = self._secrets.of(secrets_key(id))
                self._secrets.change({secrets_key(id): {**kept, "url": url}})
            changed = self.update(id, change)
        self.save()
        self.wake(id)
        return changed

    def rotate(self, id: str) -> str:
        """Replace the secret of an endpoint and return it; the earlier one also signs for a day."""
        with self._mutex:
            kept = self._secrets.of(secrets_key(id))
            new = new_secret()
            old = {"old": kept["secret"], "until": ticks() + OVERLAP} if "secret" in kept else {}
            self._secrets.change(
                {secrets_key(id): {"url": kept.get("url", ""), "secret": new, **old}}
            )
        self.change(id, lambda endpoint: endpoint)
        return new

    def expect(self, id: str) -> str:
        """Return a fresh confirmation code for an endpoint; an earlier one becomes invalid."""
        with self._mutex:
            code = new_code()
            self._secrets.change(
                {secrets_key(id): {"code": code, "until": ticks() + GOOD, "wrong": 0}}
            )
            self.update(id, lambda endpoint: replace(endpoint, note=""))
            return code

    def confirm(self, id: str, code: str) -> Endpoint | None:
        """Activate an endpoint if the code is right and return it; else return None."""
        with self._mutex:
            kept = self._secrets.of(secrets_key(id))
            if "code" not in kept or kept["until"] < ticks() or kept["wrong"] >= TRIES:
                return None
            if not randomness.compare_digest(code.encode(), kept["code"].encode()):
                self._secrets.change({secrets_key(id): {**kept, "wrong": kept["wrong"] + 1}})
                return None
        changed = self.change(id, Endpoint.resumed)
        self._secrets.forget(secrets_key(id))
        return changed

    def has_confirmed(self, to: str, wanted: Callable[[str], bool]) -> bool:
        """Return True if a subscription that satisfies a predicate has confirmed a mail address."""
        return any(
            isinstance(one.channel, Mail)
            and one.channel.to == to
            and one.state != "unconfirmed"
            and wanted(one.subscription)
            for one in self.all()
        )

    def rename(self, subscription: str, name: str) -> None:
        """Rename a subscription in its endpoints; the store has the name already."""
        with self._mutex:
            for one in self.of(subscription):
                self._by_id[one.id] = replace(one, subscription=name)

    def remove(self, ids: Iterable[str]) -> None:
        """Remove endpoints with their letters and secrets; if that fails, all are as before."""
        with self._writing:
            gone = [id for id in dict.fromkeys(ids) if id in self._by_id]
            if gone:
                with self._store.transaction():
                    self._delete(gone)
                self._forget(gone)

    def _forget(self, gone: Sequence[str]) -> None:
        """Forget endpoints that the store lacks, and their secrets."""
        with self._mutex:
            for id in gone:
                del self._by_id[id]
                self._letters.pop(id, None)
                self._changed.discard(id)
        for id in gone:
            self._secrets.forget(secrets_key(id))
            self.wake(id)

    def changes_together(self) -> AbstractContextManager[bool]:
        """Return a lock for a block whose changes are read and saved together."""
        return self._mutex

    def saves_blocked(self) -> AbstractContextManager[bool]:
        """Return a lock that blocks saves, for a block that deletes rows of the same tables."""
        return self._writing

    def follow_removal(self, subscriptions: Iterable[str]) -> None:
        """Forget all endpoints of removed subscriptions, whose rows are gone."""
        self._forget([one.id for one in self.of(*subscriptions)])

    # -- Letters ---------------------------------------------------------------------------

    def replay(self, id: str, message: str | None = None) -> int:
        """Make all letters of an endpoint due again, or one; return their number."""
        with self._mutex:  # else a letter that is delivered meanwhile would come back
            found = [one for one in self.letters(id) if message in (None, one.message)]
            for letter in found:
                self.put_letter(replace(letter, next_try=0))
        self.save()
        self.wake(id)
        return len(found)

    def put_letter(self, letter: Letter) -> None:
        """Add or replace a letter; `save` makes it durable."""
        with self._mutex:
            if letter.endpoint in self._by_id:
                self._letters.setdefault(letter.endpoint, {})[letter.message] = letter
                self._changed.add(letter.endpoint)

    def remove_letter(self, letter: Letter) -> None:
        """Remove a letter that was delivered."""
        with self._mutex:
            self._letters.get(letter.endpoint, {}).pop(letter.message, None)
            self._changed.add(letter.endpoint)

    # -- Writing ---------------------------------------------------------------------------

    def save(self) -> None:
        """Write all changes since the last save in one transaction."""
        with self._writing:
            with self._mutex:
                changed = [self._by_id[id] for id in self._changed if id in self._by_id]
                letters = [one for e in changed for one in self._letters.get(e.id, {}).values()]
                self._changed.clear()
            if not changed and not self._failed:
                return
            try:
                self._write(changed, letters)
                self._failed.clear()
            except BaseException:
                with self._mutex:
                    self._changed.update(endpoint.id for endpoint in changed)
                raise

    def _write(self, changed: Sequence[Endpoint], letters: Sequence[Letter]) -> None:
        with self._store.transaction():
            ids = [*self._failed, *(endpoint.id for endpoint in changed)]
            self._delete(ids)
            self._store.insert_rows("endpoint", map(_row, changed))
            self._store.insert_rows("dead_letter", map(asdict, letters))

    def _delete(self, ids: Sequence[str]) -> None:
        """Delete endpoints with their letters."""
        delete_rows(self._store, "endpoint", id=ids)
        delete_rows(self._store, "dead_letter", endpoint=ids)


def secrets_key(id: str) -> str:
    """Return the key of an endpoint in the secrets file."""
    return f"endpoint:{id}"


def _row(one: Endpoint) -> dict[str, object]:
    """Return an endpoint as a row of the store, by its columns."""
    row = {field.name: getattr(one, field.name) for field in fields(one)}
    channel = row.pop("channel")
    return {**row, "kind": channel.kind, "config": written(channel)}
