"""Accounts, quotas of users, and how much of these is used.

The operator is account 0, which has no row and no quota.  A user is created with the first token.
The account number is permanent, because it is part of the names of the user's objects (`names`).

Owned objects are counted from the engine at start-up and kept up to date.  Daily counts are by UTC
day and in memory, so a restart resets them.  `serve --once` therefore counts no matches, as it
takes no requests that could be refused.
"""

from __future__ import annotations

import json
import threading
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias, get_args

from xscl.documents.results import Subscription
from xscl.errors import XsclError
from xscl.language.names import in_short
from xscl.limiter import DailyQuota
from xscl.plurals import counted
from xscl.polling.feed_repository import ticks
from xscl.service.names import owner, qualified, shown
from xscl.store.queries.owned_rows import delete_rows_of
from xscl.store.queries.owners import OPERATOR
from xscl.store.queries.rows import delete_rows, rows_of, update_rows
from xscl.store.store import Store

LONGEST_USER = 100
"""Maximum number of characters of a user's name."""
ERASED = "erased_accounts"
"""The key in `state.meta` of the largest number of an erased account."""


class AccountError(XsclError):
    """An account cannot be created or does not exist."""

    code = "account"


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one user; None is no limit."""

    subscriptions: int | None = 1_000
    feeds: int | None = 100
    streams: int | None = 100
    endpoints: int | None = 100
    documents_a_day: int | None = 100_000
    bytes_a_day: int | None = 1_000_000_000
    matches_a_day: int | None = 100_000
    mails_a_day: int | None = 100
    requests_a_minute: int | None = 6_000
    listeners: int | None = 50


UNLIMITED = Quota(*(None for _ in fields(Quota)))


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the service, or the operator; `streams` are the user's own names of his streams."""

    number: int
    name: str
    quota: Quota = field(default_factory=Quota)
    streams: Collection[str] = field(default=(), compare=False, repr=False)

    @property
    def is_operator(self) -> bool:
        return self.number == OPERATOR

    def qualify(self, name: str) -> str:
        """Return the engine's name for this user's object `name`; raises ReservedName."""
        return qualified(self.number, name)

    def own(self, known: str) -> str | None:
        """Return this user's name for the engine's `known`; None for another owner's object."""
        number, name = owner(known)
        return name if number == self.number else None

    def owns(self, known: str) -> bool:
        """Return True if an object is this user's, by the engine's name."""
        return owner(known)[0] == self.number

    def has(self, one: Subscription) -> bool:
        """Return True if a subscription is this user's."""
        return self.owns(one.name)

    def named(self, known: str) -> str:
        """Return this user's name for the engine's `known`, such as a stream or a document.

        A public name stays as it is.  If a stream of this user hides the public stream of that
        name, the public one and its documents have the operator's prefix, as in `_0.orders/17`.
        """
        own = self.own(known)
        if own:
            return own
        return f"_{OPERATOR}.{known}" if known.partition("/")[0] in self.streams else known

    def called(self, stream: str) -> str | None:
        """Return the stream part of this user's names of documents; None if it is not visible."""
        return None if self.visible(stream) is None else self.named(stream)

    def visible(self, stream: str) -> str | None:
        """Return an engine stream's name without its prefix; None if this user may not see it."""
        number, name = owner(stream)
        return name if number in (OPERATOR, self.number) else None

    def shown(self, text: str) -> str:
        """Return a text with the engine's names in it replaced by this user's; hides others'."""
        return shown(self.number, text)


THE_OPERATOR = Account(OPERATOR, "operator", UNLIMITED)


class Accounts:
    """Repository of accounts and of the streams that users own; thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def _found(self, **wanted: Any) -> list[Account]:
        """Return the users whose columns of the table `account` have the values `wanted`."""
        rows = rows_of(self._store, "account", "number", "name", "quota", **wanted)
        return [
            Account(
                row["number"],
                row["name"],
                _quota_of(json.loads(row["quota"])),
                self._streams_of(row["number"]),
            )
            for row in rows
        ]

    def __iter__(self) -> Iterator[Account]:
        return iter([THE_OPERATOR, *self._found()])

    def __getitem__(self, name: str) -> Account:
        """Return an account by name; raises AccountError."""
        found = self.get(name)
        if found is None:
            raise AccountError(
                f"there is no user {name!r}", hint="'xscl token create --user NAME' makes one"
            )
        return found

    def get(self, name: str) -> Account | None:
        """Return an account by name, or None."""
        if name == THE_OPERATOR.name:
            return THE_OPERATOR
        return next(iter(self._found(name=name)), None)

    def numbered(self, number: int) -> Account | None:
        """Return an account by number, or None."""
        if number == OPERATOR:
            return THE_OPERATOR
        return next(iter(self._found(number=number)), None)

    def mails_of(self, number: int) -> int | None:
        """Return the daily mail quota of an account number: None is no limit, 0 no such account."""
        account = self.numbered(number)
        return 0 if account is None else account.quota.mails_a_day

    def called(self, known: str) -> str:
        """Return the operator's view of an engine name: `alice: orders` for a user's object."""
        number, name = owner(known)
        account = None if number == OPERATOR else self.numbered(number)
        return known if account is None else f"{account.name}: {name}"

    def make(self, name: str, quota: Quota | None = None) -> Account:
        """Create an account, or return the existing one unchanged."""
        with self._store.transaction():
            if (found := self.get(name)) is not None:
                return found
            _refuse_bad(name)
            numbers = (row["number"] for row in rows_of(self._store, "account", "number"))
            number = max(self._store.meta(ERASED), *numbers, OPERATOR) + 1
            made = Account(number, name, quota or Quota())
            quota_text = json.dumps(asdict(made.quota))
            row = {"number": number, "name": name, "quota": quota_text, "created": ticks()}
            self._store.insert_rows("account", [row])
        return made

    def erase(self, account: Account) -> None:
        """Delete the rows of a user, whose subscriptions and feeds are removed already.

        The number of the account is never used again.
        """
        with self._store.transaction():
            last = max(account.number, self._store.meta(ERASED))
            self._store.set_meta(**{ERASED: last})
            delete_rows_of(self._store, account.number)

    def allow(self, name: str, quota: Quota) -> Account:
        """Replace the quota of a user."""
        changed = replace(self[name], quota=quota)
        written = {"quota": json.dumps(asdict(quota))}
        update_rows(self._store, "account", written, number=changed.number)
        return changed

    # -- Streams ---------------------------------------------------------------------------

    def _streams_of(self, number: int) -> frozenset[str]:
        rows = rows_of(self._store, "owned_stream", "name", account=number)
        return frozenset(row["name"] for row in rows)

    def streams(self, account: Account) -> frozenset[str]:
        """Return a user's own names for the streams that he owns."""
        return self._streams_of(account.number)

    def has_stream(self, account: Account, name: str) -> bool:
        """Return True if a user owns a stream of that name."""
        return any(rows_of(self._store, "owned_stream", "name", account=account.number, name=name))

    def claim(self, account: Account, name: str) -> bool:
        """Make a user the owner of a stream; return False if he was the owner already."""
        if self.has_stream(account, name):
            return False
        with self._store.transaction():
            mine = self.streams(account)
            if name in mine:  # another request was faster
                return False
            refuse_more(len(mine), account.quota.streams, "stream")
            row = {"account": account.number, "name": name}
            self._store.insert_rows("owned_stream", [row])
        return True

    def release(self, account: Account, name: str) -> None:
        """End a user's ownership of a stream, which `claim` began; the stream must be unused."""
        delete_rows(self._store, "owned_stream", account=account.number, name=name)


class QuotaExceeded(XsclError):
    """A quota of the user is used up."""

    code = "quota_exceeded"

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="remove what is not needed, or ask the operator for more")


def refuse_more(has: int, most: int | None, what: str, count: int = 1) -> None:
    """Raise QuotaExceeded if a user with `has` objects may not have `count` more.

    `most` is the limit, None for no limit.  `what` is the kind of object in the singular.
    """
    if most is not None and has + count > most:
        raise QuotaExceeded(f"you have {counted(has, what)}, and may have {most}")


def _quota_of(written: Mapping[str, Any]) -> Quota:
    """Return a quota from stored fields, with defaults for missing ones."""
    known = {one.name for one in fields(Quota)}
    return Quota(**{name: value for name, value in written.items() if name in known})


def _refuse_bad(name: str) -> None:
    fine = 0 < len(name) <= LONGEST_USER and name == name.strip() and name.isprintable()
    if not fine or unicodedata.normalize("NFC", name) != name:
        raise AccountError(
            f"{in_short(name)} cannot be the name of a user",
            hint=f"at most {LONGEST_USER} printable characters, without blanks at the ends",
        )


Owned: TypeAlias = Literal["subscriptions", "feeds"]
Done: TypeAlias = Literal["documents", "bytes", "matches"]


class Usage:
    """Counts by account: the objects owned, and what was sent and matched today; thread-safe."""

    def __init__(self, subscriptions: Iterable[str], feeds: Iterable[str]) -> None:
        self._mutex = threading.Lock()
        self._kept: dict[Owned, Counter[int]] = {
            "subscriptions": Counter(owner(name)[0] for name in subscriptions),
            "feeds": Counter(owner(key)[0] for key in feeds),
        }
        self._done: dict[Done, DailyQuota[int]] = {one: DailyQuota() for one in get_args(Done)}

    def owned(self, account: Account, what: Owned) -> int:
        """Return the number of a user's objects of a kind."""
        return self._kept[what][account.number]

    def today(self, account: Account, what: Done) -> int:
        """Return the documents, bytes or matches that count against a user's quota of today."""
        return self._done[what].used(account.number)

    def refuse(self, account: Account, what: Owned, count: int) -> None:
        """Raise QuotaExceeded if a user may not have `count` more objects of a kind."""
        most = account.quota.subscriptions if what == "subscriptions" else account.quota.feeds
        refuse_more(self._kept[what][account.number], most, what.removesuffix("s"), count)

    @contextmanager
    def adding(self, account: Account, what: Owned, count: int = 1) -> Iterator[None]:
        """Add to the count of a user's objects, and undo it if the block fails.

        Raises QuotaExceeded.
        """
        with self._mutex:
            self.refuse(account, what, count)
            self._kept[what][account.number] += count
        try:
            yield
        except BaseException:
            self.subtract(account.number, what, count)
            raise

    def subtract(self, number: int, what: Owned, count: int = 1) -> None:
        """Subtract `count` from the objects of a kind that an account number owns."""
        with self._mutex:
            self._kept[what][number] -= count

    def count_document(self, account: Account, size: int) -> None:
        """Count a document of `size` bytes against the daily quotas; raises QuotaExceeded."""
        most = account.quota.bytes_a_day
        if self._done["bytes"].consume(account.number, most, size) is not None:
            has = counted(self.today(account, "bytes"), "byte")
            raise QuotaExceeded(f"you have sent {has} today, and may send {most}")
        most = account.quota.documents_a_day
        if self._done["documents"].consume(account.number, most) is not None:
            has = counted(self.today(account, "documents"), "document")
            raise QuotaExceeded(f"you have sent {has} today, which is all you may")

    @property
    def has_users(self) -> bool:
        """Return True if a user other than the operator has subscriptions."""
        with self._mutex:
            return any(count for number, count in self._kept["subscriptions"].items() if number)

    def count_matches(self, received: Mapping[str, int]) -> None:
        """Add counts of matches, by engine name of subscription, to today's of their owners."""
        for name, count in received.items():
            self._done["matches"].consume(owner(name)[0], count=count)

    def refuse_many_matches(self, account: Account) -> None:
        """Raise QuotaExceeded if a user's daily quota of matches is used up."""
        most = account.quota.matches_a_day
        if most is not None and self.today(account, "matches") >= most:
            raise QuotaExceeded(
                f"you have had {counted(most, 'match')} today, which is all you may: until tomorrow"
                " neither documents nor subscriptions of yours are taken"
            )
