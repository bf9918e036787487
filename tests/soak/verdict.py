"""The verdict of a soak: what grows over the second half, and what exceeds its bound.

Each figure is cut into `BINS` bins; the median of a bin leaves out single peaks.  Its growth is the
Theil-Sen slope of the bins, which some outliers do not move, times the duration of the half.

Where other work shares the machine, documents may arrive faster in the last part of a run, and then
windows hold more of them.  Memory and what is kept may grow by the same share.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from tests.soak.measurements import Sample

BINS = 12
SHORTEST = 240.0
"""Seconds of a half below which growth says nothing: windows are not full, bins are noise."""
WARM = 800.0
"""The same for memory: until the first checkpoints, the log and the queues of the store fill."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The largest growth of a figure: a share of its median, at least some units."""

    figure: str
    share: float
    least: float
    shortest: float = SHORTEST


LIMITS = (
    Limit("rss", 0.05, 24, WARM),
    Limit("children_rss", 0.10, 48),
    Limit("handles", 0.05, 8),
    Limit("children_handles", 0.20, 24),
    Limit("threads", 0.0, 16),  # the pool of requests grows on a busy machine, to 40
    Limit("disk_store", 0.05, 24),
    Limit("disk_other", 0.05, 4),
    Limit("disk_unlinked", 0.20, 8),
    Limit("documents", 0.10, 500),
    Limit("matches", 0.15, 2_000),
    Limit("texts", 0.10, 500),
    Limit("text_bytes", 0.10, 1_000_000),
    Limit("state_witnesses", 0.10, 500),
    Limit("state_instances", 0.10, 200),
    Limit("subscriptions", 0.01, 20),
    Limit("waiting", 0.0, 100),
)
"""Figures that windows and retention bound, with memory in MB."""

ARRIVED = "pushed_documents_total"
KEPT = frozenset(
    ("rss", "documents", "matches", "texts", "text_bytes", "state_witnesses", "state_instances")
)
"""Figures that are proportional to the rate of documents."""

BOUNDS = {
    "disk_wal": 2 * 134.3,  # twice the size at which a checkpoint is made
    "disk_spool": 1.1 * 268.5,  # consumed segments are kept up to 256 MiB
    "late": 1.2 * 10_000,
    "rejected": 1.2 * 10_000,
}
"""The largest values that figures may have at any time."""

MOST_GROWTH = 200.0
"""MB by which a hostile client may raise the resident memory."""
OTHERS = ("push", "pages", "events")
"""Requests of others that it may slow down."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One condition: what it says, and whether it holds."""

    what: str
    holds: bool


def verdict(samples: Sequence[Sample]) -> list[Judged]:
    """Return the conditions on growth and bounds."""
    found: list[Judged] = []
    half = second_half(samples)
    duration = half[-1].at - half[0].at if half else 0.0
    faster = acceleration(half)
    for limit in LIMITS:
        if duration >= limit.shortest:
            found.append(_grown(half, limit, faster if limit.figure in KEPT else 0.0))
        else:
            found.append(Judged(f"{limit.figure} was not judged: the run was too short", True))
    for figure, most in BOUNDS.items():
        found.append(_at_most(samples, figure, most))
    return found


def bounded(samples: Sequence[Sample]) -> list[Judged]:
    """Return the conditions on others while a client does its worst."""
    resident = [value for _, value in series(samples, "rss")]
    grown = resident[-1] - statistics.median(resident[:3]) if resident else 0.0
    rows = [("MB of growth of memory", grown, MOST_GROWTH)]
    for kind in OTHERS:
        worst = [value / 1_000 for _, value in series(samples, f"{kind}_p95")]
        if worst:
            rows.append((f"s, median of the p95 of {kind}", statistics.median(worst), 1.0))
    return [
        Judged(f"{value:,.1f} {what}, at most {most:g}", value <= most)
        for what, value, most in rows
    ]


def second_half(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples of the second half of the time."""
    if not samples:
        return ()
    middle = (samples[0].at + samples[-1].at) / 2
    return [one for one in samples if one.at >= middle]


def growth(points: Sequence[tuple[float, float]]) -> float:
    """Return by how much a figure rises from the first to the last of its points (time, value)."""
    size = max(1, len(points) // BINS)
    parts = [points[n : n + size] for n in range(0, len(points) - size + 1, size)]
    bins = [tuple(map(statistics.median, zip(*part, strict=True))) for part in parts]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(bins, 2) if b[0] > a[0]]
    return statistics.median(slopes) * (points[-1][0] - points[0][0]) if slopes else 0.0


def acceleration(samples: Sequence[Sample]) -> float:
    """Return the growth of the rate of documents as a share of its median; 0 if it falls."""
    points = series(samples, ARRIVED)
    rates = [(b[0], (b[1] - a[1]) / (b[0] - a[0])) for a, b in pairwise(points) if b[0] > a[0]]
    median = statistics.median(rate for _, rate in rates) if rates else 0.0
    return max(0.0, growth(rates) / median) if median > 0 else 0.0


def series(samples: Sequence[Sample], figure: str) -> list[tuple[float, float]]:
    """Return the points of a figure."""
    return [(one.at, one.figures[figure]) for one in samples if figure in one.figures]


def _grown(half: Sequence[Sample], limit: Limit, faster: float) -> Judged:
    points = series(half, limit.figure)
    if not points:
        return Judged(f"{limit.figure} was never seen", False)
    median = statistics.median(value for _, value in points)
    allowed, grown = max(limit.least, limit.share * median) + faster * median, growth(points)
    what = f"{limit.figure} grows by {grown:+,.1f} of {median:,.1f}, at most {allowed:,.1f}"
    return Judged(what, grown <= allowed)


def _at_most(samples: Sequence[Sample], figure: str, allowed: float) -> Judged:
    most = max((value for _, value in series(samples, figure)), default=0.0)
    return Judged(f"{figure} is {most:,.1f} at most, {allowed:,.1f} allowed", most <= allowed)
