"""`service`: processor time and memory of a service and of the commands that ask it.

A real `xscl serve` on a loopback port, without Spark: the time until it answers, the processor
time of commands, the processor time of the service for the documents of one `xscl push` of which
each second one completes a match, and the threads and the memory of all its processes at rest.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import Options, ResultsDiffer, Row, Value, values

NAME = "service"
QUICK_DOCUMENTS, DOCUMENTS = 2_000, 20_000
RESTING = 5.0  # seconds
PATIENCE = 60.0
LOOK = 0.02
REPEATED = 3
PAIRS = "S//a[./key->x] JOIN{x = y, 1 h} S//b[./key->y]"
NAMED = ("matches", "why", "try", "explain")
COMMANDS = (("status",), ("subscriptions",), *((name, "pairs") for name in NAMED))
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MEGABYTE = 1 << 20
INSTALLED = {name: of for name, of in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""An installation has compiled modules; a start that compiles them all takes a second more."""


def run(options: Options) -> Iterator[Row]:
    """Yield a row for the start, each command, the documents, and the service at rest."""
    documents = QUICK_DOCUMENTS if options.quick else DOCUMENTS
    starts = []
    for _ in range(REPEATED):
        with _serving() as (_, _, start):
            starts.append(start)
    with _serving() as (data, service, start):
        best = {name: min(one[name] for one in (*starts, start)) for name in start}
        yield Row(NAME, {"of": "start"}, values(**best))
        _command(data, "subscribe", "pairs", PAIRS)
        for asked in COMMANDS:
            cpu = min(_command(data, *asked) for _ in range(REPEATED))
            yield Row(NAME, {"of": " ".join(asked)}, {"cpu_s": cpu})
        yield _pushed(data, service, documents)
        time.sleep(RESTING)
        yield Row(NAME, {"of": "rest"}, _at_rest(service, _status(data)["threads"]))


@contextmanager
def _serving() -> Iterator[tuple[Path, int, dict[str, float]]]:
    """Yield the data directory and the process of a service, and what its start cost."""
    with TemporaryDirectory() as folder:
        data, began = Path(folder, "data"), time.perf_counter()
        command = _xscl("serve", "--data", data, "--port", "0")
        output = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=output, stderr=output, env=INSTALLED) as service:
            try:
                _wait_for(lambda: _status(data), "the service does not answer")
                seconds = time.perf_counter() - began
                cost = {"seconds": seconds, "cpu_s": _processor_time(service.pid)}
                yield data, service.pid, cost
            finally:
                service.terminate()


def _pushed(data: Path, service: int, documents: int) -> Row:
    """Return the processor time of the service, and of the command, for documents."""
    lines = data.with_name("documents.jsonl")
    with lines.open("w") as file:
        for number in range(documents):
            name = "ab"[number % 2]
            xml = f"<{name}><key>{number // 2}</key></{name}>"
            file.write(json.dumps({"xml": xml, "id": str(number)}) + "\n")
    before = _processor_time(service)
    cpu = _command(data, "push", lines, "--stream", "S")
    expected = documents // 2
    _wait_for(lambda: _status(data).get("matches") == expected, f"not {expected} matches")
    figures = values(cpu_s=_processor_time(service) - before, push_cpu_s=cpu, matches=expected)
    return Row(NAME, {"of": "documents", "documents": documents}, figures)


def _at_rest(service: int, threads: int) -> dict[str, Value]:
    """Return the threads of Python in a service, and the memory of all its processes."""
    processes = [service, *_children(service)]
    shares = [
        int(line.split()[1]) << 10
        for process in processes
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        if line.startswith("Pss:")
    ]
    return values(threads=threads, processes=len(processes), pss_mb=sum(shares) / MEGABYTE)


def _xscl(*arguments: object) -> list[str]:
    """Return a command line of `xscl` in this environment."""
    return [sys.executable, "-m", "xscl", *map(str, arguments)]


def _command(data: Path, name: str, *arguments: object) -> float:
    """Run a command that asks the service; return its processor time in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = _xscl(name, *arguments, "--data", data)
    output = subprocess.DEVNULL
    subprocess.run(command, check=True, stdout=output, stderr=subprocess.PIPE, env=INSTALLED)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _status(data: Path) -> dict[str, Any]:
    """Return the status of the service, empty before its first answer."""
    try:
        found: dict[str, Any] = json.loads((data / "status.json").read_text())
    except OSError:
        return {}
    return found if found.get("address") else {}


def _wait_for(condition: Callable[[], object], failure: str) -> None:
    """Wait until a condition holds; raise ResultsDiffer if that takes too long."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise ResultsDiffer(failure)
        time.sleep(LOOK)


def _processor_time(process: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS_PER_SECOND


def _children(process: int) -> Iterator[int]:
    """Yield the processes that a process has started, and theirs."""
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            yield child
            yield from _children(child)
