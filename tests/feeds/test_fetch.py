"""One poll against scripted servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
import time
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

import pytest

from feeds.errors import MalformedDocument
from feeds.formats import registry
from feeds.formats.discovery import discover, is_html
from feeds.formats.entries import FeedChannel, FeedEntry
from feeds.formats.parse import parse_feed
from feeds.formats.registry import TextFormat
from feeds.http.addresses import RESOLVING, RequestFailed, check
from feeds.http.addresses import resolve as system_resolve
from feeds.http.connection import TRIED, DomainBlocked, RequestSettings
from feeds.http.feed_state import FeedState
from feeds.http.fetch import (
    UNCONDITIONAL,
    Deferred,
    Failed,
    Fetched,
    Gone,
    NotModified,
    Outcome,
    _headers,
    fetch,
)
from feeds.http.schedule import PollHints
from tests.corpus import OWN
from tests.project import ROOT, python
from tests.thread_server import Request
from tests.thread_server import answering as one_by_one
from tests.waiting import PATIENCE

CERTIFICATE = ROOT / "tests/data/tls/self-signed.pem"
NOW = 1_363_700_000_000_000
FEED = b"<rss version='2.0'><channel><title>T</title><item><guid>1</guid></item></channel></rss>"

NOTHING = FeedState("")
NAMED = "http://feed.test:{}/feed"

Script: TypeAlias = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]
"""From the head of a request to an answer."""


class Server:
    """A server that answers by a script and remembers the heads of the requests."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.requests: list[bytes] = []
        self.outcomes: list[Outcome] = []
        self.address = ""

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> bytes:
        self.requests.append(request.head)
        await self.script(request.head, writer)
        return b""


@asynccontextmanager
async def serving(script: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(script)
    listener = await asyncio.start_server(one_by_one(server.answer), "127.0.0.1", 0, ssl=tls)
    server.address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield server
    finally:
        listener.close()


def answering(
    body: bytes = b"", *headers: str, status: str = "200 OK", length: int | None = None
) -> Script:
    """A script with one answer for all requests."""

    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        size = len(body) if length is None else length
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers, "", ""]
        writer.write("\r\n".join(lines).encode("latin-1") + body)

    return script


def poll(
    script: Script,
    url: str = "http://127.0.0.1:{}/feed",
    *,
    known: FeedState = NOTHING,
    allowed: str = "127.0.0.1:{}",
    tls: ssl.SSLContext | None = None,
    times: int = 1,
    **settings: Any,
) -> tuple[Outcome, Server]:
    """The outcome of the last poll of a server with the script, whose port is `{}`."""

    async def run() -> tuple[Outcome, Server]:
        async with serving(script, tls) as server:
            _, port = server.address.split(":")
            given = RequestSettings(allow_addresses=frozenset({allowed.format(port)}), **settings)
            asked = replace(known, url=url.format(port))
            for _ in range(times):
                outcome = await fetch(asked, now=NOW, settings=given)
                server.outcomes.append(outcome)
                asked = getattr(outcome, "state", asked)
            return outcome, server

    return asyncio.run(run())


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


def fetched(outcome: Outcome) -> Fetched:
    assert isinstance(outcome, Fetched), outcome
    return outcome


# --- conversations ---


def test_body_and_what_the_next_request_needs() -> None:
    headers = ('ETag: W/"\xe9 1"', "Last-Modified: junk, kept", "Content-Type: text/xml; charset=x")
    outcome, server = poll(answering(FEED, *headers, "Cache-Control: public, max-age=7200"))
    found = fetched(outcome)
    assert found.body == FEED
    assert found.content_type == "text/xml; charset=x"
    assert found.state.etag == 'W/"\xe9 1"'
    assert found.state.last_modified == "junk, kept"
    assert found.cache == PollHints(max_age=7200)
    assert found.moved_to is None
    head = server.requests[0]
    assert b"GET /feed HTTP/1.1\r\nHost: " + server.address.encode() in head
    assert b"User-Agent: xscl/" in head
    assert b"Accept-Encoding: gzip\r\n" in head
    assert b"If-None-Match" not in head


def test_publishers_are_told_whom_they_can_write_to() -> None:
    _, server = poll(answering(FEED), contact="mailto:feeds@reader.example")
    assert b" (+mailto:feeds@reader.example)\r\n" in server.requests[0]


def test_validators_are_sent_back_byte_for_byte_and_304_refreshes_them() -> None:
    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b'If-None-Match: W/"\xe9"\r\n' in head and b"If-Modified-Since: yesterday" in head:
            writer.write(b'HTTP/1.1 304 Not Modified\r\nETag: "new"\r\n\r\n')
        elif b'If-None-Match: "new"' in head:
            writer.write(b"HTTP/1.1 304 Not Modified\r\n\r\n")
        else:
            await answering(FEED, 'ETag: W/"\xe9"', "Last-Modified: yesterday")(head, writer)

    third, server = poll(script, times=3)
    first, second, _ = server.outcomes
    assert isinstance(second, NotModified)
    assert isinstance(third, NotModified)
    assert second.state.etag == third.state.etag == '"new"'
    assert third.state.last_modified == "yesterday"
    assert (fetched(first).state.unchanged, third.state.unchanged) == (0, 2)
    assert len(server.requests) == 3


def test_after_many_304_one_request_is_unconditional() -> None:
    known = FeedState("", etag='"1"', unchanged=UNCONDITIONAL)
    outcome, server = poll(answering(FEED), known=known)
    assert fetched(outcome).state.unchanged == 0
    assert b"If-None-Match" not in server.requests[0]


def test_f11_410_is_gone() -> None:
    assert isinstance(poll(answering(FEED, status="410 Gone"))[0], Gone)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("120", 120),
        ("Tue, 19 Mar 2013 13:34:20 GMT", 60),
        ("Tue, 19 Mar 2003 13:34:20 GMT", None),
        ("-5", None),
        ("garbage", None),
        ("9" * 30, None),
    ],
)
def test_f11_who_is_to_wait_is_told_how_long(written: str, seconds: int | None) -> None:
    script = answering(FEED, f"Retry-After: {written}", status="429 Too Many Requests")
    outcome = failed(poll(script)[0])
    assert (outcome.code, outcome.status, outcome.retry_after) == ("fetch_status", 429, seconds)
    assert outcome.message == "the server answered 429 Too Many Requests"


@pytest.mark.parametrize(
    "status",
    ["401 Unauthorized", "403 Forbidden", "407 Proxy", "206 Partial Content", "304 Not Modified"],
)
def test_f11_other_answers_fail_with_the_status(status: str) -> None:
    """Also 304, which nobody asked for."""
    outcome = failed(poll(answering(FEED, "WWW-Authenticate: Basic", status=status))[0])
    assert (outcome.code, outcome.status) == ("fetch_status", int(status[:3]))


def test_f11_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    outcome, server = poll(answering(FEED), "https://127.0.0.1:{}/feed", tls=context)
    assert failed(outcome).code == "fetch_certificate"
    assert failed(outcome).message == "the server's certificate is not valid for its name"
    assert server.requests == []


# --- bodies ---


@pytest.mark.parametrize("coding", ["gzip", "x-gzip"])
def test_gzip_unpacks_all_pieces_whole(coding: str) -> None:
    body = FEED + bytes(range(256)) * 8_000
    packed = gzip.compress(body[:20]) + gzip.compress(body[20:]) + b"\0\0\0"
    assert fetched(poll(answering(packed, f"Content-Encoding: {coding}"))[0]).body == body


def test_f1_gzip_bomb_stops_at_the_limit() -> None:
    """Half a megabyte that unpacks to five hundred costs little memory."""
    packed = gzip.compress(bytes(52_428_800), 9) * 10
    assert len(packed) < 600_000
    tracemalloc.start()
    try:
        outcome = failed(poll(answering(packed, "Content-Encoding: gzip"))[0])
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert outcome == Failed("fetch_too_large", "the feed has more than 10,000,000 bytes")


@pytest.mark.parametrize(
    ("body", "coding", "code"),
    [
        (gzip.compress(FEED)[:-12], "gzip", "fetch_incomplete"),
        (FEED, "gzip", "fetch_encoding"),
        (zlib.compress(FEED), "deflate", "fetch_encoding"),
        (gzip.compress(gzip.compress(FEED)), "gzip, gzip", "fetch_encoding"),
        (FEED, "br", "fetch_encoding"),
    ],
    ids=count(),
)
def test_f1_packed_otherwise(body: bytes, coding: str, code: str) -> None:
    assert failed(poll(answering(body, f"Content-Encoding: {coding}"))[0]).code == code


def test_f4_endless_body_stops_at_the_limit() -> None:
    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
            await writer.drain()

    assert failed(poll(script, largest=1_000_000)[0]).code == "fetch_too_large"


def test_f4_slow_drip_ends_at_the_deadline() -> None:
    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    outcome = failed(poll(script, seconds=1.5)[0])
    assert outcome.message == "the feed did not arrive whole within 1.5 s"


def test_f4_body_shorter_than_announced() -> None:
    outcome = failed(poll(answering(FEED, length=len(FEED) + 10))[0])
    assert outcome.code == "fetch_incomplete"


def test_f4_body_longer_than_announced_is_never_a_feed() -> None:
    """HTTP cannot tell; but what is left of the feed is not accepted as a feed."""
    body = fetched(poll(answering(FEED, length=len(FEED) - 10))[0]).body
    assert body == FEED[:-10]
    with pytest.raises(MalformedDocument, match="expected '>'"):
        parse_feed(body, seen_at=NOW)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: " + bytes(5_000_000).replace(b"\0", b"x") + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: yes\r\n" * 20_000 + b"\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
    ],
    ids=["long header", "many headers", "not HTTP"],
)
def test_f6_headers(head: bytes) -> None:
    async def script(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head)

    assert failed(poll(script)[0]).code == "fetch_protocol"


def test_f6_html_page_tells_its_feeds() -> None:
    page = b"""<!DOCTYPE html><html><head>
      <link rel="stylesheet" href="x.css">
      <LINK REL='alternate' TYPE='application/rss+xml' HREF='/a?x=1&amp;y=2'>
      <link rel=alternate type="application/atom+xml" href=atom.xml>
      <link rel="alternate" type="application/rss+xml" href="javascript:alert(1)"></head></html>"""
    outcome, server = poll(answering(page, "Content-Type: application/rss+xml"))
    assert failed(outcome).code == "fetch_html"
    base = f"http://{server.address}"
    assert failed(outcome).discovered == (f"{base}/a?x=1&y=2", f"{base}/atom.xml")


@pytest.mark.parametrize(
    ("body", "html"),
    [
        (FEED, False),
        (b'<?xml version="1.0"?><rss><description><![CDATA[<html>]]></description></rss>', False),
        (b'{"items": [{"content_html": "<html><body>"}]}', False),
        (b"\n <!doctype HTML><title>x", True),
        (b'<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml">', True),
        (b"<!-- " + b"saved " * 500 + b"--><html><p>one<p>two", True),
        (b"Warning: no database\n<!doctype html><title>x</title>", True),
        (b"<br />\n<b>Warning</b>: no database<br />\n" * 99 + b"<html><body>x", True),
        (b"<?php echo 1 ?><script>if (1 < 2) {}" + b" " * 3_000 + b"</script><body>", True),
        (b"<meta charset=utf-8><title>x</title><p>a & b<p>c", True),
        (b"<div class=x>neither root<br>nor head</div>", True),
        (b"<!doctypehtml><title>x", True),
        ("<!doctype html><html><p>x".encode("utf-16"), True),
        (b"<!doctype html><html><he", True),
        (b"<br />\nWarning: no database<br />\n<rss><channel><item>", False),
        (b"<!-- <html> --><rss><channel>", False),
        (b"<title>no root</title><item><title>one</title></item>", False),
        (b'<opml version="2.0"><head><title>x</title></head><body>', False),
        (b'["<html>"]', False),
        (b"<a><b/></a>", False),
        (b"Not found", False),
        (b"", False),
    ],
)
def test_what_is_html(body: bytes, html: bool) -> None:
    assert is_html(body) is html


@pytest.mark.parametrize("begin", [b"", b"<!-- %s -->" % (b"x" * 3_000), b"Warning: no database\n"])
def test_a_damaged_page_tells_its_feeds(begin: bytes) -> None:
    page = b"<title>a & b<link rel=alternate type=application/rss+xml href=/f><p>one<p>two</i>"
    outcome, server = poll(answering(begin + page))
    assert failed(outcome).message == "the answer is a web page, not a feed"
    assert failed(outcome).discovered == (f"http://{server.address}/f",)


def test_a_page_that_a_format_claims_is_fetched_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new format is one row: no other place decides which answers are feeds."""
    page = b"<html><body class='h-feed'><p>one</p></body></html>"
    assert isinstance(poll(answering(page))[0], Failed)
    blog = TextFormat(
        ("text/html",),
        lambda body: b"h-feed" in body,
        lambda body, url: FeedChannel("hfeed", entries=(FeedEntry(title="one"),)),
    )
    monkeypatch.setattr(registry, "FORMATS", (*registry.FORMATS, blog))
    body = fetched(poll(answering(page))[0]).body
    (item,) = parse_feed(body, seen_at=NOW).items
    assert b"<title>one</title>" in item.canonical


def test_all_formats_are_asked_for_and_discovered() -> None:
    head = poll(answering(FEED))[1].requests[0].decode()
    for media_type in registry.MEDIA_TYPES:
        assert media_type in head
        link = f'<html><link rel="alternate" type="{media_type}" href="/f"></html>'
        assert discover(link.encode(), "https://example.org/") == ("https://example.org/f",)


def test_json_feeds_are_discovered_by_both_their_types() -> None:
    """Addresses of application/json come last: programs announce other JSON by it, too."""
    page = (OWN / "damaged" / "discovery.html").read_bytes()
    assert discover(page, "https://example.org/x") == ("https://example.org/feed.json",)
    page = (
        b'<html><link rel="alternate" type="application/json" href="/wp-json/1">'
        b'<link rel="alternate" type="application/feed+json" href="/f.json">'
        b'<link rel="alternate" type="application/rss+xml; charset=utf-8" href="/f.rss"></html>'
    )
    found = [
        one.removeprefix("https://example.org") for one in discover(page, "https://example.org/")
    ]
    assert found == ["/f.json", "/f.rss", "/wp-json/1"]


def test_discovery_goes_by_the_base_of_the_page() -> None:
    page = b'<base href="/sub/"><link href="f" rel="alternate" type="application/feed+json">'
    assert discover(page, "https://example.org/x") == ("https://example.org/sub/f",)


# --- redirects ---


def redirecting(**locations: str) -> Script:
    """A script that redirects `/name` with `status location` and serves the feed elsewhere."""

    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        name = head.split(b" ")[1].decode().strip("/")
        status, _, location = locations.get(name, "").partition(" ")
        if status:
            await answering(b"", f"Location: {location}", status=f"{status} Moved")(head, writer)
        else:
            await answering(FEED, 'ETag: "1"')(head, writer)

    return script


def test_f5_redirects_are_followed_and_permanent_ones_reported() -> None:
    outcome, server = poll(redirecting(feed="301 /b", b="308 c", c="302 /d"))
    found = fetched(outcome)
    base = f"http://{server.address}"
    assert (found.moved_to, found.url) == (f"{base}/c", f"{base}/d")
    assert found.state.url == f"{base}/feed"
    assert found.state.validated_by == f"{base}/d"


def test_f5_a_permanent_redirect_behind_a_temporary_one_moves_nothing() -> None:
    outcome, server = poll(redirecting(feed="301 /b", b="307 /c", c="301 /d"))
    assert fetched(outcome).moved_to == f"http://{server.address}/b"


def test_f5_validators_go_only_to_the_address_that_gave_them() -> None:
    _, server = poll(redirecting(feed="302 /d"), times=2)
    assert [b"If-None-Match" in head for head in server.requests] == [False, False, False, True]


def test_f5_redirect_loop_ends_after_five() -> None:
    outcome, server = poll(redirecting(feed="302 /feed"))
    assert failed(outcome) == Failed("fetch_redirect", "there are more than 5 redirects")
    assert len(server.requests) == 6


def test_f5_five_hops_are_followed() -> None:
    outcome, server = poll(redirecting(feed="302 /a", a="302 b", b="302 c", c="302 d", d="302 end"))
    assert fetched(outcome).url == f"http://{server.address}/end"
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("file:///etc/passwd", "fetch_redirect"),
        ("ftp://example.org/", "fetch_redirect"),
        ("http://127.0.0.1:80/", "url_private"),
        ("http://10.0.0.1/", "url_private"),
        ("http://192.0.2.1:22/", "url_port"),
        ("", "fetch_redirect"),
    ],
)
def test_f5_each_hop_is_checked(location: str, code: str) -> None:
    assert failed(poll(redirecting(feed=f"301 {location}"))[0]).code == code


def test_secrets_stay_with_their_origin_and_are_never_shown() -> None:
    async def run() -> tuple[Server, Server, FeedState]:
        async with (
            serving(answering(FEED)) as other,
            serving(redirecting(feed=f"302 http://{other.address}/x")) as server,
        ):
            url = f"http://user:pa%20ss@{server.address}/feed"
            state = FeedState(url, headers=(("X-Key", "s3cret"),))
            allowed = frozenset({server.address, other.address})
            await fetch(state, now=NOW, settings=RequestSettings(allow_addresses=allowed))
            return server, other, state

    server, other, state = asyncio.run(run())
    assert b"Authorization: Basic dXNlcjpwYSBzcw==\r\n" in server.requests[0]
    assert b"X-Key: s3cret" in server.requests[0]
    assert server.requests[0].startswith(b"GET /feed HTTP/1.1\r\nHost: 127.0.0.1:")
    assert b"Authorization" not in other.requests[0]
    assert b"X-Key" not in other.requests[0]
    assert "s3cret" not in repr(state)
    assert "pa%20ss" not in repr(state)


# --- addresses ---


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("gopher://example.org/", "url_scheme"),
        ("file:///etc/passwd", "url_scheme"),
        ("example.org/feed", "url_scheme"),
        ("http:///feed", "url_invalid"),
        ("http://example.org\\@127.0.0.1/", "url_invalid"),
        ("http://exa mple.org/", "url_invalid"),
        ("http://example.org:65536/", "url_port"),
        ("http://[half/", "url_invalid"),
        ("http://example.org:0/", "url_port"),
        ("http://example.org:22/", "url_port"),
        ("http://example.org:25/", "url_port"),
        ("http://example.org:6379/", "url_port"),
        ("http://example.org/" + "x" * 5_000, "url_invalid"),
    ],
)
def test_w5_addresses_that_are_no_feeds(url: str, code: str) -> None:
    async def nobody(host: str, port: int) -> tuple[str, ...]:
        raise AssertionError("nothing may be looked up")

    with pytest.raises(RequestFailed) as refused:
        asyncio.run(check(url, frozenset(), nobody))
    assert refused.value.code == code


@pytest.mark.parametrize(("dead", "reached"), [(TRIED - 1, True), (TRIED, False)])
def test_so_many_addresses_of_a_host_are_tried(dead: int, reached: bool) -> None:
    async def several(name: str, at: int) -> tuple[str, ...]:
        return (*(f"127.0.0.{number + 2}" for number in range(dead)), "127.0.0.1")

    outcome, _ = poll(answering(FEED), NAMED, allowed="feed.test:{}", resolve=several)
    if reached:
        assert fetched(outcome).body == FEED
    else:
        assert failed(outcome).code == "fetch_unreachable"


def test_the_connection_goes_to_the_checked_address_under_the_feeds_name() -> None:
    asked: list[str] = []

    async def named(name: str, at: int) -> tuple[str, ...]:
        asked.append(f"{name}:{at}")
        return ("127.0.0.1",)

    outcome, server = poll(answering(FEED), NAMED, allowed="feed.test:{}", resolve=named)
    assert fetched(outcome).body == FEED
    assert asked == [server.address.replace("127.0.0.1", "feed.test")]
    assert b"Host: feed.test:" in server.requests[0]


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert fetched(poll(answering(FEED))[0]).body == FEED


SILENT = """
import asyncio, socket, threading
from feeds.http.addresses import resolve

def never(host, port, **more):
    asked.set()
    threading.Event().wait()

async def main():
    question = asyncio.create_task(resolve("a.example", 80))
    await asyncio.to_thread(asked.wait)
    question.cancel()

asked = threading.Event()
socket.getaddrinfo = never
asyncio.run(main())
print("the end")
"""


def test_no_name_server_holds_the_end_of_the_process_up() -> None:
    done = python("-c", SILENT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the end\n", "")


def test_names_are_resolved_beside_one_another_and_not_all_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inside: list[int] = []
    lock, full = threading.Lock(), threading.Barrier(RESOLVING)
    first = iter(range(RESOLVING))

    def ask(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        with lock:
            inside.append(1)
            meet = next(first, None)
            assert sum(inside) <= RESOLVING
        if meet is not None:
            full.wait(PATIENCE)  # so many are at it together
        with lock:
            inside.append(-1)
        if host == "none":
            raise OSError("no such name")
        return [(0, 0, 0, "", (host, port))] * 2

    async def run() -> list[tuple[str, ...] | BaseException]:
        names = [*(f"h{number}" for number in range(2 * RESOLVING)), "none"]
        asked = (system_resolve(name, 80) for name in names)
        return await asyncio.gather(*asked, return_exceptions=True)

    monkeypatch.setattr("socket.getaddrinfo", ask)
    *found, nothing = asyncio.run(run())
    assert found == [(f"h{number}",) for number in range(2 * RESOLVING)]
    assert isinstance(nothing, OSError)


def test_w6_a_port_that_swallows_everything_is_told_as_a_closed_one() -> None:
    """A full backlog drops what comes, as a firewall does."""
    with closing(socket.create_server(("127.0.0.1", 0), backlog=0)) as full, ExitStack() as stack:
        host, port = full.getsockname()
        for _ in range(4):
            waiting = stack.enter_context(closing(socket.socket()))
            waiting.setblocking(False)
            waiting.connect_ex((host, port))
        settings = RequestSettings(seconds=3.0, allow_addresses=frozenset({f"{host}:{port}"}))
        outcome = asyncio.run(
            fetch(FeedState(f"http://{host}:{port}/"), now=NOW, settings=settings)
        )
    assert failed(outcome) == Failed("fetch_unreachable", "the server cannot be reached")


@pytest.mark.parametrize(
    ("given_for", "asked", "known"),
    [
        ("http://a.example/f", "http://a.example/g", True),
        ("http://a.example/f", "https://a.example/f", True),
        ("https://a.example/f", "http://a.example/f", False),
        ("http://a.example:8080/f", "https://a.example/f", False),
        ("http://a.example/f", "https://a.example:8443/f", False),
        ("http://a.example/f", "https://b.example/f", False),
        ("http://a.example/f", "http://a.example.evil/f", False),
    ],
)
def test_secrets_are_for_one_server_by_http_or_better(
    given_for: str, asked: str, known: bool
) -> None:
    headers = (("X-Key", "s3cret"),)
    state = FeedState("http://moved.example/", headers=headers, given_for=given_for)
    written = dict(headers_of(asked, state))
    assert (written.get(b"X-Key") == b"s3cret") is known


def headers_of(asked: str, state: FeedState) -> list[tuple[bytes, bytes]]:
    async def public(host: str, port: int) -> tuple[str, ...]:
        return ("93.184.216.34",)

    target = asyncio.run(check(asked, frozenset({"a.example:8080"}), public))
    return _headers(target, state, asked)


def test_each_hop_has_a_turn_of_its_own_and_waiting_for_it_is_not_the_servers_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns: list[str] = []
    waited = 0.0
    monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda loop: time.monotonic() + waited)

    @asynccontextmanager
    async def turn(domain: str) -> AsyncIterator[None]:
        nonlocal waited
        waited += 600
        turns.append(f"{domain} begins")
        yield
        turns.append(f"{domain} ends")

    async def script(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b" /there " in head:
            await answering(FEED)(head, writer)
        else:
            await answering(b"", "Location: /there", status="302 Found")(head, writer)

    outcome, _ = poll(script, turn=turn)
    assert fetched(outcome).body == FEED
    assert turns == ["127.0.0.1 begins", "127.0.0.1 ends"] * 2


def test_f11_a_domain_that_is_to_be_left_alone_is_not_asked() -> None:
    @asynccontextmanager
    async def turn(domain: str) -> AsyncIterator[None]:
        raise DomainBlocked(77)
        yield

    outcome, server = poll(answering(FEED), turn=turn)
    assert outcome == Deferred(77)
    assert server.requests == []
