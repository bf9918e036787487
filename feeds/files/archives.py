"""The contents of a file: itself, or what a zip, tar or gzip file packs.

Nothing is unpacked to disk, sizes that an archive declares are not believed,
and an archive in an archive is left alone.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, TypeAlias

MEMBERS = 100_000
"""The most files taken from one archive."""

UNPACKED = 1 << 30
"""The most bytes unpacked from one archive."""

SIP = 1 << 24
"""The most bytes read from an archive at once; it must be more than a file may have."""

_OPEN: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_ZIP = b"PK\x03\x04"
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    NotImplementedError,  # a compression that this Python lacks
    RuntimeError,  # an encrypted member
    OSError,
)


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file or a member and its bytes; None instead of the bytes of a long text of lines."""

    name: str
    body: bytes | None


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file or a member that cannot be read, and why."""

    name: str
    reason: str


Member: TypeAlias = FileContent | UnreadableFile


def contents(name: str, file: Path, limit: int) -> Iterator[Member]:
    """The file, or each file that it packs; none is longer than `limit`.

    A longer plain file that begins like JSON has no body: it may be read line
    by line.
    """
    with file.open("rb") as plain:
        try:
            head = _head(plain)
            packed = next((kind for mark, kind in _OPEN.items() if head.startswith(mark)), None)
            stream = plain if packed is None else packed(plain)
            if packed is None and head.startswith(_ZIP):
                yield from _zip(name, stream, limit)
            elif _is_tar(head if packed is None else _head(stream)):
                yield from _tar(name, stream, limit)
            elif packed is None:
                yield _plain(name, stream, head, limit)
            else:
                yield _checked(name, stream.read(limit + 1), limit)
        except _BROKEN as error:
            yield UnreadableFile(name, f"archive_damaged: {_said(error)}")


def _head(stream: Any) -> bytes:
    """The first bytes of a file, which is at its beginning again."""
    head: bytes = stream.read(512)
    stream.seek(0)
    return head


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def bounded_lines(lines: IO[bytes] | Iterable[bytes], limit: int) -> Iterator[bytes | None]:
    """The lines of a text; None for one that is longer than `limit`."""
    if not isinstance(lines, io.BufferedIOBase):
        yield from (line if len(line) <= limit else None for line in lines)
        return
    while line := lines.readline(limit + 1):
        whole = len(line) <= limit
        while not line.endswith(b"\n") and (rest := lines.readline(limit)):
            line = rest
        yield line if whole else None


def _plain(name: str, stream: IO[bytes], head: bytes, limit: int) -> Member:
    body = stream.read(limit + 1)
    if len(body) > limit and head.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return FileContent(name, None)
    return _checked(name, body, limit)


def _checked(name: str, body: bytes, limit: int) -> Member:
    if len(body) > limit:
        return UnreadableFile(name, f"xml_size: the file has more than {limit:,} bytes")
    return FileContent(name, body)


def _zip(name: str, stream: IO[bytes], limit: int) -> Iterator[Member]:
    with zipfile.ZipFile(stream) as archive:
        files = [(info.filename, info) for info in archive.infolist() if not info.is_dir()]
        yield from _members(name, archive.open, sorted(files, key=itemgetter(0)), limit)


def _tar(name: str, stream: IO[bytes], limit: int) -> Iterator[Member]:
    """The regular files of a tar archive, in its order: sorting would unpack it twice."""
    unpacked: Any = _Bounded(stream)
    with tarfile.open(fileobj=unpacked, mode="r:") as archive:
        files = ((info.name, info) for info in archive if info.isreg())
        yield from _members(name, archive.extractfile, files, limit)


class _Bounded:
    """A file of which at most `UNPACKED` bytes are read or passed over, and `SIP` at once.

    Headers of a tar archive may ask for any number of bytes.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self.tell = file.tell

    def read(self, size: int) -> bytes:
        if size > SIP:
            raise tarfile.ReadError(f"a header has more than {SIP:,} bytes")
        data: bytes = self._file.read(size)
        return data

    def seek(self, place: int) -> None:
        if place > UNPACKED:
            raise ValueError(f"it unpacks to more than {UNPACKED:,} bytes")
        self._file.seek(place)


def _members(
    name: str, opened: Any, files: Iterable[tuple[str, Any]], limit: int
) -> Iterator[Member]:
    """Each file of an archive; a damaged one does not hide the others."""
    total = 0
    for count, (inner, info) in enumerate(files, 1):
        if count > MEMBERS:
            raise ValueError(f"it has more than {MEMBERS:,} files")
        if any(part.startswith(".") for part in inner.split("/") if part not in (".", "..")):
            continue
        where = f"{name}!{inner}"
        try:
            with opened(info) as member:
                body = member.read(limit + 1)
        except _BROKEN as error:
            yield UnreadableFile(where, f"archive_damaged: {_said(error)}")
            continue
        total += len(body)
        if total > UNPACKED:
            raise ValueError(f"it unpacks to more than {UNPACKED:,} bytes")
        if body.startswith((_ZIP, *_OPEN)) or _is_tar(body):
            yield UnreadableFile(where, "archive_nested: an archive in an archive is not opened")
        else:
            yield _checked(where, body, limit)


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
