"""The report of a soak: JSON with all samples, Markdown with tables."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.soak.measurements import Sample
from tests.soak.verdict import LIMITS, Judged, growth, second_half, series

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
    """Write `soak.json` and `soak.md`."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {**asdict(run), "machine": machine(), "holds": run.holds}
    (directory / "soak.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    (directory / "soak.md").write_text(markdown(run), "utf-8")


def machine() -> str:
    """Return the facts of this machine."""
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return (
        f"{os.cpu_count()} cores, {pages * size / 2**30:.0f} GiB, {platform.system()}"
        f" {platform.machine()}, CPython {platform.python_version()}"
    )


# -- Text ----------------------------------------------------------------------------------


def markdown(run: Run) -> str:
    """Return the report as people read it."""
    done = [(name, f"{value:,}") for name, value in run.done.items()]
    lines = [
        "# Soak",
        "",
        f"{machine()}. " + ", ".join(f"{name} {value}" for name, value in run.settings.items()),
        "",
        f"Verdict: {'holds' if run.holds else '**fails**'}.",
        "",
        *(f"- {'holds' if one.holds else '**fails**'}: {one.what}" for one in run.judged),
        "",
        *_table("done | ", done),
        *_table(
            "latency, ms | number | p50 | p95 | largest p95 | maximum", _latencies(run.samples)
        ),
        *_table(
            "figure | first third | second | last | growth in the second half",
            _figures(run.samples),
        ),
    ]
    if run.notes:
        lines += ["Warnings of the service:", "", *(f"    {one[:300]}" for one in run.notes), ""]
    return "\n".join(lines)


def _table(head: str, rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, and an empty one."""
    yield f"| {head} |"
    yield "|---" * (head.count("|") + 1) + "|"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


def _latencies(samples: Sequence[Sample]) -> Iterator[Sequence[str]]:
    """Yield the rows of latencies: medians of the intervals' p50 and p95, and the maximum."""
    for kind in KINDS:
        of = {
            name: [y for _, y in series(samples, f"{kind}_{name}")]
            for name in ("count", "p50", "p95", "max")
        }
        if of["count"]:
            middle = [statistics.median(of[name]) for name in ("p50", "p95")]
            values = (sum(of["count"]), *middle, max(of["p95"]), max(of["max"]))
            yield kind, *(f"{value:,.0f}" for value in values)


def _figures(samples: Sequence[Sample]) -> Iterator[Sequence[str]]:
    """Yield the rows of figures: medians of the thirds of the run, growth in its second half."""
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
            shown = (f"{value:,.1f}" for value in parts)
            yield name, *shown, f"{growth(series(half, name)):+,.1f}"
