"""Compacted controls: those of all entries up to one, without what later ones have undone.

The log of documents is deleted behind the snapshots of all cells.  A cell that begins at a snapshot
still needs some earlier controls: which subscriptions it answers for, from which cells it was split
off, which copies it has.  One file has these, so that the log does not grow with every change that
was ever made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from feeds.faultpoints import reached
from xscl.cluster.controls import (
    Control,
    CopyPublisher,
    Merge,
    Register,
    Remove,
    Split,
    decode,
    encode,
)
from xscl.cluster.shared_directory import ClusterError, SharedDirectory

NumberedControls: TypeAlias = tuple[int, tuple[Control, ...]]
"""An entry of controls with its number."""


@dataclass(frozen=True, slots=True)
class CompactedControls:
    """The files with compacted controls, of which the newest one counts."""

    shared: SharedDirectory

    def newest(self) -> int:
        """Return the last entry whose controls are compacted, 0 if there is none."""
        return max(self._files(), default=0)

    def read(self, upto: int) -> list[NumberedControls]:
        """Return the compacted entries up to one; raises ClusterError if the file is damaged."""
        path = self._path(upto)
        try:
            lines = [line.partition(b" ") for line in path.read_bytes().splitlines()]
            return [(int(number), decode(controls)) for number, _, controls in lines]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterError(
                f"the compacted controls in {path} cannot be read: {error}",
                hint="put the file back from a copy of the shared directory",
            ) from error

    def write(self, upto: int, entries: Iterable[NumberedControls]) -> None:
        """Write the compacted entries up to one, and delete earlier files."""
        lines = (b"%d %s" % (number, encode(controls)) for number, controls in entries)
        self.shared.place(self._path(upto), b"\n".join(lines))
        reached("controls_compacted")
        for number in self._files():
            if number < upto:
                self._path(number).unlink(missing_ok=True)

    def _files(self) -> list[int]:
        found = (self.shared.path / "controls").glob("*.json")
        return [int(path.stem) for path in found if not path.name.startswith(".")]

    def _path(self, upto: int) -> Path:
        return self.shared.path / "controls" / f"{upto:020d}.json"


def compacted(entries: Iterable[NumberedControls]) -> list[NumberedControls]:
    """Return the controls that a cell at a later snapshot still needs.

    Registrations, copies and changes of the assignment stay, but for subscriptions that a later
    control removes.  Streams, edits and erasures are in the snapshot, and skipped documents before
    it.
    """
    known = list(entries)
    removed: dict[str, tuple[int, int]] = {}  # the last removals, by entry and place
    for number, controls in known:
        for at, one in enumerate(controls):
            if isinstance(one, Remove):
                removed[one.key] = number, at

    def stays(key: str, *place: int) -> bool:
        return removed.get(key, (0, 0)) <= place

    def left(one: Control, *place: int) -> Control | None:
        match one:
            case Register(key) | CopyPublisher(key):
                return one if stays(key, *place) else None
            case Split(keys=keys, publishers=publishers):
                return replace(
                    one,
                    keys=tuple(key for key in keys if stays(key, *place)),
                    publishers=tuple(key for key in publishers if stays(key, *place)),
                )
            case Merge(keys=keys):
                return replace(one, keys=tuple(key for key in keys if stays(key, *place)))
            case _:
                return None

    found = []
    for number, controls in known:
        some = (left(one, number, at) for at, one in enumerate(controls))
        if kept := tuple(one for one in some if one is not None):
            found.append((number, kept))
    return found
