"""Feeds over HTTP: one's own, polled, with secrets that are never shown (rows W1, W2, W5, W19)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch
from urllib.parse import quote

import httpx
import pytest
from lxml import etree

from tests.waiting import PATIENCE, beside
from tests.xscl.commandline import called, failed
from tests.xscl.failing_commits import failing_commit
from tests.xscl.polling import scripted
from tests.xscl.service.conftest import (
    Running,
    code,
    eventually,
    ok,
    serving,
)
from tests.xscl.web.shown import parsed
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.server.demo import publishing

SECRET = "hunter2"


@dataclass(frozen=True)
class Fed:
    """A service that may fetch from a scripted server of feeds, and its operator."""

    running: Running
    server: scripted.Server
    operator: httpx.Client

    def listed(self, text: str = "") -> list[dict[str, Any]]:
        """Return the operator's feeds whose addresses or titles have a text."""
        return list(ok(self.operator.get("/v1/feeds", params={"text": text}))["items"])

    def shown(self, key: str) -> dict[str, Any]:
        return dict(ok(self.operator.get(f"/v1/feeds/{key}")))

    def page(self, path: str) -> Any:
        return parsed(self.operator.get(path).text)

    def said(self, answer: httpx.Response) -> str:
        """Return the status line of the page that an answer redirects to."""
        page = self.page(answer.headers["location"])
        return " ".join(str(page.xpath("string(//p[@role='status'])")).split())


@contextmanager
def feeding(home: DataDirectory) -> Iterator[Fed]:
    with (
        scripted.serving() as server,
        serving(home, fetching=PollSettings((server.address,))) as running,
        running.client() as operator,
    ):
        yield Fed(running, server, operator)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A service that may fetch from a server of feeds on this machine, and that server."""
    home = DataDirectory(tmp_path_factory.mktemp("fed") / "data")
    with publishing() as server:
        fetching = PollSettings((server.address,))
        with serving(home, fetching=fetching) as running:
            yield running, server.address


def test_a_feed_from_adding_to_removing(samples: tuple[Running, str]) -> None:
    running, server = samples
    with running.client() as operator:
        new = {"url": f"http://{server}/weather.atom", "stream": "weather", "tags": ["all"]}
        added = operator.post("/v1/feeds", json=new)
        assert added.status_code == 201, added.text
        key = added.json()["key"]
        assert code(operator.post("/v1/feeds", json=new)) == (400, "feeds")
        eventually(lambda: ok(operator.get(f"/v1/feeds/{key}"))["items"] > 0)
        shown = ok(operator.get(f"/v1/feeds/{key}"))
        assert (shown["state"], shown["stream"], shown["tags"]) == ("ok", "weather", ["all"])
        assert [one["key"] for one in ok(operator.get("/v1/feeds"))["items"]] == [key]
        changed = ok(operator.patch(f"/v1/feeds/{key}", json={"every": "30 min", "tags": []}))
        assert (changed["every"], changed["tags"]) == (1_800, [])
        assert operator.post(f"/v1/feeds/{key}:poll").status_code == 202
        names = {one["name"] for one in ok(operator.get("/v1/streams"))["items"]}
        assert {"weather", "all", "feeds"} <= names
        opml = operator.get("/v1/feeds:export").content
        assert b"weather.atom" in opml
        assert operator.delete(f"/v1/feeds/{key}").status_code == 204
        assert code(operator.get(f"/v1/feeds/{key}")) == (404, "unknown_feed")
        (line,) = ok(operator.post("/v1/feeds:import", content=opml))
        assert (line["outcome"], line["stream"]) == ("added", "weather")
        assert ok(operator.get(f"/v1/feeds/{key}"))["every"] == 1_800
        (line,) = ok(operator.post("/v1/feeds:import", content=opml))
        assert line["outcome"] == "followed already"


def test_two_users_follow_one_address_apart(samples: tuple[Running, str]) -> None:
    running, server = samples
    url = f"http://{server}/harbour.rss"
    with running.user("alice") as alice, running.user("bob") as bob:
        keys = {
            ok(one.post("/v1/feeds", json={"url": url, "keep": True}))["key"]
            for one in (alice, bob)
        }
        assert len(keys) == 1
        key = keys.pop()
        assert bob.delete(f"/v1/feeds/{key}").status_code == 204
        assert code(bob.get(f"/v1/feeds/{key}")) == (404, "unknown_feed")
        eventually(lambda: ok(alice.get(f"/v1/feeds/{key}"))["polls"] > 0)
        shown = ok(alice.get(f"/v1/feeds/{key}"))
        assert shown["state"] == "ok"
        assert not shown["stream"].startswith("_")
        attempt = partial(alice.post, "/v1/try", json={"query": "feeds//item->i"})
        eventually(lambda: ok(attempt())["total"] > 0)
        tried = ok(attempt())
        assert all(key in name for match in tried["matches"] for name in match["documents"])
        with running.client() as operator, running.user("carol") as carol:
            seen = ok(carol.post("/v1/try", json={"query": "feeds//item->i"}))["matches"]
            public = ok(operator.post("/v1/try", json={"query": "feeds//item->i"}))["matches"]
            assert len(seen) == len(public)
            assert not any("harbour" in str(match) for match in seen)
            (item, *_) = tried["matches"][0]["documents"]
            asked = {"query": "feeds//item->i", "documents": [item]}
            assert ok(alice.post("/v1/why", json=asked))
            assert code(carol.post("/v1/why", json=asked))[1] == "unknown_document"


def test_w19_secrets_of_feeds_are_never_shown(operator: httpx.Client, running: Running) -> None:
    new = {
        "url": f"https://ann:{SECRET}@feeds.example/a.atom?token={SECRET}",
        "headers": [f"X-Key: {SECRET}"],
        "keep": True,
    }
    added = operator.post("/v1/feeds", json=new)
    assert added.status_code == 201, added.text
    key = added.json()["key"]
    assert sorted(added.json()["headers"]) == ["Authorization", "X-Key"]
    answers = [
        added,
        operator.post("/v1/feeds", json=new),
        operator.get("/v1/feeds"),
        operator.get(f"/v1/feeds/{key}"),
        operator.get("/v1/feeds:export"),
        operator.get("/v1/status"),
        operator.get("/v1/metrics"),
        operator.post("/v1/feeds", json={"url": f"https://x:{SECRET}@[/", "headers": [SECRET]}),
    ]
    assert [one.url for one in answers if SECRET in one.text] == []
    assert operator.get("/v1/feeds:export").headers["x-left-out"] == "1"
    assert SECRET.encode() not in running.home.database.read_bytes()
    operator.delete(f"/v1/feeds/{key}")


# -- Names of feeds on every surface, and lists of feeds -----------------------------------


PAIR = (
    "feeds//item->a[./title->t][./feed->f] JOIN{t = u AND f != g, 30 d}"
    " feeds//item->b[./title->u][./feed->g]"
)
PATHS = ("/post", "/times")


@pytest.fixture
def fed(place: DataDirectory) -> Iterator[Fed]:
    """It follows two feeds of one host and one title, with one headline."""
    with feeding(place) as fed:
        for path in PATHS:
            fed.server.says(path, scripted.reply(scripted.rss("Ferry stops")))
            new = {"url": fed.server.url(path), "stream": path[1:], "tags": ["daily"]}
            ok(fed.operator.post("/v1/feeds", json=new))
        ok(fed.operator.put("/v1/subscriptions/same", json={"query": PAIR}))
        eventually(lambda: ok(fed.operator.get("/v1/subscriptions/same/matches"))["matches"])
        yield fed


def origins(fed: Fed) -> set[str]:
    """Return the sources of items on the cards of the newest match."""
    cards = fed.page("/").xpath("//article[1]//p[@class='item-from']/mark")
    return {" ".join(str(one.text_content()).split("value 2: ")[-1].split()) for one in cards}


def test_each_surface_has_the_name_of_the_feed(fed: Fed) -> None:
    operator = fed.operator
    assert origins(fed) == {"Sample (post)", "Sample (times)"}, "they differ"
    key = fed.listed("times")[0]["key"]
    named = ok(operator.patch(f"/v1/feeds/{key}", json={"title": " My <b>times\x01"}))
    assert (named["title"], named["published_title"]) == ("My <b>times", "Sample")
    assert origins(fed) == {"Sample", "My <b>times"}
    match = ok(operator.get("/v1/subscriptions/same/matches"))["matches"][0]
    shown = {one["stream"]: one["feed_title"] for one in match["sources"]}
    assert shown == {"post": "Sample", "times": "My <b>times"}
    entry = operator.get("/v1/subscriptions/same/feed.atom").text
    assert "My &amp;lt;b&amp;gt;times" in entry
    statement = "SELECT DISTINCT stream, feed_title FROM documents ORDER BY stream"
    rows = ok(operator.post("/v1/sql", json={"query": statement}))["rows"]
    assert rows == [["post", "Sample"], ["times", "My <b>times"]]
    (times,) = (one["document"] for one in match["sources"] if one["stream"] == "times")
    for path in ("/items", f"/document?id={quote(times)}"):
        assert "My <b>times" in fed.page(path).text_content()
    item = operator.get("/v1/documents", params={"stream": "times"}).json()["items"][0]
    assert item["feed_title"] == "My <b>times"
    form = {"feed": key, "title": "", "tags": "daily", "every": "1 h"}
    assert operator.post("/feeds/edit", data=form).status_code == 303
    assert fed.shown(key)["title"] == "Sample", "its own again"


def test_items_do_not_change_with_the_title_of_their_feed(fed: Fed) -> None:
    body = scripted.rss("Ferry stops").replace(b"<title>Sample", b"<title>Renamed")
    fed.server.says("/post", scripted.reply(body))
    (feed,) = fed.listed("/post")
    fed.operator.post(f"/v1/feeds/{feed['key']}:poll")
    eventually(lambda: fed.shown(feed["key"])["title"] == "Renamed")
    assert fed.shown(feed["key"])["versions"] == feed["versions"] == 1


def test_feeds_are_listed_by_name_state_and_newest_item(place: DataDirectory) -> None:
    with feeding(place) as fed:
        for number, (title, day) in enumerate((("beta", 3), ("Alpha", 5), ("gamma", 1))):
            item = f"<item><title>t</title><pubDate>0{day} Nov 2026 00:00:00 GMT</pubDate></item>"
            feed = f'<rss version="2.0"><channel><title>{title}</title>{item}</channel></rss>'
            fed.server.says(f"/{number}", scripted.reply(feed.encode()))
        fed.server.says("/3", scripted.reply(b"", status="404 Not Found"))
        for number in range(4):
            new = {"url": fed.server.url(f"/{number}"), "tags": ["odd"] if number % 2 else []}
            ok(fed.operator.post("/v1/feeds", json={**new, "keep": True}))

        def listed(**asked: str) -> list[str]:
            found, after = list[str](), dict[str, str]()
            while True:
                page = ok(fed.operator.get("/v1/feeds", params={"limit": 1, **asked, **after}))
                found += [one["title"] for one in page["items"]]
                if page["next"] is None:
                    return found
                after = {"after": page["next"]}

        assert listed(sort="name") == ["Alpha", "beta", "gamma", ""]
        assert listed(sort="state")[0] == ""
        assert listed(sort="item") == ["Alpha", "beta", "gamma", ""]
        assert sorted(listed()) == ["", "Alpha", "beta", "gamma"]
        assert listed(text="ALPH") == ["Alpha"]
        assert sorted(listed(tag="odd")) == ["", "Alpha"]
        for sort, after in ("name", "none"), ("item", "a b"), ("state", "a 9" + "9" * 30):
            wrong = fed.operator.get("/v1/feeds", params={"sort": sort, "after": after})
            assert code(wrong) == (422, "invalid_request")
        page = fed.page("/feeds?tag=odd&sort=state")
        names = page.xpath("//li[contains(@class, 'feed-row')]//h2/a/text()")
        assert names == [fed.server.url("/3"), "Alpha"]
        assert page.xpath("//select[@id='tag']/option/text()") == ["all", "odd"]


def test_a_list_goes_on_behind_a_feed_that_is_removed(place: DataDirectory) -> None:
    with serving(place) as running, running.client() as operator:
        for sort in ("key", "name", "state", "item"):
            for name in "abcd":
                new = {"url": f"http://{name}.example.org/feed", "keep": True}
                operator.post("/v1/feeds", json=new)  # one of them was removed
            asked = {"sort": sort, "limit": "2"}
            whole = [one["key"] for one in ok(operator.get(f"/v1/feeds?sort={sort}"))["items"]]
            first = ok(operator.get("/v1/feeds", params=asked))
            assert operator.delete(f"/v1/feeds/{first['items'][-1]['key']}").status_code == 204
            rest = ok(operator.get("/v1/feeds", params={**asked, "after": first["next"]}))
            assert [one["key"] for one in rest["items"]] == whole[2:]
            assert rest["next"] is None


def test_all_feeds_of_one_user_are_polled(fed: Fed) -> None:
    with fed.running.user("ann") as ann:
        assert ok(ann.post("/v1/feeds:poll")) == {"feeds": 0}
    before = [fed.server.count(path) for path in PATHS]
    assert ok(fed.operator.post("/v1/feeds:poll")) == {"feeds": 2}
    eventually(lambda: all(fed.server.count(p) > n for p, n in zip(PATHS, before, strict=True)))
    said = fed.said(fed.operator.post("/feeds/poll-all"))
    assert said == "2 of 2 feeds have been polled: 0 new items."
    fed.server.says(PATHS[0], scripted.reply(scripted.rss("new", "newer")))
    assert "polled: 2 new items." in fed.said(fed.operator.post("/feeds/poll-all"))


def test_feeds_that_were_just_polled_are_not_waited_for(
    fed: Fed, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fed.running.user("ann") as ann:
        ok(ann.post("/v1/feeds", json={"url": fed.server.url(PATHS[0]), "stream": "hers"}))
        monkeypatch.setattr("xscl.service.routes.feeds.LOOK", PATIENCE)  # the second look
        said = fed.said(ann.post("/feeds/poll-all"))
    assert said.startswith("0 of 1 feed have been polled: 0 new items. The others follow")


def test_the_page_says_what_following_a_feed_has_brought(fed: Fed) -> None:
    fed.server.says("/new", scripted.reply(scripted.rss("a", "b")))
    said = fed.said(fed.operator.post("/feeds/add", data={"url": fed.server.url("/new")}))
    assert said.startswith("You follow Sample: it has 2 items. Its stream is")
    form = {"url": fed.server.url("/none"), "tags": "a, b"}
    refused = fed.operator.post("/feeds/add", data=form)
    assert refused.status_code == 422
    page = parsed(refused.text)
    assert page.xpath("//input[@name='keep']")
    assert page.xpath("//input[@id='tags']/@value") == ["a, b"], "what was typed stays"
    assert etree.tostring(page).count(b"is not followed") == 1


# -- The first answer of a feed ------------------------------------------------------------


PAGE = b"<html><head><title>t</title></head><body>x</body></html>"
ANSWERS = {
    "/404": (scripted.reply(b"no", status="404 Not Found"), "the server answered 404 Not Found"),
    "/410": (scripted.reply(b"", status="410 Gone"), "the feed is gone"),
    "/500": (scripted.reply(b"", status="500 Oops"), "the server answered 500 Oops"),
    "/page": (scripted.reply(PAGE), "the answer is a web page, not a feed"),
    "/xml": (scripted.reply(b"<opml version='2.0'/>"), "which is no RSS and no Atom feed"),
    "/broken": (scripted.reply(b"<rss><channel><item>"), "the feed cannot be read"),
    "/json": (scripted.reply(b"{}"), "no JSON Feed"),
    "/empty": (scripted.reply(b""), "the feed cannot be read"),
}


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fed]:
    """Its server has what is no feed."""
    home = DataDirectory(tmp_path_factory.mktemp("asked") / "data")
    with feeding(home) as fed:
        for path, (answer, _) in ANSWERS.items():
            fed.server.says(path, answer)
        yield fed


@pytest.mark.parametrize("path", ANSWERS)
def test_what_is_no_feed_is_refused_unless_it_is_wanted(refusing: Fed, path: str) -> None:
    url, data = refusing.server.url(path), ("--data", str(refusing.running.home.path))
    reason, operator = ANSWERS[path][1], refusing.operator
    with refusing.running.user("ann") as ann:
        for client in (operator, ann):
            refused = client.post("/v1/feeds", json={"url": url, "stream": "unheard"})
            assert code(refused) == (400, "feeds")
            assert reason in refused.json()["detail"]
            assert "is not followed" in refused.json()["detail"]
            assert ok(client.get("/v1/feeds"))["items"] == []
            assert client.get("/v1/streams/unheard").status_code == 404
        used = ok(ann.get("/v1/me"))["used"]
    assert (used["feeds"], used["streams"]) == (0, 0)
    page = operator.post("/feeds/add", data={"url": url})
    assert page.status_code == 422
    assert reason in page.text
    told = failed(1, "feeds", "add", url, *data)
    assert reason in told
    assert "is not followed" in told
    kept = called("feeds", "add", url, "--keep", *data)
    assert kept.exit_code == 0
    assert reason in kept.stderr
    operator.delete(f"/v1/feeds/{refusing.listed()[0]['key']}")
    page = operator.post("/feeds/add", data={"url": url, "keep": "true"})
    assert page.status_code == 303
    (feed,) = refusing.listed()
    assert reason in feed["error"]
    operator.delete(f"/v1/feeds/{feed['key']}")


USES: dict[str, Callable[[httpx.Client], httpx.Response]] = {
    "declared": lambda one: one.put("/v1/streams/heard", json={}),
    "declared as it is": lambda one: one.put("/v1/streams/heard", json={"lateness": "2 h"}),
    "read": lambda one: one.put("/v1/subscriptions/q", json={"query": "heard//a"}),
    "written": lambda one: one.post("/v1/documents/heard?id=d", content=b"<a/>"),
    "of another feed": lambda one: one.post(
        "/v1/feeds", json={"url": "https://nowhere.example/f", "stream": "heard", "keep": True}
    ),
}


@contextmanager
def refused_later(fed: Fed, client: httpx.Client, name: str) -> Iterator[None]:
    """Ask for a feed that answers after the block, and is no feed; its stream is `heard`."""
    answer = threading.Event()
    fed.server.says(f"/{name}", scripted.slowly(scripted.reply(PAGE), answer))
    new = {"url": fed.server.url(f"/{name}"), "stream": "heard"}
    with beside(lambda: client.post("/v1/feeds", json=new), until=answer) as (asking,):
        eventually(lambda: fed.server.count(f"/{name}"))
        # A poll may begin before the stream has its owner.
        eventually(lambda: client.get("/v1/streams/heard").status_code == 200)
        yield
    assert code(asking.result()) == (400, "feeds")


@pytest.mark.parametrize("use", USES)
def test_a_stream_that_is_used_while_a_feed_is_refused_stays(refusing: Fed, use: str) -> None:
    name = f"u-{use.replace(' ', '-')}"
    with refusing.running.user(name) as client:
        with refused_later(refusing, client, name):
            used = USES[use](client)
            assert used.status_code < 300, used.text
            if use == "written":
                listed = partial(client.get, "/v1/streams", params={"after": "hear", "limit": 1})
                eventually(lambda: ok(listed())["items"][0]["documents"])
        assert ok(client.get("/v1/streams/heard"))["own"]
        assert ok(client.get("/v1/me"))["used"]["streams"] == 1
        for feed in ok(client.get("/v1/feeds"))["items"]:
            client.delete(f"/v1/feeds/{feed['key']}")


def test_a_refused_feed_leaves_no_stream_though_a_change_has_failed(refusing: Fed) -> None:
    with refusing.running.user("zoe") as client:
        with refused_later(refusing, client, "failed"), failing_commit():
            failed = client.put("/v1/subscriptions/q", json={"query": "heard//a"})
            assert failed.status_code == 500, failed.text
        assert client.get("/v1/streams/heard").status_code == 404
        assert ok(client.get("/v1/me"))["used"]["streams"] == 0


def test_a_feed_is_followed_with_its_first_items(refusing: Fed) -> None:
    server = refusing.server
    server.says("/good", scripted.reply(scripted.rss("a", "b")))
    announcing = PAGE.replace(
        b"</head>", b'<link rel="alternate" type="application/json" href="/feed.json"></head>'
    )
    feed = b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": "1"}]}'
    server.says("/announcing", scripted.reply(announcing))
    server.says("/feed.json", scripted.reply(feed))
    for path, items in (("/good", 2), ("/announcing", 1)):
        added = ok(refusing.operator.post("/v1/feeds", json={"url": server.url(path)}))
        assert (added["state"], added["items"]) == ("ok", items)
        assert refusing.operator.delete(f"/v1/feeds/{added['key']}").status_code == 204


def test_an_address_without_a_server_is_refused_and_kept_in_a_list(refusing: Fed) -> None:
    operator = refusing.operator
    refused = operator.post("/v1/feeds", json={"url": "https://nowhere.example/feed"})
    assert code(refused) == (400, "feeds")
    assert "cannot be reached" in refused.json()["detail"]
    content = refusing.server.url("/404").encode()
    (line,) = ok(operator.post("/v1/feeds:import", content=content))
    assert line["outcome"] == "added"
    operator.delete(f"/v1/feeds/{refusing.listed()[0]['key']}")


@patch("xscl.service.routes.feeds.FIRST_ANSWER", 0.3)
def test_a_feed_that_does_not_answer_in_time_is_followed(refusing: Fed) -> None:
    refusing.server.says("/silent", scripted.slowly(b"", PATIENCE))
    added = ok(refusing.operator.post("/v1/feeds", json={"url": refusing.server.url("/silent")}))
    assert added["state"] == "new"
    refusing.operator.delete(f"/v1/feeds/{added['key']}")
