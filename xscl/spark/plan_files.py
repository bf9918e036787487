"""The plan of an engine as files: what executors need to shred documents and to join them.

    12.plan      a whole plan: the version 12
    13.change    what the version 13 adds to the version 12, and what it removes
    current      the number of the newest version

Files are written once and then never changed.  A directory has one writer.  A reader that has a
version applies the changes since; another one begins with the newest whole plan.  Each file is a
sequence of Arrow streams, one for each relation of `PLAN`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
    "removed_row": pa.schema([("qid", pa.int32())]),
    "removed_subscriber": pa.schema([("key", pa.string())]),
}
"""Rows of R_T with what they refer to, and their subscribers.  `since` is the first version whose
documents a subscriber sees.  An absence is a subscriber, too: with the rows of R_T of both of its
blocks, and the places, among their nodes, of the values that are equal.  The last two relations are
removed before the others are added."""

Change = Mapping[str, pa.Table]
"""A table for each relation of `PLAN`."""

WHOLE, CHANGE, CURRENT = ".plan", ".change", "current"


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

    def write(self, version: int, change: Change, *, whole: bool) -> None:
        """Write a version and make it the current one.

        A whole plan lets go of the files before the last whole one.
        """
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(self._path(version, whole=whole)) as file:
            for name, schema in PLAN.items():
                with pa.ipc.new_stream(file, schema) as writer:
                    writer.write_table(change[name])
        write_durably(self.directory / CURRENT, str(version).encode())
        if whole:
            earlier = [one for one in self._numbers(WHOLE) if one < version]
            for number in range(1, max(earlier, default=1)):
                for is_whole in (False, True):
                    self._path(number, whole=is_whole).unlink(missing_ok=True)

    def changes(self, known: int, version: int) -> Iterator[tuple[int, bool, Change]]:
        """Yield (version, is whole, relations) from a known version, 0 for none, to another one.

        Begins with a whole plan if none is known, or if changes since are gone: the newest one up
        to `version`, else the oldest one, which has the same results for documents of `version`
        but for removed subscriptions.  Raises StoreError if there is no plan.
        """
        if not known or known > version or not self._follows(known, version):
            wholes = self._numbers(WHOLE)
            if not wholes:
                raise StoreError(
                    f"there is no plan in {self.directory}",
                    hint="executors must see the catalog's directory under the same path",
                )
            known = max((one for one in wholes if one <= version), default=wholes[0])
            yield known, True, self._read(known, whole=True)
        for number in range(known + 1, version + 1):
            yield number, False, self._read(number, whole=False)

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
        with pa.memory_map(str(self._path(version, whole=whole))) as file:
            return {name: pa.ipc.open_stream(file).read_all() for name in PLAN}


def claimed_version(files: PlanFiles, reader: str, batch: int) -> int:
    """Return the version of a plan with which a micro-batch of a streaming query is evaluated.

    The first task that asks decides; a repeated task, and a repeated micro-batch, get the same
    version.  Creating a hard link fails if the name exists, also on NFS.
    """
    claims = files.directory / "claims" / reader
    path = claims / str(batch)
    try:
        return int(path.read_text("ascii"))
    except FileNotFoundError:
        claims.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = claims / f"{batch}.{os.getpid()}.tmp"
    temporary.write_text(str(files.current()), "ascii")
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        return int(path.read_text("ascii"))
    finally:
        temporary.unlink()
    return int(path.read_text("ascii"))
