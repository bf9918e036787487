"""One run: a seed and some seconds to what went wrong."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.stress.clients import KINDS, Client, Findings, Follower, Poster, Publisher, started
from tests.stress.oracle import SKIPPED, Sent, differences
from tests.stress.service import SERVE, Serving
from xscl.store.data_directory import DataDirectory

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

    def __str__(self) -> str:
        done = (
            f"seed {self.seed}: {self.requests} requests, {self.refused} refused with Retry-After,"
            f" {self.documents} documents with {self.matches} expected matches"
        )
        return "\n  ".join([done, *(self.wrong or ("nothing wrong",))])


def run(
    seed: int,
    seconds: float,
    *,
    clients: int = len(KINDS),
    program: Sequence[str] = SERVE,
    stops_within: float = 5.0,
) -> Report:
    """Run clients against a new service for some seconds, and check the store afterwards.

    A service that fails ends the run early. SIGTERM has to end it within `stops_within` seconds.
    """
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="xscl-stress-") as directory, Publisher() as publisher:
        publishing = threading.Thread(target=publisher.serve_forever, args=(0.1,), daemon=True)
        publishing.start()
        data = Path(directory) / "data"
        service = Serving(data, program, ["--allow-address", publisher.address])
        try:
            address = service.wait_until_there()
            those = [
                KINDS[number % len(KINDS)](address, number, seed, findings)
                for number in range(clients)
            ]
            posters = _begun(those, publisher)
            threads = started(those)
            _wait(service, findings, seconds)
            findings.stop.set()
            for thread in threads:
                thread.join()
            if not findings.wrong and service.exit_code is None:
                _drain(address, findings)
                _wait_for_prints(service, [poster.sent for poster in posters])
            if (wrong := service.stop(stops_within)) is not None:
                findings.wrong.append(wrong)
            sent = [poster.sent for poster in posters]
            if not findings.wrong:
                found = differences(DataDirectory(data).database, sent, service.printed)
                findings.wrong.extend(found)
            return Report(
                *(seed, findings.requests, findings.refused),
                sum(len(one.acknowledged) for one in sent),
                sum(one.pairs().total() for one in sent),
                tuple(findings.wrong),
            )
        finally:
            service.kill()
            publisher.shutdown()


def _begun(clients: Sequence[Client], publisher: Publisher) -> list[Poster]:
    """Prepare clients; return the posters, whose outcome is known."""
    for client in clients:
        if isinstance(client, Follower):
            client.publisher = publisher.address
        if isinstance(client, Poster):
            client.begin()
    return [client for client in clients if isinstance(client, Poster)]


def _wait(service: Serving, findings: Findings, seconds: float) -> None:
    """Return after some seconds, or as soon as something is wrong."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not findings.stop.wait(0.1):
        if service.exit_code is not None:
            findings.found(f"the service ended with {service.exit_code}: {service.errors[-5:]}")


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
