"""Adaptive batch size: documents that fit in the target time (docs/decisions/spool.md).

A batch has fixed costs, so large batches are cheaper.  But the first document of a batch waits for
its last, and so do requests that need the engine.  The time of a document is an exponential average
over the latest batches; the next batch has as many documents as fit in the target time.
"""

from __future__ import annotations

from dataclasses import dataclass

FEWEST = 250
"""Documents that are always taken together: fewer would cost more than they save."""

_NEWER = 0.5  # the weight of the newest batch in the average


@dataclass(slots=True)
class BatchSize:
    """Decides the number of documents of the next batch.

    `seconds` is the target time of a batch, `each` the expected seconds for one document, `most`
    and `fewest` are bounds of the number.  While `each` is None, a batch has `most` documents.
    """

    seconds: float
    most: int
    each: float | None = None
    fewest: int = FEWEST

    @property
    def documents(self) -> int:
        """The number of documents at which the next batch is full."""
        if self.each is None:
            return self.most
        return max(min(self.fewest, self.most), min(self.most, round(self.seconds / self.each)))

    def learn(self, documents: int, seconds: float) -> None:
        """Update `each` from the number of documents of a batch and its seconds.

        A batch of fewer than `fewest` is ignored: it predicts nothing about large ones.
        """
        if documents < min(self.fewest, self.most) or seconds <= 0:
            return
        each = seconds / documents
        self.each = each if self.each is None else self.each + _NEWER * (each - self.each)
