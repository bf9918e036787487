"""Feeds over HTTP: one's own, polled, with secrets that are never shown (rows W1, W2, W5, W19)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import httpx
import pytest

from tests.xscl.service.conftest import Running, code, eventually, ok, serving, token_of
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.server.demo import publishing

SECRET = "hunter2"


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A service that may fetch from a server of feeds on this machine, and that server."""
    home = DataDirectory(tmp_path_factory.mktemp("fed") / "data")
    with publishing() as server:
        fetching = PollSettings((server.address,))
        with serving(home, fetching=fetching) as running:
            yield running, server.address


def test_a_feed_from_adding_to_removing(fed: tuple[Running, str]) -> None:
    running, server = fed
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


def test_two_users_follow_one_address_apart(fed: tuple[Running, str]) -> None:
    running, server = fed
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


@pytest.mark.parametrize("host", ["[::1]", "u@127.0.0.1"])
def test_w1_private_addresses(operator: httpx.Client, host: str) -> None:
    """All networks, in every form: `tests/feeds/test_addresses.py`."""
    answer = operator.post("/v1/feeds", json={"url": f"http://{host}/x"})
    assert code(answer) in ((422, "url_private"), (422, "url_invalid"))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://example.org:22/", "url_port"),
        ("http://example.org:65536/", "feeds"),
        ("gopher://example.org/", "feeds"),
        ("file:///etc/passwd", "feeds"),
        ("http://example.org\\@127.0.0.1/", "url_invalid"),
    ],
)
def test_w5_ports_and_schemes(operator: httpx.Client, url: str, reason: str) -> None:
    answer = operator.post("/v1/feeds", json={"url": url})
    assert code(answer)[0] in (400, 422)
    assert code(answer)[1] == reason


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
