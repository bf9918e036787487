"""One headline in nine feeds is one story and one mail, whenever the service is killed.

A stage is a life of the service with a fault: what its reader does there is repeated until the
fault has ended the process, and once more in the next life, as by somebody who got no answer.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from lxml import etree, html

from feeds.faultpoints import FaultSpec, read
from tests.plain_http import NO_CERTIFICATES
from tests.soak.publisher import Publisher, publishing
from tests.soak.service import Host
from tests.waiting import PATIENCE, eventually
from tests.xscl.delivery.post_office import Post, post_office

FEEDS = [f"/paper-{number}" for number in range(1, 10)]
HEADLINE, OTHER = "Night ferry returns", "Fish market moves"
SAME = "feeds//item->a[./title->t] SYMMETRIC JOIN{t = u, 3 d} feeds//item->b[./title->u]"
EDITED = f"SELECT <r>{{t}}</r> FROM {SAME}"
"""The next version, which joins with earlier documents: another condition would begin anew."""
AT, ATOM = "/v1/subscriptions/same", "{http://www.w3.org/2005/Atom}"
BEFORE = ("fetched", "spool_half", "spool_written", "spool_synced", "spooled")
"""Points before a poll is recorded."""
BATCH = ("batch_read", "accepted", "joined", "stored", "committed", "batch_done")
CHANGE = ("before_commit", "after_commit", "marked")
ENDS = 50.0
"""Seconds for SIGTERM on a busy machine, ten times what is promised."""


@dataclass
class Reader:
    """A reader of nine feeds, whose service is killed now and then."""

    host: Host
    publisher: Publisher
    post: Post
    http: httpx.Client
    keys: dict[str, str] = field(default_factory=dict)
    """The keys of the feeds, by path."""
    count: int = 0

    # -- What a reader does, again and again -----------------------------------------------

    def follow(self) -> None:
        """Follow the feeds, and subscribe with a mail."""
        port = dict(self.publisher.ports)
        for number, path in enumerate(FEEDS, 1):
            self.publisher.titles[path] = [f"The first of {path}"]
            url = f"http://127.0.1.{number}:{port[f'127.0.1.{number}']}{path}"
            new = {"url": url, "stream": f"paper{number}"}
            self.keys[path] = self.ask("POST", "/v1/feeds", new)["key"]
        self.ask("PUT", AT, {"query": SAME, "stories": True})
        self.ask("POST", f"{AT}/endpoints", {"kind": "mail", "to": "reader@example.org"})

    def refresh(self) -> None:
        """Poll all feeds, and send a document that advances the clock."""
        for key in self.keys.values():
            self.ask("POST", f"/v1/feeds/{key}:poll")
        self.count += 1
        self.ask("POST", f"/v1/documents/noise?id=n{self.count}", content=b"<noise/>")

    def edit(self) -> None:
        self.ask("PATCH", AT, {"query": EDITED})
        self.ask("PATCH", AT, {"query": SAME})

    def pause(self) -> None:
        self.ask("PATCH", AT, {"paused": True})
        self.ask("PATCH", AT, {"paused": False})

    def backfill(self) -> None:
        """Subscribe to what is kept, anew."""
        other = "/v1/subscriptions/other"
        self.ask("PUT", other, {"query": EDITED, "stories": True, "since": "1 d"})
        eventually(lambda: self.ask("GET", other)["history"] == "read")
        self.ask("DELETE", other)

    def ask(self, method: str, path: str, told: Any = None, content: bytes | None = None) -> Any:
        """Make a request; return its answer.  Raises httpx.TransportError without one."""
        answer = self.http.request(method, path, json=told, content=content)
        lost = method == "DELETE" and answer.status_code == 404  # it was done, and not answered
        assert answer.status_code < 300 or lost, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    # -- Lives -----------------------------------------------------------------------------

    def begin(self, fault: FaultSpec | None = None) -> None:
        self.host.start(fault)
        assert self.host.wait_until_there(), self.host.errors()

    def end(self) -> None:
        """End the service orderly, which saves what it has delivered."""
        assert self.host.stop(ENDS) is None

    def killed_while(self, act: Callable[[], None]) -> None:
        """Act until the fault of this life has ended it, and once more in the next life."""
        until = time.monotonic() + PATIENCE
        while self.host.exit_code is None:
            assert time.monotonic() < until, "the point was not passed"
            try:
                act()
            except httpx.TransportError:
                self.host.wait(1.0)
        assert self.host.exit_code == -signal.SIGKILL, self.host.errors()
        self.begin()
        act()

    def publish(self, title: str, *paths: str) -> None:
        for path in paths:
            self.publisher.titles[path].append(title)

    def has(self, count: int) -> None:
        """Wait until one story has so many documents."""
        wanted = [count] if count > 1 else []
        eventually(lambda: [one["documents"] for one in self.listed()] == wanted)

    # -- What a reader sees ----------------------------------------------------------------

    def listed(self) -> list[dict[str, Any]]:
        """Return the stories of the subscription, the newest first."""
        found: list[dict[str, Any]] = self.ask("GET", f"{AT}/stories")["items"]
        return found

    def in_sql(self) -> list[dict[str, Any]]:
        """Return the rows of the relation, the newest first."""
        query = (
            "SELECT story, documents, merged_into FROM stories"
            " WHERE subscription = 'same' ORDER BY last DESC"
        )

        def answered() -> Any:
            """Return the answer; on a busy machine a question may take longer than its 2 s."""
            answer = self.http.post("/v1/sql", json={"query": query})
            assert answer.is_success or answer.json()["code"] == "sql_timeout", answer.text
            return answer.json() if answer.is_success else None

        told = eventually(answered)
        names = [one["name"] for one in told["columns"]]
        return [dict(zip(names, row, strict=True)) for row in told["rows"]]

    def entries(self) -> list[dict[str, str | None]]:
        """Return the entries of the subscription's Atom feed."""
        root = etree.fromstring(self.http.get(f"{AT}/feed.atom").content)
        names = ("id", "published", "updated", "title")
        found = root.iterfind(f"{ATOM}entry")
        return [{name: one.findtext(f"{ATOM}{name}") for name in names} for one in found]

    def cards(self) -> list[str]:
        """Return the number of sources on each card of the page."""
        page: Any = html.fromstring(self.http.get("/?subscription=same").text)
        cards = page.xpath("//*[@id='matches']//article")
        return ["".join(one.xpath(".//*[contains(@class, 'tag')]/text()")) for one in cards]

    def mails(self, title: str) -> list[str]:
        """Return the ids of the mails of a story, one for each time that it was sent."""
        sent = list(self.post.mails)
        return [one["Message-ID"] for _, one in sent if one["Subject"] == f"same: {title}"]


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """A reader whose service does not run yet."""
    with post_office() as post, publishing(time.time, 0) as publisher:
        allowed = (f"--allow-address={host}:{port}" for host, port in publisher.ports)
        mail = f"--smtp=smtp://127.0.0.1:{post.port}/xscl@example.org"
        host = Host(path / "data", path, ("--no-spark", mail, *allowed))
        client = httpx.Client(
            base_url=host.address, timeout=PATIENCE, trust_env=False, verify=NO_CERTIFICATES
        )
        with closing(client):
            try:
                yield Reader(host, publisher, post, client)
            finally:
                if host.lives:
                    host.kill()


def finish(reader: Reader, before: dict[str, str | None], copies: int) -> None:
    """Publish the headline in the ninth feed, and check page, entry, mails and SQL."""
    reader.publish(HEADLINE, FEEDS[8])
    reader.refresh()
    reader.has(9)
    reader.publish(OTHER, *FEEDS[:2])
    reader.refresh()
    eventually(lambda: reader.mails(OTHER))  # mails are sent in order
    newest, story = reader.in_sql()
    assert (newest["documents"], story["documents"], story["merged_into"]) == (2, 9, None)
    other, entry = reader.entries()
    assert other["title"] == f"same: {OTHER}"
    assert (entry["id"], entry["published"]) == (before["id"], before["published"])
    assert str(entry["updated"]) > str(before["updated"])
    cards = reader.cards()
    assert len(cards) == 2
    assert "9 sources" in cards[1]
    assert [one["id"] for one in reader.listed()] == [newest["story"], story["story"]]
    reader.end()
    told = reader.mails(HEADLINE)
    assert len(told) == copies
    assert len(set(told)) == 1
    assert len(reader.mails(OTHER)) == 1
    assert len(reader.post.mails) == copies + 1


def test_a_mail_that_a_kill_repeats_has_the_same_id(tmp_path: Path) -> None:
    """The service is killed when a mail was sent, before that is recorded: it is sent twice."""
    with reading(tmp_path) as reader:
        reader.begin(read("sent:1"))
        reader.follow()
        reader.refresh()
        reader.publish(HEADLINE, *FEEDS[:8])
        reader.killed_while(reader.refresh)
        reader.has(8)
        eventually(lambda: len(reader.mails(HEADLINE)) == 2)
        (before,) = reader.entries()
        finish(reader, before, copies=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_one_headline_is_one_story_whenever_the_service_is_killed(
    tmp_path: Path, seed: int
) -> None:
    with reading(tmp_path) as reader:
        draw = random.Random(seed)

        def stage(points: tuple[str, ...], act: Callable[[], None], feeds: list[str]) -> None:
            """Live with a fault while the headline comes to feeds; end orderly."""
            point, passage = draw.choice(points), draw.randint(1, 2)
            reader.host.start(read(f"{point}:{passage}"))
            while not reader.host.wait_until_there():  # the start has passed it so often
                passage += 1
                reader.host.start(read(f"{point}:{passage}"))
            reader.publish(HEADLINE, *feeds)
            reader.killed_while(act)
            reader.refresh()
            carriers = sum(HEADLINE in titles for titles in reader.publisher.titles.values())
            reader.has(carriers)
            if carriers > 1:
                eventually(lambda: reader.mails(HEADLINE))
            reader.end()

        reader.begin()
        reader.follow()
        reader.refresh()
        reader.end()
        stage(BEFORE, reader.refresh, FEEDS[:1])
        stage((*BATCH, *CHANGE), reader.refresh, FEEDS[1:2])
        copies = len(reader.mails(HEADLINE))
        assert 1 <= copies <= 2  # twice if the kill came before it was recorded as sent
        stage((*BATCH, *CHANGE), reader.refresh, FEEDS[2:4])
        reader.begin()
        (before,) = reader.entries()
        reader.publish(HEADLINE, FEEDS[4])
        reader.refresh()
        for _ in range(2):
            reader.host.kill()
            reader.host.start()
            time.sleep(draw.uniform(0, 2))  # within the start, or after it
        reader.host.kill()
        reader.begin()
        reader.has(5)
        reader.end()
        stage(CHANGE, reader.edit, FEEDS[5:6])
        stage(CHANGE, reader.pause, [])
        stage(CHANGE, reader.backfill, FEEDS[6:8])
        reader.begin()
        finish(reader, before, copies)
