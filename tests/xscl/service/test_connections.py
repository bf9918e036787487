"""One client's slow connections take nothing away from others."""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.examples import usually
from tests.plain_http import NO_CERTIFICATES
from tests.xscl.service.conftest import ANY_PORT, Running, eventually, ok, serving, token_of
from tests.xscl.service.listening import listening
from tests.xscl.service.test_events import until
from tests.xscl.service.test_guard import closed
from xscl.ingestion.data_directory import DataDirectory
from xscl.service import server

MANY = 250
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
BODY = b"POST /v1/documents/S HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n<a"


@pytest.fixture(params=usually([MANY, 500, 2_000], MANY))
def many(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the number of connections that a client can open, given files for both sides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * int(request.param) + 1_000
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    yield request.param
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(running: Running, source: str = "127.0.0.1") -> socket.socket:
    host, port = running.address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), 30, (source, 0))


def client(running: Running, source: str) -> httpx.Client:
    transport = httpx.HTTPTransport(local_address=source, verify=NO_CERTIFICATES)
    return httpx.Client(base_url=running.address, transport=transport, timeout=30)


def silent(_: socket.socket) -> None:
    """Say nothing."""


def slow_head(peer: socket.socket) -> None:
    """Begin a head."""
    peer.sendall(b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")


def slow_body(peer: socket.socket) -> None:
    """Begin a body."""
    peer.sendall(BODY)


def idle(peer: socket.socket) -> None:
    """Ask once, and keep the connection."""
    peer.sendall(HEALTH)


def unread(peer: socket.socket) -> None:
    """Ask for much, and read nothing."""
    peer.sendall(HEALTH.replace(b"/v1/health", b"/v1/openapi.json"))


@pytest.mark.parametrize(
    "hold", usually([silent, slow_head, slow_body, idle, unread], slow_head, unread)
)
def test_one_clients_connections_leave_room_for_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    many: int,
    hold: Callable[[socket.socket], None],
) -> None:
    monkeypatch.setattr(server, "MOST", many // 2)  # fewer than one client opens
    with ExitStack() as stack:
        running = stack.enter_context(serving(DataDirectory(tmp_path / "data"), ANY_PORT))
        held = []
        for _ in range(many):
            held.append(stack.enter_context(connect(running)))
            try:
                hold(held[-1])
            except OSError:
                continue  # refused before it said anything
        for source in ("127.0.0.2", "127.0.0.3"):
            with client(running, source) as other:
                for number in range(10):
                    ok(other.get("/v1/health"))
                    put = other.put(f"/v1/subscriptions/q{number}", json={"query": "S//a"})
                    assert put.status_code in (200, 201)
        refused = held[-1].recv(1_000)
        assert refused.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert b"too_many_connections" in refused
        eventually(lambda: closed(held[-1]))
        held[0].close()  # which makes room for one more

        def answered() -> bool:
            with connect(running) as one:
                one.sendall(HEALTH)
                return one.recv(100).startswith(b"HTTP/1.1 200 ")

        eventually(answered)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Running]:
    monkeypatch.setattr(server, "SECONDS", 0.5)
    with serving(DataDirectory(tmp_path / "data"), replace(ANY_PORT, patience=0.5)) as found:
        yield found


def dripping(peer: socket.socket, data: bytes) -> Callable[[], bool]:
    """Return a function that sends a little more each time, and reports a closed connection."""

    def ended() -> bool:
        peer.settimeout(0.01)
        try:
            peer.sendall(data)
            return peer.recv(4_000) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    return ended


UNWANTED = HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 10000\r\n\r\n<a")


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (b"", b""),
        (b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"x"),
        (b"\r\n", b"\r\n"),
        (HEALTH, b"\r\n"),
        (BODY, b""),
        (UNWANTED, b"x"),
    ],
    ids=["silent", "head", "lines", "lines after a request", "body", "body that nobody reads"],
)
def test_what_comes_in_drops_has_a_deadline(impatient: Running, first: bytes, more: bytes) -> None:
    with connect(impatient) as peer:
        peer.sendall(first)
        if b"health" in first and first.endswith((b"\r\n\r\n", b"<a")):
            assert peer.recv(4_000).startswith(b"HTTP/1.1 200 ")
        eventually(dripping(peer, more))


def test_streams_of_events_count_for_their_user(tmp_path: Path) -> None:
    with ExitStack() as stack:
        settings = replace(ANY_PORT, connections=3)
        running = stack.enter_context(serving(DataDirectory(tmp_path / "data"), settings))
        with running.client() as operator:
            tokens = [token_of(operator, name) for name in ("alice", "bob")]
        clients = [stack.enter_context(running.client(token)) for token in tokens]
        listeners = [
            stack.enter_context(listening(one, "/v1/events")) for one in clients for _ in range(5)
        ]
        assert len(listeners) > settings.connections
        with running.client() as operator:
            ok(operator.get("/v1/health"))
        with client(running, "127.0.0.2") as other:
            ok(other.get("/v1/health"))


def test_connections_that_ended_are_not_counted(tmp_path: Path) -> None:
    settings = replace(ANY_PORT, connections=2)
    with serving(DataDirectory(tmp_path / "data"), settings) as running:
        for _ in range(10):
            with connect(running) as one:
                one.sendall(HEALTH)
                assert one.recv(100).startswith(b"HTTP/1.1 200 ")
            with running.client() as operator, listening(operator, "/v1/events"):
                pass

            def free(count: int) -> bool:
                with ExitStack() as stack:
                    there = [stack.enter_context(connect(running)) for _ in range(count)]
                    for one in there:
                        one.sendall(HEALTH)
                    return all(one.recv(100).startswith(b"HTTP/1.1 200 ") for one in there)

            eventually(lambda: free(2))


def test_the_service_has_a_limit_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "MOST", 50)
    with ExitStack() as stack:
        running = stack.enter_context(serving(DataDirectory(tmp_path / "data"), ANY_PORT))
        for number in range(50):
            source = f"127.0.0.{2 + number % 5}"
            answered = stack.enter_context(connect(running, source))
            answered.sendall(HEALTH)
            assert answered.recv(100).startswith(b"HTTP/1.1 200 ")
        with connect(running, "127.0.0.9") as refused:
            answer = refused.recv(1_000)
            assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
            assert b"\r\nretry-after: 1\r\n" in answer
            eventually(lambda: closed(refused))
        answered.sendall(HEALTH.replace(b"health", b"metrics"))
        assert b"\nxscl_refused_connections_total 1.0\n" in until(answered, b"xscl_paused ")


HEAD = HEALTH[:-2]
HEADS = {
    "many headers": HEAD + b"X: y\r\n" * 20_000,
    "one header": HEAD + b"X: " + b"y" * 70_000 + b"\r\n",
    "a long address": HEAD.replace(b" HTTP", b"?" + b"y" * 70_000 + b" HTTP"),
    "trailers": b"POST /v1/check HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"0\r\n" + b"X: y\r\n" * 20_000,
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_the_head_of_a_request_has_a_length(running: Running, head: bytes) -> None:
    with connect(running) as peer:
        with suppress(OSError):
            peer.sendall(head + b"\r\n")
        answer = b""
        with suppress(ConnectionError):
            while part := peer.recv(4_096):
                answer += part
        assert b" 200 " not in answer.partition(b"\r\n")[0]
    with connect(running) as peer:
        peer.sendall(HEAD + b"X: y\r\n" * 7_000 + b"\r\n")
        assert b" 200 " in peer.recv(4_096).partition(b"\r\n")[0]
