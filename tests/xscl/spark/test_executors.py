"""The executors of a service and what they get from Spark, micro-batch by micro-batch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest

import xscl
from tests.project import python
from tests.waiting import beside
from tests.xscl.spark.bucket_executors import EngineWithExecutors
from xscl.engine.executors import DocumentsUnderWay
from xscl.ingestion.pipeline import ExecutorsAway
from xscl.spark import executors
from xscl.spark.executors import SparkExecutors

OFFERED = pa.table({"doc": [1]})
_PROGRAM = """
import sys, time
from pathlib import Path
import xscl
from feeds.documents import DocumentColumns
from feeds.spool import Spool
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.ingestion.pipeline import ExecutorsAway
from xscl.spark.executors import SparkExecutors

if __name__ == "__main__":
    folder, found = Path(sys.argv[1]), []
    with xscl.Engine(folder / "x.sqlite") as engine, Spool(folder / "spool") as spool:
        executors = SparkExecutors("local[2]", engine, folder / "spark")
        executors.start()
        time.sleep(5)
        engine.subscribe("again", "S//a->x FOLLOWED BY{x = y, 7 d} S//a->y")
        for number in range(3):
            documents = [xscl.Document("S", f"d{number}", number, b"<a>1</a>")]
            segment = spool.append(documents, 0)
            with executors.between():
                evaluated = executors.evaluate([segment], DocumentColumns.of(documents))
                source = BatchKey(SPOOL, segment, segment)
                pushed = engine.ingest.push(documents, evaluated=evaluated, source=source)
            found.append(len(pushed.matches))
        executors.close()
    print(found)
"""


def test_the_first_micro_batch_has_no_documents(
    engine: xscl.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark begins with one of what its source has at once, which is nothing."""
    monkeypatch.setattr("xscl.spark.executors.probe", lambda *given: None)
    taking: list[Callable[[Any, int], None]] = []
    session = MagicMock()
    joined = session.readStream.format().options().load().groupBy().transformWithState()

    def start() -> MagicMock:
        taking[0](MagicMock(), 0)
        return MagicMock()

    def write(take: Callable[[Any, int], None]) -> MagicMock:
        taking.append(take)
        written = MagicMock()
        written.option().start.side_effect = start
        return written

    joined.writeStream.foreachBatch.side_effect = write
    executors = SparkExecutors("local", engine, tmp_path / "spark")
    executors._session = session
    executors._start_query()
    documents = MagicMock()
    monkeypatch.setattr(executors, "_offer", lambda offer: taking[0](documents, 1))
    assert executors._run(OFFERED, 1) is documents.toArrow()
    executors.close()


@pytest.mark.parametrize("left", [0, 1])
def test_a_micro_batch_waits_for_executors_no_longer_than_there_are_some(
    engine: xscl.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int
) -> None:
    monkeypatch.setattr("xscl.spark.executors._ALONE", 0.0)
    executors = SparkExecutors("spark://head", engine, tmp_path / "spark")
    executors._query, executors._session = MagicMock(), MagicMock()
    java = executors._session.sparkContext._jsc.sc()
    java.isLocal.return_value = False
    java.getExecutorMemoryStatus().size.return_value = 1 + left
    threading.Timer(0.5, executors.stop).start()
    expected = "the service ends" if left else "Spark's master spark://head has no executors"
    with pytest.raises(ExecutorsAway, match=expected):
        executors._run(OFFERED, 1)
    executors.close()


@pytest.mark.slow
@pytest.mark.spark
def test_documents_that_come_late_after_a_start_are_joined(tmp_path: Path) -> None:
    done = python("-c", _PROGRAM, tmp_path)
    assert done.stdout == "[0, 1, 2]\n", done.stderr


def test_a_registration_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE", 0.05)
    is_held, may_end = threading.Event(), threading.Event()
    with EngineWithExecutors() as engine:

        def hold() -> None:
            with engine.executors.between():
                is_held.set()
                may_end.wait()

        with beside(hold, until=may_end):
            is_held.wait()
            with pytest.raises(DocumentsUnderWay, match="nothing was changed"):
                engine.subscribe("q", "S//a->x")
        engine.subscribe("q", "S//a->x")
        assert [one.name for one in engine.subscriptions] == ["q"]
