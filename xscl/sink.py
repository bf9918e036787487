"""The engine as a consumer's sink: batches in, matches to whoever listens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from feeds.documents import Document
from xscl.engine import Engine
from xscl.matches import Matches


def _ignore(matches: Matches) -> None:
    """Nobody listens; the matches are kept in the store all the same."""


@dataclass(frozen=True, slots=True)
class EngineSink:
    """Pushes batches under their key in the ledger, and passes on the matches after the commit."""

    engine: Engine
    on_matches: Callable[[Matches], None] = _ignore

    def consume(self, documents: list[Document], query_id: str, batch_id: int) -> None:
        """Take a batch in; one that the ledger has changes nothing and matches nothing."""
        self.on_matches(self.engine.push(documents, source=(query_id, batch_id)))

    def consumed(self, query_id: str) -> int | None:
        """Return the last batch in the ledger under a query id."""
        return self.engine.consumed(query_id)
