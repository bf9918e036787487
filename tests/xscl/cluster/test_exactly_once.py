"""Each match is committed once, whatever ends between two steps of the protocol.

A crash is an exception at a fault point, after which the driver's store is opened again, and the
cells are the same ones or new ones.  What was acknowledged stays, what was not is sent again.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import xscl
from tests.examples import usually
from tests.xscl.cluster.histories import IN_MEMORY, Delivered, delivered
from xscl.cluster import (
    catalog_log,
    cell_assignment,
    cell_host,
    compacted_controls,
    driver,
    sequencer,
    shared_directory,
)
from xscl.cluster.cell_host import CellHost, LocalCells
from xscl.cluster.cell_task import CellAnswer, CellTask
from xscl.cluster.driver import COMMITTED, ClusterDriver
from xscl.cluster.sealed_log import SealedLog
from xscl.cluster.shared_directory import ClusterError, SharedDirectory, StaleDriver
from xscl.engine.state import Role
from xscl.errors import NameTaken, UnknownSubscription
from xscl.store.consumed_offsets import DIRECT, BatchKey

CELLS = 2
JOIN = "S//a->x FOLLOWED BY{x=y, 100} S//a->y"
Step = Callable[[ClusterDriver], None]


class Crash(BaseException):
    """The end of a process."""


def documents(number: int) -> Step:
    """Return a step that consumes two documents; the second may have come before."""
    pair = [
        xscl.Document("S", f"d{number}", number, f"<a>{number % 2}</a>".encode()),
        xscl.Document("S", f"e{number // 2}", number, b"<a>k</a>"),
    ]
    return lambda driver: driver.consume(pair, BatchKey(DIRECT, number, number))


def subscribe(name: str, query: str, since: int | None = None) -> Step:
    def step(driver: ClusterDriver) -> None:
        with suppress(NameTaken):  # it was registered before the crash
            driver.engine.subscribe(name, query, since=since)

    return step


def unsubscribe(name: str) -> Step:
    def step(driver: ClusterDriver) -> None:
        with suppress(UnknownSubscription):  # it was removed before the crash
            driver.engine.unsubscribe(name)

    return step


def edit(name: str, query: str) -> Step:
    def step(driver: ClusterDriver) -> None:
        driver.engine.edit(name, query)  # the same query again is no change

    return step


def split(cells: int) -> Step:
    def step(driver: ClusterDriver) -> None:
        if len(driver.cells) < cells:  # else the cell was split before the crash
            counts = driver._catalog.counts
            slices = filter(driver.grid.is_slice, driver.cells)
            driver.split(max(slices, key=lambda cell: counts.get(cell, 0)))

    return step


HISTORY: tuple[Step, ...] = (
    subscribe("pairs", JOIN),
    documents(1),
    subscribe("publisher", f"SELECT <p>{{x}}</p> FROM {JOIN} PUBLISH P"),
    subscribe("absent", "S//a->x NOT FOLLOWED BY{x=y, 3} S//a->y"),
    documents(2),
    documents(3),
    subscribe("reader", "P//p->x FOLLOWED BY{x=y, 100} P//p->y"),
    documents(4),
    subscribe("older", "S//a->x FOLLOWED BY{x=y, 50} S//a->y", since=100),
    subscribe("absent before", "S//a->x NOT FOLLOWED BY{x=y, 4} S//a->y", since=3),
    unsubscribe("pairs"),
    documents(5),
    edit("publisher", f"SELECT <p>{{y}}</p> FROM {JOIN} PUBLISH P"),
    documents(6),
    split(CELLS + 1),
    documents(8),
    documents(12),
    documents(14),
)


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        yield Path(folder)


@contextmanager
def opened(folder: Path, cells: LocalCells) -> Iterator[ClusterDriver]:
    shared = SharedDirectory(folder / "shared")
    with xscl.Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
        yield ClusterDriver(engine, shared, CELLS, cells, snapshot_every=2)


def run(folder: Path, cells: LocalCells) -> Delivered:
    """Return the matches of a history; each step that crashes is repeated by a new driver."""
    done = 0
    while True:
        with suppress(Crash), opened(folder, cells) as current:
            while done < len(HISTORY):
                HISTORY[done](current)
                done += 1
            return delivered(current.engine)


class Recorded(LocalCells):
    """Cells that record their tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[list[CellTask]] = []

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        self.tasks.append(tasks)
        return super().run(shared, tasks)


@dataclass(frozen=True)
class Undisturbed:
    """A run of the history in which nothing fails."""

    folder: Path
    tasks: list[list[CellTask]]
    delivered: Delivered


@contextmanager
def undisturbed_run() -> Iterator[Undisturbed]:
    """Yield such a run; its shared directory has all answers and the whole log."""
    cells = Recorded()
    with scratch() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(SharedDirectory, "delete_results", lambda *_: None)
        patch.setattr(SealedLog, "trim", lambda *_: None)
        found = run(folder, cells)
        cells.close()
        yield Undisturbed(folder, cells.tasks, found)


@pytest.fixture(scope="module")
def undisturbed() -> Iterator[Undisturbed]:
    with undisturbed_run() as made:
        yield made


@pytest.fixture(scope="module")
def expected(undisturbed: Undisturbed) -> Delivered:
    names = {"pairs", "publisher", "absent", "reader", "older", "absent before"}
    assert names <= undisturbed.delivered.keys()
    return undisturbed.delivered


MODULES = (
    *(catalog_log, cell_assignment, cell_host, compacted_controls, driver, sequencer),
    shared_directory,
)


def crash_at(point: str, passage: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Crash at a passage of a point; the result says whether it came so far."""
    passed = 0

    def reached(name: str) -> None:
        nonlocal passed
        if name == point:
            passed += 1
            if passed == passage:
                raise Crash(point)

    for module in MODULES:
        monkeypatch.setattr(module, "reached", reached)
    return lambda: passed >= passage


POINTS = (
    *("registered", "sealed", "sequenced", "intended", "shared_written"),
    *("answered", "cells_committed", "snapshot_written", "snapshots_copied", "change_written"),
)
ONCE = ("snapshots_copied", "change_written")
"""Points that the history passes once, and once more if it crashes there."""
CASES = [(point, passage) for point in POINTS for passage in ((1,) if point in ONCE else (1, 2, 4))]
USUAL = [
    *((point, 1) for point in ONCE),
    *(
        (point, 2)
        for point in ("registered", "sealed", "intended", "cells_committed", "snapshot_written")
    ),
]
"""Each other point is one transaction or one file away from one of these."""


@pytest.mark.parametrize(("point", "passage"), usually(CASES, *USUAL, several=True))
@pytest.mark.parametrize("are_new", usually([False, True], True))
def test_a_crash_anywhere_changes_nothing(
    point: str,
    passage: int,
    are_new: bool,
    expected: Delivered,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came = crash_at(point, passage, monkeypatch)
    with scratch() as folder:
        cells = NewCells() if are_new else LocalCells()
        found = run(folder, cells)
        cells.close()
    assert came()
    assert found == expected


class NewCells(LocalCells):
    """Cells on other machines after each crash: nothing but the shared directory is left."""

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        try:
            return super().run(shared, tasks)
        except Crash:
            self.close()
            raise


def test_the_points_of_crashes_are_those_of_the_package() -> None:
    texts = [path.read_text("utf-8") for path in Path(str(driver.__file__)).parent.rglob("*.py")]
    passed = {
        line.split('"')[1] for text in texts for line in text.splitlines() if "reached(" in line
    }
    elsewhere = {
        "batch_read",  # before the driver has a batch
        "controls_compacted",  # `test_log_deletion` crashes there
    }
    assert passed == {*POINTS, *elsewhere}


# -- Tasks -----------------------------------------------------------------------------------


History = tuple[Path, list[CellTask]]
"""A shared directory, and the tasks of all every."""


@contextmanager
def copied(undisturbed: Undisturbed) -> Iterator[History]:
    """Yield a copy of the shared directory of the undisturbed run, and the tasks of its every."""
    every = [replace(one, snapshot=False) for some in undisturbed.tasks for one in some]
    with scratch() as folder:
        shutil.copytree(undisturbed.folder / "shared", folder / "shared")
        yield folder / "shared", [one for one in every if one.after < one.upto]


@pytest.fixture
def history(undisturbed: Undisturbed) -> Iterator[History]:
    with copied(undisturbed) as made:
        yield made


def tasks(every: list[CellTask], cell: int) -> list[CellTask]:
    return [one for one in every if one.cell == cell]


def cells_of(every: list[CellTask]) -> list[int]:
    return sorted({one.cell for one in every})


def forget_answers(shared: Path) -> dict[Path, bytes]:
    """Delete the stored answers, and return them."""
    found = {path: path.read_bytes() for path in (shared / "results").rglob("*.arrow")}
    for path in found:
        path.unlink()
    return found


def test_another_cell_gives_equal_bytes(history: History) -> None:
    """The answer is the same after a replay of the whole log and after one from a snapshot."""
    shared, every = history
    answers = forget_answers(shared)
    for cell in cells_of(every):
        host = CellHost(shared, cell)
        host.run(tasks(every, cell)[-1])
        host.close()
    last = {path: path.read_bytes() for path in (shared / "results").rglob("*.arrow")}
    assert len(last) == len(cells_of(every))
    assert last.items() <= answers.items()
    shutil.rmtree(shared / "snapshots")
    (shared / "snapshots").mkdir()
    forget_answers(shared)
    for cell in cells_of(every):
        host = CellHost(shared, cell)
        for task in tasks(every, cell):
            host.run(task)
        host.close()
    assert forget_answers(shared) == answers


def test_a_restored_cell_reads_no_documents_from_before_its_snapshot(history: History) -> None:
    shared, every = history
    answers = forget_answers(shared)
    for cell in cells_of(every):
        ((entry, _), *older) = SharedDirectory(shared).snapshots(cell)
        assert not older, "an older snapshot was left"
        assert entry > 1
        for path in (shared / "sealed").glob("*.arrow"):
            if int(path.stem) <= entry:
                path.rename(path.with_suffix(".away"))
        host = CellHost(shared, cell)
        host.run(tasks(every, cell)[-1])
        host.close()
        for path in (shared / "sealed").glob("*.away"):
            path.rename(path.with_suffix(".arrow"))
    assert forget_answers(shared).items() <= answers.items()


def test_snapshots_of_cells_take_turns(undisturbed: Undisturbed) -> None:
    taken = [[task.cell for task in tasks if task.snapshot] for tasks in undisturbed.tasks]
    assert all(len({cell % 2 for cell in some}) <= 1 for some in taken), "every second batch"
    assert {cell for some in taken for cell in some} == set(range(CELLS + 1))


def test_the_same_task_twice_at_once_gives_equal_bytes(history: History) -> None:
    shared, every = history
    answers = forget_answers(shared)
    hosts = [CellHost(shared, 0), CellHost(shared, 0)]
    found: list[CellAnswer] = []
    threads = [
        threading.Thread(target=lambda host=host: found.append(host.run(tasks(every, 0)[-1])))
        for host in hosts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert found[0].sha256 == found[1].sha256
    assert forget_answers(shared).items() <= answers.items()
    for host in hosts:
        host.close()


def test_a_stored_answer_is_given_again_without_an_engine(history: History) -> None:
    shared, every = history
    shutil.rmtree(shared / "sealed")
    host = CellHost(shared, 0)
    (path,) = [SharedDirectory(shared).results_of(0, every[-1].upto)]
    task = tasks(every, 0)[-1]
    assert host.run(task) == CellAnswer.of(task, path.read_bytes())


def test_a_cell_that_is_ahead_is_made_again(history: History) -> None:
    shared, every = history
    answers = forget_answers(shared)
    host = CellHost(shared, 0)
    some = tasks(every, 0)[::-3]
    for task in some:
        host.run(task)
    host.close()
    of_cell = [SharedDirectory(shared).results_of(0, task.upto) for task in some]
    assert forget_answers(shared) == {path: answers[path] for path in of_cell}


# -- Wrong protocols -------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    with scratch() as made:
        yield made


class WrongCells(LocalCells):
    """Cells whose answers are changed on their way."""

    def __init__(self, change: Callable[[Path, list[CellAnswer]], list[CellAnswer]]) -> None:
        super().__init__(in_memory=True)
        self._change = change

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        return self._change(shared, super().run(shared, tasks))


def _overwritten(shared: Path, answers: list[CellAnswer]) -> list[CellAnswer]:
    for path in (shared / "results").rglob("*.arrow"):
        path.write_bytes(path.read_bytes() + b" ")
    return answers


WRONG: dict[str, Callable[[Path, list[CellAnswer]], list[CellAnswer]]] = {
    "lost": lambda _, answers: answers[:-1],
    "twice": lambda _, answers: [*answers, answers[0]],
    "of another batch": lambda _, answers: [replace(one, after=one.after + 1) for one in answers],
    "overwritten": _overwritten,
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_answers_are_not_committed(kind: str, folder: Path) -> None:
    cells = WrongCells(WRONG[kind])
    with opened(folder, cells) as current:
        current.engine.subscribe("all", "S//a->x")
        with pytest.raises(ClusterError):
            documents(1)(current)
        assert current.engine.host.transactions.store.meta(COMMITTED) == 0
        assert delivered(current.engine) == {}
    cells.close()


def test_the_earlier_of_two_drivers_commits_nothing_more(folder: Path) -> None:
    cells = LocalCells(in_memory=True)
    with opened(folder, cells) as current:
        current.engine.subscribe("all", "S//a->x")
        documents(1)(current)
        SharedDirectory(folder / "shared").begin_epoch(current.epoch + 1)
        with pytest.raises(StaleDriver):
            documents(2)(current)
        assert len(delivered(current.engine)["all"]) == 2
    cells.close()


def test_a_driver_that_is_replaced_while_cells_work_commits_nothing(folder: Path) -> None:
    """Its cells had begun before the other driver came."""

    def replace_driver(shared: Path, answers: list[CellAnswer]) -> list[CellAnswer]:
        SharedDirectory(shared).begin_epoch(99)
        return answers

    cells = WrongCells(replace_driver)
    with opened(folder, cells) as current:
        current.engine.subscribe("all", "S//a->x")
        with pytest.raises(StaleDriver):
            documents(1)(current)
        assert current.engine.host.transactions.store.meta(COMMITTED) == 0
    cells.close()


@contextmanager
def failed_once(folder: Path) -> Iterator[ClusterDriver]:
    """Yield a driver whose first batch was sequenced, and not answered."""
    failures = [True]

    def fail_once(_: Path, answers: list[CellAnswer]) -> list[CellAnswer]:
        if failures:
            failures.pop()
            raise OSError("the task was lost")
        return answers

    cells = WrongCells(fail_once)
    with opened(folder, cells) as current:
        current.engine.subscribe("all", "S//a->x")
        with pytest.raises(OSError, match="the task was lost"):
            documents(1)(current)
        yield current
    cells.close()


def test_a_failed_batch_is_committed_when_it_comes_again(folder: Path) -> None:
    with failed_once(folder) as current:
        documents(1)(current)
        assert len(delivered(current.engine)["all"]) == 2


def test_a_lost_answer_is_an_error(folder: Path) -> None:
    def lose(shared: Path, answers: list[CellAnswer]) -> list[CellAnswer]:
        for path in (shared / "results").rglob("*.arrow"):
            path.unlink()
        return answers

    cells = WrongCells(lose)
    with opened(folder, cells) as current:
        current.engine.subscribe("all", "S//a->x")
        with pytest.raises(ClusterError, match="is missing"):
            documents(1)(current)
    cells.close()


def test_a_change_waits_for_documents_whose_results_are_not_committed(folder: Path) -> None:
    """A removal would hide them."""
    with failed_once(folder) as current:
        with pytest.raises(ClusterError, match="have not evaluated all documents"):
            current.engine.unsubscribe("all")
        current.commit()
        current.engine.unsubscribe("all")
        assert len(delivered(current.engine)["all"]) == 2
