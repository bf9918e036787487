"""The checks of a simulation report documents and matches that differ from the model."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.simulation.checks import compare_stream
from tests.simulation.host import Host
from tests.simulation.journal import Journal, ServiceLog
from tests.simulation.model import Pushed, Stream
from tests.simulation.network import Network
from tests.simulation.scheduler import Scheduler
from tests.simulation.service import Refused, Response

MATCHES = [("m1", ("a", "b")), ("m2", ("a", "c")), ("m3", ("b", "c"))]


def seen() -> Stream:
    """Return a stream of three documents, and how its matches were seen."""
    stream = Stream("orders", "pairs", hook="hook", listed=["m1", "m2"])
    for second, name in enumerate("abc"):
        stream.documents[name] = Pushed(name, "key", second, acknowledged=second + 0.5)
    stream.received = dict.fromkeys(["m1", "m2", "m3"])
    return stream


def wrong(
    change: Callable[[Stream], object] = lambda _: None,
    stored: str = "abc",
    matches: Sequence[tuple[str, tuple[str, ...]]] = MATCHES,
) -> str:
    stream = seen()
    change(stream)
    return "; ".join(compare_stream(stream, list(stored), matches))


def test_what_is_as_it_was_seen_is_fine() -> None:
    assert wrong() == ""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda one: one.listed.reverse(), "listed in another order"),
        (lambda one: one.received.pop("m2"), "1 of 3 matches were not delivered"),
        (lambda one: one.received.update(m4=None), "deliveries of matches that are not there"),
        (lambda one: one.received.update(m1=one.received.pop("m1")), "delivered in their order"),
    ],
)
def test_matches_are_seen_once_and_in_order(change: Callable[[Stream], object], found: str) -> None:
    assert found in wrong(change)


def test_a_message_that_was_refused_once_may_come_later() -> None:
    def refuse(stream: Stream) -> None:
        stream.put_aside.add("m1")
        stream.received["m1"] = stream.received.pop("m1")

    assert wrong(refuse) == ""


def test_documents_and_their_matches_are_there() -> None:
    assert "1 acknowledged documents are lost" in wrong(stored="ab", matches=MATCHES[:1])
    assert "1 matches lost" in wrong(matches=MATCHES[:2])
    assert "1 matches too many" in wrong(matches=[*MATCHES, ("m4", ("b", "c"))])
    assert "order of their last documents" in wrong(matches=[MATCHES[1], MATCHES[0], MATCHES[2]])


def test_only_documents_that_overlap_may_change_places() -> None:
    def overlap(stream: Stream) -> None:
        stream.documents["b"].acknowledged = 2.5

    swapped = [("m1", ("a", "c")), ("m2", ("a", "b")), ("m3", ("c", "b"))]
    assert "come before acknowledged ones: ['c']" in wrong(stored="acb", matches=swapped)
    assert wrong(overlap, stored="acb", matches=swapped) == ""


def test_an_error_in_the_log_is_wrong_unless_a_fault_lasts(tmp_path: Path) -> None:
    scheduler = Scheduler(1)
    journal = Journal(scheduler)
    host = Host(scheduler, tmp_path, Network(random.Random(1)), journal)
    log = ServiceLog(journal, lambda: host.is_disturbed)
    failed = logging.LogRecord("xscl", logging.ERROR, "serve.py", 1, "it failed", (), None)
    log.handle(failed)
    host.begin_disturbance()
    log.handle(failed)
    assert journal.violations == ["the log says: it failed"]


def test_a_deletion_may_be_done_when_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(1)
    host = Host(scheduler, tmp_path, Network(random.Random(1)), Journal(scheduler))
    missing, busy, found = (Response(status, {}, b"") for status in (404, 503, 200))
    answers: list[Response | None] = []

    def ask(*_told: object) -> Response:
        if (answer := answers.pop(0)) is None:
            raise Refused
        return answer

    monkeypatch.setattr(host, "ask", ask)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    for method, tried, status in (
        ("DELETE", [None, missing], 404),
        ("DELETE", [None, busy, missing], 404),
        ("DELETE", [missing, found], 200),
        ("GET", [None, missing, found], 200),
    ):
        answers[:] = tried
        assert host.until(method, "/v1/tokens/1").status == status
        assert answers == []
