"""The join state: `state.binding` and `state.times`, and as much of them in memory as fits.

The database is the source of truth; the view cache is read from it on first use, and after a
rollback.  The caller owns the connection and the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

from templates.columns.arrow_tables import Lender, written_order
from templates.columns.columns import Column, among, columns_of, distinct
from templates.columns.values import Values
from templates.model.relations import INFINITE, Witnesses
from templates.registry.registry import Registry
from templates.state.join_state import Expiry, ViewCache

if TYPE_CHECKING:
    from templates.text.text_index import TextIndexes


class StoredState:
    """The join state of one connection.

    `budget` bounds the bytes in memory; None: no bound.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        lender: Lender,
        registry: Registry,
        budget: int | None,
    ) -> None:
        self.connection = connection
        self._lender = lender
        self._registry = registry
        self._budget = budget
        self._values = Values(connection, lender)
        self._memory: ViewCache | None = None
        self._texts: TextIndexes | None = None
        self._batch_texts: dict[int, str] = {}  # by key, if some row of R_T compares texts
        self._added = 0  # rows since the last call of `evict`
        self._expiry: Expiry | None = None  # made when it is next asked for
        connection.execute("RESET disabled_optimizers")  # which a failure may have left set
        ((newest,),) = connection.execute("SELECT max(doc) FROM state.times").fetchall()
        self._newest: int = newest or 0  # whose times are kept, by its number

    @property
    def memory(self) -> ViewCache:
        """The state in memory, read from the database on first use."""
        if self._memory is None:
            self._memory = ViewCache(self.connection, self._lender, self._budget)
        return self._memory

    @property
    def nbytes(self) -> int:
        """The bytes in memory, those of the indexes of texts among them; thread-safe."""
        loaded, texts = self._memory, self._texts  # another thread may drop them meanwhile
        rows = 0 if loaded is None else loaded.nbytes
        return rows + (0 if texts is None else texts.nbytes)

    def reload(self) -> None:
        """Drop the state in memory after a rollback; the next use reads it again."""
        self._memory = self._texts = None

    @property
    def texts(self) -> TextIndexes:
        """The indexes of texts, made from the database on first use."""
        if self._texts is None:
            from templates.text.text_index import TextIndexes  # few queries compare texts

            edges = self._registry.texts
            assert edges is not None
            self._texts = TextIndexes(self.connection, edges.of_role)
        return self._texts

    def text(self, key: int) -> str:
        """Return a text of the batch, if some row of R_T compares texts."""
        return self._batch_texts[key]

    # -- Adding ----------------------------------------------------------------------------

    def intern(self, witnesses: Witnesses) -> tuple[pa.Table, Column]:
        """Begin a batch; return its bindings with keys, and a mask of those with a known value.

        Bindings without a value have none.
        """
        if self._memory is not None:
            self._memory.trim(0 if self._texts is None else self._texts.nbytes)
        values, bindings = witnesses.values, witnesses.bindings
        texts = values["strVal"].to_pylist()
        interned = self._values.intern(texts)
        if self._registry.texts is not None:
            self._batch_texts = dict(zip(interned.keys.tolist(), texts, strict=True))
        rows = bindings["value"].combine_chunks()
        keys = pa.array(interned.keys, pa.uint64()).take(rows)
        shared = pa.array(interned.known | (values["docs"].to_numpy() > 1))
        met = shared.take(rows).fill_null(False).to_numpy(zero_copy_only=False)
        return bindings.drop_columns("value").append_column("key", keys), met

    def add(self, bindings: pa.Table, times: pa.Table) -> None:
        """Maintain the join state (Algorithm 2); witnesses of filters need not be kept."""
        kept = self._registry.retention.kept(bindings["pair"].to_numpy())
        if not kept.all():
            bindings = bindings.filter(pa.array(kept))
        if bindings.num_rows:
            present = among(times["doc"].to_numpy(), distinct(bindings["doc"].to_numpy()))
            if not present.all():
                times = times.filter(pa.array(present))
            times = times.drop_columns("first")
            docs = times["doc"].to_numpy()
            known = self._known(docs)
            if self._memory is not None:
                self._memory.bring(known)
                self._memory.add(bindings, times)
            self._lender.insert("state.binding", bindings)
            if self._texts is not None:
                columns = columns_of(bindings)
                self._texts.add(columns["pair"], columns["key"], columns["doc"], self._batch_texts)
            self._added += bindings.num_rows
            new = times.filter(pa.array(~np.isin(docs, known))) if len(known) else times
            self._lender.insert("state.times", new)
            self._newest = max(self._newest, int(docs.max()))
            if self._expiry is not None:
                keeps = self._registry.retention.keeps[bindings["pair"].to_numpy()]
                self._expiry.note(keeps, int(times["ts"].to_numpy().max()))

    def replace(self, witnesses: Witnesses) -> None:
        """Replace the bindings of earlier documents.

        They are complete for the pairs of variables and the documents that they have.
        """
        bindings, _ = self.intern(witnesses)
        self._lender.lend("batch_binding", bindings)
        self.connection.execute(
            "DELETE FROM state.binding b USING batch_binding w"
            " WHERE (b.doc, b.pair) = (w.doc, w.pair)"
        )
        # These have only rows that are added.
        self._memory = self._expiry = self._texts = None
        self.add(bindings, witnesses.times)

    def _known(self, docs: Column) -> Column:
        """Return those of the documents that are kept already.

        These include a composite of an earlier round of the push, on another stream.
        """
        if docs.min() > self._newest:
            return docs[:0]
        listed = self._lender.among(docs)
        known = self.connection.sql(f"SELECT doc FROM state.times WHERE doc IN ({listed})")
        found: Column = known.to_arrow_table()["doc"].to_numpy()
        return found

    # -- Forgetting ------------------------------------------------------------------------

    def evict(self, clock: int) -> bool:
        """Evict the state that no document arriving from `clock` on can join.

        Return True if any was evicted.  Nothing happens until `Expiry` says that a deletion pays.
        """
        keeps = self._registry.retention.keeps
        if self._registry.retention.take_changed() or self._expiry is None:
            self._expiry = self._expiry_of(keeps)
        added, self._added = self._added, 0
        if not self._expiry.due(clock, added):
            return False
        finite = np.flatnonzero((keeps >= 0) & (keeps < INFINITE))
        bounds = pa.table({"pair": finite, "bound": clock - keeps[finite]})
        self._lender.lend("bounds", bounds.cast(_BOUNDS))
        with written_order(self.connection):  # else documents and pairs are joined by time
            ((deleted,),) = self.connection.execute(_FORGET).fetchall()
        if self._memory is not None:
            self._memory.forget(keeps, clock)
        self._expiry = None
        if deleted:
            self._sweep()
        return bool(deleted)

    def _expiry_of(self, keeps: Column) -> Expiry:
        """Return the counts of expiry of the kept rows."""
        if self._memory is not None and self._memory.whole:
            pairs, times = self._memory.ages()
        else:
            found = self.connection.execute(
                "SELECT pair, ts FROM state.binding JOIN state.times USING (doc)"
            ).fetchnumpy()
            pairs, times = np.asarray(found["pair"]), np.asarray(found["ts"])
        return Expiry.of(keeps[pairs], times)

    def forget_pairs(self, pairs: Sequence[int]) -> None:
        """Delete the witnesses of unused pairs."""
        if pairs:
            listed = ", ".join(str(int(pair)) for pair in pairs)
            self.connection.execute(f"DELETE FROM state.binding WHERE pair IN ({listed})")
            if self._memory is not None:
                self._memory.forget(self._registry.retention.keeps, -INFINITE)
            self._expiry = None
            self._sweep()

    def _sweep(self) -> None:
        """Delete the times and the texts without a binding."""
        self.connection.execute(
            "DELETE FROM state.times WHERE doc NOT IN (SELECT DISTINCT doc FROM state.binding)"
        )
        self._values.sweep()
        if self._texts is not None:
            self._texts.evict()


_FORGET = """
DELETE FROM state.binding WHERE (doc, pair) IN (
    SELECT b.doc, b.pair FROM state.binding b JOIN state.times t ON t.doc = b.doc
    JOIN bounds ON bounds.pair = b.pair WHERE t.ts < bounds.bound)
"""
"""Not by `rowid`, in which DuckDB reads wrong rows (decision 030)."""
_BOUNDS = pa.schema([("pair", pa.int32()), ("bound", pa.int64())])
