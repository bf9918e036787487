"""A cluster as the sink of the consumer: spool in, the matches of one engine out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import xscl
from feeds.spool import Spool
from tests.xscl.cluster.histories import delivered
from xscl.cluster import cluster_sink
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.cluster_sink import ClusterSink
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.shared_directory import SharedDirectory
from xscl.engine.state import Role
from xscl.ingestion.engine_sink import EngineSink
from xscl.ingestion.pipeline import DirectConsumer
from xscl.ingestion.quarantine import BatchAttempts
from xscl.store.consumed_offsets import BatchKey

ABSENT = "S//a->x NOT FOLLOWED BY{x=y, 3} S//a->y"


def document(number: int) -> xscl.Document:
    return xscl.Document("S", f"d{number}", number, f"<a>{number % 2}</a>".encode())


@contextmanager
def opened(folder: Path, cells: LocalCells) -> Iterator[ClusterDriver]:
    with xscl.Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
        yield ClusterDriver(engine, SharedDirectory(folder / "shared"), 2, cells)


def test_a_spool_with_beats_gives_the_matches_of_one_engine(tmp_path: Path) -> None:
    """The driver is opened again between the two halves of the spool."""
    cells, keys = LocalCells(in_memory=True), list[BatchKey]()
    with Spool(tmp_path / "spool") as spool, xscl.Engine() as engine:
        engine.stream("S", live=True)
        engine.subscribe("absent", ABSENT)
        for half in range(2):
            with opened(tmp_path, cells) as driver:
                if not half:
                    driver.engine.stream("S", live=True)
                    driver.engine.subscribe("absent", ABSENT)
                spool.append([document(4 * half + 1), document(4 * half + 2)], 0)
                spool.beat(4 * half + 6)
                sink = ClusterSink(driver, on_committed=keys.append)
                DirectConsumer(spool, sink).run_once()
                assert sink.segment == spool.latest() == sink.consumed("direct")
                found = [row[0] for row in delivered(driver.engine)["absent"]]
        DirectConsumer(spool, EngineSink(engine)).run_once()
        assert found == [one.id for one in engine.matches("absent")]
        assert len(found) == 3
    assert [key.segment for key in keys] == [2, 4]
    cells.close()


def test_a_document_that_crashed_the_driver_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_sink, "poisonous", lambda documents: frozenset({0}))
    (tmp_path / "attempt").write_text("1\n", "ascii")
    cells = LocalCells(in_memory=True)
    with opened(tmp_path, cells) as driver:
        driver.engine.subscribe("all", "S//a->x")
        sink = ClusterSink(driver, attempts=BatchAttempts(tmp_path / "attempt"))
        sink.consume([document(1), document(2)], BatchKey("direct", 1, 1))
        assert [row[1] for row in delivered(driver.engine)["all"]] == [["d2"]]
        rejected = driver.engine.sql("SELECT id, reason FROM rejected").to_pylist()
        assert rejected == [{"id": "d1", "reason": "poison"}]
    cells.close()
