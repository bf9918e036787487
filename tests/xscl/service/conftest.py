"""A running service on loopback, without Spark, and clients of its users."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.plain_http import NO_CERTIFICATES
from tests.waiting import eventually as eventually  # for the tests of the service
from xscl.delivery.channels.mail import MailServer
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.arrival_clock import ArrivalClock
from xscl.polling.feed_poller import PollSettings
from xscl.server.serve import ServeSettings, Service
from xscl.service.app import ServiceSettings

PATIENCE = 120.0
MASTER = "local[*]"
ANY_PORT = ServiceSettings(port=0)


@dataclass(frozen=True)
class Running:
    """A service that runs in this process."""

    home: DataDirectory
    service: Service
    address: str
    first_tokens: Sequence[str]

    def client(
        self, token: str | None = None, source: str = "127.0.0.1", **headers: str
    ) -> httpx.Client:
        """Return a client that connects from an address; without a token it is the operator's."""
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        transport = httpx.HTTPTransport(local_address=source, verify=NO_CERTIFICATES)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        options = {"timeout": PATIENCE, "transport": transport, "trust_env": False}
        return httpx.Client(base_url=self.address, headers=named, **options)  # type: ignore[arg-type]

    def user(self, name: str) -> httpx.Client:
        """Return a client of a user, who is made with his first."""
        with self.client() as operator:
            return self.client(token_of(operator, name))

    def files(self) -> dict[str, bytes]:
        """Return the files of the directory by name, without those that leave meanwhile."""
        found = {}
        for path in self.home.path.rglob("*"):
            with suppress(FileNotFoundError, IsADirectoryError):
                found[str(path.relative_to(self.home.path))] = path.read_bytes()
        return found

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        """Return a connection from an address."""
        host, _, port = self.address.removeprefix("http://").partition(":")
        return socket.create_connection((host, int(port)), PATIENCE, (source, 0))


@contextmanager
def filling(home: DataDirectory) -> Iterator[Engine]:
    """Yield the engine of a data directory, before a service runs there."""
    with home.hold("test"), Engine(home.database) as engine:
        yield engine


@contextmanager
def serving(
    home: DataDirectory,
    settings: ServiceSettings = ANY_PORT,
    fetching: PollSettings | None = None,
    mail: MailServer | None = None,
    patience: float = PATIENCE,
    keep_matches: str | None = None,
    clock: ArrivalClock | None = None,
    spark: bool = False,
    public_url: str = "",
) -> Iterator[Running]:
    """Run a service on a data directory while the block runs."""
    there = threading.Event()
    serving = ServeSettings(
        MASTER if spark else None,
        poll_interval=0.25,
        listen=replace(settings, port=0),
        fetching=fetching or PollSettings(),
        mail=mail,
        keep_matches=keep_matches,
        clock=clock,
        public_url=public_url,
    )
    first: list[str] = []
    service = Service(
        *(home, serving, lambda matches: None, lambda address: there.set()),
        on_first_token=first.append,
    )
    failed: list[BaseException] = []

    def run() -> None:
        try:
            service.run()
        except BaseException as error:
            failed.append(error)
        there.set()

    thread = threading.Thread(target=run, name="service")
    thread.start()
    try:
        assert there.wait(patience)
        if failed:
            raise failed[0]
        assert service.address is not None
        yield Running(home, service, service.address, first)
    finally:
        service.stop()
        thread.join(PATIENCE)
        if failed:  # which is why requests of the block fail
            raise failed[0]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One service for all tests of a module."""
    with serving(DataDirectory(tmp_path_factory.mktemp("service") / "data")) as found:
        yield found


@pytest.fixture(scope="module")
def operator(running: Running) -> Iterator[httpx.Client]:
    """The operator, who needs no token on loopback."""
    with running.client() as client:
        yield client


@pytest.fixture
def place(tmp_path: Path) -> DataDirectory:
    """A new data directory."""
    return DataDirectory(tmp_path / "data")


def token_of(operator: httpx.Client, user: str) -> str:
    """Return a new token of a user, who is made with his first."""
    made = operator.post("/v1/tokens", json={"user": user, "label": "test"})
    assert made.status_code == 201, made.text
    return str(made.json()["token"])


@pytest.fixture(scope="module")
def alice(running: Running) -> Iterator[httpx.Client]:
    """A user."""
    with running.user("alice") as client:
        yield client


@pytest.fixture(scope="module")
def bob(running: Running) -> Iterator[httpx.Client]:
    """Another user."""
    with running.user("bob") as client:
        yield client


def ok(response: httpx.Response) -> Any:
    """Return the body of a successful answer."""
    assert response.status_code < 300, response.text
    return response.json() if response.content else None


def send_batch(client: httpx.Client, stream: str, texts: Mapping[str, str]) -> None:
    """Send documents by their ids, in one request."""
    body = "\n".join(json.dumps({"id": id, "xml": xml}) for id, xml in texts.items())
    kind = {"Content-Type": "application/x-ndjson"}
    sent = client.post("/v1/documents:batch", params={"stream": stream}, content=body, headers=kind)
    assert len(ok(sent)["taken"]) == len(texts)


def code(response: httpx.Response) -> tuple[int, str]:
    """Return status and code of a problem document."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem = response.json()
    assert problem["status"] == response.status_code
    return response.status_code, problem["code"]
