"""The large relations: batches of Arrow in rows of the table `chunk`.

A chunk is the body of one record batch, without its schema.  Appends of few rows make small chunks.
`MANY` small chunks at the end of a relation are merged; fewer are merged before a large chunk
follows them, since only the last chunks are merged.  So the order of chunks is that of the appends.

`first` and `last` are the least and the largest value of the relation's order column in a chunk,
or 0 if it has none.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import apsw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.queries.tables import RELATIONS

LARGE = 1 << 16
"""Bytes from which on a chunk is compressed, and never merged."""
MANY = 64
"""Number of small chunks at which they are merged."""
MOST_ROWS = 8_192
"""Most rows of a chunk: it is read as a whole, even for one row."""

_INSERT = (
    "INSERT INTO state.chunk (id, relation, first, last, rows, size, crc, data)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_FOUND = "SELECT id FROM state.chunk WHERE relation = ? AND last >= ? AND first <= ?"
_NEWEST = (
    "SELECT id FROM state.chunk WHERE relation = ?1 AND id >"
    " coalesce((SELECT max(id) FROM state.chunk WHERE relation = ?1 AND size >= ?2), 0)"
)
_READ = "SELECT relation, first, last, size, crc, data FROM state.chunk WHERE id = ?"
_DELETE = "DELETE FROM state.chunk WHERE id = ?"
_DELETE_UPTO = "DELETE FROM state.chunk WHERE relation = ? AND last <= ? RETURNING rows"
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1

Execute: TypeAlias = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""A function that executes a statement with parameters, and returns the rows."""
Dead: TypeAlias = Callable[[pa.RecordBatch], pa.Array]
"""A function that returns a mask of a batch, True for the rows to remove."""


class ChunkDamaged(apsw.CorruptError):
    """A chunk does not hold what was written to it."""


class Chunk(NamedTuple):
    """A part of a relation, with the bounds of its order column; `size` in bytes, uncompressed."""

    id: int
    first: int
    last: int
    size: int
    batch: pa.RecordBatch


class Chunks:
    """The relations as a connection reads them; the caller keeps one snapshot during a call."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute

    def between(
        self,
        relation: str,
        since: int | None = None,
        until: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Iterator[Chunk]:
        """Yield the chunks that may have rows from `since` to `until`; raises ChunkDamaged."""
        bounds = (_LEAST if since is None else min(since, _MOST), _MOST if until is None else until)
        found = self._execute(_FOUND, (relation, *bounds))
        numbers = sorted((number for (number,) in found), reverse=newest_first)
        yield from map(self._read, numbers)

    def batches(
        self,
        relation: str,
        since: int | None = None,
        until: int | None = None,
        *,
        newest_first: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches of the rows with `since` <= order column <= `until`, as appended."""
        order = RELATIONS[relation].order
        for one in self.between(relation, since, until, newest_first=newest_first):
            yield _inside(one, order, since, until)

    def verify(self) -> None:
        """Compare all chunks with their checksums; raises ChunkDamaged."""
        for _ in chain.from_iterable(map(self.between, RELATIONS)):
            pass

    def _read(self, number: int) -> Chunk:
        """Return the chunk with an id; raises ChunkDamaged."""
        ((relation, first, last, size, crc, data),) = self._execute(_READ, (number,))
        if zlib.crc32(data) != crc:
            raise ChunkDamaged(f"chunk {number} of {relation} has another checksum")
        body = pa.py_buffer(data)
        if len(data) != size:
            body = pa.decompress(body, size, codec="lz4")
        batch = pa.ipc.read_record_batch(body, RELATIONS[relation].schema)
        return Chunk(number, first, last, size, batch)


class ChunkWriter(Chunks):
    """Appends to the relations and drops rows of them, on the connection that writes.

    Each call is within a transaction; `forget` comes after a rollback.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        super().__init__(lambda sql, row: connection.execute(sql, row).fetchall())
        self._connection = connection
        self._small: dict[str, list[Chunk]] = {}  # the small chunks at the end of a relation

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows; their columns are matched by name."""
        if not rows.num_rows:
            return
        schema = RELATIONS[relation].schema
        if not rows.schema.equals(schema):
            rows = rows.select(schema.names).cast(schema)
        batches = rows.to_batches(max_chunksize=MOST_ROWS)
        if len(batches) > 1:
            batches = rows.combine_chunks().to_batches(max_chunksize=MOST_ROWS)
        for batch in batches:
            body, small = batch.serialize(), self._newest(relation)
            if len(body) >= LARGE and len(small) > 1:
                self._merge(relation)
            self._note(relation, self._insert(relation, batch, body))
            if len(self._small[relation]) >= MANY:
                self._merge(relation)

    def forget(self) -> None:
        """Forget the small chunks, so that the next append reads them again."""
        self._small.clear()

    def drop(self, relation: str, upto: int | None = None, dead: Dead | None = None) -> int:
        """Remove the rows up to `upto` that `dead` selects, or all; return their number."""
        order, removed = RELATIONS[relation].order, 0
        if dead is None:  # chunks with rows up to `upto` alone are not read
            bounds = (relation, _MOST if upto is None else upto)
            removed = sum(rows for (rows,) in self._execute(_DELETE_UPTO, bounds))
        for one in self.between(relation, until=upto):
            gone = pa.array(np.full(one.batch.num_rows, True)) if dead is None else dead(one.batch)
            if upto is not None and order is not None:
                gone = pc.and_(gone, pc.less_equal(one.batch[order], upto))
            gone = gone.fill_null(False)
            if gone.true_count:
                removed += gone.true_count
                self._connection.execute(_DELETE, (one.id,))
                if gone.true_count < len(gone):
                    left = one.batch.filter(pc.invert(gone))
                    self._insert(relation, left, left.serialize(), one.id)
        self._small.pop(relation, None)
        return removed

    def _newest(self, relation: str) -> list[Chunk]:
        """Return the small chunks at the end of a relation."""
        if relation not in self._small:
            found = self._execute(_NEWEST, (relation, LARGE))
            self._small[relation] = list(map(self._read, sorted(number for (number,) in found)))
        return self._small[relation]

    def _note(self, relation: str, added: Chunk) -> None:
        """Remember an appended chunk if it is small; after a large one there are none."""
        self._small[relation] = [] if added.size >= LARGE else [*self._small[relation], added]

    def _merge(self, relation: str) -> None:
        """Replace the small chunks at the end of a relation by larger ones under their ids."""
        small, self._small[relation] = self._small[relation], []
        self._connection.executemany(_DELETE, [(one.id,) for one in small])
        rows = pa.Table.from_batches([one.batch for one in small]).combine_chunks()
        for before, batch in zip(small, rows.to_batches(max_chunksize=MOST_ROWS), strict=False):
            self._note(relation, self._insert(relation, batch, batch.serialize(), before.id))

    def _insert(
        self, relation: str, batch: pa.RecordBatch, body: pa.Buffer, number: int | None = None
    ) -> Chunk:
        """Insert a chunk, as the last one (`number` None) or with the id of a removed one."""
        data = pa.compress(body, codec="lz4") if body.size >= LARGE else body
        if data.size >= body.size:
            data = body
        first = last = 0
        if (order := RELATIONS[relation].order) is not None:
            column = batch.column(order).to_numpy()  # 4 µs; pyarrow's min_max takes 25
            first, last = int(column.min()), int(column.max())
        row = (number, relation, first, last, batch.num_rows, body.size, zlib.crc32(data), data)
        self._connection.execute(_INSERT, row)
        number = self._connection.last_insert_rowid() if number is None else number
        return Chunk(number, first, last, body.size, batch)


def _inside(chunk: Chunk, order: str | None, since: int | None, until: int | None) -> Any:
    """Return the rows of a chunk with `since` <= order column <= `until`."""
    low, high = chunk.first if since is None else since, chunk.last if until is None else until
    if order is None or (low <= chunk.first and chunk.last <= high):
        return chunk.batch
    values = chunk.batch[order]
    return chunk.batch.filter(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)))
