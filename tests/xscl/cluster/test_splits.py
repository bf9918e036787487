"""Cells are split and merged while documents come; the matches are those of one engine."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until, usually
from tests.oracle.queries import Case
from tests.xscl.cluster.histories import Delivered, by_single_engine, cluster, delivered, play
from tests.xscl.cluster.test_cells import document, push, subscription
from tests.xscl.cluster.test_cells_properties import DEALS, KINDS, Deal
from tests.xscl.cluster.test_exactly_once import JOIN, scratch
from tests.xscl.engine.player import CUTS
from xscl.cluster.catalog_log import placements
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.cell_task import CellAnswer, CellTask, Place
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.placement import halved
from xscl.cluster.shared_directory import CellsFailed, ClusterError, SharedDirectory
from xscl.engine.state import Role

PLACES = st.lists(st.booleans(), min_size=8, max_size=8)
"""For each batch, whether the fullest cell is split after it."""
HALVES = st.permutations([0, 0, 1, 1])
"""The cells of subscriptions."""


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories", "mixes", "published in time"))
def test_split_cells_deliver_what_the_single_engine_delivers(kind: str) -> None:
    assert_changed_cells_agree(
        kind, st.builds(partial, st.just(by_split_cells), places=PLACES, deal=DEALS)
    )


def assert_changed_cells_agree(
    kind: str, plays: st.SearchStrategy[Callable[[Case, Sequence[bool]], tuple[Delivered, bool]]]
) -> None:
    """Compare cells with one engine; a play returns also whether the cells have changed."""
    matched: list[str] = []

    @examples(4)
    @given(KINDS[kind], CUTS, plays)
    def property_holds(
        case: Case,
        cuts: list[bool],
        play: Callable[[Case, Sequence[bool]], tuple[Delivered, bool]],
    ) -> None:
        expected = by_single_engine(case, cuts)
        found, has_changed = play(case, cuts)
        assert found == expected
        if has_changed:
            matched.extend(expected)

    property_holds()
    until(lambda: bool(matched), property_holds)
    assert matched


def by_split_cells(
    case: Case, cuts: Sequence[bool], places: Sequence[bool], deal: Sequence[int]
) -> tuple[Delivered, bool]:
    """Return the matches of a cell and of those split off, and whether there are such cells."""
    wanted, dealt = list(places), cycle(deal)
    with cluster(1) as driver:
        driver._choose = lambda _: driver.cells[next(dealt) % len(driver.cells)]
        driver._recount()

        def split(engine: xscl.Engine) -> None:
            counts = driver._catalog.counts
            if wanted and wanted.pop() and counts:
                fullest = max(counts, key=lambda cell: counts[cell])
                try:
                    driver.split(fullest)
                except ClusterError as error:
                    if "cannot be split" not in error.message:
                        raise

        play(driver, case, cuts, split)
        return delivered(driver.engine), len(driver.cells) > 1


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(KINDS, "histories", "ordered", "published"))
def test_merged_cells_deliver_what_the_single_engine_delivers(kind: str) -> None:
    assert_changed_cells_agree(
        kind, st.builds(partial, st.just(by_merged_cells), deal=HALVES, place=st.integers(0, 3))
    )


def by_merged_cells(
    case: Case, cuts: Sequence[bool], deal: Sequence[int], place: int
) -> tuple[Delivered, bool]:
    """Return the matches of two cells that are merged after a batch, and whether they were.

    The subscriptions of one of them move, as soon as it has some.
    """
    batches = count()
    with cluster(2, Deal(deal)) as driver:

        def merge(engine: xscl.Engine) -> None:
            if next(batches) >= place and len(driver.cells) == 2 and driver._catalog.counts.get(1):
                try:
                    driver.merge(0, 1)
                except ClusterError as error:
                    if "cannot move" not in error.message:
                        raise

        play(driver, case, cuts, merge)
        return delivered(driver.engine), len(driver.cells) == 1


# -- With files, restarts and losses ---------------------------------------------------------

QUERIES = {
    "pairs": JOIN,
    "publisher": f"SELECT <p>{{x}}</p> FROM {JOIN} PUBLISH P",
    "reader": "P//p->x FOLLOWED BY{x=y, 100} P//p->y",
    "absent": "S//a->x NOT FOLLOWED BY{x=y, 3} S//a->y",
    "next": "S//a->x NEXT{x=y} S//a->y",
}


def batch(number: int) -> xscl.Document:
    return document(f"d{number}", number, str(number % 3))


@pytest.fixture(scope="module")
def expected() -> object:
    with xscl.Engine() as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        for number in range(1, 15):
            engine.push([batch(number)])
        return delivered(engine)


@pytest.mark.parametrize("loses", usually([False, True], True))
def test_cells_are_split_again_and_again(expected: object, loses: bool) -> None:
    """Cells that are lost are made from snapshots and the log, also those of before the split."""
    cells = LocalCells()
    with scratch() as folder:
        shared, engine = SharedDirectory(folder / "shared"), folder / "state.duckdb"
        for upto in (5, 10, 15):
            with xscl.Engine(engine, role=Role.DRIVER) as opened:
                driver = ClusterDriver(opened, shared, 1, cells, snapshot_every=2)
                for name, query in QUERIES.items() if upto == 5 else ():
                    opened.subscribe(name, query)
                for number in range(upto - 5, upto):
                    if number == 0:
                        continue
                    push(driver, batch(number))
                    if number % 4 == 3:
                        counts = driver._catalog.counts
                        new = driver.split(max(counts, key=lambda cell: counts[cell]))
                        assert new == driver.cells[-1]
                    if loses and number % 4 == 0:
                        cells.close()
                if upto == 15:
                    assert len(driver.cells) == 4
                    assert sum(one.subscriptions for one in driver.cells_now()) == len(QUERIES)
                    assert delivered(opened) == expected
    cells.close()


def test_a_new_cell_has_the_snapshots_that_a_copy_is_made_from() -> None:
    """The publisher was registered before the split, and the source has no copy of it."""
    cells = {"publisher": 0, "reader": 2}
    some = {"lately": JOIN.replace("100", "7"), "absent": QUERIES["absent"]}

    def steps(engine: xscl.Engine, push: Callable[[int, int], None]) -> None:
        for name, query in some.items():
            engine.subscribe(name, query)
        push(1, 7)
        engine.subscribe("publisher", QUERIES["publisher"])
        push(7, 15)
        if engine is opened:
            assert driver.split(1) == 2
        push(15, 19)
        engine.subscribe("reader", QUERIES["reader"])
        push(19, 30)

    with scratch() as folder, xscl.Engine(role=Role.DRIVER) as opened, xscl.Engine() as one:
        shared, local = SharedDirectory(folder / "shared"), LocalCells()
        driver = ClusterDriver(
            *(opened, shared, 2, local),
            choose=lambda subscription: cells.get(subscription.name, 1),
            snapshot_every=2,
        )

        def in_cells(begin: int, end: int) -> None:
            for number in range(begin, end):
                push(driver, batch(number))

        def in_one(begin: int, end: int) -> None:
            for number in range(begin, end):
                one.push([batch(number)])

        steps(opened, in_cells)
        steps(one, in_one)
        entries = [int(path.stem) for path in (shared.path / "sealed").glob("*.arrow")]
        assert min(entries) > 1, "the log was trimmed"
        assert "reader" in delivered(one)
        assert delivered(opened) == delivered(one)
        local.close()


def test_a_split_whose_cells_fail_is_evaluated_with_the_next_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = LocalCells.run

    def fail(cells: LocalCells, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        if len(tasks) > 1:
            raise CellsFailed("a task of a cell failed")
        return run(cells, shared, tasks)

    with cluster(1) as driver:
        for name, query in (("pairs", JOIN), ("all", "S//a->x")):
            driver.engine.subscribe(name, query)
        push(driver, document("d1", 1))
        with monkeypatch.context() as patched:
            patched.setattr(LocalCells, "run", fail)
            assert driver.split(0) == 1
        push(driver, document("d2", 2))
        assert {name: len(rows) for name, rows in delivered(driver.engine).items()} == {
            "pairs": 1,
            "all": 2,
        }
        assert [one.subscriptions for one in driver.cells_now()] == [1, 1]


def test_a_new_subscription_goes_where_its_constant_went() -> None:
    def query(channel: str, window: int) -> str:
        return f'S//item[c="{channel}"]->x FOLLOWED BY{{x=y, {window}}} S//item->y'

    with cluster(1) as driver:
        for channel in "abcd":
            for window in range(1, 5):
                driver.engine.subscribe(f"{channel}{window}", query(channel, window))
        child = driver.split(0)
        placed = placements(driver.engine.host.transactions.store)
        assert Counter(placed.values()) == {0: 8, child: 8}
        for channel in "abcd":
            driver.engine.subscribe(f"{channel}9", query(channel, 9))
        push(driver, document("d", 1))
        placed = placements(driver.engine.host.transactions.store)
        for channel in "abcd":
            assert len({cell for key, cell in placed.items() if key[0] == channel}) == 1


class MovingCells(LocalCells):
    """Cells that lose what has to move, as if it went to another process."""

    def __init__(self, stay: Collection[int] = ()) -> None:
        super().__init__()
        self.moved: list[tuple[int, Place]] = []
        self._stay = stay

    def move(self, cells: Collection[int], away_from: Place) -> list[int]:
        self.moved += ((cell, away_from) for cell in cells)
        for cell in cells:
            assert self._hosts[cell]._engine is None, "it was given up"
        return [cell for cell in cells if cell in self._stay]


@contextmanager
def with_moving(cells: MovingCells) -> Iterator[ClusterDriver]:
    with scratch() as folder, xscl.Engine(role=Role.DRIVER) as engine:
        yield ClusterDriver(engine, SharedDirectory(folder / "shared"), 2, cells)
        cells.close()


def test_cells_that_move_go_on(expected: object) -> None:
    """They begin with the snapshot that they have left."""
    cells, host = MovingCells(), socket.gethostname()
    with with_moving(cells) as driver:
        for name, query in QUERIES.items():
            driver.engine.subscribe(name, query)
        for number in range(1, 15):
            push(driver, batch(number))
            if number == 5:
                driver.move(1)
                assert driver.cells_now()[1].snapshot == driver.cells_now()[1].entry
            elif number == 9:
                assert driver.drain(host) == [0, 1]
        assert delivered(driver.engine) == expected
    assert cells.moved == [(1, Place(host, os.getpid())), (0, Place(host)), (1, Place(host))]


def test_a_cell_that_nobody_takes_stays() -> None:
    with with_moving(MovingCells(stay=[1])) as driver:
        driver.engine.subscribe("all", "S//a->x")
        push(driver, document("d1", 1))
        with pytest.raises(ClusterError, match="no other executor took the cells 1"):
            driver.drain(socket.gethostname())
        push(driver, document("d2", 2))
        assert len(delivered(driver.engine)["all"]) == 2


# -- What is refused -------------------------------------------------------------------------


def test_what_cannot_be_split_is_refused() -> None:
    with cluster(2, lambda one: int(one.name == "lonely")) as driver:
        with pytest.raises(ClusterError, match="it has no subscriptions"):
            driver.split(0)
        driver.engine.subscribe("lonely", JOIN)
        for name in ("a", "b"):
            driver.engine.subscribe(name, JOIN)
        with pytest.raises(ClusterError, match="there is no cell 7"):
            driver.split(7)
        with pytest.raises(ClusterError, match="it has one subscription"):
            driver.split(1)
        with pytest.raises(ClusterError, match="have one definition"):
            driver.split(0)
        with driver._is_resizing, pytest.raises(ClusterError, match="are being changed"):
            driver.split(0)
        assert driver.cells == (0, 1)


def test_halves_keep_definitions_and_constants_together() -> None:
    def query(channel: int, window: int) -> str:
        return f'S//a[b="c{channel}"]->x FOLLOWED BY{{x=y, {window}}} S//a->y'

    many = [subscription(f"s{n}", query(n % 10, n // 20)) for n in range(200)]
    moved = halved(many)
    assert 80 <= len(moved) <= 120
    marks = Counter(one.query.split('"')[1] for one in moved)
    assert set(marks.values()) == {20}, "a constant is in one half"
    one_constant = [subscription(f"s{n}", query(1, n // 2)) for n in range(20)]
    equal = Counter(one.query for one in halved(one_constant))
    assert set(equal.values()) == {2}
    assert len(equal) == 5


def test_what_cannot_move_is_refused() -> None:
    with cluster(2) as driver:
        with pytest.raises(ClusterError, match="cell 0 has not run yet"):
            driver.move(0)
        with pytest.raises(ClusterError, match="no cell is on 'nowhere'"):
            driver.drain("nowhere")
        with pytest.raises(ClusterError, match="there is no cell 2"):
            driver.move(2)


def test_what_cannot_be_merged_is_refused() -> None:
    """A cell cannot have the state that others had of documents that are not kept."""
    with cluster(2, lambda one: int(one.name != "first")) as driver:
        for name in QUERIES:
            driver.engine.subscribe(name, QUERIES[name])
        push(driver, document("d1", 1))
        for cells, said in (
            ((0, 7), "there is no cell 7"),
            ((7, 0), "there is no cell 7"),
            ((0, 0), "is merged into another one"),
        ):
            with pytest.raises(ClusterError, match=said):
                driver.merge(*cells)
        driver.engine.unsubscribe("reader")
        driver.engine.edit("absent", QUERIES["absent"], paused=True)
        with pytest.raises(ClusterError, match="'absent' cannot move to another cell: it is paus"):
            driver.merge(0, 1)
        driver.engine.edit("absent", QUERIES["absent"], paused=False)
        driver.engine.host.transactions.store.fetch("DELETE FROM state.text")
        with pytest.raises(ClusterError, match="documents that it depends on are not kept"):
            driver.merge(0, 1)
        assert driver.cells == (0, 1)


def test_a_merged_cell_leaves_nothing(expected: object) -> None:
    cells = MovingCells()
    with with_moving(cells) as driver:
        driver._catalog.choose = lambda one: int(one.name in ("pairs", "absent", "next"))
        for name, query in QUERIES.items():
            driver.engine.subscribe(name, query)
        for number in range(1, 15):
            push(driver, batch(number))
            if number == 7:
                driver.merge(0, 1)
                assert cells._hosts[1]._engine is None
                assert not driver._shared.snapshots(1)
                assert driver.cells == (0,)
                cells.close()
        assert delivered(driver.engine) == expected
        assert [one.subscriptions for one in driver.cells_now()] == [len(QUERIES)]
        assert driver.split(0) == 2, "a number is used once"
