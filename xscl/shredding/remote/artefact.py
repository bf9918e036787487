"""The automaton as a file, for other processes that do stage 1.

A directory holds the newest automaton, named after its version.  A process keeps
the one that it read last.  The file is a pickle: it lies in the data directory,
which only its owner can write, and Spark sends pickles to its processes anyway.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from feeds.faultpoints import reached
from xscl.gc_control import settle, unsettle
from xscl.shredding.automaton.nfa import Automaton, AutomatonParts
from xscl.shredding.remote.current import CURRENT

_SUFFIX = ".patterns"

_log = logging.getLogger(__name__)


class ArtefactDirectory:
    """A directory in which one process publishes its automaton for others after each change."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._written: str | None = None
        self._refused: str | None = None  # of which the log was told

    def publish(self, automaton: Automaton) -> None:
        """Write the file of an automaton, unless it exists, and make it the current one.

        The replacement is atomic.  Older files are deleted: at first all, later the previous one,
        as its witnesses may still be in progress.  A failed write is logged once, and the next
        call tries again: without the file others produce witnesses of older patterns, which are
        not used.
        """
        version = automaton.version
        if version == self._written:
            return
        try:
            before = self._replace(version, packed(automaton.parts()))
        except OSError as error:
            if version != self._refused:
                _log.warning("the patterns for other processes cannot be written: %s", error)
                self._refused = version
            self._delete(map(self._temporary, (self._file(version).name, CURRENT)))
            self._delete([self._file(version)])
            return
        self._written = version
        self._delete(path for path in before if path.name != CURRENT)

    def _replace(self, version: str, data: bytes) -> set[Path]:
        """Write the files of a version, and return the files that were there before."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = (
            set(self.directory.iterdir()) if self._written is None else {self._file(self._written)}
        )
        self._place(self._file(version).name, data)
        reached("artefact")
        self._place(CURRENT, version.encode())
        return before

    def _delete(self, paths: Iterable[Path]) -> None:
        """Delete files, as far as it can be done."""
        for path in paths:
            with suppress(OSError):
                path.unlink()

    def _file(self, version: str) -> Path:
        return self.directory / f"{version}{_SUFFIX}"

    def _place(self, name: str, data: bytes) -> None:
        temporary = self._temporary(name)
        temporary.write_bytes(data)
        os.replace(temporary, self.directory / name)

    def _temporary(self, name: str) -> Path:
        return self.directory / f"{name}.tmp"


class LoadedArtefact:
    """The automaton that this process read last, excluded from garbage collection.

    Spark runs a full collection after each task.
    """

    def __init__(self) -> None:
        self._version: str | None = None
        self._automaton = Automaton()

    def of(self, directory: Path, version: str) -> Automaton | None:
        """Return an automaton, read again if the version changed; None if it was deleted."""
        if version != self._version:
            try:
                data = (directory / f"{version}{_SUFFIX}").read_bytes()
            except FileNotFoundError:
                return None
            unsettle()
            self._automaton = Automaton.of(unpacked(data))
            self._version = version
            settle()
        return self._automaton


class Pickler(pickle.Pickler):
    """Writes frozen dataclasses as calls of their classes, ten times as fast as by their state."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._names: dict[type, tuple[str, ...]] = {}

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind not in self._names:
            if kind is type or not is_dataclass(kind):
                return NotImplemented
            self._names[kind] = tuple(field.name for field in fields(kind))
        return kind, tuple(getattr(value, name) for name in self._names[kind])


def packed(parts: AutomatonParts) -> bytes:
    """Return the parts of an automaton as bytes."""
    file = io.BytesIO()
    Pickler(file).dump((parts.streams, parts.places, parts.entries))
    return file.getvalue()


def unpacked(data: bytes) -> AutomatonParts:
    return AutomatonParts(*pickle.loads(data))
