"""The report of a soak: JSON with all samples, Markdown with plots and tables."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.harness import blank
from tests.soak.measurements import Sample
from tests.soak.verdict import LIMITS, Judged, growth, second_half, series

POINTS = 120
"""Points of a line, at most: the median of several samples each."""

PLOTS: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "processes": (
        ("memory, MB", ("rss", "children_rss")),
        ("open files, threads", ("handles", "children_handles", "threads")),
        ("processor, cores", ("cores",)),
    ),
    "disk": (
        ("MB", ("disk_store", "disk_wal", "disk_spool")),
        ("MB", ("disk_unlinked", "disk_other")),
    ),
    "counters": (
        ("kept", ("documents", "texts", "matches", "state_witnesses")),
        ("kept", ("state_instances", "late", "rejected", "dead_letters")),
        ("waiting documents", ("waiting",)),
    ),
    "latencies": (
        ("p95, ms", ("push_p95", "events_p95", "webhook_p95")),
        ("p95, ms", ("pages_p95", "sql_p95", "subscribe_p95")),
    ),
}
"""Pictures by name, and the panels of each: the unit, and its figures."""

KINDS = ("push", "events", "webhook", "slow", "pages", "sql", "try", "subscribe", "users")


@dataclass(frozen=True, slots=True)
class Run:
    """A whole run: its settings, what it did, what was seen, the verdict, and counts of faults."""

    settings: Mapping[str, object]
    done: Mapping[str, float]
    samples: Sequence[Sample]
    judged: Sequence[Judged]
    faults: Mapping[str, int] = field(default_factory=dict)
    notes: Sequence[str] = field(default_factory=list)

    def __str__(self) -> str:
        struck = [f"{count} {fault}" for fault, count in self.faults.items()]
        done = [f"{value:,g} {name}" for name, value in self.done.items() if value]
        lines = [f"{'ok   ' if one.holds else 'FAILS'} {one.what}" for one in self.judged]
        return "\n".join([", ".join(done + struck), *lines])

    @property
    def wrong(self) -> list[str]:
        """The conditions that do not hold."""
        return [one.what for one in self.judged if not one.holds]

    @property
    def holds(self) -> bool:
        """True if every condition holds."""
        return all(one.holds for one in self.judged)


def write(run: Run, directory: Path) -> None:
    """Write `soak.json`, `soak.md` and the pictures."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {**asdict(run), "machine": machine(), "holds": run.holds}
    (directory / "soak.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    for name in PLOTS:
        draw(run.samples, name, directory / f"soak-{name}.svg")
    (directory / "soak.md").write_text(markdown(run), "utf-8")


def machine() -> str:
    """Return the facts of this machine."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"{os.cpu_count()} cores, {pages * size / 2**30:.0f} GiB, {platform.system()}"
        f" {platform.machine()}, CPython {platform.python_version()}"
    )


# -- Pictures ------------------------------------------------------------------------------


def draw(samples: Sequence[Sample], name: str, path: Path) -> None:
    """Draw one picture as SVG, its texts as texts."""
    from matplotlib import rc_context

    panels = PLOTS[name]
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "soak", "font.size": 8}):
        figure = blank(4 * len(panels), 2.6)
        for axes, (unit, figures) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            for one in figures:
                points = thinned(series(samples, one))
                if points:
                    axes.plot(*zip(*points, strict=True), label=one, linewidth=1)
            axes.set(xlabel="minutes", ylabel=unit)
            axes.set_ylim(bottom=0)
            if axes.has_data():
                axes.legend()
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most `POINTS` points in minutes, each the median of several."""
    size = -(-len(points) // POINTS) or 1
    parts = [points[n : n + size] for n in range(0, len(points), size)]
    return [
        (round(part[0][0] / 60, 2), round(statistics.median(y for _, y in part), 2))
        for part in parts
    ]


# -- Text ----------------------------------------------------------------------------------


def markdown(run: Run) -> str:
    """Return the report as people read it."""
    lines = [
        "# Soak",
        "",
        f"{machine()}. " + ", ".join(f"{name} {value}" for name, value in run.settings.items()),
        "",
        f"Verdict: {'holds' if run.holds else '**fails**'}.",
        "",
        *(f"- {'holds' if one.holds else '**fails**'}: {one.what}" for one in run.judged),
        "",
        "| done | |",
        "|---|---|",
        *(f"| {name} | {value:,} |" for name, value in run.done.items()),
        "",
        *_latencies(run.samples),
        "",
        *_figures(run.samples),
        "",
    ]
    for name in PLOTS:
        lines += [f"![{name} over the run](soak-{name}.svg)", ""]
    if run.notes:
        lines += ["Warnings of the service:", "", *(f"    {one[:300]}" for one in run.notes), ""]
    return "\n".join(lines)


def _latencies(samples: Sequence[Sample]) -> list[str]:
    """Return the table of latencies: medians of the intervals' p50 and p95, and the maximum."""
    rows = [
        "| latency, ms | number | p50 | p95 | largest p95 | maximum |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        of = {
            name: [y for _, y in series(samples, f"{kind}_{name}")]
            for name in ("count", "p50", "p95", "max")
        }
        if of["count"]:
            middle = [statistics.median(of[name]) for name in ("p50", "p95")]
            values = (sum(of["count"]), *middle, max(of["p95"]), max(of["max"]))
            rows.append(f"| {kind} | " + " | ".join(f"{value:,.0f}" for value in values) + " |")
    return rows


def _figures(samples: Sequence[Sample]) -> list[str]:
    """Return the table of figures: medians of the thirds of the run, growth in its second half."""
    rows = [
        "| figure | first third | second | last | growth in the second half |",
        "|---|---|---|---|---|",
    ]
    half = second_half(samples)
    names = (
        *(limit.figure for limit in LIMITS),
        *("disk_wal", "disk_spool", "spool_files", "late", "rejected", "dead_letters", "cores"),
    )
    for name in names:
        values = [y for _, y in series(samples, name)]
        third = max(1, len(values) // 3)
        if len(values) >= 3:
            parts = [statistics.median(values[n * third : (n + 1) * third]) for n in range(3)]
            shown = " | ".join(f"{value:,.1f}" for value in parts)
            rows.append(f"| {name} | {shown} | {growth(series(half, name)):+,.1f} |")
    return rows
