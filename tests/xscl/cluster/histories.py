"""Drawn histories on a single engine and on cells, and what both deliver."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import xscl
from tests.oracle.queries import Case, Subscribe, Subscription, Unsubscribe
from tests.xscl.engine.player import batches, pushed
from xscl.cluster.cell_host import LocalCells
from xscl.cluster.designated_joins import Designate
from xscl.cluster.driver import ClusterDriver
from xscl.cluster.placement import Choose
from xscl.cluster.shared_directory import SharedDirectory
from xscl.documents.retention import SERVICE
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""The parent of temporary directories: a file system in memory, where `fsync` costs nothing."""

Delivered = dict[str, list[tuple[object, ...]]]
"""The matches of each subscription in their order: id, documents, times, output document."""


def no_edit(_: xscl.Engine) -> None:
    """Change nothing between batches."""


def delivered(engine: xscl.Engine) -> Delivered:
    """Return the matches that an engine has, also those of removed subscriptions."""
    found: Delivered = defaultdict(list)
    for one in engine.matches():
        row = one.id, list(one.documents), one.t0, one.t1, one.xml().decode()
        found[one.subscription].append(row)
    return dict(found)


def by_single_engine(
    case: Case,
    cuts: Sequence[bool],
    edit: Callable[[xscl.Engine], None] = no_edit,
    since: int | None = None,
) -> Delivered:
    """Return the matches of an engine in memory; `edit` is called after each batch.

    Subscriptions begin `since` ticks before the clock, None for now.
    """
    with xscl.Engine() as engine:
        if since is not None:
            engine.retain(SERVICE)  # as a driver does
        for stream, lateness in case.lateness.items():
            engine.stream(stream, lateness=lateness)
        for item in batches(case.events, cuts):
            match item:
                case Subscribe(Subscription(name, query, updates)):
                    engine.subscribe(name, query.text(), updates=updates, since=since)
                case Unsubscribe(name):
                    engine.unsubscribe(name)
                case list():
                    engine.push([pushed(push.document) for push in item])
                    edit(engine)
        engine.flush()
        return delivered(engine)


@contextmanager
def cluster(
    cells: int,
    choose: Choose | None = None,
    designate: Designate | None = None,
    *,
    groups: int = 0,
    width: int = 0,
    in_memory: bool = True,
) -> Iterator[ClusterDriver]:
    """Yield a driver with cells in this process, over a directory that is removed afterwards."""
    runner = LocalCells(in_memory=in_memory)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        shared = SharedDirectory(Path(folder) / "shared")
        try:
            with xscl.Engine(role=Role.DRIVER) as engine:
                yield ClusterDriver(
                    *(engine, shared, cells, runner),
                    choose=choose,
                    designate=designate,
                    groups=groups,
                    width=width,
                )
        finally:
            runner.close()


def by_cells(
    case: Case,
    cuts: Sequence[bool],
    cells: int,
    choose: Choose,
    after_batch: Callable[[xscl.Engine], None] = no_edit,
    since: int | None = None,
) -> Delivered:
    """Return the matches of all cells together."""
    with cluster(cells, choose) as driver:
        play(driver, case, cuts, after_batch, since)
        return delivered(driver.engine)


def play(
    driver: ClusterDriver,
    case: Case,
    cuts: Sequence[bool],
    after_batch: Callable[[xscl.Engine], None] = no_edit,
    since: int | None = None,
) -> None:
    """Pass a history to a driver, to its end."""
    numbers = count(1)
    for stream, lateness in case.lateness.items():
        driver.engine.stream(stream, lateness=lateness)
    for item in batches(case.events, cuts):
        match item:
            case Subscribe(Subscription(name, query, updates)):
                driver.engine.subscribe(name, query.text(), updates=updates, since=since)
            case Unsubscribe(name):
                driver.engine.unsubscribe(name)
            case list():
                number = next(numbers)
                documents = [pushed(push.document) for push in item]
                driver.consume(documents, BatchKey(DIRECT, number, number))
                after_batch(driver.engine)
    driver.flush()
