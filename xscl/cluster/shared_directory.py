"""The directory that the driver and all cells share: files written once, whole, and durably.

    driver.json              the epoch of the driver: a later driver makes earlier ones stale
    sealed/N.arrow|.json     entry N of the log: sequenced documents, or controls
    sealed/N.history         the documents of the histories that begin at entry N
    results/CELL/N.arrow     what a cell found up to entry N, until it is committed
    relations/CELL@SHA.arrow the relations of a cell for SQL, until the driver has read them
    snapshots/CELL@N.tar     the state of a cell after entry N

Any file system serves whose `rename` is atomic and whose `fsync` is durable.  Two tasks may write
the same file at once: each writes beside it under a name of its own, and both write equal bytes.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path

from feeds.faultpoints import reached
from xscl.errors import XsclError
from xscl.store.atomic_files import synchronise

_PARTS = ("sealed", "controls", "results", "relations", "snapshots")


class ClusterError(XsclError):
    """The cluster cannot do what was asked."""

    code = "cluster"


class CellsFailed(ClusterError):
    """Tasks of cells failed again and again; the batch can be repeated."""

    code = "cluster_cells_failed"


class CellsStarting(ClusterError):
    """The cells are not ready yet."""

    code = "cluster_starting"


class UnknownCell(ClusterError):
    """There is no such cell."""

    code = "unknown_cell"


class CellsStay(ClusterError):
    """The cells cannot be changed as was asked; nothing is changed."""

    code = "cells_stay"


class StaleDriver(ClusterError):
    """A later driver has taken over the shared directory."""

    code = "cluster_stale_driver"


@dataclass(frozen=True, slots=True)
class SharedDirectory:
    """The paths of the files, and how they are written; the constructor touches nothing."""

    path: Path

    def create(self) -> None:
        """Make the directory and its parts, for their owner only.

        Raises ClusterError if others could write there: what is read from it is trusted.
        """
        for path in (self.path, *(self.path / part for part in _PARTS)):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = path.stat()
            if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) or found.st_uid != os.geteuid():
                raise ClusterError(
                    f"others can write to the shared directory {path}",
                    hint=f"make it the user's own: chown and chmod go-w {path}",
                )

    def place(self, path: Path, content: bytes) -> None:
        """Write a file: complete or absent, also after a power failure."""
        beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with open(beside, "xb", opener=_private) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            reached("shared_written")
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        synchronise(path.parent)

    # -- The driver ------------------------------------------------------------------------

    @property
    def _driver(self) -> Path:
        return self.path / "driver.json"

    @property
    def epoch(self) -> int:
        """The epoch of the last driver, 0 if there was none."""
        try:
            return int(json.loads(self._driver.read_text("utf-8"))["epoch"])
        except FileNotFoundError:
            return 0

    def begin_epoch(self, epoch: int) -> None:
        """Begin the epoch of a driver; raises StaleDriver if there was a later one."""
        if self.epoch >= epoch:
            raise StaleDriver(
                f"{self.path} belongs to a driver of epoch {self.epoch}, this one has {epoch}",
                hint="this store is an old copy: start the driver with the newer one",
            )
        self.place(self._driver, json.dumps({"epoch": epoch}).encode())

    def expect_epoch(self, epoch: int) -> None:
        """Raise StaleDriver if a later driver has begun, ClusterError if this is no such place."""
        if (found := self.epoch) == 0:
            raise ClusterError(
                f"{self.path} is not the shared directory of a driver on {socket.gethostname()}",
                hint="mount it at the same path on all machines",
            )
        if found != epoch:
            raise StaleDriver(f"a driver of epoch {found} has replaced that of epoch {epoch}")

    # -- Files -----------------------------------------------------------------------------

    def results_of(self, cell: int, upto: int) -> Path:
        """Return the path of what a cell found up to an entry."""
        return self.path / "results" / str(cell) / f"{upto:020d}.arrow"

    def delete_results(self, upto: int) -> None:
        """Delete the answers up to an entry, whose results are in the driver's store."""
        for path in (self.path / "results").glob("*/*.arrow"):
            if not path.name.startswith(".") and int(path.stem) <= upto:
                path.unlink(missing_ok=True)

    def relations_of(self, cell: int, sha256: str) -> Path:
        """Return the path of the relations of a cell, by the checksum of their bytes."""
        return self.path / "relations" / f"{cell}@{sha256}.arrow"

    def delete_relations(self) -> None:
        """Delete the relations of all cells."""
        for path in (self.path / "relations").glob("*.arrow"):
            path.unlink(missing_ok=True)

    def snapshot_of(self, cell: int, entry: int) -> Path:
        """Return the path of a cell's state after an entry."""
        return self.path / "snapshots" / f"{cell}@{entry:020d}.tar"

    def snapshots(self, cell: int) -> list[tuple[int, Path]]:
        """Return the snapshots of a cell with their entries, the newest first."""
        found = (self.path / "snapshots").glob(f"{cell}@*.tar")
        return sorted(((int(path.stem.partition("@")[2]), path) for path in found), reverse=True)

    def copy_snapshots(self, source: int, target: int) -> None:
        """Give a new cell the snapshots of another one, and no others."""
        self.delete_snapshots(target)  # of a driver that ended before the cell was there
        for entry, path in self.snapshots(source):
            self.place(self.snapshot_of(target, entry), path.read_bytes())
        reached("snapshots_copied")

    def delete_snapshots(self, cell: int) -> None:
        """Delete all snapshots of a cell."""
        for _, path in self.snapshots(cell):
            path.unlink(missing_ok=True)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
