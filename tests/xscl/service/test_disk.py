"""A full disk (C7): nothing new is taken, all is read, it goes on by itself; back-pressure (L2)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest

import feeds.spool
import xscl.ingestion.pipeline
from feeds.documents import Document
from feeds.spool import Spool
from tests.project import ROOT
from tests.waiting import PATIENCE
from tests.xscl.failing_commits import POINTS, full_disk
from tests.xscl.service.conftest import Running, eventually, serving
from xscl.engine import disk_guard
from xscl.engine.disk_guard import DiskFull, DiskGuard, is_full
from xscl.engine.facade import Engine
from xscl.errors import StoreError
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.service.app import ServiceSettings
from xscl.service.logs import LogFormat, logging_to
from xscl.store.database import sqlite_error
from xscl.store.store_errors import StoreUnavailable

ECHO = "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y"
PLENTY = 1 << 60


class Disk:
    """A disk that is full at chosen points, for as long as that is said."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: set[str] = set()
        self.failed: list[str] = []
        monkeypatch.setattr(feeds.spool, "reached", self.reached)
        monkeypatch.setattr(POINTS, self.reached)
        monkeypatch.setattr(disk_guard, "AGAIN", 0.2)

    def reached(self, point: str) -> None:
        if point in self.full:
            self.failed.append(point)
            if point == "before_commit":
                raise full_disk()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a subscription."""
    with serving(DataDirectory(tmp_path_factory.mktemp("disk") / "data")) as made:
        with made.client() as client:
            assert client.put("/v1/subscriptions/echo", json={"query": ECHO}).status_code == 201
        yield made


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def post(client: httpx.Client, name: str, time: int, text: str = "hi") -> httpx.Response:
    return client.post(f"/v1/documents/S?id={name}&time={time}000000", content=f"<a>{text}</a>")


def known(client: httpx.Client) -> set[str]:
    """The ids that the engine has."""
    answer = client.post("/v1/sql", json={"query": "SELECT id FROM documents"}).json()
    return {name for (name,) in answer.get("rows", ())}


def status(running: Running, name: str) -> Any:
    return (running.home.read_status() or {}).get(name)


def refused(answer: httpx.Response) -> bool:
    if answer.status_code == 202:
        return False
    assert answer.status_code == 503, answer.text
    assert answer.json()["code"] == "disk_full"
    assert int(answer.headers["retry-after"]) > 0
    return True


@pytest.mark.usefixtures("disk")
def test_c7_too_little_is_free(running: Running, operator: httpx.Client) -> None:
    """Below what is to be left, documents are refused and reads go on; then all goes on."""
    assert post(operator, "before", 1).status_code == 202
    eventually(lambda: (status(running, "documents") or 0) >= 1)
    running.service.disk.least = PLENTY
    try:
        eventually(lambda: refused(post(operator, "early", 2)))
        assert refused(post(operator, "refused", 2))
        eventually(lambda: bool(status(running, "paused")))
        assert operator.get("/v1/subscriptions/echo").status_code == 200
        assert operator.get("/v1/status").json()["service"]["paused"].startswith("the disk is full")
        assert "before" in known(operator)
        assert "xscl_paused 1.0" in operator.get("/v1/metrics").text
    finally:
        running.service.disk.least = 0
    eventually(lambda: not refused(post(operator, "after", 3)))
    eventually(lambda: {"before", "after"} <= known(operator))
    eventually(lambda: status(running, "paused") is None)
    assert "refused" not in known(operator)


@pytest.mark.parametrize("point", ["spool_written", "spool_synced", "latest_written"])
def test_c7_the_spool_cannot_be_written(
    running: Running, operator: httpx.Client, disk: Disk, point: str
) -> None:
    """Refused documents may be present; acknowledged ones are."""
    eventually(lambda: not refused(post(operator, f"{point}-1", 10)))
    disk.full = {point}
    assert refused(post(operator, f"{point}-2", 11))
    assert disk.failed == [point]
    assert operator.get("/v1/subscriptions").status_code == 200
    disk.full = set()
    eventually(lambda: not refused(post(operator, f"{point}-3", 12)))
    eventually(lambda: {f"{point}-1", f"{point}-3"} <= known(operator))


def test_c7_the_store_cannot_be_written(
    running: Running, operator: httpx.Client, disk: Disk
) -> None:
    """Batches fail before their commit and come again; each match is there once."""
    eventually(lambda: not refused(post(operator, "store-1", 20, "once")))
    eventually(lambda: "store-1" in known(operator))
    disk.full = {"before_commit"}
    assert not refused(post(operator, "store-2", 21, "once"))
    eventually(lambda: disk.failed.count("before_commit") >= 2)
    eventually(lambda: refused(post(operator, "store-3", 22)))
    made = operator.put("/v1/subscriptions/other", json={"query": ECHO})
    assert made.status_code == 503, made.text
    assert "store-2" not in known(operator)
    disk.full = set()
    eventually(lambda: "store-2" in known(operator))
    found = operator.post(
        "/v1/sql",
        json={"query": "SELECT documents FROM matches WHERE list_contains(documents, 'store-2')"},
    ).json()["rows"]
    assert found == [[["store-1", "store-2"]]]


def test_c7_a_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full, logging_to(full, LogFormat.TEXT):
        with Engine() as engine, Spool(tmp_path) as spool:
            spool.append([Document("S", "d1", 1, b"<a/>")], 0)
            Consumer(spool, engine.ingest).run_once()
            assert engine.ingest.segment == 1
        with suppress(OSError):
            full.close()


@pytest.mark.slow
def test_c7_a_service_whose_output_is_full(tmp_path: Path) -> None:
    """Its log and the matches that it prints have no room; everything else has."""
    home = DataDirectory(tmp_path / "data")
    command = [sys.executable, "-c", "from xscl.cli import main; main()", "serve", "--no-spark"]
    with (
        Path("/dev/full").open("w") as full,
        subprocess.Popen(
            [*command, "--port", "0", "--data", str(home.path)],
            cwd=ROOT,
            stdout=full,
            stderr=full,
        ) as process,
    ):
        try:
            address = eventually(home.address)
            with httpx.Client(base_url=address, trust_env=False) as client:
                assert client.put("/v1/subscriptions/q", json={"query": ECHO}).status_code == 201
                for number in range(4):
                    assert post(client, f"d{number}", number + 1).status_code == 202
                page = "/v1/subscriptions/q/matches"
                eventually(lambda: len(client.get(page).json()["matches"]) == 6)
                assert client.get("/v1/health").json()["status"] == "ok"
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_l2_what_waits_is_bounded(place: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing is consumed, documents are taken up to a bound; then 429; nothing is lost."""
    held = threading.Event()

    def hold(point: str) -> None:
        if point == "batch_read":
            assert held.wait(PATIENCE)

    monkeypatch.setattr(xscl.ingestion.pipeline, "reached", hold)
    with (
        serving(place, ServiceSettings(waiting=5)) as running,
        running.client() as client,
    ):
        running.service.disk.least = 0
        answers = [post(client, f"burst-{number}", number + 1) for number in range(8)]
        assert [answer.status_code for answer in answers] == [202] * 5 + [429] * 3
        for answer in answers[5:]:
            assert answer.json()["code"] == "busy"
            assert int(answer.headers["retry-after"]) > 0
        assert client.get("/v1/subscriptions").status_code == 200
        held.set()
        eventually(lambda: status(running, "documents") == 5)
        eventually(lambda: post(client, "burst-last", 32).status_code == 202)
        eventually(lambda: status(running, "documents") == 6)


# -- The parts -----------------------------------------------------------------------------


def test_what_says_that_a_disk_is_full() -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    assert is_full(full)
    assert is_full(sqlite_error(None, apsw.FullError("database or disk is full")))
    chained = StoreError("it failed")
    chained.__cause__ = OSError(errno.EDQUOT, "quota")
    assert is_full(chained)
    assert not is_full(OSError(errno.EIO, "Input/output error"))
    assert not is_full(StoreError("it failed"))


def test_a_disk_has_room_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    room = DiskGuard(tmp_path, 0, lambda: now)
    assert room.short() is None
    room.refuse()
    assert not room.failed(OSError(errno.EACCES, "forbidden"))
    assert room.failed(OSError(errno.ENOSPC, "full"))
    with pytest.raises(DiskFull, match="a write has failed"):
        room.refuse()
    now += 1.0
    assert room.short() is not None
    now += disk_guard.AGAIN
    assert room.short() is None
    room.least = PLENTY
    now += 1.0
    assert "MiB are free" in (room.short() or "")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING", "ERROR"]


def test_a_disk_that_fails_again_and_again_is_tried_less_often(tmp_path: Path) -> None:
    now = 0.0
    room = DiskGuard(tmp_path, 0, lambda: now)
    pauses = []
    for _ in range(7):
        assert room.failed(StoreUnavailable(tmp_path, "planted"))
        assert "failing" in (room.short() or "")
        began = now
        while room.short() is not None:
            now += 0.5
        pauses.append(now - began)
    assert pauses == [2, 4, 8, 16, 30, 30, 30]
    now += 1_000
    assert room.failed(OSError(errno.EIO, "Input/output error"))
    now += disk_guard.AGAIN
    assert room.short() is None
