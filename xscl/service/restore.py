"""Putting a backup in the place of a data directory's store, or going on with what is there.

Everything is read and tried before anything is touched: the parts are compared
with their checksums, unpacked beside, and the store is opened there (which
brings one of an earlier version to this one).  Then the parts are renamed into
place; what was there is kept aside under a dated name.  Meanwhile the mark
says that this is not finished, so that a kill in between leaves a store which
refuses to open, never half of two.

The spool stays if it is the one that the backup is of: what it has beyond the
backup is consumed again, and documents that the store has are recognised.  A
spool that the backup lacks and that is lost begins anew, with numbers above all
that the store knows.  The checkpoint of Spark is set aside: it is of a store
that went further.

The store that is put in place begins a new generation (`xscl.store.store_epochs`): it will
give positions again that the one before it had given.
"""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from feeds.spool import Spool
from xscl.engine.facade import Engine
from xscl.ingestion.engine_sink import EngineSink
from xscl.ingestion.pipeline import PipelineError, check_store, read_checkpoint
from xscl.store.atomic_files import sha256_of, synchronise, write_durably
from xscl.store.backup import Backup, read_backup, unpack
from xscl.store.commit_watermark import NEW, UNFINISHED, Seen, mark_path, read_mark, write_mark
from xscl.store.data_directory import Home
from xscl.store.store import Store
from xscl.store.store_epochs import begin_generation
from xscl.store.store_errors import BackupError, StoreDamaged
from xscl.store.store_file import log_path, new_id

_STAGING = "restoring"


@dataclass(slots=True)
class SetAside:
    """Where what was there is kept: a dated directory, made when something goes there."""

    home: Home
    directory: Path | None = None
    kept: list[str] = field(default_factory=list)

    def take(self, path: Path) -> None:
        """Move a file or directory there, if it exists."""
        if path.exists():
            path.rename(self._place() / path.name)
            self._moved(path)

    def copy(self, path: Path) -> None:
        """Keep a copy of a file there, if it exists."""
        if path.exists():
            shutil.copy2(path, self._place() / path.name)
            self._moved(path)

    def _moved(self, path: Path) -> None:
        self.kept.append(path.name)
        synchronise(self._place())
        synchronise(path.parent)

    def _place(self) -> Path:
        """Return the directory, which has a name that no other has."""
        if self.directory is None:
            name = datetime.now(UTC).strftime("before-%Y%m%dT%H%M%S.%fZ")
            self.directory = self.home.path / name
            self.directory.mkdir(mode=0o700)
        return self.directory


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of a restore: the backup, what was kept aside where, what waits in the spool.

    `missing` are numbers of segments that the store has not consumed and that are not there:
    they were deleted after they had been consumed, or never written.
    """

    backup: Backup
    aside: Path | None
    kept: tuple[str, ...]
    waiting: int
    missing: int


@dataclass(frozen=True, slots=True)
class AcceptedStore:
    """What was accepted: the commits there are, those that are lost, what was kept aside where.

    `commits` is 0 if there is no database: then the next start makes an empty store.
    `lost` is None if nobody knows how many there were.
    """

    commits: int
    lost: int | None
    aside: Path | None
    kept: tuple[str, ...]


# -- A backup ------------------------------------------------------------------------------


def restore(file: Path, home: Home, *, force: bool = False) -> Restored:
    """Put a backup into a data directory: an empty one, or with `force` in place of what is there.

    Raises BackupError, before anything is touched, if the backup cannot be used.
    """
    backup = read_backup(file)
    with home.hold("restore"):
        if not force:
            _refuse_kept(home)
        staging = home.path / _STAGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
        try:
            unpack(file, staging)
            seen, segment = _tried(Home(staging), backup)
            return _put(Home(staging), home, backup, seen, segment)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _refuse_kept(home: Home) -> None:
    parts = (home.database, log_path(home.database), mark_path(home.database), home.checkpoint)
    kept = [path.name for path in parts if path.exists()]
    if home.spool.is_dir() and Spool(home.spool, read_only=True).latest():
        kept.append(home.spool.name)
    if kept:
        raise BackupError(
            f"there is data in {home.path} already: {', '.join(kept)}",
            hint="--force puts the backup in its place and keeps it aside; "
            "--data names another directory",
        )


def _tried(staging: Home, backup: Backup) -> tuple[Seen, int]:
    """Open the store that was unpacked and close it again.

    Return what its mark has to say, and the last segment of the spool that it knows.
    """
    with closing(Store(staging.database, keep_old=False)) as store:
        seen = store.seen()
        if seen.store != backup.store or seen.commits < backup.commits:
            raise BackupError("the store in the backup is not the one that its manifest says")
        begin_generation(store)
        seen = store.seen()
        segment = max(backup.position, _appended(store))
    if log_path(staging.database).exists():
        raise BackupError(f"the store cannot be unpacked in {staging.path}", hint="make room there")
    return seen, segment


def _appended(store: Store) -> int:
    """Return the last segment that feeds appended; the store may have consumed less, or more."""
    if not store.has("feed_spool"):
        return 0
    ((segment,),) = store.fetch("SELECT coalesce(max(segment), 0) FROM state.feed_spool")
    return int(segment)


def _put(staging: Home, home: Home, backup: Backup, seen: Seen, segment: int) -> Restored:
    """Rename everything into place; the spool goes on after a segment, at least."""
    before = read_mark(home.database)
    ours = _is_ours(staging, home, backup, before)
    aside = SetAside(home)
    if before is None or before.commits != UNFINISHED:
        aside.copy(mark_path(home.database))
    write_mark(home.database, Seen(backup.store if before is None else before.store, UNFINISHED))
    aside.take(log_path(home.database))
    aside.take(home.database)
    aside.take(home.checkpoint)
    aside.take(home.patterns)
    if not ours:
        aside.take(home.spool)
    _merge(staging.spool, home.spool, segment)
    with Spool(home.spool) as spool:
        spool.skip_lost()  # how many these are is told
        waiting = len(spool.numbers(backup.position))
        missing = max(0, spool.latest() - backup.position - waiting)
    staging.database.rename(home.database)
    synchronise(home.path)
    write_mark(home.database, seen)
    return Restored(backup, aside.directory, tuple(aside.kept), waiting, missing)


def _is_ours(staging: Home, home: Home, backup: Backup, before: Seen | None) -> bool:
    """Whether the spool that is there is the one that the backup is of, or a later state of it."""
    if not home.spool.is_dir():
        return True
    if before is not None and before.store != backup.store:
        return False
    for segment in staging.spool.glob("*.arrow"):
        there = home.spool / segment.name
        if there.exists() and sha256_of(there) != sha256_of(segment):
            return False
    return Spool(home.spool, read_only=True).latest() >= backup.position


def _merge(source: Path, target: Path, known: int) -> None:
    """Move segments to a spool that it lacks; `latest` becomes the highest number there is.

    What the store knows counts, too: the next segment must not have a number that it has passed.
    """
    target.mkdir(mode=0o700, exist_ok=True)
    latest = max(known, *(Spool(one, read_only=True).latest() for one in (source, target)))
    for segment in sorted(source.glob("*.arrow")):
        if not (target / segment.name).exists():
            segment.rename(target / segment.name)
    synchronise(target)
    write_durably(target / "latest", f"{latest}\n".encode())


# -- What is there -------------------------------------------------------------------------


def accept(home: Home) -> AcceptedStore:
    """Go on with the store as it is: what its mark says beyond it is given up.

    A log that cannot be read is set aside, with the commits in it.
    """
    with home.hold("restore"):
        database, aside = home.database, SetAside(home)
        seen = read_mark(database)
        if not database.exists() or not database.stat().st_size:
            return _accept_nothing(home, aside, seen)
        now, lost = _accepted(database, aside, seen)
        _set_checkpoint_aside(home, aside)
        return AcceptedStore(now.commits, lost, aside.directory, tuple(aside.kept))


def _accept_nothing(home: Home, aside: SetAside, seen: Seen | None) -> AcceptedStore:
    if not log_path(home.database).exists():
        home.expect()
    for path in (home.checkpoint, home.database, log_path(home.database), mark_path(home.database)):
        aside.take(path)
    write_mark(home.database, Seen(new_id(), NEW))
    lost = None if seen is None else seen.commits
    return AcceptedStore(0, lost, aside.directory, tuple(aside.kept))


def _accepted(database: Path, aside: SetAside, before: Seen | None) -> tuple[Seen, int | None]:
    """Open the store as it is; if its log keeps it from that, without the log.

    Return how far it has come, and how many commits it lacks of those that its mark had.
    """
    try:
        store = Store(database, accept=True)
    except StoreDamaged as error:
        log = log_path(database)
        if log.name not in error.message:
            raise
        aside.take(log)
        store = Store(database, accept=True)
    with closing(store):
        seen = store.seen()
        if before is None or before.store != seen.store or before.commits == UNFINISHED:
            lost = None
        else:
            lost = before.commits - seen.commits
        if lost is None or lost > 0:
            begin_generation(store)
        return seen, lost


def _set_checkpoint_aside(home: Home, aside: SetAside) -> None:
    """Set the checkpoint of Spark aside if it is damaged or the store lacks batches of it."""
    with Engine(home.database) as engine:
        try:
            checkpoint = read_checkpoint(home.checkpoint)
            if checkpoint is not None:
                check_store(EngineSink(engine), checkpoint)
        except PipelineError:
            aside.take(home.checkpoint)
