"""The service that a command works on: a data directory, or a process that serves one.

A command parses arguments, asks an `OpenedService`, and prints.  An `OpenedService` is the typed
client of the HTTP API of a running service, or of the same API in this process
(`xscl.cli.in_process`).  Its own methods send several requests, or differ without a service.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xscl.cli.output import UsageError, warn
from xscl.cli.progress import progress
from xscl.client import Client, Feed, Refused, Subscription, Trial
from xscl.client.calls import PAGE, resource
from xscl.errors import NameTaken, UnknownSubscription, near_miss
from xscl.time_format import EARLIEST, LATEST, written

if TYPE_CHECKING:  # sending a request loads neither Arrow nor the engine
    import pyarrow as pa

    from feeds.documents import Document
    from feeds.formats.opml import FeedOutline
    from xscl.cli.match_text import MatchReport
    from xscl.documents.document_validation import Rejection
    from xscl.engine.backup import Backup
    from xscl.polling.feed_poller import PollSettings
    from xscl.subscriptions.import_rows import ImportRow

LONGEST_NAME = 500
"""The most characters of a name of a subscription in the API."""

_UNREADABLE = ("xml_", "json_", "not_a_feed")
"""Beginnings of the codes of problems with the text of a document."""

_ROWS = 100_000  # the most rows in an answer to SQL
_AGAIN = 0.3  # seconds between looks at a history that is being read
_BATCH_BYTES = 8_000_000  # the most for documents in one request
_POLL = 120.0  # seconds in which a poll is expected to end


@dataclass(frozen=True, slots=True)
class FeedPolled:
    """A feed after a poll, and how many of its items are new or changed.

    `held_until` is set if its server asked for a pause until then; `asked` is false if the feed was
    not requested for that reason.
    """

    feed: Feed
    new: int
    held_until: datetime | None = None
    asked: bool = True


class OpenedService(Client):
    """A running service; its errors are raised as those of the packages, such as QueryError."""

    is_served = True

    # -- Subscriptions ---------------------------------------------------------------------

    def find(self, name: str) -> Subscription | None:
        """Return a subscription by its name, None if there is none; any text may be a name."""
        if not 0 < len(name) <= LONGEST_NAME:
            return None
        found = next(self.subscriptions(name, page=1), None)
        return found if found is not None and found.name == name else None

    def existing(self, name: str) -> Subscription:
        """Return a subscription; raises UnknownSubscription with the nearest name as its hint."""
        found = self.find(name)
        if found is None:
            near = near_miss(name, self.names_like(name[:1], PAGE), quoted=True)
            raise UnknownSubscription(
                f"there is no subscription named {name!r}",
                hint=near or "'xscl subscriptions' lists them",
            )
        return found

    def names_like(self, prefix: str, limit: int) -> list[str]:
        """Return at most `limit` names of subscriptions with a prefix, in order."""
        found = islice(self.subscriptions(prefix or None, page=limit), limit)
        return [one.name for one in found]

    def expect_known(self, name: str) -> None:
        """Raise UnknownSubscription for a name of no subscription and of no kept matches."""
        try:
            self.versions(name)
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self.existing(name)

    def register(self, name: str, query: str, **options: Any) -> None:
        """Register a query with options of `subscribe`, and wait until its history is read."""
        if self.find(name) is not None:
            raise NameTaken(
                f"there is a subscription named {name!r} already",
                hint="unsubscribe it first, or choose another name",
            )
        shown: Subscription = self.subscribe(name, query, **options)
        while shown.history == "reading":
            time.sleep(_AGAIN)
            shown = self.subscription(name)
        if shown.history == "failed":
            warn("the matches of what is kept are missing: there are too many (see the log)")

    def register_all(self, rows: Sequence[ImportRow]) -> int:
        """Register all rows or none, and return how many are new; errors carry their row."""
        return self.import_subscriptions(row._asdict() for row in rows)

    # -- Questions -------------------------------------------------------------------------

    def trial(self, text: str, since: str | None, *, is_name: bool) -> Trial:
        """Return the matches of a query, or of a subscription, on the kept documents."""
        found = self.try_query(text, since, limit=PAGE, is_name=is_name)
        if len(found.matches) < found.total:
            warn(
                f"these are the first {len(found.matches)} of {found.total} matches:"
                " --since makes them fewer"
            )
        return found

    def select(self, query: str) -> pa.Table:
        """Return the answer of a SELECT, at most `_ROWS` rows."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        body = {"query": query, "format": "parquet", "rows": _ROWS}
        answer = self.ask("POST", "/v1/sql", json=body)
        found = pq.read_table(pa.BufferReader(answer.content))
        if answer.headers.get("xscl-truncated") == "true":
            warn(f"these are the first {found.num_rows} rows; a service answers with no more")
        return found

    def figures(self) -> dict[str, Any]:
        """Return the figures of the service; raises Refused for anyone but its operator."""
        found = self.status().service
        if found is None:
            raise Refused(403, "operator_only", "the figures of a service are for its operator")
        return found

    def waiting(self) -> int:
        """Return the number of documents not consumed yet; 0 if the figures are for others."""
        try:
            return int(self.figures()["waiting"])
        except Refused:
            return 0

    # -- Documents -------------------------------------------------------------------------

    @contextmanager
    def take(
        self, documents: Sequence[Document], refused: Sequence[Rejection], report: MatchReport
    ) -> Iterator[dict[str, int | None]]:
        """Send documents; yield the numbers of `documents`, `new` and `late` after their matches.

        `new` is None, as the API does not tell it.  `late` are the late documents listed since the
        call, at most a page and with those of others; None without access to the figures.
        Malformed documents are sent too: the service refuses them, and keeps what it refused.
        """
        malformed = [document for document, _ in refused if _is_malformed(document)]
        if any(len(document.streams) > 1 for document in (*documents, *malformed)):
            raise UsageError(
                "a service takes a document for one stream",
                hint="name one --stream; without a service several can be named",
            )
        before, late_before = self._position(), self._late()
        self._send_all(progress(documents, "sending", len(documents)))
        for document in malformed:
            try:
                self._send(document)
            except Refused as error:
                if not error.problem.startswith(_UNREADABLE):  # reported when the file was read
                    raise
        late = len(self._late() - late_before) if self._report_since(before, report) else None
        yield {"documents": len(documents), "new": None, "late": late}

    def _send_all(self, documents: Iterable[Document]) -> None:
        """Send documents in their order, as many as possible with one request.

        Raises Refused for the first one that is refused; others of its request are taken.
        """
        from xscl.cli.document_inputs import placed

        batch: list[tuple[Document, dict[str, str]]] = []
        size = 0

        def flush() -> None:
            lines = [line for _, line in batch]
            for refused in self.push_many(lines).refused if batch else ():
                detail = f"{placed(batch[refused.line - 1][0])}: {refused.detail}"
                raise Refused(422, refused.code, detail, refused.hint)
            batch.clear()

        for document in documents:
            line = _line(document)
            size += len(document.xml)
            if line is None or len(batch) == PAGE or size > _BATCH_BYTES:
                flush()
                size = len(document.xml)
            if line is None:
                self._send(document, time=_time_sent(document.timestamp))
            else:
                batch.append((document, line))
        flush()

    def _send(self, document: Document, **parameters: str) -> None:
        self.ask(
            "POST",
            resource("documents", *document.streams),
            params={"id": document.id, **parameters},
            content=document.xml,
            headers={"Content-Type": "application/xml"},
        )

    def _position(self) -> int:
        """Return the position of the latest match, 0 without any."""
        latest = next(self.all_matches(page=1), None)
        return 0 if latest is None else latest.position

    def _late(self) -> set[str]:
        """Return the names of the last documents that came too late for some subscription."""
        return {one.document for one in self.late()}

    def _report_since(self, position: int, report: MatchReport) -> bool:
        """Report the matches after a position, once the documents sent so far are consumed.

        Return False without access to the figures.
        """
        if not self._caught_up():
            warn("the matches come a little later: 'xscl matches NAME' lists them")
            return False
        report([*takewhile(lambda one: one.position > position, self.all_matches())][::-1])
        return True

    def _caught_up(self) -> bool:
        """Wait until the spool is consumed; False without access to the figures."""
        began = now = self.status().service
        if began is None or now is None:
            return False
        while now["written"] == began["written"]:
            time.sleep(0.05)
            now = self.figures()
        target = now["spool"]
        while now["position"] < target:
            time.sleep(0.05)
            now = self.figures()
        return True

    # -- Feeds -----------------------------------------------------------------------------

    def feeds_by_age(self) -> list[Feed]:
        """Return the feeds in the order in which they were added."""
        return sorted(self.feeds(), key=lambda one: (one.added, one.key))

    def begin_following(
        self, url: str, *, every: int, headers: Sequence[str], keep: bool, **options: Any
    ) -> Feed:
        """Follow a feed with options of `follow`; `every` is the poll interval in seconds.

        Return it after its first poll if that is quick.
        """
        return self.follow(url, every=f"{every} s", headers=headers, keep=keep, **options)

    @contextmanager
    def poll_feeds(
        self, feeds: Sequence[Feed], fetching: PollSettings, report: MatchReport
    ) -> Iterator[list[FeedPolled]]:
        """Request polls of feeds; yield the outcomes once new matches are reported."""
        # Addresses allowed by the environment are for the process that fetches, here the service.
        if fetching.allow_addresses and "XSCL_ALLOW_ADDRESS" not in os.environ:
            raise UsageError("--allow-address is for the service to be told: 'xscl serve' takes it")
        before = self._position()
        due = [self.poll(feed.key) for feed in feeds]
        until = time.monotonic() + _POLL
        outcomes = []
        for one, when in progress(list(zip(feeds, due, strict=True)), "polling", len(feeds)):
            polled = self._polled(one, when, until)
            if polled is None:
                outcomes.append(FeedPolled(one, 0, one.next_poll, asked=False))
            else:
                outcomes.append(FeedPolled(polled, polled.versions - one.versions))
        if outcomes:
            self._report_since(before, report)
        yield outcomes

    def _polled(self, before: Feed, due: Feed, until: float) -> Feed | None:
        """Return a feed after the poll that was due, None if there was none in time.

        An earlier poll may have been in progress.  A public feed is due still after that; a user's
        feed is due a minute later, and is returned as the earlier poll has left it.
        """
        while True:
            now = self.feed(before.key)
            is_polled = _polls(now) != _polls(before)
            if is_polled and now.next_poll != due.next_poll:
                return now
            if time.monotonic() > until:
                return None
            time.sleep(0.05)

    def outlines(
        self, tag: str | None, *, secrets: bool
    ) -> tuple[Sequence[FeedOutline], Sequence[str]]:
        """Return the feeds as outlines, and the addresses of those left out as secret."""
        if secrets:
            raise UsageError("a service writes no secret addresses", hint="stop it first")
        from feeds.formats.opml import read_list

        exported = read_list(self.export_feeds().encode())
        found = [one for one in exported if tag is None or tag in one.tags]
        urls = {one.url for one in found}
        chosen = [one for one in self.feeds_by_age() if tag is None or tag in one.tags]
        return found, [one.url for one in chosen if one.url not in urls]

    # -- Administration --------------------------------------------------------------------

    def erase_user(self, name: str) -> None:
        """Erase a user with all data."""
        self.ask("DELETE", resource("accounts", name))

    def backup(self, file: Path) -> Backup:
        """Write a backup of the service to a file."""
        from xscl.engine.backup import receive, refuse_other

        refuse_other(file)  # before the service spends a long time on it
        return receive(self.fetch("POST", "/v1/backup"), file)


def _polls(feed: Feed) -> tuple[int, int, datetime | None]:
    return feed.polls, feed.failures, feed.polled


def _line(document: Document) -> dict[str, str] | None:
    """Return a document as a line of a batch; None if its text would not be the same bytes."""
    from feeds.xml.encoding import encoded

    try:
        text = document.xml.decode()
    except UnicodeDecodeError:
        return None
    if encoded(text) != document.xml:
        return None
    (stream,) = document.streams
    time = _time_sent(document.timestamp)
    return {"xml": text, "id": document.id, "stream": stream, "time": time}


def _time_sent(ticks: int) -> str:
    """Return ticks as ISO 8601, as some numbers are refused; beyond its years as a number."""
    return written(ticks) if EARLIEST <= ticks <= LATEST else str(ticks)


def _is_malformed(document: Document) -> bool:
    """Return True for XML that is not well-formed; other faults do not count."""
    from feeds.errors import MalformedDocument
    from feeds.xml.xmlparse import parse

    try:
        parse(document.xml)
    except MalformedDocument:
        return True
    return False
