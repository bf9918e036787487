"""One headline in eight feeds: told once, and added to, whatever happens in between."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from lxml import etree

import xscl
from tests.examples import usually
from tests.waiting import eventually
from tests.xscl.delivery.receiver import Receiver, Sending, sending
from tests.xscl.delivery.test_files_and_mails import Post, content, post_office, server
from xscl.delivery.endpoint import Mail, Ntfy, Slack, Webhook
from xscl.delivery.message_reader import LatestMatches, latest, with_stories
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


def restart(at: At) -> None:
    at.restart()


def edit(at: At) -> None:
    at.sender.outbox.edit("q", RENDERED)


def rename(at: At) -> None:
    at.sender.outbox.edit("q", rename="p")
    at.sender.outbox.edit("p", rename="q")


def pause(at: At) -> None:
    at.sender.outbox.edit("q", paused=True)
    at.sender.outbox.edit("q", paused=False)


def backfill(at: At) -> None:
    at.sender.engine.subscribe("other", SAME, stories=True, since=1_000)


def nothing(_: At) -> None:
    pass


class At:
    """An outbox at work over a file, which can be ended and begun again."""

    def __init__(self, begin: Callable[[], Iterator[Sending]]) -> None:
        self._begin = contextmanager(begin)
        self._context = self._begin()
        self.sender = self._context.__enter__()

    def restart(self) -> None:
        self.end()
        self._context = self._begin()
        self.sender = self._context.__enter__()

    def end(self) -> None:
        self._context.__exit__(None, None, None)


@contextmanager
def at_work(receiver: Receiver, path: Path, post: Post) -> Iterator[At]:
    secrets = Credentials(path / "secrets")

    def begin() -> Iterator[Sending]:
        with sending(receiver, secrets, path / "state", mail=server(post)) as sender:
            yield sender

    at = At(begin)
    try:
        yield at
    finally:
        at.end()


BETWEEN = (nothing, restart, edit, rename, pause, backfill)


@pytest.mark.parametrize(
    ("between", "apart"),
    usually(
        product(BETWEEN, (False, True)), *zip(BETWEEN, (False, True) * 3, strict=True), several=True
    ),
)
def test_a_ninth_feed_adds_to_a_story_without_a_second_mail(
    receiver: Receiver, tmp_path: Path, between: Callable[[At], None], apart: bool
) -> None:
    hook, slack, ntfy = (
        receiver.url(f"/{kind}/{between.__name__}/{apart}") for kind in ("hook", "slack", "ntfy")
    )
    paths = [one.partition(f":{receiver.port}")[2] for one in (hook, slack, ntfy)]
    with post_office() as post, at_work(receiver, tmp_path, post) as at:
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
        eventually(lambda: len(post.mails) == 1)
        (before,) = entries(engine)
        tag = etag(page(engine))
        between(at)
        engine = at.sender.engine
        if between is not nothing:
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
    told = [json.loads(one.body) for one in receiver.at(paths[0])]
    assert {one["type"] for one in told} == {"story"}
    assert [one["data"]["new"] for one in told] == [True, *[False] * (len(told) - 2), True]
    assert {one["data"]["story"] for one in told[:-1]} == {story.id}
    assert len({one["data"]["id"] for one in told}) == len(told)
    assert sorted(added()) == sorted(f"d{number}" for number in range(1, 12))
    assert [len(receiver.at(path)) for path in paths[1:]] == [2, 2]
    subjects = [mail["Subject"] for _, mail in post.mails]
    assert subjects == ["q: Big news", "q: Other"]
    assert content(post.mails[0][1], "html").count("<h3>") >= 2


def test_a_digest_has_a_story_once_with_all_that_it_has_by_then(
    receiver: Receiver, tmp_path: Path
) -> None:
    with post_office() as post, at_work(receiver, tmp_path, post) as at:
        at.sender.engine.subscribe("q", SAME, stories=True)
        at.sender.outbox.deliver("q", Mail("reader@example.org", every=1.0))
        for number in range(1, 9):
            at.sender.push(headline(number))
        eventually(lambda: len(post.mails) == 1)
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
def test_times_for_people_are_in_the_zone_of_the_service(
    receiver: Receiver, tmp_path: Path
) -> None:
    with post_office() as post, at_work(receiver, tmp_path, post) as at:
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


def test_a_story_of_the_past_is_told_when_it_is_news(receiver: Receiver, tmp_path: Path) -> None:
    with post_office() as post, at_work(receiver, tmp_path, post) as at:
        at.sender.engine.subscribe("q", SAME, stories=True)
        at.sender.outbox.deliver("q", Mail("reader@example.org"))
        at.sender.push(headline(1, history=True), headline(2, history=True))
        at.sender.push(headline(3), headline(4))
        eventually(lambda: len(post.mails) == 1)
        at.sender.push(headline(5), headline(6, "Other"), headline(7, "Other"))
        eventually(lambda: len(post.mails) == 2)
    assert [mail["Subject"] for _, mail in post.mails] == ["q: Big news", "q: Other"]


def test_a_story_of_a_side_alone_says_what_did_not_come(receiver: Receiver, tmp_path: Path) -> None:
    alone = SAME.replace("u AND a/n < b/n, 1000", "u, 3 s").replace("S//item->b", "T//item->b")
    said = "nothing of T that fits came within 3 s"
    with post_office() as post, at_work(receiver, tmp_path, post) as at:
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


def test_of_joined_stories_one_is_told_on(receiver: Receiver, tmp_path: Path) -> None:
    both = SAME.replace("./title", ".//title")
    with post_office() as post, at_work(receiver, tmp_path, post) as at:
        engine = at.sender.engine
        engine.subscribe("q", both, stories=True)
        at.sender.outbox.deliver("q", Webhook(receiver.url("/joined")))
        at.sender.outbox.deliver("q", Mail("reader@example.org"))
        for number in (1, 2):
            at.sender.push(headline(number, "one"))
        for number in (3, 4):
            at.sender.push(headline(number, "two"))
        eventually(lambda: len(post.mails) == 2)
        first, second = engine.stories("q")[::-1]
        at.sender.push(headline(5, "one</title><title>two"))
        eventually(lambda: len(receiver.at("/joined")) == 3)
        items = json.loads(json_feed(page(engine)))["items"]
    last = receiver.at("/joined")[-1].data
    assert (last["story"], last["new"], last["merged"]) == (first.id, False, [second.id])
    assert last["added"] == ["d3", "d4", "d5"]
    assert last["documents"] == len(last["sources"]) == 5
    assert len(post.mails) == 2
    assert len(items) == 1
