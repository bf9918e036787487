"""The files of the spool: Arrow IPC streams to which segments are appended.

A file begins with the schema.  Each segment is one message, a record batch, and the custom metadata
of the message have a text `xscl` that describes it:

    number=000000000007 rows=0000000003 arrived=+0001764386607000000 body=000000000184
    crc32=1a2b3c4d head=5e6f7081

`crc32` is the checksum of the message's body, `head` that of all before the body, taken with zeros
in its own place.  So the heads alone say which segments a file has, a torn end is recognised, and
behind damaged bytes the next segment is found.

Arrow's marker of the end follows no segment.  Arrow's readers take a stream without it: any of them
reads a file to which segments are still appended.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from mmap import ACCESS_READ, mmap
from pathlib import Path

import pyarrow as pa

from feeds.documents import Document, DocumentColumns
from feeds.errors import SpoolError, SpoolUnavailable
from feeds.file_descriptors import descriptor_of

SUFFIX = ".arrows"

MAX_BYTES = 1 << 30
"""The most text that one segment takes; Arrow's `binary` ends at twice this."""

LAST_SEGMENT = 10**12 - 1
"""The greatest number of a segment: names of files have twelve digits."""

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

HEADER = SCHEMA.serialize().to_pybytes()
"""The first bytes of a file."""

_CONTINUED = b"\xff\xff\xff\xff"
_END = 8  # bytes of Arrow's marker of the end of a stream

ERASED = b"<erased/>"
"""The text of an erased document."""

_KEY = "xscl"
_DESCRIPTION = re.compile(
    rb"number=(\d{12}) rows=(\d{10}) arrived=([+-]\d{19}) body=(\d{12})"
    rb" crc32=([0-9a-f]{8}) head=([0-9a-f]{8})"
)
_LONGEST_HEAD = 4_096
"""Bytes that are read to find the head of a message, which has some 700."""
_MAPPED = 1 << 16
"""Bytes from which a segment is mapped and not copied."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment in a file: its description, and the offsets of its head, its body and its end.

    A segment without documents is a beat, and `arrived` the time that it carries.
    """

    path: Path
    number: int
    rows: int
    arrived: int
    begin: int
    body: int
    end: int
    crc32: int

    @property
    def size(self) -> int:
        """The number of bytes of the segment in its file."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Extract:
    """A copy `name` of a part of a spool file: `header`, then bytes [begin, end) of `path`."""

    name: str
    path: Path
    header: bytes
    begin: int
    end: int


@dataclass(slots=True)
class SpoolFile:
    """A file of segments, named by the first of them; `look` reads the heads of its segments.

    `inode` is that of the file when it was read, 0 before: another file may replace it.
    """

    first: int
    path: Path
    inode: int = 0
    entries: dict[int, Segment] = field(default_factory=dict)
    end: int = 0
    size: int = 0
    is_torn: bool = False

    @property
    def last(self) -> int:
        """The number of the last sound segment found; that before the first one if none was."""
        return next(reversed(self.entries), self.first - 1)

    @property
    def is_whole(self) -> bool:
        """True if the heads of all segments up to `last` are sound, and none is torn behind."""
        return not self.is_torn and len(self.entries) == self.last - self.first + 1

    def is_there(self) -> bool:
        """Return True if the file that `look` has read is still in its place."""
        try:
            return os.stat(self.path).st_ino == self.inode
        except FileNotFoundError:
            return False

    def look(self, last: int, *, beyond: bool = False) -> None:
        """Find the segments up to number `last`; with `beyond` all whole ones after it, too.

        Afterwards `is_torn` is True if one of these is not sound, and other bytes are in its place.
        Raises FileNotFoundError, SpoolUnavailable.
        """
        if self.last >= last and not beyond:
            return
        with accessible(self.path), descriptor_of(self.path) as descriptor:
            found = os.fstat(descriptor)
            if found.st_ino != self.inode or found.st_size < self.end:
                self.inode, self.end = found.st_ino, _header_end(descriptor)
                self.entries.clear()
            self.size = found.st_size
            while beyond or self.last < last:
                entry = self._next(descriptor, last)
                if entry is None:
                    break
                self.entries[entry.number] = entry
                self.end = entry.end
        ended = self.entries and self.end == self.size
        self.is_torn = (beyond or self.last < last) and not ended

    def image(self, entry: Segment) -> memoryview | None:
        """Return the message of a segment; None if another file has replaced this one.

        Raises FileNotFoundError, SpoolUnavailable, and ValueError if it is not what was written.
        """
        with accessible(self.path), descriptor_of(self.path) as descriptor:
            if os.fstat(descriptor).st_ino != self.inode:
                return None
            image = _read(descriptor, entry)
        if not is_sound(image, entry):
            raise ValueError("its checksum differs")
        return image

    def extract(self, after: int, last: int) -> Extract:
        """Return the part with the segments in (after, last]; `look` must have found them."""
        begin = max((one.end for one in self.entries.values() if one.number <= after), default=0)
        ends = [one.end for one in self.entries.values() if one.number <= last]
        end = self.size if self.is_torn else max(ends, default=0)
        name = f"{max(self.first, after + 1):012d}{SUFFIX}"
        return Extract(name, self.path, HEADER if begin else b"", begin, end)

    def _next(self, descriptor: int, last: int) -> Segment | None:
        """Return the next segment with a sound head; one behind `last` only if it is whole.

        It begins where the segments found end; if these lack `last`, perhaps behind damaged bytes.
        """
        rest, at = os.pread(descriptor, _LONGEST_HEAD, self.end), 0
        while at >= 0:
            entry = _entry(self.path, rest[at : at + _LONGEST_HEAD], self.end + at)
            if entry is not None and self.last < entry.number and entry.end <= self.size:
                if entry.number <= last:
                    return entry
                if at == 0 and is_sound(_read(descriptor, entry), entry):
                    return entry
            if self.last >= last:
                return None
            if at == 0:
                rest = os.pread(descriptor, self.size - self.end, self.end)
            at = rest.find(_CONTINUED, at + 1)
        return None


@contextmanager
def accessible(path: Path) -> Iterator[None]:
    """Raise SpoolUnavailable for a PermissionError; it names the path in that, otherwise `path`."""
    try:
        yield
    except PermissionError as error:
        where = Path(error.filename or path)
        raise SpoolUnavailable(where, error.strerror or "not permitted") from error


def message(batch: pa.RecordBatch, number: int, arrived: int) -> bytearray:
    """Return the message of a segment, with its number, arrival time and checksums."""
    plain = (
        f"number={number:012d} rows={batch.num_rows:010d} arrived={arrived:+020d}"
        f" body={0:012d} crc32={0:08x} head={0:08x}"
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_batch(batch, custom_metadata={_KEY: plain})
    image = bytearray(memoryview(sink.getvalue())[len(HEADER) : -_END])
    body = _body(image)
    found = _DESCRIPTION.search(image, 8, body)
    assert found is not None
    begin, end = found.start(4), found.end()
    crc32 = zlib.crc32(memoryview(image)[body:])
    image[begin:end] = b"%012d crc32=%08x head=%08x" % (len(image) - body, crc32, 0)
    image[end - 8 : end] = b"%08x" % zlib.crc32(memoryview(image)[:body])
    return image


def _read(descriptor: int, entry: Segment) -> memoryview:
    """Return the bytes of a segment; raises ValueError if the file ends before."""
    if entry.size < _MAPPED:
        return memoryview(os.pread(descriptor, entry.size, entry.begin))
    return memoryview(mmap(descriptor, entry.end, access=ACCESS_READ))[entry.begin :]


def is_sound(image: memoryview, entry: Segment) -> bool:
    """Return True if bytes are the message that an entry describes."""
    head, body = bytes(image[:_LONGEST_HEAD]), image[entry.body - entry.begin :]
    return _entry(entry.path, head, entry.begin) == entry and zlib.crc32(body) == entry.crc32


def read_batch(image: memoryview) -> pa.RecordBatch:
    """Return the record batch of a sound message."""
    return pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(image)), SCHEMA)


def batch_of(documents: Sequence[Document], arrived: int) -> pa.RecordBatch:
    """Return documents as rows of `SCHEMA`; raises SpoolError if they do not fit."""
    given = DocumentColumns.of(documents)
    size = sum(map(len, given.xml))
    if size > MAX_BYTES:
        raise SpoolError(
            f"{len(given)} documents of {size} bytes are too much for one segment "
            f"(the limit is {MAX_BYTES} bytes); append them in several parts"
        )
    times = (given.timestamps, [arrived] * len(given))
    columns = (given.streams, given.ids, *times, given.history, given.origins, given.xml)
    try:
        arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise SpoolError(f"a document does not fit the spool's columns: {error}") from error
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def columns_of(batch: pa.RecordBatch) -> DocumentColumns:
    """Return the rows of a batch as columns of documents."""
    return DocumentColumns(
        [tuple(names) for names in batch["streams"].to_pylist()],
        batch["id"].to_pylist(),
        batch["ts"].cast(pa.int64()).to_pylist(),
        batch["xml"].to_pylist(),
        batch["history"].to_pylist(),
        batch["origin"].to_pylist(),
    )


def erased(batch: pa.RecordBatch, prefix: str) -> tuple[list[Document], int]:
    """Return the documents of a batch without the streams that have a prefix, and how many changed.

    A document that was on such streams only keeps its row and its time; its text is `ERASED`.
    """
    documents, count = list(columns_of(batch)), 0
    for place, one in enumerate(documents):
        left = tuple(name for name in one.streams if not name.startswith(prefix))
        if left == one.streams:
            continue
        count += 1
        documents[place] = (
            replace(one, stream=left) if left else Document((), "", one.timestamp, ERASED)
        )
    return documents, count


def _entry(path: Path, head: bytes, at: int) -> Segment | None:
    """Return the segment whose message begins at an offset, None unless its head is sound."""
    if not head.startswith(_CONTINUED):
        return None
    size = _body(head)
    found = _DESCRIPTION.search(head, 8, size)
    if found is None or size > len(head):
        return None
    zeros = head[: found.start(6)] + b"0" * 8 + head[found.end() : size]
    if zlib.crc32(zeros) != int(found[6], 16) or abs(int(found[3])) >= 1 << 63:
        return None
    body = at + size
    number, rows, arrived, length = (int(group) for group in found.groups()[:4])
    return Segment(path, number, rows, arrived, at, body, body + length, int(found[5], 16))


def _body(head: bytes | bytearray) -> int:
    """Return the offset of a message's body from the beginning of the message."""
    return 8 + int.from_bytes(head[4:8], "little")


def _header_end(descriptor: int) -> int:
    """Return the offset of the end of a file's schema; 0 if the schema is damaged."""
    head = os.pread(descriptor, _LONGEST_HEAD, 0)
    end = _body(head)
    return end if head.startswith(_CONTINUED) and end <= len(head) else 0
