"""The places of a spool's segments: its files, read as far as a caller has asked."""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeAlias

from feeds.spool_errors import (
    SegmentDamaged,
    SegmentGone,
    SegmentsMissing,
    SpoolRemoved,
    accessible,
)
from feeds.spool_files import SUFFIX, SegmentEntry, SpoolFile

LATEST = "latest"
ABSENT = "absent"

SegmentRange: TypeAlias = tuple[int, int]
"""Numbers of segments, the first and the last."""


class SpoolIndex:
    """The directory of a spool for readers; all methods may be called from any thread.

    A file goes from the segment in its name to the one before the next file's.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mutex = threading.RLock()
        self._known: dict[int, SpoolFile] = {}
        self._firsts: list[int] = []  # their names in order

    def path(self, first: int) -> Path:
        """Return the path of the file that begins with a segment."""
        return self._directory / f"{first:012d}{SUFFIX}"

    def latest(self) -> int:
        """Return the number of the last durable segment ever written, 0 before the first."""
        try:
            return int(self._read(LATEST))
        except (FileNotFoundError, ValueError):
            return self.last()  # a power cut may lose this small file, never a segment

    def last(self) -> int:
        """Return the number of the last whole segment, published or not; 0 without any."""
        with self._mutex:
            for file in self.files()[-1:]:
                file.look(0, beyond=True)
                return file.last
        return 0

    def absent(self) -> list[SegmentRange]:
        """Return the ranges of numbers that need no segment, in order."""
        try:
            lines = self._read(ABSENT).split()
            return [(int(first), int(last)) for first, _, last in (x.partition("-") for x in lines)]
        except (FileNotFoundError, ValueError):
            return []

    def _read(self, name: str) -> str:
        path = self._directory / name
        with accessible(path):
            return path.read_text("ascii")

    def files(self) -> list[SpoolFile]:
        """Return the files that are there now, in the order of their segments."""
        found: dict[int, SpoolFile] = {}
        with self._mutex, accessible(self._directory), self._scanned() as entries:
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
            return os.scandir(self._directory)
        except FileNotFoundError as error:
            raise SpoolRemoved(self._directory) from error

    def spans(self, after: int, end: int) -> Iterator[tuple[SpoolFile, int]]:
        """Yield the files with segments in (after, end], looked through up to their last one."""
        with self._mutex:
            files = self.files()
            for place, file in enumerate(files):
                behind = files[place + 1].first if place + 1 < len(files) else end + 1
                last = min(end, behind - 1)
                if file.first <= last and after < last:
                    with suppress(FileNotFoundError):  # it was deleted meanwhile
                        file.look(last)
                        yield file, last

    def present(self, after: int, end: int, limit: int | None = None) -> list[int]:
        """Return the first numbers in (after, end] that a file has, in order.

        A damaged segment is one of them, unless it was given up.
        """
        found: list[int] = []
        absent: list[SegmentRange] | None = None
        for file, stop in self.spans(after, end):
            if absent is None:
                absent = self.absent()
            first, last = max(file.first, after + 1), stop if file.is_torn else min(stop, file.last)
            numbers: Iterable[int] = range(first, last + 1)
            if hidden := [(a, b) for a, b in absent if a <= last and first <= b]:
                numbers = [
                    number
                    for number in numbers
                    if not any(a <= number <= b for a, b in hidden) or self.is_sound(number)
                ]
            found += numbers
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    def is_sound(self, number: int) -> bool:
        """Return whether a segment is there and is what was written."""
        try:
            self.image(number)
        except (SegmentDamaged, SegmentGone):
            return False
        return True

    def missing(self, first: int, last: int) -> SegmentsMissing:
        """Return the error for lost segments; it names the file that had the first one."""
        before = [stop for begin, stop in self.absent() if begin == 1 and stop < first]
        with self._mutex:
            for file in [file for file in self.files() if file.first < first][-1:]:
                file.look(first - 1)
                before.append(file.last)
        return SegmentsMissing(self.path(max(before, default=0) + 1), first, last)

    def find(self, number: int) -> tuple[SpoolFile, SegmentEntry]:
        """Return the place of a segment; raises SegmentGone, SegmentDamaged."""
        with self._mutex:
            place = bisect_right(self._firsts, number) - 1
            file = self._known[self._firsts[place]] if place >= 0 else None
            if file is not None and number in file.entries and file.is_there():
                return file, file.entries[number]
            for file, _ in self.spans(number - 1, number):
                if number in file.entries:
                    return file, file.entries[number]
                if file.is_torn or number < file.last:
                    raise self._damage(file, number)
        raise SegmentGone(self._directory, number)

    def _damage(self, file: SpoolFile, number: int) -> SegmentDamaged:
        """Return the error that names all segments around one that are damaged together."""
        end = min((first - 1 for first in self._known if first > file.first), default=0)
        end = end or max(number, self.latest())
        file.look(end)
        first = max((n for n in file.entries if n < number), default=file.first - 1) + 1
        last = min((n for n in file.entries if n > number), default=end + 1) - 1
        return SegmentDamaged(file.path, first, last, "it was cut off or overwritten")

    def image(self, number: int) -> memoryview:
        """Return the message of a segment, compared with its checksums.

        Raises SegmentGone, SegmentDamaged.
        """
        while True:
            file, entry = self.find(number)
            try:
                image = file.image(entry)
            except FileNotFoundError as error:
                raise SegmentGone(self._directory, number) from error
            except (OSError, ValueError) as error:
                raise SegmentDamaged(file.path, number, number, str(error)) from error
            if image is not None:  # otherwise another file has taken its place
                return image
