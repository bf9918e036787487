"""How many documents to take at once: as many as can be done within the time that is aimed at.

A batch has costs of its own, so large ones are cheaper; but whoever waits for its first document
waits for its last, and so do requests that need the engine.  How long a document takes is known
from the latest batches, the newer the more; the next one has as many as there is time for.  Who
makes the batches in another process reads the number in a file.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

FEWEST = 250
"""Documents that are always taken together: fewer would cost more than they save."""

_NEWER = 0.5  # the weight of the newest batch

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Sizing:
    """The size of the next batch: `seconds` are aimed at, `most` is the largest ever.

    What was not measured yet is taken to be fast: the first batch is as large as they get.  With
    Spark only the sink's time is learnt, not that of tasks and triggers.
    """

    seconds: float
    most: int
    each: float | None = None  # seconds for a document

    @property
    def documents(self) -> int:
        """The documents after which a batch is closed."""
        if self.each is None:
            return self.most
        return max(min(FEWEST, self.most), min(self.most, round(self.seconds / self.each)))

    def learn(self, documents: int, seconds: float) -> None:
        """Take note of how long a batch took; a small one says nothing about large ones."""
        if documents < min(FEWEST, self.most) or seconds <= 0:
            return
        each = seconds / documents
        self.each = each if self.each is None else self.each + _NEWER * (each - self.each)


def leave(documents: int, path: Path) -> None:
    """Let whoever reads a file know how many documents there is time for.

    If it cannot be written the log is told: without it, batches only have another size.
    """
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(str(documents), "ascii")
        temporary.replace(path)
    except OSError as error:
        _log.warning("how many documents there is time for cannot be left in a file: %s", error)


def left(path: Path) -> int | None:
    """Return how many documents a file says that there is time for, None if nobody has said."""
    try:
        return int(path.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None
