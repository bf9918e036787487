"""Progress of long work on standard error: on a terminal, after a second, unless `--quiet`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, TypeAlias, TypeVar

import typer

from xscl.cli.options import option

T = TypeVar("T")
DELAY = 1.0
"""Seconds before progress is shown."""

_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


def _hide(context: typer.Context, quiet: bool) -> bool:
    """Hide the progress of this command if `quiet`, and return `quiet`."""
    if quiet:
        before = _hidden.set(True)
        context.call_on_close(lambda: _hidden.reset(before))
    return quiet


Quiet: TypeAlias = Annotated[bool, option("Show no progress.", callback=_hide)]


@contextmanager
def working(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show progress while the block runs; yield a function that advances it by steps of `total`.

    Without `total` the bar only moves.  What the block prints on a terminal stands above it.
    """
    if _hidden.get() or not sys.stderr.isatty():
        yield lambda steps: None
        return
    # Rich takes a twentieth of a second to load, which most commands do without.
    from rich import progress as rich
    from rich.console import Console

    columns = [rich.TextColumn(what), rich.BarColumn()]
    if total is not None:
        columns.append(rich.MofNCompleteColumn())
    bar = rich.Progress(
        *(*columns, rich.TimeElapsedColumn()),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=True,
    )
    task = bar.add_task(what, total=total)
    timer = threading.Timer(DELAY, bar.start)
    timer.daemon = True
    timer.start()
    try:
        yield lambda steps: bar.advance(task, steps)
    finally:
        timer.cancel()
        timer.join()
        bar.stop()


def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yield the items, and show how many were taken."""
    with working(what, total) as advance:
        for item in items:
            yield item
            advance(1)
