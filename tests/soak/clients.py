"""Clients of a service, each in a thread, by random numbers of its own.

Poster      sends documents that match earlier ones of its own; what comes of them is known
Listener    follows a poster's matches as server-sent events
Poller      has a feed polled that grows, whose items are known
Follower    follows feeds, has them polled, and follows them no more
Trader      sends orders, payments and sales, which many subscriptions join
Stranger    posts to streams that nobody has heard of
Subscriber  subscribes and unsubscribes, to joins that others share, too
Visitor     a user who comes, subscribes, sends, reads, unsubscribes and goes
Reader      pages, lists and syndicated matches
Asker       SQL, `why` and `try`
Keeper      backups
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.plain_http import NO_CERTIFICATES, plain_client
from tests.soak.measurements import Latencies
from tests.soak.oracle import HITS, KINDS, QUERY, TOLD_AS_STORIES, Seen, Sent
from tests.soak.population import ITEMS
from tests.xscl.delivery.receiver import OK, Does, Got, Receiver

KEYS = 5
"""Documents of one key come near one another: a key is one of so many that are new."""
PATIENCE = 60.0
SEVERAL = 100
"""Violations that are kept."""


@dataclass
class Findings:
    """Violations that clients saw; any thread may add one.

    `quiet` ends the senders, `stop` the listeners too.
    """

    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    refused: int = 0
    quiet: threading.Event = field(default_factory=threading.Event)
    stop: threading.Event = field(default_factory=threading.Event)
    disturbances: int = 0
    is_disturbed: bool = False
    is_broken: bool = False
    """True while a point fails with an error that no write of a disk makes there."""
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, answer: httpx.Response) -> bool:
        """Count an answer, and return whether the request was done."""
        honest = answer.status_code in (429, 503) and "retry-after" in answer.headers
        with self._mutex:
            self.requests += 1
            self.refused += honest
        if answer.status_code >= 500 and not honest and not self.is_broken:
            self.found(_told(answer))
        return answer.status_code < 400

    @contextmanager
    def disturbance(self) -> Iterator[None]:
        """Tolerate lost connections while a fault lasts."""
        self.disturbances += 1
        self.is_disturbed = True
        try:
            yield
        finally:
            self.is_disturbed = False

    def found(self, what: str) -> None:
        """Note what is wrong."""
        with self._mutex:
            if len(self.wrong) < SEVERAL:
                self.wrong.append(what)


def _told(answer: httpx.Response) -> str:
    answer.read()
    request = answer.request
    return f"{request.method} {request.url.path}: {answer.status_code} {answer.text[:300]}"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The service and the collectors of all clients; `pace` multiplies their pauses."""

    address: str
    seed: int
    findings: Findings
    latencies: Latencies
    receiver: Receiver
    publisher: str
    """The host and port of feeds that grow."""
    pace: float = 1.0
    query: str = QUERY
    """The query of a poster's pairs."""


class Client:
    """One client, from one address of loopback: `act` does one thing."""

    pause = 0.25

    def __init__(self, around: Surroundings, number: int, source: str = "127.0.0.1") -> None:
        self.around = around
        self.number = number
        self.findings = around.findings
        self.random = random.Random(f"{around.seed}-{number}")
        transport = httpx.HTTPTransport(verify=NO_CERTIFICATES, local_address=source)
        self.http = plain_client(around.address, transport=transport)
        self._done = 0

    def begin(self) -> None:
        """Make what it needs, before any client acts."""

    def act(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        """Act until all senders have to end."""
        with closing(self.http):
            while not self.findings.quiet.is_set():
                before, was_disturbed = self.findings.disturbances, self.findings.is_disturbed
                try:
                    self.act()
                except httpx.TransportError as error:
                    if not was_disturbed and self.findings.disturbances == before:
                        self.findings.found(f"{type(self).__name__}: {error!r}")
                    self.findings.quiet.wait(0.2)
                except Exception as error:  # a client that fails finds something
                    self.findings.found(f"{type(self).__name__}: {error!r}")
                self._done += 1
                self.rest()

    def rest(self) -> None:
        """Pause; shorter or longer by chance."""
        self.findings.quiet.wait(self.pause * self.around.pace * self.random.uniform(0.5, 1.5))

    def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        """Make a request, and have its answer looked at."""
        answer = self.http.request(method, path, **options)  # type: ignore[arg-type]
        self.findings.saw(answer)
        return answer

    def timed(self, kind: str, method: str, path: str, **options: object) -> httpx.Response:
        """Make a request, note how long it takes, and expect that it is done.

        After a disturbance an earlier one may have been done although it was not answered.
        """
        began = time.monotonic()
        answer = self.ask(method, path, **options)
        if answer.status_code < 400:
            self.around.latencies.add(kind, time.monotonic() - began)
        elif answer.status_code < 500 and not (self.findings.disturbances or _is_bound(answer)):
            self.findings.found(_told(answer))
        return answer

    def expect(self, method: str, path: str, told: object) -> Any:
        """Make a request that must be done; return its answer."""
        made = self.ask(method, path, json=told)
        assert made.status_code < 300, _told(made)
        return made.json()


def _is_bound(answer: httpx.Response) -> bool:
    """Return True for one request too many, and for SQL that is stopped at its time limit."""
    return answer.status_code == 429 or answer.json().get("code") == "sql_timeout"


# -- What is known -------------------------------------------------------------------------


class Poster(Client):
    """Posts documents, some of them again, and subscribes with histories; has a webhook."""

    pause = 0.8
    again, history, reset = 0.05, 0.02, 0.02
    """The probabilities of a repetition, of a subscription, and of a lost answer of the webhook."""

    def __init__(self, around: Surroundings, number: int) -> None:
        super().__init__(around, number)
        self.sent = Sent(f"P{number}", f"pairs-{number}")

    def begin(self) -> None:
        """Make the subscriptions and the endpoint."""
        at, stream = f"/v1/subscriptions/{self.sent.subscription}", self.sent.stream
        pairs = f"{self.around.query.format(stream=stream)} PUBLISH hits-{self.number}"
        self.expect("PUT", at, {"query": pairs})
        self._subscribe(f"hits-{self.number}", HITS, f"hits-{self.number}//a[./k->x]")
        stories = KINDS[TOLD_AS_STORIES].format(stream=stream)
        self._subscribe(f"stories-{self.number}", TOLD_AS_STORIES, stories)
        self.sent.kinds[self.sent.subscription] = "pairs"
        self.sent.seen = {"events": Seen(is_once=True), "webhook": Seen(is_once=False)}
        path = f"/poster-{self.number}"
        self.around.receiver.choose[path] = self._receive
        hook = {"kind": "webhook", "url": self.around.receiver.url(path)}
        self.expect("POST", f"{at}/endpoints", hook)

    def _subscribe(self, name: str, kind: str, query: str) -> None:
        told = {"query": query, "since": "30 d", "stories": kind == TOLD_AS_STORIES}
        if self.ask("PUT", f"/v1/subscriptions/{name}", json=told).status_code < 300:
            self.sent.kinds[name] = kind

    def _receive(self, got: Got) -> Does:
        self.took("webhook", got.data, got.id, got.body)
        return "reset" if random.random() < self.reset else OK

    def took(self, way: str, data: Any, message: str = "", body: bytes = b"") -> None:
        """Note a message; its first arrival has a latency."""
        if self.sent.seen[way].note(data, message, body):
            sent, _ = self.sent.moments[data["matches"][0]["documents"][-1]]
            self.around.latencies.add(way, time.monotonic() - sent)

    def act(self) -> None:
        recent, unknown = self.sent.acknowledged[-20:], self.sent.unknown
        known = [one for one in recent if one[0] not in unknown]
        if known and self.random.random() < self.again:
            self._send(*self.random.choice(known), is_new=False)
        if recent and recent[-1][0] in unknown and self.random.random() < 0.5:
            self._send(*recent[-1], is_new=False)  # an earlier one would change the order
        if self.random.random() < self.history:
            kind = self.random.choice(list(KINDS))
            query = KINDS[kind].format(stream=self.sent.stream)
            self._subscribe(f"{kind}-{self.number}-{self._done}", kind, query)
        key = f"{self.number}-{self._done // 10}-{self.random.randrange(KEYS)}"
        name = f"{self.number}-{self._done}"
        self.sent.begin(name, key, time.monotonic())
        self._send(name, key, is_new=True)

    def _send(self, name: str, key: str, *, is_new: bool) -> None:
        size = random.Random(name).choice((0, 1, 5))
        text = f"<a><k>{key}</k>{'<b>v</b>' * size}</a>"
        path = f"/v1/documents/{self.sent.stream}"
        answer = self.timed("push", "POST", path, params={"id": name}, content=text)
        if answer.status_code == 202:
            self.sent.acknowledge(name, time.monotonic())
        elif is_new and not self.findings.disturbances:  # else it may have been taken
            self.sent.refuse(name)


class Listener:
    """Follows the events of a poster, hangs up now and then, and goes on where it was."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster
        self._last = "0"

    def run(self) -> None:
        """Listen until the run ends."""
        around = self._poster.around
        url = f"{around.address}/v1/subscriptions/{self._poster.sent.subscription}/events"
        patience = httpx.Timeout(PATIENCE, read=2)
        with plain_client(timeout=patience) as client:
            while not around.findings.stop.is_set():
                headers = {"Last-Event-ID": self._last}
                try:
                    with client.stream("GET", url, headers=headers) as answer:
                        if around.findings.saw(answer):
                            self._read(answer)
                except httpx.TransportError:
                    around.findings.stop.wait(0.2)  # nothing came, or the connection was closed

    def _read(self, answer: httpx.Response) -> None:
        left, id, kind = self._poster.random.randrange(5, 200), self._last, ""
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            id = value if name == "id" else id
            kind = value if name == "event" else kind
            if name == "data" and kind == "match":
                self._poster.took("events", json.loads(value)["data"])
                self._last = id
                left -= 1
            elif name == "data" and not self._poster.findings.disturbances:
                self._poster.findings.found(f"a listener got the event {kind}: {value[:200]}")
            if not left or self._poster.findings.stop.is_set():
                return


class Poller(Client):
    """Has a feed polled that has one item more at each poll."""

    path = "/known"
    key = ""

    def begin(self) -> None:
        """Follow the feed."""
        url = f"http://{self.around.publisher}{self.path}"
        self.key = self.expect("POST", "/v1/feeds", {"url": url, "stream": "known", "keep": True})[
            "key"
        ]

    def act(self) -> None:
        self.ask("POST", f"/v1/feeds/{self.key}:poll")


# -- Load ----------------------------------------------------------------------------------


class Follower(Client):
    """Follows feeds, has them polled, and follows them no more."""

    def act(self) -> None:
        url = f"http://{self.around.publisher}/{self.number}/{self.random.randrange(3)}"
        added = self.ask("POST", "/v1/feeds", json={"url": url, "stream": "F", "keep": True})
        if added.status_code != 201:
            return
        key = added.json()["key"]
        for _ in range(3):
            self.ask("POST", f"/v1/feeds/{key}:poll")
            self.findings.quiet.wait(self.random.random() / 4)
        self.ask("DELETE", f"/v1/feeds/{key}")


class Trader(Client):
    """Sends orders, their payments (most of them), and sales."""

    pause = 0.3

    def act(self) -> None:
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


class Stranger(Client):
    """Posts to streams that nobody has heard of."""

    def act(self) -> None:
        stream = f"N{self.number}-{self.random.randrange(1_000)}"
        self.ask("POST", f"/v1/documents/{stream}", content="<a><k>1</k></a>")


class Subscriber(Client):
    """Subscribes, edits and unsubscribes."""

    def act(self) -> None:
        path = f"/v1/subscriptions/s{self.number}-{self.random.randrange(8)}"
        if self.random.random() < 0.5:
            self.ask("DELETE", path)
            return
        stream = f"P{self.random.randrange(3)}"
        query = self.random.choice(
            [
                *(kind.format(stream=stream) for kind in KINDS.values()),
                f"{stream}//a->a",
                f"SELECT DISTINCT * FROM {stream}//a[./b->x] FOLLOWED BY{{x=y, 2 s}} P1//b->y",
                f"{stream}//a[.='{self.random.random()}']->x FOLLOWED BY{{x=y, 5 s}} F//item->y",
            ]
        )
        self.ask(self.random.choice(("PUT", "PUT", "PATCH")), path, json={"query": query})


class Visitor(Client):
    """A user who comes, does everything once, and goes; one of sixty, again and again."""

    def act(self) -> None:
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
        paths = [f"/v1/subscriptions/own/{one}" for one in ("matches", "feed.atom", "explain")]
        for path in (*paths, "/v1/me", "/v1/status", "/v1/subscriptions", "/v1/matches"):
            self.timed("pages", "GET", path)
            self.rest()
        query = "SELECT subscription, count(*) FROM matches GROUP BY ALL"
        self.timed("sql", "POST", "/v1/sql", json={"query": query})
        for name in queries:
            self.timed("subscribe", "DELETE", f"/v1/subscriptions/{name}")


class Reader(Client):
    """Reads what can be read, and matches as Atom or JSON Feed with validators."""

    pause = 1.0
    PATHS = (
        *("/", "/status", "/plan", "/feeds", "/subscriptions", "/subscriptions/pairs-0"),
        *("/v1/status", "/v1/health", "/v1/metrics", "/v1/matches", "/v1/subscriptions"),
        *("/v1/streams", "/v1/late", "/v1/rejected", "/v1/feeds", "/v1/sql/relations"),
        *("/v1/subscriptions/pairs-0/matches", "/v1/subscriptions/pairs-0/explain"),
    )

    def act(self) -> None:
        self.timed("pages", "GET", self.random.choice(self.PATHS))
        if self._done % 5 == 0:
            path = f"/v1/subscriptions/pairs-0/feed.{self.random.choice(('atom', 'json'))}"
            answer = self.timed("pages", "GET", path)
            if tag := answer.headers.get("etag"):
                self.timed("pages", "GET", path, headers={"If-None-Match": tag})


class Asker(Client):
    """Asks in SQL, over all that there is, why documents match, and tries queries."""

    pause = 8.0
    QUERIES = (
        "SELECT count(*) FROM documents",
        "SELECT subscription, count(*) AS n FROM matches GROUP BY ALL ORDER BY n DESC LIMIT 20",
        "SELECT var2, count(*) FROM R_bin GROUP BY ALL",
        "SELECT stream, lateness, documents, late FROM watermarks",
    )

    def act(self) -> None:
        match self._done % 4:
            case 0:
                query = 'orders//order->a[./item="i1"]'
                self.timed("try", "POST", "/v1/try", json={"query": query, "since": "10 min"})
            case 1:
                documents = [f"0-{self.random.randrange(50)}" for _ in range(2)]
                query = QUERY.format(stream="P0")
                self.ask("POST", "/v1/why", json={"query": query, "documents": documents})
            case _:
                query = self.random.choice(self.QUERIES)
                self.timed("sql", "POST", "/v1/sql", json={"query": query})


class Keeper(Client):
    """Makes a backup now and then."""

    pause = 5.0

    def act(self) -> None:
        self.ask("POST", "/v1/backup")
        self.findings.quiet.wait(1 + self.random.random())


LOAD: Sequence[tuple[type[Client], int]] = (
    *((Trader, 2), (Visitor, 3), (Reader, 1), (Asker, 1)),
    *((Subscriber, 1), (Stranger, 1), (Follower, 1), (Keeper, 1)),
)
"""The clients besides the posters, and how many there are of each."""


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
