"""Samples of a running service: its processes, its directory, its counters, latencies of clients.

The processes are those of the service and its children, read from /proc.  *Unlinked* are the files
without a name that the service has open: the snapshots of users' SQL.
"""

from __future__ import annotations

import math
import os
import re
import statistics
import threading
import time
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.plain_http import plain_client
from tests.soak.service import Host
from xscl.ingestion.data_directory import DataDirectory
from xscl.store.store_file import log_path

MB = 1_000_000
_PAGE, _TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
_METRIC = re.compile(r"^xscl_([a-z_0-9]+)(?:\{([^}]*)\})? ([-0-9.e+]+)$", re.MULTILINE)
COUNTERS = (
    *("pushed_documents_total", "pushed_matches_total", "documents", "published", "matches"),
    *("texts", "text_bytes", "kept_bytes", "late", "rejected", "waiting", "lag", "subscriptions"),
    *("state_witnesses", "state_instances", "dead_letters", "endpoints"),
)
"""Metrics of the service that are sampled; those with labels are added up."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one moment; `at` is in seconds since the first sample."""

    at: float
    figures: dict[str, float]


@dataclass
class Latencies:
    """Durations of requests by kind; any thread may add one."""

    _mutex: threading.Lock = field(default_factory=threading.Lock)
    _seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, seconds: float) -> None:
        """Add one."""
        with self._mutex:
            self._seconds[kind].append(seconds)

    def drain(self) -> dict[str, float]:
        """Return number, p50, p95 and maximum (ms) of each kind since the last call."""
        with self._mutex:
            taken, self._seconds = self._seconds, defaultdict(list)
        figures = dict[str, float]()
        for kind, seconds in taken.items():
            ordered = sorted(seconds)
            figures[f"{kind}_count"] = len(ordered)
            for name, value in (
                ("p50", statistics.median(ordered)),
                ("p95", ordered[math.ceil(0.95 * len(ordered)) - 1]),
                ("max", ordered[-1]),
            ):
                figures[f"{kind}_{name}"] = round(1_000 * value, 2)
        return figures


class Sampler:
    """Samples one service."""

    def __init__(self, host: Host, home: DataDirectory, latencies: Latencies) -> None:
        self.samples: list[Sample] = []
        self.wrong: list[str] = []
        self._host = host
        self._home = home
        self._latencies = latencies
        self._http = plain_client(host.address)
        self._began = time.monotonic()
        self._worked = 0.0

    def sample(self) -> Sample:
        """Add a sample."""
        at = time.monotonic() - self._began
        figures = {**self._processes(at), **self._disk(), **self._counters()}
        figures |= self._latencies.drain()
        found = Sample(round(at, 1), figures)
        self.samples.append(found)
        return found

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    # -- Processes -------------------------------------------------------------------------

    def _processes(self, at: float) -> dict[str, float]:
        rss, handles, threads = _process(self._host.pid)
        found = {"rss": rss / MB, "handles": handles, "threads": threads}
        children = [_process(pid) for pid in descendants(self._host.pid)]
        for number, name in enumerate(("rss", "handles", "threads")):
            found[f"children_{name}"] = sum(one[number] for one in children)
        found["children_rss"] /= MB
        found["children"] = len(children)
        worked, last = _worked(self._host.pid), self.samples[-1].at if self.samples else 0.0
        if self.samples:
            found["cores"] = round((worked - self._worked) / (at - last), 3)
        self._worked = worked
        return found

    # -- Disk ------------------------------------------------------------------------------

    def _disk(self) -> dict[str, float]:
        sizes: dict[str, float] = dict.fromkeys(("store", "wal", "spool", "other"), 0)
        parts = {self._home.database.name: "store", log_path(self._home.database).name: "wal"}
        count = 0
        for directory, _, names in os.walk(self._home.path):
            inside = Path(directory) == self._home.spool
            count += len(names) if inside else 0
            for name in names:
                part = "spool" if inside else parts.get(name, "other")
                with suppress(FileNotFoundError):
                    sizes[part] += os.stat(os.path.join(directory, name)).st_size / MB
        sizes["unlinked"] = _unlinked(self._host.pid) / MB
        return {f"disk_{part}": round(size, 3) for part, size in sizes.items()} | {
            "spool_files": count
        }

    # -- Counters --------------------------------------------------------------------------

    def _counters(self) -> dict[str, float]:
        health = self._http.get("/v1/health").json()
        for name in ("status", "consumer", "clock"):
            if health[name] != "ok":
                self.wrong.append(f"health: {name} is {health[name]}")
        found = dict[str, float]()
        for name, _, value in _METRIC.findall(self._http.get("/v1/metrics").text):
            if name in COUNTERS:
                found[name] = found.get(name, 0) + float(value)
        return found


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    parents = dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
    found, wave = list[int](), {pid}
    while wave:
        wave = {child for child, parent in parents.items() if parent in wave}
        found += wave
    return found


def _process(pid: int) -> tuple[int, int, int]:
    """Return memory in bytes, open files and threads of a process; zeros if it has ended."""
    proc = Path(f"/proc/{pid}")
    with suppress(OSError):
        memory = int((proc / "statm").read_text().split()[1]) * _PAGE
        return memory, len(os.listdir(proc / "fd")), len(os.listdir(proc / "task"))
    return 0, 0, 0


def _worked(pid: int) -> float:
    """Return the processor time of a process and its ended children, in seconds."""
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / _TICK
    return 0.0


def _unlinked(pid: int) -> int:
    """Return the bytes of the open files of a process that have no name."""
    files = dict[tuple[int, int], int]()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(entry.path).endswith("(deleted)"):
                    found = os.stat(entry.path)
                    files[found.st_dev, found.st_ino] = found.st_size
    return sum(files.values())
