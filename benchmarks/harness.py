"""Common parts of benchmarks: rows of figures, interleaved timing, comparison, growth, stages."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from cProfile import Profile
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Value: TypeAlias = str | int | float | bool | None
REPEATS = 3
COLOURS, ABREAST = 64, 3
"""Colours of a picture, and panels of a row."""
LINEAR = ("leaves", "joins", "zipf", "hour", "of", "length")
"""Parameters that do not grow by factors."""
RATE = "_per_s"
"""The end of the names of rates."""


def values(**named: Value) -> dict[str, Value]:
    """Return parameters or figures by their names."""
    return named


class ResultsDiffer(Exception):
    """Two sides of a benchmark computed different results: there is nothing to time."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run: `quick` ends within a minute, `profile` adds shares by stage.

    `most` is the largest size where a benchmark has a choice.
    """

    quick: bool = True
    profile: bool = False
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement: what was set, and what came out."""

    benchmark: str
    parameters: Mapping[str, Value]
    figures: Mapping[str, Value]

    def json(self) -> str:
        """Return the row as one line of JSON."""
        record = {
            "benchmark": self.benchmark,
            "parameters": dict(self.parameters),
            "figures": dict(self.figures),
        }
        return json.dumps(record)


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a picture: figures of rows against the parameter `across`.

    It has a line for each combination of the parameters `by`, and for each of several figures.
    Rows count that have these parameters, and those of `where` with their values (None: a row has
    no such parameter).  A rate is drawn as milliseconds for one.
    """

    title: str
    across: str
    by: tuple[str, ...] = ("variant",)
    figures: tuple[str, ...] = ("milliseconds",)
    where: Mapping[str, Value] = field(default_factory=dict)

    def lines(self, rows: Sequence[Row]) -> dict[str, dict[Any, float]]:
        """Return the lines by name: the value of a figure at each place across."""
        found: dict[str, dict[Any, float]] = {}
        for row in rows:
            of = row.parameters
            if not {self.across, *self.by} <= of.keys() or any(
                of.get(name) != value for name, value in self.where.items()
            ):
                continue
            for figure in self.figures:
                if (value := row.figures.get(figure)) is None:
                    continue
                several = [figure] if len(self.figures) > 1 else []
                name = ", ".join([*[str(of[one]) for one in self.by], *several])
                measured = float(value)
                drawn = 1_000 / measured if figure.endswith(RATE) else measured
                found.setdefault(name, {})[of[self.across]] = drawn
        return found


@dataclass(frozen=True, slots=True)
class Benchmark:
    """An experiment: yields rows as they are measured, and can draw the paper's figure."""

    module: str
    about: str
    panels: Sequence[Panel]

    def run(self, options: Options) -> Iterator[Row]:
        """Yield the rows as the module of the benchmark measures them."""
        rows: Iterator[Row] = import_module(f"benchmarks.{self.module}").run(options)
        return rows

    def plot(self, rows: Sequence[Row], path: Path) -> None:
        """Write a picture of the panels that rows belong to, on log scales."""
        drawn = [(panel, lines) for panel in self.panels if (lines := panel.lines(rows))]
        down = -(-len(drawn) // ABREAST)
        figure = blank(5 * min(len(drawn), ABREAST), 4 * down)
        for number, (panel, lines) in enumerate(drawn, 1):
            axes = figure.add_subplot(down, min(len(drawn), ABREAST), number)
            for name, points in lines.items():
                places = sorted(points)
                axes.plot(places, [points[one] for one in places], marker="o", label=name)
            figures = {"milliseconds" if one.endswith(RATE) else one for one in panel.figures}
            unit = ", ".join(sorted(figures)).replace("_", " ")
            axes.set(title=panel.title, xlabel=panel.across, ylabel=unit, yscale="log")
            if panel.across not in LINEAR:
                axes.set_xscale("log")
            axes.legend()
        save(figure, path)


# -- Measuring -----------------------------------------------------------------------------


def seconds(action: Callable[[], object]) -> float:
    """Return the duration of an action."""
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def interleaved(
    sides: Mapping[str, Callable[[], float]], repeats: int = REPEATS
) -> dict[str, float]:
    """Return the median of what each side measures, the sides taking turns."""
    if repeats < REPEATS:
        raise ValueError(f"a median needs at least {REPEATS} measurements")
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, measure in sides.items():
            measured[name].append(measure())
    return {name: statistics.median(values) for name, values in measured.items()}


def require_equal(found: Iterable[Hashable], expected: Iterable[Hashable], what: str) -> int:
    """Return the number of results; raise ResultsDiffer if they differ as multisets."""
    ours, theirs = Counter(found), Counter(expected)
    if ours != theirs:
        more, fewer = ours - theirs, theirs - ours
        raise ResultsDiffer(
            f"{what}: {more.total()} results too many, {fewer.total()} too few,"
            f" such as {next(iter(more or fewer))!r}"
        )
    return ours.total()


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the e of the best fit cost ~ size^e: 1 is linear, 0 is independent."""
    x = [math.log(size) for size in sizes]
    y = [math.log(cost) for cost in costs]
    return statistics.linear_regression(x, y).slope


def growth_row(
    name: str,
    parameters: Mapping[str, Value],
    sizes: Sequence[float],
    costs: Sequence[float],
    over: str = "subscriptions",
) -> Row:
    """Return the row of how a cost grows with the number of something."""
    fitted = {"exponent": exponent(sizes, costs)}
    return Row(name, {**parameters, "growth_over": over}, fitted)


# -- Where the time goes -------------------------------------------------------------------


@dataclass(slots=True)
class Stages:
    """Time spent in named stages, each without the stages inside it."""

    spent: Counter[str] = field(default_factory=Counter)  # in nanoseconds
    _running: list[str] = field(default_factory=list)
    _since: int = 0

    def enter(self, stage: str) -> None:
        """Begin a stage; the one around it pauses."""
        self._charge()
        self._running.append(stage)

    def leave(self) -> None:
        """End the innermost stage."""
        self._charge()
        self._running.pop()

    def shares(self) -> dict[str, float]:
        """Return the share of each stage, largest first."""
        total = self.spent.total() or 1
        return {stage: spent / total for stage, spent in self.spent.most_common()}

    def _charge(self) -> None:
        now = time.perf_counter_ns()
        if self._running:
            self.spent[self._running[-1]] += now - self._since
        self._since = now


@contextmanager
def timed_stages(stages: Stages, places: Mapping[str, tuple[Any, str]]) -> Iterator[None]:
    """Time functions as stages while the block runs; `places` are (owner, attribute) by stage.

    The functions are replaced by timed ones: a sampling or tracing profiler
    would weigh Python code heavier than the database.
    """
    originals = {stage: getattr(owner, name) for stage, (owner, name) in places.items()}
    try:
        for stage, (owner, name) in places.items():
            setattr(owner, name, _timed(stages, stage, originals[stage]))
        yield
    finally:
        for stage, (owner, name) in places.items():
            setattr(owner, name, originals[stage])


def module_profile(
    name: str, parameters: Mapping[str, Value], action: Callable[..., object], *arguments: object
) -> Row:
    """Return the row of the shares of time by module of a call, the eight largest first.

    A tracing profiler weighs calls heavier than they are: compare shares, not times.
    """
    profile = Profile()
    profile.runcall(action, *arguments)
    profile.create_stats()
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, alone, _, _) in profile.stats.items():
        spent[Path(file).stem if file.endswith(".py") else "built in and generated"] += alone
    total = spent.total()
    shares = {module: alone / total for module, alone in spent.most_common(8)}
    return Row(name, {**parameters, "profile": "share of time by module"}, shares)


def _timed(stages: Stages, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*arguments: Any, **named: Any) -> Any:
        stages.enter(stage)
        try:
            return function(*arguments, **named)
        finally:
            stages.leave()

    return timed


# -- Showing -------------------------------------------------------------------------------


def shown(value: Value) -> str:
    """Return a value as tables show it: three significant digits."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def line(row: Row) -> str:
    """Return a row as people read it."""
    left = "  ".join(f"{name}={shown(value)}" for name, value in row.parameters.items())
    right = "  ".join(f"{name}={shown(value)}" for name, value in row.figures.items())
    return f"{left}  |  {right}"


def blank(width: float, height: float) -> Figure:
    """Return an empty picture, its size in inches."""
    # Not at the top: it takes a second, in each process that collects the tests.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a picture; one as PNG with few colours, so that it is small."""
    from PIL import Image  # with what draws

    figure.savefig(path)
    if path.suffix == ".png":
        with Image.open(path) as drawn:
            few = drawn.convert("RGB").quantize(COLOURS)
        few.save(path, optimize=True)
