"""Subscribe and unsubscribe on behalf of a user: name resolution, ownership and quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.concurrency import run_in_threadpool

from xscl.documents.results import WITHOUT_PAST, XSCL, Subscription
from xscl.errors import NameTaken, UnknownSubscription, XsclError
from xscl.service.accounts import Account
from xscl.service.installation import Installation
from xscl.service.names import ReservedName, refuse_unaddressable
from xscl.service.problems import Problem, not_found
from xscl.service.resolving import SUSPECT, ResolvedQuery
from xscl.service.tags import checked_tags, set_tags

History: TypeAlias = Literal["none", "reading", "read", "failed"]

PATIENCE = 2.0
"""Seconds that the answer to a registration waits for its history to be read."""


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """A requested subscription; `since` is the length of its history.

    With `history` it begins with the matches of what is kept.  Its `tags` stay if they are None.
    """

    name: str
    query: str
    updates: bool = False
    language: str = XSCL
    since: str | None = None
    history: bool = False
    tags: Sequence[str] | None = None


def history_of(here: Installation, found: Subscription) -> History:
    """Return the state of a subscription's history."""
    if found.number in here.engine.host.state.subscriptions.backfills:
        return "reading"
    if found.backfilled < 0:
        return "failed" if found.backfilled == WITHOUT_PAST else "none"
    return "read"


async def subscribe(
    here: Installation, who: Account, wanted: SubscriptionRequest
) -> tuple[Subscription, bool]:
    """Subscribe idempotently; return the subscription and whether it is new."""
    refuse_bare(wanted.since)
    refuse_unaddressable(wanted.name)
    tags = checked_tags(wanted.tags or ())
    known = who.qualify(wanted.name)
    resolved = await run_in_threadpool(resolved_query, here, who, wanted)
    is_new = here.engine.subscription(known) is None
    if is_new:
        await _register(here, who, wanted, resolved)
        found = existing(here, who, wanted.name)
    else:
        # What is in memory may not be committed yet, so only what is committed is acknowledged.
        there = await run_in_threadpool(here.engine.host.catalog.committed, known)
        if there is None:
            return await subscribe(here, who, wanted)
        found = there
        if not _is_same(here, who, found, wanted, resolved):
            raise NameTaken(
                f"there is a subscription named {wanted.name!r} already, with another query",
                hint="unsubscribe it first, or choose another name",
            )
    if wanted.tags is not None:
        with here.reading() as store:
            set_tags(store, {found.name: tags})
    if history_of(here, found) == "reading":
        read = here.engine.host.catalog.backfills.completion(found.number)
        with suppress(TimeoutError):
            await asyncio.wait_for(_result(read), PATIENCE)
    return existing(here, who, wanted.name), is_new


async def _register(
    here: Installation, who: Account, wanted: SubscriptionRequest, resolved: ResolvedQuery
) -> None:
    """Register a query under a name that seems to be free, and wait until it is committed."""
    here.usage.refuse_many_matches(who)
    known = who.qualify(wanted.name)
    asked = known, resolved.text, wanted.updates, wanted.language, wanted.since, wanted.history
    try:
        with here.usage.adding(who, "subscriptions"), resolved.as_written():
            await run_in_threadpool(claim, here, who, resolved)
            await _result(here.registrar.ask(*asked))
    except NameTaken:  # unless another request has registered the same
        found = here.engine.subscription(known)
        if found is None or not _is_same(here, who, found, wanted, resolved):
            raise


def _result(work: Future[None]) -> asyncio.Future[None]:
    """Return the result of a thread's work, which goes on if who waits for it is cancelled."""
    return asyncio.shield(asyncio.wrap_future(work))


def subscribe_all(
    here: Installation,
    who: Account,
    rows: Sequence[SubscriptionRequest],
    *,
    history: bool = False,
) -> tuple[int, int]:
    """Register a list of queries atomically; return the numbers of new and unchanged ones.

    With `history` each begins with the matches of what is kept, which are found afterwards.
    """
    updates = {one.updates for one in rows}
    if len(updates) > 1:
        raise Problem(
            "mixed_rows",
            "some rows see new versions of documents (updates) and some do not",
            hint="import them apart",
        )
    here.usage.refuse_many_matches(who)
    here.usage.refuse(who, "subscriptions", _unknown(here, who, rows))
    new: dict[str, tuple[int, ResolvedQuery]] = {}
    there: dict[str, Subscription] = {}
    tags: dict[str, Sequence[str]] = {}
    for number, one in enumerate(rows, 1):
        with _in_row(number, one):
            known = who.qualify(one.name)
            tags[known] = checked_tags(one.tags or ())
            resolved = resolved_query(here, who, one)
            found = here.engine.subscription(known)
            if known in new:
                raise NameTaken(f"the name {one.name!r} is in this list twice")
            if found is None:
                new[known] = number, resolved
            elif not _is_same(here, who, found, one, resolved):
                raise NameTaken(
                    f"there is a subscription named {one.name!r} already, with another query"
                )
            else:
                there[known] = found
    if there:
        with here.engine.host.transactions.committed() as state:
            known_now = {name: state.subscriptions.get(name) for name in there}
        if known_now != there:  # not committed, or changed or removed meanwhile
            return subscribe_all(here, who, rows, history=history)
    with here.usage.adding(who, "subscriptions", len(new)):
        for _, resolved in new.values():
            claim(here, who, resolved)
        numbered = list(new.values())
        pairs = [(known, resolved.text) for known, (_, resolved) in new.items()]
        try:
            catalog = here.engine.host.catalog
            if history:
                catalog.subscribe_many_from(pairs, updates=updates == {True})
            else:
                catalog.subscribe_many(pairs, updates=updates == {True})
        except XsclError as error:
            if error.row is None:
                raise
            number, resolved = numbered[error.row - 1]
            with _in_row(number, rows[number - 1]), resolved.as_written():
                raise
    with here.reading() as store:
        set_tags(store, {known: tags[known] for known in new if tags[known]})
    return len(new), len(rows) - len(new)


def _unknown(here: Installation, who: Account, rows: Sequence[SubscriptionRequest]) -> int:
    """Count the new names of a list; cheap, so it precedes parsing the queries."""
    names = set[str]()
    for number, one in enumerate(rows, 1):
        with _in_row(number, one):
            refuse_unaddressable(one.name)
            names.add(who.qualify(one.name))
    return sum(here.engine.subscription(known) is None for known in names)


def refuse_bare(since: str | None) -> None:
    """Raise Problem for a duration without a unit."""
    if since is not None and since.strip().isdecimal():
        number = since.strip()
        raise Problem(
            "duration",
            f"the duration {number} has no unit",
            hint=f"write '{number} d' or '{number} h'",
        )


@contextmanager
def _in_row(number: int, one: SubscriptionRequest) -> Iterator[None]:
    """Set the row number of errors raised in the block."""
    try:
        yield
    except XsclError as error:
        error.row = number
        raise


def claim(here: Installation, who: Account, resolved: ResolvedQuery) -> None:
    """Make a user the owner of the stream to which a query publishes."""
    if resolved.publishes is not None and not who.is_operator:
        here.accounts.claim(who, resolved.publishes)


def unsubscribe(
    here: Installation, who: Account, name: str, *, cascade: bool, purge: bool = False
) -> tuple[str, ...]:
    """Remove a user's subscription; return the engine names of all that were removed.

    Its matches stay, unless they are purged, which is also possible afterwards.
    """
    if purge and here.engine.host.catalog.committed(who.qualify(name)) is None:
        return here.engine.unsubscribe(versions(here, who, name)[0].name, purge=True)
    found = committed(here, who, name)
    removed = here.outbox.unsubscribe(found.name, cascade=cascade, purge=purge)
    here.usage.remove_subscriptions(removed)
    return removed


def versions(here: Installation, who: Account, name: str) -> tuple[Subscription, ...]:
    """Return the versions of a user's subscription whose matches are kept, the oldest first.

    Raises Problem 404 for a name without subscription and matches.
    """
    try:
        return here.engine.host.state.subscriptions.versions(who.qualify(name))
    except UnknownSubscription:
        raise not_found("subscription", name) from None


def existing(here: Installation, who: Account, name: str) -> Subscription:
    """Return a user's subscription; raises Problem 404 if he has none of that name."""
    found = here.engine.subscription(who.qualify(name))
    if found is None:
        raise not_found("subscription", name)
    return found


def committed(here: Installation, who: Account, name: str) -> Subscription:
    """Return a user's subscription as of the last commit, for a change of it.

    Waits for a change that is under way.  Raises Problem 404 if he has none of that name, and
    StoreError if the store cannot be read.
    """
    found = here.engine.host.catalog.committed(who.qualify(name))
    if found is None:
        raise not_found("subscription", name)
    return found


def resolved_query(here: Installation, who: Account, wanted: SubscriptionRequest) -> ResolvedQuery:
    """Return a query with its names resolved; raises Problem for one that only operators may."""
    if wanted.language == XSCL:
        return here.resolver.resolve(who, wanted.query)
    if not who.is_operator:
        raise Problem(
            "operator_only",
            f"queries in {wanted.language} can be registered by the operator only",
            hint="write it in XSCL",
        )
    if SUSPECT.search(wanted.query):
        raise ReservedName("the query names a stream as the service's own are named")
    return ResolvedQuery(wanted.query, wanted.query)


def _is_same(
    here: Installation,
    who: Account,
    found: Subscription,
    wanted: SubscriptionRequest,
    resolved: ResolvedQuery,
) -> bool:
    """Return whether a subscription has the requested text.

    Names keep the meaning of the time of registration, even if the user has created streams of such
    names since.
    """
    if (found.updates, found.language) != (wanted.updates, wanted.language):
        return False
    if found.query == resolved.text:
        return True
    return found.language == XSCL and here.resolver.written(who, found.query) == wanted.query
