"""Secrets and other parts that no backup has and that a restored data directory lacks.

Endpoints and feeds whose secret is not on this machine are marked in the store at once, so that
every list says so before a message or a poll has failed.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from xscl.delivery.endpoint import NO_ADDRESS, File, Mail, Webhook
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.ingestion.data_directory import SETTINGS, DataDirectory
from xscl.plurals import counted
from xscl.polling.credentials import NAME as SECRETS
from xscl.polling.credentials import Credentials
from xscl.polling.feed_repository import mark_lost_secrets, ticks
from xscl.polling.websub_callbacks import KEPT_AS as CALLBACKS
from xscl.service.accounts import Accounts
from xscl.service.names import owner
from xscl.store.queries.feeds import count_leases
from xscl.store.queries.owners import OPERATOR
from xscl.store.queries.rows import rows_of
from xscl.store.store import Store


@dataclass(frozen=True, slots=True)
class WithoutSecret:
    """An endpoint or a feed that waits for a secret, and the command that gives it a new one.

    `name` is that of the subscription or the key of the feed, `to` the address.  `command` is None
    where a user has to act.
    """

    kind: str
    name: str
    to: str
    note: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Lacking:
    """A secret or a file that a restored store needs and does not have.

    `tokens` are the numbers of tokens by user, which remain valid; `leases` the feeds whose hubs
    are asked anew, `mails` the endpoints that need a mail server, `apart` the files of the data
    directory that no backup has and that are not there.
    """

    secrets: tuple[WithoutSecret, ...]
    tokens: dict[str, int]
    leases: int
    mails: int
    apart: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield what a user has to know and to do, the most urgent first."""
        for one in self.secrets:
            command = "" if one.command is None else f": {one.command}"
            yield f"waits: {one.kind} of {one.name!r} to {one.to}: {one.note}{command}"
        if self.mails:
            yield f"{counted(self.mails, 'mail endpoint')}: 'xscl serve' needs --smtp or XSCL_SMTP"
        if self.leases:
            yield f"hubs: those of {counted(self.leases, 'feed')} will be asked again"
        if self.tokens:
            whose = ", ".join(f"{user} {count}" for user, count in sorted(self.tokens.items()))
            yield f"tokens: these remain valid, 'xscl token revoke' ends one: {whose}"
        if self.apart:
            yield f"not in a backup, copy it if there is one: {', '.join(self.apart)}"


def find_lacking(store: Store, home: DataDirectory) -> Lacking:
    """Mark endpoints and feeds without their secrets, and return all that a store lacks.

    `home` is the directory in which the store will be used.
    """
    secrets = Credentials(home.path / SECRETS)
    accounts = Accounts(store)
    endpoints = Endpoints(store, secrets)
    endpoints.save()
    found = [
        *_webhooks(endpoints, accounts, home),
        *(
            WithoutSecret("mail", accounts.called(one.subscription), one.channel.to, one.note)
            for one in endpoints.all()
            if isinstance(one.channel, Mail) and one.state == "unconfirmed" and one.note
        ),
        *(
            WithoutSecret("feed", feed.key, feed.shown_url, feed.error or "")
            for feed in mark_lost_secrets(store, secrets)
        ),
    ]
    channels = [one.channel for one in endpoints.all()]
    files = {f"{home.files.name}/{one.name}" for one in channels if isinstance(one, File)}
    return Lacking(
        tuple(found),
        _valid_tokens(store, accounts),
        0 if secrets.of(CALLBACKS) else count_leases(store),
        sum(isinstance(one, Mail) for one in channels),
        tuple(
            name for name in (SECRETS, SETTINGS, *sorted(files)) if not (home.path / name).exists()
        ),
    )


def _webhooks(
    endpoints: Endpoints, accounts: Accounts, home: DataDirectory
) -> Iterator[WithoutSecret]:
    """Yield the webhooks that lack a secret."""
    for one in endpoints.all():
        if isinstance(one.channel, Webhook) and (lost := endpoints.lacking(one)):
            hooks = [e for e in endpoints.of(one.subscription) if e.channel.kind == "webhook"]
            words = ["xscl", "rotate", one.subscription]
            if len(hooks) > 1:
                words += ["--endpoint", one.id]
            if NO_ADDRESS in lost:
                words += ["--webhook", "URL"]
            command = shlex.join([*words, "--data", str(home.path)])
            name, is_own = accounts.called(one.subscription), owner(one.subscription)[0] == OPERATOR
            can_rotate = is_own and one.channel.is_signed
            yield WithoutSecret(
                one.channel.kind, name, one.channel.url, lost, command if can_rotate else None
            )


def _valid_tokens(store: Store, accounts: Accounts) -> dict[str, int]:
    """Return the numbers of tokens of programs that are valid now, by user."""
    called, now = {one.number: one.name for one in accounts}, ticks()
    valid = (
        called[row["account"]]
        for row in rows_of(store, "token")
        if not row["session"] and (row["expires"] is None or row["expires"] > now)
    )
    return dict(Counter(valid))
