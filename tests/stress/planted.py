"""The service with a fault of the first release, which the stress program has to find.

There the consumer's thread read each match through the engine's own connection, after the lock of
the engine was released.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from xscl.cli import main
from xscl.documents.composite_events import Composite
from xscl.documents.document_log import StoredDocument
from xscl.documents.results import Results
from xscl.engine.match_log import MatchLog
from xscl.server.serve import Service
from xscl.subscriptions.match import MatchSource
from xscl.subscriptions.matches import Matches

_notify = Service._notify


def _expand(log: MatchLog, rows: pa.Table) -> Matches:
    """Return matches that are read through the engine's connection."""

    transactions = log._transactions
    state = transactions.state

    def read(numbers: set[int]) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        parts = state.composites.of(numbers)
        sources = {doc for part in parts.values() for doc in part.sources}
        return parts, state.documents.stored(sources)

    by_qid = state.subscriptions.by_qid
    qids = pc.unique(rows["qid"]).to_pylist()
    subscribers = {qid: by_qid[qid] for qid in qids if qid in by_qid}
    return Matches(
        Results(rows, subscribers, read),
        subscribers,
        MatchSource(transactions.compiled, state.documents.tree),
    )


def _read_and_notify(service: Service, matches: Matches) -> None:
    """Read each match in the consumer's thread, as it was printed there."""
    for match in matches:
        match.xml()
    _notify(service, matches)


def plant() -> None:
    """Replace the parts of the product."""
    MatchLog.expand = _expand  # type: ignore[assignment, method-assign]  # the planted defect
    Service._notify = _read_and_notify  # type: ignore[assignment, method-assign]  # the planted defect


if __name__ == "__main__":
    plant()
    main()
