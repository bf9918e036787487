"""The typed clients against a running service.

The usual run has docs/how-to/http-client.md, which tests/documentation runs.
"""

from __future__ import annotations

import asyncio
import inspect
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from fastapi.routing import APIRoute

from examples import typed_program
from tests.project import ROOT, python
from tests.waiting import beside, eventually
from tests.xscl.service.conftest import Running
from tests.xscl.service.conftest import running as running  # a fixture
from xscl import NameTaken, QueryError
from xscl.client import AsyncClient, Client, LiveEvent, NearName, Node, Refused, Unreachable, calls
from xscl.client.calls import Call, Listing, read
from xscl.client.events import EventReader
from xscl.server.app import ROUTERS

QUERY = "notes//note[./by->a] FOLLOWED BY{a=b, 7 d} notes//note[./by->b]"
TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[Client]:
    with Client(running.address) as client:
        client.create_stream("notes", live=False)
        client.subscribe("again", QUERY)
        for number, name in enumerate(("ann", "bea", "ann")):
            time = TIME.replace(minute=number)
            sent = client.push("notes", f"<note><by>{name}</by></note>", id=f"n{number}", time=time)
            assert (sent.id, sent.stream, sent.timestamp) == (f"n{number}", "notes", time)
        eventually(lambda: len(list(client.matches("again"))) == 1)
        yield client


@pytest.mark.slow
def test_a_match_has_typed_fields(client: Client) -> None:
    (match,) = client.matches("again")
    assert match.documents == ("n0", "n2")
    assert (match.started, match.timestamp) == (TIME, TIME.replace(minute=2))
    assert match.bindings["a"] == (
        Node(document="notes/n0", node=1, path="/note[1]/by[1]", value="ann"),
    )
    assert match.values == {"a": ("ann",), "b": ("ann",)}
    assert list(client.matches("again", after=match.position)) == []


@pytest.mark.slow
def test_errors_are_those_of_the_packages(client: Client) -> None:
    wrong = "notes//note->a\nJOIN{a=z, 1 d} notes//note->b"
    for ask in (client.try_query, lambda query: client.subscribe("wrong", query)):
        with pytest.raises(QueryError) as error:
            ask(wrong)
        assert (error.value.line, error.value.column, error.value.source) == (2, 8, wrong)
    with pytest.raises(NameTaken):
        client.subscribe("again", "notes//note")
    with pytest.raises(Refused) as refused:
        client.push("notes", "<note>")
    assert refused.value.problem.startswith("xml_")
    with pytest.raises(ValueError, match="cannot stand in an address"):
        client.subscription("a/b")
    with pytest.raises(ValueError, match="no address of a service"):
        Client("localhost:8425")


@pytest.mark.slow
def test_both_clients_have_the_same_calls(running: Running, client: Client) -> None:
    names = {name for name in vars(Client) if not name.startswith("_")}
    assert names == {name for name in vars(AsyncClient) if not name.startswith("_")}

    async def asked() -> None:
        async with AsyncClient(running.address) as other:
            assert [one async for one in other.matches("again")] == list(client.matches("again"))
            assert await other.subscription("again") == client.subscription("again")
            with pytest.raises(QueryError):
                await other.try_query("notes//")

    asyncio.run(asked())


@pytest.mark.slow
@patch("xscl.client.async_client.AGAIN", 0.0)
def test_live_matches_go_on_where_the_connection_was_lost(running: Running, client: Client) -> None:
    client.subscribe("live", "live//a->x")
    client.create_stream("live")
    (first,) = send_until_heard(client, client.listen("live"))
    name = first.matches[0].documents[0]
    assert (first.name, first.matches[0].subscription) == ("match", "live")
    client.push("live", "<a/>", id="between")
    resumed = client.listen("live", after=first.id)
    assert next(resumed).matches[0].documents[0] != name

    async def heard() -> LiveEvent:
        async with AsyncClient(running.address) as other:
            return await anext(other.listen(after=first.id))

    assert asyncio.run(heard()).matches[0].subscription == "live"
    client.unsubscribe("live")
    with pytest.raises(Refused) as away:
        list(resumed)
    assert away.value.problem in ("removed", "unknown_subscription")


def send_until_heard(client: Client, events: Iterator[LiveEvent]) -> list[LiveEvent]:
    """Send documents until an event comes: it is not known when the listener is there."""
    with beside(lambda: next(events)) as heard, Client(client.address) as sender:

        def sent() -> bool:
            sender.push("live", "<a/>")
            return bool(wait(heard, 0.1).done)

        eventually(sent)
    return [one.result() for one in heard]


def test_a_stream_of_events_is_read_line_by_line() -> None:
    reader = EventReader()
    lines = ["retry: 2000", "", "id: 7", "event: gap", 'data: {"reason": "evicted"}', ""]
    assert [event for line in lines for event in reader.events(line)] == [
        LiveEvent("7", "gap", reason="evicted")
    ]
    assert reader.request(None)["headers"] == {"Last-Event-ID": "7"}
    for code, lasts in (("too_slow", False), ("removed", True)):
        list(reader.events("event: closed"))
        list(reader.events(f'data: {{"code": "{code}", "reason": "r"}}'))
        with pytest.raises(Refused) if lasts else nullcontext():
            assert list(reader.events("")) == []


def test_the_methods_are_documented() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        assert name.startswith("_") or method.__doc__, name
    assert "NameTaken" in (Client.subscribe.__doc__ or "")
    assert "since" in inspect.signature(Client.subscribe).parameters


def test_a_busy_service_is_asked_again() -> None:
    answers = [
        b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"text":""}',
    ]
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with listening.accept()[0] as connection:
                for one in answers:
                    connection.recv(65_536)
                    connection.sendall(one)

        address = f"http://127.0.0.1:{listening.getsockname()[1]}/v1/"
        with beside(answer), Client(address) as client:
            assert client.export_feeds() == '{"text":""}'
    with Client(address) as client, pytest.raises(Unreachable, match="does not answer"):
        client.export_feeds()


@pytest.mark.parametrize(
    "body",
    [b"<html>sign in</html>", b"", b"[]", b"null", b'{"items": [{}], "next": null}', b"\xff"],
)
def test_what_another_program_answers_is_refused(body: bytes) -> None:
    """Such as the page of a proxy."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body))
    with Client("http://service.example", transport=transport) as client:
        for ask in (client.status, lambda: list(client.subscriptions())):
            with pytest.raises(Refused, match=r"service\.example answers 200 OK") as caught:
                ask()
            assert caught.value.problem == "no_problem"


def test_fields_that_a_client_does_not_know_are_left_out() -> None:
    given = {"name": "a", "documents": 3}
    assert read(NearName, {**given, "invented": 1}) == NearName(name="a", documents=3)


@pytest.mark.slow
def test_the_typed_program_runs(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed_program.in_this_process() == [("o1", "o3")]
    with Client(running.address) as client:
        typed_program.over_http(running.address)
        eventually(lambda: client.try_query(typed_program.AGAIN).total == 1)
    assert typed_program.over_http(running.address) == [("o1", "o3")]
    assert "ordered-again" in asyncio.run(typed_program.names_over_http(running.address))
    assert "1 17 'itme' is not in the newest" in capsys.readouterr().out


# -- What clients have ---------------------------------------------------------------------


LEFT_OUT = re.compile(
    r"/v1/(?:accounts|tokens|me|metrics|backup)\b"  # for the command line, the operator's page
    r"|/(?:addresses|endpoints|feed\.)"  # set up once, and feeds for feed readers
    r"|/sql/(?:examples|relations)|GET .*/explain"  # relations of joins; what a call reaches, too
)


def operations() -> dict[str, re.Pattern[str]]:
    """Return the operations of the OpenAPI description, and patterns of requests for them."""
    routes = [route for router in ROUTERS for route in router.routes]
    described = [one for one in routes if isinstance(one, APIRoute) and one.include_in_schema]
    found = {f"{way} {one.path_format}" for one in described for way in one.methods or ()}
    return {one: re.compile(re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(one))) for one in found}


def requests() -> set[str]:
    """Return the request of each call, made with an `x` or an empty list for what it requires."""
    found = set()
    methods = {name for name in dir(Client) if not name.startswith("_") and hasattr(calls, name)}
    for name in methods:
        make: Callable[..., Call[Any] | Listing[Any]] = getattr(calls, name)
        required = [
            () if str(parameter.annotation).startswith("Iterable") else "x"
            for parameter in inspect.signature(make).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        ]
        made = make(*required)
        found.add(f"GET {made.path}" if isinstance(made, Listing) else f"{made.method} {made.path}")
    reader = EventReader()
    for subscription in (None, "x"):
        request = reader.request(subscription)
        found.add(f"{request['method']} {request['url']}")
    return found


def test_the_client_reaches_all_operations_but_those_that_are_listed() -> None:
    patterns, made = operations(), requests()
    reached = {
        operation
        for operation, pattern in patterns.items()
        if any(pattern.fullmatch(request) for request in made)
    }
    assert {one for one in patterns if not LEFT_OUT.search(one)} == reached
    for request in made:
        assert any(pattern.fullmatch(request) for pattern in patterns.values()), request


WRONG = """
import xscl
from xscl.client import Client

client = Client("http://127.0.0.1:8425")
client.subscribe(1, "S//a")  # E
client.subscribe("a", "S//a", sinse="7 d")  # E
found: int = client.subscription("a")  # E
for match in client.matches("a"):
    match.tittle  # E
xscl.Document("S", "d", 1, "<a/>")  # E
xscl.Engine().try_query("S//a", since=1.5)  # E
"""


@pytest.mark.slow
def test_programs_are_checked_strictly(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, "utf-8")
    sample = ROOT / "examples" / "typed_program.py"
    options = ("--strict", "--cache-dir", tmp_path / "cache")
    done = python("-m", "mypy", *options, sample, wrong)
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    expected = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# E")]
    assert [(Path(e.split(":")[0]).name, int(e.split(":")[1])) for e in errors] == [
        ("wrong.py", number) for number in expected
    ], done.stdout
