"""Kinds of clients. Each does one thing after another, chosen by random numbers of its own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from tests.stress.oracle import QUERY, Sent

KEYS = 5
"""Documents of one key come near one another: a key is one of so many that are new."""
PATIENCE = 60.0


@dataclass
class Findings:
    """Violations that clients saw; any thread may add one."""

    wrong: list[str] = field(default_factory=list)
    requests: int = 0
    refused: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    disturbances: int = 0
    is_disturbed: bool = False
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def saw(self, answer: httpx.Response) -> bool:
        """Count an answer, and return whether the request was done."""
        honest = answer.status_code in (429, 503) and "retry-after" in answer.headers
        with self._mutex:
            self.requests += 1
            self.refused += honest
        if answer.status_code >= 500 and not honest:
            self.found(f"{answer.request.method} {answer.request.url.path}: {_told(answer)}")
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
        """Note what is wrong, and let all clients end."""
        with self._mutex:
            self.wrong.append(what)
        self.stop.set()


def _told(answer: httpx.Response) -> str:
    answer.read()
    return f"{answer.status_code} {answer.text[:300]}"


class Client:
    """One client of the operator: `act` does one thing."""

    def __init__(self, address: str, number: int, seed: int, findings: Findings) -> None:
        self.number = number
        self.random = random.Random(f"{seed}-{number}")
        self.findings = findings
        self.http = httpx.Client(base_url=address, timeout=PATIENCE, trust_env=False)
        self._done = 0

    def act(self) -> None:
        raise NotImplementedError

    def run(self) -> None:
        """Act until all clients have to end."""
        with closing(self.http):
            while not self.findings.stop.is_set():
                before, was_disturbed = self.findings.disturbances, self.findings.is_disturbed
                try:
                    self.act()
                except httpx.TransportError as error:
                    if not was_disturbed and self.findings.disturbances == before:
                        self.findings.found(f"{type(self).__name__}: {error!r}")
                    self.findings.stop.wait(0.1)
                except Exception as error:  # a client that fails finds something
                    self.findings.found(f"{type(self).__name__}: {error!r}")
                self._done += 1

    def ask(self, method: str, path: str, **options: object) -> httpx.Response:
        """Make a request, and have its answer looked at."""
        answer = self.http.request(method, path, **options)  # type: ignore[arg-type]
        self.findings.saw(answer)
        return answer


class Poster(Client):
    """Posts documents that match earlier ones of its own; what must come of them is known."""

    def __init__(self, *setting: object) -> None:
        super().__init__(*setting)  # type: ignore[arg-type]
        self.sent = Sent(f"P{self.number}", f"pairs-{self.number}")

    def begin(self) -> None:
        """Make the subscription; before any document comes."""
        query = QUERY.format(stream=self.sent.stream)
        made = self.ask("PUT", f"/v1/subscriptions/{self.sent.subscription}", json={"query": query})
        assert made.status_code < 300, made.text

    def deliver(self, url: str) -> None:
        """Register a webhook for the matches; before any document comes."""
        path = f"/v1/subscriptions/{self.sent.subscription}/endpoints"
        made = self.ask("POST", path, json={"kind": "webhook", "url": url})
        assert made.status_code < 300, made.text

    def act(self) -> None:
        name = f"{self.number}-{self._done}"
        key = f"{self.number}-{self._done // 10}-{self.random.randrange(KEYS)}"
        filler = "<b>v</b>" * self.random.choice([0, 1, 5])
        self.sent.begin(name, key)
        answer = self.ask(
            *("POST", f"/v1/documents/{self.sent.stream}"),
            params={"id": name},
            content=f"<a><k>{key}</k>{filler}</a>",
        )
        if answer.status_code == 202:
            self.sent.unknown.discard(name)
        elif not self.findings.disturbances:  # else a write that has failed may have been done
            self.sent.refuse(name)


class Stranger(Client):
    """Posts to streams that nobody has heard of."""

    def act(self) -> None:
        stream = f"N{self.number}-{self.random.randrange(1_000)}"
        self.ask("POST", f"/v1/documents/{stream}", content="<a><k>1</k></a>")


class Subscriber(Client):
    """Subscribes and unsubscribes, to joins that others share, too."""

    def act(self) -> None:
        name = f"s{self.number}-{self.random.randrange(8)}"
        path = f"/v1/subscriptions/{name}"
        if self.random.random() < 0.5:
            self.ask("DELETE", path)
            return
        stream = f"P{self.random.randrange(3)}"
        query = self.random.choice(
            [
                QUERY.format(stream=stream),
                f"{stream}//a[./k->x] NEXT{{x=y}} {stream}//a[./k->y]",
                f"{stream}//a->a",
                f"SELECT DISTINCT * FROM {stream}//a[./b->x] FOLLOWED BY{{x=y, 2 s}} P1//b->y",
                f"{stream}//a[.='{self.random.random()}']->x FOLLOWED BY{{x=y, 5 s}} F//item->y",
            ]
        )
        self.ask("PUT", path, json={"query": query})


class Reader(Client):
    """Reads whatever can be read."""

    PATHS = (
        *("/", "/status", "/plan", "/subscriptions", "/feeds", "/v1/status", "/v1/health"),
        *("/v1/metrics", "/v1/matches", "/v1/subscriptions", "/v1/streams", "/v1/late"),
        *("/v1/subscriptions/pairs-0/matches", "/v1/subscriptions/pairs-0/explain"),
        *("/v1/rejected", "/v1/feeds", "/v1/subscriptions/s1-1", "/v1/sql/relations"),
    )

    def act(self) -> None:
        self.ask("GET", self.random.choice(self.PATHS))


class Asker(Client):
    """Asks questions that take a while: SQL, why, try."""

    def act(self) -> None:
        stream, query = "P0", QUERY.format(stream="P0")
        match self.random.randrange(4):
            case 0:
                self.ask("POST", "/v1/sql", json={"query": "SELECT count(*) FROM documents"})
            case 1:
                self.ask("POST", "/v1/sql", json={"query": "SELECT * FROM R_bin LIMIT 50"})
            case 2:
                documents = [f"0-{self.random.randrange(50)}" for _ in range(2)]
                self.ask("POST", "/v1/why", json={"query": query, "documents": documents})
            case _:
                self.ask("POST", "/v1/try", json={"query": f"{stream}//b->x", "since": "1 h"})


class Listener(Client):
    """Reads events as they come, hangs up, and goes on where it was; none comes twice."""

    def __init__(self, *setting: object) -> None:
        super().__init__(*setting)  # type: ignore[arg-type]
        self._last = ""
        self._heard: set[str] = set()

    def act(self) -> None:
        headers = {"Last-Event-ID": self._last} if self._last else {}
        most = self.random.randrange(1, 30)
        path = "/v1/subscriptions/pairs-0/events"
        patience = httpx.Timeout(PATIENCE, read=2.0)
        try:
            with self.http.stream("GET", path, headers=headers, timeout=patience) as answer:
                if not self.findings.saw(answer):
                    return
                for line in answer.iter_lines():
                    if line.startswith("id: "):
                        self._hear(line[4:])
                        most -= 1
                    if not most or self.findings.stop.is_set():
                        return
        except httpx.ReadTimeout:
            return  # nothing came for a while

    def _hear(self, id: str) -> None:
        if id in self._heard:
            self.findings.found(f"the event {id} came twice")
        self._heard.add(id)
        self._last = id


class Follower(Client):
    """Follows feeds, has them polled, and follows them no more."""

    def __init__(self, *setting: object) -> None:
        super().__init__(*setting)  # type: ignore[arg-type]
        self.publisher = ""

    def act(self) -> None:
        feed = self.random.randrange(3)
        url = f"http://{self.publisher}/{self.number}/{feed}"
        added = self.ask("POST", "/v1/feeds", json={"url": url, "stream": "F"})
        if added.status_code != 201:
            self.findings.stop.wait(0.05)
            return
        key = added.json()["key"]
        for _ in range(3):
            self.ask("POST", f"/v1/feeds/{key}:poll")
            self.findings.stop.wait(self.random.random() / 4)
        self.ask("DELETE", f"/v1/feeds/{key}")


class Keeper(Client):
    """Makes a backup now and then."""

    def act(self) -> None:
        self.ask("POST", "/v1/backup")
        self.findings.stop.wait(1 + self.random.random())


KINDS: Sequence[type[Client]] = (
    *(Poster, Poster, Poster, Stranger, Subscriber, Reader, Asker, Listener, Follower, Keeper),
    *(Subscriber, Reader, Stranger, Poster),
)
"""Clients in the order in which they are added."""


class Publisher(ThreadingHTTPServer):
    """Publishes feeds on loopback, with one more item at each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._mutex = threading.Lock()
        self._items: dict[str, int] = {}

    @property
    def address(self) -> str:
        """The host and port."""
        return f"127.0.0.1:{self.server_port}"

    def feed(self, path: str) -> bytes:
        """Return the current text of a feed."""
        with self._mutex:
            count = self._items[path] = self._items.get(path, 0) + 1
        items = "".join(
            f"<item><guid>{path}{n}</guid><title>{n} of {path}</title></item>"
            for n in range(max(0, count - 20), count)
        )
        return f'<rss version="2.0"><channel><title>t</title>{items}</channel></rss>'.encode()


class _Handler(BaseHTTPRequestHandler):
    server: Publisher

    def do_GET(self) -> None:
        body = self.server.feed(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "application/rss+xml")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def started(clients: Sequence[Client]) -> list[threading.Thread]:
    """Start clients, each in a thread."""
    runs: list[Callable[[], None]] = [client.run for client in clients]
    threads = [threading.Thread(target=run, daemon=True) for run in runs]
    for thread in threads:
        thread.start()
    return threads
