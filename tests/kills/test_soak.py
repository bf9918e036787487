"""A steady load while the service is killed again and again (row L1).

What grows in hours without a kill is measured by `tests.soak`.

`XSCL_SOAK=3600 python -m pytest -m slow tests/kills/test_soak.py` runs for an hour, as row L1
requires.  The default of slow tests is 90 s; the usual run takes a few seconds, with one kill.
Every process of the service but the last is killed at another point.  The sender repeats
unacknowledged documents, as every client must.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

import xscl
from feeds.faultpoints import VARIABLE, FaultSpec
from tests.kills.processes import ROOT
from tests.xscl.delivery.receiver import Receiver, receiving
from xscl.ingestion.data_directory import DataDirectory
from xscl.store.database import RESTART
from xscl.store.store_file import log_path

SECONDS = float(os.environ.get("XSCL_SOAK", "90"))
RATE = 60.0
"""Documents in a second, at most."""
FEWEST = 20
"""Matches, and there must be more."""
LOG = 2 * RESTART
"""Bytes that the log of the store may have: twice those from which on a checkpoint waits."""
QUERY = "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y"
FAULTS = tuple(
    FaultSpec(point, passage, delay=delay)
    for point, passage, delay in (
        ("spool_written", 12, 0.0),
        ("stored", 8, 0.0),
        ("after_commit", 15, 0.0),
        ("sent", 5, 0.0),
        ("batch_read", 8, 0.0),
        ("joined", 9, 0.0),
        ("before_commit", 14, 0.0),
        ("committed", 7, 0.0),
        ("marked", 16, 0.0),
        ("sent", 4, 0.002),
    )
)


@dataclass(frozen=True, slots=True)
class Soak:
    """The duration and the disturbances of a soak."""

    name: str
    faults: tuple[FaultSpec, ...]
    kills: int
    """Lives that end at a point of their own, at least."""
    seconds: float
    """How long all lives but the last one take together, at least."""
    life: float
    """Seconds that a life may last that reaches no point at which it ends."""
    last: float
    """Seconds of the last life, at least."""


SHORT = Soak("short", (FaultSpec("sent", 5),), 1, 0.0, 60.0, 0.5)
LONG = Soak("long", FAULTS, 4, SECONDS * 5 / 6, SECONDS / 6, SECONDS / 6)


@dataclass
class Load:
    """The sent, received and displayed data of all lives."""

    home: DataDirectory
    enough: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    sent: int = 0
    heard: list[str] = field(default_factory=list)
    closed: Counter[str] = field(default_factory=Counter)
    log: int = 0

    def client(self) -> httpx.Client | None:
        address = self.home.address()
        return None if address is None else httpx.Client(base_url=address, trust_env=False)

    def subscribe(self, receiver: Receiver) -> None:
        """Ask for what is expected, on a webhook as well."""
        client = self.client()
        assert client is not None
        with client:
            at = "/v1/subscriptions/q"
            assert client.put(at, json={"query": QUERY}, timeout=20).status_code == 201
            hook = {"kind": "webhook", "url": receiver.url("/hook")}
            assert client.post(f"{at}/endpoints", json=hook, timeout=20).status_code == 201

    def keep_sending(self) -> None:
        """Send one document after the other; each until it is acknowledged."""
        began = time.monotonic()
        first = self.sent
        while not self.enough.is_set():
            client = self.client()
            if client is None:
                time.sleep(0.05)
                continue
            with client:
                while not self.enough.is_set():
                    ahead = (self.sent - first) / RATE - (time.monotonic() - began)
                    if ahead > 0:
                        time.sleep(ahead)
                    if not self._send(client, self.sent):
                        break
                    self.sent += 1

    def _send(self, client: httpx.Client, number: int) -> bool:
        """Send a document; each has one other of its text, so it is in one match."""
        address = f"/v1/documents/S?id=d{number}&time={number + 1}000000"
        try:
            answer = client.post(address, content=f"<a>{number // 2}</a>", timeout=20)
        except httpx.HTTPError:
            return False
        assert answer.status_code in (202, 429, 503), answer.text
        return answer.status_code == 202

    def keep_listening(self) -> None:
        """Hear matches as they come, and go on after the last one in every life."""
        last = "0"
        while not self.stop.is_set():
            client = self.client()
            if client is None:
                time.sleep(0.05)
                continue
            try:
                with client.stream(
                    "GET", "/v1/subscriptions/q/events", headers={"Last-Event-ID": last}, timeout=5
                ) as answer:
                    id, kind = last, ""
                    for line in answer.iter_lines():
                        name, _, value = line.partition(": ")
                        id = value if name == "id" else id
                        kind = value if name == "event" else kind
                        if name == "data" and kind == "match":
                            self.heard.append(json.loads(value)["data"]["id"])
                            last = id
                        elif name == "data":
                            self.closed[kind] += 1
                        if self.stop.is_set():
                            return
            except httpx.HTTPError:
                time.sleep(0.05)

    def look(self) -> None:
        """Note the size of the log of the store."""
        with suppress(FileNotFoundError):
            self.log = max(self.log, log_path(self.home.database).stat().st_size)


@contextmanager
def life(
    home: DataDirectory, receiver: Receiver, fault: FaultSpec | None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service while the block runs; it is killed then if it was not before."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    if fault is not None:
        variables[VARIABLE] = str(fault)
    command = [sys.executable, "-c", "from xscl.cli import main; main()", "serve", "--no-spark"]
    command += ["--port", "0", "--data", str(home.path)]
    command += ["--allow-address", f"127.0.0.1:{receiver.port}"]
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(check: Callable[[], bool], seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "it did not come true"
        time.sleep(0.1)


def answers(home: DataDirectory, process: subprocess.Popen[bytes]) -> bool:
    """Return True if a life accepts requests or has ended."""
    return home.address() is not None or process.poll() is not None


@pytest.mark.slow
@pytest.mark.parametrize("soak", [SHORT, LONG], ids=lambda soak: soak.name)
def test_l1_steady_load_with_faults(soak: Soak, tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost, no match has two ids, no id has two matches."""
    load = Load(DataDirectory(tmp_path / "data"))
    work = (load.keep_sending, load.keep_listening)
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    faults = itertools.cycle(soak.faults)
    with receiving() as receiver:
        killed, began = 0, time.monotonic()
        while killed < soak.kills or time.monotonic() - began < soak.seconds:
            with life(load.home, receiver, next(faults)) as process:
                wait_for(lambda process=process: answers(load.home, process))  # type: ignore[misc]  # mypy infers no type for the default
                if threads[0].ident is None:  # they have not begun
                    load.subscribe(receiver)
                    for thread in threads:
                        thread.start()
                until = time.monotonic() + soak.life
                while process.poll() is None and time.monotonic() < until:
                    load.look()
                    time.sleep(0.2)
                killed += process.poll() is not None
            assert time.monotonic() - began < 5 * SECONDS
        with life(load.home, receiver, None) as process:
            wait_for(lambda: answers(load.home, process))
            until = time.monotonic() + soak.last
            while time.monotonic() < until or load.sent // 2 <= FEWEST:
                assert process.poll() is None
                assert time.monotonic() < until + 120
                load.look()
                time.sleep(0.2)
            load.enough.set()
            threads[0].join(60)
            matches = load.sent // 2
            assert matches > FEWEST
            wait_for(lambda: len(load.heard) >= matches)
            wait_for(lambda: len(set(receiver.ids("/hook"))) >= matches)
            load.stop.set()
        threads[1].join(60)
        received = receiver.at("/hook")
    with xscl.Engine(load.home.database) as engine:
        found = {match.id: match.documents for match in engine.matches()}
        count = len(engine.matches())
    expected = {(f"d{number}", f"d{number + 1}") for number in range(0, load.sent - 1, 2)}
    assert (count, len(found)) == (len(expected), len(expected))
    assert set(found.values()) == expected
    assert list(dict.fromkeys(load.heard)) == load.heard, (
        "a listener that goes on hears no match twice"
    )
    assert load.heard == list(found), "and all of them, in order"
    assert {got.id for got in received} == set(found)
    assert len({(got.id, got.body) for got in received}) == len(found)
    assert load.log <= LOG
