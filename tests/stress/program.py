"""One run: a seed and some seconds to what went wrong."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.stress.clients import KINDS, Client, Findings, Follower, Poster, Publisher, started
from tests.stress.faults import Faults, Host
from tests.stress.machine import Machine
from tests.stress.oracle import SKIPPED, Sent, differences, ids_of
from tests.stress.receiver import Receiver, receiving
from tests.stress.service import SERVE, Serving
from xscl.ingestion.data_directory import DataDirectory

DRAINS = 300.0
"""Seconds in which what was acknowledged has to be consumed, on a busy machine."""


@dataclass(frozen=True, slots=True)
class Report:
    """Counts and violations of one run; a clean run has none of the latter."""

    seed: int
    requests: int
    refused: int
    documents: int
    matches: int
    wrong: tuple[str, ...]
    faults: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        struck = ", ".join(f"{count} {kind}" for kind, count in self.faults.items())
        done = (
            f"seed {self.seed}: {self.requests} requests, {self.refused} refused with Retry-After,"
            f" {self.documents} documents with {self.matches} expected matches"
            f"{struck and '; faults: '}{struck}"
        )
        return "\n  ".join([done, *(self.wrong or ("nothing wrong",))])


def run(
    seed: int,
    seconds: float,
    *,
    clients: int = len(KINDS),
    program: Sequence[str] = SERVE,
    stops_within: float = 5.0,
    faults: Sequence[str] = (),
    mounts: bool = True,
) -> Report:
    """Run clients against a new service for some seconds, and check the store afterwards.

    A service that fails ends the run early. SIGTERM has to end it within `stops_within` seconds,
    and so has a second service on the same directory to end.  With `mounts` false a full disk is
    simulated.
    """
    findings = Findings()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="xscl-stress-")))
        publisher, receiver = stack.enter_context(Publisher()), stack.enter_context(receiving())
        threading.Thread(target=publisher.serve_forever, args=(0.1,), daemon=True).start()
        stack.callback(publisher.shutdown)
        machine = stack.enter_context(closing(Machine(root, mounts=mounts))) if faults else None
        data = (root if machine is None else machine.disk) / "data"
        options = ["--allow-address", publisher.address, "--allow-address", receiver.address]
        options += ["--port", str(_free_port())]
        environment = {} if machine is None else machine.environment

        def start(before: Serving | None = None) -> Serving:
            return Serving(data, program, options, environment, before)

        host = Host(start)
        stack.callback(lambda: host.service.kill())
        address = host.service.wait_until_there()
        those = [
            KINDS[number % len(KINDS)](address, number, seed, findings) for number in range(clients)
        ]
        posters = _begun(those, publisher, receiver)
        threads = started(those)
        struck = {}
        if machine is None:
            _wait(host.service, findings, seconds)
        else:
            breaking = Faults(seed, faults, machine, host, findings, stops_within)
            _break(breaking, findings, seconds)
            struck = breaking.struck
        findings.stop.set()
        for thread in threads:
            thread.join()
        sent = [poster.sent for poster in posters]
        if not findings.wrong and host.service.exit_code is None:
            _drain(address, findings)
            _settle(address, sent)
            _wait_for_prints(host.service, sent)
            _wait_for_deliveries(receiver, sent[0])
        if (wrong := host.service.stop(stops_within)) is not None:
            findings.wrong.append(wrong)
        if not findings.wrong:
            database, printed = DataDirectory(data).database, host.service.printed
            found = differences(database, sent, printed, was_killed=bool(struck.get("kill")))
            findings.wrong += found + receiver.differences(ids_of(database, sent[0].subscription))
        return Report(
            *(seed, findings.requests, findings.refused),
            sum(len(one.acknowledged) for one in sent),
            sum(one.pairs().total() for one in sent),
            tuple(findings.wrong),
            struck,
        )


def _free_port() -> int:
    """Return a port that nobody uses, for all lives of a service."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _begun(clients: Sequence[Client], publisher: Publisher, receiver: Receiver) -> list[Poster]:
    """Prepare clients; return the posters, whose outcome is known.

    The matches of the first one are delivered.
    """
    for client in clients:
        if isinstance(client, Follower):
            client.publisher = publisher.address
        if isinstance(client, Poster):
            client.begin()
    posters = [client for client in clients if isinstance(client, Poster)]
    posters[0].deliver(f"http://{receiver.address}/")
    return posters


def _wait(service: Serving, findings: Findings, seconds: float) -> None:
    """Return after some seconds, or as soon as something is wrong."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not findings.stop.wait(0.1):
        if service.exit_code is not None:
            findings.found(f"the service ended with {service.exit_code}: {service.errors[-5:]}")


def _break(breaking: Faults, findings: Findings, seconds: float) -> None:
    """Make faults for some seconds, and until each kind was made, unless something is wrong."""
    until = time.monotonic() + seconds
    while not findings.stop.is_set():
        if time.monotonic() > until and all(breaking.struck.values()):
            return
        breaking.strike()


def _settle(address: str, sent: Sequence[Sent]) -> None:
    """Ask which of the documents that got no answer were taken."""
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        for one in sent:
            if one.unknown:
                listed = ", ".join(f"'{name}'" for name in sorted(one.unknown))
                query = f"SELECT id FROM documents WHERE id IN ({listed})"
                answer = client.post("/v1/sql", json={"query": query}).raise_for_status()
                one.settle({name for (name,) in answer.json()["rows"]})


def _wait_for_deliveries(receiver: Receiver, sent: Sent) -> None:
    """Return when as many matches are delivered as are expected, or the time for that is over."""
    until = time.monotonic() + DRAINS
    while time.monotonic() < until and len(receiver.deliveries) < sent.pairs().total():
        time.sleep(0.2)


def _wait_for_prints(service: Serving, sent: Sequence[Sent]) -> None:
    """Return when all expected matches are printed, or the time for that is over.

    SIGTERM leaves the rest to the next start; `differences` then says what is missing.
    """
    until = time.monotonic() + DRAINS
    expected = {one.subscription: one.pairs().total() for one in sent}
    while time.monotonic() < until and not service.printed_of[SKIPPED]:
        if all(service.printed_of[name] >= number for name, number in expected.items()):
            return
        time.sleep(0.2)


def _drain(address: str, findings: Findings) -> None:
    """Return when everything is consumed and printed."""
    until = time.monotonic() + DRAINS
    with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
        while time.monotonic() < until:
            status = client.get("/v1/status").json()["service"]
            if status["waiting"] == 0 and status["position"] == status["spool"]:
                return
            time.sleep(0.2)
    findings.found(f"what was acknowledged is not consumed: {status}")
