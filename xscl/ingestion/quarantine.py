"""Documents that end the process which reads them: found out, and set aside.

What a consumer is about to push it notes in a file (`Attempts`).  Who starts and finds a batch
noted that was not consumed knows that a process ended in the midst of it, for whatever reason.
Before it tries the same segments again it has the documents read by another process
(`feeds.xml.probe`), which may die of one: that one is poison, and another process reads the
rest.  The batch goes on without it; it is recorded as rejected with the reason `poison`.

Most ends have nothing to do with a document; then reading the batch once more is all it costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from feeds.documents import Document
from feeds.xml.probe import SIZE

_PATIENCE = 300.0  # seconds for one process to read what is left of a batch


class Attempts:
    """The note of what is being pushed; without a path nothing is noted."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._unfinished = 0 if path is None else _noted(path)

    def begin(self, segment: int, consumed: int) -> bool:
        """Note the last segment of a batch; return whether a process has ended in the midst of it.

        `consumed` is the segment up to which everything is consumed.
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
    """Return the places of the documents of which a process dies that reads them."""
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
    """Return how many of some documents a new process reads before it ends."""
    parts = [part for one in documents for part in (SIZE.pack(len(one.xml)), one.xml)]
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
