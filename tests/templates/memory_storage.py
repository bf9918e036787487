"""The relations of stage 2 in memory, for joins without a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from templates.storage import KEYS, RELATIONS, Mask, Numbers, codes_of

MANY = 64
"""Appends after which a relation in memory is copied to one piece."""


class MemoryStorage:
    """Keeps the relations in memory, as Arrow tables, which are replaced and never changed."""

    def __init__(self) -> None:
        self.relations = {name: schema.empty_table() for name, schema in RELATIONS.items()}

    def append(self, relation: str, rows: pa.Table) -> None:
        """Append rows, which have the schema of the relation."""
        table = pa.concat_tables([self.relations[relation], rows])
        several = table.column(0).num_chunks > MANY
        self.relations[relation] = table.combine_chunks() if several else table

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield some columns, or all, of the rows in the order of appends."""
        table = self.relations[relation]
        yield table.select(columns) if columns else table

    def discard(self, relation: str, rows: pa.Table) -> None:
        """Delete the rows that are equal to one of `rows` in all its columns, which are numbers."""
        table = self.relations[relation]
        here, gone = codes_of(table.select(rows.column_names)), codes_of(rows)
        self.relations[relation] = table.filter(pa.array(~np.isin(here, gone)))

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Delete the rows that need not stay, and return those that were deleted."""
        table = self.relations[relation]
        stay = stays(table)
        self.relations[relation] = table.filter(pa.array(stay))
        return table.select(KEYS[relation]).filter(pa.array(~stay))
