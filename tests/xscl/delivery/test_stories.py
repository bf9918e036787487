"""One headline in eight feeds: told once, and added to, whatever happens in between."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from lxml import etree

import xscl
from tests.examples import usually
from tests.waiting import eventually
from tests.xscl.delivery.post_office import Post, content
from tests.xscl.delivery.receiver import Receiver, sending
from xscl.delivery.endpoint import Mail, Ntfy, Slack, Webhook
from xscl.delivery.message_reader import LatestMatches, latest, with_stories
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.delivery.syndication.formats import atom, json_feed
from xscl.delivery.syndication.syndicated_feed import FeedAddresses, FeedPage, etag, feed_of
from xscl.engine.match_log import Page
from xscl.polling.credentials import Credentials
from xscl.time_format import choose_zone

SAME = "S//item->a[./title->t] JOIN{t = u AND a/n < b/n, 1000} S//item->b[./title->u]"
RENDERED = f"SELECT <r>{{t}}</r> FROM {SAME}"
ATOM = "{http://www.w3.org/2005/Atom}"


def headline(number: int, title: str = "Big news", *, history: bool = False) -> xscl.Document:
    url = f"<item_url>http://example.org/{number}</item_url>"
    xml = f"<item><title>{title}</title><n>{number}</n>{url}</item>"
    return xscl.Document("S", f"d{number}", number, xml.encode(), history)


def page(engine: xscl.Engine) -> FeedPage:
    def read(before: int | None, limit: int) -> Page:
        return engine.log.page("q", before=before, limit=limit, newest_first=True, heads=True)

    found: LatestMatches = with_stories(engine.log, latest(read, 50))
    return feed_of("q", "q", found, None, FeedAddresses(str, "home", lambda one: one.id))


def entries(engine: xscl.Engine) -> list[dict[str, str | None]]:
    root = etree.fromstring(atom(page(engine)))
    names = ("id", "published", "updated", "title")
    return [
        {name: entry.findtext(f"{ATOM}{name}") for name in names}
        for entry in root.iterfind(f"{ATOM}entry")
    ]


class At:
    """An outbox at work over a file, which can be ended and begun again.

    It ends when it has delivered what there is.
    """

    def __init__(self, *where: Any, **options: Any) -> None:
        self._where, self._options = where, options
        self._running = ExitStack()
        self.restart()

    def restart(self) -> None:
        self.end()
        self.sender = self._running.enter_context(sending(*self._where, **self._options))
        self._running.callback(self.sender.outbox.finish, threading.Event())

    def end(self) -> None:
        self._running.close()


@pytest.fixture
def at(receiver: Receiver, tmp_path: Path, post: Post) -> Iterator[At]:
    secrets = Credentials(tmp_path / "secrets")
    at = At(receiver, secrets, tmp_path / "state", mail=post.server)
    yield at
    at.end()


BETWEEN: dict[str, Callable[[At], object]] = {
    "nothing": lambda at: None,
    "restart": At.restart,
    "edit": lambda at: at.sender.outbox.edit("q", RENDERED),
    "rename": lambda at: [
        at.sender.outbox.edit(old, rename=new) for old, new in (("q", "p"), ("p", "q"))
    ],
    "pause": lambda at: [at.sender.outbox.edit("q", paused=now) for now in (True, False)],
    "backfill": lambda at: at.sender.engine.subscribe("other", SAME, stories=True, since=1_000),
}


@pytest.mark.parametrize(
    ("between", "apart"),
    usually(
        product(BETWEEN, (False, True)), *zip(BETWEEN, (False, True) * 3, strict=True), several=True
    ),
)
def test_a_ninth_feed_adds_to_a_story_without_a_second_mail(
    receiver: Receiver, at: At, post: Post, between: str, apart: bool
) -> None:
    paths = [f"/{kind}/{between}/{apart}" for kind in ("hook", "slack", "ntfy")]
    hook, slack, ntfy = map(receiver.url, paths)
    engine = at.sender.engine
    engine.retain(xscl.Retention(history=10_000))
    engine.subscribe("q", SAME, stories=True)
    for channel in (Webhook(hook), Slack(slack), Ntfy(ntfy), Mail("reader@example.org")):
        at.sender.outbox.deliver("q", channel)
    documents = [headline(number) for number in range(1, 9)]
    at.sender.push(*documents[:4])
    for part in [[one] for one in documents[4:]] if apart else [documents[4:]]:
        at.sender.push(*part)

    def added() -> list[str]:
        return [name for got in receiver.at(paths[0]) for name in got.data["added"]]

    eventually(lambda: len(added()) == 8)
    eventually(lambda: len(post.mails) == 1 and all(map(receiver.at, paths)))
    (before,) = entries(engine)
    tag = etag(page(engine))
    BETWEEN[between](at)
    engine = at.sender.engine
    if between != "nothing":
        assert [entry["id"] for entry in entries(engine)] == [before["id"]]
    at.sender.push(headline(9))
    eventually(lambda: len(added()) == 9)
    at.sender.push(headline(10, "Other"), headline(11, "Other"))
    eventually(lambda: len(post.mails) == 2)
    newest, after = entries(engine)
    assert (after["id"], after["published"]) == (before["id"], before["published"])
    assert str(after["updated"]) > str(before["updated"])
    assert newest["title"] == "q: Other"
    assert etag(page(engine)) != tag
    (story,) = [one for one in engine.stories("q") if one.total > 2]
    assert [one.document for one in story.sources] == [f"d{number}" for number in range(1, 10)]
    at.end()
    told = [json.loads(one.body) for one in receiver.at(paths[0])]
    assert {one["type"] for one in told} == {"story"}
    assert [one["data"]["new"] for one in told] == [True, *[False] * (len(told) - 2), True]
    assert {one["data"]["story"] for one in told[:-1]} == {story.id}
    assert len({one["data"]["id"] for one in told}) == len(told)
    assert sorted(added()) == sorted(f"d{number}" for number in range(1, 12))
    assert [len(receiver.at(path)) for path in paths[1:]] == [2, 2]
    assert post.subjects == ["q: Big news", "q: Other"]
    assert content(post.mails[0][1], "html").count("<h3>") >= 2


def test_a_mail_that_is_sent_again_has_the_same_id(at: At, post: Post) -> None:
    """Nothing was recorded of the first one, and its story has grown since."""
    at.sender.engine.subscribe("q", SAME, stories=True)
    at.sender.outbox.deliver("q", Mail("reader@example.org"))
    with patch.object(Endpoints, "_write"):
        at.sender.push(headline(1), headline(2))
        eventually(lambda: len(post.mails) == 1)
        at.sender.push(headline(3))
        at.end()
    at.restart()
    eventually(lambda: len(post.mails) == 2)
    (_, first), (_, again) = post.mails
    assert first["Message-ID"] == again["Message-ID"]
    assert post.subjects == 2 * ["q: Big news"]


def test_a_digest_has_a_story_once_with_all_that_it_has_by_then(at: At, post: Post) -> None:
    at.sender.engine.subscribe("q", SAME, stories=True)
    at.sender.outbox.deliver("q", Mail("reader@example.org", every=3_600.0))
    for number in range(1, 9):
        at.sender.push(headline(number))
    at.end()
    ((_, mail),) = post.mails
    assert mail["Subject"] == "q: Big news"
    for number in range(1, 9):
        assert content(mail, "plain").split().count(f"http://example.org/{number}") == 1
        assert content(mail, "html").count(f">http://example.org/{number}<") == 1


@pytest.fixture
def in_berlin() -> Iterator[None]:
    choose_zone("Europe/Berlin")
    yield
    choose_zone("UTC")


@pytest.mark.usefixtures("in_berlin")
def test_times_for_people_are_in_the_zone_of_the_service(at: At, post: Post) -> None:
    at.sender.engine.subscribe("q", SAME, stories=True)
    at.sender.outbox.deliver("q", Mail("reader@example.org"))
    at.sender.push(headline(1), headline(2))
    eventually(lambda: post.mails)
    (entry,) = page(at.sender.engine).entries
    (shown,) = entries(at.sender.engine)
    zoned = '<time datetime="1970-01-01T00:00:00.000001Z">1970-01-01 01:00 +01:00</time>'
    assert zoned in content(post.mails[0][1], "html")
    assert zoned in entry.html
    assert str(shown["updated"]).endswith("Z")


def test_a_story_of_the_past_is_told_when_it_is_news(at: At, post: Post) -> None:
    at.sender.engine.subscribe("q", SAME, stories=True)
    at.sender.outbox.deliver("q", Mail("reader@example.org"))
    at.sender.push(headline(1, history=True), headline(2, history=True))
    at.sender.push(headline(3), headline(4))
    eventually(lambda: len(post.mails) == 1)
    at.sender.push(headline(5), headline(6, "Other"), headline(7, "Other"))
    eventually(lambda: len(post.mails) == 2)
    at.end()
    assert post.subjects == ["q: Big news", "q: Other"]


def test_a_story_of_a_side_alone_says_what_did_not_come(
    receiver: Receiver, at: At, post: Post
) -> None:
    alone = SAME.replace("u AND a/n < b/n, 1000", "u, 3 s").replace("S//item->b", "T//item->b")
    said = "nothing of T that fits came within 3 s"
    at.sender.engine.subscribe("q", f"{alone} ELSE LEFT", stories=True)
    at.sender.outbox.deliver("q", Mail("reader@example.org"))
    at.sender.outbox.deliver("q", Webhook(receiver.url("/alone")))
    at.sender.push(headline(1), headline(9_000_000_000, "Later"))
    eventually(lambda: len(post.mails) == 1 and receiver.at("/alone"))
    (story,) = at.sender.engine.stories("q")
    assert story.absence == said
    (_, mail), (request, *_) = post.mails[0], receiver.at("/alone")
    assert mail["Subject"] == f"q: Big news \N{EM DASH} {said}"
    assert said in mail.as_string()
    assert json.loads(request.body)["data"]["absence"] == said


def test_of_joined_stories_one_is_told_on(receiver: Receiver, at: At, post: Post) -> None:
    engine = at.sender.engine
    engine.subscribe("q", SAME.replace("./title", ".//title"), stories=True)
    at.sender.outbox.deliver("q", Webhook(receiver.url("/joined")))
    at.sender.outbox.deliver("q", Mail("reader@example.org"))
    for number, title in enumerate(("one", "one", "two", "two"), 1):
        at.sender.push(headline(number, title))
    eventually(lambda: len(post.mails) == len(receiver.at("/joined")) == 2)
    first, second = engine.stories("q")[::-1]
    at.sender.push(headline(5, "one</title><title>two"))
    eventually(lambda: len(receiver.at("/joined")) == 3)
    assert len(json.loads(json_feed(page(engine)))["items"]) == 1
    at.end()
    last = receiver.at("/joined")[-1].data
    assert (last["story"], last["new"], last["merged"]) == (first.id, False, [second.id])
    assert last["added"] == ["d3", "d4", "d5"]
    assert last["documents"] == len(last["sources"]) == 5
    assert len(post.mails) == 2
