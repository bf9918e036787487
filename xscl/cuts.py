"""Cut results: which documents have more results with a join than the bound lets stay.

The bound (`templates.result_bound`) is one of a row of R_T and an arriving document.  Every
subscription that uses the row is shown how many documents it was stopped at, and the latest.  An
operator over time must not read part of what it asks for: `Attributes` gives it no row of a
document that was cut, and its subscription is *incomplete*.

Rows are `state.cut(qid, doc)`, a table that a store has from its first cut on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa

from cep_core.mop import Operator
from templates.result_bound import RESULTS, Cut
from xscl.documents import LEVELS, Stored
from xscl.store import Store

_TABLE = "state.cut"
_CREATE = f"CREATE TABLE IF NOT EXISTS {_TABLE}(qid INTEGER, doc BIGINT)"


class Stopped(NamedTuple):
    """How many documents have more results than stay, and the id of the latest of them.

    `results` is the bound; `incomplete` says that an operator over time lacks their rows.
    """

    documents: int
    latest: str
    results: int
    incomplete: bool


class Cuts:
    """The cut results of an engine; owned by whoever has its lock, like the rest of the plan."""

    def __init__(
        self,
        store: Store,
        documents: Callable[[set[int]], Mapping[int, Stored]],
        bound: int = RESULTS,
    ) -> None:
        self._store = store
        self._documents = documents
        self._bound = bound
        self._docs: defaultdict[int, list[int]] = defaultdict(list)  # by row of R_T, ascending
        self._ranks: defaultdict[int, set[int]] = defaultdict(set)  # in this push: rows by rank
        self._new: list[tuple[int, int]] = []
        self._stored = store.has("cut")
        if self._stored:
            for qid, doc in store.fetch(f"SELECT qid, doc FROM {_TABLE} ORDER BY doc"):
                self._docs[qid].append(doc)

    def __bool__(self) -> bool:
        return bool(self._docs)

    def note(self, cuts: Iterable[Cut]) -> None:
        """Note what stage 2 has cut of the batch that is being joined."""
        for cut in cuts:
            self._ranks[cut.rank].add(cut.qid)
            doc = cut.rank // LEVELS  # what is derived has the rank of its newest document
            docs = self._docs[cut.qid]
            at = bisect_left(docs, doc)
            if at == len(docs) or docs[at] != doc:
                docs.insert(at, doc)
                self._new.append((cut.qid, doc))

    def has(self, rank: int, qids: frozenset[int]) -> bool:
        """Return whether one of some joins was cut at the document of a rank, in this push."""
        return rank in self._ranks and not qids.isdisjoint(self._ranks[rank])

    def save(self) -> None:
        """Write what is new, and end the push."""
        self._ranks.clear()
        if not self._new:
            return
        if not self._stored:
            self._store.connection.execute(_CREATE)
            self._stored = True
        qids, docs = zip(*self._new, strict=True)
        rows = pa.table({"qid": pa.array(qids, pa.int32()), "doc": pa.array(docs, pa.int64())})
        self._store.insert(_TABLE, rows)
        self._new.clear()

    def keep(self, is_there: Callable[[int], bool]) -> None:
        """Delete what was cut of rows of R_T that are gone."""
        gone = [qid for qid in self._docs if not is_there(qid)]
        for qid in gone:
            del self._docs[qid]
        if gone and self._stored:
            listed = ", ".join(map(str, gone))
            self._store.connection.execute(f"DELETE FROM {_TABLE} WHERE qid IN ({listed})")

    def of(self, qids: Iterable[int], since: int, *, ordered: bool) -> Stopped | None:
        """Return where a subscription was stopped, None if it was not.

        `qids` are the rows of R_T that it uses, `since` is its first document; `ordered`: an
        operator over time reads them.
        """
        docs: set[int] = set()
        for qid in qids:
            of_row = self._docs.get(qid, [])
            docs.update(of_row[bisect_left(of_row, since) :])
        if not docs:
            return None
        latest = max(docs)
        known = self._documents({latest}).get(latest)
        name = "" if known is None else known.id  # its identity may be forgotten
        return Stopped(len(docs), name, self._bound, ordered)


def joins_below(operator: Operator) -> frozenset[int]:
    """Return the rows of R_T whose results an operator reads, through whatever lies between."""
    found: set[int] = set()
    below = [operator]
    while below:
        one = below.pop()
        if one.wanted.kind == "template_join":
            found.add(one.wanted.definition.qid)  # type: ignore[attr-defined]
        below.extend(one.wanted.inputs)
    return frozenset(found)
