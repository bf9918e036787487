"""Stage 2 for a batch that meets few rows: they are read, and joined in memory.

What is read of the database are the kept bindings with the batch's values, and
R_T of the templates that can fire, once for as long as it does not change.
`templates.inmemory` joins them.
"""

from __future__ import annotations

import duckdb
import numpy as np

from templates.columns import Column, Columns, Index, TooManyRows
from templates.inmemory import Registered, answers, several
from templates.lending import Lender
from templates.members import Members
from templates.registry import Registry, r_t

FEW_VALUES = 64
"""Values of a batch up to which what is kept with them is read."""
FEW_ROWS = 4096
"""Kept rows, and value joins, up to which a batch is joined in memory."""
MANY_BINDINGS = 50_000
"""Bindings of the joined documents up to which they are read."""


class FewRows:
    """Reads what a small batch meets, and answers the templates' queries over it."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, lender: Lender, registry: Registry
    ) -> None:
        self._connection = connection
        self._lender = lender
        self._registry = registry
        self._registered: dict[int, tuple[int, Registered]] = {}

    def kept(self, keys: Column) -> Columns | None:
        """Return what is kept with the values of some bindings; None if it is too much."""
        wanted = np.unique(keys)
        if len(wanted) > FEW_VALUES:
            return None
        kept = self._fetch(
            "SELECT * EXCLUDE (first) FROM state.binding"
            f" WHERE key IN ({self._lender.among(wanted)}) LIMIT {FEW_ROWS + 1}"
        )
        if len(kept["doc"]) > FEW_ROWS or Index(kept["key"]).count(keys) > FEW_ROWS:
            return None
        return kept

    def found(self, joins: Columns) -> dict[int, Columns]:
        """Return R_out of each template that has rows, by its number; raises TooManyRows."""
        left, right = set(joins["pair1"].tolist()), set(joins["pair2"].tolist())
        firing = self._registry.firing.joined(left, right)
        others = joins
        if any(m.others for m in firing):
            others = self._bindings_of(joins)
            if len(others["doc"]) > MANY_BINDINGS:
                raise TooManyRows
            either = set(others["pair"].tolist())
            left, right = left | either, right | either
            firing = [m for m in firing if m.can_fire(left, right)]
        apart = several(joins) if any(m.several for m in firing) else joins
        found = {
            m.template.number: answers(
                m.template.graph, self._of(m), apart if m.several else joins, others
            )
            for m in firing
        }
        return {number: rows for number, rows in found.items() if len(rows["qid"])}

    def _bindings_of(self, joins: Columns) -> Columns:
        """Return all bindings of the documents of some value joins, and whether they have a value.

        If there are more than enough, only so many.
        """
        docs = np.unique(np.concatenate((joins["doc1"], joins["doc2"])))
        return self._fetch(
            "SELECT doc, pair, node1, node2, key, key IS NOT NULL AS valued FROM state.binding"
            f" WHERE doc IN ({self._lender.among(docs)}) LIMIT {MANY_BINDINGS + 1}"
        )

    def _of(self, members: Members) -> Registered:
        """Return a template's R_T."""
        number = members.template.number
        changes, rows = self._registered.get(number, (-1, None))
        if rows is None or changes != members.changes:
            rows = Registered(self._fetch(f"SELECT * EXCLUDE (apart) FROM {r_t(number)}"))
            self._registered[number] = members.changes, rows
        return rows

    def _fetch(self, query: str) -> Columns:
        found = self._connection.execute(query).fetchnumpy()
        return {name: np.ma.filled(column, 0) for name, column in found.items()}
