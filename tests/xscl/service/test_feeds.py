"""Feeds over HTTP: one's own, polled, with secrets that are never shown (rows W1, W2, W5, W19)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

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
    token_of,
)
from tests.xscl.web.shown import parsed
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.server.demo import publishing

SECRET = "hunter2"


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
    with running.client() as operator:
        alice, bob = (running.client(token_of(operator, name)) for name in ("alice", "bob"))
    with alice, bob:
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
        with running.client() as operator, running.client(token_of(operator, "carol")) as carol:
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


@contextmanager
def following(place: DataDirectory) -> Iterator[tuple[Running, scripted.Server]]:
    """Run a service that follows two feeds of one host and one title, with one headline."""
    with scripted.serving() as server:
        for path in PATHS:
            server.says(path, scripted.reply(scripted.rss("Ferry stops")))
        fetching = PollSettings((server.address,))
        with serving(place, fetching=fetching) as running, running.client() as operator:
            for path in PATHS:
                new = {"url": server.url(path), "stream": path[1:], "tags": ["daily"]}
                assert operator.post("/v1/feeds", json=new).status_code == 201
            ok(operator.put("/v1/subscriptions/same", json={"query": PAIR}))
            eventually(lambda: ok(operator.get("/v1/subscriptions/same/matches"))["matches"])
            yield running, server


@pytest.fixture
def fed(place: DataDirectory) -> Iterator[tuple[Running, scripted.Server]]:
    with following(place) as found:
        yield found


def origins(client: httpx.Client) -> set[str]:
    """Return the sources of items on the cards of the newest match."""
    page = parsed(client.get("/").text)
    cards = page.xpath("//article[1]//p[@class='item-from']/mark")
    return {" ".join(str(one.text_content()).split("value 2: ")[-1].split()) for one in cards}


def test_each_surface_has_the_name_of_the_feed(fed: tuple[Running, scripted.Server]) -> None:
    running, _ = fed
    with running.client() as operator:
        assert origins(operator) == {"Sample (post)", "Sample (times)"}, "they differ"
        key = ok(operator.get("/v1/feeds", params={"text": "times"}))["items"][0]["key"]
        named = ok(operator.patch(f"/v1/feeds/{key}", json={"title": " My <b>times\x01"}))
        assert (named["title"], named["published_title"]) == ("My <b>times", "Sample")
        assert origins(operator) == {"Sample", "My <b>times"}
        match = ok(operator.get("/v1/subscriptions/same/matches"))["matches"][0]
        shown = {one["stream"]: one["feed_title"] for one in match["sources"]}
        assert shown == {"post": "Sample", "times": "My <b>times"}
        entry = operator.get("/v1/subscriptions/same/feed.atom").text
        assert "My &amp;lt;b&amp;gt;times" in entry
        statement = "SELECT DISTINCT stream, feed_title FROM documents ORDER BY stream"
        rows = ok(operator.post("/v1/sql", json={"query": statement}))["rows"]
        assert rows == [["post", "Sample"], ["times", "My <b>times"]]
        assert "My <b>times" in parsed(operator.get("/items").text).text_content()
        (times,) = (one["document"] for one in match["sources"] if one["stream"] == "times")
        document = operator.get("/document", params={"id": times})
        assert "My <b>times" in parsed(document.text).text_content()
        item = operator.get("/v1/documents", params={"stream": "times"}).json()["items"][0]
        assert item["feed_title"] == "My <b>times"
        form = {"feed": key, "title": "", "tags": "daily", "every": "1 h"}
        assert operator.post("/feeds/edit", data=form).status_code == 303
        assert ok(operator.get(f"/v1/feeds/{key}"))["title"] == "Sample", "its own again"


def test_items_do_not_change_with_the_title_of_their_feed(
    fed: tuple[Running, scripted.Server],
) -> None:
    running, server = fed
    body = scripted.rss("Ferry stops").replace(b"<title>Sample", b"<title>Renamed")
    server.says("/post", scripted.reply(body))
    with running.client() as operator:
        (feed,) = ok(operator.get("/v1/feeds", params={"text": "/post"}))["items"]
        operator.post(f"/v1/feeds/{feed['key']}:poll")
        eventually(lambda: ok(operator.get(f"/v1/feeds/{feed['key']}"))["title"] == "Renamed")
        assert ok(operator.get(f"/v1/feeds/{feed['key']}"))["versions"] == feed["versions"] == 1


def test_feeds_are_listed_by_name_state_and_newest_item(place: DataDirectory) -> None:
    with scripted.serving() as server:
        for number, (title, day) in enumerate((("beta", 3), ("Alpha", 5), ("gamma", 1))):
            item = f"<item><title>t</title><pubDate>0{day} Nov 2026 00:00:00 GMT</pubDate></item>"
            feed = f'<rss version="2.0"><channel><title>{title}</title>{item}</channel></rss>'
            server.says(f"/{number}", scripted.reply(feed.encode()))
        server.says("/3", scripted.reply(b"", status="404 Not Found"))
        fetching = PollSettings((server.address,))
        with serving(place, fetching=fetching) as running, running.client() as operator:
            for number in range(4):
                new = {"url": server.url(f"/{number}"), "tags": ["odd"] if number % 2 else []}
                ok(operator.post("/v1/feeds", json={**new, "keep": True}))

            def listed(**asked: str) -> list[str]:
                found, after = list[str](), dict[str, str]()
                while True:
                    page = ok(operator.get("/v1/feeds", params={"limit": 1, **asked, **after}))
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
                wrong = operator.get("/v1/feeds", params={"sort": sort, "after": after})
                assert code(wrong) == (422, "invalid_request")
            page = parsed(operator.get("/feeds?tag=odd&sort=state").text)
            names = page.xpath("//li[contains(@class, 'feed-row')]//h2/a/text()")
            assert names == [server.url("/3"), "Alpha"]
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


def test_all_feeds_of_one_user_are_polled(fed: tuple[Running, scripted.Server]) -> None:
    running, server = fed
    with running.client() as operator, running.client(token_of(operator, "ann")) as ann:
        assert ok(ann.post("/v1/feeds:poll")) == {"feeds": 0}
        before = [server.count(path) for path in PATHS]
        assert ok(operator.post("/v1/feeds:poll")) == {"feeds": 2}
        eventually(lambda: all(server.count(p) > n for p, n in zip(PATHS, before, strict=True)))
        answer = operator.post("/feeds/poll-all")
        page = parsed(operator.get(answer.headers["location"]).text)
        said = page.xpath("string(//p[@role='status'])")
        assert said == "2 of 2 feeds have been polled: 0 new items."
        server.says(PATHS[0], scripted.reply(scripted.rss("new", "newer")))
        answer = operator.post("/feeds/poll-all")
        page = parsed(operator.get(answer.headers["location"]).text)
        assert "polled: 2 new items." in page.xpath("string(//p[@role='status'])")


def test_feeds_that_were_just_polled_are_not_waited_for(
    fed: tuple[Running, scripted.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, server = fed
    with running.client() as operator, running.client(token_of(operator, "ann")) as ann:
        ok(ann.post("/v1/feeds", json={"url": server.url(PATHS[0]), "stream": "hers"}))
        monkeypatch.setattr("xscl.service.routes.feeds.LOOK", PATIENCE)  # the second look
        answer = ann.post("/feeds/poll-all")
        page = parsed(ann.get(answer.headers["location"]).text)
        said = page.xpath("string(//p[@role='status'])")
        assert said.startswith("0 of 1 feed have been polled: 0 new items. The others follow")


def test_the_page_says_what_following_a_feed_has_brought(
    fed: tuple[Running, scripted.Server],
) -> None:
    running, server = fed
    server.says("/new", scripted.reply(scripted.rss("a", "b")))
    with running.client() as operator:
        answer = operator.post("/feeds/add", data={"url": server.url("/new")})
        page = parsed(operator.get(answer.headers["location"]).text)
        said = " ".join(str(page.xpath("string(//p[@role='status'])")).split())
        assert said.startswith("You follow Sample: it has 2 items. Its stream is")
        refused = operator.post("/feeds/add", data={"url": server.url("/none"), "tags": "a, b"})
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
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, scripted.Server]]:
    """A service that may fetch from a scripted server."""
    home = DataDirectory(tmp_path_factory.mktemp("asked") / "data")
    with scripted.serving() as server:
        for path, (answer, _) in ANSWERS.items():
            server.says(path, answer)
        fetching = PollSettings((server.address,))
        with serving(home, fetching=fetching) as running, pytest.MonkeyPatch.context() as patch:
            patch.setattr("xscl.service.routes.feeds.FIRST_ANSWER", PATIENCE)
            yield running, server


@pytest.mark.parametrize("path", ANSWERS)
def test_what_is_no_feed_is_refused_unless_it_is_wanted(
    asked: tuple[Running, scripted.Server], path: str
) -> None:
    running, server = asked
    with running.client() as operator, running.client(token_of(operator, "ann")) as ann:
        for client in (operator, ann):
            asking = {"url": server.url(path), "stream": "unheard"}
            refused = client.post("/v1/feeds", json=asking)
            assert code(refused) == (400, "feeds")
            assert ANSWERS[path][1] in refused.json()["detail"]
            assert "is not followed" in refused.json()["detail"]
            assert ok(client.get("/v1/feeds"))["items"] == []
            assert client.get("/v1/streams/unheard").status_code == 404
        used = ok(ann.get("/v1/me"))["used"]
        assert (used["feeds"], used["streams"]) == (0, 0)
        page = operator.post("/feeds/add", data={"url": server.url(path)})
        assert page.status_code == 422
        assert ANSWERS[path][1] in page.text
    told = failed(1, "feeds", "add", server.url(path), "--data", str(running.home.path))
    assert ANSWERS[path][1] in told
    assert "is not followed" in told
    kept = called("feeds", "add", server.url(path), "--keep", "--data", str(running.home.path))
    assert kept.exit_code == 0
    assert ANSWERS[path][1] in kept.stderr
    with running.client() as operator:
        (feed,) = ok(operator.get("/v1/feeds"))["items"]
        operator.delete(f"/v1/feeds/{feed['key']}")
        page = operator.post("/feeds/add", data={"url": server.url(path), "keep": "true"})
        assert page.status_code == 303
        (feed,) = ok(operator.get("/v1/feeds"))["items"]
        assert ANSWERS[path][1] in feed["error"]
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
def refused_later(
    asked: tuple[Running, scripted.Server], client: httpx.Client, name: str
) -> Iterator[None]:
    """Ask for a feed that answers after the block, and is no feed; its stream is `heard`."""
    answer = threading.Event()

    async def later(writer: asyncio.StreamWriter) -> None:
        while not answer.is_set():
            await asyncio.sleep(0.01)
        writer.write(ANSWERS["/404"][0])
        await writer.drain()

    _, server = asked
    server.says(f"/{name}", later)
    new = {"url": server.url(f"/{name}"), "stream": "heard"}
    with beside(lambda: client.post("/v1/feeds", json=new), until=answer) as (asking,):
        eventually(lambda: server.count(f"/{name}"))
        yield
    assert code(asking.result()) == (400, "feeds")


@pytest.mark.parametrize("use", USES)
def test_a_stream_that_is_used_while_a_feed_is_refused_stays(
    asked: tuple[Running, scripted.Server], use: str
) -> None:
    name = f"u-{use.replace(' ', '-')}"
    with asked[0].client() as operator, asked[0].client(token_of(operator, name)) as client:
        with refused_later(asked, client, name):
            used = USES[use](client)
            assert used.status_code < 300, used.text
            if use == "written":
                listed = partial(client.get, "/v1/streams", params={"after": "hear", "limit": 1})
                eventually(lambda: ok(listed())["items"][0]["documents"])
        stream = ok(client.get("/v1/streams/heard"))
        assert stream["own"]
        assert ok(client.get("/v1/me"))["used"]["streams"] == 1
        for feed in ok(client.get("/v1/feeds"))["items"]:
            client.delete(f"/v1/feeds/{feed['key']}")


def test_a_refused_feed_leaves_no_stream_though_a_change_has_failed_meanwhile(
    asked: tuple[Running, scripted.Server],
) -> None:
    with asked[0].client() as operator, asked[0].client(token_of(operator, "zoe")) as client:
        with refused_later(asked, client, "failed"), failing_commit():
            failed = client.put("/v1/subscriptions/q", json={"query": "heard//a"})
            assert failed.status_code == 500, failed.text
        assert client.get("/v1/streams/heard").status_code == 404
        assert ok(client.get("/v1/me"))["used"]["streams"] == 0


def test_a_feed_is_followed_with_its_first_items(asked: tuple[Running, scripted.Server]) -> None:
    running, server = asked
    server.says("/good", scripted.reply(scripted.rss("a", "b")))
    announcing = PAGE.replace(
        b"</head>", b'<link rel="alternate" type="application/json" href="/feed.json"></head>'
    )
    feed = b'{"version": "https://jsonfeed.org/version/1", "items": [{"id": "1"}]}'
    server.says("/announcing", scripted.reply(announcing))
    server.says("/feed.json", scripted.reply(feed))
    with running.client() as operator:
        for path, items in (("/good", 2), ("/announcing", 1)):
            added = operator.post("/v1/feeds", json={"url": server.url(path)})
            assert added.status_code == 201
            assert (added.json()["state"], added.json()["items"]) == ("ok", items)
            assert operator.delete(f"/v1/feeds/{added.json()['key']}").status_code == 204


def test_an_address_without_a_server_is_refused_and_kept_in_a_list(
    asked: tuple[Running, scripted.Server],
) -> None:
    running, server = asked
    with running.client() as operator:
        refused = operator.post("/v1/feeds", json={"url": "https://nowhere.example/feed"})
        assert code(refused) == (400, "feeds")
        assert "cannot be reached" in refused.json()["detail"]
        (line,) = ok(operator.post("/v1/feeds:import", content=server.url("/404").encode()))
        assert line["outcome"] == "added"
        for feed in ok(operator.get("/v1/feeds"))["items"]:
            operator.delete(f"/v1/feeds/{feed['key']}")


def test_a_feed_that_does_not_answer_in_time_is_followed(
    asked: tuple[Running, scripted.Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    running, server = asked
    monkeypatch.setattr("xscl.service.routes.feeds.FIRST_ANSWER", 0.3)
    ending = asyncio.Event()

    async def silent(writer: asyncio.StreamWriter) -> None:
        await ending.wait()

    server.says("/silent", silent)
    with running.client() as operator:
        added = operator.post("/v1/feeds", json={"url": server.url("/silent")})
        assert (added.status_code, added.json()["state"]) == (201, "new")
        operator.delete(f"/v1/feeds/{added.json()['key']}")
