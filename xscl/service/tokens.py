"""Bearer tokens of programs and session tokens of browsers.

    xscl_3f9a01c2_<43 letters>
         id       secret

The id is the key of the row.  Only a hash of the secret is stored and compared in constant time.  A
secret has 256 random bits, so an unsalted hash is safe.  A token is shown only once, when it is
created.  A *session* is a token of a browser that expires.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from xscl.errors import XsclError
from xscl.language.names import refuse_label
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import Account, Accounts, refuse_more
from xscl.store.queries.owners import OPERATOR
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

FORM = re.compile(r"xscl_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
"""The syntax of a token."""

SESSIONS = 100
"""Maximum number of sessions of one user; a further one ends the oldest."""
SESSION = 30 * 86_400 * 1_000_000
"""Lifetime of a session in ticks."""


class UnknownToken(XsclError):
    """No token has that id."""

    code = "unknown_token"


@dataclass(frozen=True, slots=True)
class AccessToken:
    """The public part of a token; `expires` and `created` in ticks.

    A session is revoked with its `parent`, the token with which the user signed in.
    """

    id: str
    account: int
    label: str
    created: int
    expires: int | None = None
    session: bool = False
    parent: str | None = None

    @property
    def is_over(self) -> bool:
        """True if it has expired."""
        return self.expires is not None and self.expires < ticks()


_SHOWN = [field.name for field in fields(AccessToken)]


class Tokens:
    """Repository of tokens; thread-safe."""

    def __init__(self, store: Store, accounts: Accounts) -> None:
        self._store = store
        self._accounts = accounts
        self._local = _hash(secrets.token_urlsafe(32))
        self._changed = object()  # replaced at each change: see `watched`

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Run the block in a transaction, and note that tokens have changed."""
        try:
            with self._store.transaction():
                yield
        finally:  # a commit may take effect and raise
            self._changed = object()

    def create(
        self, account: Account, label: str = "", *, most: int | None = None
    ) -> tuple[AccessToken, str]:
        """Create a token; return its public part and its full text, which is never shown again.

        Raises WrongLabel, and QuotaExceeded if the user has `most` tokens (None is no limit).
        """
        refuse_label(label)
        with self._store.transaction():
            refuse_more(len(self.of(account)), most, "token")
            return self._insert(
                AccessToken(id="", account=account.number, label=label, created=ticks())
            )

    def begin_session(self, given: str, label: str) -> str | None:
        """Create a session; return its full text, None if the token `given` is not valid.

        The session expires after `SESSION`.
        """
        account, now = self.owner(given), ticks()
        if account is None:
            return None
        with self._changing():
            if self.owner(given) is None:  # it was revoked meanwhile, with its sessions
                return None
            self._delete(self._ended(account))
            token = AccessToken(id="", account=account.number, label=label, created=now)
            session = replace(token, expires=now + SESSION, session=True, parent=_id(given))
            return self._insert(session)[1]

    def _insert(self, token: AccessToken) -> tuple[AccessToken, str]:
        """Write a token under a random id; return its public part and its full text."""
        secret, name = secrets.token_urlsafe(32), secrets.token_hex(4)
        while self._found(id=name):
            name = secrets.token_hex(4)
        token = replace(token, id=name)
        self._store.insert_rows("token", [{**asdict(token), "hash": _hash(secret)}])
        return token, f"xscl_{name}_{secret}"

    def create_local(self) -> str:
        """Create the operator's token for commands of this machine, and replace the last one.

        The token is in memory only, so that it ends with the service.
        """
        secret = f"xscl_local_{secrets.token_urlsafe(32)}"
        self._local = _hash(secret)
        return secret

    def _found(self, **wanted: Any) -> list[AccessToken]:
        """Return the tokens whose columns have the values `wanted`."""
        rows = rows_of(self._store, "token", *_SHOWN, **wanted)
        return [AccessToken(**row) for row in rows]

    def _ended(self, account: Account) -> list[str]:
        """Return the ids of the sessions to delete before a user begins one more.

        They are all expired ones, and the user's oldest ones beyond `SESSIONS`.
        """
        sessions = self._found(session=True)
        expired = [session.id for session in sessions if session.is_over]
        own = sorted(
            (session.created, session.id)
            for session in sessions
            if session.account == account.number
        )
        return [*expired, *(id for _, id in own[: max(0, len(own) + 1 - SESSIONS)])]

    def owner(self, given: str) -> Account | None:
        """Return the account of a token; None if it is wrong, revoked or expired."""
        token = self._valid(given)
        return None if token is None else self._accounts.numbered(token.account)

    def watched(self, given: str) -> Callable[[], bool]:
        """Return a function that is True while a token is valid.

        It reads the token only after changes of tokens, because a live connection calls it for each
        event.
        """
        read: object = None
        token: AccessToken | None = None

        def is_valid() -> bool:
            nonlocal read, token
            if read is not self._changed:  # read before the token, which may change meanwhile
                read, token = self._changed, self._valid(given)
            return token is not None and not token.is_over

        return is_valid

    def _valid(self, given: str) -> AccessToken | None:
        """Return the token of a text; None if it is wrong, revoked or expired."""
        if hmac.compare_digest(self._local, _hash(given)):
            return AccessToken(id="", account=OPERATOR, label="", created=0)
        found = FORM.fullmatch(given)
        name, secret = (found[1], found[2]) if found is not None else ("", given)
        row = next(rows_of(self._store, "token", "hash", *_SHOWN, id=name), {"hash": b"\0" * 32})
        if not hmac.compare_digest(row.pop("hash"), _hash(secret)):
            return None
        token = AccessToken(**row)
        return None if token.is_over else token

    def of(self, account: Account | None = None) -> list[AccessToken]:
        """Return the tokens of a user, or of all, without sessions."""
        return self._found(session=False, **_own(account))

    def revoke(self, name: str, account: Account | None = None) -> AccessToken:
        """Revoke the token with the id `name` and its sessions; return its public part.

        With `account` only a token of that account is found.  Raises UnknownToken.
        """
        with self._changing():
            found = self._found(id=name, **_own(account))
            if not found:
                raise UnknownToken(f"there is no token {name!r}", hint="list the tokens to see ids")
            self._delete([name])
        return found[0]

    def revoke_all(self, account: Account) -> None:
        """Revoke all tokens and sessions of a user."""
        with self._changing():
            delete_rows(self._store, "token", account=account.number)

    def _delete(self, ids: Sequence[str]) -> None:
        """Delete tokens, with the sessions that began with them."""
        delete_rows(self._store, "token", id=ids)
        delete_rows(self._store, "token", parent=ids)

    def end_session(self, given: str) -> None:
        """Revoke a session token; other tokens are left."""
        for token in self._found(id=_id(given) or "", session=True):
            if self.owner(given) is not None:
                self.revoke(token.id)


def _own(account: Account | None) -> dict[str, int]:
    return {} if account is None else {"account": account.number}


def _id(given: str) -> str | None:
    """Return the id in the text of a token, None if the text is none."""
    found = FORM.fullmatch(given)
    return None if found is None else found[1]


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
