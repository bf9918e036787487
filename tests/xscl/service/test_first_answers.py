"""The first answer of a feed: what is no feed is refused, and what does not answer is followed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.xscl.commandline import called
from tests.xscl.polling import scripted
from tests.xscl.service.conftest import Running, code, ok, serving, token_of
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings

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
        with serving(home, fetching=fetching) as running:
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
    done = called("feeds", "add", server.url(path), "--data", str(running.home.path))
    assert done.exit_code == 1
    assert ANSWERS[path][1] in done.stderr
    assert "is not followed" in done.stderr
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
