"""The note of a spool beside the store of its data directory.

An older copy of all files of the database beside today's spool brings its own count of commits.
Then only the note in the spool (`feeds.spool_note`) knows that there was a later state.
"""

from __future__ import annotations

from pathlib import Path

from feeds.spool_note import CONSUMED, noted
from xscl.store.store_errors import DATABASE, StoreWentBack


def remaining(database: Path) -> str | None:
    """Return the evidence in a data directory that it had a store, which is lost; None without any.

    Documents enter a spool only after the store exists.
    """
    spool = database.with_name("spool")
    if database.name != DATABASE:
        return None
    if next(spool.glob("*.arrow*"), None) is not None:
        return f"the spool {spool} has documents that were acknowledged"
    if noted(spool):
        return f"{spool / CONSUMED} says that documents were consumed"
    return None


def expect_consumed(database: Path | None, segment: int) -> None:
    """Raise StoreWentBack unless a store in a data directory has consumed what its spool notes.

    `segment` is the last segment that the store has consumed.
    """
    if database is None or database.name != DATABASE:
        return
    spool = database.with_name("spool")
    if (last := noted(spool)) > segment:
        raise StoreWentBack(
            database,
            f"it has consumed the spool up to segment {segment}, and {spool / CONSUMED} says that"
            f" segment {last} was consumed; what it had taken in since then is missing",
        )
