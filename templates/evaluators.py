"""The evaluators of templates' conjunctive queries (Hong 2009, section 6.4.4).

A push of a few documents joins a handful of kept rows, for which DuckDB takes ten times as long as
NumPy; for larger batches it is faster (docs/decisions/templates.md).  Queries read relations of a
batch: R_vj, the bindings of its documents, and the rows of R_T that the batch touches.  They read
nothing of `state.*`.  NumPy counts the rows of a join before it makes them, and gives up if there
are too many.  DuckDB does not, so it gets no query that may have so many.

Planning a join of n relations takes DuckDB about n ms, several times as long as joining the rows
of a batch of 500 documents.  So each query is prepared once.  DuckDB plans a prepared statement
again when the catalog of its connection has changed, which pushes and registrations do to that of
the store.  So the queries have a database of their own, in memory, to which relations are lent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa

from templates import columns
from templates.columns import Column, Columns, Index, TooManyRows, chosen, equal_rows
from templates.model.conjunctive_query import (
    JOINS,
    R_VJ,
    ConjunctiveQuery,
    PartViews,
    in_time,
    select,
)
from templates.model.join_graph import JoinGraph
from templates.template import TemplateRows


class EvaluationError(Exception):
    """The database of the templates' queries failed, so a batch is joined only in part.

    The batch must be rolled back.  Another evaluation starts with a new database.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(f"the joins of a batch cannot be evaluated: {detail}")


# -- NumPy ---------------------------------------------------------------------------------

MOST_PLANNED = 1024
"""The most plans that are kept; the least recently used one is evicted.  One takes 45 kB."""


class SmallBatch:
    """The evaluator over NumPy columns.

    A join of more than `columns.MOST` rows is left to the evaluator `otherwise`.  If it may have
    very many (`may_be_many`), `answers` raises TooManyRows instead.
    """

    def __init__(self, otherwise: ConjunctiveQueries) -> None:
        self.made = 0
        self._otherwise = otherwise

    def answers(self, members: TemplateRows, rows: Columns, views: PartViews) -> Columns:
        """Return R_out of `rows` of R_T over the views of a part of a batch; raises TooManyRows."""
        try:
            found = _evaluate(members.query, rows, views.relations())
        except TooManyRows:
            if views.may_be_many(members.template.graph):
                raise
            return self._otherwise.answers(members, rows, views)
        self.made += len(found["qid"])
        return found


def _evaluate(
    query: ConjunctiveQuery, registered: Columns, relations: Mapping[str, Columns]
) -> Columns:
    """Return R_out of a query by joining its atoms in order, over relations by name.

    `registered` are the rows of R_T.  For each partial answer, `rows` has its row of R_T, and
    `bound` a column for each variable.
    """
    rows: Column | None = None
    bound: Columns = {}
    for atom in query.atoms:
        assert atom.key is not None
        relation, (column, asked) = relations[atom.relation], atom.key
        if atom.valued:
            relation = chosen(relation, relation["valued"])
        if rows is None:
            which, rows = Index(registered[asked]).rows(relation[column], most=columns.MOST)
        else:
            shared = [(bound[name], relation[one]) for one, name in atom.binds if name in bound]
            ours, theirs = zip(*shared, strict=True)
            kept, which = equal_rows((registered[asked][rows], *ours), (relation[column], *theirs))
            rows, bound = rows[kept], chosen(bound, kept)
        agree = np.ones(len(rows), np.bool_)
        known, bound = bound, dict(bound)
        for one, name in atom.binds:
            if name not in known:
                values = relation[one][which]
                if bound.setdefault(name, values) is not values:  # the atom has the variable twice
                    agree &= bound[name] == values
        if query.timed and atom is query.atoms[0]:
            agree &= in_time(chosen(registered, rows), bound)
        if not agree.all():
            rows, bound = rows[agree], chosen(bound, agree)
    assert rows is not None
    for _, left, right in query.compared:
        differ = bound[left] != bound[right]
        rows, bound = rows[differ], chosen(bound, differ)
    nodes = {name: bound[name] for name in query.head}
    return {"qid": registered["qid"][rows], **nodes, "wl": registered["wl"][rows]}


# -- DuckDB --------------------------------------------------------------------------------


class ConjunctiveQueries:
    """The evaluator on DuckDB; `lent` has the relations of the batch that is being joined."""

    def __init__(self) -> None:
        self.made = 0
        self._planned: _PlannedQueries | None = None  # small batches need none
        self.lent: dict[str, Columns] = {}

    def answers(self, members: TemplateRows, rows: Columns, views: PartViews) -> Columns:
        """Return R_out of `rows` of R_T over the views of a part of a batch.

        Raises EvaluationError.
        """
        try:
            if self._planned is None:
                self._planned = _PlannedQueries()
            for name, relation in views.relations().items():
                if self.lent.get(name) is not relation:
                    self._planned.lend(name, _lendable(name, relation))
                    self.lent[name] = relation
            found = self._planned.execute(members, pa.table(dict(rows)))
        except duckdb.Error as error:
            self._planned = None  # a fatal error invalidates the database
            self.lent.clear()
            raise EvaluationError(str(error).partition("\n")[0]) from error
        self.made += len(found["qid"])
        return found

    def release(self) -> None:
        """Release the relations of a batch; the plans stay."""
        if self.lent and self._planned is not None:
            self._planned.release()
        self.lent.clear()


Evaluator: TypeAlias = SmallBatch | ConjunctiveQueries
"""Evaluates the conjunctive query of a template over some rows of its R_T.

`made` counts the rows of R_out so far.  Their columns are qid, doc1, doc2, node1 ... noden (as
numbered in the template), wl.
"""


class _Holder:
    """An object that DuckDB reads as a relation: the table that it holds at that time."""

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
        self._statements: dict[JoinGraph, tuple[str, duckdb.Statement]] = {}

    def lend(self, name: str, table: pa.Table) -> None:
        """Lend a table under a name, in place of the former one.

        Registering it would change the catalog, so a holder is registered, once.  DuckDB then does
        not know the size of the table, which only the disabled optimizer of the join order uses.
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

    def execute(self, members: TemplateRows, rows: pa.Table) -> Columns:
        """Return R_out of a template's query over `rows` of R_T and the lent relations."""
        key = members.template.graph
        planned = self._statements.pop(key, None)
        r_t = self._unused() if planned is None else planned[0]
        self.lend(r_t, rows)
        statement = self._plan(members.query, r_t) if planned is None else planned[1]
        self._statements[key] = r_t, statement
        found = self._connection.execute(statement).fetchnumpy()
        return {name: np.asarray(column) for name, column in found.items()}

    def _unused(self) -> str:
        """Return an unused name for rows of R_T; evict a plan if `MOST_PLANNED` are kept."""
        if len(self._statements) < MOST_PLANNED:
            return f"r_t_{len(self._statements)}"
        r_t, _ = self._statements.pop(next(iter(self._statements)))
        self._connection.execute(f"DEALLOCATE over_{r_t}")
        return r_t

    def _plan(self, query: ConjunctiveQuery, r_t: str) -> duckdb.Statement:
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
    """Return the columns that a schema names as an Arrow table of that schema."""
    return pa.table([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _lendable(name: str, columns: Columns) -> pa.Table:
    """Return a relation as an Arrow table; the key of a binding without a value is null."""
    if name == JOINS:
        return arrow_table(columns, R_VJ)
    plain = {name: columns[name] for name in ("doc", "pair", "node1", "node2")}
    return pa.table({**plain, "key": pa.array(columns["key"], mask=~columns["valued"])})
