"""The commit protocol under seeded schedules.

Tasks run anywhere, twice and late.  Answers are lost, executors and drivers end, also between the
steps of a split, and a driver starts with an old copy of the store.  Each run delivers what a
single engine does, and some seed finds each planted defect of the protocol.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import xscl
from tests.examples import usually
from tests.xscl.cluster.histories import Delivered, delivered
from tests.xscl.cluster.test_exactly_once import JOIN, scratch
from xscl.cluster import cell_assignment, shared_directory
from xscl.cluster.cell_ancestry import CellAncestry
from xscl.cluster.cell_host import CellHost
from xscl.cluster.cell_task import CellAnswer, CellTask, Place
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.shared_directory import CellsFailed, ClusterError, SharedDirectory, StaleDriver
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

CELLS, EXECUTORS, BATCHES = 2, 2, 12
QUERIES = {
    1: ("publisher 0", f"SELECT <p>{{x}}</p> FROM {JOIN} PUBLISH P"),
    2: ("absent 0", "S//a->x NOT FOLLOWED BY{x=y, 1} S//a->y"),
    5: ("reader 1", "P//p->x FOLLOWED BY{x=y, 100} P//p->y"),
}
"""Subscriptions by the batch that they precede; their names end with their cells."""
SPLIT = 4
"""The batch before which cell 0 is split."""
SEEDS = (1, 2, 3, 4, 5, 6)


class Executors:
    """Executors that keep cells; which one has a task, and what goes wrong, follows from a seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._hosts: dict[tuple[int, int], CellHost] = {}
        self._late: list[CellTask] = []

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        chance = self._chance
        if chance.random() < 0.15:
            self._lose(chance.randrange(EXECUTORS))
        answers = []
        for task in tasks:
            for _ in range(chance.choice((1, 1, 1, 2))):
                answer = self._host(shared, task.cell).run(task)
            answers.append(answer)
            self._late.append(task)
            if chance.random() < 0.05:
                raise CellsFailed("the tasks of an executor were lost")
        if chance.random() < 0.4:
            self.run_late(shared)
        if chance.random() < 0.15:
            answers.pop(chance.randrange(len(answers)))
        return answers

    def run_late(self, shared: Path) -> None:
        """Run some earlier task again, as an executor does that was thought to be lost."""
        if self._late:
            task = self._chance.choice(self._late)
            with suppress(StaleDriver):
                self._host(shared, task.cell).run(task)

    def move(self, cells: Collection[int], away_from: Place) -> list[int]:
        """Move cells; where a task runs is drawn anyway."""
        return []

    def _host(self, shared: Path, cell: int) -> CellHost:
        place = self._chance.randrange(EXECUTORS), cell
        if place not in self._hosts:
            self._hosts[place] = CellHost(shared, cell, in_memory=True)
        return self._hosts[place]

    def _lose(self, executor: int) -> None:
        for place in [one for one in self._hosts if one[0] == executor]:
            self._hosts.pop(place).close()

    def close(self) -> None:
        for executor in range(EXECUTORS):
            self._lose(executor)


def document(number: int) -> xscl.Document:
    return xscl.Document("S", f"d{number}", number, f"<a>{number % 2}</a>".encode())


def expected() -> Delivered:
    with xscl.Engine() as engine:
        for number in range(BATCHES):
            if number in QUERIES:
                engine.subscribe(*QUERIES[number])
            engine.push([document(number)])
        return delivered(engine)


class Simulation:
    """One run: a driver at a time works off the batches, until all are committed."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._chance = random.Random(seed)
        self._folder = folder
        self._executors = Executors(self._chance)
        self._copy: Path | None = None  # an earlier state of the store
        self._done = 0

    def run(self) -> Delivered:
        """Return the matches of the last driver; raises ClusterError if it cannot go on."""
        try:
            for _ in range(100):
                with xscl.Engine(self._folder / "state.duckdb", role=Role.DRIVER) as engine:
                    if self._work(engine):
                        return delivered(engine)
                self._between_drivers()
        finally:
            self._executors.close()
        raise ClusterError("the batches are never committed")

    def _drive(self, engine: xscl.Engine) -> ClusterDriver:
        shared = SharedDirectory(self._folder / "shared")
        return ClusterDriver(
            *(engine, shared, CELLS, self._executors), choose=lambda one: int(one.name[-1])
        )

    def _work(self, engine: xscl.Engine) -> bool:
        """Work off batches until the driver ends; return whether all are committed."""
        with suppress(StaleDriver, CellsFailed, _Refused):
            with _refusals():
                driver = self._drive(engine)
            while self._done < BATCHES:
                if self._chance.random() < 0.1:
                    return False
                if self._done == SPLIT and len(driver.cells) == CELLS:
                    self._split(driver)
                self._step(driver, engine)
            return True
        return False

    def _step(self, driver: ClusterDriver, engine: xscl.Engine) -> None:
        number = self._done
        if number in QUERIES and engine.subscription(QUERIES[number][0]) is None:
            engine.subscribe(*QUERIES[number])
        with _refusals():
            driver.consume([document(number)], BatchKey(DIRECT, number + 1, number + 1))
        self._done += 1

    def _split(self, driver: ClusterDriver) -> None:
        """Split a cell, and move what is left; the driver may end between the steps."""
        with pytest.MonkeyPatch.context() as patched, _refusals():
            for module in (cell_assignment, shared_directory):
                patched.setattr(module, "reached", self._end)
            driver.split(0)
            driver.move(0)

    def _end(self, _: str) -> None:
        if self._chance.random() < 0.2:
            raise _Refused

    def _between_drivers(self) -> None:
        """Copy the store, or start a driver with an earlier copy, which has to be refused."""
        store = self._folder / "state.duckdb"
        if self._copy is None:
            self._copy = self._folder / "copy"
            self._copy.mkdir()
            for path in self._folder.glob("state.duckdb*"):
                if path.is_file():
                    shutil.copy(path, self._copy / path.name)
            return
        with (
            suppress(StaleDriver, CellsFailed, _Refused),
            xscl.Engine(self._copy / store.name, role=Role.DRIVER) as engine,
            _refusals(),
        ):
            self._drive(engine).consume([document(77)], BatchKey(DIRECT, 77, 77))


class _Refused(Exception):
    """The driver has refused answers, or it ended."""


@contextmanager
def _refusals() -> Iterator[None]:
    """End the driver when it refuses incomplete answers; raise other errors."""
    try:
        yield
    except ClusterError as error:
        if "the cells answered" in error.message:
            raise _Refused from error
        raise


@pytest.fixture(scope="module")
def single() -> Delivered:
    found = expected()
    assert found.keys() == {name for name, _ in QUERIES.values()}
    return found


@pytest.mark.parametrize("seed", usually(SEEDS, 1))
def test_any_schedule_delivers_what_one_engine_does(seed: int, single: Delivered) -> None:
    with scratch() as folder:
        assert Simulation(folder, seed).run() == single


# -- Planted defects -------------------------------------------------------------------------


def _without_count(driver: ClusterDriver, tasks: list[CellTask]) -> list[CellAnswer]:
    answers = driver._runner.run(driver._shared.path, tasks)
    return sorted(answers, key=lambda one: one.cell)


_prepared = CellHost._prepared


def _with_old_assignment(host: CellHost, task: CellTask) -> xscl.Engine:
    if host._engine is not None and host._entry <= task.after:
        return host._engine
    return _prepared(host, task)


def _without_past(ancestry: CellAncestry, _: int) -> int:
    return ancestry._began[0][1]


def _begin_any_epoch(shared: SharedDirectory, epoch: int) -> None:
    shared.place(shared._driver, b'{"epoch": %d}' % epoch)


PLANTED: dict[str, list[tuple[type, str, Callable[..., object]]]] = {
    "a lost answer": [(ClusterDriver, "_asked", _without_count)],
    "two drivers": [
        (SharedDirectory, "begin_epoch", _begin_any_epoch),
        (SharedDirectory, "expect_epoch", lambda *_: None),
    ],
    "a stale assignment": [(CellHost, "_prepared", _with_old_assignment)],
    "a new cell without the past of its source": [(CellAncestry, "at", _without_past)],
}


def _is_found(seed: int, single: Delivered) -> bool:
    with scratch() as folder:
        try:
            return Simulation(folder, seed).run() != single
        except (xscl.XsclError, LookupError, AssertionError):
            return True


@pytest.mark.parametrize("name", usually(PLANTED, "a lost answer"))
def test_a_planted_defect_is_found(
    name: str, single: Delivered, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, method, defect in PLANTED[name]:
        monkeypatch.setattr(kind, method, defect)
    assert any(_is_found(seed, single) for seed in SEEDS)
