"""The service in a simulation: a group of tasks, and requests to it without sockets."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import feeds.http.addresses
import xscl.delivery.outbox.outbox
import xscl.ingestion.pipeline
import xscl.polling.feed_poller
import xscl.server.app  # the service imports it when it starts
import xscl.server.serve
import xscl.service.server
from tests.simulation.scheduler import Scheduler, Task
from xscl.event_loop import EventLoop
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.server.serve import ServeSettings, Service
from xscl.service.app import App, ServiceSettings
from xscl.subscriptions.match import Match

ADDRESS = "http://127.0.0.1:8425"
SILENT = 60.0
"""Virtual seconds after which a request counts as not answered."""
WAITING = 100
"""Documents that may wait to be consumed; further ones are refused."""


@dataclass(frozen=True)
class Response:
    """An answer of the service."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of a problem, "" if it is none."""
        is_problem = self.headers.get("content-type", "").startswith("application/problem+json")
        return str(json.loads(self.body)["code"]) if is_problem else ""


class Refused(Exception):
    """No service listens, or it ended before it answered."""


class Silent(Refused):
    """The service runs, and does not answer."""


class HungUp(Refused):
    """The client closed the connection before the answer."""


class Listening:
    """Takes the place of `xscl.service.server.serving`, on the same event loop."""

    current: Listening | None = None

    def __init__(self, app: Any, loop: EventLoop) -> None:
        self.service: App = app.state.service
        self._app = app
        self._loop = loop.loop

    @classmethod
    @contextmanager
    def serving(cls, app: Any, _settings: object, _limit: object, loop: EventLoop) -> Iterator[str]:
        """Accept requests during the block."""
        cls.current = cls(app, loop)
        try:
            yield ADDRESS
        finally:
            cls.current = None

    def begin(self, exchange: Exchange) -> None:
        """Run the application for one request."""
        self.call(lambda: self._loop.create_task(exchange.run(self._app)))

    def call(self, work: Callable[[], object]) -> None:
        """Run work on the loop of the application; raises Refused."""
        if self._loop.is_closed():
            raise Refused
        self._loop.call_soon_threadsafe(work)


@dataclass
class Exchange:
    """One request, and its answer as far as it has come."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    status: int | None = None
    answered: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    error: BaseException | None = None
    listening: Listening | None = None
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    def hang_up(self) -> None:
        """Close the connection."""
        self._call(self._gone.set)

    def _call(self, work: Callable[[], object]) -> None:
        if self.listening is not None and self.listening is Listening.current:
            with suppress(Refused):  # the service ends
                self.listening.call(work)

    async def run(self, app: Any) -> None:
        """Call the application."""
        sent = False

        async def receive() -> dict[str, object]:
            nonlocal sent
            if sent:
                await self._gone.wait()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": self.body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.answered = {k.decode(): v.decode() for k, v in message["headers"]}
                return
            self.chunks.append(message.get("body", b""))

        headers = {"host": "127.0.0.1:8425", "content-length": str(len(self.body)), **self.headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": quote(self.path).encode(),
            "query_string": urlencode(self.query).encode(),
            "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 8425),
        }
        try:
            await app(scope, receive, send)
        except Exception as error:
            self.error = error
        finally:
            self._gone.set()
            self.done.set()


class Process:
    """A simulated process with one run of the service."""

    def __init__(
        self,
        scheduler: Scheduler,
        group: int,
        data: Path,
        fetching: PollSettings,
        names: tuple[str, ...] = (),
    ) -> None:
        self._fetching = fetching
        self._names = names
        self.group = group
        self.data = data
        self._scheduler = scheduler
        self.error: BaseException | None = None
        self.service: Service | None = None
        self.task: Task | None = None
        self.printed: list[Match] = []
        self.has_answered = False
        self.is_stopped = False
        self._open: list[Exchange] = []

    def start(self) -> None:
        """Start the service in a task of its own; executors of the last life are gone."""
        xscl.polling.feed_poller._readers.cache_clear()
        feeds.http.addresses._resolvers.cache_clear()
        self.task = self._scheduler.spawn("service", self._run, self.group)

    def stop(self) -> None:
        """End the service as SIGTERM does."""
        self.is_stopped = True
        if self.service is not None:
            self.service.stop()

    def crash(self) -> None:
        """End the process at once; its clients lose their connections."""
        Listening.current = None
        self._scheduler.kill(self.group)
        for exchange in self._open:
            exchange.done.set()

    @property
    def is_alive(self) -> bool:
        """Return True if the service runs, or has not ended yet."""
        return self.task is not None and not self.task.ended

    @property
    def exchanges(self) -> int:
        """The number of requests in progress."""
        return len(self._open)

    def _run(self) -> None:
        settings = ServeSettings(
            listen=ServiceSettings(names=self._names, waiting=WAITING),
            fetching=self._fetching,
            poll_interval=10.0,
            least_free=0,
        )
        try:
            self.service = Service(DataDirectory(self.data), settings, self._print)
            self.service.run()
        except Exception as error:
            self.error = error

    def _print(self, matches: Sequence[Match]) -> None:
        self.printed.extend(matches)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        patience: float | None = None,
    ) -> Response:
        """Return the answer to a request.

        Raises Refused if the service ends before, Silent if it does not answer, and HungUp after
        `patience` seconds.
        """
        exchange = Exchange(method, path, query or {}, headers or {}, body)
        with self._opened(exchange):
            if not exchange.done.wait(SILENT if patience is None else patience):
                exchange.hang_up()
                if patience is not None:
                    raise HungUp
                raise Silent if self.is_alive else Refused
        if exchange.error is not None or exchange.status is None:
            raise exchange.error or Refused()
        self.has_answered = True
        return Response(exchange.status, exchange.answered, b"".join(exchange.chunks))

    @contextmanager
    def _opened(self, exchange: Exchange) -> Iterator[None]:
        """Begin an exchange, which ends with this process at the latest."""
        exchange.listening = Listening.current
        if exchange.listening is None:
            raise Refused
        self._open.append(exchange)
        try:
            exchange.listening.begin(exchange)
            yield
        finally:
            self._open.remove(exchange)


def install() -> None:
    """Patch services to listen in the simulation, and to poll for work less often.

    Idle threads would take nine tenths of the steps.
    """
    xscl.service.server.serving = Listening.serving  # type: ignore[assignment]
    xscl.delivery.outbox.outbox.SAVING = 7.0
    xscl.polling.feed_poller._LOOK = 60.0
    xscl.server.serve.REPORT = 300.0
    xscl.ingestion.pipeline._STOPPED_WITHIN = 3.0
