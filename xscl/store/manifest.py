"""The manifest of a backup: its parts, with their checksums, and the numbers of its store.

Its own checksum shows a changed byte, but not that a value is one that a backup can have.  What
a restore relies on would fail much later, at the first document, so each field is checked when it
is read: its type, its bounds, and that there is none that no backup has.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from feeds.spool import LAST_SEGMENT
from xscl.store.queries.tables import VERSION
from xscl.store.store_errors import BackupError, old_backup
from xscl.store.store_lock import UNFINISHED

MANIFEST = "manifest.json"

_FORMAT = 2
_SUM = "sha256"
_SHOWN = 60  # characters of a wrong value in a message

_Field: TypeAlias = tuple[Callable[[Any], bool], str]
"""The condition on a field's value, and what it is called in a message."""


@dataclass(frozen=True, slots=True)
class BackupMember:
    """A part of a backup: its name, size and checksum."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Backup:
    """The description of a backup: its store, number of commits, time and release.

    `position` is the last segment of the spool that the store had consumed.
    """

    xscl: str
    version: int
    store: str
    commits: int
    position: int
    made: str
    parts: tuple[BackupMember, ...]

    @property
    def size(self) -> int:
        """The bytes of all parts."""
        return sum(part.size for part in self.parts)

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the files of segments that it holds."""
        return tuple(part.name for part in self.parts if part.name.endswith(".arrows"))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def damaged(path: Path, detail: str) -> BackupError:
    """Return the error for a file that is no backup, or not as it was written."""
    return BackupError(
        f"{path} is no backup of xscl, or it is damaged: {detail}", hint="take another backup"
    )


def written_manifest(backup: Backup) -> bytes:
    """Return the manifest of a backup as JSON, with its checksum."""
    described = {"format": _FORMAT, **backup.as_dict()}
    return json.dumps({**described, _SUM: _sum_of(described)}, indent=1).encode()


def read_manifest_of(path: Path, text: bytes) -> Backup:
    """Return what the manifest of the backup at `path` says; raises BackupError."""
    try:
        read = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its manifest cannot be read: {error}") from error
    if not isinstance(read, dict):
        raise damaged(path, f"its manifest cannot be read: it is {_short(read)}, and no object")
    form, version = read.pop("format", -1), read.get("version", -1)
    is_known = type(form) is int and type(version) is int and form >= 1
    if is_known and form < _FORMAT:
        raise old_backup(path)
    if is_known and (form > _FORMAT or version > VERSION):
        raise BackupError(
            f"the backup {path} was made by a later release, {_short(read.get('xscl'))}",
            hint="install that release, or a later one",
        )
    if not is_known or version != VERSION:
        raise damaged(
            path,
            f"{MANIFEST} says format {_short(form)} and version {_short(version)},"
            " which no release writes",
        )
    stated, found = read.pop(_SUM, None), _sum_of({"format": form, **read})
    if stated != found:
        raise damaged(path, f"the checksum of {MANIFEST} differs")
    _check(path, MANIFEST, read, _FIELDS)
    for number, part in enumerate(read["parts"], 1):
        _check(path, f"{MANIFEST}, part {number},", part, _PART)
    return Backup(**{**read, "parts": tuple(BackupMember(**part) for part in read["parts"])})


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, in which each name stands once."""
    found = dict[str, Any]()
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the field {_short(name)} stands twice")
        found[name] = value
    return found


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _sum_of(described: Mapping[str, Any]) -> str:
    """Return the checksum of what a manifest says."""
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def _check(path: Path, where: str, found: object, fields: Mapping[str, _Field]) -> None:
    """Raise BackupError unless an object has exactly some fields, with values that can be."""
    if not isinstance(found, dict):
        raise damaged(path, f"{where} is {_short(found)}, and no object")
    for name in found.keys() - fields.keys():
        raise damaged(path, f"{where} has the field {_short(name)}, which no backup has")
    for name, (can_be, what) in fields.items():
        if name not in found:
            raise damaged(path, f"{where} has no field {name!r}")
        if not can_be(found[name]):
            raise damaged(path, f"{where} says {name} {_short(found[name])}, which is no {what}")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _number(most: int) -> _Field:
    # True is an int
    return lambda value: type(value) is int and 0 <= value <= most, f"number from 0 to {most}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable()


def _is_time(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


_TEXT: _Field = _is_text, "text of 1 to 100 characters"
_FIELDS: Mapping[str, _Field] = {
    "xscl": _TEXT,
    "version": _number((1 << 31) - 1),
    "store": _TEXT,
    "commits": _number(UNFINISHED - 1),
    "position": _number(LAST_SEGMENT),
    "made": (_is_time, "time"),
    "parts": (lambda value: isinstance(value, list), "list"),
}
_PART: Mapping[str, _Field] = {
    "name": _TEXT,
    "size": _number((1 << 63) - 1),
    "sha256": (
        lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
        "checksum",
    ),
}
