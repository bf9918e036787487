"""The executors of a service without Spark: its source and its processors, in this process."""

from __future__ import annotations

import random
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

import xscl
from feeds.spool import Spool
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.engine.ingest import PushResult
from xscl.ingestion.pipeline import PipelineError, read_all
from xscl.spark import streaming
from xscl.spark.bound import SHARES
from xscl.spark.executors import SparkExecutors
from xscl.spark.offered_parts import OfferJoin
from xscl.spark.offers import OfferReader


class MapState:
    """A map of Spark's state of one key."""

    def __init__(self) -> None:
        self.rows: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        self.rows[key] = value

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        return iter(self.rows.items())

    def keys(self) -> Iterator[tuple[Any, ...]]:
        return iter(list(self.rows))

    def removeKey(self, key: tuple[Any, ...]) -> None:
        del self.rows[key]


class ValueState:
    """A value of Spark's state of one key."""

    def __init__(self) -> None:
        self.row: tuple[Any, ...] | None = None

    def get(self) -> tuple[Any, ...] | None:
        return self.row

    def exists(self) -> bool:
        return self.row is not None

    def update(self, row: tuple[Any, ...]) -> None:
        self.row = row


class Handle:
    """The handle of the state of one key."""

    def getMapState(self, name: str, key: str, value: str) -> MapState:
        return MapState()

    def getValueState(self, name: str, schema: str) -> ValueState:
        return ValueState()


class PartRow:
    """A row of `PARTS`."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.__dict__.update(row)


class BucketExecutors(SparkExecutors):
    """Executors in this process, that lose what a worker keeps in memory now and then."""

    def __init__(self, engine: xscl.Engine, directory: Path, *, buckets: int) -> None:
        self._random = random.Random(0)
        super().__init__("local", engine, directory, buckets)

    def _start_session(self) -> None:
        """There is none in this process."""

    def _start_query(self) -> None:
        options = {
            name: str(value) for name, value in self._options(self._random.choice([1, 3])).items()
        }
        self._reader = OfferReader(options)
        self._joins: dict[int, OfferJoin] = {}
        self._query = object()  # type: ignore[assignment]  # of which nothing is asked
        self._taken = asdict(self._offered)

    def _end_query(self) -> None:
        self._query = None
        super()._end_query()

    def _take(self) -> pa.Table:
        start = self._taken
        end = self._taken = self._reader.latestOffset(start, None)  # type: ignore[arg-type]  # not read
        parts = defaultdict(list)
        for partition in self._reader.partitions(start, end):
            for batch in self._reader.read(partition):
                for row in batch.to_pylist():
                    parts[row["bucket"]].append(PartRow(row))
        found: list[dict[str, Any]] = []
        for bucket, rows in sorted(parts.items()):
            if bucket not in self._joins:
                self._joins[bucket] = self._joining()
                self._joins[bucket].init(Handle())  # type: ignore[arg-type]  # as much as is used
            if self._random.random() < 0.2:
                streaming._live.clear()
            self._random.shuffle(rows)
            joined = self._joins[bucket].handleInputRows((bucket,), iter(rows), None)  # type: ignore[arg-type]  # as above
            found += (row.asDict() for row in joined)
        return pa.Table.from_pylist(found, schema=SHARES)


class EngineWithExecutors(xscl.Engine):
    """An engine whose documents pass executors in this process.

    With a file, the spool is beside it.
    """

    def __init__(
        self, path: str | Path | None = None, *, buckets: int = 4, **settings: Any
    ) -> None:
        super().__init__(path, **settings)
        self._opened = ExitStack()
        folder = Path(self._opened.enter_context(tempfile.TemporaryDirectory()))
        spool = folder / "spool" if path is None else Path(path).with_suffix(".spool")
        self._spool = self._opened.enter_context(Spool(spool))
        self.executors = BucketExecutors(self, folder / "spark", buckets=buckets)

    def push(self, documents: Iterable[xscl.Document] | xscl.Document, **given: Any) -> PushResult:
        documents = [documents] if isinstance(documents, xscl.Document) else list(documents)
        return self.push_without(documents, frozenset(), **given)

    def push_without(
        self, documents: Sequence[xscl.Document], poison: frozenset[int], **given: Any
    ) -> PushResult:
        """Push documents of which those at some places would end a process."""
        if not documents:
            return super().push(documents, **given)
        self._spool.append(documents, 0)
        return self.push_waiting(poison, **given)

    def beat(self, time: int) -> None:
        """Append a beat to the spool."""
        self._spool.append_in_turn(lambda: ((), time))

    def push_waiting(self, poison: frozenset[int] = frozenset(), **given: Any) -> PushResult:
        """Push the documents of the spool that are not consumed, as a consumer does."""
        with self.executors.between():
            segment, last = self.ingest.segment, self._spool.latest()
            segments = self._spool.consecutive(segment, last, last)
            documents, beats = read_all(self._spool, segments)
            found = self.executors.evaluate(segments, documents, poison)
            given |= {"source": BatchKey(SPOOL, last, last, beats), "poison": poison}
            return self.ingest.push(documents, evaluated=found, **given)

    def close(self) -> None:
        self.executors.close()
        super().close()
        self._opened.close()


class ServiceExecutors(BucketExecutors):
    """The executors of a service, which cannot be reached while there is a `failure`."""

    failure: ClassVar[PipelineError | None] = None

    def __init__(self, master: str, engine: xscl.Engine, directory: Path) -> None:
        super().__init__(engine, directory, buckets=4)

    def _start_session(self) -> None:
        if self.failure is not None:
            raise self.failure
