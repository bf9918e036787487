"""A simulated disk: what of the changes to a directory survives a crash.

`disk.c` records each change to a file, in the order in which the calls returned.  `crash` replays
the record into a new directory, as a file system may leave it after a loss of power:

- Data of a file is durable up to its last sync.  Of the later writes a drawn prefix survives, and
  of the first one that does not, a drawn number of whole sectors.  In a *scattered* crash any of
  their sectors survive, whatever their order.
- Names are durable up to the last sync of their directory, and those of a file also when the file
  itself is synced, as on ext4 and XFS.  Of the later changes of names a drawn prefix survives.
  Names change in order, in all directories.
"""

from __future__ import annotations

import ctypes
import os
import random
import struct
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SECTOR = 512
_HEAD = struct.Struct("<cHIq")
SOURCE = Path(__file__).with_name("disk.c")


class Change(NamedTuple):
    """A change of a file or a name; `disk.c` describes the kinds."""

    kind: str
    path: str
    data: bytes
    offset: int


@dataclass
class File:
    """A file: its durable content, and the changes since its last sync."""

    content: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def sync(self) -> None:
        """Make the pending changes durable."""
        for change in self.pending:
            _apply(self.content, change)
        self.pending.clear()

    def survive(self, draw: random.Random | None, *, is_scattered: bool = False) -> bytes:
        """Return the content after a crash."""
        content = bytearray(self.content)
        if draw and is_scattered:
            for change in self.pending:
                for part in _sectors(change):
                    if draw.random() < 0.5:
                        _apply(content, part)
            return bytes(content)
        kept = len(self.pending) if draw is None else draw.randint(0, len(self.pending))
        for change in self.pending[:kept]:
            _apply(content, change)
        if draw and kept < len(self.pending) and (torn := self.pending[kept]).kind == "W":
            sectors = draw.randint(0, len(torn.data) // SECTOR)
            _apply(content, torn._replace(data=torn.data[: sectors * SECTOR]))
        return bytes(content)


def _sectors(change: Change) -> Iterator[Change]:
    """Yield the parts of a change that survive or are lost as a whole."""
    if change.kind == "T":
        yield change
    for at in range(0, len(change.data), SECTOR):
        yield change._replace(data=change.data[at : at + SECTOR], offset=change.offset + at)


def _apply(content: bytearray, change: Change) -> None:
    end = change.offset + len(change.data)
    if change.kind == "T":
        del content[change.offset :]
        content.extend(bytes(change.offset - len(content)))
    elif change.data:
        content.extend(bytes(max(0, end - len(content))))
        content[change.offset : end] = change.data


@dataclass(frozen=True)
class Naming:
    """A change of names: `path` becomes `file`, or is removed if `is_gone`."""

    path: str
    file: File | None  # None: a directory
    is_gone: bool = False

    def apply(self, names: dict[str, File | None]) -> None:
        """Change a table of names."""
        if self.is_gone:
            names.pop(self.path, None)
        else:
            names[self.path] = self.file


class Disk:
    """The files below a directory, from a record of their changes."""

    def __init__(self, under: Path, log: Path, *, is_replayed: bool = False) -> None:
        """Begin with the files that are there, which are durable.

        If the whole record `is_replayed`, the directory was empty at its beginning.
        """
        self._under = under
        self._log = log
        self._is_replayed = is_replayed
        self._read = log.stat().st_size if log.exists() and not is_replayed else 0
        self._names: dict[str, File | None] = {}
        for path in () if is_replayed else sorted(under.rglob("*")):
            file = None if path.is_dir() else File(bytearray(path.read_bytes()))
            self._names[str(path)] = file
        self._durable = dict(self._names)
        self._pending: list[tuple[Naming, ...]] = []  # a renaming changes two names at once

    def update(self, until: int | None = None) -> None:
        """Read the changes that were recorded since the last call, up to a size of the record.

        A write that reaches beyond it is torn.
        """
        for change in self._changes(until):
            if change.path.startswith(str(self._under)):
                self._follow(change)

    def missed(self, into: Path) -> list[str]:
        """Return files that the end of a process has left otherwise than in a new directory.

        Memory that processes share is not recorded.
        """
        return [
            str(path)
            for path in self._under.rglob("*")
            if path.is_file() and not path.name.endswith("-shm")
            if path.read_bytes() != (into / path.relative_to(self._under)).read_bytes()
        ]

    def ends(self) -> list[int]:
        """Return the sizes of the record after each change that `update` has not read."""
        ends, read = [], self._read
        for _ in self._changes(None):
            ends.append(self._read)
        self._read = read
        return ends

    def crash(
        self,
        into: Path,
        draw: random.Random | None,
        within: tuple[int, int] | None = None,
        *,
        is_scattered: bool = False,
    ) -> None:
        """Write the files that survive a crash at this moment into a new directory.

        Without random numbers everything survives, as after the end of a process.  If nothing has
        been recorded since, the power fails `within` two sizes of the record, at a drawn one.
        """
        if draw is not None and within is not None and self._log.stat().st_size == within[1]:
            self.update(draw.randint(*within))
        elif not self._is_replayed:
            self.update()
        names = dict(self._durable)
        kept = len(self._pending) if draw is None else draw.randint(0, len(self._pending))
        for namings in self._pending[:kept]:
            for naming in namings:
                naming.apply(names)
        into.mkdir(parents=True)
        for path, file in sorted(names.items()):
            place = into / Path(path).relative_to(self._under)
            if file is None:
                place.mkdir(parents=True, exist_ok=True)
            elif place.parent.is_dir():
                place.write_bytes(file.survive(draw, is_scattered=is_scattered))

    def _changes(self, until: int | None) -> Iterator[Change]:
        if not self._log.exists():
            return
        with self._log.open("rb") as log:
            log.seek(self._read)
            while (until is None or self._read < until) and (head := log.read(_HEAD.size)):
                kind, path_size, data_size, offset = _HEAD.unpack(head)
                path = log.read(path_size).decode()
                place, data = log.tell(), log.read(data_size)
                self._read = log.tell()
                if until is not None and until < self._read and kind == b"W":
                    data = data[: max(0, until - place) // SECTOR * SECTOR]
                yield Change(kind.decode(), path, data, offset)

    def _follow(self, change: Change) -> None:
        file = self._names.get(change.path)
        match change.kind:
            case "W" | "T":
                if file is not None:  # without a name it is of no use after a crash
                    file.pending.append(change)
            case "S":
                if file is not None:
                    file.sync()
                    self._settle(lambda path: path == change.path)
            case "D":
                self._settle(lambda path: os.path.dirname(path) == change.path)
            case "C" | "M":
                self._rename(Naming(change.path, File() if change.kind == "C" else None))
            case "R":
                target = change.data.decode()
                self._rename(Naming(change.path, None, is_gone=True), Naming(target, file))
            case "U" | "X":
                self._rename(Naming(change.path, None, is_gone=True))
            case kind:
                raise ValueError(f"unknown kind of record: {kind}")

    def _rename(self, *namings: Naming) -> None:
        for naming in namings:
            naming.apply(self._names)
        self._pending.append(namings)

    def _settle(self, concerns: Callable[[str], bool]) -> None:
        """Make the pending changes of names durable up to the last that concerns a sync."""
        last = 0
        for number, namings in enumerate(self._pending, 1):
            if any(concerns(naming.path) for naming in namings):
                last = number
        for namings in self._pending[:last]:
            for naming in namings:
                naming.apply(self._durable)
        del self._pending[:last]


def build(into: Path, source: Path = SOURCE) -> Path:
    """Compile the recorder, or another library, into a directory; return it for LD_PRELOAD."""
    library = into / f"{source.stem}.so"
    command = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run([*command, "-lpthread"], check=True, capture_output=True)
    return library


def fail(code: int, after: int, count: int) -> None:
    """Make `count` changes fail with an errno, the first one `after` changes from now.

    Only in a process that has loaded the recorder.
    """
    ctypes.CDLL(None).disk_fault(code, ctypes.c_long(after), ctypes.c_long(count))
