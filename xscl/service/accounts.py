"""Accounts: who uses the service, and how much of it.

The operator has the number 0 and needs no row; he has no quota.  Users are made with their first
token and keep their number for ever: it is in the names of what is theirs (`names`).
"""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from xscl.errors import XsclError
from xscl.polling.feed_repository import ticks
from xscl.service.names import OPERATOR, owner, qualified, shown
from xscl.store.store import Store


class AccountError(XsclError):
    """An account that cannot be made or found."""

    code = "account"


@dataclass(frozen=True, slots=True)
class Quota:
    """How much one user may have; None is no limit."""

    subscriptions: int | None = 1_000
    feeds: int | None = 100
    streams: int | None = 100
    endpoints: int | None = 100
    documents_a_day: int | None = 100_000
    matches_a_day: int | None = 100_000
    mails_a_day: int | None = 100
    requests_a_minute: int | None = 6_000
    listeners: int | None = 50


UNLIMITED = Quota(*(None for _ in fields(Quota)))


@dataclass(frozen=True, slots=True)
class Account:
    """Someone who uses the service."""

    number: int
    name: str
    quota: Quota = field(default_factory=Quota)

    @property
    def is_operator(self) -> bool:
        return self.number == OPERATOR

    def qualify(self, name: str) -> str:
        """Return how the engine knows what this user calls `name`; raises ReservedName."""
        return qualified(self.number, name)

    def own(self, known: str) -> str | None:
        """Return how this user calls what the engine knows as `known`; None if it is not his."""
        number, name = owner(known)
        return name if number == self.number else None

    def visible(self, stream: str) -> str | None:
        """Return how this user calls a stream of the engine; None if he may not see it."""
        number, name = owner(stream)
        return name if number in (OPERATOR, self.number) else None

    def shown(self, text: str) -> str:
        """Return a text of the engine as this user may read it."""
        return shown(self.number, text)


THE_OPERATOR = Account(OPERATOR, "operator", UNLIMITED)


class Accounts:
    """The accounts of a store, and the streams that belong to users; any thread may ask.

    All of it is in memory too; what is changed is written first.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._by_name = {THE_OPERATOR.name: THE_OPERATOR}
        self._by_number = {OPERATOR: THE_OPERATOR}
        self._streams: dict[int, set[str]] = {OPERATOR: set()}
        for number, name, quota in store.fetch("SELECT number, name, quota FROM state.account"):
            self._know(Account(number, name, quota_of(json.loads(quota))))
            self._streams[number] = set()
        for number, name in store.fetch("SELECT account, name FROM state.owned_stream"):
            self._streams.setdefault(number, set()).add(name)

    def _know(self, account: Account) -> None:
        self._by_number[account.number] = account
        self._by_name[account.name] = account

    def __iter__(self) -> Any:
        return iter(list(self._by_name.values()))

    def __getitem__(self, name: str) -> Account:
        """Return the account of a name; raises AccountError."""
        found = self._by_name.get(name)
        if found is None:
            raise AccountError(
                f"there is no user {name!r}", hint="'xscl token create --user NAME' makes one"
            )
        return found

    def get(self, name: str) -> Account | None:
        """Return the account of a name, None if there is none."""
        return self._by_name.get(name)

    def numbered(self, number: int) -> Account | None:
        """Return the account of a number, None if there is none."""
        return self._by_number.get(number)

    def mails_of(self, number: int) -> int | None:
        """Return how many mails the user of a number may have in a day, None: any."""
        account = self.numbered(number)
        return 0 if account is None else account.quota.mails_a_day

    def called(self, known: str) -> str:
        """Return how the operator reads a name of the engine: a user's own after his name."""
        number, name = owner(known)
        account = self._by_number.get(number)
        return known if number == OPERATOR or account is None else f"{account.name}: {name}"

    def make(self, name: str, quota: Quota | None = None) -> Account:
        """Make an account; one that is there already stays as it is."""
        with self._mutex:
            if (found := self._by_name.get(name)) is not None:
                return found
            _refuse_bad(name)
            number = max(self._by_number) + 1
            made = Account(number, name, quota or Quota())
            with self._store.transaction():
                self._store.fetch(
                    "INSERT INTO state.account VALUES (?, ?, ?, ?)",
                    [number, name, json.dumps(asdict(made.quota)), ticks()],
                )
            self._streams[number] = set()
            self._know(made)
            return made

    def allow(self, name: str, quota: Quota) -> Account:
        """Change how much a user may have."""
        with self._mutex:
            changed = replace(self[name], quota=quota)
            with self._store.transaction():
                self._store.fetch(
                    "UPDATE state.account SET quota = ? WHERE number = ?",
                    [json.dumps(asdict(quota)), changed.number],
                )
            self._know(changed)
            return changed

    # -- Streams ---------------------------------------------------------------------------

    def streams(self, account: Account) -> frozenset[str]:
        """Return the streams that belong to a user, as he calls them."""
        return frozenset(self._streams.get(account.number, ()))

    def has_stream(self, account: Account, name: str) -> bool:
        """Whether a stream of that name belongs to a user."""
        return name in self._streams.get(account.number, ())

    def claim(self, account: Account, name: str) -> bool:
        """Make a stream belong to a user; return whether it did not before."""
        with self._mutex:
            mine = self._streams.setdefault(account.number, set())
            if name in mine:
                return False
            most = account.quota.streams
            if most is not None and len(mine) >= most:
                raise QuotaExceeded(f"you have {most} streams, and more are not allowed")
            with self._store.transaction():
                self._store.fetch(
                    "INSERT INTO state.owned_stream VALUES (?, ?)", [account.number, name]
                )
            mine.add(name)
            return True


class QuotaExceeded(XsclError):
    """A user has as much of something as he may."""

    code = "quota_exceeded"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="remove what is not needed, or ask the operator for more")


def quota_of(written: Mapping[str, Any]) -> Quota:
    """Return a quota from its fields; what is missing is as for everybody."""
    known = {one.name for one in fields(Quota)}
    return Quota(**{name: value for name, value in written.items() if name in known})


def _refuse_bad(name: str) -> None:
    fine = 0 < len(name) <= 100 and name == name.strip() and name.isprintable()
    if not fine or unicodedata.normalize("NFC", name) != name:
        raise AccountError(
            f"{name!r} cannot be the name of a user",
            hint="at most 100 printable characters, without blanks at the ends",
        )
