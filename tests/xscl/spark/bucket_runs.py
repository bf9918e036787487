"""Joins in buckets without Spark: the functions that executors run, called in this process."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

import xscl
from feeds.documents import Document
from tests.xscl.spark.bucket_executors import Handle, PartRow
from xscl.errors import QueryError
from xscl.spark.catalog import Catalog
from xscl.spark.part_format import REJECTED_ROWS, unpacked
from xscl.spark.parts import Shredding
from xscl.spark.streaming import BucketJoin, StreamSettings
from xscl.subscriptions.match import values_of

Batches = Sequence[Sequence[Document]]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Found(NamedTuple):
    """A match of one run, comparable with those of an engine."""

    id: str
    subscription: str
    documents: tuple[str, ...]
    times: tuple[int, int]
    values: tuple[tuple[str, tuple[str, ...]], ...]
    xml: str


class BucketRun:
    """The micro-batches of one stream over all buckets, by the processors that Spark calls."""

    def __init__(self, catalog: Catalog, buckets: int, *, lateness: int = 0) -> None:
        self._files = catalog.files
        self._settings = StreamSettings(buckets, lateness, "time", content=True)
        self._joins: dict[int, BucketJoin] = {}
        self._number = 0
        self._clock = -(1 << 40)

    def join(self, documents: Sequence[Document]) -> Iterator[dict[str, Any]]:
        """Yield the rows of `FOUND` that a micro-batch completes, from all buckets."""
        rows = pa.RecordBatch.from_pylist([*self._rows(documents)])
        buckets, lateness = self._settings.buckets, self._settings.lateness
        version = self._files.current()
        shredding = Shredding(self._files, buckets, lateness, True, version=version)
        parts = defaultdict(list)
        for batch in shredding(iter([rows.slice(0, 2), rows.slice(2)])):
            for part in batch.to_pylist():
                parts[part["bucket"]].append(PartRow(part))
        assert REJECTED_ROWS not in parts
        for number, several in parts.items():
            if number not in self._joins:
                self._joins[number] = BucketJoin(self._files, str(id(self)), self._settings)
                self._joins[number].init(Handle())  # type: ignore[arg-type]  # as much as is used
            found = self._joins[number].handleInputRows((number,), iter(several), None)  # type: ignore[arg-type]  # as above
            for row in found:
                yield from unpacked(row.found).to_pylist()

    def _rows(self, documents: Sequence[Document]) -> Iterator[dict[str, object]]:
        for one in documents:
            self._number += 1
            yield {
                **{"stream": one.streams[0], "id": one.id, "ts": one.timestamp, "xml": one.xml},
                **{"number": self._number, "clock": self._clock},
            }
            self._clock = max(self._clock, one.timestamp)


def possible(catalog: Catalog, queries: Mapping[str, str]) -> dict[str, str]:
    """Register the queries that executors can evaluate, and return them."""
    taken = {}
    for name, query in queries.items():
        try:
            catalog.subscribe(name, query)
        except QueryError as error:
            if "executors cannot evaluate" not in error.message:
                raise
        else:
            taken[name] = query
    return taken


def found_in_buckets(
    catalog: Catalog, batches: Batches, buckets: int, *, lateness: int = 0
) -> list[Found]:
    """Return the matches of micro-batches, each once."""
    run = BucketRun(catalog, buckets, lateness=lateness)
    return sorted({found_in_row(row) for batch in batches for row in run.join(batch)})


def found_in_row(row: Any) -> Found:
    """Return the match of a row of Arrow or of Spark; without content it has neither values."""
    return Found(
        row["id"],
        row["subscription"],
        tuple(row["documents"]),
        (_ticks(row["t0"]), _ticks(row["t1"])),
        _by_name(dict(row["bindings"] or {})),
        row["xml"] or "",
    )


def found_of(match: xscl.Match) -> Found:
    """Return a match of an engine."""
    return Found(
        match.id,
        match.subscription,
        match.documents,
        (match.t0, match.t1),
        _by_name(values_of(match)),
        match.xml().decode(),
    )


def _by_name(values: Mapping[str, Sequence[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return values in the order of names: a MAP of Spark has none."""
    return tuple(sorted((name, tuple(texts)) for name, texts in values.items()))


Change: TypeAlias = Callable[[Catalog | xscl.Engine], object]
Step: TypeAlias = Sequence[Document] | Change
"""Documents that arrive together, or a change of the subscriptions."""


def in_engine(
    queries: Mapping[str, str], steps: Iterable[Step], *, lateness: str | int = 0
) -> list[Found]:
    """Return the matches of one engine."""
    with xscl.Engine() as engine:
        for stream in "SR":
            engine.stream(stream, lateness=lateness)
        engine.subscribe_many(queries.items())
        found: list[Found] = []
        for step in steps:
            if callable(step):
                step(engine)
            else:
                found.extend(found_of(match) for match in engine.push(step))
        return sorted(found)


def _ticks(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
