"""The subscriptions of an engine, by name and by qid, and their earlier versions.

Registration is all or nothing: the rows of a call are written together, and the caller's
transaction rolls them back if the call fails.

An edit, a resumption and a removal end a version at a position of the log of results.  The row of
the ended version stays as long as a match of it is kept; nothing of it is left in the plan.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from graphlib import TopologicalSorter
from itertools import islice
from typing import Any

from templates.model.join_graph import INFINITE
from templates.registry import Registry
from xscl.documents.results import (
    RESULTS_UP_TO,
    WITHOUT_PAST,
    XSCL,
    Backfill,
    Subscription,
    stored_subscriptions,
    subscription_row,
)
from xscl.errors import (
    NameTaken,
    StreamCycle,
    StreamInUse,
    StreamsTooDeep,
    UnknownSubscription,
    WrongSubscriptionName,
    XsclError,
    near_miss,
)
from xscl.language.names import LONGEST_NAME, PREFIX, in_short, is_plain
from xscl.store.queries.results import ResultRange, delete_results_of, has_result
from xscl.store.queries.rows import delete_rows, rows_of, update_rows
from xscl.store.queries.subscriptions import all_subscriptions, rename_retired
from xscl.store.queries.tables import LEVELS
from xscl.store.store import Store


class RetiredVersions:
    """Keeps the earlier versions of subscriptions whose matches are kept, by name and by qid.

    A change replaces the lists, so that another thread can read one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.by_name: dict[str, list[Subscription]] = {}
        self.by_qid: dict[int, list[Subscription]] = {}
        self._swept = 0  # the evicted position (`RESULTS_UP_TO`) when `add` last dropped versions
        for stored_subscription in stored_subscriptions(all_subscriptions(store, retired=True)):
            self._index(stored_subscription)

    def __iter__(self) -> Iterator[Subscription]:
        for versions in tuple(self.by_name.values()):  # another thread may add some meanwhile
            yield from versions

    def of(self, name: str) -> Sequence[Subscription]:
        """Return the earlier versions of a name, the oldest first."""
        return self.by_name.get(name, ())

    def add(self, one: Subscription) -> list[Subscription]:
        """Add a version that has ended, if it has kept results.

        Other versions whose results were all evicted meanwhile are dropped; return these.
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
        """Delete versions, also from the store; return them as a list."""
        dropped = list(versions)
        for one in dropped:
            delete_rows(self._store, "retired", key=one.key, version=one.version, after=one.after)
            for index, at in ((self.by_name, one.name), (self.by_qid, one.qid)):
                _remove(index, at, one)
        return dropped

    def rename(self, name: str, new: str) -> None:
        """Give the versions of a name another one, also in rows of other tables with the name."""
        self._change(name, name=new)
        rename_retired(self._store, name, new)

    def group(self, name: str, stories: bool) -> None:
        """Set the option `stories` of the versions of a name."""
        self._change(name, stories=stories)
        update_rows(self._store, "retired", {"stories": stories}, name=name)

    def _change(self, name: str, /, **fields: Any) -> None:
        for one in self.by_name.pop(name, ()):
            _remove(self.by_qid, one.qid, one)
            self._index(replace(one, **fields))

    def _index(self, one: Subscription) -> None:
        self.by_name[one.name] = [*self.by_name.get(one.name, ()), one]
        self.by_qid[one.qid] = [*self.by_qid.get(one.qid, ()), one]


def _remove(index: dict[Any, list[Subscription]], at: object, one: Subscription) -> None:
    """Remove a subscription from the list `index[at]`, and the list if it becomes empty."""
    left = [other for other in index[at] if other is not one]
    if left:
        index[at] = left
    else:
        del index[at]


# -- Current versions ----------------------------------------------------------------------

LONGEST = 480
"""Characters of the name of a removed subscription that begin the new name of its kept matches."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The properties with which subscriptions begin.

    They see the documents with a number of `since` or more; with `updates` also those that are
    later versions.  Their operators over time are shared with subscriptions of the same `bound_to`;
    `suspended` ones have no operators until `Registration.activate`.  A subscription is the next
    version of the one that it `replaces`, if any.  With `stories` its matches are grouped into
    stories.  `language` is that of the queries.
    """

    since: int
    updates: bool = False
    bound_to: int | None = None
    suspended: bool = False
    replaces: Subscription | None = None
    stories: bool = False
    language: str = XSCL


class Subscriptions:
    """Keeps all subscriptions, in memory and in the store, by name, by qid and by stream."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store = store
        self._registry = registry
        self._by_name: dict[str, Subscription] = {}
        # An addition extends the list of a qid; a removal or change replaces it.
        self.by_qid: dict[int, list[Subscription]] = {}
        self._publishers: dict[str, list[Subscription]] = {}
        self._readers: dict[str, dict[str, None]] = {}
        self._keys: dict[str, str] = {}  # names by key, of subscriptions whose key is another text
        self.retired = RetiredVersions(store)
        self._new: list[Subscription] = []
        self._next = 1
        self._changes = 0
        self.backfills: dict[int, Backfill] = {}
        self._refused: dict[int, XsclError] = {}
        self.has_stories = False
        """Whether a subscription has grouped its matches since the store was read."""
        self._load()

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(tuple(self._by_name.values()))  # other threads add some meanwhile

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def get(self, name: str) -> Subscription | None:
        """Return the current version of a subscription by its name, None if that is unknown."""
        return self._by_name.get(name)

    def __getitem__(self, name: str) -> Subscription:
        """Return the current version of a subscription by its name.

        Raises UnknownSubscription, with the names that are most similar.
        """
        found = self._by_name.get(name)
        if found is None:
            names = list(self._by_name)  # copied in one step: other threads may change it
            hint = near_miss(name, names, quoted=True) or "'xscl subscriptions' lists them"
            raise UnknownSubscription(f"there is no subscription named {name!r}", hint=hint)
        return found

    @property
    def state(self) -> tuple[int, int]:
        """A value that is another one after each registration, edit, pause and removal."""
        return len(self._by_name), self._next + self._changes

    # -- Versions --------------------------------------------------------------------------

    def versions(self, name: str) -> tuple[Subscription, ...]:
        """Return the earlier versions of a name that have kept matches, then the current one.

        That is missing if the subscription was removed.  Raises UnknownSubscription if there is
        neither.
        """
        found = self.of_name(name)
        if not found:
            self[name]
        return found

    def of_name(self, name: str) -> tuple[Subscription, ...]:
        """Return the versions of a name, as `versions` does; empty for an unknown name."""
        current = self._by_name.get(name)
        return (*self.retired.of(name), *([] if current is None else [current]))

    def removed(self) -> list[str]:
        """Return the names of removed subscriptions whose matches are kept."""
        return [name for name in tuple(self.retired.by_name) if name not in self._by_name]

    def receivers(self, qid: int) -> Sequence[Subscription]:
        """Return the subscriptions that share the results of a qid, then their earlier versions."""
        current, earlier = self.by_qid.get(qid, ()), self.retired.by_qid.get(qid)
        return current if earlier is None else (*current, *earlier)

    def key_of(self, name: str, replaces: Subscription | None = None) -> str:
        """Return the key for a new subscription, which is its name unless that is taken.

        It is taken if it is the key or name of another subscription, or the name of kept matches.
        The next version of the subscription that it `replaces` has the key of that one.
        """
        if replaces is not None:
            return replaces.key
        key = name
        while key in self._keys or key in self._by_name or self.retired.of(key):
            key = f"{key} ({self._next})"
        return key

    def name_of(self, key: str) -> str:
        """Return the name of the subscription with a key, which need not exist any more."""
        return self._keys.get(key, key)

    def _lineage(self, name: str, replaces: Subscription | None) -> tuple[str, int]:
        """Return the key and the version number for a new subscription, and index the key.

        If kept matches of a removed subscription have the name, they get another one.
        """
        if replaces is None and not self._keys and not self.retired.by_name:
            return name, 1  # what the rest would return, but faster
        key = self.key_of(name, replaces)
        if replaces is None:
            self._vacate(name)
        if key != name:
            self._keys[key] = name
        return key, 1 if replaces is None else replaces.version + 1

    def _vacate(self, name: str) -> None:
        """Free a name: give the kept matches of a removed subscription with it another one."""
        if earlier := self.retired.of(name):
            free, number = f"{name[:LONGEST]} (removed)", 1
            while free in self._by_name or self.retired.of(free):
                number += 1
                free = f"{name[:LONGEST]} (removed {number})"
            self._move(earlier[0].key, name, free)

    def _move(self, key: str, name: str, new: str) -> None:
        """Rename earlier versions from `name` to `new`, and make `new` the name of their key."""
        self.retired.rename(name, new)
        self._keys.pop(key, None)
        if key != new:
            self._keys[key] = new

    def reword(self, name: str, text: str, position: int) -> Subscription:
        """Make `text`, a query with the same results, the next version of a subscription.

        The version has the results after `position`.  Return it.
        """
        one = self[name]
        self._retire(one, position)
        until = position if one.is_paused else None
        version = one.version + 1
        return self._exchange(
            one, replace(one, query=text, version=version, after=position, until=until)
        )

    def pause(self, name: str, position: int) -> Subscription:
        """Pause a subscription: it has no results after `position`.  Return it."""
        return self._exchange(self[name], replace(self[name], until=position))

    def resume(self, name: str, position: int) -> Subscription:
        """End the pause of a subscription: it has the results after `position`.  Return it."""
        self._retire(self[name], position)
        return self._exchange(self[name], replace(self[name], after=position, until=None))

    def group(self, name: str, stories: bool) -> Subscription:
        """Set the option `stories` of all versions of a name; return the current one as changed."""
        self.retired.group(name, stories)
        return self._exchange(self[name], replace(self[name], stories=stories))

    def rename(self, name: str, new: str) -> Subscription:
        """Give a subscription, its kept matches and its endpoints another name; return it."""
        self.expect_free(new)
        self._vacate(new)
        one = self[name]
        renamed = replace(one, name=new)
        self._move(one.key, name, new)
        for stream in one.reads:
            readers = self._readers[stream]
            self._readers[stream] = {new if read == name else read: None for read in readers}
        return self._exchange(one, renamed)

    def _exchange(self, old: Subscription, new: Subscription) -> Subscription:
        """Replace `old` by `new` in memory and in the store; return `new`.

        Both have the same operators, and the same place in the order of subscriptions.
        """

        def exchanged(row: Sequence[Subscription]) -> list[Subscription]:
            return [new if one is old else one for one in row]

        self._by_name = {one.name: one for one in exchanged(list(self._by_name.values()))}
        self.has_stories |= new.stories
        self.by_qid[old.qid] = exchanged(self.by_qid[old.qid])
        if old.publish is not None:
            self._publishers[old.publish] = exchanged(self._publishers[old.publish])
        delete_rows(self._store, "subscription", number=old.number)
        self._store.insert_rows("subscription", [subscription_row(new)])
        self._changes += 1
        return new

    def _retire(self, one: Subscription, position: int) -> None:
        """Make a subscription an earlier version, which ends at a position.

        It is kept only if it has kept matches up to there.
        """
        for old in self.retired.add(one if one.is_paused else replace(one, until=position)):
            if old.key != one.key and not self.retired.of(old.name):
                self._keys.pop(old.key, None)

    def purge(self, name: str) -> None:
        """Delete the matches of a removed subscription, and the users' stars on them."""
        delete_rows(self._store, "star", subscription=name)
        for one in self.retired.drop(self.retired.of(name)):
            self._keys.pop(one.key, None)
            self._drop_results(one.qid)

    def _drop_results(self, qid: int) -> None:
        """Delete the results of a qid unless a subscription or earlier version shares them."""
        if not self.receivers(qid):
            delete_results_of(self._store, qid)

    def streams(self) -> Mapping[str, Iterable[str]]:
        """Return the names of the subscriptions that read a stream, by stream."""
        return self._readers

    def readers(self, stream: str) -> Iterable[str]:
        """Return the names of the subscriptions that read a stream."""
        return self._readers.get(stream, {})

    def publishers(self, stream: str) -> list[Subscription]:
        """Return the subscriptions that publish a stream."""
        return self._publishers.get(stream, [])

    def published(self) -> list[str]:
        """Return the names of the streams that subscriptions publish, each once."""
        return list(self._publishers)

    def add(
        self, name: str, query: str, qid: int, beginning: Beginning, **fields: Any
    ) -> Subscription:
        """Add a subscription under a free name, and return it; `save` stores it.

        `query` is its text, `qid` the number of its results.  `fields` are further fields of
        `Subscription`, by name.
        """
        key, version = self._lineage(name, beginning.replaces)
        one = Subscription(
            number=self._next,
            name=name,
            query=query,
            qid=qid,
            since=beginning.since,
            updates=beginning.updates,
            stories=beginning.stories,
            language=beginning.language,
            key=key,
            version=version,
            **{"template": 0, "outputs": (), **fields},
        )
        self._next += 1
        self._index(one)
        self._new.append(one)
        return one

    # -- Refused queries -------------------------------------------------------------------

    def refuse(self, one: Subscription, error: XsclError) -> None:
        """Record that this release refuses the query of a stored subscription with an error."""
        if one.number not in self._refused:
            self._refused[one.number] = error
            _log.warning("the subscription %s has no results: %s", one.name, error.message)

    @property
    def refusals(self) -> int:
        """The number of subscriptions whose queries this release refuses."""
        return sum(one.number in self._refused for one in self)

    def refusal(self, one: Subscription) -> XsclError | None:
        """Return the error with which this release refuses a subscription's query, or None."""
        return self._refused.get(one.number)

    # -- Backfills -------------------------------------------------------------------------

    def begin_backfill(self, name: str, begun: Backfill, position: int) -> None:
        """Record the backfill `begun` of a subscription; `position` is that of the last result."""
        self._exchange(self[name], replace(self[name], backfilled=position))
        self.backfills[begun.subscription] = begun
        self._store.insert_rows("backfill", [asdict(begun)])

    def end_backfill(self, one: Subscription, position: int, live: Sequence[int]) -> None:
        """Record that the backfill of a subscription is complete.

        Its matches up to `position` count as backfilled, except those at the positions `live`.
        """
        self._drop_backfill(one.number)
        self._exchange(one, replace(one, backfilled=position, live=tuple(live)))

    def mark_without_past(self, name: str) -> None:
        """Record that a subscription began without its history, which could not be read."""
        self._exchange(self[name], replace(self[name], backfilled=WITHOUT_PAST))

    def _drop_backfill(self, number: int) -> None:
        if self.backfills.pop(number, None) is not None:
            delete_rows(self._store, "backfill", subscription=number)

    def numbered(self, number: int) -> Subscription | None:
        """Return the subscription with a number if it has a backfill to complete, else None."""
        begun = self.backfills.get(number)
        return None if begun is None else self[self.name_of(begun.key)]

    def needed_from(self) -> int:
        """Return the number of the first document that a backfill needs.

        INFINITE if no backfill is to be completed.
        """
        found = filter(None, map(self.numbered, self.backfills))
        return min((one.since for one in found), default=INFINITE)

    def save(self) -> None:
        """Store the subscriptions that `add` has added since the last call."""
        self._store.insert_rows("subscription", map(subscription_row, self._new))
        self._new.clear()

    def remove(self, name: str, position: int) -> Subscription:
        """Remove a subscription, and return it; its matches up to `position` are kept."""
        subscription = self[name]
        self._retire(subscription, position)
        del self._by_name[name]
        if not self.retired.of(name):
            self._keys.pop(subscription.key, None)
        for stream in subscription.reads:
            del self._readers[stream][name]
            if not self._readers[stream]:
                del self._readers[stream]
        if subscription.publish is not None:
            _remove(self._publishers, subscription.publish, subscription)
        _remove(self.by_qid, subscription.qid, subscription)
        self._drop_results(subscription.qid)
        delete_rows(self._store, "subscription", number=subscription.number)
        self._drop_backfill(subscription.number)
        if subscription.number == self._next - 1:  # so that a restart does not use it again
            self._store.set_meta(subscriptions=self._next - 1)
        return subscription

    def dependents(self, name: str) -> tuple[str, ...]:
        """Return the names of all subscriptions that could not exist without a given one.

        They are that one, the readers of streams that only it publishes, the readers of streams
        that only all these publish, and so on.  Readers come before publishers.
        """
        doomed = {self[name].name: self[name]}
        growing = True
        while growing:
            lost = {
                one.publish
                for one in doomed.values()
                if one.publish and all(p.name in doomed for p in self.publishers(one.publish))
            }
            found = {s.name: s for s in self if not lost.isdisjoint(s.reads)}
            growing = not found.keys() <= doomed.keys()
            doomed |= found
        readers = {
            name: [s.name for s in doomed.values() if one.publish in s.reads]
            for name, one in doomed.items()
        }
        return tuple(TopologicalSorter(readers).static_order())

    def _index(self, subscription: Subscription) -> None:
        self._by_name[subscription.name] = subscription
        self.has_stories |= subscription.stories
        for stream in subscription.reads:
            self._readers.setdefault(stream, {})[subscription.name] = None
        self.by_qid.setdefault(subscription.qid, []).append(subscription)
        if subscription.publish is not None:
            self._publishers.setdefault(subscription.publish, []).append(subscription)

    def expect_free(self, name: str, others: Container[str] = ()) -> None:
        """Raise an error unless a name can be that of a new subscription.

        WrongSubscriptionName: it is invalid.  NameTaken: it is the name of a subscription, or in
        `others`, the names of the same registration.
        """
        is_plain_name = name.isprintable() or is_plain(name)  # the first test suffices for most
        is_fit = is_plain_name and len(name) <= LONGEST_NAME + PREFIX
        if not name or name != name.strip() or not is_fit:
            raise WrongSubscriptionName(
                f"{in_short(name)} cannot be the name of a subscription",
                hint=f"use at most {LONGEST_NAME} printable characters, without blanks at the ends",
            )
        if name in self._by_name or name in others:
            raise NameTaken(
                f"there is a subscription named {name!r} already",
                hint="unsubscribe it first, or choose another name",
            )

    def refuse_publisher(
        self, name: str, reads: Iterable[str], target: str | None, *, relational: bool
    ) -> None:
        """Raise an error unless the query of a name may publish `target` (None: it does not).

        `reads` are the streams that it reads.  StreamCycle: what it publishes would reach it again.
        NameTaken: a query in XSCL and one in an event language would publish one stream.
        StreamsTooDeep: more than `LEVELS` streams would be made from one another.
        """
        if target is None:
            return
        for other in self.publishers(target):
            if other.relational != relational:
                raise NameTaken(
                    f"{other.name!r} publishes the stream {target!r} in {other.language}",
                    hint="publish under another name",
                )
        below = self._levels([target], self._publications)
        for stream in reads:
            if any(stream in level for level in below):
                raise StreamCycle(
                    f"{name!r} would publish {target!r}, from which the stream {stream!r}"
                    " that it reads is made: a cycle",
                    hint="publish under another name",
                )
        if len(self._levels(reads, self._inputs)) + len(below) > LEVELS:
            raise StreamsTooDeep(
                f"{name!r} would publish {target!r} in a row of more than {LEVELS - 1} streams that"
                " are made from one another",
                hint="read a stream that is nearer to the documents",
            )

    def _inputs(self, stream: str) -> set[str]:
        """Return the streams that the publishers of a stream read."""
        return {read for publisher in self.publishers(stream) for read in publisher.reads}

    def _publications(self, stream: str) -> set[str]:
        """Return the streams that the readers of a stream publish."""
        readers = (self._by_name[name] for name in self.readers(stream))
        return {reader.publish for reader in readers if reader.publish is not None}

    @staticmethod
    def _levels(
        streams: Iterable[str], following: Callable[[str], Iterable[str]]
    ) -> list[set[str]]:
        """Return the set of some streams, then that of the streams `following` them, and so on.

        It ends with the last set that is not empty, and has at most LEVELS + 1 sets.
        """
        levels = [set(streams)]
        while len(levels) <= LEVELS:
            level = {name for stream in levels[-1] for name in following(stream)}
            if not level:
                break
            levels.append(level)
        return levels

    def refuse_orphans(self, name: str, others: str = "") -> None:
        """Raise StreamInUse if the stream that a subscription alone publishes has readers.

        `others` ends the hint: what the caller can do besides.
        """
        subscription = self[name]
        stream = subscription.publish
        if stream is None or len(self.publishers(stream)) > 1:
            return
        readers = list(islice(self.readers(stream), 3))
        if readers:
            raise StreamInUse(
                f"{subscription.name!r} publishes the stream {stream!r}, which"
                f" {', '.join(map(repr, readers))} still reads",
                hint=f"unsubscribe the readers first{others}",
            )

    def ordered_streams(self) -> set[str]:
        """Return the streams whose documents come from operators over time, directly or not.

        They are those that a subscription with such operators publishes, those that readers of
        these publish, and so on.
        """
        found: set[str] = set()
        for stream, publishers in self._publishers.items():
            if any(publisher.ordered for publisher in publishers):
                found.update(*self._levels([stream], self._publications))
        return found

    def _load(self) -> None:
        for one in stored_subscriptions(all_subscriptions(self._store)):
            self._index(one)
        for row in rows_of(self._store, "backfill"):
            self.backfills[row["subscription"]] = Backfill(**row)
        for one in (*self, *self.retired):
            if one.key != one.name:
                self._keys[one.key] = one.name
        uses = Counter(one.qid for one in self if one.is_row)
        self._registry.load(uses.items(), max((one.qid for one in self.retired), default=0))
        self._next = max(self._store.meta("subscriptions"), *(s.number for s in self), 0) + 1
