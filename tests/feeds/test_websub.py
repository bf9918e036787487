"""Hubs: how feeds name them, requests to them, signatures."""

from __future__ import annotations

import asyncio
import hashlib
import hmac

import pytest

from feeds.formats.parse import parse_feed
from feeds.http.connection import RequestSettings
from feeds.http.fetch import links_of
from feeds.http.websub import METHODS, is_signed, post
from tests.xscl.polling.scripted import moved, reply, serving

BASE = "http://h.example/feeds/a"
LINKS = '<link rel="hub" href="/hub"/><link rel="self" href="http://h.example/a"/>'


@pytest.mark.parametrize(
    "body",
    [
        f'<feed xmlns="http://www.w3.org/2005/Atom">{LINKS}</feed>',
        '<rss version="2.0"><channel xmlns:a="http://www.w3.org/2005/Atom">'
        f"{LINKS.replace('<link', '<a:link')}</channel></rss>",
        '{"version": "https://jsonfeed.org/version/1.1", "feed_url": "http://h.example/a",'
        ' "hubs": [{"type": "rssCloud", "url": "/no"}, {"type": "WebSub", "url": "/hub"}]}',
    ],
)
def test_a_feed_names_its_hub_and_itself(body: str) -> None:
    feed = parse_feed(body.encode(), url=BASE, seen_at=0)
    assert (feed.hub, feed.self_url) == ("http://h.example/hub", "http://h.example/a")


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (['</hub>; rel="hub"', "<a>; rel=self"], {"hub": "/hub", "self": "/feeds/a"}),
        (["</x>;title=\"a, <b>\";rel='x', </hub>; foo=1; REL=HUB"], {"hub": "/hub"}),
        (['</both>; rel="hub self", </2>; rel=hub'], {"hub": "/both", "self": "/both"}),
        (["<javascript:x>; rel=hub", "</hub>", "nothing", ""], {}),
    ],
)
def test_links_of_the_header(values: list[str], found: dict[str, str]) -> None:
    links = links_of(values, BASE)
    assert {rel: links.get(rel) for rel in ("hub", "self") if rel in links} == {
        rel: f"http://h.example{path}" for rel, path in found.items()
    }


@pytest.mark.parametrize("method", METHODS)
def test_signatures(method: str) -> None:
    written = hmac.new(b"secret", b"body", getattr(hashlib, method)).hexdigest()
    assert is_signed("secret", f"{method}={written.upper()}", b"body")
    assert not is_signed("secret", f"{method}={written}", b"bodY")
    assert not is_signed("other", f"{method}={written}", b"body")
    assert not is_signed("secret", f"md5={written}", b"body")
    assert not is_signed("secret", written, b"body")
    assert not is_signed("secret", f"{method}=é", b"body")


def test_a_hub_is_asked_where_it_redirects_to_and_nowhere_private() -> None:
    with serving() as server:
        allowed = RequestSettings(seconds=30, allow_addresses=frozenset({server.address}))

        def asked(path: str, settings: RequestSettings = allowed) -> str | None:
            return asyncio.run(post(server.url(path), {"hub.mode": "subscribe"}, settings))

        server.says("/hub", reply(status="202 Accepted"))
        server.says("/moved", moved("/hub", "307 Temporary Redirect"))
        server.says("/other", moved("/hub", "302 Found"))
        server.says("/loop", moved("/loop", "308 Permanent Redirect"))
        server.says("/private", moved("http://127.0.0.1:1/", "307 Temporary Redirect"))
        server.says("/no", reply(status="404 Not Found"))
        assert asked("/hub") is None
        assert asked("/moved") is None
        assert asked("/other") == "the hub answered 302"
        assert asked("/loop") == "the hub answered with more than 3 redirects"
        assert asked("/no") == "the hub answered 404"
        assert "127.0.0.1" in (asked("/private") or "")
        before = len(server.asked)
        assert "is refused" in (asked("/hub", RequestSettings()) or "")
        assert len(server.asked) == before
