"""Earlier versions of subscriptions, for the matches that they have found.

An edit, a pause and a removal end a version at a position of the log of results.  Its row stays as
long as a match of it is kept; nothing of it is left in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from xscl.documents.results import (
    RESULTS_UP_TO,
    Subscription,
    stored_subscriptions,
    subscription_row,
)
from xscl.store.queries.results import ResultRange, has_result
from xscl.store.queries.rows import delete_rows, update_rows
from xscl.store.queries.subscriptions import all_subscriptions, rename_retired
from xscl.store.store import Store


class RetiredVersions:
    """The earlier versions by name and by stream of results; a change makes new sequences."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.by_name: dict[str, tuple[Subscription, ...]] = {}
        self.by_qid: dict[int, tuple[Subscription, ...]] = {}
        self._swept = 0  # up to which position of forgotten results
        for stored_subscription in stored_subscriptions(all_subscriptions(store, retired=True)):
            self._index(stored_subscription)

    def __iter__(self) -> Iterator[Subscription]:
        for versions in self.by_name.values():
            yield from versions

    def of(self, name: str) -> tuple[Subscription, ...]:
        """Return the earlier versions of a name, the oldest first."""
        return self.by_name.get(name, ())

    def add(self, one: Subscription) -> list[Subscription]:
        """Keep a version that has ended, if a result of it is kept.

        Drop those of which none is kept any more; return them.
        """
        assert one.until is not None
        forgotten = self._store.meta(RESULTS_UP_TO)
        dropped: list[Subscription] = []
        if forgotten > self._swept:
            dropped = self.drop([old for old in self if (old.until or 0) <= forgotten])
            self._swept = forgotten
        asked = ResultRange(one.qid, one.since, max(one.after, forgotten), one.until)
        if has_result(self._store, asked):
            self._store.insert_rows("retired", [subscription_row(one)])
            self._index(one)
        return dropped

    def drop(self, versions: Iterable[Subscription]) -> list[Subscription]:
        """Delete versions; return them."""
        dropped = list(versions)
        for one in dropped:
            delete_rows(self._store, "retired", key=one.key, version=one.version, after=one.after)
            for index, at in ((self.by_name, one.name), (self.by_qid, one.qid)):
                _remove(index, at, one)
        return dropped

    def rename(self, name: str, new: str) -> None:
        """Move the versions of a name to another one, and what refers to them by it."""
        for one in self.by_name.pop(name, ()):
            _remove(self.by_qid, one.qid, one)
            self._index(replace(one, name=new))
        rename_retired(self._store, name, new)

    def group(self, name: str, stories: bool) -> None:
        """Set whether the matches of the versions of a name are grouped into stories."""
        for one in self.by_name.pop(name, ()):
            _remove(self.by_qid, one.qid, one)
            self._index(replace(one, stories=stories))
        update_rows(self._store, "retired", {"stories": stories}, name=name)

    def _index(self, one: Subscription) -> None:
        self.by_name[one.name] = (*self.by_name.get(one.name, ()), one)
        self.by_qid[one.qid] = (*self.by_qid.get(one.qid, ()), one)


def _remove(index: dict[Any, tuple[Subscription, ...]], at: object, one: Subscription) -> None:
    left = tuple(other for other in index[at] if other is not one)
    if left:
        index[at] = left
    else:
        del index[at]
