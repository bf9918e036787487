"""State by window, and the growth of state without a window: `status` and `explain`."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from feeds.documents import Document
from xscl.cli import app
from xscl.documents.retention import DAY
from xscl.engine.facade import Engine
from xscl.engine.throughput import PushRates, PushThroughput
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_repository import FeedRepository
from xscl.service import figures
from xscl.service.status import StatusReader
from xscl.store.queries.status import status_counts

HOUR = DAY // 24
QUERIES = {
    "pairs": "S//a[./k->x] FOLLOWED BY{x = y, INF} S//b[./k->y]",
    "soon": "T//a[./k->x] FOLLOWED BY{x = y, 1 h} T//b[./k->y]",
    "next": "S//a[./k->x] NEXT{x = y} S//b[./k->y]",
    "silence": "S//a[./k->x] NOT FOLLOWED BY{x = y, 2 d} S//b[./k->y]",
    "filter": "S//a->x",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    """A directory whose documents came twelve hours apart; the clock is at the sixth."""
    home = DataDirectory(tmp_path_factory.mktemp("growth") / "data")
    with home.hold("test"), Engine(home.database) as engine, FeedRepository(engine):
        engine.subscribe_many(QUERIES.items())
        for number in range(6):
            text = f"<a><k>{number}</k></a>".encode()
            engine.push(Document("S", f"d{number}", 12 * HOUR * number, text))
    return home


def test_status_counts_by_window(home: DataDirectory) -> None:
    with home.hold("test"), Engine(home.database) as engine, closing(engine.connect()) as store:
        found = StatusReader(store, home, engine=engine).now()
    # The fifth and the sixth came in the last day; what has come now is no instance yet.
    assert found["windows"] == [
        {"ticks": 2 * DAY, "witnesses": 0, "instances": 4, "last_day": 1},
        {"ticks": None, "witnesses": 6, "instances": 5, "last_day": 3},
    ]
    lines = "\n".join(figures.lines(found))
    assert "state          6 witnesses: 6 for ever\n" in lines
    assert "state          9 instances: 4 for 2 d, 5 for ever\n" in lines
    assert "growth         3 a day of what is kept for ever\n" in lines


def test_status_without_a_service_counts_by_window_too(home: DataDirectory) -> None:
    told = CliRunner().invoke(app, ["status", "--json", "--data", str(home.path)])
    found = json.loads(told.stdout)
    assert [window["witnesses"] for window in found["windows"]] == [0, 6]
    assert found["rates"] is None


def test_status_counts_streams_and_late_documents() -> None:
    """Late is what is behind the lateness of one of its streams, and no history of a feed."""
    with Engine() as engine:
        engine.stream("slow", lateness=10)
        engine.subscribe("one", "SELECT <c/> FROM read//a PUBLISH published")
        engine.push(Document(("S", "slow"), "newest", 100, b"<a/>"))
        for stream, id_, time, history in (
            *(("slow", "within", 90, False), ("slow", "behind", 89, False)),
            *((("slow", "S"), "behind in S", 99, False), ("S", "old", 1, True)),
        ):
            engine.push(Document(stream, id_, time, b"<b/>", history=history))
        found = status_counts(engine.transactions.store)
    assert found == {"streams": 4, "late": 2}  # slow, S, read, published


def test_explain_tells_what_no_window_ends(home: DataDirectory) -> None:
    with home.hold("test"), Engine(home.database) as engine:
        told = {name: engine.explain(name) for name in QUERIES}
    rows = "kept: 6 witness rows of 6 documents (shared with all who use them)"
    assert f"{rows}\n  no window ends that: 2 rows came in the last day\n" in told["pairs"]
    kept = "kept: 5 instances of operators over time (shared with all who use them)"
    assert f"{kept}\n  no window ends that of 5: 1 came in the last day\n" in told["next"]
    assert "kept: 4 instances of operators over time" in told["silence"]
    for name in ("soon", "silence", "filter"):
        assert "no window ends" not in told[name]


# -- Rates over one minute and five --------------------------------------------------------


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
    pace.count(90, 19, 6)
    assert pace.rates() == PushRates(1.5, 150 / 90, 0.1, 9 / 90)
    now += 1000
    assert pace.rates() == PushRates()
    assert (pace.pushes, pace.documents, pace.matches) == (3, 150, 9)


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
