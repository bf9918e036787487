"""Cut results: which documents have more results with a join than the bound, and so none.

The bound (`templates.model.result_bound`) is one of a row of R_T and an arriving document.  Every
subscription that uses the row is shown how many documents it was stopped at, and the latest.  An
operator over time must not read part of what it asks for: `Attributes` gives it no row of a
document with which a join below was cut, and its subscription is *incomplete*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from cep_core.plan import Operator
from templates.model.result_bound import RESULTS, Cut
from xscl.documents.document_ids import StoredDocument
from xscl.store.queries.results import delete_cuts
from xscl.store.queries.rows import rows_of
from xscl.store.queries.tables import LEVELS
from xscl.store.store import Store

KEPT = 1_000
"""Cut documents of a row of R_T that are stored at least: the latest ones."""


class Truncation(NamedTuple):
    """The number of recent documents with too many results for a subscription, and the last id.

    `results` is the bound; `incomplete` is True if a temporal operator lacks their rows.
    """

    documents: int
    latest: str
    results: int
    incomplete: bool


class Cuts:
    """The documents that were cut: those with too many results, by row of R_T.

    They are changed under the engine's lock; `of` and `ids_of` may be called without it.
    """

    def __init__(
        self,
        store: Store,
        documents: Callable[[set[int]], Mapping[int, StoredDocument]],
        bound: int = RESULTS,
    ) -> None:
        self._store = store
        self._documents = documents
        self._bound = bound
        self._ids: dict[int, dict[int, str]] = {}  # by qid: ids of cut documents by their numbers
        self.pending: defaultdict[int, set[int]] = defaultdict(set)  # qids of cuts by rank
        for row in rows_of(store, "cut", order="doc"):
            self._ids.setdefault(row["qid"], {})[row["doc"]] = row["id"]

    def note(self, cuts: Iterable[Cut]) -> None:
        """Add cuts that stage 2 has made to those that the next `save` writes."""
        for cut in cuts:
            self.pending[cut.rank].add(cut.qid)

    def adopt(self, qid: int, doc: int) -> None:
        """Record that a trial has cut a document (its number in this engine) for a row of R_T."""
        self.pending[doc * LEVELS].add(qid)

    def ids_of(self, qids: Iterable[int]) -> set[str]:
        """Return the ids of the documents that were cut for any of some rows of R_T."""
        return {name for qid in qids for name in self._ids.get(qid, {}).values()}

    def save(self) -> None:
        """Write to the store the documents that were cut since the last call."""
        # `rank // LEVELS` is a document's number, or the number of a derived one's newest part.
        found = sorted(
            {(rank // LEVELS, qid) for rank, qids in self.pending.items() for qid in qids}
        )
        self.pending.clear()
        stored = self._documents({doc for doc, _ in found})
        new = [
            (qid, doc, stored[doc].id if doc in stored else "")
            for doc, qid in found
            if doc not in self._ids.get(qid, ())
        ]
        if not new:
            return
        self._store.insert_rows("cut", [{"qid": q, "doc": doc, "id": name} for q, doc, name in new])
        for qid in {qid for qid, _, _ in new}:
            ids = {**self._ids.get(qid, {}), **{doc: name for q, doc, name in new if q == qid}}
            if len(ids) > 2 * KEPT:
                ids = dict(sorted(ids.items())[-KEPT:])
                delete_cuts(self._store, [qid], before=min(ids))
            self._ids[qid] = ids

    def keep(self, is_there: Callable[[int], bool]) -> None:
        """Forget and delete the documents that were cut for rows of R_T that are gone."""
        gone = [qid for qid in self._ids if not is_there(qid)]
        for qid in gone:
            del self._ids[qid]
        if gone:
            delete_cuts(self._store, gone)

    def of(self, qids: Iterable[int], since: int, *, ordered: bool) -> Truncation | None:
        """Return the count of documents cut for a subscription, and the last one; None without any.

        `qids` are the rows of R_T that it uses, `since` is the number of its first document;
        `ordered`: an operator over time reads them.
        """
        docs: dict[int, str] = {}
        for qid in qids:
            docs.update({at: one for at, one in self._ids.get(qid, {}).items() if at >= since})
        return Truncation(len(docs), docs[max(docs)], self._bound, ordered) if docs else None


def joins_below(operator: Operator) -> frozenset[int]:
    """Return the rows of R_T whose results an operator reads, through whatever lies between."""
    joins = (one.wanted for one in operator.below() if one.wanted.kind == "template_join")
    return frozenset(wanted.definition.qid for wanted in joins)  # type: ignore[attr-defined]
