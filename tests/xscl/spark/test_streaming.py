"""`stream` gives what one engine gives, each match once, whatever happens between micro-batches."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from feeds.documents import Document
from tests.xscl.spark.bucket_runs import Step, in_engine
from tests.xscl.spark.spark_runs import (
    HOUR,
    QUERIES,
    StreamRun,
    documents_of,
    found_in,
    in_order_of_time,
    subscribing,
    unsubscribing,
    without_content,
)
from xscl.errors import StoreError
from xscl.ingestion.pipeline import PipelineError
from xscl.spark import Catalog, streaming
from xscl.spark.absences import WaitingRows
from xscl.spark.bucket import Bucket

PAIR = {"pair": "S//e->e[./a->x] FOLLOWED BY{x=y, 1 h} S//e->f[./a->y]"}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """An open catalog."""
    with Catalog(tmp_path / "catalog") as opened:
        yield opened


@pytest.fixture
def run(spark_session: SparkSession, tmp_path: Path, catalog: Catalog) -> Iterator[StreamRun]:
    """A stream that is not started yet; it is stopped at the end."""
    made = StreamRun(spark_session, tmp_path, catalog)
    yield made
    if made.query is not None:
        made.stop()


@pytest.fixture
def begun(run: StreamRun) -> StreamRun:
    """A stream that has joined two documents."""
    run.catalog.subscribe_many(PAIR)
    run.start()
    run.give(pairs(2))
    run.wait()
    return run


def pairs(count: int, *, first: int = 0) -> list[Document]:
    """Return documents of which each two are a pair."""
    places = range(first, first + count)
    return [Document("S", f"p{place}", place, b"<e><a>v</a></e>") for place in places]


def cut(documents: list[Document], size: int) -> list[list[Document]]:
    return [documents[at : at + size] for at in range(0, len(documents), size)]


def test_matches_are_those_of_one_engine_while_the_catalog_changes(run: StreamRun) -> None:
    """Changes come between micro-batches and inside them; the state outlives a restart."""
    first, second, third, fourth = cut(documents_of(80), 20)
    edited = QUERIES["join"].replace("2 h", "4 h")
    steps: list[Step] = [
        first,
        subscribing("late", QUERIES["two"]),
        unsubscribing("nested"),
        unsubscribing("join"),
        subscribing("join", edited),
        second,
        subscribing("nested", QUERIES["nested"]),
        third,
        unsubscribing("late"),
        fourth,
    ]
    expected = in_engine(QUERIES, steps)
    assert {one.subscription for one in expected} == {*QUERIES, "late"}
    run.catalog.subscribe_many(QUERIES)
    run.start()
    run.in_sink.extend(one for one in steps[1:5] if callable(one))
    run.give(first)
    run.wait()
    run.give(second)
    run.wait()
    run.catalog.subscribe("nested", QUERIES["nested"])
    run.stop()
    run.start()
    run.give(third)
    run.wait()
    run.catalog.unsubscribe("late")
    run.give(fourth)
    run.wait()
    assert run.found() == expected


@pytest.mark.slow
def test_documents_may_come_as_late_as_the_lateness(run: StreamRun) -> None:
    """Each file is in order; a file may be two hours behind an earlier one."""
    batches = [in_order_of_time(one) for one in cut(documents_of(90, late=2 * HOUR), 30)]
    expected = in_engine(QUERIES, batches, lateness="2 h")
    run.catalog.subscribe_many(QUERIES)
    run.start(order="time", lateness="2 h", content=False)
    for batch in batches:
        run.give(batch[::-1])
    run.wait()
    assert run.found(content=False) == without_content(expected)


def test_rows_that_are_no_documents_are_told(run: StreamRun) -> None:
    run.catalog.subscribe_many(PAIR)
    run.start()
    broken = Document("S", "broken", 3, b"<a>")
    unnamed = Document("two words", "stream", 4, b"<a/>")
    run.give([*pairs(2), broken, broken, unnamed])
    run.give([broken])
    run.wait()
    told = {number: [one["_rejected"] for one in rows] for number, rows in run.rows.items()}
    reasons = {
        number: sorted(one["reason"] for one in rejected if one)
        for number, rejected in told.items()
    }
    assert reasons == {0: ["stream_name", "xml_syntax", "xml_syntax"], 1: ["xml_syntax"]}
    matches = [one for rows in run.rows.values() for one in rows if one["_rejected"] is None]
    assert found_in(matches) == in_engine(PAIR, [pairs(2)])


@pytest.mark.slow
def test_a_sink_may_fail_and_may_act_several_times(run: StreamRun) -> None:
    """The micro-batch is repeated; a second action does not run the operator again."""
    failures = ["the disk is full"]
    written: dict[int, list[Any]] = {}

    def sink(matches: DataFrame, number: int) -> None:
        count = matches.count()
        rows = matches.collect()
        assert count == len(rows) == matches.where("_rejected IS NULL").count()
        if failures and number == 1:
            run.catalog.subscribe("late", PAIR["pair"])
            raise OSError(failures.pop())
        written[number] = rows

    run.catalog.subscribe_many(PAIR)
    run.start(sink=sink)
    run.give(pairs(2))
    run.give(pairs(2, first=2))
    with pytest.raises(StreamingQueryException, match="the disk is full"):
        run.wait()
    run.start(sink=sink)
    run.give(pairs(2, first=4))
    run.wait()
    steps: list[Step] = [
        pairs(2),
        pairs(2, first=2),
        subscribing("late", PAIR["pair"]),
        pairs(2, first=4),
    ]
    assert found_in(one for rows in written.values() for one in rows) == in_engine(PAIR, steps)


def test_a_worker_drops_join_states_that_nobody_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of ended streams, and of buckets that other workers have."""
    live: dict[tuple[str, int], streaming.Live] = {}
    monkeypatch.setattr(streaming, "_live", live)
    state = streaming.Live("", Bucket(0, 1), WaitingRows(0), 0.0)
    streaming._remember(("ended", 0), state)
    streaming._remember(("going on", 0), state)
    assert len(live) == 2
    monkeypatch.setattr(streaming, "SECONDS", -1.0)
    streaming._remember(("going on", 1), state)
    assert list(live) == [("going on", 1)]


@pytest.mark.slow
def test_numbers_that_step_back_end_the_stream(begun: StreamRun) -> None:
    again = StreamRun(begun._session, begun._place, begun.catalog)
    again._number = 1
    again.give(pairs(2, first=2))
    with pytest.raises(StreamingQueryException, match="the number 1 came after 2") as raised:
        begun.wait()
    assert "numbers must not step back" in str(raised.value)


def test_a_checkpoint_is_bound_to_its_settings(begun: StreamRun, tmp_path: Path) -> None:
    run = begun
    run.stop()
    for option, was in (
        ({"buckets": 4}, "buckets=3"),
        ({"lateness": "1 h"}, "lateness=0"),
        ({"order": "time"}, "order='number'"),
        ({"content": False}, "content=True"),
    ):
        with pytest.raises(PipelineError, match=f"was begun with {was}"):
            run.start(**option)
    with Catalog(tmp_path / "another") as other, pytest.raises(PipelineError, match="is not one"):
        StreamRun(run._session, tmp_path, other).start()
    with pytest.raises(ValueError, match="buckets must be 1 to 4,096"):
        run.start(buckets=0)
    run.start(checkpoint=f"file://{tmp_path}/checkpoint").stop()
    shutil.rmtree(tmp_path / "checkpoint")
    with pytest.raises(PipelineError, match="is gone: its sink would get matches a second time"):
        run.start()


@pytest.mark.slow
def test_a_catalog_that_is_gone_ends_the_stream(begun: StreamRun, tmp_path: Path) -> None:
    run = begun
    run.catalog.close()
    shutil.rmtree(tmp_path / "catalog")
    with Catalog(tmp_path / "catalog") as other:
        other.subscribe_many(PAIR)
        run.give(pairs(2, first=2))
        with pytest.raises(StreamingQueryException, match="there is no plan in"):
            run.wait()
        with pytest.raises(PipelineError, match="is not one of this catalog"):
            run.start()
    shutil.rmtree(tmp_path / "catalog")
    with pytest.raises(StoreError, match="there is no catalog"):
        run.start(catalog=tmp_path / "catalog")
