"""`cluster`: what it costs to spread subscriptions over cells.

Two cores cannot show the rate of a cluster.  So one log is sequenced, and each cell of it runs
alone; the rate of the whole is predicted from them.  The work factor compares the sum of four cells
with one cell that has all subscriptions.  The matches of both are compared.  A group of the grid
gets batches so large that each of its cells has as many documents a batch as one cell with all
values; the cost of a document there is compared with that of this one.  Then a cell
is made again from a snapshot and entries after it, and jobs of Spark are timed whose answers are
stored.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa

import xscl
from benchmarks.feed_items import items, wishes
from benchmarks.harness import Benchmark, Options, Row, Value, log_log, require_equal
from feeds.documents import Document
from xscl.cluster import catalog_log
from xscl.cluster.catalog_log import CatalogLog
from xscl.cluster.cell_host import CellHost
from xscl.cluster.cell_task import CellTask
from xscl.cluster.grid import Grid
from xscl.cluster.grid_subscriptions import GridSubscriptions
from xscl.cluster.placement import Choose, Placement
from xscl.cluster.sealed_log import SealedLog, SequencedDocuments
from xscl.cluster.sequencer import Sequencer
from xscl.cluster.shared_directory import SharedDirectory
from xscl.documents.results import Subscription
from xscl.engine.state import Role
from xscl.store.consumed_offsets import DIRECT, BatchKey

NAME = "cluster"
SEED = 106
SLICES = 4
WINDOW = "1 d"
MASTER = "local-cluster[2,1,1024]"


@dataclass(frozen=True, slots=True)
class Plan:
    """Subscriptions of workload (b), and items in batches; the first quarter is not measured."""

    subscriptions: int
    items: int
    batch: int


QUICK, FULL = Plan(2_000, 1_200, 300), Plan(20_000, 8_000, 2_000)
AGES = (1, 4)
"""Batches from a snapshot to the loss of its cell."""
TASKS_QUICK, TASKS = (2, 4), (2, 4, 16, 64)
JOBS = 15
WARM = 60
"""Jobs before the first that is timed: those of a new Java process take up to twice as long."""
GROUPS, WIDTH = 2, 4


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor time of one cell for each measured item of the log, and the bytes of its files.

    `documents` is the number of those items that the cell has read.
    """

    cpu_us_per_item: float
    bytes_in: int
    bytes_out: int
    documents: int
    items: int


def run(options: Options) -> Iterator[Row]:
    """Yield the costs of slices by placement, then those of recovery and of jobs."""
    plan = QUICK if options.quick else FULL
    for placement in ("constant", "random"):
        yield from sliced(plan, placement)
    yield from spread(plan)
    yield from recovered(plan)
    yield from jobs(TASKS_QUICK if options.quick else TASKS)


# -- Slices --------------------------------------------------------------------------------


def sliced(plan: Plan, placement: str) -> Iterator[Row]:
    """Yield the cost of each slice, and of the whole."""
    parameters: dict[str, Value] = {
        **{"subscriptions": plan.subscriptions, "V": 1, "placement": placement},
        **{"batch": plan.batch, "batches": "global", "storage": "memory"},
    }
    with tempfile.TemporaryDirectory() as folder:
        one, several = Path(folder) / "one", Path(folder) / "several"
        _sequence(one, plan, lambda _: 0)
        sequencer = _sequence(several, plan, _placement(placement))
        single, found = _alone(one, plan, 0)
        costs, matches = [], list[tuple[str, str]]()
        for cell in range(SLICES):
            cost, some = _alone(several, plan, cell)
            costs.append(cost)
            matches += some
            figures = {"bytes_in": cost.bytes_in, "bytes_out": cost.bytes_out}
            yield Row(
                NAME,
                {"scope": "cell", "cell": cell, "slices": SLICES, **parameters},
                {"cpu_us_per_item": cost.cpu_us_per_item, **figures},
            )
    matched = require_equal(matches, found, f"{SLICES} cells by {placement}")
    total = sum(cost.cpu_us_per_item for cost in costs)
    heaviest = max(cost.cpu_us_per_item for cost in costs)
    yield Row(
        NAME,
        {"scope": "whole", "slices": SLICES, **parameters},
        {
            "single_us_per_item": single.cpu_us_per_item,
            "work_factor": total / single.cpu_us_per_item,
            "balance": heaviest * SLICES / total,
            "predicted_items_per_s": 1e6 / heaviest,
            "sequencer_us_per_item": sequencer,
            "matches": matched,
        },
    )


def _placement(placement: str) -> Choose:
    if placement == "constant":
        return Placement(range(SLICES))
    source = random.Random(SEED)

    def choose(_: Subscription) -> int:
        return source.randrange(SLICES)

    return choose


def _documents(plan: Plan) -> list[list[Document]]:
    found = [item.document() for item in items(plan.items, SEED)]
    return [found[start : start + plan.batch] for start in range(0, plan.items, plan.batch)]


def spread(plan: Plan) -> Iterator[Row]:
    """Yield the cost of each group of the grid, by its V, with equal batches in each cell."""
    before: dict[int, float] = {}
    for width in (1, WIDTH):
        grid = Grid(1, GROUPS, width)
        batch = round(plan.batch * width / _copies(plan, grid))
        larger = replace(plan, batch=batch, items=batch * (plan.items // plan.batch))
        single, found = _whole(larger)
        with tempfile.TemporaryDirectory() as folder:
            sequencer = _sequence(Path(folder), larger, lambda _: 0, grid)
            cells = [_alone(Path(folder), larger, cell) for cell in range(grid.cells)]
        matched = require_equal([one for _, some in cells for one in some], found, "a grid")
        sliced = cells[0][0].documents
        total = sum(cost.cpu_us_per_item for cost, _ in cells)
        for group, first in enumerate(grid.firsts):
            here = [cost for cost, _ in cells[first : first + width]]
            read = sum(cost.documents for cost in here)
            spent = sum(cost.cpu_us_per_item * cost.items for cost in here)
            each = spent / max(1, read)
            before.setdefault(group, each)
            yield Row(
                NAME,
                {
                    **{"scope": "group", "group": group, "groups": GROUPS, "V": width},
                    **{"subscriptions": plan.subscriptions, "batch": larger.batch},
                    **{"batches": "per cell", "storage": "memory", "sliced": sliced},
                },
                {
                    "cpu_us_per_document": each,
                    "over_one_cell": each / before[group],
                    "copies": read / here[0].items,
                    "balance": max(c.documents for c in here) * width / max(1, read),
                    "work_factor": total / single.cpu_us_per_item,
                    "sequencer_us_per_item": sequencer,
                    "matches": matched,
                },
            )


def _copies(plan: Plan, grid: Grid) -> float:
    """Return the number of cells of a group to which an item goes on average."""
    with tempfile.TemporaryDirectory() as folder:
        _sequence(Path(folder), plan, lambda _: 0, grid)
        log = SealedLog(SharedDirectory(Path(folder)))
        entries = [log.read(2 + number) for number, _ in enumerate(_documents(plan))]
    documents = (one for one in entries if isinstance(one, SequencedDocuments))
    return sum(len(cells) for one in documents for cells in one.routes) / plan.items / grid.groups


def _whole(plan: Plan) -> tuple[Cost, list[tuple[str, str]]]:
    """Return the cost and the matches of one cell with all subscriptions."""
    with tempfile.TemporaryDirectory() as folder:
        _sequence(Path(folder), plan, lambda _: 0)
        return _alone(Path(folder), plan, 0)


def _sequence(shared: Path, plan: Plan, choose: Choose, grid: Grid | None = None) -> float:
    """Write a log of registrations and documents; return the microseconds of CPU an item."""
    directory = SharedDirectory(shared)
    directory.create()
    directory.begin_epoch(1)
    log = SealedLog(directory)
    with xscl.Engine(role=Role.DRIVER) as engine:
        with engine.host.transactions.change() as state:
            state.store.connection.execute(catalog_log.SCHEMA)
        wanted = wishes("b", plan.subscriptions, SEED)
        engine.subscribe_many((f"s{n}", wish.query(WINDOW)) for n, wish in enumerate(wanted))
        some = None if grid is None else GridSubscriptions(grid, engine.host)
        CatalogLog(engine, log, choose, some).append_changes()
        sequencer = Sequencer(engine.host, log, None if some is None else some.router)
        batches = _documents(plan)
        began = time.process_time()
        for number, batch in enumerate(batches, 1):
            sequencer.append(batch, BatchKey(DIRECT, number, number))
        return 1e6 * (time.process_time() - began) / plan.items


def _alone(shared: Path, plan: Plan, cell: int) -> tuple[Cost, list[tuple[str, str]]]:
    """Return the cost of a cell, which runs by itself, and its matches."""
    directory = SharedDirectory(shared)
    batches = len(_documents(plan))
    measured, spent, read, written, documents = 0, 0.0, 0, 0, 0
    found: list[tuple[str, str]] = []
    host = CellHost(shared, cell, in_memory=True)
    host.run(CellTask(cell, 0, 1, 1))
    for entry in range(2, batches + 2):
        began = time.process_time()
        answer = host.run(CellTask(cell, entry - 1, entry, 1))
        path = directory.results_of(cell, entry)
        if entry - 2 >= batches // 4:
            spent += time.process_time() - began
            measured += plan.batch
            documents += 0 if answer.load is None else answer.load.documents
            read += (shared / "sealed" / f"{entry:020d}.arrow").stat().st_size
            written += path.stat().st_size
        found += _found(path)
    host.close()
    return Cost(1e6 * spent / measured, read, written, documents, measured), found


def _found(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the results of an answer, once for each subscription that has them."""
    (answer,) = pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all().to_pylist()
    readers = defaultdict(list)
    for one in answer["readers"]:
        readers[one["qid"]].append(one)
    for row in answer["results"]:
        for one in readers[row["qid"]]:
            bound = sorted(zip(one["outputs"], row["nodes"], strict=True))
            yield one["key"], f"{row['doc1']} {row['doc2']} {bound}"


# -- Recovery and jobs ---------------------------------------------------------------------


def recovered(plan: Plan) -> Iterator[Row]:
    """Yield how long a cell takes to be made again, by the age of its snapshot in batches."""
    with tempfile.TemporaryDirectory() as folder:
        shared = Path(folder)
        _sequence(shared, plan, Placement(range(SLICES)))
        last = len(_documents(plan)) + 1
        for age in (age for age in AGES if age < last):
            host = CellHost(shared, 0)
            host.run(CellTask(0, 0, last - age, 1))
            host.run(CellTask(0, last - age, last, 1, snapshot=True))
            host.close()
            SharedDirectory(shared).results_of(0, last).unlink()
            other = CellHost(shared, 0)
            seconds = _seconds(partial(other.run, CellTask(0, last - 1, last, 1)))
            other.close()
            for path in (shared / "snapshots").iterdir():
                path.unlink()
            for path in (shared / "results").rglob("*.arrow"):
                path.unlink()
            yield Row(
                NAME,
                {
                    **{"scope": "recovery", "subscriptions": plan.subscriptions // SLICES},
                    **{"snapshot_age": age, "batch": plan.batch, "storage": "file"},
                },
                {"recovery_s": seconds},
            )


def jobs(tasks: Sequence[int]) -> Iterator[Row]:
    """Yield the time of a job of Spark above its tasks, whose answers are stored."""
    from xscl.cluster.spark_cells import SparkCells
    from xscl.ingestion.spark.spark_session import start_session

    with tempfile.TemporaryDirectory() as folder:
        shared = SharedDirectory(Path(folder) / "shared")
        shared.create()
        shared.begin_epoch(1)
        SealedLog(shared).write(1, ())
        session = start_session(Path(folder) / "session", MASTER)
        early = SparkCells(session.sparkContext)
        for _ in range(WARM):
            early.run(shared.path, [CellTask(cell, 0, 1, 1) for cell in range(tasks[0])])
        for count in tasks:
            cells = SparkCells(session.sparkContext)
            asked = [CellTask(cell, 0, 1, 1) for cell in range(count)]
            cells.run(shared.path, asked)  # the answers are stored, and Python is started
            job = partial(cells.run, shared.path, asked)
            times = sorted(_seconds(job) for _ in range(JOBS))
            yield Row(
                NAME,
                {"scope": "job", "tasks": count},
                {"overhead_ms": 1e3 * times[JOBS // 2]},
            )
        session.stop()


def _seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def plot(rows: Sequence[Row], path: Path) -> None:
    """Write a picture: the overhead of a job by its number of tasks."""
    points = [
        (float(str(row.parameters["tasks"])), float(str(row.figures["overhead_ms"])))
        for row in rows
        if row.parameters["scope"] == "job"
    ]
    log_log(path, [("a job of Spark", "tasks", {"overhead": points})], "ms")


BENCHMARK = Benchmark(NAME, "subscriptions spread over cells", run, plot)
