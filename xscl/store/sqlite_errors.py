"""Errors of SQLite as errors of the store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from xscl.errors import StoreError
from xscl.store.store_errors import StoreClosed, StoreDamaged, StoreNeedsMemory, first_line

_UNREADABLE = (apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ)


@contextmanager
def translated(
    path: Path | None,
    connection: apsw.Connection | None = None,
    kinds: tuple[type[Exception], ...] = (apsw.Error,),
) -> Iterator[None]:
    """Raise errors of SQLite, or of other `kinds`, too, as errors of the store."""
    try:
        yield
    except kinds as error:
        errno = error.errno if isinstance(error, OSError) else None
        if errno is None and connection is not None:
            with suppress(apsw.ConnectionClosedError):
                errno = connection.system_errno
        raise sqlite_error(path, error, errno or 0) from error


def sqlite_error(path: Path | None, error: Exception, errno: int = 0) -> StoreError:
    """Return the error of the store for an error of SQLite, which users never see.

    `errno` is that of the last failed system call.
    """
    where = "in memory" if path is None else str(path)
    reason = os.strerror(errno) if errno else str(error)
    match error:
        case apsw.NoMemError():
            return StoreNeedsMemory(path, str(error))
        case apsw.ConnectionClosedError():
            return StoreClosed()
        case apsw.FullError():
            return StoreError(
                f"the store {where} cannot be written: No space left on device ({error})",
                hint="make room on disk",
            )
        case apsw.CorruptError() | apsw.NotADBError() if path is not None:
            return StoreDamaged(path, str(error))
        case apsw.IOError() if path is not None and _extended(error) in _UNREADABLE:
            return StoreDamaged(path, "a page has another checksum")
        case apsw.IOError() | apsw.CantOpenError() | apsw.ReadOnlyError():
            return StoreError(
                f"the store {where} cannot be read or written: {reason} ({error})",
                hint="is the disk failing, and may this user write there? nothing of the change was"
                " kept, and nothing that was acknowledged is lost",
            )
        case _:
            pass
    return StoreError(
        f"the store {where} failed: {first_line(error)}",
        hint="nothing of the change was kept; if it happens again, report it with this message",
    )


def _extended(error: Exception) -> int:
    """Return the extended code of an error of SQLite."""
    return int(getattr(error, "extendedresult", 0))
