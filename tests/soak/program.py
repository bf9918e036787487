"""One soak: a service, its feeds, its subscriptions and its users, for some hours."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import httpx

import xscl
from tests.soak import memory, replay
from tests.soak.fast_clock import FastClock
from tests.soak.measurements import Latencies, Sample, Sampler
from tests.soak.population import EVENTS, TAGS, as_json_lines, population
from tests.soak.report import Run
from tests.soak.users import (
    Asker,
    Listener,
    Pairer,
    Reader,
    Surroundings,
    Tally,
    Trader,
    Visiting,
    Visitor,
    running,
)
from tests.soak.verdict import Judged, verdict
from tests.stress.service import Serving
from tests.xscl.delivery.receiver import Receiver, receiving, status
from xscl.documents.retention import Retention
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import SECOND

HOUR = 3_600
SPEED = 60.0
"""Hours of the service in an hour."""
LONGEST_KEPT = 4 * HOUR
"""Seconds of the service's clock for which texts and matches are kept; identities twice as long."""
DRAINS = 300.0
"""Seconds in which everything has to be consumed and delivered in the end."""
ENDS_WITHIN = 5.0
IMPORTED = 2_000
"""Subscriptions of one import."""
DEAD = "127.0.1.1:9"
"""An address where nobody listens."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The size of a run; `pace` multiplies the pauses of clients."""

    hours: float = 1.0
    subscriptions: int = 20_000
    feeds: int = replay.FEEDS
    pace: float = 1.0
    every: float = 5.0
    """Seconds between two samples."""
    ends_within: float = ENDS_WITHIN

    @property
    def kept(self) -> int:
        """Seconds of the service's clock for which texts and matches are kept."""
        return round(min(LONGEST_KEPT, max(0.5 * HOUR, self.hours * SPEED * HOUR / 15)))


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


def run(
    settings: Settings, *, keep: bool = False, program: Sequence[str] = ("tests.soak.service",)
) -> Run:
    """Run a soak and judge it; `program` is the module that serves."""
    with ExitStack() as stack:
        directory = stack.enter_context(_directory(keep))
        clock = FastClock.starting(SPEED)
        feeds = stack.enter_context(replay.replaying(replay.seconds_of(clock), settings.feeds))
        receiver = stack.enter_context(receiving())
        home = DataDirectory(directory / "data")
        _retain(home, settings.kept)
        allowed = [*{url.split("/")[2] for url in feeds.urls()}, DEAD]
        options = ["--log-format=json", f"--allow-address=127.0.0.1:{receiver.port}"]
        options += [f"--allow-address={one}" for one in allowed]
        environment = {memory.VARIABLE: str(directory / "memory")}
        service = Serving(home.path, ("-m", *program, str(clock)), options, environment=environment)
        stack.callback(service.kill)
        soak = Soak(settings, service, home, receiver, feeds)
        return soak.run()


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
        service: Serving,
        home: DataDirectory,
        receiver: Receiver,
        feeds: replay.Replay,
    ) -> None:
        self._settings = settings
        self._service = service
        self._home = home
        self._receiver = receiver
        self._feeds = feeds
        self._tally = Tally()
        self._latencies = Latencies()
        self._done = dict[str, float]()

    def run(self) -> Run:
        """Set up, load, drain, end; return what came of it."""
        address = self._service.wait_until_there()
        around = Surroundings(
            address, self._tally, self._latencies, self._receiver, self._settings.pace
        )
        self._set_up(address)
        pairers = [Pairer(around, number) for number in range(3)]
        for pairer, ways in zip(
            pairers, (("webhook", "slow"), ("webhook",), ("webhook",)), strict=True
        ):
            pairer.begin(*ways)
        listeners = [Listener(pairer) for pairer in pairers]
        others: list[Visiting] = [
            *(Trader(around, 10), Trader(around, 11)),
            *(Visitor(around, number) for number in range(20, 23)),
            *(Reader(around, 30), Asker(around, 40)),
        ]
        sampler = Sampler(
            self._service.pid,
            self._home,
            address,
            self._latencies,
            self._home.path.parent / "memory",
        )
        senders = [one.run for one in (*pairers, *others)]
        with contextlib.closing(sampler):
            with running(*(one.run for one in listeners), stop=self._tally.stop):
                with running(*senders, stop=self._tally.quiet):
                    self._watch(sampler)
                lost = self._drain(address, pairers)
            wrong = [*self._tally.wrong, *sampler.wrong, *lost, *self._end()]
            wrong += [
                f"logged: {one[:150]} ... {one[-300:]}" for one in self._logged('"level": "ERROR"')
            ]
        return self._judged(sampler.samples, wrong, pairers)

    # -- Before ----------------------------------------------------------------------------

    def _set_up(self, address: str) -> None:
        """Follow the feeds, declare streams, subscribe."""
        with httpx.Client(base_url=address, timeout=600, trust_env=False) as client:
            for number, url in enumerate(self._feeds.urls()):
                tags = [TAGS[number % len(TAGS)]]
                new = {"url": url, "stream": f"feed{number}", "tags": tags}
                _expect(client.post("/v1/feeds", json=new))
            attributes = {"item": "str", "key": "str", "price": "float"}
            _expect(client.put("/v1/streams/sales", json={"attributes": attributes}))
            rows = population(self._settings.subscriptions, replay.words(400))
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
            for number in range(20):
                url = (
                    f"http://{DEAD}/",
                    self._receiver.url("/failing"),
                    *(self._receiver.url("/bulk"),) * 8,
                )[number % 10]
                at = f"/v1/subscriptions/p{number:05}/endpoints"
                _expect(client.post(at, json={"kind": "webhook", "url": url}))

    # -- Meanwhile -------------------------------------------------------------------------

    def _watch(self, sampler: Sampler) -> None:
        """Sample until the time is over or the service ends."""
        until = time.monotonic() + self._settings.hours * HOUR
        while time.monotonic() < until:
            sample = sampler.sample()
            self._receiver.got.clear()
            if len(sampler.samples) % 12 == 1:
                print(_line(sample), file=sys.stderr, flush=True)
            if self._service.exit_code is not None:
                break
            time.sleep(self._settings.every)

    # -- The end ---------------------------------------------------------------------------

    def _drain(self, address: str, pairers: Sequence[Pairer]) -> list[str]:
        """Wait until everything is consumed and delivered; return what is lost."""
        until = time.monotonic() + DRAINS
        lost = ["the service has ended"]
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            while time.monotonic() < until and self._service.exit_code is None:
                figures = client.get("/v1/status").json()["service"]
                lost = [one for pairer in pairers for one in pairer.ledger.lost()]
                if figures["waiting"] == 0 and not lost:
                    break
                time.sleep(0.5)
        return lost

    def _end(self) -> list[str]:
        began = time.monotonic()
        wrong = self._service.stop(self._settings.ends_within)
        self._done["seconds from SIGTERM to the end"] = round(time.monotonic() - began, 2)
        return [] if wrong is None else [wrong]

    def _judged(
        self, samples: Sequence[Sample], wrong: Sequence[str], pairers: Sequence[Pairer]
    ) -> Run:
        last = samples[-1].figures if samples else {}
        self._done |= {
            "requests": self._tally.requests,
            "refused with Retry-After": self._tally.refused,
            "documents": last.get("pushed_documents_total", 0),
            "matches": last.get("pushed_matches_total", 0),
            "pairs that had to be delivered": sum(len(one.ledger.due) for one in pairers),
            "messages of them": sum(one.ledger.messages for one in pairers),
            "answers of feeds": self._feeds.answers.total(),
            "misbehaving answers": sum(
                count
                for does, count in self._feeds.answers.items()
                if does not in ("feed", "unchanged")
            ),
            "subscriptions": last.get("subscriptions", 0),
        }
        judged = verdict(samples, wrong)
        if not wrong:
            judged.append(Judged("health is ok, no 5xx, no lost delivery, a clean end", True))
        facts = {**asdict(self._settings), "speed": SPEED, "kept": self._settings.kept}
        return Run(facts, self._done, samples, judged, self._logged('"level": "WARNING"')[-50:])

    def _logged(self, level: str) -> list[str]:
        """Return the lines of the service's log of one level."""
        return [one for one in self._service.errors if level in one]


def _expect(answer: httpx.Response) -> None:
    assert answer.status_code < 300, f"{answer.request.url}: {answer.status_code} {answer.text}"


def _line(sample: Sample) -> str:
    """Return a line of progress."""
    names = ("rss", "handles", "threads", "cores", "documents", "waiting", "push_p95", "events_p95")
    shown = ", ".join(f"{name} {sample.figures.get(name, 0):,.1f}" for name in names)
    return f"soak: {sample.at / 60:6.1f} min: {shown}"
