"""Offers as Spark reads them, and what an engine makes of results of executors; without Spark."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

import xscl
from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.spark.bucket_executors import BucketExecutors, EngineWithExecutors
from xscl.errors import StoreError
from xscl.ingestion.pipeline import Consumer
from xscl.spark import offers, streaming
from xscl.spark.offers import Offer, OfferSource
from xscl.store.store import Store

AGAIN = "S//a->x FOLLOWED BY{x = y, 10} S//a->y"


def document(number: int, text: str = "k", time: int | None = None) -> Document:
    content = b"<a>%s</a>" % text.encode()
    return Document("S", f"d{number}", number if time is None else time, content)


def of(number: int, *streams: str) -> Document:
    return Document(streams, "d0", number, b"<a b='%d'>k</a>" % number)


def fill(spool: Spool, *counts: int) -> None:
    for count in counts:
        spool.append([document(number) for number in range(count)], 0)


@pytest.mark.parametrize(
    ("rows", "shares"), [(0, [(0, 3)]), (3, [(0, 3)]), (7, [(0, 4), (4, 4)]), (8, [(0, 4), (4, 4)])]
)
def test_an_offer_is_cut_into_a_share_for_each_task(
    rows: int, shares: list[tuple[int, int]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader comes from a pickle, as in another process of Spark."""
    monkeypatch.setattr(offers, "FEW", 3)
    monkeypatch.setattr(offers, "WAIT", 0.0)
    options = {"offer": tmp_path / "offer", "plan": tmp_path / "plan", "buckets": 4, "tasks": 2}
    source = OfferSource({name: str(one) for name, one in options.items()})
    made = pickle.loads(pickle.dumps(source)).streamReader(StructType())
    reader = pickle.loads(pickle.dumps(made))
    offer = Offer(1, "documents.arrow", rows)
    (tmp_path / "offer").write_text(json.dumps(asdict(offer)), "utf-8")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == asdict(offer) == reader.latestOffset(end, ReadAllAvailable())
    assert reader.partitions(end, end) == []
    parts = pickle.loads(pickle.dumps(reader.partitions(start, end)))
    assert [part.value for part in parts] == [(offer, *share) for share in shares]


# -- What an engine makes of it ------------------------------------------------------------


@pytest.mark.parametrize(
    ("batches", "found"),
    [
        # The clock that executors know is that before the batch.
        ([[document(0), document(1, "z", 20), document(2)]], []),
        # Executors evaluate what is not accepted, too.
        ([[document(0)], [document(1, "<"), document(0), document(2, time=9)]], [("d0", "d2")]),
        # Of names they know those of the first stream only.
        ([[of(0, "S", "T")], [of(1, "T", "S"), document(2)]], [("d0", "d2"), ("d0@2", "d2")]),
    ],
)
def test_results_of_executors_are_those_of_an_engine(
    batches: Sequence[Sequence[Document]], found: list[tuple[str, ...]]
) -> None:
    runs = []
    for engine in (xscl.Engine(), EngineWithExecutors()):
        with engine:
            engine.subscribe("again", AGAIN, updates=True)
            runs.append([m.documents for batch in batches for m in engine.push(batch)])
    assert runs[0] == runs[1] == found


class Life:
    """A service on a directory, as far as its documents go; it is not closed when it is killed."""

    def __init__(self, folder: Path, spool: Spool) -> None:
        self.engine = xscl.Engine(folder / "state.sqlite")
        self.executors = BucketExecutors(self.engine, folder / "spark", buckets=4)
        self.consumer = Consumer(spool, self.engine.ingest, executors=self.executors, batch=2)

    @property
    def found(self) -> list[tuple[str, ...]]:
        return [match.documents for match in self.engine.matches()]

    def close(self) -> None:
        self.executors.close()
        self.engine.close()

    def fail_to_consume(self) -> None:
        """Consume what waits, which the store cannot take."""
        with pytest.MonkeyPatch.context() as failing:
            failing.setattr(type(self.engine.ingest), "_commit", None)
            with pytest.raises(TypeError):
                self.consumer.run_once()


@pytest.fixture
def life(spool: Spool, tmp_path: Path) -> Iterator[Life]:
    with closing(Life(tmp_path, spool)) as made:
        made.engine.subscribe("again", AGAIN)
        yield made


def test_c12_what_executors_have_left_decides_nothing(spool: Spool, tmp_path: Path) -> None:
    life = Life(tmp_path, spool)
    life.engine.subscribe("again", AGAIN)
    spool.append([document(0), document(1, "z")], 0)
    life.consumer.run_once()
    left = shutil.copytree(tmp_path / "spark", tmp_path / "left")
    (left / "checkpoint" / "offsets").mkdir(parents=True)
    for name in ("checkpoint/metadata", "checkpoint/offsets/0", "documents.arrow"):
        (left / name).touch()
    for path in left.rglob("*"):
        path.is_dir() or path.write_bytes(b"")
    life.engine.close()
    (tmp_path / "spark").rename(tmp_path / "older")
    left.rename(tmp_path / "spark")
    life = Life(tmp_path, spool)
    spool.append([document(2), document(3, "z")], 0)
    life.consumer.run_once()
    assert life.found == [("d0", "d2"), ("d1", "d3")]
    life.close()
    assert [path.name for path in (tmp_path / "spark").iterdir()] == []


def test_what_the_store_could_not_take_is_not_evaluated_again(
    spool: Spool, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[int] = []
    run = life.executors._run

    def noted(rows: pa.Table, version: int) -> pa.Table:
        offered.append(rows.num_rows)
        return run(rows, version)

    monkeypatch.setattr(life.executors, "_run", noted)
    fill(spool, 2)
    life.fail_to_consume()
    fill(spool, 3)
    life.consumer.run_once()
    assert offered == [2, 3]
    assert life.found == [("d0", "d1"), ("d0", "d2"), ("d1", "d2")]


def test_documents_are_joined_whose_commit_was_reported_as_failed() -> None:
    engines: list[xscl.Engine] = [xscl.Engine(), EngineWithExecutors()]
    for engine in engines:
        with engine:
            engine.subscribe("again", AGAIN)
            engine.push(document(0))
            with pytest.MonkeyPatch.context() as failing:
                failing.setattr(Store, "transaction", _committed_and_failed)
                with pytest.raises(StoreError, match="reported"):
                    engine.push(document(1))
            engine.push(document(2))
            found = [match.documents for match in engine.matches()]
            assert found == [("d0", "d1"), ("d0", "d2"), ("d1", "d2")]


@contextmanager
def _committed_and_failed(store: Store) -> Iterator[None]:
    with store._database.transaction():
        yield
    raise StoreError("reported as failed")


def test_a_plan_that_could_not_be_written_is_written_whole(
    spool: Spool, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(spool, 2)
    for _ in range(2):
        with monkeypatch.context() as failing:
            failing.setattr("xscl.spark.plan_files.replacing", None)
            with pytest.raises(TypeError):
                life.consumer.run_once()
    life.consumer.run_once()
    assert life.found == [("d0", "d1")]


def test_queries_that_begin_again_replace_the_join_states_in_workers(
    spool: Spool, life: Life, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_live", {})
    monkeypatch.setattr(life.executors._random, "random", lambda: 1.0)  # workers lose nothing
    for number in range(5):
        spool.append([document(number)], 0)
        life.executors._end()
        life.consumer.run_once()
    assert len(life.found) == 10
    assert len(streaming._live) <= 4


def test_documents_that_end_a_process_are_left_out() -> None:
    """All others are as if those had not come; the engine shreds these batches itself."""
    query = "S//a->x FOLLOWED BY{x = y, 1 h} S//a->y"
    documents = [xscl.Document("S", f"d{n}", n, b"<a>v%d</a>" % (n % 2)) for n in range(8)]
    with EngineWithExecutors() as engine, xscl.Engine() as plain:
        for one in (engine, plain):
            one.subscribe("q", query)
            one.subscribe("all", "S//a->x")
        poison = frozenset({0, 3, 7})
        engine.push_without(documents, poison)
        plain.ingest.push(documents, poison=poison)
        for one in (engine, plain):
            one.push([xscl.Document("S", "last", 9, b"<a>v1</a>")])
        assert [match.id for match in engine.matches()] == [match.id for match in plain.matches()]
        assert len(engine.matches()) == 6 + 3 + 1 + 2
        rejected = "SELECT id, reason FROM rejected ORDER BY id"
        assert engine.sql(rejected).to_pylist() == plain.sql(rejected).to_pylist()
