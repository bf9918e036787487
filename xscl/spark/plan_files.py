"""The plan of an engine as a file: what executors need to shred documents and to join them.

    newest       the newest version: its number, then an Arrow stream for each relation of `PLAN`
    claims       the versions of the micro-batches of each streaming query

A directory has one writer, which replaces the file with each version: no text of a subscription
outlives it.  Subscribers say from which version on they see documents, so documents of an earlier
version have the same results with a later one, but for removed subscriptions.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from templates.registry import Registry
from templates.storage import RELATIONS, sql_schema
from xscl.atomic_files import replacing
from xscl.errors import StoreError

PLAN: Mapping[str, pa.Schema] = {
    **{name: RELATIONS[name] for name in ("variable", "pair", "template", "r_t")},
    "subscriber": sql_schema(
        "qid INTEGER, key VARCHAR, name VARCHAR, since BIGINT, is_distinct BOOLEAN,"
        " outputs VARCHAR[], places INTEGER[], query VARCHAR"
    ),
    "absence": sql_schema(
        "key VARCHAR, number BIGINT, left INTEGER, right INTEGER, lower BIGINT, upper BIGINT,"
        " pairs BOOLEAN, alone_left BOOLEAN, alone_right BOOLEAN, left_nodes INTEGER[],"
        " right_nodes INTEGER[]"
    ),
    "witness": sql_schema("qid INTEGER"),
}
"""Rows of R_T with what they refer to, and their subscribers.  `since` is the first version whose
documents a subscriber sees.  An absence is a subscriber, too: with the rows of R_T of both of its
blocks, and the places, among their nodes, of the values that are equal.  Executors evaluate no rows
in `witness`: an engine does, and gets the witnesses of these rows."""

PlanTables: TypeAlias = Mapping[str, pa.Table]
"""Tables of relations of `PLAN`; one that is missing has no rows."""

_NUMBER = struct.Struct("<q")
"""The number of a version, at the beginning of a file."""

CLAIMS = 100
"""Claims of earlier micro-batches that are kept; Spark keeps as many in a checkpoint."""


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """The plan in a directory that all executors can read."""

    directory: Path

    @property
    def path(self) -> Path:
        """The file of the newest version."""
        return self.directory / "newest"

    def current(self) -> int:
        """Return the number of the newest version; 0 if there is none."""
        try:
            with self.path.open("rb") as file:
                (version,) = _NUMBER.unpack(file.read(_NUMBER.size))
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return int(version)

    def write(self, registry: Registry, qids: Iterable[int], others: PlanTables) -> int:
        """Write the next version: rows of R_T and tables of `others`; return its number."""
        version, relations = self.current() + 1, {**registry.stored(sorted(qids)), **others}
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(self.path) as file:
            file.write(_NUMBER.pack(version))
            for name, schema in PLAN.items():
                with pa.ipc.new_stream(file, schema) as writer:
                    writer.write_table(relations.get(name, schema.empty_table()))
        return version

    def read(self) -> tuple[int, PlanTables]:
        """Return number and tables of the newest version; raises StoreError if there is none."""
        try:
            return _read(self.path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise self._missing() from None

    def _missing(self) -> StoreError:
        return StoreError(
            f"there is no plan in {self.directory}",
            hint="the catalog was removed, or executors do not see its directory at this path",
        )

    def image(self) -> PlanImage:
        """Return the plan as a value, for executors that need not see the directory."""
        return PlanImage(os.urandom(8).hex(), self.path.read_bytes())

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
        for old in sorted(number for number in numbers if number < batch)[:-CLAIMS]:
            (claims / str(old)).unlink(missing_ok=True)
        return version


@dataclass(frozen=True, slots=True)
class PlanImage:
    """A version of a plan as a value, with the name of that version."""

    name: str
    data: bytes = field(compare=False, repr=False)

    def current(self) -> int:
        """Return the number of the version."""
        version, _ = self.read()
        return version

    def read(self) -> tuple[int, PlanTables]:
        """Return number and tables of the version."""
        return _read(self.data)


ExecutorPlan: TypeAlias = PlanFiles | PlanImage


def _read(data: bytes) -> tuple[int, PlanTables]:
    """Return number and tables of a version; raises StoreError for one of another release."""
    try:
        (version,) = _NUMBER.unpack_from(data)
        file = pa.BufferReader(data)
        file.seek(_NUMBER.size)
        tables = {name: pa.ipc.open_stream(file).read_all() for name in PLAN}
    except (struct.error, pa.ArrowException, OSError) as error:
        raise unreadable(f"it cannot be read: {error}") from error
    for name, schema in PLAN.items():
        if tables[name].schema != schema:
            raise unreadable(f"its relation {name!r} has other columns")
    return version, tables


def unreadable(detail: str) -> StoreError:
    """Return the error for a plan that this release does not read."""
    return StoreError(
        f"the plan of the catalog is damaged, or another release wrote it: {detail}",
        hint="make the catalog again from its queries, in another directory and with another"
        " checkpoint and sink; 'xscl spark list --json' of that release prints the queries",
    )
