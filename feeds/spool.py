"""The spool: the durable queue through which every document enters.

A spool is a directory of numbered *segments*.  A segment is one immutable Arrow IPC file with one
record batch and the columns `SCHEMA`.  Both times are `timestamp('us', 'UTC')`: they equal the
engine's ticks bit for bit, and every Arrow tool shows them as times.

A segment is written beside its place, synchronised, renamed, and then the
directory is synchronised.  Only after that does the file `latest` name its
number.  Readers never look past `latest`, so nobody consumes a document that
a power cut can still take away; and as `latest` outlives the segments,
deleting old ones never makes a number come back.  A failed append leaves no
gap: the next one takes its number, unless readers can see the segment already.

The file `absent` lists the ranges of numbers that have no segment and need
none: segments that were deleted after they were consumed, and segments that
somebody gave up (`Spool.skip`).  Any other number without a segment is a lost
segment, at which consumers stop.

A segment without documents is a *beat*: it says what time it was between the
documents before it and those after it.

The footer's metadata hold a checksum of everything before it, because Arrow
itself notices a lost footer but not a changed byte.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from feeds.documents import Document, DocumentColumns
from feeds.errors import FeedError
from feeds.faultpoints import reached, write

_TICKS = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("streams", pa.list_(pa.string())),
        pa.field("id", pa.string()),
        pa.field("ts", _TICKS),
        pa.field("arrived", _TICKS),
        pa.field("history", pa.bool_()),
        pa.field("origin", pa.string()),
        pa.field("xml", pa.binary()),
    ]
)

_FOOTER = ("rows", "arrived", "bytes", "crc32")

MAX_BYTES = 1 << 30
"""The most text that one segment takes; Arrow's `binary` ends at twice this."""

_PROBED = 256
"""Up to so many new numbers are looked up one by one instead of listing the directory."""

_LEAST = 4_096
"""Bytes that any segment takes of the disk."""

LAST_SEGMENT = 10**12 - 1
"""The greatest number of a segment: names of files have twelve digits."""

_ABSENT = "absent"
_Range: TypeAlias = tuple[int, int]
"""Numbers of segments, the first and the last."""


class SpoolError(FeedError):
    """The spool cannot do what was asked."""

    def __init__(self, message: str, reason_code: str = "spool") -> None:
        super().__init__(reason_code, message)


class SpoolInUse(SpoolError):
    """Another process (or another `Spool` of this one) writes to the directory."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "spool_in_use")


class SegmentGone(SpoolError):
    """There is no such segment, or not any more."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"there is no segment {path}: it was deleted or never written")
        self.path = path


class SegmentsMissing(SpoolError):
    """Segments that were written, and not consumed, are not there any more."""

    def __init__(self, path: Path, first: int, last: int) -> None:
        more = f" and the {last - first} after it are" if last > first else " is"
        super().__init__(
            f"segment {path}{more} missing: acknowledged documents were not consumed; put the "
            f"{'files' if last > first else 'file'} back, or go on without these documents: "
            f"{_skipping(path, first, last)}",
            "spool_segment_missing",
        )
        self.path = path
        self.first = first
        self.last = last


class SegmentDamaged(SpoolError):
    """A segment does not hold what was written to it."""

    def __init__(self, path: Path, detail: str) -> None:
        number = int(path.stem)
        super().__init__(
            f"segment {path} is damaged ({detail}); put the file back from a backup, "
            f"or go on without its documents: {_skipping(path, number, number)}",
            "spool_damaged",
        )
        self.path = path
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment of a spool: where it is, how many documents it has, when they arrived.

    Without documents it is a beat, and `arrived` its time.  `size` are the bytes of the documents
    with all that belongs to them.
    """

    number: int
    path: Path
    rows: int
    arrived: int
    size: int


class Spool:
    """A directory of segments; all methods may be called from any thread.

    The one writer holds a lock on the directory until `close` or the end of
    its process.  With `read_only` there is no lock and nothing is changed, and
    any number of readers may look at the spool while another process writes.
    """

    def __init__(self, directory: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.directory = Path(directory).absolute()
        self.read_only = read_only
        self._mutex = threading.Lock()
        self._grown = threading.Condition(self._mutex)
        self._written = 0  # the latest segment of this writer
        self._lock: int | None = None
        self._consumed: deque[tuple[int, int]] = deque()  # numbers and sizes, see `forget`
        self._consumed_bytes = 0
        self._looked_at = 0  # up to here segments were looked at for that
        if read_only:
            if not self.directory.is_dir():
                raise SpoolError(f"there is no spool at {self.directory}")
            return
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _lock(self.directory / "lock")
        try:
            self._next = self._recover() + 1
        except BaseException:
            self.close()
            raise

    def append(self, documents: Sequence[Document], arrived: int) -> int:
        """Append a segment and return its number; it is durable when this returns.

        `arrived` is the arrival time of all these documents, in microseconds
        since the epoch.  Without documents nothing is written and the latest
        number is returned.  After an error nothing was acknowledged.
        """
        if not documents:
            return self.latest()
        batch = _batch(documents, arrived)
        with self._mutex:
            return self._append(batch, arrived)

    def append_in_turn(self, make: Callable[[], tuple[Sequence[Document], int]]) -> int:
        """Append the documents that `make` returns, with their arrival; return the new number.

        No other segment is appended between the call of `make` and the end of this one, so that
        times which `make` gives to documents rise in the order of the segments.
        """
        with self._mutex:
            self._refuse_unless_writing("appended")
            documents, arrived = make()
            return self._append(_batch(documents, arrived), arrived)

    def beat(self, time: int) -> int:
        """The number of a new segment without documents, which says that it is so late by now.

        `time` is in microseconds since the epoch.  It is durable when this returns.
        """
        batch = _batch([], time)
        with self._mutex:
            return self._append(batch, time)

    def _append(self, batch: pa.RecordBatch, arrived: int) -> int:
        """Write the next segment; the caller holds the mutex."""
        self._refuse_unless_writing("appended")
        number = self._next
        self._next += 1
        try:
            self._publish(number, _image(batch, arrived))
        except BaseException as error:
            self._undo_append(number)
            if not isinstance(error, OSError):
                raise
            raise SpoolError(
                f"segment {number} cannot be written to {self.directory} "
                f"({error.strerror or error}); its documents are not acknowledged"
            ) from error
        self._written = number
        self._grown.notify_all()
        return number

    def _undo_append(self, number: int) -> None:
        """Leave no gap after a failed append.

        Readers that see the number in `latest` may have read the segment, so it stays.  Otherwise
        nobody has seen it: it is removed, or else replaced by the next append.
        """
        if self.latest() < number:
            self._next = number
            with suppress(OSError):  # the first error is the one to report
                self._path(number).unlink(missing_ok=True)

    def wait(self, after: int, seconds: float) -> bool:
        """Wait for a segment above `after`, appended through this `Spool`; False on a timeout."""
        with self._grown:
            return self._grown.wait_for(lambda: self._written > after, seconds)

    def latest(self) -> int:
        """The number of the last durable segment ever written, 0 before the first."""
        try:
            return int((self.directory / "latest").read_text("ascii"))
        except (FileNotFoundError, ValueError):
            # A power cut may lose this small file, never a segment.
            return max(self._listed(), default=0)

    def numbers(self, after: int, limit: int | None = None) -> list[int]:
        """The numbers of the durable segments above `after`, in order, at most `limit` of them.

        An `after` that this spool has never reached means that the directory
        was replaced or emptied, and is an error.
        """
        latest = self.latest()
        if after > latest:
            raise SpoolError(
                f"the spool {self.directory} has gone backwards: segment {after} was "
                f"consumed from it, but its latest is {latest}; put back the spool that belongs "
                "to this store"
            )
        return self._present(after, latest)[:limit]

    def consecutive(self, after: int, end: int, limit: int | None = None) -> list[int]:
        """The numbers above `after` and up to `end`, in order, as far as no segment is lost.

        At most `limit` of them.  Raises SegmentsMissing if the very next one is lost.
        """
        found, lost = self._found_and_lost(after, end, limit)
        if lost is None:
            return found
        before = [number for number in found if number < lost[0]]
        if not before:
            raise SegmentsMissing(self._path(lost[0]), *lost)
        return before

    def expect(self, after: int, end: int) -> list[int]:
        """The numbers above `after` and up to `end`, in order; raises SegmentsMissing for a gap."""
        found, lost = self._found_and_lost(after, end)
        if lost is not None:
            raise SegmentsMissing(self._path(lost[0]), *lost)
        return found

    def skip(self, first: int, last: int) -> None:
        """Record lost or damaged segments as absent, durably: consumers continue without them.

        The file of a damaged one is kept under another name.  Raises SpoolError, and changes
        nothing, if there is a sound segment among them or a number that was never written.
        """
        with self._mutex:
            self._refuse_unless_writing("given up")
            if not 1 <= first <= last <= self.latest():
                raise SpoolError(
                    f"the spool {self.directory} has never had segments {first} to {last}: "
                    f"its latest is {self.latest()}"
                )
            damaged = self._present(first - 1, last)
            for number in damaged:
                if self._is_sound(number):
                    raise SpoolError(f"segment {self._path(number)} is sound: it will be consumed")
            self._write_absent([*self._absent(), (first, last)], durable=True)
            for number in damaged:
                self._path(number).rename(self._path(number).with_suffix(".damaged"))

    def skip_lost(self) -> int:
        """Record all lost segments as absent, durably, and return their number."""
        with self._mutex:
            self._refuse_unless_writing("given up")
            return self._adopt_gaps(self.latest())

    def _is_sound(self, number: int) -> bool:
        try:
            self.columns(number)
        except SegmentDamaged:
            return False
        return True

    def _found_and_lost(
        self, after: int, end: int, limit: int | None = None
    ) -> tuple[list[int], _Range | None]:
        """Return the numbers in (after, end], at most `limit`, and the first lost range there."""
        found = [number for number in self.numbers(after, limit) if number <= end]
        if limit is not None and len(found) == limit:
            end = found[-1]
        whole = len(found) >= end - after
        return found, None if whole else self._first_lost(after, found, end)

    def _first_lost(self, after: int, found: Sequence[int], end: int) -> _Range | None:
        """The first range of numbers in (after, end] that are neither found nor absent."""
        absent = self._absent()  # read after the directory: what is deleted is listed here before
        for first, last in _holes(after, found, end):
            for begin, stop in absent:
                if begin <= first <= stop:
                    first = stop + 1
            if first <= last:
                known = [begin for begin, _ in absent if first < begin <= last]
                return first, min(known, default=last + 1) - 1
        return None

    def segments(self, after: int, limit: int | None = None) -> list[Segment]:
        """The durable segments above `after`, in order, at most `limit` of them.

        Those that are deleted meanwhile are left out.
        """
        found = []
        for number in self.numbers(after, limit):
            with suppress(SegmentGone):
                found.append(self.segment(number))
        return found

    def segment(self, number: int) -> Segment:
        """Return the metadata of a segment's footer without reading its documents."""
        path = self._path(number)
        with _opened(path) as (_, _, footer):
            return Segment(number, path, footer["rows"], footer["arrived"], footer["bytes"])

    def newest_arrival(self, among: int = 16) -> int | None:
        """The latest arrival in the newest segments that can be read; None if there are none."""
        latest = self.latest()
        found: list[int] = []
        for number in self.numbers(max(0, latest - among)):
            with suppress(SegmentGone, SegmentDamaged):
                found.append(self.segment(number).arrived)
        return max(found, default=None)

    def read(self, number: int, begin: int = 0, end: int | None = None) -> list[Document]:
        """The documents of the segment in the order of their arrival, checked against its checksum.

        From the one at `begin` to the one before `end`.  A document on one stream has a plain name
        as its `stream`.
        """
        return list(self.columns(number, begin, end))

    def columns(self, number: int, begin: int = 0, end: int | None = None) -> DocumentColumns:
        """The same as columns: many documents at once."""
        path = self._path(number)
        with _opened(path) as (source, reader, footer):
            source.seek(0)
            body = source.read_buffer(footer["bytes"])
            if body.size != footer["bytes"] or zlib.crc32(body) != footer["crc32"]:
                raise SegmentDamaged(path, "its checksum differs")
            rows = reader.get_batch(0)
            return _columns(rows.slice(begin, None if end is None else end - begin))

    def forget(self, up_to: int, keep: int = 0) -> int:
        """Delete the oldest segments that all consumers have read, and return their number.

        Those are the ones up to a number, of which the newest stay that have `keep` bytes
        together: a store that is put back from a backup catches up with them.  A small one, such
        as a beat, counts as the 4,096 bytes that it takes of the disk.

        The newest segment always stays: if a power cut takes `latest`, numbers
        still go on from it.  A kill halfway leaves some files for the next
        call.  An open reader of a deleted segment reads it to its end; opening
        it later raises SegmentGone.
        The directory is not synchronised: a segment that comes back was
        consumed, and is deleted again.
        """
        with self._mutex:
            self._refuse_unless_writing("deleted")
            self._load_sizes(min(up_to, self.latest() - 1))
            count, left, last = 0, self._consumed_bytes, 0
            for number, size in self._consumed:
                if left <= keep:
                    break
                left, last = left - size, number
            if last:
                # On a full disk the list cannot be written, and deleting is what makes room. The
                # next list has these numbers, too.
                with suppress(SpoolError):
                    self._write_absent([*self._absent(), (1, last)], durable=False)
            while self._consumed_bytes > keep:
                number, size = self._consumed[0]
                count += self._delete(number)
                self._consumed.popleft()
                self._consumed_bytes -= size
        return count

    def _load_sizes(self, end: int) -> None:
        """Cache the sizes of segments up to a number."""
        for number in self._present(self._looked_at, end):
            size = max(_LEAST, self._path(number).stat().st_size)
            self._consumed.append((number, size))
            self._consumed_bytes += size
        self._looked_at = max(end, self._looked_at)

    def close(self) -> None:
        """Release the lock; segments can still be read."""
        with self._mutex:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_unless_writing(self, what: str) -> None:
        if self._lock is None:
            how = "opened for reading only" if self.read_only else "closed"
            raise SpoolError(f"the spool {self.directory} is {how}: nothing can be {what}")

    def _delete(self, number: int) -> bool:
        """Return True if the segment existed."""
        try:
            self._path(number).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise SpoolError(
                f"segment {number} cannot be deleted from {self.directory} "
                f"({error.strerror or error}); it was consumed, and nothing is lost"
            ) from error
        return True

    def _path(self, number: int) -> Path:
        return self.directory / f"{number:012d}.arrow"

    def _present(self, after: int, end: int) -> list[int]:
        """Return the numbers in (after, end] that have a file, in order."""
        if end - after > _PROBED:
            return sorted(number for number in self._listed() if after < number <= end)
        return [number for number in range(after + 1, end + 1) if self._path(number).exists()]

    def _listed(self) -> Iterator[int]:
        """The numbers of the segments in the directory, in no order."""
        with os.scandir(self.directory) as entries:
            for entry in entries:
                stem, dot, suffix = entry.name.partition(".")
                if dot and suffix == "arrow" and stem.isascii() and stem.isdigit():
                    yield int(stem)

    def _recover(self) -> int:
        """The highest number in use, after tidying up what a killed writer left behind."""
        for leftover in self.directory.glob("*.tmp"):
            leftover.unlink(missing_ok=True)
        highest = max(self.latest(), max(self._listed(), default=0))
        _synchronise(self.directory)
        self._point_to(highest, durable=True)
        if not (self.directory / _ABSENT).exists():
            # A spool of a release whose failed appends left gaps: which these are nobody knows.
            self._adopt_gaps(highest)
        return highest

    def _adopt_gaps(self, end: int) -> int:
        """Record all numbers up to `end` without a segment as absent; return how many are new."""
        absent = self._absent()
        self._write_absent([*absent, *_holes(0, self._present(0, end), end)], durable=True)
        return _size(self._absent()) - _size(absent)

    def _absent(self) -> list[_Range]:
        """The ranges of numbers that need no segment, in order; none if that was never written."""
        try:
            lines = (self.directory / _ABSENT).read_text("ascii").split()
            return [(int(first), int(last)) for first, _, last in (x.partition("-") for x in lines)]
        except (FileNotFoundError, ValueError):
            return []

    def _write_absent(self, ranges: Iterable[_Range], *, durable: bool) -> None:
        """Replace the list of ranges.

        It need not be durable where segments are deleted that all consumers are past.
        """
        text = "".join(f"{first}-{last}\n" for first, last in _merged(ranges))
        try:
            self._replace(_ABSENT, text, durable=durable)
        except OSError as error:
            raise SpoolError(
                f"{self.directory / _ABSENT} cannot be written ({error.strerror or error})"
            ) from error

    def _publish(self, number: int, image: pa.Buffer) -> None:
        path = self._path(number)
        temporary = path.with_suffix(".tmp")
        try:
            with open(temporary, "wb") as file:
                write(file, memoryview(image), "spool_half")
                file.flush()
                os.fsync(file.fileno())
            reached("spool_written")
            temporary.rename(path)
        except OSError:
            with suppress(OSError):  # the first error is the one to report
                temporary.unlink(missing_ok=True)
            raise
        _synchronise(self.directory)
        reached("spool_renamed")
        self._point_to(number, durable=False)

    def _point_to(self, number: int, *, durable: bool) -> None:
        """Publish `number` as the latest for readers.

        Not synchronised for each segment: what a power cut loses here is
        found again from the segments themselves.
        """
        self._replace("latest", f"{number}\n", durable=durable)

    def _replace(self, name: str, text: str, *, durable: bool) -> None:
        """Replace a small file atomically; pass the fault point `<name>_written` before."""
        temporary = self.directory / f"{name}.tmp"
        with open(temporary, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        reached(f"{name}_written")
        temporary.rename(self.directory / name)
        if durable:
            _synchronise(self.directory)


def _lock(path: Path) -> int:
    """The descriptor that holds the writer's lock; the file names the process for people."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
        os.close(descriptor)
        raise SpoolInUse(
            f"the spool {path.parent} is in use by process {holder or 'unknown'}; "
            "stop that process first, or open the spool for reading only"
        ) from error
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
    return descriptor


def _skipping(path: Path, first: int, last: int) -> str:
    """The command that goes on without segments, of which `path` is the first."""
    numbers = str(first) if first == last else f"{first}-{last}"
    return f"xscl spool skip {numbers} --data {shlex.quote(str(path.parent.parent))}"


def _holes(after: int, found: Iterable[int], end: int) -> Iterator[_Range]:
    """The ranges of numbers in (after, end] that are not among those found, which are in order."""
    for number in (*found, end + 1):
        if number > after + 1:
            yield after + 1, number - 1
        after = number


def _merged(ranges: Iterable[_Range]) -> list[_Range]:
    """The same numbers as ranges in order that neither touch nor overlap."""
    merged: list[_Range] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _size(ranges: Iterable[_Range]) -> int:
    return sum(last - first + 1 for first, last in ranges)


def _synchronise(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _batch(documents: Sequence[Document], arrived: int) -> pa.RecordBatch:
    """The documents as columns."""
    size = sum(len(document.xml) for document in documents)
    if size > MAX_BYTES:
        raise SpoolError(
            f"{len(documents)} documents of {size} bytes are too much for one segment "
            f"(the limit is {MAX_BYTES} bytes); append them in several parts"
        )
    columns = (
        [list(document.streams) for document in documents],
        [document.id for document in documents],
        [document.timestamp for document in documents],
        [arrived] * len(documents),
        [document.history for document in documents],
        [document.origin for document in documents],
        [document.xml for document in documents],
    )
    try:
        arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise SpoolError(f"a document does not fit the spool's columns: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _image(batch: pa.RecordBatch, arrived: int) -> pa.Buffer:
    """The bytes of a segment.

    Encoded twice: the footer's metadata must be known when the encoder
    starts, and the checksum of what comes before the footer only after it.
    """
    plain, length = _encode(batch, None)
    footer = {
        "rows": batch.num_rows,
        "arrived": arrived,
        "bytes": length,
        "crc32": zlib.crc32(plain.slice(0, length)),
    }
    image, _ = _encode(batch, {key: str(value) for key, value in footer.items()})
    return image


def _encode(batch: pa.RecordBatch, metadata: dict[str, str] | None) -> tuple[pa.Buffer, int]:
    """The Arrow IPC file, and how many of its bytes come before the footer."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA, metadata=metadata) as writer:
        writer.write_batch(batch)
        length = sink.tell()
    return sink.getvalue(), length


@contextmanager
def _opened(
    path: Path,
) -> Iterator[tuple[pa.MemoryMappedFile, pa.RecordBatchFileReader, dict[str, int]]]:
    """The mapped file of a segment, its reader, and its footer's numbers."""
    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            if not reader.schema.equals(SCHEMA) or reader.num_record_batches != 1:
                raise SegmentDamaged(path, "its columns differ")
            entries = reader.metadata or {}
            footer = {key: int(entries[key.encode()]) for key in _FOOTER}
            if wrong := [key for key, number in footer.items() if abs(number) >= 1 << 63]:
                raise SegmentDamaged(path, f"{wrong[0]} in its footer is no number of 63 bits")
            yield source, reader, footer
    except FileNotFoundError as error:
        raise SegmentGone(path) from error
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise SegmentDamaged(path, str(error)) from error


def _columns(batch: pa.RecordBatch) -> DocumentColumns:
    """The rows as columns of documents."""
    return DocumentColumns(
        [tuple(names) for names in batch["streams"].to_pylist()],
        batch["id"].to_pylist(),
        batch["ts"].cast(pa.int64()).to_pylist(),
        batch["xml"].to_pylist(),
        batch["history"].to_pylist(),
        batch["origin"].to_pylist(),
    )
