"""An experiment of `mmqjp`: points of its figures as rows, growth along one, profile, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.harness import Options, Row, Stages, Value, exponent, timed_stages, values
from benchmarks.mmqjp import SAMPLE, STAGE_2, Measured, Schema, Shared, measure, random_queries

QUERIES, ZIPF = 1_000, 0.8
SEED = 2009
QUICK_COUNTS = (10, 100, 1_000, 10_000)
COUNTS = (*QUICK_COUNTS, 100_000)
SWEEP_ZIPF = (0.0, 0.4, 0.8, 1.2, 1.6)
SHARED, FANNED_OUT = "shared", "shared, fan-out"


@dataclass(frozen=True, slots=True)
class Experiment:
    """Random queries over a schema: their number is varied, then `varied`, then the Zipf parameter.

    `figures` are the paper's in that order.  `most` is the largest number of value joins, and of
    what is varied, which is each of `sweep` in turn.  Of `quick_sample` queries of the baseline the
    time is scaled to all.
    """

    name: str
    figures: tuple[str, str, str]
    varied: str
    most: int
    sweep: Sequence[int]
    schema: Callable[[int], Schema]
    quick_sample: int

    def run(self, options: Options) -> Iterator[Row]:
        """Yield the points of the figures, each with and without the fan-out to subscribers."""
        counts, sample = (QUICK_COUNTS, self.quick_sample) if options.quick else (COUNTS, SAMPLE)
        by_number, by_size, by_zipf = self.figures
        rows: list[Row] = []
        for count in counts:
            found = self._point(by_number, count, self.most, ZIPF, sample)
            rows += found
            yield from found
        yield from self._growth(by_number, rows)
        if not options.quick:
            for most in self.sweep:
                yield from self._point(by_size, QUERIES, most, ZIPF, SAMPLE)
            for zipf in SWEEP_ZIPF:
                yield from self._point(by_zipf, QUERIES, self.most, zipf, SAMPLE)
        if options.profile:
            yield self._profile(counts[-1])

    def _point(self, figure: str, count: int, most: int, zipf: float, sample: int) -> list[Row]:
        """Return the rows of a measurement: without and with the fan-out to subscribers."""
        schema = self.schema(most)
        queries = random_queries(schema.leaves, count, zipf, most, SEED)
        measured = measure(schema, queries, sample=sample)
        parameters = values(figure=figure, queries=count, **{self.varied: most}, zipf=zipf)
        return [
            Row(
                self.name,
                {**parameters, "variant": variant, "scope": "stage2", "storage": "memory"},
                _figures(measured, fan_out=variant == FANNED_OUT),
            )
            for variant in (SHARED, FANNED_OUT)
        ]

    def _growth(self, figure: str, rows: Sequence[Row]) -> Iterator[Row]:
        """Yield how the cost of both sides, and the number of templates, grow with the queries."""
        for variant in (SHARED, FANNED_OUT):
            line = [row for row in rows if row.parameters["variant"] == variant]
            sizes = [number(row.parameters["queries"]) for row in line]
            exponents = {
                name: exponent(sizes, [number(row.figures[cost]) for row in line])
                for name, cost in _EXPONENTS.items()
            }
            parameters = {"figure": figure, "variant": variant, "growth_over": "queries"}
            yield Row(self.name, parameters, exponents)

    def _profile(self, count: int) -> Row:
        """Return the shares of time by stage of the shared join."""
        schema = self.schema(self.most)
        shared = Shared(schema, random_queries(schema.leaves, count, ZIPF, self.most, SEED))
        stages = Stages()
        shared.join()
        with timed_stages(stages, STAGE_2):
            for _ in range(5):
                shared.take_back()
                shared.join()
        shared.close()
        parameters = values(profile="share of time by stage", queries=count, scope="stage2")
        return Row(self.name, parameters, stages.shares())


_EXPONENTS = {
    "exponent": "milliseconds",
    "baseline_exponent": "baseline_milliseconds",
    "templates_exponent": "templates",
}


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


def number(value: Value) -> float:
    """Return a figure as a number."""
    return float(str(value))
