"""Detection of a stalled consumer, by committed and waiting segments."""

from __future__ import annotations

from functools import partial

import pytest

from tests.xscl.service.conftest import eventually, ok, serving
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.watches import ConsumerStall, ConsumerWatch


class Spool:
    """A spool and a clock, both set by hand."""

    latest = 3
    now = 0.0


def test_it_is_stalled_when_something_waits_and_nothing_is_committed() -> None:
    spool = Spool()
    watch = ConsumerWatch(lambda: spool.latest, 3, lambda: spool.now, stalled=10)
    spool.now = 1_000
    assert watch.stall() is None, "nothing waits"
    spool.latest = 5
    assert watch.stall() is None, "it begins to wait"
    spool.now += 9
    assert watch.stall() is None
    spool.now += 1
    assert watch.stall() == ConsumerStall(4, 10)
    watch.committed(4)
    assert watch.stall() is None
    spool.now += 10
    assert watch.stall() == ConsumerStall(5, 10), "since the last commit was looked at"
    watch.committed(5)
    spool.now += 100
    assert watch.stall() is None


def test_health_says_so_while_the_engine_is_busy(
    place_of_a_service: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered without the engine's lock, which somebody has here."""
    monkeypatch.setattr("xscl.service.app.ConsumerWatch", partial(ConsumerWatch, stalled=0.1))
    with serving(place_of_a_service) as running, running.client() as client:
        assert ok(client.get("/v1/health"))["consumer"] == "ok"
        ok(client.put("/v1/streams/S", json={}))  # else its first document waits for the engine
        app = running.service.app
        assert app is not None
        with app.engine.transactions.lock:
            ok(client.post("/v1/documents/S", content="<a/>"))
            eventually(lambda: ok(client.get("/v1/health"))["consumer"] == "stalled")
            told = ok(client.get("/v1/health"))
            assert told["stalled_segment"] == 1
            assert told["stalled_since"].endswith("Z")
            eventually(lambda: bool(ok(client.get("/v1/status"))["service"]["stalled"]))
            metrics = client.get("/v1/metrics").text
            (line,) = [
                one
                for one in metrics.splitlines()
                if one.startswith("xscl_consumer_stalled_seconds")
            ]
            assert float(line.split()[1]) > 0
        eventually(lambda: ok(client.get("/v1/health"))["consumer"] == "ok")


@pytest.fixture
def place_of_a_service(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """A new data directory."""
    return DataDirectory(tmp_path_factory.mktemp("service") / "data")
