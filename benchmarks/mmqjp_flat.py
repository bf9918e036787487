"""`mmqjp-flat`: Figures 6.8 to 6.10 of Hong 2009, two documents with N leaves below the root.

Table 6.5 has the defaults: 1,000 queries, N = 6, Zipf 0.8.  The number of
queries is varied first, then N, then the Zipf parameter.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import mmqjp_points
from benchmarks.harness import Benchmark, Options, Row
from benchmarks.mmqjp import SAMPLE, flat, measure, random_queries
from benchmarks.mmqjp_points import growth, points, profile

NAME = "mmqjp-flat"
QUERIES, LEAVES, ZIPF = 1_000, 6, 0.8  # Table 6.5
SEED = 2009
QUICK_COUNTS = (10, 100, 1_000, 10_000)
QUICK_SAMPLE = 50  # queries of the baseline that are run
COUNTS = (*QUICK_COUNTS, 100_000)
SWEEP_LEAVES = (4, 6, 8, 10, 12)
SWEEP_ZIPF = (0.0, 0.4, 0.8, 1.2, 1.6)


def run(options: Options) -> Iterator[Row]:
    """Yield the points of the figures, each with and without the fan-out to subscribers."""
    counts, sample = (QUICK_COUNTS, QUICK_SAMPLE) if options.quick else (COUNTS, SAMPLE)
    rows: list[Row] = []
    for count in counts:
        found = point("6.8", count, LEAVES, ZIPF, sample)
        rows += found
        yield from found
    yield from growth(NAME, "6.8", rows)
    if not options.quick:
        for leaves in SWEEP_LEAVES:
            yield from point("6.9", QUERIES, leaves, ZIPF)
        for zipf in SWEEP_ZIPF:
            yield from point("6.10", QUERIES, LEAVES, zipf)
    if options.profile:
        schema = flat(LEAVES)
        yield profile(NAME, schema, random_queries(schema.leaves, counts[-1], ZIPF, LEAVES, SEED))


def point(figure: str, count: int, leaves: int, zipf: float, sample: int = SAMPLE) -> list[Row]:
    """Return the two rows of one measurement."""
    schema = flat(leaves)
    queries = random_queries(schema.leaves, count, zipf, leaves, SEED)
    measured = measure(schema, queries, sample=sample)
    return points(
        NAME, {"figure": figure, "queries": count, "leaves": leaves, "zipf": zipf}, measured
    )


BENCHMARK = Benchmark(
    NAME,
    "two flat documents: shared templates against Sequential",
    run,
    mmqjp_points.panels({"6.8": "queries", "6.9": "leaves", "6.10": "zipf"}),
)
