"""Rates over one minute and five, and how status shows them."""

from __future__ import annotations

import json
from pathlib import Path

from feeds.documents import Document
from xscl.engine.facade import Engine
from xscl.engine.throughput import PushRates, PushThroughput
from xscl.ingestion.data_directory import DataDirectory
from xscl.service import figures
from xscl.service.status import StatusReader


def test_rates_are_averages_of_the_last_minutes() -> None:
    now = 1000.0
    pace = PushThroughput(lambda after, up_to: up_to - after, lambda: now)
    pace.count(30, 13, 3)
    assert pace.rates() == PushRates(30, 30, 3, 3)  # it has just begun
    now += 30
    pace.count(30, 13, 0)
    assert pace.rates() == PushRates(2, 2, 0.1, 0.1)
    now += 60
    assert pace.rates() == PushRates(0, 60 / 90, 0, 3 / 90)
    now += 1000
    assert pace.rates() == PushRates()
    assert (pace.pushes, pace.documents, pace.matches) == (2, 60, 3)


def test_a_push_is_counted_with_its_matches_of_all_subscribers(tmp_path: Path) -> None:
    laps: list[str] = []
    home = DataDirectory(tmp_path / "data")
    with home.hold("test"), Engine(home.database) as engine:
        engine.ingest.pace.listener = lambda stage, seconds: laps.append(stage)
        for name in ("one", "two"):
            engine.subscribe(name, "S//a->x FOLLOWED BY{x=y, 90 s} S//a->y")
        engine.subscribe("three", "S//a->x FOLLOWED BY{x=y, 7 d} S//b->y")
        engine.push([Document("S", f"d{n}", n, b"<a>hi</a>") for n in range(3)])
        assert (engine.ingest.pace.documents, engine.ingest.pace.matches) == (3, 6)
        assert laps == ["wait", "accept", "join", "store", "commit"]
        store = engine.connect()
        found = StatusReader(store, home, engine=engine).now()
        store.close()
    kept = {"ticks": 604_800_000_000, "witnesses": 3, "instances": 0, "last_day": 3}
    assert found["windows"] == [kept]
    assert json.loads(json.dumps(found)) == found
    lines = "\n".join(figures.lines(found))
    assert "3 in 2 distinct joins of 1 template, shared 1.5 times" in lines
    assert "state          3 witnesses: 3 for 1 w" in lines
    assert "documents/s" in lines


def test_lengths_are_told_in_their_largest_unit() -> None:
    lengths = [figures.length(t) for t in (None, 7, 90_000_000, 3_600_000_000, 1_000_000)]
    assert lengths == ["ever", "7 ticks", "90 s", "1 h", "1 s"]
