"""Quarantine of documents that crash the process that reads them.

A consumer records each batch in a file before it pushes it (`BatchAttempts`).  A process that finds
a recorded batch that was not consumed knows that its predecessor ended within the batch, for any
reason.  Before it retries the segments, another process reads the documents (`feeds.xml.probe`).  A
document that crashes this process is poison, and a further process reads the rest.  The batch
continues without it; it is recorded as rejected with the reason `poison`.

Most crashes have nothing to do with a document; their cost is one more read of the batch.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from feeds.documents import Document
from feeds.xml.probe import SIZE

_PATIENCE = 300.0  # seconds in which one process must read the rest of a batch


class BatchAttempts:
    """The record of the batch in progress in the file `path`; with None nothing is recorded."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._unfinished = 0 if path is None else _noted(path)

    def begin(self, segment: int, consumed: int) -> bool:
        """Record the last segment of a batch; return True if an earlier process ended in a batch.

        That is so if the recorded batch is after `consumed`, the last consumed segment.
        """
        suspect = self._unfinished > consumed
        if self._path is not None and not suspect:
            self._path.write_text(f"{segment}\n", "ascii")
        return suspect


def _noted(path: Path) -> int:
    try:
        return int(path.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return 0


def poisonous(documents: Sequence[Document]) -> frozenset[int]:
    """Return the indexes of the documents that crash a process that reads them."""
    found: set[int] = set()
    begin = 0
    while begin < len(documents):
        read = _count_read(documents[begin:])
        begin += read
        if begin < len(documents):
            found.add(begin)
            begin += 1
    return frozenset(found)


def _count_read(documents: Sequence[Document]) -> int:
    """Return the number of documents that a new process reads before it ends."""
    parts = [
        part for document in documents for part in (SIZE.pack(len(document.xml)), document.xml)
    ]
    paths = os.pathsep.join(os.path.abspath(path) for path in sys.path)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "feeds.xml.probe"],
            input=b"".join(parts),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return len(error.stdout or b"")
    return len(done.stdout)
