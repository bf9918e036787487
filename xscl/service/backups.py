"""Online backups of the running service.

A backup is written to a file of the data directory first and sent from there: the log of the store
grows while it is copied, and the client may be slow.  The file is unlinked before it is sent,
so that it disappears with the connection.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from feeds.spool import Spool
from xscl.documents.consumed_offsets import ConsumedOffsets
from xscl.engine.backup import back_up
from xscl.engine.disk_guard import DiskGuard
from xscl.errors import XsclError
from xscl.ingestion.data_directory import DataDirectory
from xscl.store.store import Store
from xscl.store.store_file import log_path


class BackupInProgress(XsclError):
    """Another backup is in progress."""

    code = "busy"


@dataclass(eq=False)
class Backups:
    """Makes backups, one at a time; `reading` yields a connection that the engine does not use."""

    home: DataDirectory
    reading: Callable[[], AbstractContextManager[Store]]
    disk: DiskGuard
    _making: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        shutil.rmtree(self.home.backups, ignore_errors=True)  # left over from a kill

    def make(self) -> tuple[IO[bytes], int]:
        """Return an open file that is a backup, and its size; the caller closes it.

        Raises BackupInProgress, DiskFull, BackupError.
        """
        if not self._making.acquire(blocking=False):
            raise BackupInProgress("a backup is being made", hint="ask again when it is done")
        home, target = self.home, self.home.backups / "backup.xscl"
        try:
            with self.reading() as store:
                self.disk.refuse(_size(home, ConsumedOffsets(store).segment))
                home.backups.mkdir(mode=0o700, exist_ok=True)
                back_up(store, target, home.spool)
            return target.open("rb"), target.stat().st_size
        finally:
            shutil.rmtree(home.backups, ignore_errors=True)
            self._making.release()


def _size(home: DataDirectory, consumed: int) -> int:
    """Return the bytes of disk that a backup needs: store, and segments after `consumed`.

    The store counts twice, because a copy of it exists while the backup is written.
    """
    store = (home.database, log_path(home.database)) * 2
    waiting = Spool(home.spool, read_only=True).extracts(consumed)
    return sum(map(_bytes, store)) + sum(one.end - one.begin for one in waiting)


def _bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # a store need not have a log
        return 0
