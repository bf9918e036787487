"""A note in a spool of the last segment that was consumed.

A consumer writes the note after the commit of each batch, without synchronising it: after a crash
of the machine it is an earlier one, never one that is ahead of what was consumed.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from feeds.file_descriptors import descriptor_of

CONSUMED = "consumed"

_FORM = re.compile(rb"([0-9]{20})\n")


def note_consumed(spool: Path, segment: int) -> None:
    """Write that a segment was consumed; a disk that is full or fails leaves the last note."""
    path = spool / CONSUMED
    with suppress(OSError), descriptor_of(path, os.O_WRONLY | os.O_CREAT) as descriptor:
        os.pwrite(descriptor, b"%020d\n" % segment, 0)


def noted(spool: Path) -> int:
    """Return the number of the segment in the note; 0 without a readable note."""
    try:
        found = _FORM.fullmatch((spool / CONSUMED).read_bytes())
    except OSError:
        return 0
    return 0 if found is None else int(found[1])


def drop_note(spool: Path) -> None:
    """Delete the note: the store is known to be an earlier copy."""
    (spool / CONSUMED).unlink(missing_ok=True)
