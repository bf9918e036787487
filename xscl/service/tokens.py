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
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from xscl.errors import XsclError
from xscl.language.names import refuse_label
from xscl.polling.feed_repository import ticks
from xscl.service.accounts import THE_OPERATOR, Account, Accounts, refuse_more
from xscl.store.queries.rows import delete_rows, rows_of
from xscl.store.store import Store

FORM = re.compile(r"xscl_([0-9a-f]{8})_([A-Za-z0-9_-]{43})")
"""The syntax of a token."""

SESSIONS = 100
"""Sessions of one user; a further one ends the oldest."""
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


class Tokens:
    """Repository of tokens; thread-safe."""

    def __init__(self, store: Store, accounts: Accounts) -> None:
        self._store = store
        self._accounts = accounts
        self._mutex = threading.Lock()
        self._local = _hash(secrets.token_urlsafe(32))
        self._known = {
            row["id"]: (AccessToken(**row), digest)
            for row in rows_of(store, "token")
            for digest in [row.pop("hash")]
        }

    def create(
        self,
        account: Account,
        label: str = "",
        *,
        parent: str | None = None,
        most: int | None = None,
    ) -> tuple[AccessToken, str]:
        """Create a token; return it with its full text, which is never shown again.

        Raises WrongLabel, and QuotaExceeded if the user has `most` tokens.  With `parent`, the full
        text of the token with which a user signs in, it is a session and expires after `SESSION`.
        """
        refuse_label(label)
        secret = secrets.token_urlsafe(32)
        now = ticks()
        with self._mutex:
            refuse_more(len(self.of(account)), most, "token")
            name = secrets.token_hex(4)
            while name in self._known:
                name = secrets.token_hex(4)
            token = AccessToken(name, account.number, label, now)
            if parent is not None:
                token = replace(token, expires=now + SESSION, session=True, parent=_id(parent))
            digest = _hash(secret)
            ended = self._ended(account, now) if token.session else []
            with self._store.transaction():
                if ended:
                    self._delete(ended)
                self._store.insert_rows("token", [{**asdict(token), "hash": digest}])
            kept = {id: one for id, one in self._known.items() if id not in ended}
            self._known = {**kept, name: (token, digest)}
        return token, f"xscl_{name}_{secret}"

    def create_local(self) -> str:
        """Create the operator's token for commands of this machine, and replace the last one.

        It is kept in memory only, so that it ends with the service.
        """
        secret = f"xscl_local_{secrets.token_urlsafe(32)}"
        self._local = _hash(secret)
        return secret

    def _ended(self, account: Account, now: int) -> list[str]:
        """Return the ids of expired sessions, and of a user's oldest ones beyond `SESSIONS`."""
        sessions = [token for token, _ in self._known.values() if token.session]
        expired = [one.id for one in sessions if (one.expires or 0) < now]
        own = sorted((one.created, one.id) for one in sessions if one.account == account.number)
        return [*expired, *(id for _, id in own[: max(0, len(own) + 1 - SESSIONS)])]

    def owner(self, given: str) -> Account | None:
        """Return the account of a token; None if it is wrong, revoked or expired."""
        if hmac.compare_digest(self._local, _hash(given)):
            return THE_OPERATOR
        found = FORM.fullmatch(given)
        name, secret = (found[1], found[2]) if found is not None else ("", given)
        token, digest = self._known.get(name, (None, b"\0" * 32))
        same = hmac.compare_digest(digest, _hash(secret))
        if token is None or not same:
            return None
        if token.expires is not None and token.expires < ticks():
            return None
        return self._accounts.numbered(token.account)

    def of(self, account: Account | None = None) -> list[AccessToken]:
        """Return the tokens of a user, or of all, without sessions."""
        return [
            token
            for token, _ in list(self._known.values())
            if not token.session and (account is None or token.account == account.number)
        ]

    def revoke(self, name: str, account: Account | None = None) -> AccessToken:
        """Revoke a token with its sessions; with `account` only if it belongs to that one."""
        with self._mutex:
            token, _ = self._known.get(name, (None, b""))
            if token is None or (account is not None and token.account != account.number):
                raise UnknownToken(f"there is no token {name!r}", hint="list the tokens to see ids")
            with self._store.transaction():
                self._delete([name])
            self._known = {
                other: known
                for other, known in self._known.items()
                if name not in (other, known[0].parent)
            }
        return token

    def revoke_all(self, account: Account) -> None:
        """Revoke all tokens and sessions of a user."""
        with self._mutex:
            with self._store.transaction():
                delete_rows(self._store, "token", account=account.number)
            self._known = {
                id: known for id, known in self._known.items() if known[0].account != account.number
            }

    def _delete(self, ids: Sequence[str]) -> None:
        """Delete tokens, with the sessions that began with them."""
        delete_rows(self._store, "token", id=ids)
        delete_rows(self._store, "token", parent=ids)

    def end_session(self, given: str) -> None:
        """Revoke a session token; other tokens are left."""
        token, _ = self._known.get(_id(given) or "", (None, b""))
        if token is not None and token.session and self.owner(given) is not None:
            self.revoke(token.id)


def _id(given: str) -> str | None:
    """Return the id of a token, or None."""
    found = FORM.fullmatch(given)
    return None if found is None else found[1]


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
