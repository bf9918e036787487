"""`mmqjp-flat`: Figures 6.8 to 6.10 of Hong 2009, two documents with N leaves below the root.

Table 6.5 has the defaults: 1,000 queries, N = 6, Zipf 0.8.  The number of
queries is varied first, then N, then the Zipf parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.benchmarks.harness import (
    Benchmark,
    Options,
    Row,
    Stages,
    Value,
    exponent,
    log_log,
    timed_stages,
)
from tests.benchmarks.mmqjp import STAGE_2, Measured, Shared, flat, measure, random_queries

NAME = "mmqjp-flat"
QUERIES, LEAVES, ZIPF = 1_000, 6, 0.8  # Table 6.5
SEED = 2009
QUICK_COUNTS = (10, 100, 1_000, 10_000)
COUNTS = (*QUICK_COUNTS, 100_000)
SWEEP_LEAVES = (4, 6, 8, 10, 12)
SWEEP_ZIPF = (0.0, 0.4, 0.8, 1.2, 1.6)


def run(options: Options) -> Iterator[Row]:
    """Yield the points of the figures, each with and without the fan-out to subscribers."""
    counts = QUICK_COUNTS if options.quick else COUNTS
    yield from _figure_6_8(counts)
    if not options.quick:
        for leaves in SWEEP_LEAVES:
            yield from point("6.9", QUERIES, leaves, ZIPF)
        for zipf in SWEEP_ZIPF:
            yield from point("6.10", QUERIES, LEAVES, zipf)
    if options.profile:
        yield profile(counts[-1])


def _figure_6_8(counts: Sequence[int]) -> Iterator[Row]:
    rows: list[Row] = []
    for count in counts:
        for row in point("6.8", count, LEAVES, ZIPF):
            rows.append(row)
            yield row
    for variant in ("shared", "shared, fan-out"):
        line = [row for row in rows if row.parameters["variant"] == variant]
        ours = exponent(counts, [float(str(row.figures["milliseconds"])) for row in line])
        theirs = exponent(
            counts, [float(str(row.figures["baseline_milliseconds"])) for row in line]
        )
        parameters: dict[str, Value] = {
            "figure": "6.8",
            "variant": variant,
            "growth_over": "queries",
        }
        yield Row(NAME, parameters, {"exponent": ours, "baseline_exponent": theirs})


def point(figure: str, count: int, leaves: int, zipf: float) -> Iterator[Row]:
    """Yield the two rows of one measurement."""
    schema = flat(leaves)
    queries = random_queries(schema.leaves, count, zipf, leaves, SEED)
    measured = measure(schema, queries)
    for variant in ("shared", "shared, fan-out"):
        parameters: dict[str, Value] = {
            "figure": figure,
            "queries": count,
            "leaves": leaves,
            "zipf": zipf,
            "variant": variant,
            "scope": "stage2",
            "storage": "memory",
        }
        yield Row(NAME, parameters, _figures(measured, fan_out=variant != "shared"))


def _figures(measured: Measured, *, fan_out: bool) -> dict[str, Value]:
    time = measured.shared + (measured.fan_out if fan_out else 0.0)
    return {
        "milliseconds": time,
        "baseline_milliseconds": measured.sequential,
        "ratio": measured.sequential / time,
        "ratio_if_given_r_vj": measured.with_joins / time,
        "baseline": measured.form,
        "templates": measured.templates,
        "distinct": measured.distinct,
        "rows": measured.rows,
        "matches": measured.matches,
    }


def profile(count: int) -> Row:
    """Return the shares of time by stage of the shared join."""
    schema = flat(LEAVES)
    shared = Shared(schema, random_queries(schema.leaves, count, ZIPF, LEAVES, SEED))
    stages = Stages()
    shared.join()
    with timed_stages(stages, STAGE_2):
        for _ in range(5):
            shared.take_back()
            shared.join()
    shared.close()
    parameters: dict[str, Value] = {
        "profile": "share of time by stage",
        "queries": count,
        "scope": "stage2",
    }
    return Row(NAME, parameters, stages.shares())


def plot(rows: Sequence[Row], path: Path) -> None:
    """Draw Figures 6.8 to 6.10: time against queries, leaves and the Zipf parameter."""
    panels = (("6.8", "queries"), ("6.9", "leaves"), ("6.10", "zipf"))
    log_log(
        path,
        [
            (f"Figure {figure}", axis, _lines([r for r in rows if _of(r, figure)], axis))
            for figure, axis in panels
            if any(_of(row, figure) for row in rows)
        ],
    )


def _of(row: Row, figure: str) -> bool:
    return row.parameters.get("figure") == figure and "milliseconds" in row.figures


def _lines(rows: Sequence[Row], axis: str) -> dict[str, list[tuple[float, float]]]:
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        x = float(str(row.parameters[axis]))
        ours = lines.setdefault(str(row.parameters["variant"]), [])
        ours.append((x, float(str(row.figures["milliseconds"]))))
        if row.parameters["variant"] == "shared":
            theirs = float(str(row.figures["baseline_milliseconds"]))
            lines.setdefault("Sequential", []).append((x, theirs))
    return lines


BENCHMARK = Benchmark(NAME, "two flat documents: shared templates against Sequential", run, plot)
