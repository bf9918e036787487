"""A simulated world: clients, publishers and receivers around one service, faults, and a model.

The model holds what the service has acknowledged.  A request that got no answer may or may not have
been done; the store at the end says which.
"""

from __future__ import annotations

import errno
import json
import math
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import xscl
from tests.simulation import disk
from tests.simulation.network import Answer, Network, Request
from tests.simulation.scheduler import NS, Scheduler
from tests.simulation.service import Listening, Process, Refused, Response, Silent
from tests.stress.oracle import QUERY, Sent
from xscl.polling.feed_poller import PollSettings

HOUR = 3600.0
CALM = 900.0
"""Virtual seconds without faults at the end, in which the service has to become healthy."""
SLOW = 6.0
"""Virtual seconds in which requests are answered: idle waits only, as work takes no time."""
SETTLED = 120.0
"""Virtual seconds after a fault or a start in which requests may take longer."""
POSTERS = 3
PUSHES = 330
"""Documents an hour."""
BURSTS = 20
SHARED = "S"
"""A stream to which requests come at the same time."""
REGISTRATIONS = 34
READS = 14
FAULTS = 6
HOOK = "hook.example"
FEED = "feed.example"


@dataclass
class Model:
    """The acknowledged requests, and counts, to check the service against."""

    sent: list[Sent] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    subscriptions: dict[str, bool | None] = field(default_factory=dict)  # None: unknown
    published: list[str] = field(default_factory=list)
    shared: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class World:
    """One simulation: `run` returns what is wrong."""

    def __init__(self, scheduler: Scheduler, root: Path, hours: float) -> None:
        self.scheduler = scheduler
        self.draw = random.Random(f"world {scheduler.seed}")
        self.root = root
        self.hours = hours
        self.model = Model()
        self.network = Network(random.Random(f"network {scheduler.seed}"))
        self.network.sites = {HOOK: self._receive, FEED: self._publish}
        self.network.install()
        self.lives = 0
        self.process: Process | None = None
        self.disk: disk.Disk | None = None
        self.faulty = True
        self.ended = False
        self.events: list[str] = []
        self._disturbed = 0.0
        self._registering: set[str] = set()
        self._receiver_ok = True
        self._feed_answer: Answer | None = None

    def run(self) -> list[str]:
        """Run the simulation for its virtual hours; return the violations."""
        self._boot(self.root / "life0")
        for number in range(POSTERS):
            self.model.sent.append(Sent(f"P{number}", f"pairs-{number}"))
        self._prepare()
        actors: list[tuple[str, float, Callable[[], None]]] = [
            *((f"poster {n}", PUSHES / POSTERS, self._poster(n)) for n in range(POSTERS)),
            ("burst", BURSTS, self._burst),
            ("registrar", REGISTRATIONS, self._register),
            ("reader", READS, self._read),
            ("publisher", 6, self._write_item),
            ("faults", FAULTS, self._break),
        ]
        threads = [
            threading.Thread(target=self._act, args=actor, name=actor[0], daemon=True)
            for actor in actors
        ]
        supervisor = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        for thread in [*threads, supervisor]:
            thread.start()
        for thread in threads:
            thread.join()
        self._calm()
        self.ended = True
        supervisor.join()
        return self.model.wrong

    # The service and its directory

    def _boot(self, data: Path) -> None:
        """Start the service on a directory."""
        data.mkdir(parents=True, exist_ok=True)
        log = Path(str(self.root / "log"))
        self.disk = disk.Disk(data, log)
        self.lives += 1
        fetching = PollSettings(resolve=self.network.resolve)
        self.process = Process(self.scheduler, self.lives, data, fetching)
        self.process.start()
        self._disturbed = time.monotonic()

    def _supervise(self) -> None:
        """Start the service again whenever it has ended, as an init system does."""
        failed = 0
        while not self.ended:
            time.sleep(1)
            process = self.process
            if process is None or process.is_alive:
                failed = 0 if Listening.current else failed
                continue
            self._note(f"the service ended: {process.error!r}")
            failed += 1
            if failed > 5 and not self.faulty:
                self._wrong(f"the service does not start: {process.error!r}")
                return
            time.sleep(5)
            if self.process is process:
                self._boot(process.data)

    def _crash(self, *, power: bool) -> None:
        """Kill the service; without power, also what the disk had not synced is lost."""
        process, old = self.process, self.disk
        if process is None or old is None:
            return
        process.crash()
        into = self.root / f"life{self.lives}"
        draw = random.Random(f"crash {self.scheduler.seed} {self.lives}")
        old.crash(into, draw if power else None)
        self.process = None
        time.sleep(self.draw.uniform(0.1, 20))
        self._boot(into)

    def ask(
        self, method: str, path: str, told: object = None, query: dict[str, str] | None = None
    ) -> Response:
        """Make a request; raises Refused."""
        process = self.process
        if process is None:
            raise Refused
        body = (
            told if isinstance(told, bytes) else b"" if told is None else json.dumps(told).encode()
        )
        kind = (
            {} if told is None or isinstance(told, bytes) else {"content-type": "application/json"}
        )
        began = time.monotonic()
        try:
            answer = process.request(method, path, body, query, kind)
        except Silent:
            self._wrong(f"{method} {path} was not answered")
            raise
        took = time.monotonic() - began
        if took > SLOW and began - self._disturbed > SETTLED:
            self._wrong(f"{method} {path} took {took:.1f} s, and nothing was wrong")
        if answer.status >= 500 and "retry-after" not in answer.headers and not self.faulty:
            self._wrong(f"{method} {path}: {answer.status} {answer.body[:200]!r}")
        return answer

    def until(self, method: str, path: str, told: object = None) -> Response:
        """Repeat a request until it is answered with success."""
        last = "no answer"
        for _ in range(600):
            with suppress(Refused):  # it may be starting
                answer = self.ask(method, path, told)
                if answer.status < 400:
                    return answer
                last = f"{answer.status} {answer.body!r}"
            time.sleep(1)
        raise AssertionError(f"{method} {path} does not succeed: {last}")

    # Actors

    def _act(self, name: str, rate: float, act: Callable[[], None]) -> None:
        draw = random.Random(f"{name} {self.scheduler.seed}")
        while True:
            time.sleep(draw.uniform(0, 2 * HOUR / rate))
            if self.scheduler.now / NS > self.hours * HOUR:
                return
            try:
                act()
            except Refused:
                self.model.counts["refused"] += 1

    def _prepare(self) -> None:
        for sent in self.model.sent:
            query = {"query": QUERY.format(stream=sent.stream)}
            self.until("PUT", f"/v1/subscriptions/{sent.subscription}", query)
        query = {"query": QUERY.format(stream=SHARED)}
        self.until("PUT", "/v1/subscriptions/shared", query)
        query = {"query": "F//item[./title->x] FOLLOWED BY{x=y, 1 d} F//item[./title->y]"}
        self.until("PUT", "/v1/subscriptions/items", query)
        hook = {"kind": "webhook", "url": f"http://{HOOK}/pairs-0"}
        self.until("POST", "/v1/subscriptions/pairs-0/endpoints", hook)
        self.until("POST", "/v1/feeds", {"url": f"http://{FEED}/", "stream": "F", "every": "5 min"})

    def _poster(self, number: int) -> Callable[[], None]:
        def post() -> None:
            sent = self.model.sent[number]
            made = len(sent.acknowledged) + len(sent.refused)
            name, key = f"{number}-{made}", f"{number}-{made // 8}-{self.draw.randrange(4)}"
            self.model.counts["pushes"] += 1
            sent.acknowledged.append((name, key))
            self.model.unknown.add(name)  # until there is an answer; else the store decides
            content = f"<a><k>{key}</k></a>".encode()
            answer = self.ask("POST", f"/v1/documents/{sent.stream}", content, {"id": name})
            if answer.status == 202:
                self.model.unknown.discard(name)
            elif answer.status in (429, 503):
                self.model.unknown.discard(name)
                sent.acknowledged.pop()
                sent.refused.add(name)

        return post

    def _burst(self) -> None:
        """Post documents to one stream at the same time; their order is the service's."""
        burst = self.model.counts["bursts"]
        self.model.counts["bursts"] += 1

        def post(name: str) -> None:
            time.sleep(random.Random(name).random())
            self.model.counts["pushes"] += 1
            path, content = f"/v1/documents/{SHARED}", f"<a><k>{burst}</k></a>".encode()
            with suppress(Refused):  # the store decides
                if self.ask("POST", path, content, {"id": name}).status == 202:
                    self.model.shared.add(name)

        names = [f"burst-{burst}-{n}" for n in range(12)]
        threads = [threading.Thread(target=post, args=(name,), name=name) for name in names]
        threads += [threading.Thread(target=self._register_soon) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _register_soon(self) -> None:
        time.sleep(self.draw.random())
        with suppress(Refused):
            self._register()

    def _register(self) -> None:
        name = f"s{self.draw.randrange(40)}"
        if name in self._registering:
            return
        self._registering.add(name)
        try:
            self._register_as(name)
        finally:
            self._registering.discard(name)

    def _register_as(self, name: str) -> None:
        path = f"/v1/subscriptions/{name}"
        self.model.counts["registrations"] += 1
        before = self.model.subscriptions.get(name, False)
        self.model.subscriptions[name] = None
        if before and self.draw.random() < 0.5:
            answer = self.ask("DELETE", path)
            if answer.status == 204:
                self.model.subscriptions[name] = False
            return
        stream = f"P{self.draw.randrange(POSTERS)}"
        query = self.draw.choice(
            [
                QUERY.format(stream=stream),
                f"{stream}//a[./k->x] NEXT{{x=y}} {stream}//a[./k->y]",
                f"{stream}//a[./k->x] NOT FOLLOWED BY{{x=y, 10 min}} {stream}//a[./k->y]",
                f"{stream}//a->a",
                f"{stream}//a[./k->x] FOLLOWED BY{{x=y, 20 min}} F//item/title->y",
            ]
        )
        answer = self.ask("PUT", path, {"query": query})
        if answer.status < 300 or (answer.status == 409 and before is not False):
            self.model.subscriptions[name] = True
        elif answer.status < 500:
            self._wrong(f"{query!r} is refused: {answer.status} {answer.body[:200]!r}")

    def _read(self) -> None:
        self.model.counts["reads"] += 1
        path = self.draw.choice(
            [
                "/v1/status",
                "/v1/matches",
                "/v1/subscriptions/pairs-1/matches",
                "/v1/feeds",
                "/status",
            ]
        )
        answer = self.ask("GET", path)
        if answer.status == 200 and path.endswith("/matches"):
            ids = [match["id"] for match in json.loads(answer.body)["matches"]]
            if len(ids) != len(set(ids)):
                self._wrong(f"a page of {path} has a match twice")

    def _write_item(self) -> None:
        self.model.published.append(f"item-{len(self.model.published)}")

    def _publish(self, request: Request) -> Answer:
        if self._feed_answer is not None:
            return self._feed_answer
        items = "".join(
            f"<item><guid isPermaLink='false'>{name}</guid><title>{name}</title></item>"
            for name in self.model.published[-200:]
        )
        body = f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()
        return Answer(body, headers={"Content-Type": "application/rss+xml"})

    def _receive(self, request: Request) -> Answer:
        if not self._receiver_ok:
            return self.draw.choice([Answer(status=503), Answer(status=None), Answer(delay=40)])
        self.model.received[json.loads(request.body)["data"]["id"]] += 1
        return Answer(status=204)

    # Faults

    def _break(self) -> None:
        self.model.counts["faults"] += 1
        fault = self.draw.choice(
            [
                *(self._lose_power, self._kill, self._stop, self._break_disk, self._fill_disk),
                *(self._step_clock, self._break_receiver, self._break_feed, self._break_network),
            ]
        )
        self._note(fault.__name__)
        self._disturbed = math.inf
        fault()
        self._disturbed = time.monotonic()

    def _lose_power(self) -> None:
        self._crash(power=True)

    def _kill(self) -> None:
        self._crash(power=False)

    def _stop(self) -> None:
        if self.process is not None:
            self.process.stop()

    def _break_disk(self) -> None:
        disk.fail(errno.EIO, self.draw.randrange(40), self.draw.choice([1, 1, 2, 5]))

    def _fill_disk(self) -> None:
        disk.fail(errno.ENOSPC, self.draw.randrange(40), self.draw.choice([1, 3, 20]))

    def _step_clock(self) -> None:
        seconds = self.draw.choice([-3600, -60, -2, 2, 60, 3600, 86_400])
        self.scheduler.wall_offset += seconds * NS
        time.sleep(self.draw.uniform(1, 400))
        self.scheduler.wall_offset -= seconds * NS

    def _break_receiver(self) -> None:
        self._receiver_ok = False
        time.sleep(self.draw.uniform(1, 300))
        self._receiver_ok = True

    def _break_feed(self) -> None:
        self._feed_answer = self.draw.choice(
            [
                *(Answer(status=500), Answer(status=None), Answer(b"<rss", cut=2)),
                *(Answer(b"no feed"), Answer(status=429, headers={"Retry-After": "60"})),
                Answer(b'<rss version="2.0"><channel><item><title>cut', delay=10),
            ]
        )
        time.sleep(self.draw.uniform(60, 900))
        self._feed_answer = None

    def _break_network(self) -> None:
        self.network.lost, self.network.latency = self.draw.random(), self.draw.uniform(0, 30)
        time.sleep(self.draw.uniform(1, 300))
        self.network.lost, self.network.latency = 0.0, 0.05

    # The end

    def _calm(self) -> None:
        """End all faults, wait until the service is healthy, and compare it with the model."""
        disk.fail(0, 0, 0)
        self.faulty = False
        time.sleep(CALM)
        try:
            health = self.until("GET", "/v1/health")
            if health.status != 200:
                self._wrong(f"the service is not healthy: {health.body[:200]!r}")
            self._compare_subscriptions()
        except (AssertionError, Refused) as error:
            self._wrong(f"the service does not answer after the faults: {error!r}")
        process = self.process
        if process is None:
            self._wrong("no service runs after the faults")
            return
        self.ended = True
        process.stop()
        for _ in range(600):
            if not process.is_alive:
                break
            time.sleep(0.1)
        if process.is_alive:
            self._wrong("the service does not end\n" + self.scheduler.describe())
            return
        if process.error is not None:
            self._wrong(f"the service ended with {process.error!r}")
        self._compare_store(process.data / "state.duckdb")

    def _compare_subscriptions(self) -> None:
        listed = json.loads(self.until("GET", "/v1/subscriptions").body)
        names = {one["name"] for one in listed["items"]}
        for name, there in self.model.subscriptions.items():
            if there is not None and there != (name in names):
                self._wrong(f"the subscription {name} should be {'' if there else 'not '}there")

    def _compare_store(self, database: Path) -> None:
        with xscl.Engine(database) as engine:
            rows = engine.sql("SELECT id FROM documents")["id"].to_pylist()
            kept = Counter(rows)
            for sent in self.model.sent:
                lost = {n for n, _ in sent.acknowledged if n not in kept} - self.model.unknown
                if lost:
                    self._wrong(f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}")
                if taken := sent.refused & kept.keys():
                    self._wrong(f"refused documents were stored: {sorted(taken)[:3]}")
                stored = [(n, k) for n, k in sent.acknowledged if n in kept]
                expected = Sent(sent.stream, sent.subscription, stored).pairs()
                matches = _matches(engine, sent.subscription)
                found = Counter(documents for _, documents in matches)
                for what, those in (("lost", expected - found), ("too many", found - expected)):
                    if those:
                        told = f"{those.total()} matches {what}: {list(those)[:3]}"
                        self._wrong(f"{sent.subscription}: {told}")
                if sent.subscription == "pairs-0":
                    ids = {id for id, _ in matches}
                    if missing := ids - self.model.received.keys():
                        self._wrong(f"{len(missing)} of {len(ids)} matches were not delivered")
                    if strange := self.model.received.keys() - ids:
                        self._wrong(f"{len(strange)} deliveries of matches that are not there")
                self.model.counts["matches"] += len(matches)
            items = sum(times for name, times in kept.items() if name.startswith(FEED))
            self.model.counts["items"] = items
            if items != len(self.model.published):
                self._wrong(f"{len(self.model.published)} items were published, {items} are stored")
            if lost := self.model.shared - kept.keys():
                self._wrong(f"{len(lost)} acknowledged documents are lost: {sorted(lost)[:3]}")
            late = engine.sql("SELECT * FROM late").to_pylist()
            if stamped := [row for row in late if FEED not in str(row)]:
                self._wrong(f"documents that the service dated were late: {stamped[:2]}")
            if doubled := [name for name, times in kept.items() if times > 1]:
                self._wrong(f"{len(doubled)} documents are stored twice: {doubled[:3]}")

    def _note(self, text: str) -> None:
        self.events.append(f"{self.scheduler.now / NS:10.3f} s  {text}")

    def _wrong(self, text: str) -> None:
        self._note(f"WRONG: {text}")
        self.model.wrong.append(text)


def _matches(engine: xscl.Engine, subscription: str) -> list[tuple[str, tuple[str, ...]]]:
    found: list[tuple[str, tuple[str, ...]]] = []
    after, more = 0, True
    while more:
        page = engine.matches_of(subscription, after=after, limit=1_000)
        found += [(match.id, match.documents) for match in page.matches]
        after, more = page.end, page.more
    return found
