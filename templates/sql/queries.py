"""The conjunctive queries of templates on DuckDB (Hong 2009, section 6.4.4).

They read relations that are lent for a batch: R_vj, the bindings of its documents, and the rows of
R_T that the batch touches.  They read nothing of `state.*`.

Planning a join of n relations takes DuckDB about n ms, several times as long as joining the rows
of a batch of 500 documents.  So each query is prepared once.  DuckDB plans a prepared statement
again when the catalog of its connection has changed, which pushes and registrations do to that of
the store.  So the queries have a database of their own, in memory (decision 052).
"""

from __future__ import annotations

import sys
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa

from templates.columns.arrow_tables import Lender
from templates.columns.columns import Columns
from templates.model.conjunctive_query import (
    BATCH,
    BINDINGS,
    JOINS,
    SEVERAL,
    over_batch,
    over_views,
)
from templates.model.join_graph import JoinGraph
from templates.registry.members import Members
from templates.sql.conjunctive import select
from templates.sql.views import JOINS as R_VJ
from templates.sql.views import Views

MOST_PLANNED = 256
"""Plans that are kept; above it the database of the queries is made anew.  One takes 45 kB."""


class Evaluator(Protocol):
    """Evaluates the conjunctive query of a template over some rows of its R_T.

    The columns of R_out are qid, doc1, doc2, node1 ... noden (as numbered in the template), wl.
    """

    made: int
    """Rows of R_out so far."""

    def answers(self, members: Members, rows: Columns, views: Views) -> Columns:
        """Return R_out of a template with two sides over the views of a batch."""
        ...

    def filtered(self, members: Members, rows: Columns, bindings: Columns) -> Columns:
        """Return R_out of a template with one side over the bindings of a batch."""
        ...


class ConjunctiveQueries:
    """The evaluator on DuckDB."""

    def __init__(self) -> None:
        self.made = 0
        self._planned: _PlannedQueries | None = None  # small batches need none
        self._lent: Views | Columns | None = None

    def answers(self, members: Members, rows: Columns, views: Views) -> Columns:
        """Return R_out of a template with two sides over the views of a batch."""
        queries = self._queries
        if views is not self._lent:
            queries.lend(JOINS, arrow_table(views.joins, R_VJ))
            queries.lend(SEVERAL, arrow_table(views.several, R_VJ))
            if views.bindings is not None:
                queries.lend(BINDINGS, _bindings(views.bindings))
            self._lent = views
        return self._answer(queries, members, rows)

    def filtered(self, members: Members, rows: Columns, bindings: Columns) -> Columns:
        """Return R_out of a template with one side over the bindings of a batch."""
        queries = self._queries
        if bindings is not self._lent:
            queries.lend(BATCH, _bindings(bindings))
            self._lent = bindings
        return self._answer(queries, members, rows)

    def _answer(self, queries: _PlannedQueries, members: Members, rows: Columns) -> Columns:
        graph, several = members.template.graph, members.several
        found = queries.execute(graph, several, pa.table(dict(rows)))
        self.made += len(found["qid"])
        return found

    @property
    def _queries(self) -> _PlannedQueries:
        if self._planned is None or len(self._planned) >= MOST_PLANNED:
            self._planned, self._lent = _PlannedQueries(), None
        return self._planned


class _PlannedQueries:
    """A database in memory with lent relations, and the plans of queries over them."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        # In a template's query each step can only take rows away, so the order in which it is
        # written serves; the optimizer's search takes half of the time of planning.  The setting
        # is global in DuckDB: another reason for a database of their own.
        self._connection.execute("SET disabled_optimizers = 'join_order'")
        # Every table goes through a holder: registering it, as the store does above `FEW` rows,
        # would change the catalog.  DuckDB then does not know its size, which the written order
        # does not ask for.
        self.lend = Lender(self._connection, few=sys.maxsize).lend
        self._statements: dict[tuple[JoinGraph, bool], tuple[str, duckdb.Statement]] = {}

    def __len__(self) -> int:
        return len(self._statements)

    def execute(self, graph: JoinGraph, several: bool, rows: pa.Table) -> Columns:
        """Evaluate the query of a template over rows of R_T."""
        r_t, statement = self._statements.get((graph, several), (f"r_t_{len(self)}", None))
        self.lend(r_t, rows)
        if statement is None:
            statement = self._plan(graph, several, r_t)
            self._statements[graph, several] = r_t, statement
        found = self._connection.execute(statement).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

    def _plan(self, graph: JoinGraph, several: bool, r_t: str) -> duckdb.Statement:
        query = over_views(graph, several=several) if graph.two_sided else over_batch(graph)
        self._connection.execute(f"PREPARE over_{r_t} AS {select(query, r_t)}")
        (statement,) = self._connection.extract_statements(f"EXECUTE over_{r_t}")
        return statement


_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,  # a second one waits longer than the joins of a batch take
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def arrow_table(columns: Columns, schema: pa.Schema) -> pa.Table:
    """Return columns as an Arrow table."""
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _bindings(columns: Columns) -> pa.Table:
    """Return bindings in the form of queries: without a value there is no key."""
    plain = {name: columns[name] for name in ("doc", "pair", "node1", "node2")}
    return pa.table({**plain, "key": pa.array(columns["key"], mask=~columns["valued"])})
