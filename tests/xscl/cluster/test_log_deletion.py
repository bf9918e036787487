"""The log is deleted behind the snapshots of all cells, and keeps nothing of users who are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import xscl
from tests.examples import usually
from tests.xscl.cluster.histories import delivered
from tests.xscl.cluster.test_exactly_once import JOIN, Crash, opened, scratch
from xscl.cluster import compacted_controls, sealed_log
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.cell_task import CellTask
from xscl.cluster.compacted_controls import compacted
from xscl.cluster.controls import (
    CopyPublisher,
    DeclareStream,
    Flush,
    Merge,
    Register,
    Remove,
    Skip,
    Split,
)
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments
from xscl.cluster.shared_directory import ClusterError, SharedDirectory
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

PUBLISHER = f"SELECT <p>{{x}}</p> FROM {JOIN} PUBLISH P"


@contextmanager
def driving(every: int = 2) -> Iterator[tuple[ClusterDriver, LocalCells]]:
    """Yield a driver whose cells write a snapshot `every` few batches; a reader is in cell 1."""
    cells = LocalCells()
    with scratch() as folder, xscl.Engine(role=Role.DRIVER) as engine:
        shared = SharedDirectory(folder / "shared")
        yield (
            ClusterDriver(
                *(engine, shared, 2, cells),
                choose=lambda one: int("reader" in one.name),
                snapshot_every=every,
            ),
            cells,
        )
        cells.close()


def consume(driver: ClusterDriver, *numbers: int, stream: str = "S", text: str = "k") -> None:
    for number in numbers:
        document = xscl.Document(stream, f"d{number}", number, f"<a>{text}</a>".encode())
        driver.consume([document], BatchKey(DIRECT, number, number))


def logged(driver: ClusterDriver) -> dict[int, list[bytes]]:
    """Return the texts of the documents in the log, those of histories included, by entry."""
    log, found = SealedLog(driver._shared), dict[int, list[bytes]]()
    for path in sorted((driver._shared.path / "sealed").iterdir()):
        number = int(path.stem)
        if path.suffix == ".arrow":
            entry = log.read(number)
            assert isinstance(entry, SequencedDocuments)
            found[number] = list(entry.documents.xml)
        elif path.suffix == ".history":
            found[number] = log.read_history(number)["xml"].to_pylist()
    return found


def snapshots(driver: ClusterDriver) -> list[int]:
    return [number for cell in range(2) for number, _ in driver._shared.snapshots(cell)]


def lose(cells: LocalCells) -> None:
    """Lose all cells, which are made again."""
    cells.close()


def by_one(steps: Callable[[xscl.Engine, Callable[..., None]], None]) -> object:
    """Return the matches of a single engine."""
    with xscl.Engine() as engine:

        def push(*numbers: int) -> None:
            for number in numbers:
                engine.push([xscl.Document("S", f"d{number}", number, b"<a>k</a>")])

        steps(engine, push)
        return delivered(engine)


def test_entries_before_all_snapshots_are_deleted() -> None:
    def steps(engine: xscl.Engine, push: Callable[..., None]) -> None:
        engine.subscribe("pairs", JOIN)
        push(*range(1, 9))
        push(9)

    with driving() as (driver, cells):
        driver.engine.subscribe("pairs", JOIN)
        consume(driver, *range(1, 9))
        assert min(logged(driver)) > min(snapshots(driver)) > 1
        lose(cells)
        consume(driver, 9)
        assert delivered(driver.engine) == by_one(steps)


@pytest.mark.parametrize(
    ("every", "begun", "lost"),
    usually([(2, 13, 13), (3, 13, 14), (3, 15, 15)], (3, 15, 15), several=True),
)
def test_a_copy_is_made_from_the_snapshot_before_its_publisher(
    every: int, begun: int, lost: int
) -> None:
    """Snapshots after the registration lack the copy; the cells are lost soon after it is made."""

    def steps(engine: xscl.Engine, push: Callable[..., None]) -> None:
        push(*range(1, 7))
        engine.subscribe("publisher", PUBLISHER)
        push(*range(7, begun))
        engine.subscribe("reader", "P//p->x FOLLOWED BY{x=y, 100} P//p->y")
        push(*range(begun, 18))

    with driving(every) as (driver, cells):
        consume(driver, *range(1, 7))
        driver.engine.subscribe("publisher", PUBLISHER)
        consume(driver, *range(7, begun))
        assert min(logged(driver)) > 1
        assert len(driver._shared.snapshots(1)) == 2  # the newest, and that before the registration
        driver.engine.subscribe("reader", "P//p->x FOLLOWED BY{x=y, 100} P//p->y")
        consume(driver, *range(begun, lost + 1))
        lose(cells)
        consume(driver, *range(lost + 1, 18))
        assert delivered(driver.engine) == by_one(steps)
        consume(driver, *range(18, 25))
        assert len(driver._shared.snapshots(1)) == 1  # now all cells have the publisher


def test_a_publisher_is_replaced_before_any_document() -> None:
    """Changes of the catalog have the order in the log in which they were made."""
    other = PUBLISHER.replace("<p>{x}</p>", "<p>{y}</p>")

    def steps(engine: xscl.Engine, push: Callable[..., None]) -> None:
        engine.subscribe("publisher", PUBLISHER)
        engine.subscribe("reader", "P//p->x")
        push(1, 2)
        engine.subscribe("another", other)
        engine.unsubscribe("publisher")
        push(3, 4)

    with driving() as (driver, _):
        steps(driver.engine, lambda *numbers: consume(driver, *numbers))
        found = delivered(driver.engine)
        assert len(found["reader"]) == 2
        assert found == by_one(steps)


def test_controls_behind_the_snapshots_are_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed subscriptions leave nothing; lost cells, made again, answer for the others."""
    monkeypatch.setattr(sealed_log, "COMPACTED_AT", 4)

    def steps(engine: xscl.Engine, push: Callable[..., None]) -> None:
        for number in range(1, 13):
            engine.subscribe(f"all {number}", "S//a->x")
            push(number)
            if number > 1:
                engine.unsubscribe(f"all {number - 1}")

    def controls(driver: ClusterDriver) -> list[str]:
        found = [driver._shared.path / part for part in ("sealed", "controls")]
        return [path.read_text() for folder in found for path in folder.glob("*.json")]

    with driving() as (driver, cells):

        def push(*numbers: int) -> None:
            consume(driver, *numbers)
            if numbers[-1] % 4 == 0:
                lose(cells)

        steps(driver.engine, push)
        assert delivered(driver.engine) == by_one(steps)
        texts = controls(driver)
        assert len(texts) < 12
        assert sum(text.count('"kind": "register"') for text in texts) < 12
        log = SealedLog(driver._shared)
        compacted = log._compacted.newest()
        assert compacted > 1
        entries = log.controls(0, driver._committed)
        assert [number for number, _ in entries] == sorted({number for number, _ in entries})
        assert not log._numbers("json", compacted)


def test_a_crash_after_a_compaction_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries are still there as well; they are deleted with the next ones."""
    monkeypatch.setattr(sealed_log, "COMPACTED_AT", 4)
    crashes = 0

    def crash(point: str) -> None:
        nonlocal crashes
        if point == "controls_compacted":
            crashes += 1
            if crashes == 1:
                raise Crash(point)

    monkeypatch.setattr(compacted_controls, "reached", crash)

    def step(engine: xscl.Engine, number: int) -> None:
        engine.subscribe(f"pairs {number}", JOIN)
        if number > 2:
            engine.unsubscribe(f"pairs {number - 2}")

    def steps(engine: xscl.Engine, push: Callable[..., None]) -> None:
        for number in range(1, 15):
            step(engine, number)
            push(number)

    cells, number = LocalCells(), 0
    with scratch() as folder:
        while number < 14:
            with suppress(Crash), opened(folder, cells) as driver:
                while number < 14:
                    number += 1
                    step(driver.engine, number)
                    consume(driver, number)
            lose(cells)
        with opened(folder, cells) as driver:
            assert delivered(driver.engine) == by_one(steps)
            log = SealedLog(driver._shared)
            assert not log._numbers("json", log._compacted.newest())
        cells.close()
    assert crashes > 1


def test_compacted_controls_are_those_that_count() -> None:
    entries = [
        (1, (_register("a"), _register("b"), DeclareStream("S", 0, False, None))),
        (2, (Remove("a"), _register("a", cell=1))),  # a new past, in another cell
        (4, (Split(0, 2, ("b", "c"), ("c",)), CopyPublisher("c", 1, 0))),
        (5, (Remove("c"), Flush())),
        (7, (Merge(2, 1, ("a", "c")), Skip(6, (3,)))),
    ]
    assert compacted(entries) == [
        (1, (_register("b"),)),
        (2, (_register("a", cell=1),)),
        (4, (Split(0, 2, ("b",), ()),)),
        (7, (Merge(2, 1, ("a", "c")),)),
    ]


def _register(key: str, cell: int = 0) -> Register:
    return Register(key, "S//a->x", "xscl", False, 0, cell)


@pytest.mark.parametrize("trimmed", usually([False, True], True))
def test_nothing_of_erased_streams_stays(trimmed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_log, "COMPACTED_AT", 1)

    def steps(engine: xscl.Engine, push: Callable[..., None]) -> None:
        push(*range(1, 7))
        engine.subscribe("publisher", PUBLISHER)
        push(7, 8, 15, 16)
        engine.subscribe("reader", "P//p->x FOLLOWED BY{x=y, 100} P//p->y")
        push(17, 18)

    with driving() as (driver, cells):
        if trimmed:
            consume(driver, *range(1, 7))
        driver.engine.subscribe("_1.own", "_1.mine//a->x FOLLOWED BY{x=y, 100} S//a->y")
        if not trimmed:
            consume(driver, *range(1, 7))
        driver.engine.subscribe("publisher", PUBLISHER)
        consume(driver, 7, 8)
        consume(driver, 9, 10, 11, stream="_1.mine", text="secret")
        driver.engine.subscribe("_1.past", "_1.mine//a->x", since=100)
        consume(driver, 12, stream="_1.mine", text="secret")
        assert any(b"<a>secret</a>" in texts for texts in logged(driver).values())
        before = max(snapshots(driver))
        driver.engine.unsubscribe("_1.own", purge=True)
        driver.engine.unsubscribe("_1.past", purge=True)
        driver.engine.host.catalog.erase("_1.")
        assert not any(b"<a>secret</a>" in texts for texts in logged(driver).values())
        controls = [*driver._shared.path.glob("*/*.json")]
        assert not any("_1.mine" in path.read_text() for path in controls)
        assert min(snapshots(driver)) > before
        assert len(snapshots(driver)) == 2
        lose(cells)
        consume(driver, 15, 16)
        driver.engine.subscribe("reader", "P//p->x FOLLOWED BY{x=y, 100} P//p->y")
        consume(driver, 17, 18)
        assert delivered(driver.engine) == by_one(steps)


def test_an_erasure_fails_if_an_older_snapshot_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be repeated."""
    run = LocalCells.run

    def lose_before_snapshots(cells: LocalCells, shared: Path, tasks: list[CellTask]) -> object:
        if all(task.snapshot for task in tasks):
            cells.close()
        return run(cells, shared, tasks)

    with driving() as (driver, _):
        driver.engine.subscribe("pairs", JOIN)
        consume(driver, *range(1, 5))
        with monkeypatch.context() as patched:
            patched.setattr(LocalCells, "run", lose_before_snapshots)
            with pytest.raises(ClusterError, match="was lost while"):
                driver.engine.host.catalog.erase("_1.")
        driver.engine.host.catalog.erase("_1.")
        assert len(set(snapshots(driver))) == 1
