"""Documents that end the process which reads them (C20)."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.foreign import write_foreign_packages
from tests.project import LEAN, python
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.ingestion.quarantine import BatchAttempts, poisonous

ECHO = "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y"


def documents(*numbers: int) -> list[Document]:
    return [Document("S", f"d{n}", n, b"<a>hi</a>") for n in numbers]


def test_c20_a_poison_document_is_set_aside_and_the_batch_goes_on(home: DataDirectory) -> None:
    """The service dies in a batch; its next start dies of the third document, in another process.

    The fault points stand for the document: the first run ends where documents are read, and of
    the processes that try them each ends at its third.
    """
    with home.hold("test"), Engine(home.database) as engine, Spool(home.spool) as spool:
        engine.subscribe("echo", ECHO)
        spool.append(documents(1, 2, 3, 4, 5), 1)
    killed = serve(home, "accepted:1")
    assert killed.returncode == -signal.SIGKILL
    with home.hold("test"), Engine(home.database) as engine:
        assert engine.ingest.segment == 0
    second = serve(home, "probed:3")
    assert second.returncode == 0, second.stderr
    assert "the document 'd3' is set aside" in second.stderr
    with home.hold("test"), Engine(home.database) as engine:
        rows = engine.sql("SELECT id, reason, message FROM rejected").to_pylist()
        assert rows == [
            {
                "id": "d3",
                "reason": "poison",
                "message": "a process ended while it read the document",
            }
        ]
        ids = {name for match in engine.matches() for name in match.documents}
        assert ids == {"d1", "d2", "d4", "d5"}
        assert engine.ingest.segment == 1


def serve(home: DataDirectory, fault: str) -> subprocess.CompletedProcess[str]:
    """Serve until everything is consumed, with a fault."""
    code = (
        f"{LEAN}import logging, threading; from pathlib import Path;"
        " from xscl.ingestion.data_directory import DataDirectory;"
        " from xscl.server.serve import Service, ServeSettings;"
        " logging.basicConfig(level='WARNING');"
        " until = threading.Event(); until.set();"
        " place, settings = DataDirectory(Path(sys.argv[1])), ServeSettings();"
        " Service(place, settings, lambda matches: None).run(until)"
    )
    return python("-c", code, home.path, XSCL_FAULT=fault)


def test_every_poisonous_document_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process ends at its second document: every second one is poison."""
    monkeypatch.setenv("XSCL_FAULT", "probed:2")
    assert poisonous(documents(*range(4))) == {1, 3}


def test_documents_that_are_only_wrong_are_no_poison() -> None:
    wrong = [Document("S", "w", 1, b"<a>"), Document("S", "e", 2, b""), *documents(1)]
    assert poisonous(wrong) == frozenset()
    assert poisonous([]) == frozenset()


def test_only_a_batch_that_ended_a_process_is_suspect(tmp_path: Path) -> None:
    path = tmp_path / "attempt"
    assert not BatchAttempts(path).begin(3, 0)
    again = BatchAttempts(path)
    assert again.begin(2, 0)  # cut otherwise, it is still among those
    assert again.begin(5, 2)
    assert not again.begin(9, 5)
    assert not BatchAttempts(path).begin(12, 9)
    path.write_text("nonsense")
    assert not BatchAttempts(path).begin(1, 0)
    assert not BatchAttempts().begin(1, 0)


def test_in_order_nothing_is_suspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "xscl.ingestion.pipeline.poisonous", lambda documents: pytest.fail("it was suspected")
    )
    path = tmp_path / "attempt"
    with Engine() as engine, Spool(tmp_path / "spool") as spool:
        for run in range(3):
            consumer = Consumer(spool, engine.ingest, attempts=BatchAttempts(path))
            for batch in range(1, 4):
                spool.append(documents(3 * run + batch), 0)
                consumer.run_once()
        assert engine.ingest.segment == 9


def test_documents_are_read_by_our_program_where_foreign_packages_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_foreign_packages(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert poisonous(documents(1, 2)) == frozenset()
