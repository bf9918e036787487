"""Names of feeds on every surface, and lists of feeds: orders, search, tags, polls of all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from lxml import etree

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


@pytest.mark.parametrize("sort", ["key", "name", "state", "item"])
def test_a_list_goes_on_behind_a_feed_that_is_removed(place: DataDirectory, sort: str) -> None:
    with serving(place) as running, running.client() as operator:
        for name in "abcd":
            new = {"url": f"http://{name}.example.org/feed", "keep": True}
            ok(operator.post("/v1/feeds", json=new))
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
        assert "2 feeds are polled" in page.xpath("string(//p[@role='status'])")


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
