"""One run: a service, its feeds, its subscriptions and its clients, and what is wrong in the end.

A *soak* is as long as its hours, by a faster clock and with retention; it is judged by what its
clients get, and by what grows.  A run in which `keeps_all` holds is by the usual clock; faults may
happen, and the store is compared with the oracle.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import httpx

import xscl
from tests.plain_http import plain_client
from tests.soak.clients import (
    LOAD,
    Client,
    Findings,
    Listener,
    Poller,
    Poster,
    Surroundings,
    running,
)
from tests.soak.fast_clock import FastClock
from tests.soak.faults import Faults, needs_machine
from tests.soak.hostile import Attacker
from tests.soak.machine import Machine
from tests.soak.measurements import Latencies, Sample, Sampler
from tests.soak.oracle import QUERY, SKIPPED, Printed, differences
from tests.soak.population import EVENTS, TAGS, as_json_lines, population
from tests.soak.publisher import FEEDS, WORDS, Publisher, publishing
from tests.soak.report import Run
from tests.soak.service import CHANGED, SERVE, SOAK, Host
from tests.soak.verdict import Judged, bounded, verdict
from tests.xscl.delivery.receiver import Receiver, receiving, status
from xscl.documents.retention import Retention
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed import feed_key
from xscl.time_format import SECOND

HOUR = 3_600
SPEED = 60.0
"""Hours of the service in an hour of a soak."""
LONGEST_KEPT = 4 * HOUR
"""Seconds of the service's clock for which texts and matches are kept; identities twice as long."""
APART = 20.0
"""Seconds in which two documents come that certainly are in a window of an hour, at speed."""
DRAINS = 300.0
"""Seconds in which everything has to be consumed and delivered in the end."""
IMPORTED = 2_000
"""Subscriptions of one import."""
DEAD = "127.0.1.1:9"
"""An address where nobody listens."""
POSTERS = 3


@dataclass(frozen=True, slots=True)
class Settings:
    """The size of a run; `pace` multiplies the pauses of clients."""

    hours: float = 1.0
    subscriptions: int = 20_000
    feeds: int = FEEDS
    pace: float = 1.0
    every: float = 5.0
    """Seconds between two samples."""
    ends_within: float = 5.0
    seed: int = 1
    keeps_all: bool = False
    load: bool = True
    """With clients besides the posters."""
    hostile: bool = False
    """One client does its worst."""
    faults: tuple[str, ...] = ()
    mounts: bool = True
    """A full disk is a file system of its own, where one can be mounted."""
    options: tuple[str, ...] = ("--no-spark",)
    checkpoint: int | None = None

    @property
    def kept(self) -> int:
        """Seconds of the service's clock for which texts and matches are kept."""
        return round(min(LONGEST_KEPT, max(0.5 * HOUR, self.hours * SPEED * HOUR / 15)))


SHORT = Settings(0.0, subscriptions=0, feeds=0, pace=0.0, keeps_all=True)
"""A run of some seconds as fast as clients can."""


@contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="xscl-soak-"))
    try:
        yield made
    finally:
        if keep:
            print(f"soak: the data is kept in {made}", file=sys.stderr)
        else:
            shutil.rmtree(made)


def run(settings: Settings, *, keep: bool = False) -> Run:
    """Run a soak and judge it."""
    with ExitStack() as stack:
        directory = stack.enter_context(_directory(keep))
        receiver = stack.enter_context(receiving())
        machine = None
        if needs_machine(settings.faults):
            machine = stack.enter_context(closing(Machine(directory, mounts=settings.mounts)))
        home = DataDirectory((machine.disk if machine else directory) / "data")
        clock = FastClock.starting(1.0 if settings.keeps_all else SPEED)
        said: dict[str, object] = {"checkpoint": settings.checkpoint}
        if not settings.keeps_all:
            _retain(home, settings.kept)
            said["clock"] = str(clock)
        publisher = stack.enter_context(publishing(lambda: clock() / SECOND, settings.feeds))
        allowed = [*{url.split("/")[2] for url in publisher.urls()}, DEAD, publisher.address]
        allowed += [f"127.0.0.1:{receiver.port}"]
        changes = {name: value for name, value in said.items() if value is not None}
        host = Host(
            home.path,
            directory,
            (*settings.options, "--log-format=json", *(f"--allow-address={a}" for a in allowed)),
            {SOAK: json.dumps(changes), **(machine.environment if machine else {})},
            CHANGED if changes else SERVE,
        )
        host.start()
        stack.callback(lambda: host.kill())
        return Soak(settings, host, home, receiver, publisher, machine).run()


def _retain(home: DataDirectory, seconds: int) -> None:
    """Prepare a data directory that keeps things for some seconds of the service's clock."""
    home.create()
    kept = seconds * SECOND
    with xscl.Engine(home.database) as engine:
        engine.retain(Retention(history=kept, matches=kept, identities=2 * kept))


class Soak:
    """A running service with everything around it."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        home: DataDirectory,
        receiver: Receiver,
        publisher: Publisher,
        machine: Machine | None,
    ) -> None:
        self._settings = settings
        self._host = host
        self._home = home
        self._receiver = receiver
        self._publisher = publisher
        self._findings = Findings()
        self._latencies = Latencies()
        query = QUERY if settings.keeps_all else QUERY.replace("30 d", "1 h")
        self._around = Surroundings(
            host.address,
            settings.seed,
            self._findings,
            self._latencies,
            receiver,
            publisher.address,
            settings.pace,
            query,
        )
        self._posters = [Poster(self._around, number) for number in range(POSTERS)]
        ends = settings.ends_within
        self._faults = Faults(settings.faults, host, machine, self._findings, ends, settings.seed)
        self._done = dict[str, float]()

    def run(self) -> Run:
        """Set up, load, drain, end; return what came of it."""
        assert self._host.wait_until_there(), self._host.errors()
        self._set_up()
        clients: list[Client] = [*self._posters, Poller(self._around, 9)]
        if self._settings.load:
            kinds = [kind for kind, count in LOAD for _ in range(count)]
            clients += [kind(self._around, 10 + number) for number, kind in enumerate(kinds)]
        for client in clients:
            client.begin()
        if self._settings.hostile:
            clients.append(Attacker(self._around, 90))
        listeners = [Listener(poster) for poster in self._posters]
        sampler = Sampler(self._host, self._home, self._latencies)
        findings = self._findings
        with closing(sampler):
            with running(*(one.run for one in listeners), stop=findings.stop):
                with running(*(one.run for one in clients), stop=findings.quiet):
                    self._watch(sampler)
                lost = self._drain()
            wrong = [*findings.wrong, *sampler.wrong, *lost, *self._end()]
        if not self._settings.faults:
            logged = self._logged('"level": "ERROR"')
            wrong += [f"logged: {one[:150]} ... {one[-300:]}" for one in logged]
        if not wrong and self._settings.keeps_all:
            wrong += self._differences()
        return self._judged(sampler.samples, wrong)

    # -- Before ----------------------------------------------------------------------------

    def _set_up(self) -> None:
        """Follow the feeds, declare streams, subscribe."""
        with plain_client(self._host.address, timeout=600) as client:
            for number, url in enumerate(self._publisher.urls()):
                tags = [TAGS[number % len(TAGS)]]
                new = {"url": url, "stream": f"feed{number}", "tags": tags, "keep": True}
                _expect(client.post("/v1/feeds", json=new))
            attributes = {"item": "str", "key": "str", "price": "float"}
            _expect(client.put("/v1/streams/sales", json={"attributes": attributes}))
            rows = population(self._settings.subscriptions, WORDS)
            began = time.monotonic()
            while part := list(islice(rows, IMPORTED)):
                kind = {"content-type": "application/x-ndjson"}
                body = as_json_lines(iter(part))
                _expect(client.post("/v1/subscriptions:import", content=body, headers=kind))
            self._done["seconds of registration"] = round(time.monotonic() - began, 1)
            for language, query in EVENTS:
                for number in range(self._settings.subscriptions // 200):
                    new = {"query": query.format(item=number), "language": language}
                    _expect(client.put(f"/v1/subscriptions/{language}{number}", json=new))
            self._receiver.does("/failing", status(500))
            for number in range(min(20, self._settings.subscriptions)):
                url = (
                    f"http://{DEAD}/",
                    self._receiver.url("/failing"),
                    *(self._receiver.url("/bulk"),) * 8,
                )[number % 10]
                at = f"/v1/subscriptions/p{number:05}/endpoints"
                _expect(client.post(at, json={"kind": "webhook", "url": url}))

    # -- Meanwhile -------------------------------------------------------------------------

    def _watch(self, sampler: Sampler) -> None:
        """Sample, or make faults, until the time is over and each was made, or all is lost.

        On a busy machine it goes on until some pairs have to be delivered.
        """
        until, faults = time.monotonic() + self._settings.hours * HOUR, self._faults
        while (
            time.monotonic() < until
            or not all(faults.struck.values())
            or not any(poster.sent.pairs() for poster in self._posters)
        ):
            if self._settings.keeps_all and self._findings.wrong:
                break
            if faults.struck:
                faults.strike()
                continue
            sample = sampler.sample()
            self._receiver.got.clear()
            if len(sampler.samples) % 12 == 0:
                print(_line(sample), file=sys.stderr, flush=True)
            if (code := self._host.exit_code) is not None:
                self._findings.found(f"the service ended with {code}: {self._host.errors()[-5:]}")
                break
            time.sleep(max(0.0, min(self._settings.every, until - time.monotonic())))
        if faults.struck:
            faults.recover()

    # -- The end ---------------------------------------------------------------------------

    def _drain(self) -> list[str]:
        """Wait until everything is consumed, printed and delivered; return what is lost."""
        until, lost = time.monotonic() + DRAINS, ["the service has ended"]
        apart = float("inf") if self._settings.keeps_all else APART
        with plain_client(self._host.address) as client:
            while time.monotonic() < until and self._host.exit_code is None:
                figures = client.get("/v1/status").json()["service"]
                if figures["waiting"] == 0 and figures["position"] == figures["spool"]:
                    self._settle(client)
                    lost = [text for one in self._posters for text in one.sent.undelivered(apart)]
                    lost += self._unread(client)
                    lost += [
                        f"{one} got no answer" for p in self._posters for one in p.sent.unknown
                    ]
                    if not lost and self._is_printed():
                        break
                else:
                    lost = [f"what was acknowledged is not consumed: {figures}"]
                time.sleep(0.3)
        return lost

    def _settle(self, client: httpx.Client) -> None:
        """Ask which of the documents that got no answer were taken."""
        for one in (poster.sent for poster in self._posters):
            if one.unknown:
                listed = ", ".join(f"'{name}'" for name in sorted(one.unknown))
                query = f"SELECT id FROM documents WHERE id IN ({listed})"
                answer = client.post("/v1/sql", json={"query": query})
                if answer.status_code == 200:  # else SQL is stopped on a busy machine
                    one.settle({name for (name,) in answer.json()["rows"]})

    def _unread(self, client: httpx.Client) -> Iterator[str]:
        """Yield the subscriptions whose histories are not read yet."""
        for name in (name for poster in self._posters for name in poster.sent.kinds):
            history = client.get(f"/v1/subscriptions/{name}").json().get("history")
            if history not in ("read", "none"):
                yield f"the history of {name} is {history}"

    def _is_printed(self) -> bool:
        """Return True if all matches are printed: SIGTERM leaves the rest to the next start."""
        if not self._settings.keeps_all:
            return True
        _, printed = self._host.printed()
        return bool(printed[SKIPPED]) or all(
            printed[poster.sent.subscription] >= poster.sent.pairs().total()
            for poster in self._posters
        )

    def _end(self) -> list[str]:
        began = time.monotonic()
        wrong = self._host.stop(self._settings.ends_within)
        self._done["seconds from SIGTERM to the end"] = round(time.monotonic() - began, 2)
        return [] if wrong is None else [wrong]

    def _differences(self) -> list[str]:
        """Return in what the stopped store is not as it must be."""
        path = "/known"
        key = feed_key(f"http://{self._publisher.address}{path}")
        items = [f"{key}#{one}" for one in self._publisher.items(path)]
        printed = Printed(self._host.printed()[0], was_killed=len(self._host.lives) > 1)
        sent = [poster.sent for poster in self._posters]
        return differences(self._home.database, sent, items, printed)

    def _judged(self, samples: Sequence[Sample], wrong: Sequence[str]) -> Run:
        last = samples[-1].figures if samples else {}
        sent = [poster.sent for poster in self._posters]
        answers = self._publisher.answers
        self._done |= {
            "requests": self._findings.requests,
            "refused with Retry-After": self._findings.refused,
            "documents": last.get("pushed_documents_total", 0),
            "matches": last.get("pushed_matches_total", 0),
            "documents of posters": sum(len(one.acknowledged) for one in sent),
            "pairs that had to be delivered": sum(one.pairs().total() for one in sent),
            "answers of feeds": answers.total(),
            "misbehaving answers": answers.total() - answers["feed"] - answers["unchanged"],
            "subscriptions": last.get("subscriptions", 0),
            "most seconds of a start": round(max(self._faults.lives, default=0.0), 2),
        }
        judged = [Judged(one, False) for one in dict.fromkeys(wrong)]
        if not self._settings.keeps_all:
            judged += verdict(samples)
        if self._settings.hostile:
            judged += bounded(samples)
        if not wrong:
            judged.append(Judged("no 5xx, nothing lost or doubled, a clean end", True))
        facts: Mapping[str, object] = {**asdict(self._settings), "kept": self._settings.kept}
        notes = self._logged('"level": "WARNING"')[-50:]
        return Run(facts, self._done, samples, judged, dict(self._faults.struck), notes)

    def _logged(self, level: str) -> list[str]:
        """Return the lines of the service's log of one level."""
        return [one for one in self._host.errors() if level in one]


def _expect(answer: httpx.Response) -> httpx.Response:
    assert answer.status_code < 300, f"{answer.request.url}: {answer.status_code} {answer.text}"
    return answer


def _line(sample: Sample) -> str:
    """Return a line of progress."""
    names = ("rss", "handles", "threads", "cores", "documents", "waiting", "push_p95", "events_p95")
    shown = ", ".join(f"{name} {sample.figures.get(name, 0):,.1f}" for name in names)
    return f"soak: {sample.at / 60:6.1f} min: {shown}"
