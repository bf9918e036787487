"""The plan of an engine as files: what executors need to shred documents and to join them.

    12.plan      a whole plan: the version 12
    12.change    what the version 12 adds to the version 11, and what it removes
    13.change    what the version 13 adds to the version 12, and what it removes
    current      the number of the newest version
    claims       the versions of the micro-batches of each streaming query

Files are written once and then never changed.  A directory has one writer.  A reader that has a
version applies the changes since; another one begins with the whole plan.  A whole plan is written
when something is removed, and all files before it are removed then: no text of a subscription
outlives it.  Each file is a sequence of Arrow streams, one for each relation of `PLAN`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from templates.storage import RELATIONS
from xscl.atomic_files import replacing, write_durably
from xscl.errors import StoreError

PLAN: Mapping[str, pa.Schema] = {
    **{name: RELATIONS[name] for name in ("variable", "pair", "template", "r_t")},
    "subscriber": pa.schema(
        [
            ("qid", pa.int32()),
            ("key", pa.string()),
            ("name", pa.string()),
            ("since", pa.int64()),
            ("is_distinct", pa.bool_()),
            ("outputs", pa.list_(pa.string())),
            ("places", pa.list_(pa.int32())),
            ("query", pa.string()),
        ]
    ),
    "absence": pa.schema(
        [
            ("key", pa.string()),
            ("number", pa.int64()),
            ("left", pa.int32()),
            ("right", pa.int32()),
            ("window", pa.int64()),
            ("left_nodes", pa.list_(pa.int32())),
            ("right_nodes", pa.list_(pa.int32())),
        ]
    ),
    "witness": pa.schema([("qid", pa.int32())]),
    "removed_row": pa.schema([("qid", pa.int32())]),
    "removed_subscriber": pa.schema([("digest", pa.string())]),
}
"""Rows of R_T with what they refer to, and their subscribers.  `since` is the first version whose
documents a subscriber sees.  An absence is a subscriber, too: with the rows of R_T of both of its
blocks, and the places, among their nodes, of the values that are equal.  Executors evaluate no rows
in `witness`: an engine does, of which the witnesses are sent to it.  The last two relations are
removed before the others are added."""

Change = Mapping[str, pa.Table]
"""Tables of relations of `PLAN`; one that is missing has no rows."""

WHOLE, CHANGE, CURRENT = ".plan", ".change", "current"

CLAIMS = 100
"""Claims of earlier micro-batches that are kept; Spark keeps as many in a checkpoint."""


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The files of the versions of a plan in a directory, which all executors can read."""

    directory: Path

    def current(self) -> int:
        """Return the number of the newest version; 0 if there is none."""
        try:
            return int((self.directory / CURRENT).read_text("ascii"))
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def write(self, version: int, change: Change, whole: Change | None = None) -> None:
        """Write a version and make it the current one.

        With a `whole` plan, all earlier files are removed.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write(self._path(version, whole=False), change)
        if whole is not None:
            self._write(self._path(version, whole=True), whole)
        write_durably(self.directory / CURRENT, str(version).encode())
        if whole is not None:
            for is_whole in (True, False):  # without its whole plan no reader begins with a change
                for number in self._numbers(WHOLE if is_whole else CHANGE):
                    if number < version:
                        self._path(number, whole=is_whole).unlink(missing_ok=True)

    def _write(self, path: Path, change: Change) -> None:
        with replacing(path) as file:
            for name, schema in PLAN.items():
                with pa.ipc.new_stream(file, schema) as writer:
                    writer.write_table(change.get(name, schema.empty_table()))

    def changes(self, known: int, version: int) -> Iterator[tuple[int, bool, Change]]:
        """Yield (version, is whole, relations) from a known version, 0 for none, to another one.

        Begins with a whole plan if none is known, or if changes since are gone: the newest one up
        to `version`, else the oldest one, which has the same results for documents of `version`
        but for removed subscriptions.

        Raises StoreError if there is no plan, FileNotFoundError if the writer removes files
        meanwhile.
        """
        if not known or known > version or not self._follows(known, version):
            wholes = self._numbers(WHOLE)
            if not wholes:
                raise self._missing()
            known = max((one for one in wholes if one <= version), default=wholes[0])
            yield known, True, self._read(known, whole=True)
        for number in range(known + 1, version + 1):
            yield number, False, self._read(number, whole=False)

    def _missing(self) -> StoreError:
        return StoreError(
            f"there is no plan in {self.directory}",
            hint="the catalog was removed, or executors do not see its directory at this path",
        )

    def _follows(self, known: int, version: int) -> bool:
        """Return True if all changes between two versions are there."""
        each = range(known + 1, version + 1)
        return all(self._path(number, whole=False).exists() for number in each)

    def _numbers(self, suffix: str) -> list[int]:
        stems = (path.stem for path in self.directory.glob(f"*{suffix}"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _path(self, version: int, *, whole: bool) -> Path:
        return self.directory / f"{version}{WHOLE if whole else CHANGE}"

    def _read(self, version: int, *, whole: bool) -> Change:
        return _relations(self._path(version, whole=whole).read_bytes())

    def image(self) -> PlanImage:
        """Return the plan as a value, for executors that need not see the directory."""
        numbers = range(self._numbers(WHOLE)[0], self.current() + 1)
        parts = [self._path(one, whole=one == numbers[0]).read_bytes() for one in numbers]
        return PlanImage(os.urandom(8).hex(), numbers[0], tuple(parts))

    def claimed(self, reader: str, batch: int) -> int:
        """Return the version with which a micro-batch of a streaming query is evaluated.

        The first task that asks decides; a repeated task, and a repeated micro-batch, get the same
        version.  Creating a hard link fails if the name exists, also on NFS.  Raises StoreError if
        there is no plan.
        """
        claims = self.directory / "claims" / reader
        path = claims / str(batch)
        try:
            return int(path.read_text("ascii"))
        except FileNotFoundError:
            if not (version := self.current()):
                raise self._missing() from None
        claims.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = claims / f"{batch}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        temporary.write_text(str(version), "ascii")
        try:
            path.hardlink_to(temporary)
        except FileExistsError:
            return int(path.read_text("ascii"))
        finally:
            temporary.unlink()
        # Only the last micro-batches of a checkpoint can be repeated.
        numbers = (int(one.name) for one in claims.iterdir() if one.name.isdigit())
        for old in sorted(one for one in numbers if one < batch)[:-CLAIMS]:
            (claims / str(old)).unlink(missing_ok=True)
        return version


@dataclass(frozen=True, slots=True)
class PlanImage:
    """A whole plan and the changes since as a value; `name` is its own."""

    name: str
    first: int = field(compare=False)
    parts: tuple[bytes, ...] = field(compare=False, repr=False)

    def current(self) -> int:
        """Return the number of the newest version."""
        return self.first + len(self.parts) - 1

    def changes(self, known: int, version: int) -> Iterator[tuple[int, bool, Change]]:
        """Yield (version, is whole, relations) as `PlanFiles.changes` does."""
        for number, part in enumerate(self.parts, self.first):
            if known < number <= version:
                yield number, number == self.first, _relations(part)


Plan: TypeAlias = PlanFiles | PlanImage


def digest_of(key: str) -> str:
    """Return a name of a subscriber without its text."""
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def _relations(data: bytes) -> Change:
    file = pa.BufferReader(data)
    return {name: pa.ipc.open_stream(file).read_all() for name in PLAN}
