"""Clients of a soak, and what must be delivered to them.

    Pairer     sends pairs of documents that match, to a stream and a subscription of its own
    Listener   follows a pairer's matches as server-sent events
    Trader     sends orders, payments and sales, which many subscriptions join
    Visitor    a user who comes, subscribes, sends, reads, unsubscribes and goes
    Reader     pages, lists and syndicated matches
    Asker      SQL

A pair whose two documents are acknowledged in time must be delivered once as an event and at least
once to each webhook.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.soak.measurements import Latencies
from tests.soak.population import ITEMS
from tests.stress.clients import Client, Findings
from tests.xscl.delivery.receiver import OK, Does, Got, Receiver

PAIRS = "{stream}//a[./k->x] FOLLOWED BY{{x = y, 1 h}} {stream}//a[./k->y]"
APART = 20.0
"""Seconds between two acknowledgements within which the window certainly holds (60 s at speed)."""
SEVERAL = 100
"""Violations that are kept."""


@dataclass
class Tally(Findings):
    """Violations that do not end the run; `quiet` ends the senders, `stop` the listeners too."""

    quiet: threading.Event = field(default_factory=threading.Event)

    def found(self, what: str) -> None:
        with self._mutex:
            if len(self.wrong) < SEVERAL:
                self.wrong.append(what)


@dataclass
class Ledger:
    """The pairs that were sent and what was delivered of them, by their second documents."""

    sent: dict[str, float] = field(default_factory=dict)
    """When the second document was sent."""
    due: set[str] = field(default_factory=set)
    """Those that must be delivered."""
    delivered: dict[str, set[str]] = field(default_factory=dict)
    """By way."""
    messages: int = 0
    refused: int = 0

    def lost(self) -> Iterator[str]:
        """Yield what is not delivered."""
        due = set(self.due)
        for way, there in self.delivered.items():
            if missing := due - there:
                yield f"{len(missing)} of {len(due)} are not delivered by {way}: {min(missing)}"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The service and the collectors of all clients; `pace` multiplies their pauses."""

    address: str
    tally: Tally
    latencies: Latencies
    receiver: Receiver
    pace: float = 1.0


class Visiting(Client):
    """A client whose requests are timed, and which pauses between them."""

    pause = 0.25

    def __init__(self, around: Surroundings, number: int) -> None:
        super().__init__(around.address, number, seed=1, findings=around.tally)
        self.around = around

    def run(self) -> None:
        """Do one thing after another until all senders have to end."""
        with closing(self.http):
            while not self.around.tally.quiet.is_set():
                try:
                    self.do()
                except Exception as error:  # a client that fails finds something
                    self.findings.found(f"{type(self).__name__}: {error!r}")
                self._done += 1
                self.rest()

    def do(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def rest(self) -> None:
        """Pause; shorter or longer by chance."""
        pause = self.pause * self.around.pace * self.random.uniform(0.5, 1.5)
        self.around.tally.quiet.wait(pause)

    def timed(self, kind: str, method: str, path: str, **options: object) -> httpx.Response:
        """Make a request, note how long it takes, and expect that it is done."""
        began = time.monotonic()
        answer = self.ask(method, path, **options)
        if answer.status_code < 400:
            self.around.latencies.add(kind, time.monotonic() - began)
        elif answer.status_code < 500 and answer.status_code != 429 and not _is_bound(answer):
            told = f"{answer.status_code} {answer.text[:200]}"
            self.findings.found(f"{method} {answer.request.url.path}: {told}")
        return answer


def _is_bound(answer: httpx.Response) -> bool:
    """Return True if SQL was stopped at its time limit, as it may be on a busy machine."""
    return bool(answer.json().get("code") == "sql_timeout")


# -- Pairs ---------------------------------------------------------------------------------


class Pairer(Visiting):
    """Sends pairs; `begin` subscribes, with the ways of delivery that there are."""

    pause = 0.8

    def __init__(self, around: Surroundings, number: int) -> None:
        super().__init__(around, number)
        self.stream, self.subscription = f"P{number}", f"pairs-{number}"
        self.ledger = Ledger()

    def begin(self, *ways: str) -> None:
        """Subscribe, with a webhook for each way."""
        at = f"/v1/subscriptions/{self.subscription}"
        query = PAIRS.format(stream=self.stream)
        assert self.ask("PUT", at, json={"query": query}).status_code < 300
        for way in ways:
            path = f"/{way}-{self.number}"
            self.ledger.delivered[way] = set()
            self.around.receiver.choose[path] = self._receiving(way)
            hook = {"kind": "webhook", "url": self.around.receiver.url(path)}
            made = self.ask("POST", f"{at}/endpoints", json=hook)
            assert made.status_code < 300, made.text

    def _receiving(self, way: str) -> Callable[[Got], Does]:
        def receive(got: Got) -> Does:
            self.took(way, got.data)
            return "slow" if way == "slow" else OK

        return receive

    def took(self, way: str, data: Any) -> None:
        """Note a message; its first arrival has a latency."""
        first = self.ledger.delivered[way]
        for match in data["matches"]:
            second = match["documents"][-1]
            if second not in first:
                first.add(second)
                sent = self.ledger.sent.get(second)
                if sent is not None:
                    self.around.latencies.add(way, time.monotonic() - sent)
        self.ledger.messages += 1

    def do(self) -> None:
        key = f"{self.number}-{self._done}"
        times = [self._send(f"{key}-{half}", key) for half in range(2)]
        if None not in times and times[1] - times[0] < APART:  # type: ignore[operator]
            self.ledger.due.add(f"{key}-1")

    def _send(self, name: str, key: str) -> float | None:
        """Send a document; return when it was acknowledged."""
        self.ledger.sent[name] = time.monotonic()
        text = f"<a><k>{key}</k><note>{'v' * self.random.randrange(400)}</note></a>"
        answer = self.timed(
            "push", "POST", f"/v1/documents/{self.stream}", params={"id": name}, content=text
        )
        if answer.status_code != 202:
            self.ledger.refused += 1
            return None
        return time.monotonic()


class Listener:
    """Follows the events of a pairer in a thread, and resumes after its connection has ended."""

    def __init__(self, pairer: Pairer) -> None:
        self._pairer = pairer
        self._last = "0"
        self._seen = set[str]()
        self._pairer.ledger.delivered["events"] = set()

    def run(self) -> None:
        """Listen until the run ends."""
        around = self._pairer.around
        path = f"/v1/subscriptions/{self._pairer.subscription}/events"
        while not around.tally.stop.is_set():
            patience = httpx.Timeout(60, read=5)
            headers = {"Last-Event-ID": self._last}
            try:
                with (
                    httpx.Client(base_url=around.address, trust_env=False) as client,
                    client.stream("GET", path, headers=headers, timeout=patience) as answer,
                ):
                    if around.tally.saw(answer):
                        self._read(answer)
            except httpx.TransportError:
                continue  # nothing came for a while, or the connection was closed

    def _read(self, answer: httpx.Response) -> None:
        """Read events; hang up now and then."""
        left, id, kind = self._pairer.random.randrange(20, 200), self._last, ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            id = value if name == "id" else id
            kind = value if name == "event" else kind
            if name == "data" and kind == "match":
                self._hear(id, json.loads(value)["data"])
                left -= 1
            elif name == "data":
                self._pairer.findings.found(f"the listener got the event {kind}: {value[:200]}")
            if not left or self._pairer.findings.stop.is_set():
                return

    def _hear(self, id: str, data: Any) -> None:
        if id in self._seen:
            self._pairer.findings.found(f"the event {id} came twice")
        self._seen.add(id)
        self._last = id
        self._pairer.took("events", data)


# -- Load ----------------------------------------------------------------------------------


class Trader(Visiting):
    """Sends orders, their payments (most of them), and sales."""

    pause = 0.3

    def do(self) -> None:
        key, item = f"{self.number}-{self._done}", f"i{self.random.randrange(ITEMS)}"
        price = round(self.random.uniform(1, 100), 2)
        body = f"<item>{item}</item><key>{key}</key><price>{price}</price>"
        self._send("orders", f"<order>{body}</order>")
        if self.random.random() < 0.8:
            self._send("payments", f"<payment><key>{key}</key></payment>")
        if self.random.random() < 0.5:
            self._send("sales", f"<sale>{body}</sale>")
        if self.random.random() < 0.02:
            self.ask("POST", "/v1/documents/orders", content="<order><key></order>")  # 422

    def _send(self, stream: str, text: str) -> None:
        self.timed("push", "POST", f"/v1/documents/{stream}", content=text)


class Visitor(Visiting):
    """A user who comes, does everything once, and goes; one of sixty, again and again."""

    def do(self) -> None:
        user = f"user-{self.number}-{self.random.randrange(20)}"
        made = self.timed("users", "POST", "/v1/tokens", json={"user": user})
        if made.status_code != 201:
            return
        token, id = made.json()["token"], made.json()["id"]
        self.http.headers["Authorization"] = f"Bearer {token}"
        try:
            self._visit()
        finally:
            del self.http.headers["Authorization"]
            self.timed("users", "DELETE", f"/v1/tokens/{id}")

    def _visit(self) -> None:
        word = self.random.choice(("water", "world", "release", "about"))
        self.timed("users", "PUT", "/v1/streams/mine", json={})
        queries = {
            "own": "mine//a[./k->x] FOLLOWED BY{x = y, 30 min} mine//a[./k->y]",
            "silent": "mine//a[./k->x] NOT FOLLOWED BY{x = y, 10 min} mine//a[./k->y]",
            "news": f'feeds//item->a[contains(./title, "{word}")]',
            "echo": "feeds//item->a[./title->t] FOLLOWED BY{t = u, 30 min} mine//a[./k->u]",
        }
        for name, query in queries.items():
            self.timed("subscribe", "PUT", f"/v1/subscriptions/{name}", json={"query": query})
            self.rest()
        hook = {"kind": "webhook", "url": self.around.receiver.url("/visitor")}
        self.timed("users", "POST", "/v1/subscriptions/own/endpoints", json=hook)
        for number in range(10):
            body = f"<a><k>{self._done}-{number // 2}</k></a>"
            self.timed("push", "POST", "/v1/documents/mine", content=body)
            self.rest()
        for path in ("matches", "feed.atom", "feed.json", "explain"):
            self.timed("pages", "GET", f"/v1/subscriptions/own/{path}")
            self.rest()
        for path in ("/v1/me", "/v1/status", "/v1/subscriptions", "/v1/matches", "/v1/late"):
            self.timed("pages", "GET", path)
        self._listen()
        self._ask_sql()
        for name in queries:
            self.timed("subscribe", "DELETE", f"/v1/subscriptions/{name}")

    def _listen(self) -> None:
        """Read the events of a moment."""
        try:
            with self.http.stream("GET", "/v1/events", timeout=httpx.Timeout(30, read=1)) as answer:
                if self.findings.saw(answer):
                    for _ in zip(range(5), answer.iter_lines(), strict=False):
                        pass
        except httpx.ReadTimeout:
            pass

    def _ask_sql(self) -> None:
        query = "SELECT subscription, count(*) FROM matches GROUP BY ALL"
        self.timed("sql", "POST", "/v1/sql", json={"query": query})


class Reader(Visiting):
    """Reads the pages of the operator, his lists, and matches as Atom with validators."""

    pause = 1.0
    PATHS = (
        *("/", "/status", "/feeds", "/subscriptions", "/witnesses", "/subscriptions/pairs-0"),
        *("/v1/matches", "/v1/subscriptions", "/v1/streams", "/v1/late", "/v1/rejected"),
        *("/v1/feeds", "/v1/subscriptions/pairs-0/matches", "/v1/subscriptions/p00001/explain"),
    )

    def do(self) -> None:
        self.timed("pages", "GET", self.random.choice(self.PATHS))
        if self._done % 5 == 0:
            path = f"/v1/subscriptions/pairs-0/feed.{self.random.choice(('atom', 'json'))}"
            answer = self.timed("pages", "GET", path)
            if tag := answer.headers.get("etag"):
                self.timed("pages", "GET", path, headers={"If-None-Match": tag})


class Asker(Visiting):
    """Asks in SQL, over all that there is, and tries queries on the kept documents."""

    pause = 8.0
    QUERIES = (
        "SELECT count(*) FROM documents",
        "SELECT subscription, count(*) AS n FROM matches GROUP BY ALL ORDER BY n DESC LIMIT 20",
        "SELECT var2, count(*) FROM R_bin GROUP BY ALL",
        "SELECT stream, lateness, documents, late FROM watermarks",
    )

    def do(self) -> None:
        self.timed("sql", "POST", "/v1/sql", json={"query": self.random.choice(self.QUERIES)})
        if self._done % 4 == 0:
            query = 'orders//order->a[./item="i1"]'
            self.timed("try", "POST", "/v1/try", json={"query": query, "since": "10 min"})


@contextmanager
def running(*work: Callable[[], None], stop: threading.Event) -> Iterator[None]:
    """Run clients in threads until the block ends."""
    threads = [threading.Thread(target=one, daemon=True) for one in work]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(90)
