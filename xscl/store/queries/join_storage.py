"""The relations of stage 2: the join state, and the registry of joins with the rows of all R_T."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from templates.storage import KEYS, RELATIONS, Mask, Numbers, Storage, codes_of, scan
from xscl.store.lent_tables import named
from xscl.store.sqlite_store import SqliteStore
from xscl.store.store import Store

PART = 1 << 18
"""Rows that are read at a time."""


def join_storage(store: Store) -> Storage:
    """Return what stage 2 keeps in a store."""
    return ChunkedJoinStorage(store) if isinstance(store, SqliteStore) else JoinStorage(store)


class ChunkedJoinStorage:
    """What stage 2 keeps in a store in SQLite: the join state in chunks, the registry in rows."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows, which have the schema of the relation."""
        self._store.insert(f"state.{relation}", rows)

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns, or all, of the rows in the order of appends.

        Rows of other documents than `docs` are missing.
        """
        schema = RELATIONS[relation]
        names = list(columns or schema.names)
        if relation not in KEYS:
            yield self._store.arrow(f"SELECT {named(names)} FROM state.{relation} ORDER BY rowid")
            return
        bounds = () if docs is None or not len(docs) else (int(docs.min()), int(docs.max()))
        found = self._store.scan(relation, *bounds)
        if docs is not None:
            found = found.filter(pa.array(np.isin(found["doc"].to_numpy(), docs)))
        yield found.select(names).cast(pa.schema([schema.field(name) for name in names]))

    def discard(self, relation: str, rows: pa.Table) -> None:
        """Delete the rows that are equal to one of `rows` in all its columns."""
        if not rows.num_rows:
            return
        if relation in KEYS:
            gone = codes_of(rows)
            self._store.drop(
                relation,
                dead=lambda batch: pa.array(
                    np.isin(
                        codes_of(pa.Table.from_batches([batch.select(rows.column_names)])), gone
                    )
                ),
                exact=True,
            )
            return
        where = " AND ".join(f"{name} = ?" for name in rows.column_names)
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        self._store.execute_many(f"DELETE FROM state.{relation} WHERE {where}", values)

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Delete rows that need not stay, and return those that were deleted: their keys."""
        gone = [RELATIONS[relation].empty_table().select(KEYS[relation])]

        def dead(batch: pa.RecordBatch) -> pa.Array:
            rows = pa.Table.from_batches([batch.select(KEYS[relation])])
            mask = pa.array(~stays(rows))
            gone.append(rows.filter(mask))
            return mask

        self._store.drop(relation, dead=dead, exact=True)
        return pa.concat_tables(gone)


class JoinStorage:
    """What stage 2 keeps in a store: see `templates.storage.Storage`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows, which have the schema of the relation."""
        self._store.append(f"state.{relation}", rows)

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns, or all, of the rows in the order of appends, in parts.

        Nothing else may use the store meanwhile.  Rows of other documents than `docs` are missing.
        """
        store, schema = self._store, RELATIONS[relation]
        names = columns or schema.names
        chosen = pa.schema([schema.field(name) for name in names])
        of = "" if docs is None else f" WHERE doc IN ({store.lender.among(docs)})"
        with store.translate_errors():
            query = f"SELECT {named(names)} FROM state.{relation}{of}"
            for batch in store.connection.sql(query).to_arrow_reader(PART):
                yield pa.Table.from_batches([batch]).cast(chosen)

    def discard(self, relation: str, rows: pa.Table) -> None:
        """Delete the rows that are equal to one of `rows` in all its columns."""
        if not rows.num_rows:
            return
        store, names = self._store, rows.column_names
        if len(names) == 1:
            listed = store.lender.among(rows.column(0).to_numpy())
        else:
            store.lend(f"gone_{relation}", rows)
            listed = f"SELECT {named(names)} FROM gone_{relation}"
        store.fetch(f"DELETE FROM state.{relation} WHERE ({named(names)}) IN ({listed})")

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Delete the rows that need not stay, and return those that were deleted: their keys."""
        gone = scan(self, relation, KEYS[relation], where=lambda rows: ~stays(rows))
        self.discard(relation, gone)
        return gone
