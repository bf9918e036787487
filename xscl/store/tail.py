"""The tail: what a transaction appends, and the commits that are in the journal only.

A push writes rows to the end of tables, replaces numbered entries of the state of operators, and
sets the numbers of `progress`.  `Appends` collects that and becomes the payload of one record of
the journal (`xscl.store.journal`).  `Tail` holds the records until `Appends.write` has brought
many of them to the database in one transaction, by any thread that is going to read it.  Records
that a restart finds in the journal pass through the same code.

A payload is a line of JSON, and one Arrow IPC stream after another:

    {"tables": [[name, bytes of its stream], ...], "gone": {table: [number, ...]}, "progress": {}}
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from xscl.store.journal import Journal, Record

MANY = 64
"""Records after which a transaction brings the tail to the database before it begins."""
LARGE = 1 << 22
"""Bytes of records after which it does."""
OLD = 10.0
"""Seconds after the first record after which it does."""
BULK = 1 << 18
"""Bytes of rows from which on a transaction is written to the database at once: then the fixed
cost of statements matters less than writing each row twice."""
_STREAM = pa.ipc.IpcWriteOptions()
"""Given to each stream: without it pyarrow reads seven environment variables for each."""
NUMBERED = {"state.core": "number"}
"""The tables whose entries are replaced, with the column that numbers them; no number is used
again."""


class Writer(Protocol):
    """Writes appends to a database, within a transaction."""

    def append(self, table: str, rows: pa.Table) -> None: ...
    def remove(self, table: str, numbers: Sequence[int]) -> None: ...
    def set_progress(self, **values: int) -> None: ...


class Appends:
    """The appended rows of a transaction, or of several, in order."""

    def __init__(self) -> None:
        self._rows: list[tuple[str, pa.Table]] = []
        self._gone: dict[str, list[int]] = {}
        self._progress: dict[str, int] = {}
        self.nbytes = 0

    def __bool__(self) -> bool:
        return bool(self._rows or self._gone or self._progress)

    def insert(self, table: str, rows: pa.Table) -> None:
        """Append rows to a table."""
        if rows.num_rows:
            self._rows.append((table, rows))
            self.nbytes += rows.get_total_buffer_size()

    def remove(self, table: str, numbers: Sequence[int]) -> None:
        """Remove numbered entries."""
        self._gone.setdefault(table, []).extend(numbers)

    def set_progress(self, **values: int) -> None:
        """Set some numbers of the push."""
        self._progress.update((name, int(value)) for name, value in values.items())

    def encode(self) -> bytes:
        """Return the payload of a record."""
        streams = []
        for _, rows in self._rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rows.schema, options=_STREAM) as stream:
                stream.write_table(rows)
            streams.append(sink.getvalue())
        tables = [[name, len(s)] for (name, _), s in zip(self._rows, streams, strict=True)]
        head = {"tables": tables, "gone": self._gone, "progress": self._progress}
        return b"".join((json.dumps(head).encode(), b"\n", *streams))

    @classmethod
    def of(cls, payloads: Iterable[bytes]) -> Appends:
        """Return the appends of several records."""
        appends = cls()
        for payload in payloads:
            at = payload.index(b"\n") + 1
            head = json.loads(payload[:at])
            for table, numbers in head["gone"].items():
                appends.remove(table, numbers)
            for table, length in head["tables"]:
                with pa.ipc.open_stream(memoryview(payload)[at : at + length]) as stream:
                    appends.insert(table, stream.read_all())
                at += length
            appends.set_progress(**head["progress"])
        return appends

    def write(self, writer: Writer) -> None:
        """Write to a database, table by table, each in the order of the appends."""
        for table, numbers in self._gone.items():
            writer.remove(table, numbers)
        by_table: dict[str, list[pa.Table]] = {}
        for table, rows in self._rows:
            by_table.setdefault(table, []).append(rows)
        for table, several in by_table.items():
            for _, alike in groupby(several, key=lambda rows: rows.schema):
                writer.append(table, self._kept(table, pa.concat_tables(alike)))
        if self._progress:
            writer.set_progress(**self._progress)

    def _kept(self, table: str, rows: pa.Table) -> pa.Table:
        """Return rows without those that a later record has removed."""
        if not self._gone.get(table):
            return rows
        gone = pa.array(self._gone[table], pa.int64())
        return rows.filter(pc.invert(pc.is_in(rows[NUMBERED[table]], gone)))


class Tail:
    """The commits of a store that are in its journal only, or in memory, if it is a store there.

    The engine's thread appends, and any thread drops what it has brought to the database; both
    hold the lock of the watermark.  `flushing` is held by the thread that brings them: one at a
    time.  `records` is replaced, never changed, so any thread may read it.
    """

    def __init__(self) -> None:
        self.flushing = threading.RLock()
        self.records: tuple[Record, ...] = ()
        self._journal: Journal | None = None
        self._counted = 0  # commits of the database
        self._last = 0  # the number of the last record
        self._nbytes = 0
        self._since = 0.0  # when the first record was appended

    def begin(
        self, database: Path, store: str, counted: int, known: int, records: Sequence[Record]
    ) -> None:
        """Begin with the records that a database lacks; it has `known` records, and counts them."""
        self.close()
        self._journal = Journal(database, store, known + len(records))
        self._counted, self._last = counted, known + len(records)
        self.records = tuple(records)
        self._nbytes = sum(len(record.payload) for record in records)
        if not records:
            self._journal.clear()

    @property
    def commits(self) -> int:
        """The number of commits: those of the database, and those in the journal only."""
        return self._counted + len(self.records)

    @property
    def is_full(self) -> bool:
        """Return whether the next transaction should bring the records to the database."""
        if len(self.records) >= MANY or self._nbytes >= LARGE:
            return True
        return bool(self.records) and time.monotonic() - self._since >= OLD

    @property
    def is_broken(self) -> bool:
        """Return whether a failed append has left bytes that could not be removed."""
        return self._journal is not None and self._journal.is_broken

    def append(self, payload: bytes) -> None:
        """Commit a record; raises OSError."""
        record = Record(self._last + 1, self._counted, payload)
        if self._journal is not None:
            self._journal.append(record)
        if not self.records:
            self._since = time.monotonic()
        self._last = record.number
        self._nbytes += len(payload)
        self.records = (*self.records, record)

    def note_commit(self, counted: int, records: Sequence[Record]) -> None:
        """Note a commit of the database: its count, and the first records, which it has now."""
        self._counted = counted
        if records:
            self.records = self.records[len(records) :]
            self._nbytes -= sum(len(record.payload) for record in records)
            if not self.records and self._journal is not None:
                self._journal.clear()

    def close(self) -> None:
        """Close the journal, which keeps the records that were not dropped."""
        journal, self._journal = self._journal, None
        self.records, self._nbytes = (), 0
        if journal is not None:
            journal.close()
