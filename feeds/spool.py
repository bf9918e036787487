"""The spool: the durable queue through which every document enters.

A spool is a directory of numbered *segments*.  A segment is one immutable
Arrow IPC file with one record batch; its columns are `SCHEMA`: both times are
`timestamp('us', 'UTC')`, which are the engine's ticks bit for bit and which
every Arrow tool shows as times.

A segment is written beside its place, synchronised, renamed, and then the
directory is synchronised.  Only after that does the file `latest` name its
number.  Readers never look past `latest`, so nobody consumes a document that
a power cut can still take away; and as `latest` outlives the segments,
deleting old ones never makes a number come back.  A failed append uses its
number up: numbers grow, but there may be gaps.

A segment without documents is a *beat*: it says what time it was between the
documents before it and those after it.

The footer's metadata hold a checksum of everything before it, because Arrow
itself notices a lost footer but not a changed byte.
"""

from __future__ import annotations

import fcntl
import os
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

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

    def __reduce__(self) -> tuple[type[SegmentGone], tuple[Path]]:
        """How to pickle it: segments are also read in worker processes."""
        return SegmentGone, (self.path,)


class SegmentDamaged(SpoolError):
    """A segment does not hold what was written to it."""

    def __init__(self, path: Path, detail: str) -> None:
        super().__init__(
            f"segment {path} is damaged ({detail}); put the file back from a backup, "
            "or move it away to go on without its documents",
            "spool_damaged",
        )
        self.path = path
        self.detail = detail

    def __reduce__(self) -> tuple[type[SegmentDamaged], tuple[Path, str]]:
        """How to pickle it: segments are also read in worker processes."""
        return SegmentDamaged, (self.path, self.detail)


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
        """The number of the new segment, which is durable when this returns.

        `arrived` is the arrival time of all these documents, in microseconds
        since the epoch.  Without documents nothing is written and the latest
        number is returned.  After an error nothing was acknowledged.
        """
        if not documents:
            return self.latest()
        return self._append(_batch(documents, arrived), arrived)

    def beat(self, time: int) -> int:
        """The number of a new segment without documents, which says that it is so late by now.

        `time` is in microseconds since the epoch.  It is durable when this returns.
        """
        return self._append(_batch([], time), time)

    def _append(self, batch: pa.RecordBatch, arrived: int) -> int:
        with self._mutex:
            self._refuse_unless_writing("appended")
            number = self._next
            self._next += 1
            try:
                self._publish(number, _image(batch, arrived))
            except OSError as error:
                raise SpoolError(
                    f"segment {number} cannot be written to {self.directory} "
                    f"({error.strerror or error}); its documents are not acknowledged"
                ) from error
            self._written = number
            self._grown.notify_all()
        return number

    def wait(self, after: int, seconds: float) -> bool:
        """Whether a segment above `after` is appended within some seconds, through this `Spool`."""
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
        if latest - after <= _PROBED:
            found = [n for n in range(after + 1, latest + 1) if self._path(n).exists()]
        else:
            found = sorted(n for n in self._listed() if after < n <= latest)
        return found[:limit]

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
        """What the footer of the segment says, without reading its documents."""
        path = self._path(number)
        with _opened(path) as (_, _, footer):
            return Segment(number, path, footer["rows"], footer["arrived"], footer["bytes"])

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
        """The number of segments deleted: of those that all consumers are done with, the oldest.

        Those are the ones up to a number, of which the newest stay that have `keep` bytes
        together: a store that is put back from a backup catches up with them.  A small one, such
        as a beat, counts as the 4,096 bytes that it takes of the disk.

        The newest segment always stays: if a power cut takes `latest`, numbers
        still go on from it.  A kill halfway leaves some files for the next
        call.  Whoever reads a segment that is deleted meanwhile reads it to
        its end; those that have only its number are told that it is gone.
        The directory is not synchronised: a segment that comes back was
        consumed, and is deleted again.
        """
        with self._mutex:
            self._refuse_unless_writing("deleted")
            self._look_at(min(up_to, self.latest() - 1))
            count = 0
            while self._consumed_bytes > keep:
                number, size = self._consumed[0]
                count += self._delete(number)
                self._consumed.popleft()
                self._consumed_bytes -= size
        return count

    def _look_at(self, end: int) -> None:
        """Note the sizes of segments up to a number that were not looked at yet."""
        new = range(self._looked_at + 1, end + 1)
        if not self._looked_at or len(new) > _PROBED:
            numbers = sorted(number for number in self._listed() if number in new)
        else:
            numbers = [number for number in new if self._path(number).exists()]
        for number in numbers:
            size = max(_LEAST, self._path(number).stat().st_size)
            self._consumed.append((number, size))
            self._consumed_bytes += size
        self._looked_at = max(end, self._looked_at)

    def close(self) -> None:
        """Releases the lock; reading stays possible."""
        with self._mutex:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _refuse_unless_writing(self, what: str) -> None:
        if self._lock is None:
            how = "opened for reading only" if self.read_only else "closed"
            raise SpoolError(f"the spool {self.directory} is {how}: nothing can be {what}")

    def _delete(self, number: int) -> bool:
        """Whether there was such a segment."""
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
        return highest

    def _publish(self, number: int, image: pa.Buffer) -> None:
        path = self._path(number)
        temporary = path.with_suffix(".tmp")
        try:
            with open(temporary, "xb") as file:
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
        """Makes `number` the latest for readers.

        Not synchronised for each segment: what a power cut loses here is
        found again from the segments themselves.
        """
        temporary = self.directory / "latest.tmp"
        with open(temporary, "w", encoding="ascii") as file:
            file.write(f"{number}\n")
            file.flush()
            if durable:
                os.fsync(file.fileno())
        reached("latest_written")
        temporary.rename(self.directory / "latest")
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
            yield source, reader, {key: int(entries[key.encode()]) for key in _FOOTER}
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
