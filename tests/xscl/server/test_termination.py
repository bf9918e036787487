"""SIGTERM ends the service in time, whatever it is doing; what was in progress is done again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.plain_http import plain_client
from tests.waiting import beside
from tests.xscl.server.processes import served
from tests.xscl.service.conftest import eventually, ok
from xscl.ingestion.data_directory import DataDirectory
from xscl.server.termination import stopped_by_signals

ENDS_WITHIN = 50.0
"""Seconds, ten times what is promised; what is going on in these tests takes minutes."""


def ended(process: subprocess.Popen[str]) -> str:
    """Send SIGTERM, and return what it says on standard error when it has ended, without error."""
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=ENDS_WITHIN)
    assert process.returncode == 0, errors
    return errors


def client(home: DataDirectory) -> httpx.Client:
    """Return a client of a service, as soon as it answers."""
    return plain_client(eventually(home.address))


@contextmanager
def silent() -> Iterator[str]:
    """Yield the address of a server that takes requests and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_during_a_push_that_takes_minutes(tmp_path: Path) -> None:
    """It is cut; a part of it is committed at most, and all of it is in the spool."""
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), xscl.Engine(home.database) as engine:
        for n in range(20):
            query = f"S//a->x JOIN{{contains(y, x), {n + 1} d}} S//b->y"
            engine.subscribe(f"all-{n}", query)
    texts = (f"<r><a>{n}</a><b>{n * n} {n * n * n}</b></r>".encode() for n in range(4_000))
    with Spool(home.spool) as spool:
        spool.append([Document("S", f"d{n}", n, text) for n, text in enumerate(texts)], 1)
    with served(home) as process:
        eventually(home.attempt.exists, 120)  # the push has begun
        time.sleep(1)
        assert "done again at the next start" in ended(process)
    assert home.holder() is None
    with xscl.Engine(home.database) as engine:
        assert engine.ingest.segment == 0
        assert engine.sql("SELECT * FROM documents").num_rows < 4_000
    with Spool(home.spool, read_only=True) as spool:
        assert spool.numbers(0) == [1]


def test_during_all_that_waits_for_others(tmp_path: Path) -> None:
    """A feed and a webhook that do not answer, events that are listened to, a long question."""
    home = DataDirectory(tmp_path / "data")
    with ExitStack() as stack:
        quiet = stack.enter_context(silent())
        process = stack.enter_context(served(home, "--allow-address", quiet))
        asking = stack.enter_context(client(home))
        ok(asking.put("/v1/subscriptions/q", json={"query": "S//a->x"}))
        hook = {"kind": "webhook", "url": f"http://{quiet}/hook"}
        ok(asking.post("/v1/subscriptions/q/endpoints", json=hook))
        ok(asking.post("/v1/feeds", json={"url": f"http://{quiet}/feed"}))
        ok(asking.post("/v1/documents/S", content="<a/>"))
        events = stack.enter_context(asking.stream("GET", "/v1/events?after=0"))
        next(line for line in events.iter_lines() if line.startswith("data"))  # it is consumed
        query = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range = -1"
        with beside(lambda: ask(asking, "POST", "/v1/sql", json={"query": query})):
            time.sleep(0.5)
            assert ended(process).splitlines()[-1].startswith("xscl: stopped")
    assert home.holder() is None
    with xscl.Engine(home.database) as engine:
        assert len(engine.matches()) == 1


SLOW = """
import time
import xscl.planning.compile as compile
parse = compile.parse
def slow(text):
    if "slow" in text:
        print("compiling", flush=True)
        until = time.monotonic() + 600
        while time.monotonic() < until:  # in the interpreter, as a compilation is
            pass
    return parse(text)
compile.parse = slow
"""


COMPILING: dict[str, tuple[str, str, dict[str, object]]] = {
    "PUT": ("PUT", "/v1/subscriptions/q", {}),
    "no history": ("PUT", "/v1/subscriptions/q", {"history": False}),
    "check": ("POST", "/v1/check", {}),
    "try": ("POST", "/v1/try", {}),
    "import": ("POST", "/v1/subscriptions:import", {"name": "q"}),
}


@pytest.mark.parametrize("way", usually(COMPILING, "no history"))
def test_while_a_query_is_compiled(tmp_path: Path, way: str) -> None:
    method, path, body = COMPILING[way]
    home = DataDirectory(tmp_path / "data")
    with (
        served(home, first=SLOW) as process,
        client(home) as asking,
        beside(lambda: ask(asking, method, path, json={"query": "S//slow->x", **body})),
    ):
        assert process.stdout is not None
        assert any("compiling" in line for line in process.stdout)
        ended(process)
    assert home.holder() is None


def ask(client: httpx.Client, method: str, path: str, **request: Any) -> None:
    with suppress(httpx.HTTPError):  # the service has ended
        client.request(method, path, **request)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_and_then_is_overdue(number: signal.Signals) -> None:
    stopped, overdue = threading.Event(), threading.Event()
    with stopped_by_signals(stopped.set, overdue.set, deadline=0.01):
        os.kill(os.getpid(), number)
        assert stopped.wait(60)
        assert overdue.wait(60)


def test_what_ends_in_time_is_not_overdue() -> None:
    stopped, overdue = threading.Event(), threading.Event()
    before = signal.getsignal(signal.SIGTERM)
    with stopped_by_signals(stopped.set, overdue.set, deadline=3_600):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopped.wait(60)
    assert not overdue.is_set()
    assert signal.getsignal(signal.SIGTERM) == before
