"""The conjunctive queries of templates on DuckDB (Hong 2009, section 6.4.4).

They read relations that are lent for a batch: R_vj, the bindings of its documents, and the rows of
R_T that the batch touches.  They read nothing of `state.*`.

Planning a join of n relations takes DuckDB about n ms, several times as long as joining the rows
of a batch of 500 documents.  So each query is prepared once.  DuckDB plans a prepared statement
again when the catalog of its connection has changed, which pushes and registrations do to that of
the store.  So the queries have a database of their own, in memory (docs/decisions/templates.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import duckdb
import numpy as np
import pyarrow as pa

from templates.columns.columns import Columns
from templates.errors import EvaluationError
from templates.model.conjunctive_query import (
    BATCH,
    BINDINGS,
    JOINS,
    R_VJ,
    SEVERAL,
    Views,
    over_batch,
    over_views,
    select,
)
from templates.model.join_graph import JoinGraph
from templates.registry.members import Members

MOST_PLANNED = 1024
"""Plans that are kept; the least recently used one is evicted.  One takes 45 kB."""


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
    """The evaluator on DuckDB; `lent` has the relations of the batch that is being joined."""

    def __init__(self) -> None:
        self.made = 0
        self._planned: _PlannedQueries | None = None  # small batches need none
        self.lent: dict[str, Columns] = {}

    def answers(self, members: Members, rows: Columns, views: Views) -> Columns:
        """Return R_out of a template with two sides over the views of a batch."""
        # A query reads only one of both; `several` is computed when it is first read.
        relations = {SEVERAL: views.several} if members.several else {JOINS: views.joins}
        if views.bindings is not None:
            relations[BINDINGS] = views.bindings
        return self._answer(members, rows, relations)

    def filtered(self, members: Members, rows: Columns, bindings: Columns) -> Columns:
        """Return R_out of a template with one side over the bindings of a batch."""
        return self._answer(members, rows, {BATCH: bindings})

    def release(self) -> None:
        """Release the relations of a batch; the plans stay."""
        self.lent.clear()
        if self._planned is not None:
            self._planned.release()

    def _answer(self, members: Members, rows: Columns, relations: Mapping[str, Columns]) -> Columns:
        """Evaluate the query of a template; raise EvaluationError if the database fails."""
        graph, several = members.template.graph, members.several
        try:
            if self._planned is None:
                self._planned = _PlannedQueries()
            for name, relation in relations.items():
                if self.lent.get(name) is not relation:
                    self._planned.lend(name, _lendable(name, relation))
                    self.lent[name] = relation
            found = self._planned.execute(graph, several, pa.table(dict(rows)))
        except duckdb.Error as error:
            self._planned = None  # a fatal error invalidates the database
            self.lent.clear()
            raise EvaluationError(str(error).partition("\n")[0]) from error
        self.made += len(found["qid"])
        return found


class _Holder:
    """A holder that returns its current table when it is read."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_schema__(self) -> object:
        return self.table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class _PlannedQueries:
    """A database in memory with lent relations, and the plans of queries over them."""

    def __init__(self) -> None:
        self._connection = in_memory()
        # In a template's query each step can only take rows away, so the order in which it is
        # written serves; the optimizer's search takes half of the time of planning.  The setting
        # is global in DuckDB: another reason for a database of their own.
        self._connection.execute("SET disabled_optimizers = 'join_order'")
        self._connection.execute("SET enable_external_access = false")  # fixes `temp_directory`
        self._lent: dict[str, _Holder] = {}
        # The least recently used plan is the first.
        self._statements: dict[tuple[JoinGraph, bool], tuple[str, duckdb.Statement]] = {}

    def lend(self, name: str, table: pa.Table) -> None:
        """Lend a table under a name, in place of the former one.

        Registering it would change the catalog, so a holder is registered, once.  DuckDB then does
        not know the size of the table, which the written order does not ask for.
        """
        holder = self._lent.get(name)
        if holder is not None and holder.table.schema.equals(table.schema):
            holder.table = table
        else:
            holder = self._lent[name] = _Holder(table)
            self._connection.register(name, holder)

    def release(self) -> None:
        """Replace the lent tables by empty ones."""
        for holder in self._lent.values():
            holder.table = holder.table.schema.empty_table()

    def execute(self, graph: JoinGraph, several: bool, rows: pa.Table) -> Columns:
        """Evaluate the query of a template over rows of R_T."""
        planned = self._statements.pop((graph, several), None)
        r_t = self._unused() if planned is None else planned[0]
        self.lend(r_t, rows)
        statement = self._plan(graph, several, r_t) if planned is None else planned[1]
        self._statements[graph, several] = r_t, statement
        found = self._connection.execute(statement).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

    def _unused(self) -> str:
        """Return an unused name for rows of R_T; evict a plan if `MOST_PLANNED` are kept."""
        if len(self._statements) < MOST_PLANNED:
            return f"r_t_{len(self._statements)}"
        r_t, _ = self._statements.pop(next(iter(self._statements)))
        self._connection.execute(f"DEALLOCATE over_{r_t}")
        return r_t

    def _plan(self, graph: JoinGraph, several: bool, r_t: str) -> duckdb.Statement:
        query = over_views(graph, several=several) if graph.two_sided else over_batch(graph)
        self._connection.execute(f"PREPARE over_{r_t} AS {select(query, r_t)}")
        (statement,) = self._connection.extract_statements(f"EXECUTE over_{r_t}")
        return statement


def in_memory() -> duckdb.DuckDBPyConnection:
    """Return a database in memory for relations that are lent to it."""
    return duckdb.connect(":memory:", config=_SETTINGS)


_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,  # a second one waits longer than the joins of a batch take
    "memory_limit": "25%",  # of the machine; the join state may have another quarter
    "temp_directory": "",  # else DuckDB makes .tmp in the working directory
    "python_enable_replacements": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}


def arrow_table(columns: Columns, schema: pa.Schema) -> pa.Table:
    """Return columns as an Arrow table."""
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _lendable(name: str, columns: Columns) -> pa.Table:
    """Return a relation in the form of queries: a binding without a value has no key."""
    if name in (JOINS, SEVERAL):
        return arrow_table(columns, R_VJ)
    plain = {name: columns[name] for name in ("doc", "pair", "node1", "node2")}
    return pa.table({**plain, "key": pa.array(columns["key"], mask=~columns["valued"])})
