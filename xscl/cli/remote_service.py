"""The use cases of the command line on a running service, over its HTTP API.

`xscl.cli.in_process` has those on a data directory; see `xscl.cli.service`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from itertools import takewhile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from xscl.cli.feed_rows import PollOutcome, Row
from xscl.cli.http_client import HttpClient, resource
from xscl.cli.output import UsageError, warn
from xscl.cli.progress import progress
from xscl.client import Refused
from xscl.client.answers import Witness
from xscl.client.calls import PAGE, read
from xscl.errors import DocumentError, NameTaken
from xscl.time_format import LATEST, SECOND, ticks_of_time, written

if TYPE_CHECKING:  # a request is sent without the engine: what reads an answer is loaded for it
    import pyarrow as pa

    from feeds.documents import Document
    from feeds.formats.opml import FeedOutline
    from xscl.cli.match_report import MatchReport
    from xscl.cli.trial_outcome import TrialOutcome
    from xscl.documents.document_validation import Rejection
    from xscl.engine.backup import Backup
    from xscl.inspection.diagnosis import Diagnosis
    from xscl.inspection.unseen_names import UnseenName
    from xscl.inspection.why import Why
    from xscl.polling.feed import Headers
    from xscl.polling.feed_commands import FeedChange
    from xscl.polling.feed_list import ImportLine
    from xscl.polling.feed_poller import PollSettings
    from xscl.subscriptions.import_rows import ImportRow

LONGEST_NAME = 500
"""Characters of a name that the API accepts."""

_ROWS = 100_000  # the most rows in an answer to SQL
_AGAIN = 0.3  # seconds between looks at a history that is being read
_BATCH_BYTES = 8_000_000  # of documents in one request
_POLL = 120.0  # seconds in which a poll is expected to end


@dataclass(frozen=True, slots=True)
class RemoteMatch:
    """A match as the API returns it, `row`, with the fields of `MatchFields`."""

    row: Mapping[str, Any]
    id: str
    subscription: str
    documents: tuple[str, ...]
    sources: tuple[Any, ...]
    t0: int
    t1: int
    history: bool
    backfilled: bool
    position: int
    version: int
    bindings: dict[str, list[Any]]
    constructed: bool
    output: str

    def xml(self) -> bytes:
        """Return the output document."""
        return self.output.encode()


def _match(fields: Mapping[str, Any]) -> RemoteMatch:
    """Return a match from its JSON object."""
    bindings = {
        variable: [SimpleNamespace(**node) for node in nodes]
        for variable, nodes in fields["bindings"].items()
    }
    return RemoteMatch(
        row=fields,
        id=fields["id"],
        subscription=fields["subscription"],
        documents=tuple(fields["documents"]),
        sources=tuple(map(_source, fields["sources"])),
        t0=fields["t0"],
        t1=fields["t1"],
        history=fields["history"],
        backfilled=fields["backfilled"],
        position=fields["position"],
        version=fields["version"],
        bindings=bindings,
        constructed=fields["constructed"],
        output=fields["xml"],
    )


def _source(fields: Mapping[str, Any]) -> SimpleNamespace:
    """Return a document of a match from its JSON object."""
    return SimpleNamespace(**fields, ts=ticks_of_time(fields["timestamp"]) or 0)


class RemoteService:
    """A running service; its errors are those of the packages."""

    is_served = True

    def __init__(self, http: HttpClient) -> None:
        self.http = http

    # -- Subscriptions ---------------------------------------------------------------------

    def subscription(self, name: str) -> Row | None:
        """Return a subscription by its name, None if there is none."""
        if not 0 < len(name) <= LONGEST_NAME:
            return None
        found = self.http.value("/v1/subscriptions", prefix=name, limit=1)["items"]
        return found[0] if found and found[0]["name"] == name else None

    def subscriptions(self) -> list[Row]:
        """Return all subscriptions in the order of their names."""
        return list(self.http.all_of("/v1/subscriptions"))

    def names_like(self, prefix: str, limit: int = PAGE) -> list[str]:
        """Return names of subscriptions with a prefix."""
        page = self.http.value("/v1/subscriptions", limit=limit, prefix=prefix or None)
        return [str(one["name"]) for one in page["items"]]

    def streams(self) -> set[str]:
        """Return the names of all known streams."""
        return {one["name"] for one in self.http.all_of("/v1/streams")}

    def listed_streams(self) -> list[Row]:
        """Return the streams in the order of their names, with the numbers of their documents."""
        return [_stream(one) for one in self.http.all_of("/v1/streams")]

    def set_stream(self, name: str, lateness: int | None, live: bool | None) -> Row:
        """Set the lateness of a stream in ticks, and if it is live; None stays. Return it."""
        path = resource("streams", name)
        try:
            known = self.http.value(path)
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            known = {"lateness": 0, "live": False}
        seconds = known["lateness"] if lateness is None else lateness / SECOND
        # The request replaces both.
        body = {"lateness": f"{seconds:.6f} s", "live": known["live"] if live is None else live}
        return _stream(self.http.ask("PUT", path, json=body).json())

    def subscribe(
        self,
        name: str,
        query: str,
        *,
        updates: bool,
        language: str,
        since: str | None,
        history: bool = False,
    ) -> None:
        """Register a query, and wait until what is kept was read."""
        body = {
            "query": query,
            "updates": updates,
            "since": since,
            "language": language,
            "history": history,
        }
        path = resource("subscriptions", name)
        answer = self.http.ask("PUT", path, json=body, source=query)
        if answer.status_code != 201:
            raise NameTaken(
                f"there is a subscription named {name!r} already",
                hint="unsubscribe it first, or choose another name",
            )
        shown: Row = answer.json()
        while shown["history"] == "reading":
            time.sleep(_AGAIN)
            shown = self.http.value(path)
        if shown["history"] == "failed":
            warn("the matches of what is kept are missing: there are too many (see the log)")

    def add_webhook(self, name: str, url: str) -> Row:
        """Post the matches of a subscription from now on; return the id and the secret."""
        body = {"kind": "webhook", "url": url}
        path = resource("subscriptions", name, "endpoints")
        made = self.http.ask("POST", path, json=body).json()
        return {"id": made["id"], "secret": made["secret"]}

    def endpoints(self, name: str) -> list[Row]:
        """Return the endpoints of a subscription."""
        found: list[Row] = self.http.value(resource("subscriptions", name, "endpoints"))
        return found

    def rotate(self, name: str, id: str, url: str | None) -> Row:
        """Rotate the secret of a webhook, with another address if one is given.

        Return its id, the secret, its state and what it still lacks.
        """
        path = resource("subscriptions", name, "endpoints", id)
        if url is not None:
            self.http.ask("PATCH", path, json={"url": url})
        made = self.http.ask("POST", f"{path}:rotate").json()
        return {**self.http.value(path), "secret": made["secret"]}

    def edit(self, name: str, *, rename: str | None = None, **change: Any) -> Row:
        """Change fields of a subscription, but those that are None; return it."""
        path = resource("subscriptions", name)
        body = {
            field: value for field, value in {"name": rename, **change}.items() if value is not None
        }
        changed: Row = self.http.ask(
            "PATCH", path, json=body, source=change.get("query") or ""
        ).json()
        return changed

    def versions(self, name: str) -> list[Row]:
        """Return the queries whose matches are kept under a name, the oldest first."""
        path = f"{resource('subscriptions', name)}/versions"
        try:
            found: list[Row] = self.http.value(path)
        except Refused as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return []
        return found

    def removed(self) -> list[Row]:
        """Return the last versions of removed subscriptions whose matches are kept."""
        found: list[Row] = self.http.value("/v1/subscriptions:removed")
        return found

    def unsubscribe(
        self, name: str, *, cascade: bool = False, purge: bool = False
    ) -> Sequence[str]:
        """Remove a subscription, with `cascade` those that read its stream; return their names."""
        path = resource("subscriptions", name)
        answer = self.http.ask("DELETE", path, params={"cascade": cascade, "purge": purge})
        return [str(one) for one in answer.json()["removed"]] if cascade else [name]

    def import_rows(self, rows: Sequence[ImportRow]) -> int:
        """Register all rows or none, and return how many are new; errors carry their row."""
        body = "".join(json.dumps(row._asdict()) + "\n" for row in rows).encode()
        headers = {"Content-Type": "application/jsonl"}
        path = "/v1/subscriptions:import"
        return int(self.http.ask("POST", path, content=body, headers=headers).json()["new"])

    # -- Questions -------------------------------------------------------------------------

    def matches(self, name: str) -> Iterator[RemoteMatch]:
        """Yield the kept matches of a subscription, oldest first."""
        return map(_match, self._paged(resource("subscriptions", name, "matches"), "after", 0))

    def stars(self) -> list[Row]:
        """Return the starred matches, the last starred first."""
        return list(self.http.all_of("/v1/stars"))

    def _paged(self, path: str, cursor: str, begin: int | None) -> Iterator[Mapping[str, Any]]:
        """Yield the JSON objects of matches, requested page by page.

        `cursor` is the name of the parameter that `begin` and the links to next pages give.
        """
        place: int | str | None = begin
        while True:
            page = self.http.value(path, limit=PAGE, **{cursor: place})
            yield from page["matches"]
            if page["next"] is None:
                return
            place = parse_qs(page["next"])[cursor][0]

    def try_query(self, text: str, since: str | None, *, named: bool) -> TrialOutcome:
        """Return the matches of a query, or of a named subscription, on the kept documents."""
        from xscl.cli.trial_outcome import TrialOutcome
        from xscl.inspection.diagnosis import Diagnosis

        answer = self._question("try", text, named, since=since, limit=PAGE)
        shown, total = answer["matches"], answer["total"]
        if len(shown) < total:
            warn(f"these are the first {len(shown)} of {total} matches: --since makes them fewer")
        reasons = answer["diagnosis"]
        diagnosis = None if reasons is None else read(Diagnosis, reasons)
        late, lateness = answer.get("late", 0), round(answer.get("lateness", 0) * SECOND)
        return TrialOutcome([_match(one) for one in shown], diagnosis, late, lateness)

    def diagnose(self, text: str, since: str | None, *, named: bool) -> Diagnosis:
        """Return the reasons why a query, or a named subscription, has no match."""
        from xscl.inspection.diagnosis import Diagnosis

        return read(Diagnosis, self._question("diagnose", text, named, since=since))

    def unseen_names(self, query: str) -> Sequence[UnseenName]:
        """Return the names in a query that were never seen; none of an invalid query."""
        from xscl.inspection.unseen_names import UnseenName

        found = self.http.ask("POST", "/v1/check", json={"query": query}).json()["warnings"]
        return read(list[UnseenName], found)

    def why(self, text: str, documents: Sequence[str], *, named: bool) -> Why:
        """Return the conditions of a match of some documents."""
        from xscl.inspection.why import Why

        return read(Why, self._question("why", text, named, documents=documents))

    def explain(self, text: str, *, named: bool, sql: bool = False) -> str:
        """Return the explanation of a query: join graph, template, state."""
        return str(self._question("explain", text, named, sql=sql)["text"])

    def _question(self, path: str, text: str, named: bool, **more: Any) -> Any:
        subject = {"subscription" if named else "query": text}
        return self.http.ask("POST", f"/v1/{path}", json={**subject, **more}, source=text).json()

    def witness(self, document: str) -> Witness:
        """Return the nodes of a document, with the variables bound to each."""
        found = self.http.value(resource("documents", document, "witness", slashes=True))
        return read(Witness, found)

    def sql(self, query: str) -> pa.Table:
        """Return the answer of a SELECT."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        body = {"query": query, "format": "parquet", "rows": _ROWS}
        answer = self.http.ask("POST", "/v1/sql", json=body)
        found = pq.read_table(pa.BufferReader(answer.content))
        if answer.headers.get("xscl-truncated") == "true":
            warn(f"these are the first {found.num_rows} rows; a service answers with no more")
        return found

    def figures(self) -> dict[str, Any]:
        """Return the figures of the service; raises Refused for anyone but its operator."""
        found: dict[str, Any] | None = self.http.value("/v1/status")["service"]
        if found is None:
            raise Refused(403, "operator_only", "the figures of a service are for its operator")
        return found

    def waiting(self) -> int:
        """Return the number of documents that are not consumed yet; 0 if only others may ask."""
        try:
            return int(self.figures()["waiting"])
        except Refused:
            return 0

    # -- Documents -------------------------------------------------------------------------

    @contextmanager
    def push(
        self, documents: Sequence[Document], refused: Sequence[Rejection], report: MatchReport
    ) -> Iterator[dict[str, int | None]]:
        """Send documents; yield their counts once the matches found since then are reported.

        The API does not say which were new.  Late ones are those listed since then, so at most a
        page, with what others sent meanwhile; None if that is not known.  Malformed ones are sent
        too: the service refuses them, and keeps what it refused.
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
                if not error.problem.startswith("xml_"):  # reported when the file was read
                    raise
        late = len(self._late() - late_before) if self._report_since(before, report) else None
        yield {"documents": len(documents), "new": None, "late": late}

    def _send_all(self, documents: Iterable[Document]) -> None:
        """Send documents in their order, as many as possible with one request.

        Raises Refused for the first one that is refused; others of its request are taken.
        """
        batch: list[dict[str, str]] = []
        size = 0

        def flush() -> None:
            for refused in self.http.push_many(batch).refused if batch else ():
                raise Refused(422, refused.code, refused.detail, refused.hint)
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
                batch.append(line)
        flush()

    def _send(self, document: Document, **parameters: str) -> None:
        self.http.ask(
            "POST",
            resource("documents", *document.streams),
            params={"id": document.id, **parameters},
            content=document.xml,
            headers={"Content-Type": "application/xml"},
        )

    def _position(self) -> int:
        """Return the position of the latest match, 0 without any."""
        found = self.http.value("/v1/matches", limit=1)["matches"]
        return int(found[0]["position"]) if found else 0

    def _late(self) -> set[str]:
        """Return the names of the last documents that came too late for some subscription."""
        return {one["document"] for one in self.http.value("/v1/late", limit=PAGE)}

    def _report_since(self, position: int, report: MatchReport) -> bool:
        """Report the matches after a position, once the documents sent so far are consumed.

        Return False without access to the figures.
        """
        if not self._caught_up():
            warn("the matches come a little later: 'xscl matches NAME' lists them")
            return False
        newest_first = self._paged("/v1/matches", "before", None)
        new = takewhile(lambda one: one["position"] > position, newest_first)
        report([_match(one) for one in new][::-1])
        return True

    def _caught_up(self) -> bool:
        """Wait until the spool is consumed; False without access to the figures."""
        if self.http.value("/v1/status")["service"] is None:
            return False
        began = now = self.figures()
        while now["written"] == began["written"]:
            time.sleep(0.05)
            now = self.figures()
        target = now["spool"]
        while now["position"] < target:
            time.sleep(0.05)
            now = self.figures()
        return True

    # -- Feeds -----------------------------------------------------------------------------

    def feeds(self) -> list[Row]:
        """Return the feeds in the order in which they were added."""
        found = [_row(one) for one in self.http.all_of("/v1/feeds")]
        return sorted(found, key=lambda one: (one["added"], one["key"]))

    def feed(self, key: str) -> Row:
        """Return a feed by its key."""
        return _row(self.http.value(resource("feeds", key)))

    def follow(
        self, url: str, stream: str | None, tags: Sequence[str], every: int, headers: Headers
    ) -> tuple[Row, Sequence[str]]:
        """Follow a feed; return it, after its first poll if that is quick, and warnings."""
        body = {
            "url": url,
            "stream": stream,
            "tags": list(tags),
            "every": f"{every} s",
            "headers": _lines(headers),
        }
        answer = self.http.ask("POST", "/v1/feeds", json=body).json()
        return _row(answer), answer["warnings"]

    def edit_feed(self, feed: Row, change: FeedChange) -> tuple[Row, Sequence[str]]:
        """Change a feed; return it, and warnings."""
        body = {
            "tags": change.tags,
            "every": None if change.every is None else f"{change.every} s",
            "headers": None if change.headers is None else _lines(change.headers),
            "revive": change.revive,
        }
        answer = self.http.ask("PATCH", resource("feeds", feed["key"]), json=body).json()
        return _row(answer), answer["warnings"]

    def remove_feed(self, feed: Row) -> None:
        """Stop following a feed."""
        self.http.ask("DELETE", resource("feeds", feed["key"]))

    def polls(self, feed: Row) -> list[Row]:
        """Return the last polls of a feed, the newest first."""
        found: list[Row] = self.http.value(resource("feeds", feed["key"], "polls"))
        return found

    @contextmanager
    def poll_feeds(
        self, feeds: Sequence[Row], fetching: PollSettings, report: MatchReport
    ) -> Iterator[list[PollOutcome]]:
        """Request polls of feeds; yield the outcomes once new matches are reported."""
        # What the environment allows is for whoever fetches, here the service.
        if fetching.allow_addresses and "XSCL_ALLOW_ADDRESS" not in os.environ:
            raise UsageError("--allow-address is for the service to be told: 'xscl serve' takes it")
        before = self._position()
        due = [
            self.http.ask("POST", f"{resource('feeds', one['key'])}:poll").json()["next_poll"]
            for one in feeds
        ]
        until = time.monotonic() + _POLL
        outcomes = []
        for one, when in progress(list(zip(feeds, due, strict=True)), "polling", len(feeds)):
            polled = self._polled(one, when, until)
            if polled is None:
                outcomes.append(PollOutcome(one, 0, one["next_poll"], asked=False))
            else:
                outcomes.append(PollOutcome(polled, polled["versions"] - one["versions"]))
        if outcomes:
            self._report_since(before, report)
        yield outcomes

    def _polled(self, before: Row, due: str, until: float) -> Row | None:
        """Return a feed after the poll that was `due`, None if there was none in time.

        After an earlier poll that was in progress a public feed is due still; a user's is due a
        minute later, so the earlier poll is returned.
        """
        while True:
            now = self.feed(before["key"])
            is_polled = any(now[name] != before[name] for name in ("polls", "failures", "polled"))
            if is_polled and now["next_poll"] != due:
                return now
            if time.monotonic() > until:
                return None
            time.sleep(0.05)

    def import_feeds(
        self, body: bytes, outlines: Sequence[FeedOutline], tags: Sequence[str]
    ) -> Sequence[ImportLine]:
        """Follow the feeds of a list; return the outcome of each outline."""
        from xscl.polling.feed_list import ImportLine

        answer = self.http.ask("POST", "/v1/feeds:import", params={"tag": tags}, content=body)
        return read(list[ImportLine], answer.json())

    def export_feeds(
        self, tag: str | None, *, secrets: bool
    ) -> tuple[Sequence[FeedOutline], Sequence[str]]:
        """Return the feeds as outlines, and the addresses of those left out as secret."""
        if secrets:
            raise UsageError("a service writes no secret addresses", hint="stop it first")
        from feeds.formats.opml import read_list

        written = read_list(self.http.ask("GET", "/v1/feeds:export").content)
        found = [one for one in written if tag is None or tag in one.tags]
        urls = {one.url for one in found}
        chosen = [one for one in self.feeds() if tag is None or tag in one["tags"]]
        return found, [one["url"] for one in chosen if one["url"] not in urls]

    # -- Administration --------------------------------------------------------------------

    def create_token(self, user: str | None, label: str) -> Row:
        """Make a token; its text is in this answer only."""
        body = {"user": user, "label": label}
        made: Row = self.http.ask("POST", "/v1/tokens", json=body).json()
        return made

    def tokens(self) -> list[Row]:
        """Return the tokens without their secrets."""
        found: list[Row] = self.http.value("/v1/tokens")
        return found

    def revoke_token(self, id: str) -> None:
        """Revoke a token."""
        self.http.ask("DELETE", resource("tokens", id))

    def user_data(self, name: str) -> Iterator[Row]:
        """Yield all data of a user, each value with its `kind`."""
        text = b"".join(self.http.fetch("GET", f"{resource('accounts', name)}/data"))
        yield from map(json.loads, text.splitlines())

    def erase_user(self, name: str) -> None:
        """Erase a user with all data."""
        self.http.ask("DELETE", resource("accounts", name))

    def backup(self, file: Path) -> Backup:
        """Write a backup of the service to a file."""
        from xscl.engine.backup import receive, refuse_other

        refuse_other(file)  # before the service spends a long time on it
        return receive(self.http.fetch("POST", "/v1/backup"), file)


def _stream(answer: Mapping[str, Any]) -> Row:
    """Return a stream without what commands do not show."""
    names = ("name", "lateness", "live", "documents")
    return {name: answer[name] for name in names if name in answer}


def _row(answer: Mapping[str, Any]) -> Row:
    """Return a feed in the order of `xscl.polling.feed_repository.feed_row`, without the
    warnings."""
    return {"url": answer["url"], **{k: v for k, v in answer.items() if k != "warnings"}}


def _lines(headers: Headers) -> list[str]:
    return [f"{name}: {value}" for name, value in headers]


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
    """Return a time as it is sent; as ISO 8601, since some numbers are refused."""
    return written(ticks) if 0 <= ticks <= LATEST else str(ticks)


def _is_malformed(document: Document) -> bool:
    """Check for XML that is not well-formed; other faults do not count."""
    from feeds.errors import MalformedDocument
    from xscl.documents.document_validation import expect_valid

    try:
        expect_valid([document])
    except (MalformedDocument, DocumentError) as error:
        return isinstance(error, MalformedDocument)
    return False
