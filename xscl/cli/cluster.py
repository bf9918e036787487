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
from xscl.cluster.placement import Placement, needed_copies
from xscl.documents.results import Subscription

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
) -> None:
    """Show how the present subscriptions would lie in cells, before there is a cluster.

    Subscriptions with a common constant, such as a channel or a keyword, lie together. A publisher
    is copied to the cells of its readers.

    \b
    Example:
      xscl cluster plan --cells 16
    """
    with opened("cluster plan", call) as service:
        found = service.subscriptions()
    rows = _planned(found, cells)
    heaviest = max(one["subscriptions"] + one["copies"] for one in rows)
    mean = len(found) / cells
    lines = table(
        ("cell", "subscriptions", "copies"),
        [(one["cell"], one["subscriptions"], one["copies"]) for one in rows],
    )
    note = f"the fullest cell has {heaviest / mean:.2f} times the mean" if found else "no queries"
    answer({"cells": rows}, [*lines, note], as_json=call.as_json)


def _planned(found: Sequence[Row], cells: int) -> list[dict[str, int]]:
    place, placed, known = Placement(range(cells)), dict[str, int](), list[Subscription]()
    for number, row in enumerate(found, 1):
        name = str(row["name"])
        one = Subscription(
            *(number, name, str(row["query"]), 0, 0, (), 0),
            publish=row["publishes"],
            reads=tuple(row["reads"]),
            key=name,
        )
        known.append(one)
        placed[name] = place(one)
    counts = Counter(placed.values())
    copies = Counter(cell for some in needed_copies(known, placed).values() for cell in some)
    return [
        {"cell": cell, "subscriptions": counts[cell], "copies": copies[cell]}
        for cell in range(cells)
    ]


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
