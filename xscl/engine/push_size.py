"""How many documents one transaction takes.

A push is split at document boundaries, so that what one transaction finds fits in memory: an
arriving document may have thousands of results with every join.  How many a document has is known
from those before it.  The size grows slowly, and shrinks at once.

Where a join reads what other joins of the same push find, the bound of results is exact only if
documents are pushed one by one (`operators.joins.Interleaved`).  That is found out on the way; from
then on documents are pushed singly for a while.
"""

from __future__ import annotations

from dataclasses import dataclass

AIM = 100_000
"""Results of joins that a transaction should find at most."""
FIRST, MOST = 2_048, 65_536
GROWTH = 4
SINGLY = 10_000
"""Documents that are pushed one by one after a push that had to be undone."""


@dataclass(slots=True)
class PushSize:
    """The size of the next transaction; owned by whoever has the engine's lock."""

    size: int = FIRST
    singly: int = 0

    @property
    def documents(self) -> int:
        """How many documents the next transaction takes at most."""
        return 1 if self.singly else self.size

    def learn(self, documents: int, results: int) -> None:
        """Note how many results the documents of a transaction had."""
        self.singly = max(0, self.singly - documents)
        if not documents:
            return
        fitting = max(1, AIM * documents // max(1, results))
        grown = max(self.size, min(GROWTH * documents, MOST))  # few documents say little of many
        self.size = min(fitting, grown)

    def undo(self) -> None:
        """Note that a transaction was undone, as its documents have to be pushed one by one."""
        self.singly = SINGLY
