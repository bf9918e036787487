"""Backups: a store and its waiting segments of the spool, in one file.

    state.sqlite                      the database, as of one commit
    spool/000000000007.arrows, ...    the segments that the store has not consumed
    manifest.json                     the release, the store, its commits, and the last segment

The file is a zip archive without compression: its directory, which is written last, has the size
and the checksum of each part, so a truncated archive is none.  The engine may continue while it is
written; later commits are not in it.  Beside the file stands a copy of the database until it is
written.

The manifest records the last consumed segment, where a restored store continues; executors of
Spark get what they need from the store.  The secrets of feeds never leave their directory.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path, PurePath
from types import NoneType
from typing import IO, Any

import apsw

from feeds.faultpoints import reached
from feeds.spool import Spool
from feeds.spool_files import LAST_SEGMENT, Extract
from xscl.atomic_files import created, replacing, write_durably
from xscl.documents.consumed_offsets import ConsumedOffsets
from xscl.store.chunks import Chunks
from xscl.store.database import translated
from xscl.store.queries.feeds import last_appended
from xscl.store.queries.tables import VERSION
from xscl.store.store import Store
from xscl.store.store_errors import DATABASE, BackupError, moving
from xscl.store.store_file import connect, copy_target, seen
from xscl.store.store_lock import StoreMark

MANIFEST = "manifest.json"
_SPOOL = "spool"
_NAME = re.compile(rf"{re.escape(DATABASE)}|spool/[0-9]{{12}}\.arrows")
_FORMAT = 3
_PIECE = 1 << 20
_PAGES = 4_096  # pages of a database that are copied at once: 16 MB
_LARGEST_MANIFEST = 1 << 16
_DAMAGE = (EOFError, LookupError, OverflowError, RuntimeError, ValueError)
"""Errors of `zipfile`, beside its own, for a file that is no archive as it was written."""


@dataclass(frozen=True, slots=True)
class BackupMember:
    """A part of a backup: its file name in the archive, and its size in bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Backup:
    """The description of a backup: the content of its manifest, and the parts of the archive.

    `xscl` is the release that made it, at the time `made` (ISO 8601, UTC).  `version` is that of
    the tables, `store` the id of the store, `commits` the number of its commits.  `position` is the
    number of the last segment that the store had consumed, `latest` that of the last segment of the
    spool, None without a spool.
    """

    xscl: str
    version: int
    store: str
    commits: int
    position: int
    latest: int | None
    made: str
    parts: tuple[BackupMember, ...]

    @property
    def size(self) -> int:
        """The sum of the sizes of all parts, in bytes."""
        return sum(part.size for part in self.parts)

    @property
    def segments(self) -> tuple[str, ...]:
        """The names of the parts that are files of the spool, with the waiting segments."""
        return tuple(part.name for part in self.parts if part.name.endswith(".arrows"))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# -- Making one ----------------------------------------------------------------------------


def back_up(store: Store, target: Path, spool: Path | None = None) -> Backup:
    """Write a backup of a store in use, and return its description.

    The file is written atomically and only its owner can read it.  It replaces an existing
    backup, but no other file.  `spool` is the directory of the spool that the store consumes.
    """
    waiting = _WaitingSegments(spool if spool is not None and spool.is_dir() else None)
    with (
        _replacing(target) as file,
        closing(waiting),
        _copied(store, target, waiting) as (had, copy),
        zipfile.ZipFile(file, "w") as archive,
    ):
        _add(archive, DATABASE, _pieces(copy, os.fstat(copy.fileno()).st_size))
        waiting.add(archive)
        backup = Backup(
            xscl=_release(),
            version=VERSION,
            store=had.store,
            commits=had.commits,
            position=waiting.position,
            latest=waiting.latest,
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            parts=_parts(archive),
        )
        said = {"format": _FORMAT, **backup.as_dict()}
        del said["parts"]  # read from the directory of the archive
        _add(archive, MANIFEST, [json.dumps(said, indent=1).encode()])
    return backup


@contextmanager
def _copied(
    store: Store, target: Path, waiting: _WaitingSegments
) -> Iterator[tuple[StoreMark, IO[bytes]]]:
    """Yield the mark of a store, and a copy of its database as an open file.

    The copy stands beside `target` while the block runs.  `waiting` is begun at the same commit.
    """
    copy = target.with_name(f"{target.name}.database.tmp")
    try:
        copy.unlink(missing_ok=True)  # a process that was killed may have left one
        with store.reading(unlimited=True, begin=lambda: waiting.begin(store)):
            had = copy_store(store, copy)
        with copy.open("rb") as file:
            yield had, file
    finally:
        copy.unlink(missing_ok=True)


def copy_store(store: Store, to: Path) -> StoreMark:
    """Write a verified copy of a store's database to a new file; return the mark of the copy.

    Other threads may commit meanwhile: the copy has the commits before the call, or, within
    `store.reading`, those that the reading sees.  Only the owner of the file can read it.  Raises
    OSError if it cannot be written, which leaves a part of it; BackupError for a store in memory,
    and for a copy that is not sound.
    """
    if store.path is None:
        raise BackupError("a store in memory has no files that could be copied")
    os.close(os.open(to, os.O_CREAT | os.O_EXCL, 0o600))
    with (
        store.reading(unlimited=True),
        store.connected() as source,
        _written(to) as target,
        target.backup("main", source, "state") as copying,
    ):
        had = seen(source)
        while not copying.done:  # the reading keeps its snapshot, so no step begins anew
            copying.step(_PAGES)
            store.expect_reading()
    _verify(to, had)
    return had


@contextmanager
def _written(path: Path) -> Iterator[apsw.Connection]:
    """Yield a connection that writes the database at `path`; raises OSError if that fails."""
    with closing(copy_target(path)) as target:
        try:
            yield target
        except (apsw.FullError, apsw.IOError) as error:
            number = errno.ENOSPC if isinstance(error, apsw.FullError) else target.system_errno
            if not number:  # the error is from reading the source
                raise
            raise OSError(number, os.strerror(number)) from error


def _verify(path: Path, had: StoreMark) -> None:
    """Raise BackupError unless the copy at `path` is sound, and its mark is `had`."""
    with closing(connect(path, options="&immutable=1")) as copy, translated(path):
        found = copy.execute("PRAGMA state.quick_check(1)").get
        if found != "ok" or seen(copy) != had:
            raise BackupError(f"the copy {path} of the store is not what was copied: {found}")
        Chunks(lambda sql, row: copy.execute(sql, row).fetchall()).verify()


def receive(pieces: Iterable[bytes], target: Path) -> Backup:
    """Write a backup that comes in `pieces` to a file, and return its description.

    It is verified first, as by `read_backup`, and written atomically, as by `back_up`.
    """
    with _replacing(target) as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        return read_backup(Path(file.name))


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a private file, which becomes `target` when the block ends without an error.

    It replaces an existing backup.  Raises BackupError if it cannot be written, or if `target` is a
    file that is no backup.
    """
    target = target.absolute()
    refuse_other(target)
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise BackupError(f"the backup {target} cannot be written: {error.strerror}") from error


def refuse_other(target: Path) -> None:
    """Raise BackupError if `target` is an existing file that is no backup."""
    if not target.exists():
        return
    try:
        with _opened(target) as archive:
            _described(target, archive)
    except BackupError as error:
        raise BackupError(
            f"{target} is there already and is no backup", hint="name another file"
        ) from error


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterable[bytes]) -> None:
    info = zipfile.ZipInfo(name)
    info.external_attr = 0o600 << 16
    with archive.open(info, "w", force_zip64=True) as part:
        for piece in pieces:
            part.write(piece)
    reached("part_backed_up")


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file in pieces; fewer if the file ends before."""
    while size and (piece := file.read(min(size, _PIECE))):
        size -= len(piece)
        yield piece


class _WaitingSegments:
    """The segments of a spool that a store has not consumed at the commit of a backup.

    The store may consume and delete them while the backup is written.  So `begin` opens their
    files, and a deleted file can still be read to its end.  `position` and `latest` are those of
    `Backup`.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self.latest: int | None = None
        self._files = ExitStack()
        self._extracts: list[tuple[Extract, IO[bytes]]] = []
        self.position = 0

    def begin(self, store: Store) -> None:
        """Open the files of the waiting segments, for a caller that holds commits back."""
        self.position = ConsumedOffsets(store).segment
        if self._directory is None:
            return
        spool = Spool(self._directory, read_only=True)
        latest = spool.latest()  # read once, as segments are appended meanwhile
        # If the spool was lost, the numbers in the store are larger than those of its successor.
        self.latest = max(latest, self.position, last_appended(store))
        for extract in spool.extracts(self.position, latest):
            self._extracts.append((extract, self._files.enter_context(extract.path.open("rb"))))

    def add(self, archive: zipfile.ZipFile) -> None:
        """Add the waiting segments to an archive, a part for each of their files."""
        for one, file in self._extracts:
            file.seek(one.begin)
            pieces = chain([one.header], _pieces(file, one.end - one.begin))
            _add(archive, f"{_SPOOL}/{one.name}", pieces)

    def close(self) -> None:
        """Close the files of the segments."""
        self._files.close()


def _release() -> str:
    try:
        return version("xscl")
    except PackageNotFoundError:  # run from its source
        return "unknown"


# -- Reading one ---------------------------------------------------------------------------


def damaged(path: Path, detail: str) -> BackupError:
    """Return the error to raise for a file that is no backup, or a damaged one.

    `detail` says in words what is wrong.
    """
    return BackupError(
        f"{path} is no backup of xscl, or it is damaged: {detail}", hint="take another backup"
    )


def _old_backup(path: Path) -> BackupError:
    """Return the error to raise for a backup of version 0.2; its hint says how to move the data."""
    return BackupError(
        f"the backup {path} was made by version 0.2, whose format this version does not read",
        hint=moving(f"--backup {shlex.quote(str(path))}", f"{path.with_suffix('')}-new")
        + "; headers and secrets are in no backup: --data DIR reads those of a data directory",
    )


def read_backup(path: Path) -> Backup:
    """Verify the checksum of every part of a backup, and return its description.

    Raises BackupError for a file that is no backup, is damaged, or is of another release.
    """
    with _opened(path) as archive:
        backup = _described(path, archive)
        if wrong := archive.testzip():
            raise damaged(path, f"the checksum of {wrong} differs")
        return backup


def unpack(path: Path, directory: Path) -> None:
    """Write the parts of the backup at `path` to the empty `directory`, durably.

    The caller has verified the backup.  Raises BackupError.
    """
    spool = directory / _SPOOL
    spool.mkdir(mode=0o700)
    with _opened(path) as archive:
        backup = _described(path, archive)
        try:
            for part in backup.parts:
                with archive.open(part.name) as source, created(directory / part.name) as file:
                    shutil.copyfileobj(source, file, _PIECE)
                    file.flush()
                    os.fsync(file.fileno())
            if backup.latest is not None:
                write_durably(spool / "latest", b"%d\n" % backup.latest)
        except OSError as error:
            raise BackupError(
                f"the backup {path} cannot be unpacked in {directory.parent}:"
                f" {error.strerror or error}",
                hint="make room there",
            ) from error


@contextmanager
def _opened(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, struct.error, *_DAMAGE) as error:
        if path.is_file() and tarfile.is_tarfile(path):
            raise _old_backup(path) from error
        raise damaged(path, str(error)[:200]) from error
    except OSError as error:
        raise BackupError(f"the backup {path} cannot be read: {error.strerror or error}") from error


def _parts(archive: zipfile.ZipFile) -> tuple[BackupMember, ...]:
    """Return all parts of an archive except the manifest, in the order of the archive."""
    found = (BackupMember(one.filename, one.file_size) for one in archive.infolist())
    return tuple(one for one in found if one.name != MANIFEST)


def _described(path: Path, archive: zipfile.ZipFile) -> Backup:
    """Return the description of a backup from its manifest and the directory of the archive.

    Raises BackupError if a part is none of a backup, or if parts are missing.
    """
    members = archive.infolist()
    names = [member.filename for member in members]
    for one in members:
        known = one.filename == MANIFEST or _NAME.fullmatch(one.filename)
        if not known or one.compress_type != zipfile.ZIP_STORED:
            raise damaged(path, f"it holds {one.filename[:60]!r}, which no backup does")
    if len(set(names)) != len(names) or DATABASE not in names:
        raise damaged(path, "its parts are not those of a backup")
    with archive.open(MANIFEST) as manifest:
        backup = _read_manifest(path, manifest.read(_LARGEST_MANIFEST), _parts(archive))
    _compare_segments(path, backup)
    return backup


def _read_manifest(path: Path, text: bytes, parts: tuple[BackupMember, ...]) -> Backup:
    """Return the description that the `text` of a manifest gives, with the `parts` of the archive.

    Raises BackupError.  It is not compared with the store: a restore does that.
    """
    try:
        said = json.loads(text)
        form, version = said.pop("format"), said["version"]
        if type(form) is not int or type(version) is not int:
            raise ValueError(f"format {form} and version {version}, which no release writes")
        if form > _FORMAT or version > VERSION:
            raise BackupError(
                f"the backup {path} was made by a later release, {str(said.get('xscl'))[:60]}",
                hint="install that release, or a later one",
            )
        if form != _FORMAT or version != VERSION:
            raise ValueError(f"format {form} and version {version}, which no release writes")
        backup = Backup(**said, parts=parts)
        kinds: dict[str, type] = dict.fromkeys(("xscl", "store", "made"), str)
        kinds |= dict.fromkeys(("commits", "position"), int)
        kinds["latest"] = NoneType if backup.latest is None else int
        for name, kind in kinds.items():
            if type(said[name]) is not kind:
                raise ValueError(f"{name} is no {kind.__name__}")
        return backup
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(path, f"its manifest cannot be read: {error}"[:200]) from error


def _compare_segments(path: Path, backup: Backup) -> None:
    """Raise BackupError unless the numbers of all segments are above `position`, up to `latest`."""
    last = backup.position if backup.latest is None else backup.latest
    if not 0 <= backup.position <= last <= LAST_SEGMENT:
        said = f"{MANIFEST} says position {backup.position}, and the last segment of the spool is"
        raise damaged(path, f"{said} {last}")
    for number in (int(PurePath(name).stem) for name in backup.segments):
        if not backup.position < number <= last:
            waiting = f"those that wait are {backup.position + 1} to {last}"
            raise damaged(path, f"it has segment {number} of the spool, and {waiting}")
