"""The use cases of the command line on a data directory that no service runs on, in this process.

`RemoteService` has the same methods over HTTP; see `xscl.cli.service`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

from feeds.documents import Document
from feeds.formats.opml import FeedOutline
from feeds.spool import Spool
from xscl.cli.feed_rows import TIMES, PollOutcome, Row
from xscl.cli.match_report import MatchReport
from xscl.cli.output import warn
from xscl.cli.progress import working
from xscl.cli.trial_outcome import TrialOutcome
from xscl.delivery.endpoint import Endpoint, Webhook
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.delivery.syndication.secret_addresses import SecretAddresses
from xscl.documents.document_validation import Refusal
from xscl.documents.results import Subscription
from xscl.documents.retention import changed_retention
from xscl.engine.backup import Backup, back_up
from xscl.engine.facade import Engine
from xscl.engine.ingest import PushResult
from xscl.errors import NameTaken, UnknownSubscription, XsclError
from xscl.ingestion.data_directory import DataDirectory, clear_executors
from xscl.ingestion.engine_sink import EngineSink
from xscl.ingestion.pipeline import Consumer
from xscl.inspection.diagnosis import Diagnosis
from xscl.inspection.unseen_names import UnseenName
from xscl.inspection.why import Why
from xscl.language.names import EVERYTHING
from xscl.language.windows import refuse_bare_windows
from xscl.planning.truncations import Stopped
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed import EVERY, Feed, Headers
from xscl.polling.feed_admission import FeedRequest
from xscl.polling.feed_commands import FeedChange, allow_late, edit, follow, late_items, prepare
from xscl.polling.feed_list import ImportLine, import_outlines, outlines_of
from xscl.polling.feed_poller import PollSettings, poll_now, try_first
from xscl.polling.feed_repository import FeedRepository, ItemCounts, feed_row, ticks
from xscl.polling.hub_lease import HubLease
from xscl.polling.new_items import parts
from xscl.service.accounts import THE_OPERATOR, AccountError, Accounts
from xscl.service.document_bindings import DocumentBindings, spooled, witness
from xscl.service.names import refuse_reserved
from xscl.service.stars import MOST, star_row, stars
from xscl.service.status import ServiceStatus, status
from xscl.service.subscription_change import SubscriptionChange, version_row
from xscl.service.tags import checked_tags, set_tags
from xscl.service.tokens import Tokens
from xscl.service.user_data import UserData
from xscl.store.queries.tags import tags_of
from xscl.store.store import Store
from xscl.subscriptions.import_rows import ImportRow
from xscl.subscriptions.match import Match
from xscl.time_format import SECOND, written

FIRST_ANSWER = 10.0
"""Seconds in which the first answer of a feed is waited for."""


def _endpoint_row(one: Endpoint) -> Row:
    """Return an endpoint as the service shows it, as far as commands print it."""
    plain = {"id": one.id, "kind": one.channel.kind, "state": one.state, "note": one.note}
    return {**plain, "to": asdict(one.channel)}


@dataclass(frozen=True, slots=True)
class LocalService:
    """A data directory, used with the rights of the operator; who calls holds its lock."""

    home: DataDirectory
    engine: Engine
    is_served = False

    # -- Subscriptions ---------------------------------------------------------------------

    def subscription(self, name: str) -> Row | None:
        """Return a subscription by its name, None if there is none."""
        refuse_reserved(name)
        found = self.engine.subscription(name)
        return None if found is None else self._shown(found)

    def subscriptions(self) -> list[Row]:
        """Return the operator's subscriptions in the order of their names."""
        found = sorted(filter(_is_own, self.engine.subscriptions), key=lambda one: one.name)
        tags = self._tags([one.name for one in found])
        return [self._shown(one, tags) for one in found]

    def _tags(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        with self._reading() as store:
            return tags_of(store, names)

    def _reading(self) -> closing[Store]:
        return closing(self.engine.host.connect())

    def _shown(self, one: Subscription, tags: Mapping[str, tuple[str, ...]] | None = None) -> Row:
        stopped, queries = self.engine.stopped(one.name), self.engine.host.queries
        return {
            "name": one.name,
            "query": one.query,
            "language": one.language,
            "reads": list(one.reads),
            "publishes": one.publish,
            "template": one.template,
            "updates": one.updates,
            "version": one.version,
            "paused": one.is_paused,
            "tags": list((self._tags([one.name]) if tags is None else tags)[one.name]),
            "stopped": None if stopped is None else _stopped(stopped),
            "unevaluated": [each._asdict() for each in queries.unevaluated(one.name)],
            "refused": self.engine.host.refused(one.name),
        }

    def names_like(self, prefix: str) -> list[str]:
        """Return names of subscriptions with a prefix."""
        names = (one.name for one in self.engine.subscriptions if _is_own(one))
        return [name for name in names if name.startswith(prefix)]

    def streams(self) -> set[str]:
        """Return the names of all known streams but those of users."""
        rows = self.engine.sql("SELECT stream FROM watermarks WHERE documents > 0").to_pylist()
        known = self.engine.host.state.streams.known().union(row["stream"] for row in rows)
        return {name for name in known if THE_OPERATOR.own(name) is not None}

    def listed_streams(self) -> list[Row]:
        """Return the streams in the order of their names, with the numbers of their documents."""
        rows = self.engine.sql("SELECT stream, documents FROM watermarks").to_pylist()
        counts = {row["stream"]: row["documents"] for row in rows}
        names = sorted({EVERYTHING, *self.streams()})
        return [{**self._stream(name), "documents": counts.get(name, 0)} for name in names]

    def set_stream(self, name: str, lateness: int | None, live: bool | None) -> Row:
        """Set the lateness of a stream in ticks, and if it is live; None stays. Return it."""
        refuse_reserved(name)
        self.engine.stream(
            name,
            lateness=self.engine.lateness(name) if lateness is None else lateness,
            live=self.engine.is_live(name) if live is None else live,
        )
        return self._stream(name)

    def _stream(self, name: str) -> Row:
        lateness = self.engine.lateness(name) / SECOND
        return {"name": name, "lateness": lateness, "live": self.engine.is_live(name)}

    def subscribe(
        self,
        name: str,
        query: str,
        *,
        updates: bool,
        language: str,
        since: str | None,
        history: bool = False,
    ) -> Sequence[str]:
        """Register a query; return the streams that it reads."""
        refuse_reserved(name)
        prepare(self.engine)
        self.engine.subscribe(
            name, query, updates=updates, language=language, since=since, history=history
        )
        found = self.engine.subscription(name)
        assert found is not None
        return found.reads

    def add_webhook(self, name: str, url: str) -> Row:
        """Post the matches of a subscription from now on; return the id and the secret."""
        with self._endpoints() as endpoints:
            made, secret = endpoints.add(
                name, Webhook(url), self.engine.host.log.pages().position()
            )
        return {"id": made.id, "secret": secret}

    def endpoints(self, name: str) -> list[Row]:
        """Return the endpoints of a subscription."""
        with self._endpoints() as endpoints:
            return [_endpoint_row(one) for one in endpoints.of(name)]

    def rotate(self, name: str, id: str, url: str | None) -> Row:
        """Rotate the secret of a webhook, with another address if one is given.

        Return its id, the secret, its state and what it still lacks.
        """
        with self._endpoints() as endpoints:
            if url is not None:
                channel = endpoints[id].channel
                assert isinstance(channel, Webhook)
                endpoints.redirect(id, replace(channel, url=url))
            secret = endpoints.rotate(id)
            return {**_endpoint_row(endpoints[id]), "secret": secret}

    def edit(self, name: str, change: SubscriptionChange) -> Row:
        """Change a subscription; return it."""
        refuse_reserved(change.name or name)
        return self._shown(change.apply(self.engine.edit, name, self._reading))

    def versions(self, name: str) -> list[Row]:
        """Return the queries whose matches are kept under a name, the oldest first."""
        refuse_reserved(name)
        versions = self.engine.host.state.subscriptions.versions
        try:
            return [version_row(one, one.query) for one in versions(name)]
        except UnknownSubscription:
            return []

    def removed(self) -> list[Row]:
        """Return the last versions of removed subscriptions whose matches are kept."""
        names = self.engine.host.state.subscriptions.removed()
        return [self.versions(name)[-1] for name in sorted(names) if THE_OPERATOR.own(name)]

    def unsubscribe(
        self, name: str, *, cascade: bool = False, purge: bool = False
    ) -> Sequence[str]:
        """Remove a subscription, with `cascade` those that read its stream; return their names."""
        with self._endpoints() as endpoints:
            removed = self.engine.unsubscribe(name, cascade=cascade, purge=purge)
            endpoints.follow_removal(removed)
        return removed

    def _endpoints(self) -> closing[Endpoints]:
        secrets = secrets_in(self.home.path / NAME)
        return closing(Endpoints(self.engine.host.connect(), secrets))

    def import_rows(self, rows: Sequence[ImportRow]) -> int:
        """Register all rows or none, and return how many are new; errors carry their row."""
        prepare(self.engine)
        fresh = []
        for number, row in enumerate(rows, 1):
            try:
                if self._is_fresh(row):
                    fresh.append((number, row))
            except XsclError as error:
                error.row = number
                raise
        tags = {row.name: checked_tags(row.tags) for _, row in fresh if row.tags}
        pairs = [(row.name, row.query) for _, row in fresh]
        try:
            self.engine.subscribe_many(pairs, updates=rows[0].updates)
        except XsclError as error:
            if error.row is not None:
                error.row = fresh[error.row - 1][0]
            raise
        with self._reading() as store:
            set_tags(store, tags)
        return len(fresh)

    def _is_fresh(self, row: ImportRow) -> bool:
        """Tell a new row from a registered one; raise NameTaken if its name has another query."""
        refuse_reserved(row.name)
        refuse_bare_windows(row.query)
        found = self.engine.subscription(row.name)
        if found is not None and (found.query, found.updates) != (row.query, row.updates):
            raise NameTaken(
                f"there is a subscription named {row.name!r} already, with another query"
            )
        return found is None

    # -- Questions -------------------------------------------------------------------------

    def matches(self, name: str) -> Iterator[Match]:
        """Yield the kept matches of a subscription, oldest first."""
        return (match for match in self.engine.matches() if match.subscription == name)

    def stars(self) -> list[Row]:
        """Return the starred matches, the last starred first."""
        with self._reading() as store:
            return [star_row(one) for one in stars(store, THE_OPERATOR, MOST)]

    def try_query(self, text: str, since: str | None, *, named: bool) -> TrialOutcome:
        """Return the matches of a query, or of a named subscription, on the kept documents."""
        queries = self.engine.host.queries
        trial = queries.trial(text, since)
        found, late = trial.matches, (trial.late, trial.lateness)
        diagnosis = None if found else queries.diagnose(text, since, tried=True)
        return TrialOutcome(found, diagnosis, *late)

    def diagnose(self, text: str, since: str | None, *, named: bool) -> Diagnosis:
        """Return the reasons why a query, or a named subscription, has no match."""
        return self.engine.why(text, since=since)

    def unseen_names(self, query: str) -> Sequence[UnseenName]:
        """Return the names in a query that were never seen; raises QueryError."""
        return self.engine.host.queries.unseen_names(query, THE_OPERATOR.visible)

    def why(self, text: str, documents: Sequence[str], *, named: bool) -> Why:
        """Return the conditions of a match of some documents."""
        read = partial(spooled, self.engine, directory=self.home.spool)
        return self.engine.why(text, *documents, read=read)

    def explain(self, text: str, *, named: bool, sql: bool = False) -> str:
        """Return the explanation of a query: join graph, template, state."""
        return THE_OPERATOR.shown(self.engine.explain(text, sql=sql))

    def witness(self, document: str) -> DocumentBindings:
        """Return the nodes of a document, with the variables bound to each."""
        return witness(self.engine, document, self.home.spool)

    def sql(self, query: str) -> pa.Table:
        """Return the answer of a SELECT."""
        return self.engine.sql(query)

    def status(self) -> ServiceStatus:
        """Return the figures of the data directory."""
        with closing(self.engine.host.connect()) as store:
            return status(store, self.home, self.engine)

    def waiting(self) -> int:
        """Return the number of documents that are not consumed yet."""
        return self.status().waiting

    # -- Documents -------------------------------------------------------------------------

    @contextmanager
    def push(
        self, documents: Sequence[Document], refused: Sequence[Refusal], report: MatchReport
    ) -> Iterator[dict[str, int | None]]:
        """Take documents in; yield their counts.

        The matches are acknowledged when the block ends: after a kill before that, the next command
        reports them again.
        """
        self.engine.retain(changed_retention(self.engine.retention))
        self.engine.host.ingest.refuse(refused)
        with self._spool() as spool:
            for part in parts(documents):
                spool.append(part, ticks())
            with self._consumed(spool, report, len(documents)) as pushed:
                yield {
                    "documents": len(documents),
                    "new": sum(one.accepted for one in pushed),
                    "late": sum(one.late for one in pushed),
                }

    @contextmanager
    def _spool(self) -> Iterator[Spool]:
        """Open the spool; raises SpoolError if the engine has consumed another one."""
        with Spool(self.home.spool) as spool:
            spool.numbers(self.engine.host.ingest.segment, 1)
            yield spool

    @contextmanager
    def _consumed(
        self, spool: Spool, report: MatchReport, documents: int | None = None
    ) -> Iterator[list[PushResult]]:
        """Consume the spool, yield the outcomes; acknowledge the matches when the block ends.

        Matches that are printed as they come are acknowledged batch by batch, too.
        """
        pushed: list[PushResult] = []
        log, is_streamed = self.engine.host.log, not report.as_json
        with EngineSink(self.engine, report, tells=is_streamed) as sink:
            if not is_streamed:
                report(log.undelivered())
            with working("joining", documents) as advance:

                def on_pushed(one: PushResult) -> None:
                    pushed.append(one)
                    advance(one.accepted + one.unchanged + one.rejected)

                Consumer(spool, replace(sink, on_pushed=on_pushed)).run_once()
            yield pushed
        log.acknowledge(durable=True)

    # -- Feeds -----------------------------------------------------------------------------

    def feeds(self) -> list[Row]:
        """Return the operator's feeds in the order in which they were added."""
        with self._feeds() as feeds:
            return _rows(_own_feeds(feeds), feeds.counts(), feeds.leases())

    def follow(
        self, url: str, stream: str | None, tags: Sequence[str], every: int, headers: Headers
    ) -> tuple[Row, Sequence[str]]:
        """Follow a feed; return it, and warnings."""
        with self._feeds() as feeds:
            wanted = FeedRequest(url, stream, tags, every, headers)
            feed, fixed = follow(self.engine, feeds, wanted)
            try_first(feeds, feed, PollSettings(seconds=FIRST_ANSWER))
            return _rows([feed], {}, {})[0], [late_items(name) for name in fixed]

    def edit_feed(self, feed: Row, change: FeedChange) -> tuple[Row, Sequence[str]]:
        """Change a feed; return it, and warnings."""
        with self._feeds() as feeds:
            (found,) = feeds.among([feed["key"]])
            changed, fixed = edit(self.engine, feeds, found, change, ticks())
            keys = [changed.key]
            (row,) = _rows([changed], feeds.counts(keys), feeds.leases(keys))
        return row, [late_items(name) for name in fixed]

    def remove_feed(self, feed: Row) -> None:
        """Stop following a feed."""
        with self._feeds() as feeds:
            (found,) = feeds.among([feed["key"]])
            feeds.remove(found)

    def polls(self, feed: Row) -> list[Row]:
        """Return the last polls of a feed, the newest first."""
        with self._feeds() as feeds:
            (found,) = feeds.among([feed["key"]])
            polls = feeds.polls(found)
        return [
            asdict(one) | {"polled": written(one.polled), "failed": one.is_failed} for one in polls
        ]

    @contextmanager
    def poll_feeds(
        self, feeds: Sequence[Row], fetching: PollSettings, report: MatchReport
    ) -> Iterator[list[PollOutcome]]:
        """Poll feeds and consume what is new; yield the outcomes.

        The matches are acknowledged when the block ends, as with `push`.
        """
        self.engine.retain(changed_retention(self.engine.retention))
        with self._spool() as spool, self._feeds() as table:
            found = {one.key: one for one in table.among([one["key"] for one in feeds])}
            chosen = [found[one["key"]] for one in feeds]
            polled = poll_now(table, spool, chosen, fetching)
            with self._consumed(spool, report):
                rows = _rows((each.feed for each in polled), table.counts(), table.leases())
                yield [
                    PollOutcome(row, each.new, _written(each.held_until), each.asked)
                    for row, each in zip(rows, polled, strict=True)
                ]

    def import_feeds(
        self, body: bytes, outlines: Sequence[FeedOutline], tags: Sequence[str]
    ) -> Sequence[ImportLine]:
        """Follow the feeds of a list; return the outcome of each outline."""
        with self._feeds() as feeds:
            taken = import_outlines(feeds, outlines, tags, EVERY)
            fixed = allow_late(self.engine, taken.feeds)
        if fixed:
            warn(
                f"subscriptions to {', '.join(sorted(fixed)[:10])} may miss older items of these"
                " feeds: their allowance for late items was fixed when they were made; follow feeds"
                " before you subscribe to their streams"
            )
        return taken.lines

    def export_feeds(
        self, tag: str | None, *, secrets: bool
    ) -> tuple[Sequence[FeedOutline], Sequence[str]]:
        """Return the feeds as outlines, and the addresses of those left out as secret."""
        with self._feeds() as feeds:
            chosen = [feed for feed in _own_feeds(feeds) if tag is None or tag in feed.tags]
        outlines, secret = outlines_of(chosen, secrets=secrets)
        return outlines, [feed.shown_url for feed in secret]

    def _feeds(self) -> FeedRepository:
        return FeedRepository(self.engine, self.home.spool)

    # -- Administration --------------------------------------------------------------------

    def create_token(self, user: str | None, label: str) -> Row:
        """Make a token; its text is in this answer only."""
        with self._tokens() as (accounts, tokens):
            account = THE_OPERATOR if user is None else accounts.make(user)
            made, text = tokens.create(account, label)
        return {"id": made.id, "user": account.name, "label": label, "token": text}

    def tokens(self) -> list[Row]:
        """Return the tokens without their secrets."""
        with self._tokens() as (accounts, tokens):
            names = {one.number: one.name for one in accounts}
            return [
                {
                    "id": one.id,
                    "user": names[one.account],
                    "label": one.label,
                    "created": written(one.created),
                }
                for one in tokens.of()
            ]

    def revoke_token(self, id: str) -> None:
        """Revoke a token."""
        with self._tokens() as (_, tokens):
            tokens.revoke(id)

    def user_data(self, name: str) -> Iterator[Row]:
        """Yield all data of a user, each value with its `kind`."""
        with (
            self._data_of(name) as data,
            self._endpoints() as endpoints,
            closing(SecretAddresses(self.engine.host.connect())) as addresses,
        ):
            yield from data.export(endpoints, addresses)

    def erase_user(self, name: str) -> None:
        """Erase a user with all data."""
        with self._data_of(name) as data, Spool(self.home.spool) as spool:
            data.erase(self.unsubscribe, spool)
        clear_executors(self.home.spark)

    @contextmanager
    def _data_of(self, name: str) -> Iterator[UserData]:
        with self._tokens() as (accounts, tokens), self._feeds() as feeds:
            who = accounts[name]
            if who.is_operator:
                raise AccountError(f"there is no user {name!r}", hint="the operator is none")
            yield UserData(self.engine, accounts, tokens, feeds, who)

    @contextmanager
    def _tokens(self) -> Iterator[tuple[Accounts, Tokens]]:
        with closing(self.engine.host.connect()) as store:
            accounts = Accounts(store)
            yield accounts, Tokens(store, accounts)

    def backup(self, file: Path) -> Backup:
        """Write a backup of the data directory to a file."""
        with closing(self.engine.host.connect()) as store:
            return back_up(store, file, self.home.spool)


def _is_own(one: Subscription) -> bool:
    """Tell a subscription of the operator from those of users."""
    return THE_OPERATOR.own(one.name) is not None


def _own_feeds(feeds: FeedRepository) -> list[Feed]:
    """Return the operator's feeds in the order in which they were added."""
    return [feed for feed in feeds if not feed.owner]


def _stopped(stopped: Stopped) -> Row:
    """Return the cut of a subscription as the API shows it."""
    return {name: getattr(stopped, name) for name in ("documents", "results", "incomplete")}


def _rows(
    feeds: Iterable[Feed], counts: Mapping[str, ItemCounts], leases: Mapping[str, HubLease]
) -> list[Row]:
    """Return feeds as the API shows them: with the numbers of items by key, times as texts."""
    rows = [
        feed_row(feed, counts.get(feed.key, ItemCounts()), leases.get(feed.key)) for feed in feeds
    ]
    return [row | {name: _written(row[name]) for name in TIMES} for row in rows]


def _written(time: int | None) -> str | None:
    """Return a time in ticks as text, None for None."""
    return None if time is None else written(time)
