"""Backfill: what a subscription that begins in the past needs of the kept documents.

For joins with later documents, the witnesses of the kept documents are computed again for the
variables of the new query, and become part of the shared join state.  Other subscriptions receive
nothing new, because the fan-out tests who sees a result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.model.relations import Pair, Witnesses
from xscl.language.parser import parse_block
from xscl.shredding.arrivals import Arrivals, shred
from xscl.shredding.automaton.nfa import Automaton
from xscl.store.store import Store

BATCH = 1_000


def first_after(store: Store, begin: int, following: int) -> int:
    """Return the number of the first document with at least that timestamp."""
    rows = store.fetch("SELECT min(first) FROM state.document WHERE ts >= ?", [begin])
    return following if rows[0][0] is None else int(rows[0][0])


def has_history(store: Store, streams: Sequence[str], first: int) -> bool:
    """Return True if documents from `first` on are from before their feeds were followed."""
    found = store.fetch(
        "SELECT 1 FROM state.document WHERE history AND first >= ? AND list_has_any(streams, ?)"
        " LIMIT 1",
        [first, list(streams)],
    )
    return bool(found)


def witnesses(
    store: Store, pairs: Iterable[Pair], docs: npt.NDArray[np.int64]
) -> Iterator[Witnesses]:
    """Yield the witnesses of kept documents for pairs of variables, in batches.

    They replace the kept ones for the same pairs.
    """
    automaton = Automaton()
    numbers: list[int] = []
    derived: list[int] = []  # pairs whose second variable is
    for pair in pairs:
        one, other = (parse_block(text, short=True) for text in (pair.first, pair.second))
        automaton.add(pair.number, one, other, pair.valued)
        numbers.append(pair.number)
        if other.steps[-1].derived is not None:
            derived.append(pair.number)
    store.lend("chosen", pa.table({"doc": docs}))
    rows = store.connection.execute(
        "SELECT d.doc, d.streams, t.xml, d.ts, d.clock, d.rank, d.base, d.first, b.last"
        " FROM state.document d SEMI JOIN chosen USING (doc) JOIN state.text t USING (doc)"
        " LEFT JOIN (SELECT doc, max(node2) AS last FROM state.binding SEMI JOIN chosen USING (doc)"
        " WHERE ? AND NOT list_contains(?, pair) GROUP BY doc) b USING (doc)"
        " ORDER BY d.doc",
        [bool(derived), numbers],
    )
    while found := rows.fetchmany(BATCH):
        last = {doc: kept for doc, _, _, _, _, _, _, _, kept in found if kept is not None}
        made = shred(
            automaton,
            Arrivals.of(
                (doc, tuple(streams), bytes(xml), ts, clock, rank, base, first)
                for doc, streams, xml, ts, clock, rank, base, first, _ in found
            ),
        )
        yield _behind(made, derived, last) if last else made


def _behind(made: Witnesses, derived: Sequence[int], last: Mapping[int, int]) -> Witnesses:
    """Return witnesses with derived nodes numbered after all kept nodes of their documents.

    Stage 1 numbers them after those of the document, in the order of demand; pairs that were
    installed earlier have these numbers already.
    """
    bindings = made.bindings
    docs = bindings["doc"].to_pylist()
    more = np.array([last.get(doc, -1) + 1 for doc in docs], np.int32)
    more *= np.isin(bindings["pair"].to_numpy(), derived)
    first, second = (bindings[name].to_numpy() for name in ("node1", "node2"))
    moved = {"node1": np.where(first == second, first + more, first), "node2": second + more}
    for name, column in moved.items():
        at = bindings.schema.get_field_index(name)
        bindings = bindings.set_column(at, bindings.schema.field(at), pa.array(column))
    return replace(made, bindings=bindings)
