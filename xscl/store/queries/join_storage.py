"""The relations of stage 2: the join state, and the registry of joins with the rows of all R_T."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from templates.registry import UNDESIGNATED
from templates.storage import KEYS, RELATIONS, Mask, Numbers, codes_of
from xscl.store.queries.tables import named
from xscl.store.store import Store


class JoinStorage:
    """The durable data of stage 2: the join state in chunks, the registry in rows.

    It is a `templates.storage.Storage`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows, which have the schema of the relation."""
        if relation in KEYS:
            self._store.append(relation, rows)
        else:
            self._store.insert(relation, rows.to_pydict())

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns, or all, of the rows in the order of appends.

        With `docs` only the rows of these documents, for relations of the join state.
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
            )
            return
        where = " AND ".join(f"{name} = ?" for name in rows.column_names)
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        self._store.execute_many(f"DELETE FROM state.{relation} WHERE {where}", values)

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Delete the rows for whose keys `stays` is False; return the keys of deleted rows."""
        gone = [RELATIONS[relation].empty_table().select(KEYS[relation])]

        def dead(batch: pa.RecordBatch) -> pa.Array:
            rows = pa.Table.from_batches([batch.select(KEYS[relation])])
            mask = pa.array(~stays(rows))
            gone.append(rows.filter(mask))
            return mask

        self._store.drop(relation, dead=dead)
        return pa.concat_tables(gone)


def designated_rows(store: Store) -> list[int]:
    """Return the numbers (`qid`) of the rows of R_T that have a designated equality."""
    rows = store.fetch("SELECT qid FROM state.r_t WHERE lead <> ? ORDER BY qid", [UNDESIGNATED])
    return [qid for (qid,) in rows]
