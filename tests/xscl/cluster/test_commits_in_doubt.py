"""Commits of the driver that take effect and raise: its memory is that of the store afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import xscl
from tests.examples import usually
from tests.waiting import eventually
from tests.xscl.cluster import test_exactly_once as once
from tests.xscl.cluster.histories import Delivered, delivered
from tests.xscl.cluster.test_cells import document, push
from tests.xscl.cluster.test_relations import kept
from tests.xscl.failing_commits import in_doubt
from xscl.cluster.cell_assignment import CellAssignment
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.driver import COMMITTED, ClusterDriver
from xscl.cluster.shared_directory import SharedDirectory
from xscl.engine.state import Role
from xscl.errors import StoreError

QUERY = "S//a[.='{}']"


@contextmanager
def opened(groups: int = 0) -> Iterator[ClusterDriver]:
    cells = LocalCells()
    with once.scratch() as folder:
        shared = SharedDirectory(folder / "shared")
        with xscl.Engine(folder / "state.duckdb", role=Role.DRIVER) as engine:
            yield ClusterDriver(
                *(engine, shared, once.CELLS, cells),
                snapshot_every=2,
                groups=groups,
                width=2 * groups,
            )
        cells.close()


def leave_in_doubt(patch: pytest.MonkeyPatch, owner: type, method: str) -> None:
    """Make the first commit within a method take effect and raise."""
    real = getattr(owner, method)

    def called(*given: Any) -> object:
        with in_doubt():
            return real(*given)

    patch.setattr(owner, method, called)


def matched(driver: ClusterDriver) -> list[tuple[str, ...]]:
    return sorted((one.subscription, *one.documents) for one in driver.engine.matches())


def test_documents_are_routed_to_a_new_subscription_of_the_grid() -> None:
    with opened(groups=1) as driver:
        driver.engine.subscribe("pairs", once.JOIN)
        with in_doubt(), pytest.raises(StoreError):
            driver._append_changes()
        push(driver, document("d1", 1))
        push(driver, document("d2", 2))
        assert matched(driver) == [("pairs", "d1", "d2")]


def test_a_new_cell_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as driver:
        driver._catalog.choose = lambda _: 0
        for value in "uvwx":
            driver.engine.subscribe(value, QUERY.format(value))
        push(driver, document("d1", 1, "u"))
        with monkeypatch.context() as patch:
            leave_in_doubt(patch, CellAssignment, "split")
            with pytest.raises(StoreError):
                driver.split(0)
        for number, value in enumerate("uvwx", 2):
            push(driver, document(f"d{number}", number, value))
        assert driver.cells == (0, 1, 2)
        assert [one.subscriptions for one in driver.cells_now()] == [2, 0, 2]
        assert matched(driver) == [("u", "d1"), ("u", "d2"), ("v", "d3"), ("w", "d4"), ("x", "d5")]


def test_a_merged_cell_gets_no_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as driver:
        for value in "uvwx":
            driver.engine.subscribe(value, QUERY.format(value))
        push(driver, document("d1", 1, "u"))
        with monkeypatch.context() as patch:
            leave_in_doubt(patch, CellAssignment, "merge")
            with pytest.raises(StoreError):
                driver.merge(0, 1)
        for value in "abcd":
            driver.engine.subscribe(value, QUERY.format(value))
        for number, value in enumerate("uvwxabcd", 2):
            push(driver, document(f"d{number}", number, value))
        assert driver.cells == (0,)
        assert len(matched(driver)) == 9


def test_the_relations_are_those_of_the_last_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as driver:
        driver.engine.subscribe("pairs", once.JOIN)
        push(driver, document("d1", 1))
        assert kept(driver) == ["d1"]
        with monkeypatch.context() as patch:
            leave_in_doubt(patch, ClusterDriver, "_commit")
            with pytest.raises(StoreError):
                push(driver, document("d2", 2))
        driver.commit()
        assert kept(driver) == ["d1", "d2"]
        assert {one.entry for one in driver.cells_now()} == {driver._meta(COMMITTED)}


def test_all_texts_are_kept_until_the_cells_say_what_they_need() -> None:
    """The history of a subscription that was appended may need older ones."""
    with opened() as driver:
        driver.engine.subscribe("pairs", once.JOIN)
        for number in range(1, 7):
            push(driver, document(f"d{number}", number))
        assert driver._loads.needed_from(driver.cells) is not None
        driver.engine.subscribe("more", once.JOIN)
        with in_doubt(), pytest.raises(StoreError):
            driver._append_changes()
        assert driver._loads.needed_from(driver.cells) is None


# -- Anywhere in a history ---------------------------------------------------------------------


def played(driver: ClusterDriver) -> Delivered:
    """Return the matches of a history; a step that fails is repeated.

    A history that was registered all the same is completed, as a service does.
    """
    done = 0
    while done < len(once.HISTORY):
        try:
            once.HISTORY[done](driver)
        except StoreError:
            eventually(lambda: not driver.engine.host.transactions.store.is_lost)
            for number in list(driver.engine.host.state.subscriptions.backfills):
                driver.engine.host.catalog.backfills.complete(number)
        else:
            done += 1
    return delivered(driver.engine)


CASES = [(groups, number) for groups in (0, 1) for number in (8, 24, 33, 40, 56, 72, 88)]


@pytest.mark.parametrize(("groups", "number"), usually(CASES, (1, 8), several=True))
def test_a_commit_in_doubt_anywhere_changes_nothing(groups: int, number: int) -> None:
    with opened(groups) as driver:
        expected = played(driver)
    with opened(groups) as driver, in_doubt(number) as came:
        assert played(driver) == expected
        assert came()
