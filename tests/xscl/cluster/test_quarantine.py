"""A document that ends the cells that read it is skipped, although it is in the log."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

import xscl
from tests.xscl.cluster.histories import delivered
from tests.xscl.cluster.test_exactly_once import JOIN, scratch
from xscl.cluster import driver as driver_module
from xscl.cluster.cell_host import CellHost, LocalCells
from xscl.cluster.cell_task import CellAnswer, CellTask
from xscl.cluster.driver import PROBED_AFTER, ClusterDriver
from xscl.cluster.shared_directory import CellsFailed, SharedDirectory
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

POISON = b"<a>poison</a>"


class _Died(Exception):
    """The process of a cell has ended."""


class FragileCells(LocalCells):
    """Cells of which one ends when it reads a certain document; the others read it first."""

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        try:
            return super().run(shared, tasks)
        except _Died as error:
            raise CellsFailed("a task of a cell failed") from error


@pytest.fixture
def fragile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make cell 1 crash on the document, and the probe process report the crash."""
    push = CellHost._push

    def ended(host: CellHost, engine: Any, number: int, entry: Any, found: Any) -> int:
        if host._cell == 1 and POISON in entry.documents.xml:
            raise _Died
        return push(host, engine, number, entry, found)

    def places(documents: Sequence[xscl.Document]) -> Collection[int]:
        return {at for at, one in enumerate(documents) if one.xml == POISON}

    monkeypatch.setattr(CellHost, "_push", ended)
    monkeypatch.setattr(driver_module, "poisonous", places)


def consume(driver: ClusterDriver, number: int, *texts: bytes) -> None:
    documents = [
        xscl.Document("S", f"d{number}-{at}", number, text) for at, text in enumerate(texts)
    ]
    driver.consume(documents, BatchKey(DIRECT, number, number))


def expected() -> object:
    with xscl.Engine() as engine:
        for name in ("0", "1"):
            engine.subscribe(name, JOIN)
        for number in (1, 2, 3):
            engine.push([xscl.Document("S", f"d{number}-0", number, b"<a>k</a>")])
        return delivered(engine)


def subscribe(engine: xscl.Engine) -> None:
    for name in ("0", "1"):
        engine.subscribe(name, JOIN)


@pytest.mark.usefixtures("fragile")
@pytest.mark.parametrize("restarts", [False, True])
def test_the_document_is_skipped_by_all_cells(restarts: bool) -> None:
    """Also by those that have read it, and after they were made again."""
    with scratch() as folder:
        cells, shared = FragileCells(), SharedDirectory(folder / "shared")

        def drive(engine: xscl.Engine) -> ClusterDriver:
            return ClusterDriver(engine, shared, 2, cells, choose=lambda one: int(one.name))

        with xscl.Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
            driver = drive(engine)
            subscribe(engine)
            consume(driver, 1, b"<a>k</a>")
            with pytest.raises(CellsFailed):
                consume(driver, 2, b"<a>k</a>", POISON)
            if not restarts:
                for _ in range(PROBED_AFTER - 1):
                    with pytest.raises(CellsFailed):
                        driver.commit()
                driver.commit()
        with xscl.Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
            driver = drive(engine)
            cells.close()
            consume(driver, 3, b"<a>k</a>")
            assert delivered(engine) == expected()
            rejected = engine.sql("SELECT id, reason FROM rejected").to_pylist()
            assert rejected == [{"id": "d2-1", "reason": "poison"}]
            known = engine.sql("SELECT id FROM documents")["id"].to_pylist()
            assert sorted(known) == ["d1-0", "d2-0", "d3-0"]
            assert "d2-1" not in engine.sql("SELECT docid FROM R_bin")["docid"].to_pylist()
        cells.close()


@pytest.mark.usefixtures("fragile")
def test_cells_that_fail_for_another_reason_skip_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with scratch() as folder, xscl.Engine(role=Role.DRIVER) as engine:
        cells = FragileCells()
        driver = ClusterDriver(engine, SharedDirectory(folder / "shared"), 2, cells)
        subscribe(engine)

        def fail(*_: object) -> object:
            raise CellsFailed("a task of a cell failed")

        with monkeypatch.context() as patched:
            patched.setattr(LocalCells, "run", fail)
            for number in range(PROBED_AFTER + 1):
                with pytest.raises(CellsFailed):
                    consume(driver, 1, b"<a>k</a>") if not number else driver.commit()
        driver.commit()
        assert engine.sql("FROM rejected").num_rows == 0
        assert engine.sql("SELECT id FROM documents")["id"].to_pylist() == ["d1-0"]
        cells.close()
