"""The join state of a storage.

The storage is the source of truth; the state in memory is read from it on first use, and after a
rollback.  The caller owns the storage and its transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from templates.columns import (
    Column,
    Columns,
    InternedValues,
    among,
    chosen,
    columns_of,
    distinct,
    with_valued,
)
from templates.model.join_graph import INFINITE
from templates.model.relations import Witnesses
from templates.registry import Registry
from templates.state.join_state import SHARE, Expiry, JoinState
from templates.storage import Storage, scan

if TYPE_CHECKING:
    from templates.text.text_index import TextIndexes


class Newest(NamedTuple):
    """The largest number and the largest time, in ticks, of the documents that were stored."""

    number: int
    time: int


class StoredState:
    """The join state of one storage.

    `budget` bounds the bytes in memory; None: no bound.
    """

    def __init__(self, storage: Storage, registry: Registry, budget: int | None) -> None:
        self.storage = storage
        self._registry = registry
        self._budget = budget
        self._added = 0  # rows added since the last call of `evict`
        self._uncounted = 0  # rows added since `Expiry` counted all rows
        # the texts of the batch by key; empty if no row of R_T compares texts
        self._batch_texts: dict[int, str] = {}
        self._memory: JoinState | None = None
        self._texts: TextIndexes | None = None
        self.reload()

    def reload(self) -> None:
        """Drop the state in memory after a rollback; the next use reads it from the storage."""
        self._values = InternedValues(self.storage)
        self.__dict__.pop("newest", None)
        self._drop_rows()

    def _drop_rows(self) -> None:
        self._memory = self._texts = None
        self._expiry: Expiry | None = None  # None: made on next use

    @property
    def memory(self) -> JoinState:
        """The state in memory, read from the storage on first use."""
        if self._memory is None:
            self._memory = JoinState(self.storage, self._budget)
        return self._memory

    @cached_property
    def newest(self) -> Newest:
        """The largest number and time of the documents that have been kept."""
        kept = columns_of(scan(self.storage, "times", ("doc", "ts")))
        return Newest(int(kept["doc"].max(initial=0)), int(kept["ts"].max(initial=-INFINITE)))

    @property
    def nbytes(self) -> int:
        """The bytes in memory, those of the indexes of texts among them; thread-safe."""
        loaded, texts = self._memory, self._texts  # another thread may drop them meanwhile
        rows = 0 if loaded is None else loaded.nbytes
        return rows + (0 if texts is None else texts.nbytes)

    @property
    def texts(self) -> TextIndexes:
        """The indexes of texts, made from the storage on first use."""
        if self._texts is None:
            # imported on demand, since few queries compare texts
            from templates.text.text_index import TextIndexes

            edges = self._registry.texts
            assert edges is not None
            self._texts = TextIndexes(self.storage, edges.of_role)
        return self._texts

    def text(self, key: int) -> str:
        """Return a text of the batch by its key; only known if some row of R_T compares texts."""
        return self._batch_texts[key]

    # -- Adding ----------------------------------------------------------------------------

    def intern(self, witnesses: Witnesses) -> tuple[pa.Table, Column]:
        """Begin a batch; return its bindings with keys, and a mask of those whose value another
        document has, stored or in the batch.

        A binding without a value has a null key.
        """
        if self._memory is not None:
            self._memory.trim(0 if self._texts is None else self._texts.nbytes)
        values, bindings = witnesses.values, witnesses.bindings
        texts = values["strVal"].to_pylist()
        interned = self._values.intern(texts)
        if self._registry.texts is not None:
            self._batch_texts = dict(zip(interned.keys.tolist(), texts, strict=True))
        rows = bindings["value"]
        shared = interned.known | (values["docs"].to_numpy() > 1)
        if rows.null_count:
            rows = rows.combine_chunks()
            keys = pa.array(interned.keys).take(rows)
            met = pa.array(shared).take(rows).fill_null(False).to_numpy(zero_copy_only=False)
        else:  # the same for rows without nulls: it saves a fifth of a small push
            at = rows.to_numpy()
            keys, met = pa.array(interned.keys[at]), shared[at]
        place = bindings.column_names.index("value")  # instead of `drop_columns`, which takes 12 µs
        return bindings.set_column(place, "key", keys), met

    def add(
        self, bindings: pa.Table, times: pa.Table, columns: Columns, documents: Columns
    ) -> Column:
        """Add the bindings of a batch to the join state (Algorithm 2), without those that only
        templates of one side read.

        `columns` are those of the bindings (`with_valued`), `documents` those of the times.  Return
        the numbers of the documents that have bindings in the state, ascending.
        """
        kept = self._registry.retention.keeps[columns["pair"]] >= 0
        if not kept.all():
            bindings, columns = bindings.filter(pa.array(kept)), chosen(columns, kept)
        if not bindings.num_rows:
            return columns["doc"]
        present = among(documents["doc"], distinct(columns["doc"]))
        if not present.all():
            times, documents = times.filter(pa.array(present)), chosen(documents, present)
        times = times.remove_column(times.column_names.index("first"))
        docs = documents["doc"]
        known = self._known(docs)
        if self._memory is not None:
            self._memory.bring(known)
            self._memory.add(columns, documents)
        self.storage.append("binding", bindings)
        if self._texts is not None:
            self._texts.add(columns["pair"], columns["key"], self._batch_texts)
        self._added += bindings.num_rows
        new = times.filter(pa.array(~np.isin(docs, known))) if len(known) else times
        self.storage.append("times", new)
        number, time = int(docs.max()), int(documents["ts"].max())
        self.newest = Newest(max(self.newest.number, number), max(self.newest.time, time))
        return docs

    def replace(self, witnesses: Witnesses) -> None:
        """Replace the bindings of earlier documents by `witnesses`.

        These are complete for each document and pair of variables in them.
        """
        bindings, _ = self.intern(witnesses)
        self.storage.discard("binding", bindings.select(["doc", "pair"]))
        self._drop_rows()  # memory can add rows, not replace them
        times = witnesses.times
        self.add(bindings, times, with_valued(bindings), columns_of(times))

    def _known(self, docs: Column) -> Column:
        """Return those of the documents that are kept already.

        Among them may be a composite that an earlier round of this push made on another stream.
        """
        if docs.min() > self.newest.number:
            return docs[:0]
        if self._memory is not None and self._memory.whole:
            return docs[self._memory.has_documents(docs)]
        kept = scan(self.storage, "times", ("doc",), docs=docs)
        return docs[np.isin(docs, kept["doc"].to_numpy())]

    # -- Forgetting ------------------------------------------------------------------------

    def evict(self, clock: int) -> bool:
        """Evict the state that no document arriving from `clock` on can join.

        Return True if any was evicted.  Nothing happens until `Expiry` says that a deletion pays.
        """
        keeps = self._registry.retention.keeps
        added, self._added = self._added, 0
        self._uncounted += added
        changed = self._registry.retention.take_changed()
        if changed or self._expiry is None or SHARE * self._uncounted > self._expiry.kept:
            self._expiry, self._uncounted = self._expiry_of(keeps), 0
        if not self._expiry.due(clock, added):
            return False
        times_of = self._times()

        def stays(rows: pa.Table) -> Column:
            keep = keeps[rows["pair"].to_numpy()]
            alive: Column = (keep >= 0) & (times_of(rows["doc"].to_numpy()) >= clock - keep)
            return alive

        gone: bool = self.storage.keep("binding", stays).num_rows > 0
        self.memory.forget(keeps, clock)
        self._expiry = None
        if gone:
            self._sweep()
        return gone

    def _times(self) -> Callable[[Column], Column]:
        """Return a function from documents to their times in ticks; -INFINITE for unknown ones."""
        kept = columns_of(scan(self.storage, "times", ("doc", "ts")))
        kept = chosen(kept, np.argsort(kept["doc"], kind="stable"))
        docs, times = np.append(kept["doc"], INFINITE), np.append(kept["ts"], -INFINITE)

        def of(asked: Column) -> Column:
            at = np.searchsorted(docs, asked)
            return np.where(docs[at] == asked, times[at], -INFINITE)

        return of

    def _expiry_of(self, keeps: Column) -> Expiry:
        """Return the expiry of the stored rows; `keeps` is the retention by pair, in ticks."""
        if self.memory.whole:
            pairs, times = self.memory.ages()
        else:
            rows = columns_of(scan(self.storage, "binding", ("doc", "pair")))
            pairs, times = rows["pair"], self._times()(rows["doc"])
        return Expiry(keeps[pairs], times)

    def forget_pairs(self, pairs: Sequence[int]) -> None:
        """Delete the witnesses of unused pairs."""
        if pairs:
            self.storage.discard("binding", pa.table({"pair": pairs}))
            if self._memory is not None:
                self._memory.forget(self._registry.retention.keeps, -INFINITE)
            self._expiry = None
            self._sweep()

    def _sweep(self) -> None:
        """Delete the times and the texts without a binding."""
        if self.memory.whole:
            docs, keys = self.memory.documents(), self.memory.values()
        else:
            rows = scan(self.storage, "binding", ("doc", "key"))
            docs = distinct(rows["doc"].to_numpy())
            keys = distinct(rows["key"].drop_null().to_numpy())
        self.storage.keep("times", lambda rows: among(rows["doc"].to_numpy(), docs))
        self._values.sweep(keys)
        if self._texts is not None:
            self._texts.evict()
