"""Subscribe, change and unsubscribe for a user: name resolution, ownership and quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from starlette.concurrency import run_in_threadpool

from cep_core import refuse_bare_windows
from xscl.client.answers import History
from xscl.documents.results import WITHOUT_PAST, XSCL, Subscription
from xscl.engine.catalog import RegistrationOptions
from xscl.errors import NameTaken, UnknownSubscription, XsclError
from xscl.planning.event_queries import translated
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.names import ReservedName, refuse_unaddressable
from xscl.service.problems import Problem, not_found
from xscl.service.resolving import SUSPECT, ResolvedQuery
from xscl.service.tags import checked_tags, set_tags

_OPTIONS = {"updates": "new versions of documents", "stories": "stories"}
AT_ONCE, SLOW_ONES = 16, 2
"""Concurrent registrations: of plain queries, of queries of events and of what is kept.

Each blocks a thread until it is committed.
"""

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
    stories: bool = False
    language: str = XSCL
    since: str | None = None
    history: bool = False
    tags: Sequence[str] | None = None

    @property
    def options(self) -> dict[str, bool]:
        """The arguments of `Engine.subscribe` that rows of one list have in common."""
        return {"updates": self.updates, "stories": self.stories}


def history_of(app: App, found: Subscription) -> History:
    """Return the state of a subscription's history."""
    if found.number in app.engine.state.subscriptions.backfills:
        return "reading"
    if found.backfilled < 0:
        return "failed" if found.backfilled == WITHOUT_PAST else "none"
    return "read"


async def subscribe(
    app: App, account: Account, wanted: SubscriptionRequest
) -> tuple[Subscription, bool]:
    """Subscribe idempotently; return the subscription and whether it is new."""
    refuse_bare(wanted.since)
    refuse_unaddressable(wanted.name)
    tags = checked_tags(wanted.tags or ())
    known = account.qualify(wanted.name)
    resolved = await run_in_threadpool(resolved_query, app, account, wanted)
    is_new = app.engine.subscription(known) is None
    if is_new:
        await _register(app, account, wanted, resolved)
        found = existing(app, account, wanted.name)
    else:
        # What is in memory may not be committed yet, so only what is committed is acknowledged.
        there = await run_in_threadpool(app.engine.catalog.committed, known)
        if there is None:
            return await subscribe(app, account, wanted)
        found = there
        if not _is_same(app, account, found, wanted, resolved):
            raise NameTaken(
                f"there is a subscription named {wanted.name!r} already, with another query",
                hint="unsubscribe it first, or choose another name",
            )
    if wanted.tags is not None:
        with app.store() as store:
            set_tags(store, {found.name: tags})
    if history_of(app, found) == "reading":
        read = app.engine.catalog.backfills.completion(found.number)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(read)), PATIENCE)
    return existing(app, account, wanted.name), is_new


async def _register(
    app: App, account: Account, wanted: SubscriptionRequest, resolved: ResolvedQuery
) -> None:
    """Register a query under a name that seems to be free, and wait until it is committed."""
    app.accounts.usage.refuse_many_matches(account)
    known = account.qualify(wanted.name)
    is_slow = wanted.since is not None or wanted.history or wanted.language != XSCL
    most = SLOW_ONES if is_slow else AT_ONCE
    try:
        with app.accounts.usage.adding(account, "subscriptions"), resolved.as_written():
            async with app.accounts.limits.registering.hold_async(is_slow, most):
                await run_in_threadpool(claim, app, account, resolved)
                await run_in_threadpool(_register_in_engine, app, known, resolved.text, wanted)
    except NameTaken:  # unless another request has registered the same
        found = app.engine.subscription(known)
        if found is None or not _is_same(app, account, found, wanted, resolved):
            raise


def _register_in_engine(app: App, known: str, query: str, wanted: SubscriptionRequest) -> None:
    """Register a query durably; without kept documents there is no past to begin with."""
    catalog, language, since = app.engine.catalog, wanted.language, wanted.since
    history = wanted.history and (language != XSCL or catalog.has_past(query))
    options = RegistrationOptions(**wanted.options, language=language, since=since, history=history)
    register = catalog.subscribe_from if options.from_past else catalog.subscribe
    register([(known, query)], options)


def subscribe_all(
    app: App,
    account: Account,
    rows: Sequence[SubscriptionRequest],
    *,
    history: bool = False,
) -> tuple[int, int]:
    """Register a list of queries atomically; return the numbers of new and unchanged ones.

    With `history` each begins with the matches of what is kept, which are found afterwards.
    """
    options = rows[0].options
    for option, value in options.items():
        if any(one.options[option] != value for one in rows):
            raise Problem(
                "mixed_rows",
                f"some rows have {_OPTIONS[option]} ({option}) and some do not",
                hint="import them apart",
            )
    app.accounts.usage.refuse_many_matches(account)
    app.accounts.usage.refuse(account, "subscriptions", _unknown(app, account, rows))
    new: dict[str, tuple[int, ResolvedQuery]] = {}
    there: dict[str, Subscription] = {}
    tags: dict[str, Sequence[str]] = {}
    for number, one in enumerate(rows, 1):
        with _in_row(number, one):
            known = account.qualify(one.name)
            tags[known] = checked_tags(one.tags or ())
            resolved = resolved_query(app, account, one)
            found = app.engine.subscription(known)
            if known in new:
                raise NameTaken(f"the name {one.name!r} is in this list twice")
            if found is None:
                new[known] = number, resolved
            elif not _is_same(app, account, found, one, resolved):
                raise NameTaken(
                    f"there is a subscription named {one.name!r} already, with another query"
                )
            else:
                there[known] = found
    if there:
        with app.engine.transactions.committed() as state:
            known_now = {name: state.subscriptions.get(name) for name in there}
        if known_now != there:  # not committed, or changed or removed meanwhile
            return subscribe_all(app, account, rows, history=history)
    with app.accounts.usage.adding(account, "subscriptions", len(new)):
        for _, resolved in new.values():
            claim(app, account, resolved)
        numbered = list(new.values())
        pairs = [(known, resolved.text) for known, (_, resolved) in new.items()]
        try:
            catalog = app.engine.catalog
            register = catalog.subscribe_from if history else catalog.subscribe
            register(
                pairs,
                RegistrationOptions(**options, language=XSCL, since=None, history=history),
                numbered=True,
            )
        except XsclError as error:
            if error.row is None:
                raise
            number, resolved = numbered[error.row - 1]
            with _in_row(number, rows[number - 1]), resolved.as_written():
                raise
    with app.store() as store:
        set_tags(store, {known: tags[known] for known in new if tags[known]})
    return len(new), len(rows) - len(new)


def _unknown(app: App, account: Account, rows: Sequence[SubscriptionRequest]) -> int:
    """Count the new names of a list; cheap, so it precedes parsing the queries."""
    names = set[str]()
    for number, one in enumerate(rows, 1):
        with _in_row(number, one):
            refuse_unaddressable(one.name)
            names.add(account.qualify(one.name))
    return sum(app.engine.subscription(known) is None for known in names)


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


def claim(app: App, account: Account, resolved: ResolvedQuery) -> None:
    """Make a user the owner of the stream to which a query publishes."""
    if resolved.publishes is not None and not account.is_operator:
        app.accounts.users.claim(account, resolved.publishes)


def unsubscribe(
    app: App, account: Account, name: str, *, cascade: bool, purge: bool = False
) -> tuple[str, ...]:
    """Remove a user's subscription; return the engine names of all that were removed.

    Its matches stay, unless they are purged, which is also possible afterwards.
    """
    if purge and app.engine.catalog.committed(account.qualify(name)) is None:
        return app.engine.unsubscribe(versions(app, account, name)[0].name, purge=True)
    found = committed(app, account, name)
    removed = app.delivery.unsubscribe(found.name, cascade=cascade, purge=purge)
    app.accounts.usage.remove_subscriptions(removed)
    return removed


def versions(app: App, account: Account, name: str) -> tuple[Subscription, ...]:
    """Return the versions of a user's subscription whose matches are kept, the oldest first.

    Raises Problem 404 for a name without subscription and matches.
    """
    try:
        return app.engine.state.subscriptions.versions(account.qualify(name))
    except UnknownSubscription:
        raise not_found("subscription", name) from None


def existing(app: App, account: Account, name: str) -> Subscription:
    """Return a user's subscription; raises Problem 404 if he has none of that name."""
    found = app.engine.subscription(account.qualify(name))
    if found is None:
        raise not_found("subscription", name)
    return found


def committed(app: App, account: Account, name: str) -> Subscription:
    """Return a user's subscription as of the last commit, for a change of it.

    Waits for a change that is under way.  Raises Problem 404 if he has none of that name, and
    StoreError if the store cannot be read.
    """
    found = app.engine.catalog.committed(account.qualify(name))
    if found is None:
        raise not_found("subscription", name)
    return found


def resolved_query(app: App, account: Account, wanted: SubscriptionRequest) -> ResolvedQuery:
    """Return a query with its names resolved; raises Problem for one that only operators may."""
    if wanted.language == XSCL:
        return app.accounts.resolver.resolve(account, wanted.query)
    if not account.is_operator:
        raise Problem(
            "operator_only",
            f"queries in {wanted.language} can be registered by the operator only",
            hint="write it in XSCL",
        )
    if SUSPECT.search(wanted.query):
        raise ReservedName("the query names a stream as the service's own are named")
    with translated():
        refuse_bare_windows(wanted.query, wanted.language)
    return ResolvedQuery(wanted.query, wanted.query)


def _is_same(
    app: App,
    account: Account,
    found: Subscription,
    wanted: SubscriptionRequest,
    resolved: ResolvedQuery,
) -> bool:
    """Return whether a subscription has the requested text.

    Names keep the meaning of the time of registration, even if the user has created streams of such
    names since.
    """
    if (found.updates, found.stories, found.language) != (
        *wanted.options.values(),
        wanted.language,
    ):
        return False
    if found.query == resolved.text:
        return True
    return (
        found.language == XSCL
        and app.accounts.resolver.written(account, found.query) == wanted.query
    )


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """A change of a subscription; None leaves something as it is, `name` is another one."""

    query: str | None = None
    updates: bool | None = None
    stories: bool | None = None
    language: str | None = None
    name: str | None = None
    paused: bool | None = None
    tags: Sequence[str] | None = None


def change(app: App, account: Account, name: str, wanted: SubscriptionChange) -> Subscription:
    """Change a user's subscription, and make its deliveries follow."""
    found = committed(app, account, name)
    how: dict[str, Any] = {
        "updates": wanted.updates,
        "stories": wanted.stories,
        "language": wanted.language,
        "paused": wanted.paused,
    }
    if wanted.name is not None:
        how["rename"] = account.qualify(wanted.name)
        refuse_unaddressable(how["rename"])
    tags = None if wanted.tags is None else checked_tags(wanted.tags)
    text = wanted.query
    is_written = (
        text is not None
        and found.language == XSCL
        and app.accounts.resolver.written(account, found.query) == text
    )
    if text is None or (is_written and wanted.language in (None, XSCL)):
        changed = app.delivery.edit(found.name, **how)
    else:
        app.accounts.usage.refuse_many_matches(account)
        request = SubscriptionRequest(name, text, language=wanted.language or found.language)
        query = resolved_query(app, account, request)
        claim(app, account, query)
        with query.as_written():
            changed = app.delivery.edit(found.name, query.text, **how)
    if tags is not None:
        with app.store() as store:
            set_tags(store, {changed.name: tags})
    return changed
