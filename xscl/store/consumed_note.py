"""A note in the spool of the last segment that its store has consumed.

Whoever puts an older copy of all files of the database beside today's spool replaces the count of
commits, too.  Then only the spool knows that there was a later state.  A consumer writes the note
after the commit of each batch, without synchronising it: after a crash of the machine it is an
earlier one, never one that is ahead of the store.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from xscl.store.store_errors import DATABASE, StoreWentBack

NAME = "consumed"

_FORM = re.compile(rb"([0-9]{20})\n")


def note_consumed(spool: Path, segment: int) -> None:
    """Write that a segment was consumed; a disk that is full or fails leaves the last note."""
    with suppress(OSError):
        descriptor = os.open(spool / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(descriptor, b"%020d\n" % segment, 0)
        finally:
            os.close(descriptor)


def noted(spool: Path) -> int:
    """Return the last segment that was noted, 0 without a note that can be read."""
    try:
        found = _FORM.fullmatch((spool / NAME).read_bytes())
    except OSError:
        return 0
    return 0 if found is None else int(found[1])


def remaining(database: Path) -> str | None:
    """Return the trace of a lost store in its data directory, None if there is none.

    Documents enter a spool only after the store exists.
    """
    spool = database.with_name("spool")
    if database.name != DATABASE:
        return None
    if next(spool.glob("*.arrow*"), None) is not None:
        return f"the spool {spool} has documents that were acknowledged"
    if noted(spool):
        return f"{spool / NAME} says that documents were consumed"
    return None


def drop_note(spool: Path) -> None:
    """Forget the note, for a store that is known to be an earlier one."""
    (spool / NAME).unlink(missing_ok=True)


def expect_consumed(database: Path | None, segment: int) -> None:
    """Raise StoreWentBack unless a store in a data directory has consumed what its spool notes.

    `segment` is the last one that it has consumed.
    """
    if database is None or database.name != DATABASE:
        return
    spool = database.with_name("spool")
    if (last := noted(spool)) > segment:
        raise StoreWentBack(
            database,
            f"it has consumed the spool up to segment {segment}, and {spool / NAME} says that"
            f" segment {last} was consumed; what it had taken in since then is missing",
        )
