"""The use cases of commands on a data directory that no service runs on.

They ask the API in this process, as they ask a running service.  What a service does in its own
threads is done here, in the main thread: histories, polls, and the consumption of the spool.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from feeds.documents import Document
from feeds.formats.opml import FeedOutline
from feeds.spool import Spool
from xscl.cli.document_inputs import placed
from xscl.cli.match_text import MatchReport, match_row
from xscl.cli.progress import working
from xscl.cli.service import FeedPolled, OpenedService
from xscl.client import Diagnosis, Feed, Match, Trial
from xscl.client.bodies import time_of
from xscl.client.calls import read
from xscl.documents.document_validation import Rejection
from xscl.documents.retention import changed_retention
from xscl.engine.backup import Backup, back_up
from xscl.engine.ingest import PushResult
from xscl.errors import XsclError
from xscl.ingestion.data_directory import DataDirectory, clear_executors
from xscl.ingestion.pipeline import Consumer
from xscl.polling.feed import read_header
from xscl.polling.feed_commands import follow, late_items, prepare
from xscl.polling.feed_list import outlines_of
from xscl.polling.feed_poller import PollSettings, poll_now, try_first
from xscl.polling.feed_repository import FeedRepository, FeedRequest, ticks
from xscl.polling.new_items import parts
from xscl.server.in_process import ADDRESS, InProcess
from xscl.server.in_process import opened as opened_installation
from xscl.service.accounts import THE_OPERATOR, AccountError
from xscl.service.app import App, writable_stream
from xscl.service.names import refuse_reserved
from xscl.service.sql.formats import as_stored
from xscl.service.status import status
from xscl.service.tags import checked_tags
from xscl.service.user_data import erase
from xscl.subscriptions.import_rows import ImportRow
from xscl.time_format import SECOND

FIRST_ANSWER = 10.0
"""Seconds to wait for the first answer of a feed."""


@contextmanager
def opened_here(home: DataDirectory, command: str) -> Iterator[LocalService]:
    """Yield the use cases on a data directory, whose lock is held in the name of `command`."""
    with opened_installation(home, command) as app, LocalService(app) as service:
        yield service


class LocalService(OpenedService):
    """A data directory, used with the rights of the operator; the caller holds its lock."""

    is_served = False

    def __init__(self, app: App) -> None:
        super().__init__(ADDRESS, transport=InProcess(app))
        self.app = app
        self.engine = app.engine

    def register(
        self, name: str, query: str, *, tags: Sequence[str] | None = None, **options: Any
    ) -> None:
        """Register a query; a history is found before this returns."""
        refuse_reserved(name)
        checked = checked_tags(tags or ())
        prepare(self.engine)
        self.engine.subscribe(name, query, **options)
        if checked:
            self.tag(name, checked)

    def register_all(self, rows: Sequence[ImportRow]) -> int:
        """Register all rows or none, and return how many are new; errors carry their row."""
        prepare(self.engine)
        return super().register_all(rows)

    def trial(self, text: str, since: str | None, *, is_name: bool) -> Trial:
        """Return the matches of a query, or of a subscription, on the kept documents."""
        trial, reasons = self.engine.queries.tried(text, since)
        return Trial(
            total=len(trial.matches),
            matches=tuple(read(Match, match_row(match)) for match in trial.matches),
            diagnosis=None if reasons is None else Diagnosis.model_validate(reasons),
            late=trial.late,
            lateness=trial.lateness / SECOND,
        )

    def select(self, query: str) -> pa.Table:
        """Return the whole answer of a SELECT."""
        return as_stored(self.engine.sql(query))

    def waiting(self) -> int:
        """Return the number of documents that are not consumed yet."""
        with self.app.store() as store:
            return int(status(store, self.app.home, self.engine)["waiting"])

    # -- Documents -------------------------------------------------------------------------

    @contextmanager
    def take(
        self, documents: Sequence[Document], refused: Sequence[Rejection], report: MatchReport
    ) -> Iterator[dict[str, int | None]]:
        """Consume documents; yield the numbers of `documents`, `new` and `late` ones.

        The matches are acknowledged when the block ends: after a kill before that, the next command
        reports them again.
        """
        first = {stream: one for one in reversed(documents) for stream in one.streams}
        for stream, document in first.items():
            try:
                writable_stream(self.app, THE_OPERATOR, stream)
            except XsclError as error:
                raise XsclError(f"{placed(document)}: {error.message}", hint=error.hint) from error
        self.engine.retain(changed_retention(self.engine.retention))
        self.engine.ingest.refuse(refused)
        spool = self._spool()
        for part in parts(documents):
            spool.append(part, ticks())
        with self._consumed(report, len(documents)) as pushed:
            yield {
                "documents": len(documents),
                "new": sum(one.accepted for one in pushed),
                "late": sum(one.late for one in pushed),
            }

    def _spool(self) -> Spool:
        """Return the spool; raises SpoolError if the engine has consumed another one."""
        self.app.store.spool.numbers(self.engine.ingest.segment, 1)
        return self.app.store.spool

    @contextmanager
    def _consumed(
        self, report: MatchReport, documents: int | None = None
    ) -> Iterator[list[PushResult]]:
        """Consume the spool, yield an outcome by batch; acknowledge matches when the block ends.

        Matches that are printed, not collected for JSON, are acknowledged after each batch, too.
        """
        pushed: list[PushResult] = []
        log = self.engine.log

        def deliver() -> None:
            report(log.undelivered())
            log.acknowledge()

        if report.as_json:
            log.begin_delivery()
        else:
            deliver()  # what the last process committed but perhaps did not print
        with working("joining", documents) as advance:

            def on_pushed(one: PushResult) -> None:
                pushed.append(one)
                advance(one.accepted + one.unchanged + one.rejected)
                if not report.as_json:
                    deliver()

            Consumer(self.app.store.spool, self.engine.ingest, on_pushed=on_pushed).run_once()
        if report.as_json:
            report(log.undelivered())
        yield pushed
        log.acknowledge(durable=True)

    # -- Feeds -----------------------------------------------------------------------------

    def begin_following(
        self, url: str, *, every: int, headers: Sequence[str], keep: bool, **options: Any
    ) -> Feed:
        """Follow a feed and return it; its first poll must succeed unless `keep`.

        Raises FeedsError.
        """
        request = FeedRequest(url, every=every, headers=tuple(map(read_header, headers)), **options)
        with self.app.feeds() as feeds:
            feed, fixed = follow(self.engine, feeds, request)
            error = None if keep else try_first(feeds, feed, PollSettings(seconds=FIRST_ANSWER))
        warnings = (*map(late_items, fixed), *filter(None, [error]))
        return self.feed(feed.key).model_copy(update={"warnings": warnings})

    @contextmanager
    def poll_feeds(
        self, feeds: Sequence[Feed], fetching: PollSettings, report: MatchReport
    ) -> Iterator[list[FeedPolled]]:
        """Poll feeds and consume what is new; yield the outcomes.

        The matches are acknowledged when the block ends, as with `push`.
        """
        self.engine.retain(changed_retention(self.engine.retention))
        spool = self._spool()
        with FeedRepository(self.engine, self.app.home.spool) as table:
            found = {one.key: one for one in table.among([feed.key for feed in feeds])}
            polled = poll_now(table, spool, [found[feed.key] for feed in feeds], fetching)
        with self._consumed(report):
            yield [
                FeedPolled(
                    self.feed(one.feed.key),
                    one.new,
                    None if one.held_until is None else time_of(one.held_until),
                    one.asked,
                )
                for one in polled
            ]

    def outlines(
        self, tag: str | None, *, secrets: bool
    ) -> tuple[Sequence[FeedOutline], Sequence[str]]:
        """Return the feeds as outlines, and the addresses of those left out as secret."""
        with self.app.feeds() as feeds:
            own = [feed for feed in feeds if not feed.owner]
        outlines, secret = outlines_of(
            [feed for feed in own if tag is None or tag in feed.tags], secrets=secrets
        )
        return outlines, [feed.shown_url for feed in secret]

    # -- Administration --------------------------------------------------------------------

    def erase_user(self, name: str) -> None:
        """Erase a user with all data; nobody consumes the spool meanwhile."""
        app, account = self.app, self.app.accounts.users[name]
        if account.is_operator:
            raise AccountError(f"there is no user {name!r}", hint="the operator is none")
        erase(app, account)
        clear_executors(app.home.spark)

    def backup(self, file: Path) -> Backup:
        """Write a backup of the data directory to a file."""
        with closing(self.engine.connect()) as store:
            return back_up(store, file, self.app.home.spool)
