"""Backups: a store and its waiting segments of the spool, in one file.

    state.sqlite                      the database, as of one commit
    spool/000000000007.arrows, ...    the segments that the store has not consumed
    spool/latest                      the number of the last segment
    manifest.json                     the list of parts, with the SHA-256 of each and of itself

The file is a tar archive without compression.  The manifest is the last member, so a
truncated archive has none.  The engine may continue while it is written; later commits
are not in it.  Beside the file stands a copy of the database until it is written.

The manifest records the last consumed segment, where a restored store continues; executors of
Spark get what they need from the store.  The secrets of feeds never leave their directory.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import re
import shlex
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePath
from typing import IO, Any, Protocol

import apsw

from feeds.faultpoints import reached
from feeds.spool import Extract, Spool
from xscl.atomic_files import created, replacing
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
_LATEST = f"{_SPOOL}/latest"
_NAME = re.compile(rf"{re.escape(DATABASE)}|spool/(latest|[0-9]{{12}}\.arrows)")
_NUMBER = re.compile(rb"[0-9]{1,12}\n?")
_FORMAT, _SUM = 2, "sha256"
_PIECE = 1 << 20
_PAGES = 4_096  # of a database that are copied at once: 16 MB
_LARGEST_MANIFEST = 1 << 26


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


# -- Making one ----------------------------------------------------------------------------


def back_up(store: Store, target: Path, spool: Path | None = None) -> Backup:
    """Write a backup of a store in use, and return its description.

    The file is written atomically and only its owner can read it.  It replaces an existing
    backup, but no other file.  `spool` is the directory of the spool that the store consumes.
    """
    with_spool = spool is not None and spool.is_dir()
    waiting = _Waiting(spool if with_spool else None)
    with (
        _replacing(target) as file,
        closing(waiting),
        _copied(store, target, waiting) as (had, copy),
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        size = os.fstat(copy.fileno()).st_size
        members = [_add(archive, DATABASE, copy, size), *waiting.add(archive)]
        backup = Backup(
            _release(),
            VERSION,
            had.store,
            had.commits,
            waiting.position,
            datetime.now(UTC).isoformat(timespec="seconds"),
            tuple(members),
        )
        said = {"format": _FORMAT, **backup.as_dict()}
        manifest = json.dumps({**said, _SUM: _sum_of(said)}, indent=1).encode()
        _add(archive, MANIFEST, io.BytesIO(manifest), len(manifest))
    return backup


@contextmanager
def _copied(store: Store, target: Path, waiting: _Waiting) -> Iterator[tuple[StoreMark, IO[bytes]]]:
    """Yield what a store has, and an open copy of its database."""
    copy = target.with_name(f"{target.name}.database.tmp")
    try:
        copy.unlink(missing_ok=True)  # a killed process has left it
        with store.reading(unlimited=True, begin=lambda: waiting.begin(store)):
            had = copy_store(store, copy)
        with copy.open("rb") as file:
            yield had, file
    finally:
        copy.unlink(missing_ok=True)


def copy_store(store: Store, to: Path) -> StoreMark:
    """Write a verified copy of a database to a new file, and return what it has.

    Commits go on meanwhile; the copy has those before, or those of a reading around it.  Its
    owner alone can read it.  Raises OSError, and leaves a part of it, if it cannot be written.
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
    """Yield a connection to a copy; raises OSError where it cannot be written."""
    with closing(copy_target(path)) as target:
        try:
            yield target
        except (apsw.FullError, apsw.IOError) as error:
            number = errno.ENOSPC if isinstance(error, apsw.FullError) else target.system_errno
            if not number:  # what is copied cannot be read
                raise
            raise OSError(number, os.strerror(number)) from error


def _verify(path: Path, had: StoreMark) -> None:
    """Raise BackupError unless a copy is sound and complete."""
    with closing(connect(path, options="&immutable=1")) as copy, translated(path):
        found = copy.execute("PRAGMA state.quick_check(1)").get
        if found != "ok" or seen(copy) != had:
            raise BackupError(f"the copy {path} of the store is not what was copied: {found}")
        Chunks(lambda sql, row: copy.execute(sql, row).fetchall()).verify()


def receive(pieces: Iterable[bytes], target: Path) -> Backup:
    """Write a received backup, and return its description after verification.

    The file is written atomically, as by `back_up`.
    """
    with _replacing(target) as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        return read_backup(Path(file.name))


@contextmanager
def _replacing(target: Path) -> Iterator[IO[bytes]]:
    """Yield a private file that takes the place of a backup once the block succeeds.

    Raises BackupError if it cannot be written, or if another file has the name.
    """
    target = target.absolute()
    refuse_other(target)
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise BackupError(f"the backup {target} cannot be written: {error.strerror}") from error


def refuse_other(target: Path) -> None:
    """Raise BackupError for an existing file that is no backup."""
    if not target.exists():
        return
    try:
        with _opened(target) as archive:
            _described(target, archive)
    except BackupError as error:
        raise BackupError(
            f"{target} is there already and is no backup", hint="name another file"
        ) from error


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Summed:
    """A reader of a file, with the checksum of the bytes read so far."""

    def __init__(self, file: _Readable) -> None:
        self._file = file
        self.sum = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        found = self._file.read(size)
        self.sum.update(found)
        return found


def _add(archive: tarfile.TarFile, name: str, file: _Readable, size: int) -> BackupMember:
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o600
    summed = _Summed(file)
    archive.addfile(info, summed)
    reached("part_backed_up")
    return BackupMember(name, size, summed.sum.hexdigest())


class _Waiting:
    """The segments that a store has not consumed, at the instant of a backup.

    The store may consume and delete them while they are written.  So their files are opened at
    that instant, and a deleted file is read to its end.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._latest = 0
        self._files = ExitStack()
        self._extracts: list[tuple[Extract, IO[bytes]]] = []
        self.position = 0

    def begin(self, store: Store) -> None:
        """Open the files of the waiting segments, while no commit runs."""
        self.position = ConsumedOffsets(store).segment
        if self._directory is None:
            return
        spool = Spool(self._directory, read_only=True)
        latest = spool.latest()  # once: more is appended meanwhile
        # a spool that was lost has forgotten numbers that the store has passed
        self._latest = max(latest, self.position, last_appended(store))
        for one in spool.extracts(self.position, latest):
            self._extracts.append((one, self._files.enter_context(one.path.open("rb"))))

    def add(self, archive: tarfile.TarFile) -> Iterator[BackupMember]:
        """Write the segments."""
        if self._directory is None:
            return
        for one, file in self._extracts:
            file.seek(one.begin)
            size = len(one.header) + one.end - one.begin
            yield _add(archive, f"{_SPOOL}/{one.name}", _Joined(one.header, file), size)
        text = f"{self._latest}\n".encode()
        yield _add(archive, f"{_SPOOL}/latest", io.BytesIO(text), len(text))

    def close(self) -> None:
        """Close the open files."""
        self._files.close()


class _Joined:
    """Some bytes, and behind them a file from where it stands."""

    def __init__(self, header: bytes, file: IO[bytes]) -> None:
        self._header, self._file = header, file

    def read(self, size: int = -1, /) -> bytes:
        found, self._header = self._header, b""
        return found + self._file.read(size - len(found))


def _release() -> str:
    try:
        return version("xscl")
    except PackageNotFoundError:  # run from its source
        return "unknown"


# -- Reading one ---------------------------------------------------------------------------


def damaged(path: Path, detail: str) -> BackupError:
    """Return the error for a file that is no backup, or not as it was written."""
    return BackupError(
        f"{path} is no backup of xscl, or it is damaged: {detail}", hint="take another backup"
    )


def _old_backup(path: Path) -> BackupError:
    """Return the error for a backup of version 0.2, with the way to its data."""
    return BackupError(
        f"the backup {path} was made by version 0.2, whose format this version does not read",
        hint=moving(f"--backup {shlex.quote(str(path))}", f"{path.with_suffix('')}-new")
        + "; headers and secrets are in no backup: --data DIR reads those of a data directory",
    )


def read_backup(path: Path) -> Backup:
    """Return the description of a backup, after comparing every part with its checksum."""
    with _opened(path) as archive:
        backup, members = _described(path, archive)
        for info, part in zip(members, backup.parts, strict=True):
            summed = _Summed(_content(path, archive, info))
            beginning = summed.read(_PIECE)
            while summed.read(_PIECE):
                continue
            if summed.sum.hexdigest() != part.sha256:
                raise damaged(path, f"the checksum of {info.name} differs")
            if info.name == _LATEST:
                _compare_segments(path, backup, beginning)
        return backup


def unpack(path: Path, directory: Path) -> None:
    """Write the parts of a backup that was read to an empty directory, durably."""
    (directory / _SPOOL).mkdir(mode=0o700)
    with _opened(path) as archive:
        for info in archive.getmembers()[:-1]:
            source = _content(path, archive, info)
            try:
                with created(directory / info.name) as file:
                    while piece := source.read(_PIECE):
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise BackupError(
                    f"the backup {path} cannot be unpacked in {directory.parent}:"
                    f" {error.strerror or error}",
                    hint="make room there",
                ) from error


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(path, "r:") as archive:
            yield archive
    except (tarfile.TarError, EOFError) as error:
        raise damaged(path, str(error)) from error
    except OSError as error:
        raise BackupError(f"the backup {path} cannot be read: {error.strerror or error}") from error


def _members(path: Path, archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Return the members of an archive; raises BackupError where it was truncated."""
    members = list[tarfile.TarInfo]()
    try:
        for info in archive:
            if info.size < 0:  # tarfile would read the same header again, for ever
                raise damaged(path, f"{info.name} has a size of {info.size}")
            if not info.isreg() or info.issparse():
                raise damaged(path, f"{info.name} is no file")
            members.append(info)
    except (tarfile.TarError, ValueError, OverflowError) as error:
        where = f"at {members[-1].name}" if members else "at its beginning"
        raise damaged(path, f"{error} {where}") from error
    return members


def _described(path: Path, archive: tarfile.TarFile) -> tuple[Backup, list[tarfile.TarInfo]]:
    """Return what the manifest says, and the members that it describes: all others."""
    members = _members(path, archive)
    last = members.pop() if members else None
    if last is None or last.name != MANIFEST or last.size > _LARGEST_MANIFEST:
        where = f" after {last.name}" if last is not None else ""
        raise damaged(path, f"its end is missing: there is no {MANIFEST}{where}")
    backup = _read_manifest(path, _content(path, archive, last).read())
    names = [info.name for info in members]
    if [(info.name, info.size) for info in members] != [
        (one.name, one.size) for one in backup.parts
    ]:
        raise damaged(path, "its parts are not what its manifest says")
    if len(set(names)) != len(names) or DATABASE not in names:
        raise damaged(path, "its parts are not those of a backup")
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise damaged(path, f"it holds {name!r}, which no backup does")
    if backup.segments and _LATEST not in names:
        raise damaged(path, f"it has segments, and no {_LATEST}")
    return backup, members


def _read_manifest(path: Path, text: bytes) -> Backup:
    """Return what a manifest says.

    Its numbers are compared with the store by who restores it, and its parts with the archive.
    """
    try:
        read = json.loads(text)
        stated, form, version = read.pop(_SUM, None), read["format"], read["version"]
        if type(form) is not int or type(version) is not int or form < 1:
            raise ValueError(f"format {form} and version {version}, which no release writes")
        if form < _FORMAT:
            raise _old_backup(path)
        if form > _FORMAT or version > VERSION:
            raise BackupError(
                f"the backup {path} was made by a later release, {str(read.get('xscl'))[:60]}",
                hint="install that release, or a later one",
            )
        if version != VERSION:
            raise ValueError(f"format {form} and version {version}, which no release writes")
        if stated != _sum_of(read):
            raise damaged(path, f"the checksum of {MANIFEST} differs")
        del read["format"]
        parts = tuple(BackupMember(**part) for part in read.pop("parts"))
        backup = Backup(**read, parts=parts)
        kinds = dict.fromkeys(("xscl", "store", "made"), str) | {"commits": int, "position": int}
        for name, kind in kinds.items():
            if type(read[name]) is not kind:
                raise ValueError(f"{name} is no {kind.__name__}")
        return backup
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        detail = f"its manifest cannot be read, or a part in it is wrong: {error}"
        raise damaged(path, detail[:200]) from error


def _sum_of(said: Mapping[str, Any]) -> str:
    """Return the checksum of what a manifest says."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _compare_segments(path: Path, backup: Backup, latest: bytes) -> None:
    """Raise BackupError unless all segments wait, up to the latest one of the spool."""
    if _NUMBER.fullmatch(latest) is None:
        raise damaged(path, f"{_LATEST} says {latest[:20]!r}, which is no number of a segment")
    last = int(latest)
    if backup.position > last:
        said = f"{MANIFEST} says position {backup.position}, and the last segment of the spool is"
        raise damaged(path, f"{said} {last} ({_LATEST})")
    for number in (int(PurePath(name).stem) for name in backup.segments):
        if not backup.position < number <= last:
            waiting = f"those that wait are {backup.position + 1} to {last}"
            raise damaged(path, f"it has segment {number} of the spool, and {waiting}")


def _content(path: Path, archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(info)
    if content is None:
        raise damaged(path, f"{info.name} is no file")
    return content
