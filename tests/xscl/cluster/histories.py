"""Drawn histories on a single engine and on cells, and what both deliver."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import xscl
from tests.oracle.queries import Case, Subscribe, Subscription, Unsubscribe
from tests.xscl.engine.player import batches, pushed
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.placement import Choose
from xscl.cluster.shared_directory import SharedDirectory
from xscl.store.consumed_offsets import DIRECT, BatchKey

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""The parent of temporary directories: a file system in memory, where `fsync` costs nothing."""

Delivered = dict[str, list[tuple[object, ...]]]
"""The matches of each subscription in their order: id, documents, times, output document."""


def no_edit(_: xscl.Engine | ClusterDriver) -> None:
    """Change nothing between batches."""


def by_single_engine(
    case: Case, cuts: Sequence[bool], edit: Callable[[xscl.Engine], None] = no_edit
) -> Delivered:
    """Return what an engine in memory delivers; `edit` is called after each batch."""
    found: Delivered = defaultdict(list)

    def deliver(matches: Sequence[xscl.Match]) -> None:
        for one in matches:
            row = one.id, list(one.documents), one.t0, one.t1, one.xml().decode()
            found[one.subscription].append(row)

    with xscl.Engine() as engine:
        for stream, lateness in case.lateness.items():
            engine.stream(stream, lateness=lateness)
        for item in batches(case.events, cuts):
            match item:
                case Subscribe(Subscription(name, query, updates)):
                    engine.subscribe(name, query.text(), updates=updates)
                case Unsubscribe(name):
                    engine.unsubscribe(name)
                case list():
                    deliver(engine.push([pushed(push.document) for push in item]))
                    edit(engine)
        deliver(engine.flush())
    return dict(found)


@contextmanager
def cluster(
    cells: int, choose: Choose | None = None, *, in_memory: bool = True
) -> Iterator[ClusterDriver]:
    """Yield a driver with cells in this process, over a directory that is removed afterwards."""
    runner = LocalCells(in_memory=in_memory)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        shared = SharedDirectory(Path(folder) / "shared")
        try:
            with ClusterDriver(None, shared, cells, runner, choose=choose) as driver:
                yield driver
        finally:
            runner.close()


def by_cells(
    case: Case,
    cuts: Sequence[bool],
    cells: int,
    choose: Choose,
    after_batch: Callable[[ClusterDriver], None] = no_edit,
) -> Delivered:
    """Return what cells deliver together."""
    with cluster(cells, choose) as driver:
        play(driver, case, cuts, after_batch)
        return delivered(driver)


def play(
    driver: ClusterDriver,
    case: Case,
    cuts: Sequence[bool],
    after_batch: Callable[[ClusterDriver], None] = no_edit,
) -> None:
    """Pass a history to a driver, to its end."""
    numbers = count(1)
    for stream, lateness in case.lateness.items():
        driver.stream(stream, lateness=lateness)
    for item in batches(case.events, cuts):
        match item:
            case Subscribe(Subscription(name, query, updates)):
                driver.subscribe(name, query.text(), updates=updates)
            case Unsubscribe(name):
                driver.unsubscribe(name)
            case list():
                number = next(numbers)
                documents = [pushed(push.document) for push in item]
                driver.consume(documents, BatchKey(DIRECT, number, number))
                after_batch(driver)
    driver.flush()


def delivered(driver: ClusterDriver) -> Delivered:
    """Return the committed matches."""
    found: Delivered = defaultdict(list)
    for row in driver.matches.after().to_pylist():
        t0, t1 = (_ticks(row[name]) for name in ("t0", "t1"))
        found[row["subscription"]].append((row["id"], row["documents"], t0, t1, row["xml"]))
    return dict(found)


def _ticks(time: object) -> int:
    assert isinstance(time, datetime)
    return (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
