"""One client's slow connections take nothing away from others."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from unittest.mock import patch

import pytest

from tests.examples import usually
from tests.xscl.service.conftest import ANY_PORT, Running, eventually, ok, serving
from tests.xscl.service.listening import listening
from tests.xscl.service.test_events import until
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


HELD = {
    "silent": b"",
    "slow head": b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ",
    "slow body": BODY,
    "idle": HEALTH,
    "unread": HEALTH.replace(b"/v1/health", b"/v1/openapi.json"),
}
"""Ways to hold a connection: the bytes that a client sends before it stops reading."""


@pytest.mark.parametrize("hold", usually(HELD, "slow head", "unread"))
def test_one_clients_connections_leave_room_for_others(
    place: DataDirectory, monkeypatch: pytest.MonkeyPatch, many: int, hold: str
) -> None:
    monkeypatch.setattr(server, "MOST", many // 2)  # fewer than one client opens
    with ExitStack() as stack:
        running = stack.enter_context(serving(place))
        held = []
        for _ in range(many):
            held.append(stack.enter_context(running.connect()))
            with suppress(OSError):  # refused before it said anything
                held[-1].sendall(HELD[hold])
        for source in ("127.0.0.2", "127.0.0.3"):
            with running.client(source=source) as other:
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
            with running.connect() as one:
                one.sendall(HEALTH)
                return one.recv(100).startswith(b"HTTP/1.1 200 ")

        eventually(answered)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, place: DataDirectory) -> Iterator[Running]:
    monkeypatch.setattr(server, "SECONDS", 0.5)
    with serving(place, replace(ANY_PORT, patience=0.5)) as found:
        yield found


def closed(peer: socket.socket, data: bytes = b"") -> bool:
    """Return True if the other side has closed a connection; send it a little more before."""
    peer.settimeout(0.01)
    try:
        peer.sendall(data)
        return peer.recv(4_000) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


UNWANTED = HEALTH.replace(b"\r\n\r\n", b"\r\nContent-Length: 10000\r\n\r\n<a")


SLOW = {
    "silent": (b"", b""),
    "head": (HELD["slow head"], b"x"),
    "lines": (b"\r\n", b"\r\n"),
    "lines after a request": (HEALTH, b"\r\n"),
    "body": (BODY, b""),
    "body that nobody reads": (UNWANTED, b"x"),
}
"""The first bytes of a slow request, and the bytes of each later write."""


@pytest.mark.parametrize("way", SLOW)
def test_what_comes_in_drops_has_a_deadline(impatient: Running, way: str) -> None:
    first, more = SLOW[way]
    with impatient.connect() as peer:
        peer.sendall(first)
        if b"health" in first and first.endswith((b"\r\n\r\n", b"<a")):
            assert peer.recv(4_000).startswith(b"HTTP/1.1 200 ")
        eventually(lambda: closed(peer, more))


def test_streams_of_events_count_for_their_user(place: DataDirectory) -> None:
    with ExitStack() as stack:
        settings = replace(ANY_PORT, connections=3)
        running = stack.enter_context(serving(place, settings))
        clients = [stack.enter_context(running.user(name)) for name in ("alice", "bob")]
        listeners = [
            stack.enter_context(listening(one, "/v1/events")) for one in clients for _ in range(5)
        ]
        assert len(listeners) > settings.connections
        with running.client() as operator:
            ok(operator.get("/v1/health"))
        with running.client(source="127.0.0.2") as other:
            ok(other.get("/v1/health"))


def test_connections_that_ended_are_not_counted(place: DataDirectory) -> None:
    settings = replace(ANY_PORT, connections=2)
    with serving(place, settings) as running:
        for _ in range(10):
            with running.connect() as one:
                one.sendall(HEALTH)
                assert one.recv(100).startswith(b"HTTP/1.1 200 ")
            with running.client() as operator, listening(operator, "/v1/events"):
                pass

            def free(count: int) -> bool:
                with ExitStack() as stack:
                    there = [stack.enter_context(running.connect()) for _ in range(count)]
                    for one in there:
                        one.sendall(HEALTH)
                    return all(one.recv(100).startswith(b"HTTP/1.1 200 ") for one in there)

            eventually(lambda: free(2))


@patch.object(server, "MOST", 50)
def test_the_service_has_a_limit_of_its_own(place: DataDirectory) -> None:
    with ExitStack() as stack:
        running = stack.enter_context(serving(place))
        for number in range(50):
            source = f"127.0.0.{2 + number % 5}"
            answered = stack.enter_context(running.connect(source))
            answered.sendall(HEALTH)
            assert answered.recv(100).startswith(b"HTTP/1.1 200 ")
        with running.connect("127.0.0.9") as refused:
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
    with running.connect() as peer:
        with suppress(OSError):
            peer.sendall(head + b"\r\n")
        answer = b""
        with suppress(ConnectionError):
            while part := peer.recv(4_096):
                answer += part
        assert b" 200 " not in answer.partition(b"\r\n")[0]
    with running.connect() as peer:
        peer.sendall(HEAD + b"X: y\r\n" * 7_000 + b"\r\n")
        assert b" 200 " in peer.recv(4_096).partition(b"\r\n")[0]
