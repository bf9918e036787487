"""Restore a data directory from a backup, or accept its damaged store.

Everything is verified before anything is changed: checksums are compared, the parts are unpacked
into a staging directory, and the store is opened there.  Then the parts are renamed into place, and
the old ones are kept in a dated directory.  Meanwhile the mark says that the restore is unfinished,
so that after a crash the store refuses to open and never mixes old and new parts.

The spool stays if the backup was made of it: segments after those of the backup are consumed again,
and documents that the store has are recognised.  Any other spool is set aside.  In its place, or in
that of a lost one, a spool begins with the backup's segments; the next number is above all that the
store knows.

Endpoints and feeds whose secret is not on this machine are marked in the restored store at once, so
that every list says so before a message or a poll has failed (`Lacking`).

The restored store begins another epoch (`xscl.delivery.store_epochs`), because it will give
positions to matches that the store before it gave to others.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from feeds.errors import SegmentDamaged, SegmentGone, SpoolError
from feeds.file_descriptors import synchronise
from feeds.spool import Spool
from feeds.spool_files import LAST_SEGMENT
from feeds.spool_note import drop_note, noted
from xscl.delivery.endpoint import NO_ADDRESS, File, Mail, Webhook
from xscl.delivery.outbox.endpoints import Endpoints
from xscl.delivery.store_epochs import begin_epoch
from xscl.documents.consumed_offsets import ConsumedOffsets
from xscl.engine.backup import MANIFEST, Backup, damaged, read_backup, unpack
from xscl.errors import StoreError
from xscl.ingestion.data_directory import SETTINGS, DataDirectory
from xscl.plurals import counted
from xscl.polling.credentials import NAME as SECRETS
from xscl.polling.credentials import Credentials
from xscl.polling.feed_repository import mark_lost_secrets
from xscl.polling.hubs import KEPT_AS as CALLBACKS
from xscl.service.accounts import Accounts
from xscl.service.name_bounds import names_in, unfit_names
from xscl.service.names import owner
from xscl.service.tokens import Tokens
from xscl.store.queries.feeds import count_leases, last_appended
from xscl.store.queries.owners import OPERATOR
from xscl.store.store import Store
from xscl.store.store_errors import BackupError, StoreDamaged, StoreWentBack, WrongVersion
from xscl.store.store_file import commits_in_file, log_path, refuse_former
from xscl.store.store_lock import UNFINISHED, StoreMark, lock_path, marked, write_mark

_STAGING = "restoring"


@dataclass(slots=True)
class SetAside:
    """A dated directory for replaced files, created when the first one is moved there."""

    home: DataDirectory
    directory: Path | None = None
    kept: list[str] = field(default_factory=list)

    def take(self, path: Path) -> None:
        """Move a file or directory into the dated directory if it exists."""
        if path.exists():
            path.rename(self._place() / path.name)
            self._moved(path)

    def copy(self, path: Path) -> None:
        """Copy a file into the dated directory if it exists."""
        if path.exists():
            shutil.copy2(path, self._place() / path.name)
            self._moved(path)

    def _moved(self, path: Path) -> None:
        self.kept.append(path.name)
        synchronise(self._place())
        synchronise(path.parent)

    def _place(self) -> Path:
        """Return the dated directory; the first call creates it."""
        if self.directory is None:
            name = datetime.now(UTC).strftime("before-%Y%m%dT%H%M%S.%fZ")
            self.directory = self.home.path / name
            self.directory.mkdir(mode=0o700)
        return self.directory


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore: the backup, and the names of the parts kept in `aside`.

    `waiting` segments are to be consumed.  `missing` is the number of segments that the restored
    store has not consumed and that are gone: deleted after an earlier store had consumed them, or
    never written.  `damaged` are the numbers of segments that are damaged in the backup.
    """

    backup: Backup
    aside: Path | None
    kept: tuple[str, ...]
    waiting: int
    missing: int
    damaged: tuple[int, ...]
    lacking: Lacking


@dataclass(frozen=True, slots=True)
class AcceptedStore:
    """The result of accepting a store: counts of commits, and the parts `kept` in `aside`.

    `commits` is 0 without a database: the next start creates an empty store.
    `lost` is None if the earlier number of commits is unknown.  If the spool was lost or is another
    one, an empty one begins after the segment `begun_after`, which else is None.
    """

    commits: int
    lost: int | None
    aside: Path | None
    kept: tuple[str, ...]
    begun_after: int | None = None


# -- A backup ------------------------------------------------------------------------------


def restore(file: Path, home: DataDirectory, *, force: bool = False) -> Restored:
    """Restore a backup into an empty data directory, or with `force` over its contents.

    Raises BackupError before any change if the backup cannot be used.
    """
    backup = read_backup(file)
    was_there = home.path.exists()
    try:
        return _restored(file, home, backup, force=force)
    except BackupError:
        if not was_there:
            with suppress(OSError):  # other files came meanwhile
                home.lock.unlink()
                home.path.rmdir()
        raise


def _restored(file: Path, home: DataDirectory, backup: Backup, *, force: bool) -> Restored:
    with home.hold("restore"):
        refuse_former(home.database)
        if not force:
            _refuse_kept(home)
        staging = home.path / _STAGING
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o700)
        try:
            unpack(file, staging)
            tried = _tried(file, DataDirectory(staging), home, backup)
            return _put(DataDirectory(staging), home, backup, tried)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _refuse_kept(home: DataDirectory) -> None:
    database = home.database
    kept = [path.name for path in (database, log_path(database)) if path.exists()]
    if marked(database) is not None:
        kept.append(lock_path(database).name)
    if home.spool.is_dir() and Spool(home.spool, read_only=True).latest():
        kept.append(home.spool.name)
    if kept:
        raise BackupError(
            f"there is data in {home.path} already: {', '.join(kept)}",
            hint="--force keeps this data aside and puts the backup in its place; "
            "--data names another directory",
        )


class _Tried(NamedTuple):
    """An unpacked store: its mark, the last spool segment it knows, the secrets it lacks."""

    seen: StoreMark
    segment: int
    lacking: Lacking


def _tried(file: Path, staging: DataDirectory, home: DataDirectory, backup: Backup) -> _Tried:
    """Verify the unpacked store by opening it, and mark rows whose secret is not in `home`."""
    try:
        Spool(staging.spool, read_only=True).refuse_more()
        opened = Store(staging.database)
    except SpoolError as error:
        raise damaged(file, error.message) from error
    except StoreError as error:
        raise _unusable(file, staging, error) from error
    with closing(opened) as store:
        _compare(file, store, backup)
        for wrong in unfit_names(names_in(store)):
            raise BackupError(f"the backup is refused: {wrong}", hint="restore another backup")
        begin_epoch(store)
        lacking = find_lacking(store, home)
        seen = store.seen()
        segment = max(backup.position, last_appended(store))
    if log_path(staging.database).exists():
        raise BackupError(f"the store cannot be unpacked in {staging.path}", hint="make room there")
    return _Tried(seen, segment, lacking)


def _unusable(file: Path, staging: DataDirectory, error: StoreError) -> BackupError:
    """Return the error for a database in a backup that cannot be opened.

    Its message is without the path of the staging directory, which is deleted afterwards.
    """
    told = error.message.replace(f"{staging.path}{os.sep}", "")
    if isinstance(error, StoreDamaged | StoreWentBack | WrongVersion):
        return damaged(file, told)
    return BackupError(f"the backup {file} cannot be restored: {told}", hint=error.hint)


def _compare(file: Path, store: Store, backup: Backup) -> None:
    """Raise BackupError unless a store that was just opened has the figures of the manifest."""
    seen = store.seen()
    for name, stated, found in (
        ("store", backup.store, seen.store),
        ("commits", backup.commits, seen.commits),
        ("position", backup.position, ConsumedOffsets(store).segment),
    ):
        if stated != found:
            raise damaged(file, f"{MANIFEST} says {name} {stated}, and the database has {found}")
    if not 0 <= (appended := last_appended(store)) <= LAST_SEGMENT:
        raise damaged(file, f"feed_spool in the database has segment {appended}")


def _put(staging: DataDirectory, home: DataDirectory, backup: Backup, tried: _Tried) -> Restored:
    """Rename all parts into place; new segments get numbers after those that the store knows."""
    before = marked(home.database)
    ours = _is_ours(staging, home, backup, before)
    aside = SetAside(home)
    if before is not None and before.commits != UNFINISHED:
        aside.copy(lock_path(home.database))
    store = backup.store if before is None else before.store
    write_mark(home.database, StoreMark(store, UNFINISHED))
    for path in (log_path(home.database), home.database):
        aside.take(path)
    aside.take(home.spark)
    if not ours:
        aside.take(home.spool)
    unsound = tuple(_damaged_segments(staging.spool))
    with Spool(home.spool) as spool:
        spool.put_back(Spool(staging.spool, read_only=True), tried.segment)
        drop_note(home.spool)
        spool.skip_lost()  # their number is reported
        waiting = len(spool.numbers(backup.position))
        missing = max(0, spool.latest() - backup.position - waiting)
    staging.database.rename(home.database)
    synchronise(home.path)
    write_mark(home.database, tried.seen)
    kept = tuple(aside.kept)
    return Restored(backup, aside.directory, kept, waiting, missing, unsound, tried.lacking)


def _is_ours(
    staging: DataDirectory, home: DataDirectory, backup: Backup, before: StoreMark | None
) -> bool:
    """Return True if the existing spool is the one of the backup, or a later state of it."""
    if not home.spool.is_dir():
        return True
    if before is not None and before.store != backup.store:
        return False
    spool = Spool(home.spool, read_only=True)
    there = _described(spool)
    return spool.latest() >= backup.position and all(
        there.get(number, found) == found
        for number, found in _described(Spool(staging.spool, read_only=True)).items()
    )


def _described(spool: Spool) -> dict[int, tuple[int, int]]:
    """Return rows and arrival by number of segment; an erasure of documents changes neither."""
    found = {}
    for number in spool.numbers(0):
        with suppress(SegmentGone, SegmentDamaged):
            one = spool.segment(number)
            found[number] = one.rows, one.arrived
    return found


def _damaged_segments(directory: Path) -> Iterator[int]:
    """Yield the numbers of the segments in a spool that no consumer can read."""
    spool = Spool(directory, read_only=True)
    for number in spool.numbers(0):
        try:
            spool.check(number)
        except SegmentDamaged:
            yield number


# -- A damaged store -----------------------------------------------------------------------


def accept(home: DataDirectory) -> AcceptedStore:
    """Accept the store in its current state and give up commits that only its mark records.

    An unreadable log is set aside, with the commits in it.  Raises BackupError if a restore was
    broken off before its store was in place: the store before it is set aside, and not lost.
    """
    with home.hold("restore"):
        refuse_former(home.database)
        database, aside = home.database, SetAside(home)
        seen = marked(database)
        if not database.exists() or not database.stat().st_size:
            return _accept_nothing(home, aside, seen)
        return _accepted(home, aside, seen)


def _accept_nothing(home: DataDirectory, aside: SetAside, seen: StoreMark | None) -> AcceptedStore:
    if seen is not None and seen.commits == UNFINISHED:
        kept = max(home.path.glob("before-*"), default=None)
        raise BackupError(
            f"a restore in {home.path} was broken off, and there is no store that could be"
            " accepted",
            hint=f"run it again: xscl restore FILE --force --data {shlex.quote(str(home.path))}"
            + ("" if kept is None else f"; what was there before is in {kept}"),
        )
    log = log_path(home.database)
    if not log.exists():
        home.expect()
    for path in (home.database, log):
        aside.take(path)
    if seen is not None:
        aside.copy(lock_path(home.database))
    drop_note(home.spool)
    write_mark(home.database, StoreMark("none", 0))
    lost = None if seen is None else seen.commits
    return AcceptedStore(0, lost, aside.directory, tuple(aside.kept))


def _accepted(home: DataDirectory, aside: SetAside, before: StoreMark | None) -> AcceptedStore:
    """Accept the store in its current state, without its log if that is damaged."""
    database, log = home.database, log_path(home.database)
    if before is not None and commits_in_file(database) < before.base:  # the log has later pages
        aside.take(log)
    try:
        store = Store(database, accept=True)
    except StoreDamaged as error:
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
        if noted(home.spool) > ConsumedOffsets(store).segment:
            lost = None  # store and mark are an older copy: the lost are not counted
        if lost is None or lost > 0:
            begin_epoch(store)
        drop_note(home.spool)
        begun = _begun_after(home, aside, store)
        return AcceptedStore(seen.commits, lost, aside.directory, tuple(aside.kept), begun)


def _begun_after(home: DataDirectory, aside: SetAside, store: Store) -> int | None:
    """Replace a spool that ends before the consumed segment by an empty one.

    Return the segment after which that one begins, None if the spool stays.
    """
    consumed = ConsumedOffsets(store).segment
    latest = Spool(home.spool, read_only=True).latest() if home.spool.is_dir() else 0
    if latest >= consumed:
        return None
    aside.take(home.spool)
    with Spool(home.spool) as spool:
        known = max(consumed, last_appended(store))
        spool.put_back(spool, known)
        spool.skip_lost()
    return known


@dataclass(frozen=True, slots=True)
class WithoutSecret:
    """An endpoint or a feed that waits for a secret, and the command that gives it a new one.

    `name` is the subscription's name or the feed's key, `to` the address, `note` the reason.
    `command` is None where another user has to act.
    """

    kind: str
    name: str
    to: str
    note: str
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Lacking:
    """The secrets and files that a restored store needs and does not have.

    `tokens` has the number of tokens of each user, which remain valid.  `leases` counts the feeds
    whose subscriptions at hubs are requested again, `mails` the endpoints that need a mail server.
    `apart` are the files that the data directory lacks and that are in no backup.
    """

    secrets: tuple[WithoutSecret, ...]
    tokens: dict[str, int]
    leases: int
    mails: int
    apart: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the lacking things as lines for the operator, the most urgent first."""
        for secret in self.secrets:
            command = "" if secret.command is None else f": {secret.command}"
            yield f"waits: {secret.kind} of {secret.name!r} to {secret.to}: {secret.note}{command}"
        if self.mails:
            yield f"{counted(self.mails, 'mail endpoint')}: 'xscl serve' needs --smtp or XSCL_SMTP"
        if self.leases:
            yield f"hubs: those of {counted(self.leases, 'feed')} will be asked again"
        if self.tokens:
            whose = ", ".join(f"{user} {count}" for user, count in sorted(self.tokens.items()))
            yield f"tokens: these remain valid, 'xscl token revoke' ends one: {whose}"
        if self.apart:
            yield f"not in a backup, copy it if there is one: {', '.join(self.apart)}"


def find_lacking(store: Store, home: DataDirectory) -> Lacking:
    """Mark the endpoints and feeds whose secrets are missing; return all that the store lacks.

    `home` is the directory in which the store will be used.
    """
    secrets = Credentials(home.path / SECRETS)
    accounts = Accounts(store)
    endpoints = Endpoints(store, secrets)
    endpoints.save()
    found = [
        *_webhooks(endpoints, accounts, home),
        *(
            WithoutSecret("mail", accounts.called(one.subscription), one.channel.to, one.note)
            for one in endpoints.all()
            if isinstance(one.channel, Mail) and one.state == "unconfirmed" and one.note
        ),
        *(
            WithoutSecret("feed", feed.key, feed.shown_url, feed.error or "")
            for feed in mark_lost_secrets(store, secrets)
        ),
    ]
    called = {account.number: account.name for account in accounts}
    channels = [one.channel for one in endpoints.all()]
    files = {
        f"{home.files.name}/{channel.name}" for channel in channels if isinstance(channel, File)
    }
    return Lacking(
        tuple(found),
        dict(Counter(called[token.account] for token in Tokens(store, accounts).of())),
        0 if secrets.of(CALLBACKS) else count_leases(store),
        sum(isinstance(channel, Mail) for channel in channels),
        tuple(
            name for name in (SECRETS, SETTINGS, *sorted(files)) if not (home.path / name).exists()
        ),
    )


def _webhooks(
    endpoints: Endpoints, accounts: Accounts, home: DataDirectory
) -> Iterator[WithoutSecret]:
    """Yield the webhooks that lack an address or a secret, with the command that renews it."""
    known = endpoints.all()
    hooks = Counter(one.subscription for one in known if one.channel.kind == "webhook")
    for one in known:
        if isinstance(one.channel, Webhook) and (lost := endpoints.lacking(one)):
            words = ["xscl", "rotate", one.subscription]
            if hooks[one.subscription] > 1:
                words += ["--endpoint", one.id]
            if NO_ADDRESS in lost:
                words += ["--webhook", "URL"]
            command = shlex.join([*words, "--data", str(home.path)])
            name, is_own = accounts.called(one.subscription), owner(one.subscription)[0] == OPERATOR
            can_rotate = is_own and one.channel.is_signed
            yield WithoutSecret(
                one.channel.kind, name, one.channel.url, lost, command if can_rotate else None
            )
