"""Usage of quotas (`accounts.Quota`): objects that users own, and their counts of today.

Owned objects are counted from the engine at start-up and kept up to date.  Daily counts are by UTC
day and in memory, so a restart resets them.  `serve --once` therefore counts no matches, as it
takes no requests that could be refused.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal, TypeAlias

from xscl.limiter import DailyQuota
from xscl.plurals import counted
from xscl.service.accounts import Account, QuotaExceeded
from xscl.service.names import owner

Owned: TypeAlias = Literal["subscriptions", "feeds"]
Done: TypeAlias = Literal["documents", "bytes", "matches"]


class Usage:
    """Counts by account; thread-safe."""

    def __init__(self, subscriptions: Iterable[str], feeds: Iterable[str]) -> None:
        self._mutex = threading.Lock()
        self._kept: dict[Owned, Counter[int]] = {
            "subscriptions": Counter(owner(name)[0] for name in subscriptions),
            "feeds": Counter(owner(key)[0] for key in feeds),
        }
        self._done: dict[Done, DailyQuota[int]] = {
            "documents": DailyQuota(),
            "bytes": DailyQuota(),
            "matches": DailyQuota(),
        }

    def owned(self, account: Account, what: Owned) -> int:
        """Return the number of a user's objects of a kind."""
        return self._kept[what][account.number]

    def today(self, account: Account, what: Done) -> int:
        """Return a user's count of today."""
        return self._done[what].used(account.number)

    def add(self, account: Account, what: Owned, count: int = 1) -> None:
        """Add to a user's objects; raises QuotaExceeded."""
        with self._mutex:
            self.refuse(account, what, count)
            self._kept[what][account.number] += count

    def refuse(self, account: Account, what: Owned, count: int) -> None:
        """Raise QuotaExceeded if a user may not have `count` more."""
        most = account.quota.subscriptions if what == "subscriptions" else account.quota.feeds
        has = self._kept[what][account.number]
        if most is not None and has + count > most:
            one = what.removesuffix("s")
            raise QuotaExceeded(f"you have {counted(has, one)}, and may have {most}")

    @contextmanager
    def adding(self, account: Account, what: Owned, count: int = 1) -> Iterator[None]:
        """Add to a user's objects, and undo that if the block fails; raises QuotaExceeded."""
        self.add(account, what, count)
        try:
            yield
        except BaseException:
            self.subtract(account.number, what, count)
            raise

    def subtract(self, number: int, what: Owned, count: int = 1) -> None:
        """Subtract from a user's objects."""
        with self._mutex:
            self._kept[what][number] -= count

    def remove_subscriptions(self, names: Iterable[str]) -> None:
        """Subtract removed subscriptions, given by engine names."""
        for name in names:
            self.subtract(owner(name)[0], "subscriptions")

    def count_document(self, account: Account, size: int) -> None:
        """Count a document against the daily quotas; raises QuotaExceeded above one of them."""
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
        """Return whether a user other than the operator has subscriptions."""
        with self._mutex:
            return any(count for number, count in self._kept["subscriptions"].items() if number)

    def count_matches(self, received: Mapping[str, int]) -> None:
        """Count matches of today, given by the engine names of subscriptions."""
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
