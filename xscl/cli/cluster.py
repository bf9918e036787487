"""`xscl cluster plan`, `status`: how subscriptions lie in cells, and how these are doing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from xscl.cli.feed_rows import Row
from xscl.cli.options import Call, command_group
from xscl.cli.output import UsageError, answer, list_rows, table
from xscl.cli.service import opened
from xscl.cli.status import figures_of_running
from xscl.cluster.cell_task import CellState
from xscl.cluster.designation import Designation, Grid, equalities
from xscl.cluster.placement import Placement, needed_copies
from xscl.documents.results import XSCL, Subscription
from xscl.engine.facade import Engine
from xscl.engine.state import Role

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
    place, placed, known = Placement(grid.slices), dict[str, int](), list[Subscription]()
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
    counts = Counter(cell for first in placed.values() for cell in grid.spread(first))
    needed = needed_copies(known, placed)
    copies = Counter(
        cell for some in needed.values() for first in some for cell in grid.spread(first)
    )
    return [
        {"cell": cell, **_group(cell, grid), "subscriptions": counts[cell], "copies": copies[cell]}
        for cell in range(grid.cells)
    ]


def _group(cell: int, grid: Grid) -> dict[str, int]:
    """Return the group of a cell of a grid, in a column of its own."""
    return {} if cell < grid.slices else {"group": (cell - grid.slices) // grid.width}


def _in_groups(found: Sequence[Row], grid: Grid) -> dict[str, int]:
    """Return the groups of those that may be spread, by their first cells.

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
    list_rows(
        "cells",
        [asdict(one) for one in cells],
        ("cell", "subscriptions", "runs on", "process", "last task", "memory", "snapshot"),
        [
            (
                *(one.cell, one.subscriptions, one.host or "not yet", one.process or ""),
                f"{one.seconds:.2f} s, {one.documents} documents",
                f"{one.memory / 1e6:.0f} MB",
                f"entry {one.snapshot} of {one.entry}",
            )
            for one in cells
        ],
        as_json=call.as_json,
    )
