"""The grid by example: what is eligible, routes, answers, restored cells, edits, publishers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

import xscl
from tests.examples import usually
from tests.xscl.cluster import test_exactly_once as once
from tests.xscl.cluster.histories import cluster, delivered
from tests.xscl.cluster.test_grid_values import PUBLISHING, SLICED, SPREAD
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.cell_task import CellAnswer, CellTask
from xscl.cluster.designated_joins import Designated, Equality, equalities
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.grid import Grid, share_of
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments
from xscl.cluster.shared_directory import CellsStay, ClusterError, SharedDirectory
from xscl.documents.results import Subscription
from xscl.documents.retention import SERVICE
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

JOIN = "S//a->x FOLLOWED BY{x=y, 100} S//a->y"
ONE, OTHER = "u", "w"
"""Values of two cells of a group."""


def document(number: int, *values: str, stream: str = "S") -> xscl.Document:
    leaves = "".join(f"<a>{value}</a>" for value in values)
    return xscl.Document(stream, f"d{number}", number, f"<r>{leaves}</r>".encode())


Push = Callable[[xscl.Document], object]
Steps = Callable[[xscl.Engine, Push], None]


def consumed(driver: ClusterDriver) -> Push:
    def push(one: xscl.Document) -> None:
        number = 1 + (driver.engine.consumed(DIRECT) or 0)
        driver.consume([one], BatchKey(DIRECT, number, number))

    return push


def assert_same(steps: Steps) -> tuple[int, set[int]]:
    """Compare the matches after some steps; return their number, and where subscriptions are."""
    with cluster(1, groups=1, width=2) as driver, xscl.Engine() as engine:
        steps(driver.engine, consumed(driver))
        steps(engine, engine.push)
        driver.flush()
        engine.flush()
        found = delivered(driver.engine)
        assert found == delivered(engine)
        rows = driver.engine.host.transactions.store.fetch("SELECT cell FROM state.cluster_member")
        return sum(map(len, found.values())), {cell for (cell,) in rows}


def test_values_hash_to_the_same_cells_everywhere() -> None:
    assert [share_of(one, 2) for one in (ONE, OTHER)] == [0, 1]
    assert [share_of(one, 5) for one in ("", "é", "http://a/1")] == [0, 3, 4]


def test_only_joins_whose_documents_share_a_value_are_eligible() -> None:
    with xscl.Engine(role=Role.DRIVER) as engine:
        for number, query in enumerate((*SPREAD, *SLICED, *PUBLISHING, "S//a->x")):
            engine.subscribe(f"q{number}", query)
        registry = engine.host.state.registry
        some = [one.query for one in engine.subscriptions if equalities(registry, one)]
    assert some == list(SPREAD)


def test_joins_of_nodes_with_the_same_definitions_are_not_designated() -> None:
    """Which of two such joins is which may differ between engines."""
    query = "S//e[./a->x][./a->u] FOLLOWED BY{x=y AND u=v} S//e[./a->y][./a->v]"
    with xscl.Engine(role=Role.DRIVER) as engine:
        engine.subscribe("twice", query)
        (one,) = engine.subscriptions
        assert equalities(engine.host.state.registry, one) == []


def test_the_rarest_join_of_kept_documents_is_designated() -> None:
    query = "S//e[./kind->k][./title->t] FOLLOWED BY{k=l AND t=u, 100} S//e[./kind->l][./title->u]"
    with cluster(1, groups=1, width=2) as driver:
        driver.engine.subscribe("all", "S//e->x FOLLOWED BY{x=y, 100} S//e->y")
        push = consumed(driver)
        for number in range(1, 9):
            xml = f"<r><e><kind>news</kind><title>t{number}</title></e></r>".encode()
            push(xscl.Document("S", f"d{number}", number, xml))
        driver.engine.subscribe("rare", query)
        push(document(9))
        rows = driver.engine.host.transactions.store.fetch(
            "SELECT first FROM state.cluster_designated WHERE key = 'rare'"
        )
    assert rows == [("S//e/title",)]


def test_a_document_goes_to_the_cells_of_its_values_and_to_no_others(tmp_path: Path) -> None:
    shared, cells = SharedDirectory(tmp_path / "shared"), LocalCells(in_memory=True)
    with xscl.Engine(role=Role.DRIVER) as engine:
        driver = ClusterDriver(engine, shared, 1, cells, groups=1, width=2)
        engine.subscribe("join", "S//a[.!='x']->x FOLLOWED BY{x=y, 9} R//a->y")
        batch = [
            document(1, ONE),
            document(2, OTHER, ONE),
            document(3),
            document(4, ONE, stream="R"),
        ]
        driver.consume(batch, BatchKey(DIRECT, 1, 1))
        entry = SealedLog(shared).read(2)
    cells.close()
    assert isinstance(entry, SequencedDocuments)
    assert [list(one) for one in entry.routes] == [[1], [1, 2], [], [1]]
    assert entry.on(frozenset(), 2).documents.ids == ["d2"]
    assert entry.on(frozenset("R"), 2).documents.ids == ["d2", "d4"]
    assert entry.on(frozenset("R"), 2).skipping({2}).routes == [[1]]


class Counting(LocalCells):
    """Cells whose results are counted, each by its documents and nodes."""

    def __init__(self) -> None:
        super().__init__(in_memory=True)
        self.found = Counter[object]()

    def run(self, shared: Path, tasks: list[CellTask]) -> list[CellAnswer]:
        answers = super().run(shared, tasks)
        for one in answers:
            path = SharedDirectory(shared).results_of(one.cell, one.upto)
            table = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
            (rows,) = table["results"].to_pylist()
            self.found.update((row["doc1"], row["doc2"], *row["nodes"]) for row in rows)
        return answers


def test_each_result_is_answered_by_one_cell(tmp_path: Path) -> None:
    """Both documents are in both cells, where they meet with all their values."""
    cells = Counting()
    with xscl.Engine(role=Role.DRIVER) as engine:
        driver = ClusterDriver(
            engine, SharedDirectory(tmp_path / "shared"), 1, cells, groups=1, width=2
        )
        engine.subscribe("join", JOIN)
        push = consumed(driver)
        for number in range(1, 4):
            push(document(number, ONE, OTHER, ONE))
        found = engine.matches("join")
    cells.close()
    assert len(cells.found) == 3 * (2 * 2 + 1)
    assert set(cells.found.values()) == {1}
    assert len(found) > 0


def test_the_bound_is_one_of_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell has less than the bound, both have more."""
    monkeypatch.setattr(xscl, "Engine", partial(xscl.Engine, result_bound=5))

    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("join", JOIN)
        push(document(1, ONE, ONE, OTHER))
        push(document(2, OTHER, OTHER, ONE))
        push(document(3, ONE, OTHER))
        (one,) = to.subscriptions
        stopped = to.host.state.dataflow.subscribed.stopped(one)
        assert stopped is not None
        assert (stopped.documents, stopped.results) == (1, 5)

    assert assert_same(steps)[1] == {1}


def test_what_publishes_later_is_copied_to_all_cells_of_a_group() -> None:
    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("reader", "S//a->x FOLLOWED BY{x=y, 100} P//a->y")
        push(document(1, ONE, OTHER))
        to.subscribe("publisher", "SELECT <r><a>{x}</a></r> FROM R//a->x PUBLISH P")
        for number, value in enumerate((ONE, OTHER, ONE, "none"), 2):
            push(document(number, value, OTHER, stream="R"))

    assert assert_same(steps) == (11, {0, 1, 2})


def test_a_reader_of_what_is_published_lies_in_a_slice() -> None:
    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("publisher", "SELECT <r><a>{x}</a></r> FROM R//a->x PUBLISH P")
        to.subscribe("reader", "S//a->x FOLLOWED BY{x=y, 100} P//a->y")
        push(document(1, ONE, OTHER))
        push(document(2, OTHER, stream="R"))

    assert assert_same(steps) == (3, {0})


def test_edits_move_between_the_grid_and_a_slice() -> None:
    def steps(to: xscl.Engine, push: Push) -> None:
        to.subscribe("one", JOIN)
        push(document(1, ONE, OTHER))
        push(document(2, OTHER))
        to.edit("one", f"SELECT <m>{{x}}</m> FROM {JOIN}")
        push(document(3, OTHER))
        to.edit("one", "S//a->x NEXT{x=y} S//a->y")
        push(document(4, ONE))
        push(document(5, ONE))
        to.edit("one", "S//a->x JOIN{x=y, 50} S//a->y", paused=True)
        push(document(6, OTHER))
        to.edit("one", paused=False)
        push(document(7, OTHER))
        to.edit("one", updates=True)
        push(document(8, OTHER))
        push(document(9, OTHER))

    assert assert_same(steps)[0] > 5


def test_a_history_is_read_by_a_slice() -> None:
    def steps(to: xscl.Engine, push: Push) -> None:
        to.retain(SERVICE)
        push(document(1, ONE, OTHER))
        to.subscribe("older", JOIN, since=100)
        push(document(2, OTHER, ONE))

    assert assert_same(steps) == (2, {0})


# -- Exactly once ----------------------------------------------------------------------------


@contextmanager
def opened(folder: Path, cells: LocalCells) -> Iterator[ClusterDriver]:
    shared = SharedDirectory(folder / "shared")
    with xscl.Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
        yield ClusterDriver(engine, shared, 1, cells, snapshot_every=2, groups=1, width=2)


def test_cells_and_drivers_that_are_lost_are_made_again(tmp_path: Path) -> None:
    """From snapshots and the log, each time; answers are the same bytes."""

    def steps(to: xscl.Engine, push: Push, first: int) -> None:
        if first == 1:
            to.subscribe("join", JOIN)
            to.subscribe("next", "S//a->x NEXT{x=y} S//a->y")
        if first == 7:
            to.unsubscribe("next")
            to.subscribe("late", "S//a->x JOIN{x=y, 3} S//a->y")
        for number in range(first, first + 3):
            push(document(number, ONE, OTHER))

    for first in (1, 4, 7):
        cells = LocalCells()
        with opened(tmp_path, cells) as driver:
            steps(driver.engine, consumed(driver), first)
            found = delivered(driver.engine)
        cells.close()
    with xscl.Engine() as engine:
        for first in (1, 4, 7):
            steps(engine, engine.push, first)
        assert found == delivered(engine)
    snapshots = sorted((tmp_path / "shared" / "snapshots").glob("*.tar"))
    assert {path.name.partition("@")[0] for path in snapshots} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("point", "passage"),
    usually(
        [one for one in once.CASES if one[0] not in once.ONCE],  # nothing is split beside the grid
        *(("sequenced", 2), ("answered", 4)),
        several=True,
    ),
)
def test_a_crash_anywhere_changes_nothing_on_a_grid(
    point: str, passage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The history is that of slices, which have the same matches."""
    with once.scratch() as folder:
        cells = LocalCells(in_memory=True)
        expected = once.run(folder, cells)
        cells.close()
    monkeypatch.setattr(once, "opened", opened)
    came = once.crash_at(point, passage, monkeypatch)
    with once.scratch() as folder:
        cells = once.NewCells()
        found = once.run(folder, cells)
        cells.close()
    assert came()
    assert found == expected


TASKS = {
    "replayed": once.test_another_cell_gives_equal_bytes,
    "twice": once.test_the_same_task_twice_at_once_gives_equal_bytes,
    "ahead": once.test_a_cell_that_is_ahead_is_made_again,
}


@pytest.mark.parametrize("kind", usually(TASKS, "replayed"))
def test_cells_of_a_grid_answer_with_equal_bytes(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(once, "opened", opened)
    monkeypatch.setattr(once, "CELLS", 3)  # a slice and a group of two
    with once.undisturbed_run() as run, once.copied(run) as history:
        TASKS[kind](history)


def test_a_grid_stays_as_it_began(tmp_path: Path) -> None:
    cells = LocalCells(in_memory=True)
    shared = SharedDirectory(tmp_path / "shared")
    with xscl.Engine(role=Role.DRIVER) as engine:
        ClusterDriver(engine, shared, 1, cells, groups=1, width=2)
        with pytest.raises(ClusterError, match="1 cells and 1 groups of 2, not 3 cells"):
            ClusterDriver(engine, shared, 3, cells)


def test_slices_beside_a_grid_are_split_and_its_cells_are_not() -> None:
    """A cell that is split off comes after the groups, and gets subscriptions as slices do."""
    sliced = [f"S//a->x NOT FOLLOWED BY{{x=y, {n}}} S//a->y" for n in (2, 3, 4, 5)]

    def steps(to: xscl.Engine, push: Push, some: range, names: str) -> None:
        for name, query in zip(names, (JOIN, *sliced), strict=False):
            to.subscribe(name, query)
        for number in some:
            push(document(number, ONE, OTHER))

    with cluster(1, groups=1, width=2) as driver, xscl.Engine() as engine:
        for to, push in ((driver.engine, consumed(driver)), (engine, engine.push)):
            steps(to, push, range(1, 6), "abcde")
        for refused in (partial(driver.split, 1), partial(driver.merge, 0, 2)):
            with pytest.raises(CellsStay, match=r"cell \d is of a group of the grid"):
                refused()
        assert driver.split(0) == 3
        for to, push in ((driver.engine, consumed(driver)), (engine, engine.push)):
            steps(to, push, range(6, 12), "fghij")
        driver.flush()
        engine.flush()
        assert delivered(driver.engine) == delivered(engine)
        cells = [one.subscriptions for one in driver.cells_now()]
        assert cells[1:3] == [2, 2]
        assert cells[0] + cells[3] == 8
        assert min(cells) > 0


def test_a_group_is_chosen_by_the_driver_alone() -> None:
    """A cell takes the group from the registration, whatever it is."""
    seen: list[str] = []

    def designate(one: Subscription, among: Sequence[Equality]) -> Designated | None:
        seen.append(one.name)
        group = Grid(1, 2, 2).firsts[len(seen) % 2]
        return Designated(group, among[0].first, among[0].second)

    with cluster(1, None, designate, groups=2, width=2) as driver:
        for name in "ab":
            driver.engine.subscribe(name, JOIN)
        push = consumed(driver)
        push(document(1, ONE, OTHER))
        push(document(2, OTHER, ONE))
        found = delivered(driver.engine)
        assert [one.subscriptions for one in driver.cells_now()] == [0, 1, 1, 1, 1]
    assert seen == ["a", "b"]
    assert [row[0] for row in found["a"]] != [row[0] for row in found["b"]]
    assert len(found["a"]) == len(found["b"]) == 2
