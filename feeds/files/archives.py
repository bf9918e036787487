"""The contents of a file: itself, or what a zip, tar or gzip file packs.

Nothing is unpacked to disk, sizes that an archive declares are not believed,
and an archive in an archive is left alone.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

MEMBERS = 100_000
"""The most files taken from one archive."""

UNPACKED = 1 << 30
"""The most bytes unpacked from one archive."""

SIP = 1 << 24
"""The most bytes read from an archive at once; it must be above the limit of a file."""

NOT_REGULAR = "file_unreadable: it is not a regular file"

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


class FileContent(NamedTuple):
    """A file or a member of an archive: its bytes, or the reason why it cannot be read.

    A file that is to be read line by line, as it is longer than the limit, has neither.
    """

    name: str
    body: bytes | None = None
    reason: str = ""


def contents(name: str, file: Path, limit: int) -> Iterator[FileContent]:
    """Yield the file, or each file of the archive that it is; `body` has at most `limit` bytes.

    A longer plain file that begins like JSON has no body: it may be read line
    by line.
    """
    with file.open("rb") as plain:
        try:
            head = _head(plain)
            packed = next((kind for mark, kind in _OPEN.items() if head.startswith(mark)), None)
            stream = plain if packed is None else packed(plain)
            if packed is None and head.startswith(_ZIP):
                yield from _members(name, _in_zip(stream), limit)
            elif _is_tar(head if packed is None else _head(stream)):
                yield from _members(name, _in_tar(stream), limit)
            else:
                body = stream.read(limit + 1)
                is_json = body.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
                has_lines = packed is None and len(body) > limit and is_json
                yield FileContent(name) if has_lines else _checked(name, body, limit)
        except _BROKEN as error:
            yield FileContent(name, reason=f"archive_damaged: {_said(error)}")


def _head(stream: Any) -> bytes:
    """Return the first 512 bytes of a stream, and rewind it."""
    head: bytes = stream.read(512)
    stream.seek(0)
    return head


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def bounded_lines(lines: IO[bytes], limit: int) -> Iterator[bytes | None]:
    """The lines of a text; None for one that is longer than `limit`."""
    while line := lines.readline(limit + 1):
        whole = len(line) <= limit
        while not line.endswith(b"\n") and (rest := lines.readline(limit)):
            line = rest
        yield line if whole else None


def _checked(name: str, body: bytes, limit: int) -> FileContent:
    if len(body) > limit:
        return FileContent(name, reason=f"xml_size: the file has more than {limit:,} bytes")
    return FileContent(name, body)


_Members: TypeAlias = Iterator[tuple[str, Callable[[], Any] | None]]
"""The names in an archive, each with a function that opens the file; None for a link or a pipe."""


def _in_zip(stream: IO[bytes]) -> _Members:
    with zipfile.ZipFile(stream) as archive:
        for info in sorted(archive.infolist(), key=lambda each: each.filename):
            if not info.is_dir():
                yield info.filename, partial(archive.open, info)


def _in_tar(stream: IO[bytes]) -> _Members:
    """The files of a tar archive, in its order: sorting would unpack it twice."""
    unpacked: Any = _Bounded(stream)
    with tarfile.open(fileobj=unpacked, mode="r:") as archive:
        for info in archive:
            if not info.isdir():
                yield info.name, partial(archive.extractfile, info) if info.isreg() else None


class _Bounded:
    """A stream that refuses to read more than `SIP` bytes at once or to seek beyond `UNPACKED`.

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


def _members(name: str, files: _Members, limit: int) -> Iterator[FileContent]:
    """Yield each file of an archive; a damaged file does not end the iteration."""
    total = 0
    for count, (inner, opened) in enumerate(files, 1):
        if count > MEMBERS:
            raise ValueError(f"it has more than {MEMBERS:,} files")
        if any(part.startswith(".") for part in inner.split("/") if part not in (".", "..")):
            continue
        where = f"{name}!{inner}"
        if opened is None:
            yield FileContent(where, reason=NOT_REGULAR)
            continue
        try:
            with opened() as member:
                body = member.read(limit + 1)
        except _BROKEN as error:
            yield FileContent(where, reason=f"archive_damaged: {_said(error)}")
            continue
        total += len(body)
        if total > UNPACKED:
            raise ValueError(f"it unpacks to more than {UNPACKED:,} bytes")
        if body.startswith((_ZIP, *_OPEN)) or _is_tar(body):
            reason = "archive_nested: an archive in an archive is not opened"
            yield FileContent(where, reason=reason)
        else:
            yield _checked(where, body, limit)


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
