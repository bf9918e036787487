"""Backups of a service that goes on (C18)."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path

import httpx
import pytest

from feeds.spool import Extract, Spool
from tests.waiting import PATIENCE
from tests.xscl.commandline import called
from tests.xscl.service.conftest import Running, code, eventually, ok, token_of
from xscl.engine.backup import Backup, back_up, read_backup, receive
from xscl.engine.disk_guard import LEAST
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.service import backups
from xscl.service.restore import restore
from xscl.store.store import Store
from xscl.store.store_errors import BackupError

PAIR = "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y"
TOGETHER = 5


def send(client: httpx.Client, number: int) -> None:
    """Send documents that are pushed in whichever batches; `number` is in their text."""
    sent = client.post(f"/v1/documents/S?id=d{number}", content=f"<a>{number % TOGETHER}</a>")
    assert sent.status_code == 202, sent.text


def test_c18_a_backup_of_a_service_is_a_batch_boundary_and_opens(
    running: Running, operator: httpx.Client, tmp_path: Path
) -> None:
    """A restored store has all acknowledged documents and their matches."""
    ok(operator.put("/v1/subscriptions/pair", json={"query": PAIR}))
    stop, sent, failed = threading.Event(), [0], list[BaseException]()

    def keep_sending() -> None:
        try:
            with running.client() as client:
                while not stop.is_set():
                    send(client, sent[0])
                    sent[0] += 1
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=keep_sending)
    thread.start()
    made = []
    try:
        eventually(lambda: ok(operator.get("/v1/subscriptions/pair/matches"))["matches"])
        for number in range(2):
            eventually(lambda before=sent[0]: sent[0] > before + 10)  # type: ignore[misc]  # mypy infers no type for the default
            target, acknowledged = tmp_path / f"{number}.xscl", sent[0]
            given = ("backup", str(target), "--data", str(running.home.path))
            done = called(*given)
            assert (done.exit_code, done.stderr) == (0, ""), done.output
            assert done.stdout.startswith(f"wrote {target}: ")
            made.append((target, acknowledged))
    finally:
        stop.set()
        thread.join()
    assert not failed
    assert not running.home.backups.exists()
    for target, acknowledged in made:
        assert target.stat().st_mode & 0o777 == 0o600
        home = DataDirectory(target.with_suffix(""))
        restore(target, home)
        with Engine(home.database) as engine, Spool(home.spool) as spool:
            before = known(engine)
            is_whole(engine, before)
            Consumer(spool, engine.ingest).run_once()
            after = known(engine)
            is_whole(engine, after)
            assert after >= max(before, acknowledged), "what was acknowledged is in it"
            assert before > 0


def known(engine: Engine) -> int:
    """Return the number of documents of an engine: a prefix of the sent ones."""
    found = engine.sql("SELECT id FROM documents").to_pydict()["id"]
    assert set(found) == {f"d{number}" for number in range(len(found))}
    return len(found)


def is_whole(engine: Engine, documents: int) -> None:
    """Compare the matches with those of so many documents."""
    equal = [(documents + TOGETHER - 1 - rest) // TOGETHER for rest in range(TOGETHER)]
    pairs = sum(count * (count - 1) // 2 for count in equal)
    assert engine.sql("SELECT count(*) AS n FROM matches").to_pylist() == [{"n": pairs}]


def test_backups_are_the_operators_and_one_at_a_time(
    running: Running, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running.client(token_of(operator, "carol")) as carol:
        assert code(carol.post("/v1/backup")) == (403, "operator_only")
    entered, leave, answers = threading.Event(), threading.Event(), list[int]()

    def slowly(store: Store, target: Path, spool: Path | None = None) -> Backup:
        entered.set()
        assert leave.wait(PATIENCE)
        return back_up(store, target, spool)

    def ask() -> None:
        with running.client() as client:
            answers.append(client.post("/v1/backup").status_code)

    monkeypatch.setattr(backups, "back_up", slowly)
    first = threading.Thread(target=ask)
    first.start()
    try:
        assert entered.wait(PATIENCE)
        busy = operator.post("/v1/backup")
    finally:
        leave.set()
        first.join()
    assert code(busy) == (429, "busy")
    assert "retry-after" in busy.headers
    assert answers == [200]


def test_a_backup_needs_room(
    running: Running, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for a document, but not for all that there is once more."""
    guard = running.service.disk
    disk = os.statvfs(running.home.path)
    guard.least = disk.f_bavail * disk.f_frsize - (8 << 20)
    try:
        waiting = [Extract("", running.home.spool, b"", 0, 16 << 20)]
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "extracts", lambda *_: waiting)
            assert code(operator.post("/v1/backup")) == (503, "disk_full")
    finally:
        guard.least = LEAST
    assert not running.home.backups.exists()
    assert operator.post("/v1/backup").status_code == 200


def test_c18_a_backup_that_fails_midway_disturbs_nothing(
    running: Running, operator: httpx.Client
) -> None:
    """The disk takes all but the end of the file."""
    size = len(operator.post("/v1/backup").content)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 4096, before[1]))
    try:
        failed = operator.post("/v1/backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code(failed) == (503, "backup")
    assert "cannot be written: File too large" in failed.json()["detail"]
    assert not running.home.backups.exists()
    assert operator.post("/v1/documents/S?id=after", content="<b/>").status_code == 202
    query = {"query": "SELECT id FROM documents WHERE id = 'after'"}
    eventually(lambda: ok(operator.post("/v1/sql", json=query))["rows"])
    assert len(operator.post("/v1/backup").content) > size - 4096


def test_a_broken_transfer_leaves_no_backup(tmp_path: Path) -> None:
    """Nor does it touch one that is there."""
    with Engine(tmp_path / "state.db") as engine:
        engine.backup(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    with pytest.raises(BackupError, match="damaged"):
        receive([content[:-20_000]], tmp_path / "new")
    with pytest.raises(BackupError, match="damaged"):
        receive([b"nothing"], tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == content
    assert receive([content], tmp_path / "whole") == read_backup(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.glob("*new*")) == []


# -- A process that fails in the midst of one ----------------------------------------------
