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
from xscl.shredding.arrivals import Arrivals, shred
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.automaton.pattern import form_of
from xscl.store.queries.past import kept_rows
from xscl.store.queries.witnesses import last_nodes
from xscl.store.store import Store

BATCH = 1_000


def witnesses(
    store: Store, pairs: Iterable[Pair], *documents: npt.NDArray[np.int64]
) -> Iterator[Witnesses]:
    """Yield the witnesses of kept documents for pairs of variables, in batches.

    They replace the kept ones for the same pairs.  No batch has documents of several arguments.
    """
    automaton, pairs = Automaton(), list(pairs)
    automaton.install(pairs)  # one may be named twice
    numbers = [pair.number for pair in pairs]
    derived = [p.number for p in pairs if form_of(p.second).derived is not None]
    every = np.concatenate(documents)
    last = last_nodes(store, every, apart_from=numbers) if derived else {}
    for docs in documents:
        for start in range(0, len(docs), BATCH):
            rows = kept_rows(store, docs[start : start + BATCH])
            if len(rows):
                made = shred(automaton, Arrivals.of(rows))
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
