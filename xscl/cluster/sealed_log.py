"""The log after sequencing, which all cells read: entries 1, 2, 3, ..., each one file.

An entry is either documents with their identities and clocks, or controls: declarations,
registrations, edits and removals.  So "since when" a subscription sees documents is a place in the
log, equal in each cell and in each replay.  An entry is never changed once the driver's store
counts it, but for the documents of users who were erased.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feeds.documents import DocumentColumns
from xscl.cluster.compacted_controls import CompactedControls, NumberedControls, compacted
from xscl.cluster.controls import Control, Remove, decode, encode, names_streams
from xscl.cluster.grid import Routes
from xscl.cluster.shared_directory import ClusterError, SharedDirectory
from xscl.documents.document_log import DocumentIdentity
from xscl.store.consumed_offsets import Beat

_SCHEMA = pa.schema(
    [
        pa.field("streams", pa.list_(pa.string())),
        pa.field("given", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("xml", pa.binary()),
        pa.field("history", pa.bool_()),
        pa.field("origin", pa.string()),
        pa.field("id", pa.string()),
        pa.field("version", pa.int32()),
        pa.field("clock", pa.int64()),
        pa.field("number", pa.int64()),
    ]
)
_BASES = pa.field("base", pa.int64())
"""The column of bases, which a log of an earlier version has not."""
_ROUTES = pa.field("routes", pa.list_(pa.int32()))
"""The column of the log of a cluster with a grid."""


@dataclass(frozen=True, slots=True)
class SequencedDocuments:
    """Accepted documents with their identities.

    `clocks` has the clock before each of them, and after the last one.  `arrived` is the time at
    which they came in, None for the clock.  `moment` is a number after theirs, for what happens
    then: the instants that the clock passes.  `routes` has the cells of the grid to which each
    goes, none without a grid.
    """

    documents: DocumentColumns
    identities: Sequence[DocumentIdentity]
    clocks: npt.NDArray[np.int64]
    arrived: int | None
    moment: int
    routes: Routes = ()

    def on(self, streams: frozenset[str], cell: int | None = None) -> SequencedDocuments:
        """Return the documents on some streams, or routed to a cell; the clock is that of all."""
        named = self.documents.streams
        routes = self.routes or [()] * len(named)
        places = [
            at
            for at, names in enumerate(named)
            if not streams.isdisjoint(names) or cell in routes[at]
        ]
        return self if len(places) == len(named) else self._chosen(places)

    def skipping(self, numbers: Collection[int]) -> SequencedDocuments:
        """Return the documents without those of some numbers; the clock is that of all."""
        return self._chosen(
            [at for at, one in enumerate(self.identities) if one.number not in numbers]
        )

    def _chosen(self, places: Sequence[int]) -> SequencedDocuments:
        return SequencedDocuments(
            self.documents.chosen(places),
            [self.identities[at] for at in places],
            self.clocks[[*places, -1]],
            self.arrived,
            self.moment,
            [self.routes[at] for at in places] if self.routes else (),
        )

    def without(self, prefix: str) -> SequencedDocuments:
        """Return the documents that have a stream without a prefix; the clock is that of all."""
        named = {name for names in self.documents.streams for name in names}
        return self.on(frozenset(name for name in named if not name.startswith(prefix)))

    def beats(self) -> tuple[Beat, ...]:
        """Return the clock before each document, and after the last one."""
        return tuple(Beat(at, int(clock)) for at, clock in enumerate(self.clocks))


Entry: TypeAlias = SequencedDocuments | tuple[Control, ...]

COMPACTED_AT = 256
"""Entries of controls behind the snapshots that are compacted together."""


@dataclass(frozen=True, slots=True)
class SealedLog:
    """Reads and writes the entries in a shared directory."""

    shared: SharedDirectory

    def write(self, number: int, entry: Entry) -> None:
        """Write an entry durably.  It counts once the driver's store says so."""
        documents, controls = self._paths(number)
        if isinstance(entry, SequencedDocuments):
            controls.unlink(missing_ok=True)  # of a driver that ended before it counted
            self.shared.place(documents, _encoded(entry))
        else:
            documents.unlink(missing_ok=True)
            self.shared.place(controls, encode(entry))

    def read(self, number: int) -> Entry:
        """Return an entry; raises ClusterError if it is lost or damaged."""
        documents, controls = self._paths(number)
        try:
            if controls.exists():
                return decode(controls.read_bytes())
            return _decoded(documents.read_bytes())
        except FileNotFoundError as error:
            raise ClusterError(
                f"entry {number} of the log is missing in {documents.parent}",
                hint="put the file back from a copy of the shared directory",
            ) from error
        except (pa.ArrowInvalid, ValueError, KeyError, TypeError) as error:
            raise ClusterError(f"entry {number} of the log is damaged: {error}") from error

    def moments(self, after: int, upto: int) -> list[int]:
        """Return the moments of the entries of documents after one entry and up to another.

        None are read, and none are returned, unless there are several.
        """
        several = [n for n in range(after + 1, upto + 1) if self._paths(n)[0].exists()]
        entries = map(self.read, several if len(several) > 1 else ())
        return [one.moment for one in entries if isinstance(one, SequencedDocuments)]

    def controls(self, after: int, upto: int) -> list[NumberedControls]:
        """Return the entries of controls after one entry and up to another one.

        Those that were compacted have what is left of them.
        """
        compacted = self._compacted
        while True:
            last = compacted.newest()
            found = compacted.read(last) if after < last else []
            single = range(max(after, last) + 1, upto + 1)
            paths = ((number, self._paths(number)[1]) for number in single)
            entries = ((number, self.read(number)) for number, path in paths if path.exists())
            found += [(number, one) for number, one in entries if isinstance(one, tuple)]
            if compacted.newest() == last:  # else entries may have been deleted meanwhile
                return [(number, some) for number, some in found if after < number <= upto]

    def write_history(self, number: int, documents: pa.Table) -> None:
        """Write the documents of the histories of an entry, before the entry."""
        self.shared.place(self._history(number), ipc_bytes(documents))

    def read_history(self, number: int) -> pa.Table:
        """Return the documents of the histories of an entry; raises ClusterError if lost."""
        path = self._history(number)
        try:
            return pa.ipc.open_file(pa.py_buffer(path.read_bytes())).read_all()
        except FileNotFoundError as error:
            raise ClusterError(f"the history of entry {number} is missing: {path}") from error
        except pa.ArrowInvalid as error:
            raise ClusterError(f"the history of entry {number} is damaged: {error}") from error

    def erase(self, prefix: str, upto: int) -> None:
        """Drop the documents of erased streams, and what was registered of them, up to an entry.

        All cells are after it: entries are repeated for their state, which has nothing of it left.
        """
        registered = self.controls(0, upto)
        gone = {one.key for _, some in registered for one in some if isinstance(one, Remove)}
        kept = [
            (number, tuple(one for one in entry if not names_streams(one, prefix, gone)))
            for number, entry in registered
        ]
        last = self._compacted.newest()
        if kept != registered and last:
            self._compacted.write(last, (one for one in kept if one[0] <= last))
        for (number, entry), (_, left) in zip(registered, kept, strict=True):
            if number > last and len(left) < len(entry):
                self.write(number, left)
        for number in range(1, upto + 1):
            if self._paths(number)[0].exists():
                documents = self.read(number)
                assert isinstance(documents, SequencedDocuments)
                others = documents.without(prefix)
                if others is not documents:
                    self.write(number, others)
            if self._history(number).exists():
                rows = self.read_history(number)
                stays = [
                    not all(name.startswith(prefix) for name in names)
                    for names in rows["streams"].to_pylist()
                ]
                if not all(stays):
                    self.write_history(number, rows.filter(pa.array(stays, pa.bool_())))

    def trim(self, upto: int) -> None:
        """Delete the entries up to one, which no cell will repeat.

        Controls are compacted first, as soon as there are many: restored cells read them.
        """
        controls = self._numbers("json", upto)
        last = self._compacted.newest()
        if sum(number > last for number in controls) >= COMPACTED_AT:
            self._compacted.write(upto, compacted(self.controls(0, upto)))
            last = upto
        for number in controls:
            if number <= last:
                self._paths(number)[1].unlink(missing_ok=True)
        for number in self._numbers("arrow", upto):
            self._paths(number)[0].unlink(missing_ok=True)
        for number in self._numbers("history", upto):
            self._history(number).unlink(missing_ok=True)

    @property
    def _compacted(self) -> CompactedControls:
        return CompactedControls(self.shared)

    def _numbers(self, kind: str, upto: int) -> list[int]:
        """Return the numbers of the entries up to one that have a file of a kind."""
        found = (self.shared.path / "sealed").glob(f"*.{kind}")
        numbers = (int(path.stem) for path in found if not path.name.startswith("."))
        return [number for number in numbers if number <= upto]

    def _history(self, number: int) -> Path:
        return self.shared.path / "sealed" / f"{number:020d}.history"

    def _paths(self, number: int) -> tuple[Path, Path]:
        sealed = self.shared.path / "sealed"
        return sealed / f"{number:020d}.arrow", sealed / f"{number:020d}.json"


def _encoded(entry: SequencedDocuments) -> bytes:
    some = entry.documents
    names = [one.id for one in entry.identities]
    versions = [one.version for one in entry.identities]
    columns = (
        *(some.streams, some.ids, some.timestamps, some.xml, some.history, some.origins),
        *(names, versions, entry.clocks[:-1], [one.number for one in entry.identities]),
    )
    arrays = [pa.array(one, kind) for one, kind in zip(columns, _SCHEMA.types, strict=True)]
    times = {
        "clock": int(entry.clocks[-1]),
        "arrived": entry.arrived,
        "moment": entry.moment,
    }
    table = pa.Table.from_arrays(arrays, schema=_SCHEMA.with_metadata({"times": json.dumps(times)}))
    bases = [one.base for one in entry.identities]
    table = table.append_column(_BASES, pa.array(bases, _BASES.type))
    if entry.routes:
        table = table.append_column(_ROUTES, pa.array(entry.routes, _ROUTES.type))
    return ipc_bytes(table)


def _decoded(content: bytes) -> SequencedDocuments:
    table = pa.ipc.open_file(pa.py_buffer(content)).read_all()
    times = json.loads(table.schema.metadata[b"times"])
    columns = [table[name].to_pylist() for name in _SCHEMA.names]
    streams, *rest = columns[:6]
    has_bases = _BASES.name in table.schema.names
    bases = table[_BASES.name].to_pylist() if has_bases else [None] * table.num_rows
    given = zip(columns[6], columns[7], columns[9], bases, strict=True)
    identities = [DocumentIdentity(*row) for row in given]
    clocks = np.array([*columns[8], times["clock"]], np.int64)
    documents = DocumentColumns([tuple(names) for names in streams], *rest)
    routes = table[_ROUTES.name].to_pylist() if _ROUTES.name in table.schema.names else ()
    arrived, moment = times["arrived"], times["moment"]
    return SequencedDocuments(documents, identities, clocks, arrived, moment, routes)


def ipc_bytes(table: pa.Table) -> bytes:
    """Return a table as the bytes of an Arrow file; equal tables have equal bytes."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table.combine_chunks())
    content: bytes = sink.getvalue().to_pybytes()
    return content
