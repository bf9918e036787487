"""`xscl cluster`: how subscriptions lie in cells, how these are doing, and changes of the cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, TypeAlias

import typer

from xscl.cli.feed_rows import Row
from xscl.cli.options import Call, command_group
from xscl.cli.output import UsageError, answer, list_rows, table, warn
from xscl.cli.service import client_of, opened
from xscl.cli.status import figures_of_running
from xscl.cluster.cell_task import CellState
from xscl.cluster.designated_joins import Designation, equalities
from xscl.cluster.grid import Grid
from xscl.cluster.placement import Placement, needed_copies
from xscl.documents.results import XSCL, Subscription
from xscl.engine.facade import Engine
from xscl.engine.state import Role

HOT = 1.5
"""The share of a cell, as a multiple of the mean, from which `status` names it."""

Cell: TypeAlias = Annotated[
    int, typer.Argument(metavar="CELL", help="Number of a cell, as 'xscl cluster status' shows it.")
]

app = command_group("Cells of a cluster: engines on executors of Spark.")


@app.callback()
def cluster() -> None:
    """Cells of a cluster: engines on executors of Spark."""


@app.command()
def plan(
    call: Call,
    cells: Annotated[
        int, typer.Option("--cells", help="The number of cells.", min=1, max=1_024)
    ] = 4,
    width: Annotated[
        int | None,
        typer.Option("--grid", help="The cells of each group of a grid.", min=2, max=256),
    ] = None,
    groups: Annotated[
        int, typer.Option("--groups", help="The groups of the grid.", min=1, max=256)
    ] = 1,
) -> None:
    """Show how the present subscriptions would lie in cells, before there is a cluster.

    Subscriptions with a common constant, such as a channel or a keyword, lie together. A publisher
    is copied to the cells of its readers. With --grid, joins by equality lie in groups of cells,
    each of which has all subscriptions of its group and the documents with some of the values.

    \b
    Example:
      xscl cluster plan --cells 16
      xscl cluster plan --cells 4 --groups 2 --grid 8
    """
    with opened("cluster plan", call) as service:
        found = service.subscriptions()
    grid = Grid(cells) if width is None else Grid(cells, groups, width)
    rows = _planned(found, grid)
    heaviest = max(one["subscriptions"] + one["copies"] for one in rows)
    mean = sum(one["subscriptions"] for one in rows) / grid.cells
    columns = ("cell", *(("group",) if width else ()), "subscriptions", "copies")
    lines = table(columns, [[one.get(column, "") for column in columns] for one in rows])
    note = f"the fullest cell has {heaviest / mean:.2f} times the mean" if found else "no queries"
    answer({"cells": rows}, [*lines, note], as_json=call.as_json)


def _planned(found: Sequence[Row], grid: Grid) -> list[dict[str, int]]:
    place, placed, known = Placement(range(grid.slices)), dict[str, int](), list[Subscription]()
    groups = _in_groups(found, grid) if grid.groups else {}
    for number, row in enumerate(found, 1):
        name = str(row["name"])
        one = Subscription(
            *(number, name, str(row["query"]), 0, 0, (), 0),
            publish=row["publishes"],
            reads=tuple(row["reads"]),
            key=name,
        )
        known.append(one)
        placed[name] = groups[name] if name in groups else place(one)
    counts = Counter(cell for first in placed.values() for cell in grid.cells_of(first))
    needed = needed_copies(known, placed)
    copies = Counter(
        cell for some in needed.values() for first in some for cell in grid.cells_of(first)
    )
    return [
        {"cell": cell, **_group(cell, grid), "subscriptions": counts[cell], "copies": copies[cell]}
        for cell in range(grid.cells)
    ]


def _group(cell: int, grid: Grid) -> dict[str, int]:
    """Return the group of a cell of a grid, in a column of its own."""
    return {} if cell < grid.slices else {"group": (cell - grid.slices) // grid.width}


def _in_groups(found: Sequence[Row], grid: Grid) -> dict[str, int]:
    """Return the groups of those that may lie on the grid, by their first cells.

    Without documents no value join is known to be rare, so a cluster may designate others.
    """
    designate = Designation(grid, lambda pairs: [0.0] * len(pairs))
    published = {row["publishes"] for row in found if row["publishes"]}
    groups = {}
    with Engine(role=Role.DRIVER) as engine:
        plain = [row for row in found if row["language"] == XSCL and not row["publishes"]]
        engine.subscribe_many((str(row["name"]), str(row["query"])) for row in plain)
        for one in engine.subscriptions:
            if published.isdisjoint(one.reads):
                among = equalities(engine.host.state.registry, one)
                if (chosen := designate(one, among)) is not None:
                    groups[one.name] = chosen.cell
    return groups


@app.command()
def status(call: Call) -> None:
    """Show the cells of a running service: subscriptions, executor, load, memory, snapshot.

    \b
    Example:
      xscl cluster status --json
    """
    figures = figures_of_running(call)
    if figures is None:
        raise UsageError("no service runs", hint="start it with 'xscl serve --shared DIR'")
    cells = [CellState(**one) for one in figures.get("cells") or ()]
    if not cells:
        raise UsageError(
            "the service has no cells", hint="it evaluates itself; --shared makes it a cluster"
        )
    hottest = max(cells, key=lambda one: one.share)
    if not call.as_json and hottest.share * len(cells) >= HOT:
        warn(
            f"cell {hottest.cell} takes {hottest.share:.0%} of the time of {len(cells)} cells:"
            f" 'xscl cluster split {hottest.cell}' halves it"
        )
    list_rows(
        "cells",
        [asdict(one) for one in cells],
        ("cell", "subscriptions", "runs on", "process", "last task", "share", "memory", "snapshot"),
        [
            (
                *(one.cell, one.subscriptions, one.host or "not yet", one.process or ""),
                f"{one.seconds:.2f} s, {one.documents} documents",
                f"{one.share:.0%}",
                f"{one.memory / 1e6:.0f} MB",
                f"entry {one.snapshot} of {one.entry}",
            )
            for one in cells
        ],
        as_json=call.as_json,
    )


@app.command()
def split(call: Call, cell: Cell) -> None:
    """Move half of the subscriptions of a cell to a new one, while the service runs.

    Subscriptions with a common constant stay together. The next batch waits until the cell has
    written a snapshot.

    \b
    Example:
      xscl cluster split 3
    """
    found = _changed(call, "split", cell=cell)
    (new,) = found["changed"]
    answer(found, [f"cell {cell} is split: half of it is now cell {new}"], as_json=call.as_json)


@app.command()
def merge(
    call: Call,
    into: Annotated[int, typer.Argument(metavar="A", help="The cell that takes them.")],
    cell: Annotated[int, typer.Argument(metavar="B", help="The cell that ends.")],
) -> None:
    """Move all subscriptions of cell B to cell A, which reads the kept documents for them.

    It is refused if the state of a subscription depends on documents that are not kept, or if one
    is paused.

    \b
    Example:
      xscl cluster merge 0 3
    """
    found = _changed(call, "merge", into=into, cell=cell)
    answer(found, [f"cell {cell} is merged into cell {into}"], as_json=call.as_json)


@app.command()
def move(call: Call, cell: Cell) -> None:
    """Make a cell anew on another executor, from a snapshot of now.

    \b
    Example:
      xscl cluster move 3
    """
    found = _changed(call, "move", cell=cell)
    answer(found, [f"cell {cell} has moved"], as_json=call.as_json)


@app.command()
def drain(
    call: Call,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="A machine, as 'xscl cluster status' shows it.")
    ],
) -> None:
    """Make all cells of a machine anew on executors elsewhere, before you stop its executors.

    \b
    Example:
      xscl cluster drain worker-3
    """
    found = _changed(call, "drain", node=node)
    moved = ", ".join(map(str, found["changed"]))
    answer(found, [f"{node} has no cells any more; moved: {moved}"], as_json=call.as_json)


def _changed(call: Call, what: str, **asked: object) -> dict[str, list[int]]:
    """Ask the running service for a change of its cells, and return its answer."""
    client = client_of(call)
    if client is None:
        raise UsageError("no service runs", hint="start it with 'xscl serve --shared DIR'")
    with client:
        found: dict[str, list[int]] = client.ask("POST", f"/v1/cluster/{what}", json=asked).json()
        return found
