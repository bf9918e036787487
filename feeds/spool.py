"""The spool: the durable queue through which every document enters.

A *segment* are documents that were appended together: a record batch with the columns `SCHEMA` and
a number, which counts from 1.  Both times are `timestamp('us', 'UTC')`: they equal the
engine's ticks bit for bit, and every Arrow tool shows them as times.

The spool is a directory of Arrow IPC streams (`feeds.spool_files`).  A file is named by its first
segment and goes on to the first one of the next file.  Segments are appended to the last file, and
it is synchronised once for each of them; the directory once for each file.  Only after that does
the file `latest` name the number of the segment.  Readers never look past `latest`, so nobody
consumes a document that a power cut can still take away; and as `latest` outlives the files,
deleting old ones never makes a number come back.  A failed append leaves no gap: it is cut
off, and the next one takes its number in a new file, unless readers can see the segment already.

The file `absent` lists the ranges of numbers that nobody reads any more: segments that were
deleted after they were consumed, and segments that somebody gave up (`Spool.skip`).  Any other
number without a file is a lost segment, and one whose bytes are not what was written is a damaged
one.  Consumers stop at both.

A consumer writes a note of the last segment that it has consumed after the commit of each batch,
without synchronising it: after a crash of the machine it is an earlier one, never a later one.

A segment without documents is a *beat*: it says what time it was between the
documents before it and those after it.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

from feeds.documents import Document, DocumentColumns
from feeds.errors import (
    SegmentDamaged,
    SegmentGone,
    SegmentsMissing,
    SpoolError,
    SpoolRemoved,
    SpoolWentBack,
)
from feeds.faultpoints import reached, write
from feeds.file_descriptors import synchronise
from feeds.spool_files import (
    HEADER,
    SUFFIX,
    Extract,
    Segment,
    SpoolFile,
    accessible,
    batch_of,
    columns_of,
    erased,
    message,
    read_batch,
)

LATEST = "latest"
ABSENT = "absent"

SegmentRange: TypeAlias = tuple[int, int]
"""Numbers of segments, the first and the last."""

_FULL = 1 << 24
"""Size in bytes from which a file takes no more segments."""

_MOST = 1_000
"""The most segments in a file: to find one, the heads of all before it are read."""


class Spool:
    """A directory of files with segments; all methods may be called from any thread.

    There is one writer: whoever holds the lock of the data directory.  With `read_only` nothing is
    changed, and any number of readers may look at the spool while another process writes.
    """

    def __init__(self, directory: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.directory = Path(directory).absolute()
        self.read_only = read_only
        self._mutex = threading.Lock()
        self._grown = threading.Condition(self._mutex)
        self._written = 0  # the latest segment of this writer
        self._is_writing = False
        self._looking = threading.RLock()  # lock of readers, who wait for no writer
        self._known: dict[int, SpoolFile] = {}
        self._firsts: list[int] = []  # the keys of `_known`, ascending
        self._file: BinaryIO | None = None  # the file to which segments are appended
        self._end = 0  # the size of `_file` in bytes; `_count` is the number of its segments
        self._count = 0
        self._uncut: tuple[str, int] | None = None  # file with a failed append, its sound size
        if read_only:
            if not self.directory.is_dir():
                raise SpoolError(f"there is no spool at {self.directory}")
            self._refuse_old()
            return
        try:
            with accessible(self.directory):
                self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._refuse_old()
                self._next = self._recover() + 1
        except BaseException:
            self.close()
            raise
        self._is_writing = True

    def append(self, documents: Sequence[Document], arrived: int) -> int:
        """Append a segment and return its number; it is durable when this returns.

        `arrived` is the arrival time of all these documents, in microseconds
        since the epoch.  Without documents nothing is written and the latest
        number is returned.  After an error nothing was acknowledged.
        """
        return self.append_in_turn(lambda: (documents, arrived)) if documents else self.latest()

    def append_in_turn(self, make: Callable[[], tuple[Sequence[Document], int]]) -> int:
        """Append the documents and the arrival time that `make` returns; return the segment number.

        No other segment is appended between the call of `make` and the end of this one, so that
        times which `make` gives to documents rise in the order of the segments.
        """
        with self._mutex:
            self._refuse_unless_writing("appended")
            documents, arrived = make()
            batch, number = batch_of(documents, arrived), self._next
            self._next += 1
            try:
                self._publish(number, message(batch, number, arrived))
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

    def beat(self, time: int) -> int:
        """Append a segment without documents, a beat, and return its number.

        It says that time has come to `time`, in microseconds since the epoch.  It is durable when
        this returns.
        """
        return self.append_in_turn(lambda: ((), time))

    def _undo_append(self, number: int) -> None:
        """Leave no gap after a failed append.

        Readers that see the number in `latest` may have read the segment, so it stays.  Otherwise
        nobody has seen it: it is cut off, if need be by the next append.  That goes to a new file:
        what the disk has of this one is unknown.
        """
        file = self._file
        self._file = None
        with suppress(OSError):  # the first error is the one to report
            if file is not None:
                file.close()
        is_seen = False  # what cannot be read now was not written, either
        with suppress(OSError, SpoolError):
            is_seen = self.latest() >= number
        if not is_seen:
            self._next = number
            with suppress(OSError):
                if file is not None and self._end:
                    self._uncut = file.name, self._end
                    self._cut()
                else:
                    self._path(number).unlink(missing_ok=True)

    def _cut(self) -> None:
        """Remove what is left of a failed append, before another file begins with its number."""
        if self._uncut is not None:
            name, end = self._uncut
            with suppress(FileNotFoundError):
                os.truncate(name, end)
            self._uncut = None

    def wait(self, after: int, seconds: float) -> bool:
        """Wait until this `Spool` has appended a segment above `after`; False on a timeout."""
        with self._grown:
            return self._grown.wait_for(lambda: self._written > after, seconds)

    def latest(self) -> int:
        """The number of the last durable segment ever written, 0 before the first."""
        try:
            return int(self._text(LATEST))
        except (FileNotFoundError, ValueError):
            return self._last()  # a power cut may lose this small file, never a segment

    def refuse_more(self) -> None:
        """Raise SpoolError if files have sound segments above the number in the file `latest`."""
        if (last := self._last()) > (latest := self.latest()):
            raise SpoolError(f"it has segment {last} of the spool, and the latest is {latest}")

    def numbers(self, after: int, limit: int | None = None) -> list[int]:
        """The numbers of the durable segments above `after`, in order, at most `limit` of them.

        Raises SpoolWentBack if `after` is above the latest number: the directory was emptied or
        replaced.
        """
        latest = self.latest()
        if after > latest:
            raise SpoolWentBack(self.directory, after, latest)
        return self._present(after, latest, limit)

    def consecutive(self, after: int, end: int, limit: int | None = None) -> list[int]:
        """The numbers above `after` and up to `end`, in order, as far as no segment is lost.

        At most `limit` of them.  Raises SegmentsMissing if the very next one is lost.
        """
        found = [number for number in self.numbers(after, limit) if number <= end]
        if limit is not None and len(found) == limit:
            end = found[-1]
        if len(found) >= end - after:
            return found
        absent = self._absent()  # read last: a segment is listed there before it is deleted
        lost = next(_holes(after, found, absent, end), None)
        before = [number for number in found if lost is None or number < lost[0]]
        if lost is not None and not before:
            raise self._missing(*lost)
        return before

    def expect(self, after: int, end: int) -> list[int]:
        """The numbers above `after` and up to `end`, in order; raises SegmentsMissing for a gap."""
        found: list[int] = []
        while more := self.consecutive(found[-1] if found else after, end):
            found += more
        return found

    def skip(self, first: int, last: int) -> None:
        """Record lost or damaged segments as absent, durably: consumers continue without them.

        What is left of a damaged one stays in its file.  Raises SpoolError, and changes
        nothing, if there is a sound segment among them or a number that was never written.
        """
        with self._mutex:
            self._refuse_unless_writing("given up")
            if not 1 <= first <= last <= self.latest():
                raise SpoolError(
                    f"the spool {self.directory} has never had segments {first} to {last}: "
                    f"its latest is {self.latest()}"
                )
            for number in self._present(first - 1, last):
                if self._is_sound(number):
                    raise SpoolError(
                        f"segment {number} in {self.directory} is sound: it will be consumed"
                    )
            self._write_absent([*self._absent(), (first, last)], durable=True)

    def skip_lost(self) -> int:
        """Record all lost segments as absent, durably, and return their number."""
        with self._mutex:
            self._refuse_unless_writing("given up")
            absent, end = self._absent(), self.latest()
            lost = list(_holes(0, self._present(0, end), absent, end))
            self._write_absent([*absent, *lost], durable=True)
            return sum(last - first + 1 for first, last in lost)

    def put_back(self, other: Spool, known: int) -> None:
        """Copy the bytes of lost segments from another spool, durably.

        New segments get numbers above those of both spools, and above `known`.
        """
        with self._mutex:
            self._refuse_unless_writing("put back")
            self._close_file()  # segments of an open file have consecutive numbers
            end = max(known, self.latest(), other.latest())
            for first, last in _holes(0, self._present(0, end), (), end):
                for extract in other.extracts(first - 1, last):
                    with extract.path.open("rb") as file:
                        file.seek(extract.begin)
                        content = file.read(extract.end - extract.begin)
                    self._replace(extract.name, [extract.header, content], durable=True)
            self._point_to(end, durable=True)
            self._next = end + 1

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
        """Return the description of a segment without reading its documents."""
        return self._find(number)[1]

    def newest_arrival(self, among: int = 16) -> int | None:
        """Return the latest arrival time among the newest readable segments, in microseconds.

        None if none of the newest `among` can be read.
        """
        latest = self.latest()
        found: list[int] = []
        for number in self.numbers(max(0, latest - among)):
            with suppress(SegmentGone, SegmentDamaged):
                found.append(self.segment(number).arrived)
        return max(found, default=None)

    def read(self, number: int) -> list[Document]:
        """The documents of the segment in the order of their arrival, checked against its checksum.

        A document on one stream has a plain name as its `stream`.
        """
        return list(self.columns(number))

    def columns(self, number: int) -> DocumentColumns:
        """Return the documents of a segment as columns, like `read`; for many documents."""
        return columns_of(read_batch(self._image(number)))

    def check(self, number: int) -> None:
        """Compare a segment with its checksums; raises SegmentGone, SegmentDamaged."""
        self._image(number)

    def extracts(self, after: int, end: int | None = None) -> list[Extract]:
        """Return the files of a copy of the segments in (after, end]; `end` None is the latest."""
        spans = self._spans(after, self.latest() if end is None else end)
        found = [file.extract(after, last) for file, last in spans]
        return [one for one in found if one.begin < one.end]

    def forget(self, up_to: int, keep: int = 0) -> int:
        """Delete the oldest files, all of whose segments are at most `up_to`; return their number.

        Of these files the newest stay whose sizes add up to at most `keep` bytes: a store that is
        put back from a backup catches up with them.

        The newest file always stays: if a power cut takes `latest`, numbers
        still go on from it.  A kill halfway leaves some files for the next
        call.  An open reader of a deleted file reads it to its end; opening
        it later raises SegmentGone.
        The directory is not synchronised: a file that comes back was
        consumed, and is deleted again.
        """
        with self._mutex:
            self._refuse_unless_writing("deleted")
            files = self._files()
            ends = [file.first - 1 for file in files[1:]]
            old = files[: bisect_right(ends, up_to)]
            while old and keep >= 0:
                keep -= old[-1].path.stat().st_size
                if keep >= 0:
                    old.pop()
            if old:
                # On a full disk the list cannot be written, and deleting is what makes room. The
                # next list has these numbers, too.
                with suppress(SpoolError):
                    last = ends[len(old) - 1]
                    self._write_absent([*self._absent(), (1, last)], durable=False)
            return sum(self._delete(file.path) for file in old)

    def erase(self, prefix: str) -> int:
        """Erase documents from streams with a prefix, in all files; return the number changed.

        Segments keep their numbers, rows and times, so that nobody who reads them meanwhile takes
        a document for another one.  What is left of segments that were given up goes, too.  Raises
        SegmentDamaged for any other damaged one: nobody knows whose documents it has.
        """
        with self._mutex, accessible(self.directory):
            self._refuse_unless_writing("erased")
            self._close_file()
            files = list(self._spans(0, self.latest()))
            return sum(self._erase_in(file, last, prefix) for file, last in files)

    def _erase_in(self, file: SpoolFile, last: int, prefix: str) -> int:
        """Erase documents of streams with a prefix up to segment `last`; return their number."""
        pieces: list[bytes | memoryview] = [HEADER]
        changes = 0
        for number in self._present(file.first - 1, last):
            image, arrived = self._image(number), self.segment(number).arrived
            documents, count = erased(read_batch(image), prefix)
            if count:
                image = memoryview(message(batch_of(documents, arrived), number, arrived))
            pieces.append(image)
            changes += count
        if changes or file.path.stat().st_size != sum(map(len, pieces)):
            self._replace(file.path.name, pieces, durable=True)
        return changes

    def close(self) -> None:
        """End writing; segments can still be read."""
        with self._mutex:
            self._close_file()
            self._is_writing = False

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_unless_writing(self, what: str) -> None:
        if not self._is_writing:
            how = "opened for reading only" if self.read_only else "closed"
            raise SpoolError(f"the spool {self.directory} is {how}: nothing can be {what}")

    def _refuse_old(self) -> None:
        """Raise SpoolError for a spool of a release that wrote a file for each segment."""
        old = min(self.directory.glob("[0-9]*.arrow"), default=None)
        if old is not None:
            raise SpoolError(
                f"{old} is of the spool of an earlier release, which this one does not read; "
                "install that release again, run 'xscl export FILE' there, and 'xscl import FILE' "
                "with this one in another data directory",
                "spool_old",
            )

    def _delete(self, path: Path) -> bool:
        """Delete a file; return True if it existed."""
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise SpoolError(
                f"{path} cannot be deleted ({error.strerror or error}); "
                "it was consumed, and nothing is lost"
            ) from error
        return True

    # -- Looking ---------------------------------------------------------------------------

    def _path(self, first: int) -> Path:
        """Return the path of the file that begins with a segment."""
        return self.directory / f"{first:012d}{SUFFIX}"

    def _last(self) -> int:
        """Return the number of the last whole segment, published or not; 0 without any."""
        with self._looking:
            for file in self._files()[-1:]:
                file.look(0, beyond=True)
                return file.last
        return 0

    def _absent(self) -> list[SegmentRange]:
        """Return the ranges of numbers that need no segment, in order."""
        try:
            lines = self._text(ABSENT).split()
            return [(int(first), int(last)) for first, _, last in (x.partition("-") for x in lines)]
        except (FileNotFoundError, ValueError):
            return []

    def _text(self, name: str) -> str:
        path = self.directory / name
        with accessible(path):
            return path.read_text("ascii")

    def _files(self) -> list[SpoolFile]:
        """Return the files that are there now, in the order of their segments."""
        found: dict[int, SpoolFile] = {}
        with self._looking, accessible(self.directory), self._scanned() as entries:
            for entry in entries:
                stem, suffix = os.path.splitext(entry.name)
                if suffix == SUFFIX and stem.isascii() and stem.isdigit():
                    file = self._known.get(int(stem))
                    if file is None or file.inode != entry.inode() or not file.is_whole:
                        file = SpoolFile(int(stem), Path(entry.path))
                    found[file.first] = file
            self._known, self._firsts = found, sorted(found)
            return [found[first] for first in self._firsts]

    def _scanned(self) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        try:
            return os.scandir(self.directory)
        except FileNotFoundError as error:
            raise SpoolRemoved(self.directory) from error

    def _spans(self, after: int, end: int) -> Iterator[tuple[SpoolFile, int]]:
        """Yield each file of segments in (after, end], and the last number that it may have there.

        `SpoolFile.look` has read it up to that number.
        """
        with self._looking:
            files = self._files()
            for file, behind in zip(files, [*self._firsts[1:], end + 1], strict=False):
                last = min(end, behind - 1)
                if file.first <= last and after < last:
                    with suppress(FileNotFoundError):  # it was deleted meanwhile
                        file.look(last)
                        yield file, last

    def _present(self, after: int, end: int, limit: int | None = None) -> list[int]:
        """Return the first `limit` numbers in (after, end] that a file has, ascending.

        A damaged segment is one of them, unless it was given up.
        """
        found: list[int] = []
        absent: list[SegmentRange] | None = None
        for file, stop in self._spans(after, end):
            absent = self._absent() if absent is None else absent
            first, last = max(file.first, after + 1), stop if file.is_torn else min(stop, file.last)
            hidden = [(a, b) for a, b in absent if a <= last and first <= b]
            found += [
                number
                for number in range(first, last + 1)
                if not any(a <= number <= b for a, b in hidden) or self._is_sound(number)
            ]
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    def _is_sound(self, number: int) -> bool:
        """Return True if a segment is there and is what was written."""
        try:
            self._image(number)
        except (SegmentDamaged, SegmentGone):
            return False
        return True

    def _missing(self, first: int, last: int) -> SegmentsMissing:
        """Return the error for lost segments; it names the file that had the first one."""
        before = [stop for begin, stop in self._absent() if begin == 1 and stop < first]
        with self._looking:
            for file in [file for file in self._files() if file.first < first][-1:]:
                file.look(first - 1)
                before.append(file.last)
        return SegmentsMissing(self._path(max(before, default=0) + 1), first, last)

    def _find(self, number: int) -> tuple[SpoolFile, Segment]:
        """Return the file and the description of a segment; raises SegmentGone, SegmentDamaged."""
        with self._looking:
            place = bisect_right(self._firsts, number) - 1
            file = self._known[self._firsts[place]] if place >= 0 else None
            if file is not None and number in file.entries and file.is_there():
                return file, file.entries[number]
            for file, _ in self._spans(number - 1, number):
                if number in file.entries:
                    return file, file.entries[number]
                if file.is_torn or number < file.last:
                    raise self._damage(file, number)
        raise SegmentGone(self.directory, number)

    def _damage(self, file: SpoolFile, number: int) -> SegmentDamaged:
        """Return the error that names all segments around one that are damaged together."""
        end = min((first - 1 for first in self._known if first > file.first), default=0)
        end = end or max(number, self.latest())
        file.look(end)
        first = max((n for n in file.entries if n < number), default=file.first - 1) + 1
        last = min((n for n in file.entries if n > number), default=end + 1) - 1
        return SegmentDamaged(file.path, first, last, "it was cut off or overwritten")

    def _image(self, number: int) -> memoryview:
        """Return the message of a segment, compared with its checksums.

        Raises SegmentGone, SegmentDamaged.
        """
        while True:
            file, entry = self._find(number)
            try:
                image = file.image(entry)
            except FileNotFoundError as error:
                raise SegmentGone(self.directory, number) from error
            except (OSError, ValueError) as error:
                raise SegmentDamaged(file.path, number, number, str(error)) from error
            if image is not None:  # otherwise another file has taken its place
                return image

    # -- Writing ---------------------------------------------------------------------------

    def _recover(self) -> int:
        """The highest number in use, after tidying up what a killed writer left behind.

        Whole segments behind `latest` are accepted, and a torn one is cut off.
        """
        for leftover in self.directory.glob("*.tmp"):
            leftover.unlink(missing_ok=True)
        latest = self.latest()
        files = self._files()
        while files and not self._continue(files[-1], latest):
            files.pop().path.unlink()
        highest = max(latest, files[-1].last if files else 0)
        synchronise(self.directory)
        self._point_to(highest, durable=True)
        return highest

    def _continue(self, file: SpoolFile, latest: int) -> bool:
        """Open the last file for new segments, if it has room and no damage.

        Returns False if it has nothing that was acknowledged.
        """
        file.look(latest, beyond=True)
        if not file.entries and file.first > latest:
            return False
        whole = len(file.entries) == max(latest, file.last) - file.first + 1
        if whole:
            self._file = _opened(file.path, "ab")
            self._file.truncate(file.end)
            os.fsync(self._file.fileno())
            self._end, self._count = file.end, len(file.entries)
        return True

    def _write_absent(self, ranges: Iterable[SegmentRange], *, durable: bool) -> None:
        """Replace the file `absent`.

        It may be lost in a power cut if all consumers have read the segments that it adds.
        """
        text = "".join(f"{first}-{last}\n" for first, last in _merged(ranges))
        try:
            self._replace(ABSENT, [text.encode()], durable=durable)
        except OSError as error:
            raise SpoolError(
                f"{self.directory / ABSENT} cannot be written ({error.strerror or error})"
            ) from error

    def _publish(self, number: int, image: bytearray) -> None:
        begun = not self._is_appendable()
        if begun:
            self._cut()
            self._close_file()
            self._file, self._end, self._count = _opened(self._path(number), "wb"), 0, 0
        assert self._file is not None
        end, count = self._end + len(image) + (len(HEADER) if begun else 0), self._count + 1
        if begun:
            self._file.write(HEADER)
        write(self._file, memoryview(image), "spool_half")
        self._file.flush()
        reached("spool_written")
        os.fsync(self._file.fileno())
        if begun:
            synchronise(self.directory)
        reached("spool_synced")
        self._point_to(number, durable=False)
        self._end, self._count = end, count

    def _is_appendable(self) -> bool:
        """Return True if the open file has room, and nobody has removed, cut or replaced it."""
        if self._file is None or self._end >= _FULL or self._count >= _MOST:
            return False
        found = os.fstat(self._file.fileno())
        return found.st_nlink > 0 and found.st_size == self._end

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _point_to(self, number: int, *, durable: bool) -> None:
        """Publish `number` as the latest for readers.

        Not synchronised for each segment: what a power cut loses here is
        found again from the segments themselves.
        """
        self._replace(LATEST, [b"%d\n" % number], durable=durable)

    def _replace(self, name: str, pieces: Iterable[bytes | memoryview], *, durable: bool) -> None:
        """Replace a file atomically; pass the fault point `<name>_written` before."""
        temporary = self.directory / f"{name}.tmp"
        with open(temporary, "wb") as file:
            file.writelines(pieces)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        reached(f"{name}_written")
        temporary.rename(self.directory / name)
        if durable:
            synchronise(self.directory)


def _opened(path: Path, mode: Literal["ab", "wb"]) -> BinaryIO:
    return open(path, mode)


def _holes(
    after: int, found: Iterable[int], absent: Iterable[SegmentRange], end: int
) -> Iterator[SegmentRange]:
    """The ranges of numbers in (after, end] that are neither found nor absent."""
    known = _merged([*absent, *((number, number) for number in found), (end + 1, end + 1)])
    for first, last in known:
        if after + 1 < first <= end + 1:
            yield after + 1, first - 1
        after = max(after, last)


def _merged(ranges: Iterable[SegmentRange]) -> list[SegmentRange]:
    """The same numbers as ranges in order that neither touch nor overlap."""
    merged: list[SegmentRange] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged
