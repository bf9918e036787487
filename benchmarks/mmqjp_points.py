"""Measurements of `mmqjp` as rows: points of a figure, growth along it, the profile, the plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.harness import (
    Panel,
    Row,
    Stages,
    Value,
    exponent,
    timed_stages,
)
from benchmarks.mmqjp import STAGE_2, JoinQuery, Measured, Schema, Shared

SHARED, FANNED_OUT = "shared", "shared, fan-out"


def points(name: str, parameters: Mapping[str, Value], measured: Measured) -> list[Row]:
    """Return the two rows of one measurement: without and with the fan-out to subscribers."""
    return [
        Row(
            name,
            {**parameters, "variant": variant, "scope": "stage2", "storage": "memory"},
            _figures(measured, fan_out=variant == FANNED_OUT),
        )
        for variant in (SHARED, FANNED_OUT)
    ]


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


def growth(name: str, figure: str, rows: Sequence[Row]) -> Iterator[Row]:
    """Yield how the cost of both sides, and the number of templates, grow with the queries."""
    for variant in (SHARED, FANNED_OUT):
        line = [row for row in rows if row.parameters["variant"] == variant]
        sizes = [number(row.parameters["queries"]) for row in line]

        def fitted(figure: str, line: list[Row] = line, sizes: list[float] = sizes) -> float:
            return exponent(sizes, [number(row.figures[figure]) for row in line])

        yield Row(
            name,
            {"figure": figure, "variant": variant, "growth_over": "queries"},
            {
                "exponent": fitted("milliseconds"),
                "baseline_exponent": fitted("baseline_milliseconds"),
                "templates_exponent": fitted("templates"),
            },
        )


def profile(name: str, schema: Schema, queries: Sequence[JoinQuery]) -> Row:
    """Return the shares of time by stage of the shared join."""
    shared = Shared(schema, queries)
    stages = Stages()
    shared.join()
    with timed_stages(stages, STAGE_2):
        for _ in range(5):
            shared.take_back()
            shared.join()
    shared.close()
    parameters: dict[str, Value] = {
        "profile": "share of time by stage",
        "queries": len(queries),
        "scope": "stage2",
    }
    return Row(name, parameters, stages.shares())


def panels(across: Mapping[str, str]) -> list[Panel]:
    """Return the panels of figures of the paper, by number and what varies in them."""
    times = ("milliseconds", "baseline_milliseconds")
    return [
        Panel(
            f"Figure {figure}", axis, figures=times, where={"figure": figure, "growth_over": None}
        )
        for figure, axis in across.items()
    ]


def number(value: Value) -> float:
    """Return a figure as a number."""
    return float(str(value))
