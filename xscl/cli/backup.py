"""`xscl backup` and `xscl restore`."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from xscl.cli.connection import opened
from xscl.cli.options import DATA, Call, Data, Json, argument, home, not_standard, option
from xscl.cli.output import UsageError, answer, warn
from xscl.cli.progress import Quiet, working
from xscl.engine.backup import Backup
from xscl.ingestion.data_directory import DataDirectory
from xscl.plurals import counted
from xscl.service.restore import AcceptedStore, Restored, accept
from xscl.service.restore import restore as put_back
from xscl.time_format import to_second


def backup(
    call: Call,
    file: Path = argument("The file to write.", "FILE", callback=not_standard),
    quiet: Quiet = False,
) -> None:
    """Write everything that is kept to one file: the store, and what waits in the spool.

    The file can be read by its owner only. The secrets of feeds are not in it.
    A service that runs goes on meanwhile; it is asked by its operator.

    \b
    Example:
      xscl backup monday.xscl
      xscl backup --data xscl-data /backups/xscl-$(date +%F).xscl
    """
    with opened("backup", call) as service, working("writing"):
        made = service.backup(file)
    value = {"file": str(file), **made.as_dict()}
    answer(value, [f"wrote {file}: {_described(made)}"], as_json=call.as_json)


def restore(
    file: Path | None = argument("The backup to put back.", "[FILE]"),
    force: bool = option("In place of what is there, which is kept aside."),
    accept_it: bool = option("Go on with the store that is there, as it is.", flags="--accept"),
    data: Data = DATA,
    as_json: Json = False,
) -> None:
    """Put a backup back, or accept a store that has gone backwards.

    Nothing is touched before the backup was read as a whole and its store was
    opened. With --force what was there is kept in a directory "before-..." of
    the data directory. What the spool has beyond the backup is consumed again;
    documents that the store has are recognised.

    --accept takes no file: what a missing or older file held is lost then.

    \b
    Example:
      xscl restore monday.xscl --data new-machine
      xscl restore monday.xscl --force
      xscl restore --accept
    """
    if (file is None) != accept_it or (accept_it and force):
        raise UsageError(
            "restore takes either a FILE or --accept",
            hint="'xscl restore FILE [--force]' puts a backup back, "
            "'xscl restore --accept' goes on with what is there",
        )
    at = home(data)
    if file is None:
        _echo_accepted(at, accept(at), as_json=as_json)
    else:
        _echo_restored(at, put_back(file, at, force=force), as_json=as_json)


def _echo_restored(place: DataDirectory, done: Restored, *, as_json: bool) -> None:
    counts = {"waiting": done.waiting, "missing": done.missing, "damaged": done.damaged}
    made = to_second(datetime.fromisoformat(done.backup.made))
    lines = [
        f"restored {place.path}: {_described(done.backup)}, made {made}",
        *_aside_lines(done),
        *_waiting_lines(done),
        *done.lacking.lines(),
    ]
    value = {"restored": str(place.path), **done.backup.as_dict(), **_aside(done), **counts}
    value |= {"lacking": done.lacking.as_dict()}
    answer(value, lines, as_json=as_json)
    for number in () if as_json else done.damaged:
        warn(
            f"warning: segment {number} of the spool was damaged when the backup was made; "
            "'xscl serve' stops there and says how to go on without it"
        )
    if done.missing and not as_json:
        warn(
            f"warning: {counted(done.missing, 'segment')} between them cannot be consumed again: "
            "they were deleted after they had been consumed, or never written"
        )


def _waiting_lines(done: Restored) -> list[str]:
    if not done.waiting:
        return []
    return [f"{counted(done.waiting, 'segment')} of the spool will be consumed by 'xscl serve'"]


def _echo_accepted(place: DataDirectory, done: AcceptedStore, *, as_json: bool) -> None:
    if done.commits:
        first = f"accepted the store in {place.path} as it is, at commit {done.commits}"
        lost = _lost(done.lost)
    else:
        first = f"there is no store in {place.path}: the next start makes an empty one"
        lost = "all subscriptions, feeds and matches; the spool will be read from its beginning"
    found = {"accepted": str(place.path), "commits": done.commits, "lost": done.lost}
    lines = [first, f"lost: {lost}", *_aside_lines(done)]
    if done.begun_after is not None:
        lines.append(
            f"the spool begins anew after segment {done.begun_after}, without what waited in it"
        )
    found["spool_after"] = done.begun_after
    answer({**found, **_aside(done)}, lines, as_json=as_json)


def _lost(commits: int | None) -> str:
    what = "documents, matches and subscriptions that they brought"
    match commits:
        case None:
            return f"nobody knows how many commits, with the {what}"
        case _ if commits <= 0:
            return "nothing"
        case _:
            return (
                f"the last {counted(commits, 'commit')}, with the {what}; documents that are still"
                " in the spool will be consumed again"
            )


def _aside(done: Restored | AcceptedStore) -> dict[str, Any]:
    """Return, for JSON, the directory to which replaced files were moved, and their names."""
    return {"aside": None if done.aside is None else str(done.aside), "kept": list(done.kept)}


def _aside_lines(done: Restored | AcceptedStore) -> list[str]:
    return [] if done.aside is None else [f"kept aside in {done.aside}: {', '.join(done.kept)}"]


def _described(one: Backup) -> str:
    files = counted(len(one.segments), "waiting file")  # each has some segments of the spool
    return f"{counted(one.commits, 'commit')}, {files}, {one.size:,} bytes"
