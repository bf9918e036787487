"""Subscribe, change and unsubscribe for a user: name resolution, ownership and quotas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from pydantic import Field
from starlette.concurrency import run_in_threadpool

from cep_core import refuse_bare_windows
from xscl.client.answers import QUERY, History
from xscl.client.calls import Language
from xscl.documents.results import WITHOUT_PAST, XSCL, Subscription
from xscl.engine.catalog import RegistrationOptions
from xscl.errors import NameTaken, QueryError, UnknownSubscription, XsclError
from xscl.language.names import LONGEST_NAME, owner_number
from xscl.planning.event_queries import translated
from xscl.service.accounts import Account
from xscl.service.app import App
from xscl.service.bodies import RequestBody
from xscl.service.names import ReservedName, refuse_unaddressable
from xscl.service.problems import Problem, not_found, refuse_bare
from xscl.service.resolving import SUSPECT, ResolvedQuery
from xscl.service.tags import MOST as MOST_TAGS
from xscl.service.tags import checked_tags, set_tags

_OPTIONS = {"updates": "new versions of documents", "stories": "stories"}
AT_ONCE, SLOW_ONES = 16, 2
"""Maximum numbers of concurrent registrations: of XSCL queries without a backfill, of all others.

Each blocks a thread until it is committed.
"""

PATIENCE = 2.0
"""Maximum seconds for which the answer to a registration waits for its backfill."""


class NewSubscription(RequestBody):
    """A subscription to register."""

    query: str = Field(max_length=1_000_000, examples=[QUERY])
    """The query."""
    updates: bool = False
    """Also match new versions of documents."""
    stories: bool = False
    """Group matches that share documents into stories, each delivered once."""
    language: Language = "xscl"
    """The language of the query; others than xscl are for the operator."""
    since: str | None = Field(default=None, max_length=100, examples=["7 d"])
    """Duration of kept documents to match, counted back from the latest one; default: none."""
    history: bool = True
    """Begin with the newest 1,000 matches of the last 30 days, marked as backfilled."""
    tags: list[str] | None = Field(default=None, max_length=MOST_TAGS, examples=[["daily"]])
    """Its tags; if absent, a subscription that exists already keeps those it has."""


class SubscriptionRequest(NewSubscription):
    """A subscription to register under a name; with `tags` None an existing one keeps its tags."""

    name: str

    @property
    def options(self) -> dict[str, bool]:
        """The arguments of `Engine.subscribe` that must be equal in all rows of a list."""
        return {"updates": self.updates, "stories": self.stories}


def history_of(app: App, found: Subscription) -> History:
    """Return the state of a subscription's backfill."""
    if found.number in app.engine.state.subscriptions.backfills:
        return "reading"
    if found.backfilled < 0:
        return "failed" if found.backfilled == WITHOUT_PAST else "none"
    return "read"


async def subscribe(
    app: App, account: Account, wanted: SubscriptionRequest
) -> tuple[Subscription, bool]:
    """Subscribe idempotently; return the subscription, and True if it is new."""
    refuse_bare(wanted.since, "duration", "d", "h")
    is_slow = wanted.since is not None or wanted.history or wanted.language != XSCL
    most = SLOW_ONES if is_slow else AT_ONCE
    async with app.accounts.limits.registering.hold_async(is_slow, most):
        new, _ = await run_in_threadpool(subscribe_all, app, account, [wanted], is_list=False)
    found = existing(app, account, wanted.name)
    if wanted.tags is not None and not new:
        with app.store() as store:
            set_tags(store, {found.name: checked_tags(wanted.tags)})
    if history_of(app, found) == "reading":
        read = app.engine.catalog.backfills.completion(found.number)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(read)), PATIENCE)
    return existing(app, account, wanted.name), bool(new)


def subscribe_all(
    app: App, account: Account, rows: Sequence[SubscriptionRequest], *, is_list: bool = True
) -> tuple[int, int]:
    """Register queries atomically; return the count of new and of unchanged ones.

    All must have the options of the first one.  With `is_list`, errors have the row's number.  An
    equal registration in memory may not be committed yet; it counts as unchanged only once it is.
    """
    first, catalog = rows[0], app.engine.catalog
    for option, value in first.options.items():
        if any(row.options[option] != value for row in rows):
            raise Problem(
                "mixed_rows",
                f"some rows have {_OPTIONS[option]} ({option}) and some do not",
                hint="import them apart",
            )
    if unknown := _unknown(app, account, rows, is_list=is_list):
        app.accounts.usage.refuse_many_matches(account)
        if is_list:  # refused before its queries are parsed
            app.accounts.usage.refuse(account, "subscriptions", unknown)
    new: dict[str, tuple[int, ResolvedQuery]] = {}
    there: dict[str, Subscription] = {}
    tags: dict[str, Sequence[str]] = {}
    for number, one in enumerate(rows, 1):
        with _in_row(number, is_list=is_list):
            known, wanted = account.qualify(one.name), (one.updates, one.stories, one.language)
            tags[known] = checked_tags(one.tags or ())
            resolved = resolved_query(app, account, one.query, one.language)
            found = app.engine.subscription(known)
            if known in new:
                raise NameTaken(f"the name {one.name!r} is in this list twice")
            if found is None:
                new[known] = number, resolved
            elif wanted != (found.updates, found.stories, found.language) or (
                written(app, account, found) != one.query  # equal texts suffice
            ):
                raise NameTaken(
                    f"there is a subscription named {one.name!r} already, with another query",
                    hint="unsubscribe it first, or choose another name",
                )
            else:
                there[known] = found
    if there:
        with app.engine.transactions.committed() as state:
            known_now = {name: state.subscriptions.get(name) for name in there}
        if known_now != there:  # not committed, or changed or removed meanwhile
            return subscribe_all(app, account, rows, is_list=is_list)
    if not new:
        return 0, len(rows)
    numbered = list(new.values())
    pairs = [(known, resolved.text) for known, (_, resolved) in new.items()]
    history = first.history
    if history and first.language == XSCL:
        with suppress(QueryError):  # the registration raises it again
            history = any(catalog.has_past(query) for _, query in pairs)
    options = RegistrationOptions(
        **first.options, language=first.language, since=first.since, history=history
    )
    register = catalog.subscribe_from if options.from_past else catalog.subscribe
    try:
        with app.accounts.usage.adding(account, "subscriptions", len(new)):
            for _, resolved in numbered:
                claim(app, account, resolved)
            register(pairs, options, numbered=True)
    except NameTaken:
        if all(app.engine.subscription(known) is None for known in new):
            raise
        return subscribe_all(app, account, rows, is_list=is_list)  # another request was faster
    except XsclError as error:
        if error.row is None:
            raise
        number, resolved = numbered[error.row - 1]
        with _in_row(number, is_list=is_list), resolved.as_written():
            raise
    with app.store() as store:
        set_tags(store, {known: tags[known] for known in new if tags[known]})
    return len(new), len(rows) - len(new)


def _unknown(
    app: App, account: Account, rows: Sequence[SubscriptionRequest], *, is_list: bool
) -> int:
    """Return the count of the names in a list that no subscription has."""
    names = set[str]()
    for number, one in enumerate(rows, 1):
        with _in_row(number, is_list=is_list):
            refuse_unaddressable(one.name)
            names.add(account.qualify(one.name))
    return sum(app.engine.subscription(known) is None for known in names)


@contextmanager
def _in_row(number: int, *, is_list: bool) -> Iterator[None]:
    """Set the row number of errors raised in the block, if a list was given."""
    try:
        yield
    except XsclError as error:
        error.row = number if is_list else None
        raise


def claim(app: App, account: Account, resolved: ResolvedQuery) -> None:
    """Make a user the owner of the stream to which a query publishes."""
    if resolved.publishes is not None and not account.is_operator:
        app.accounts.users.claim(account, resolved.publishes)


def unsubscribe(
    app: App, account: Account, name: str, *, cascade: bool, purge: bool = False
) -> tuple[str, ...]:
    """Remove a user's subscription; return the engine names of all that were removed.

    `cascade` also removes the subscriptions that read what only this one publishes.  `purge`
    deletes the matches, also those of a subscription that was removed before.
    """
    if purge and app.engine.catalog.committed(account.qualify(name)) is None:
        return app.engine.unsubscribe(versions(app, account, name)[0].name, purge=True)
    found = committed(app, account, name)
    removed = app.delivery.unsubscribe(found.name, cascade=cascade, purge=purge)
    for one in removed:
        app.accounts.usage.subtract(owner_number(one), "subscriptions")
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


def resolved_query(app: App, account: Account, text: str, language: str) -> ResolvedQuery:
    """Return a query with its names resolved.

    Raises Problem for a language that only the operator may use.
    """
    if language == XSCL:
        return app.accounts.resolver.resolve(account, text)
    if not account.is_operator:
        raise Problem(
            "operator_only",
            f"queries in {language} can be registered by the operator only",
            hint="write it in XSCL",
        )
    if SUSPECT.search(text):
        raise ReservedName("the query names a stream as the service's own are named")
    with translated():
        refuse_bare_windows(text, language)
    return ResolvedQuery(text, text)


def written(app: App, account: Account, found: Subscription) -> str:
    """Return the query of a subscription as its owner wrote it."""
    xscl = found.language == XSCL
    return app.accounts.resolver.written(account, found.query) if xscl else found.query


class SubscriptionEdit(RequestBody):
    """A change of a subscription; what is absent or null stays as it is."""

    query: str | None = Field(default=None, max_length=1_000_000, examples=[QUERY])
    """Another query: the next version."""
    updates: bool | None = Field(default=None, examples=[True])
    """Also match new versions of documents."""
    stories: bool | None = Field(default=None, examples=[True])
    """Group matches that share documents into stories; no new version."""
    language: Language | None = Field(default=None, examples=["xscl"])
    """The language of the query."""
    name: str | None = Field(
        default=None, min_length=1, max_length=LONGEST_NAME, examples=["echoes"]
    )
    """Another name."""
    paused: bool | None = Field(default=None, examples=[True])
    """True to pause it, false to resume it."""
    tags: list[str] | None = Field(default=None, max_length=MOST_TAGS, examples=[["daily"]])
    """Its tags; replaces the whole list."""


def change(app: App, account: Account, name: str, wanted: SubscriptionEdit) -> Subscription:
    """Change a user's subscription, with its deliveries and listeners; return the changed one."""
    found = committed(app, account, name)
    how = wanted.model_dump(include={"updates", "stories", "language", "paused"})
    if wanted.name is not None:
        how["rename"] = account.qualify(wanted.name)
        refuse_unaddressable(how["rename"])
    tags = None if wanted.tags is None else checked_tags(wanted.tags)
    text = wanted.query
    is_written = found.language == XSCL and written(app, account, found) == text
    if text is None or (is_written and wanted.language in (None, XSCL)):
        changed = app.delivery.edit(found.name, **how)
    else:
        app.accounts.usage.refuse_many_matches(account)
        query = resolved_query(app, account, text, wanted.language or found.language)
        claim(app, account, query)
        with query.as_written():
            changed = app.delivery.edit(found.name, query.text, **how)
    if tags is not None:
        with app.store() as store:
            set_tags(store, {changed.name: tags})
    return changed
