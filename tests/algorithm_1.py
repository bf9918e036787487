"""Algorithm 1 of Hong 2009: templates' queries over R_bin and R_doc, without materialised views.

The benchmark of Figures 6.14 and 6.15 compares it with Algorithm 4, and tests take it as an oracle.
`ProcessorOfBase` is the processor of an engine that joins by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from templates.columns import Column, Columns
from templates.evaluators import EvaluationError, in_memory
from templates.model.conjunctive_query import (
    ConjunctiveQuery,
    RelationAtom,
    binding,
    key,
    node,
    select,
)
from templates.model.join_graph import JoinGraph
from templates.processor import BatchJoin, Processor
from templates.state.stored_state import StoredState
from templates.storage import scan
from templates.template import TemplateRows


class BatchJoinOfBase(BatchJoin):
    """A batch that is joined over R_bin and R_doc; its results are the same."""

    def join(self, usable: Column, *, back: bool) -> None:
        if self.bindings.num_rows:
            templates = [one for one in self._registry.members.values() if one.two_sided]
            self.copy_relations(templates)
            for second in (False, True) if back else (False,):
                self.take(joined_over_base(_base(), templates, second))

    def copy_relations(self, templates: Iterable[TemplateRows]) -> None:
        """Copy relations to the database in memory, which an engine that joins by it would have.

        They are R_T, and R_bin and R_docTS, kept and of the batch.
        """
        state = self.documents.state
        assert isinstance(state, StoredState)
        tables = {name: scan(state.storage, name) for name in ("binding", "times")}
        tables |= {"batch_binding": self.bindings, "batch_times": self.documents.times}
        tables |= {_r_t(one): pa.table(dict(_every(one))) for one in templates}
        for name, table in tables.items():
            _base().register("lent", table)
            _base().execute(f"CREATE OR REPLACE TABLE {name} AS FROM lent")


class ProcessorOfBase(Processor):
    """A processor that evaluates templates over R_bin and R_doc."""

    evaluation = BatchJoinOfBase


@cache
def _base() -> duckdb.DuckDBPyConnection:
    """Return the database in which they are evaluated, in the order in which they are written.

    The search for another order takes a third of the time of small batches of feed items; it saves
    a quarter for `mmqjp-complex`.
    """
    database = in_memory()
    database.execute("SET disabled_optimizers = 'join_order'")
    return database


class Base(NamedTuple):
    """The names of the relations of one side: R_bin, R_doc and R_docTS."""

    bindings: str
    nodes: str
    times: str


@lru_cache(maxsize=4096)
def over_base(graph: JoinGraph, table: str, left: Base, right: Base) -> str:
    """Return the SQL that computes R_out of a template with two sides from R_bin and R_doc."""
    if any(edge.operator not in _SIGNS for edge in graph.edges):
        raise EvaluationError("Algorithm 1 compares values by = and != only")
    sides = (left, right)
    atoms = tuple(_atoms(graph, sides)) + tuple(
        RelationAtom(f"ts{side}", base.times, (("doc", f"doc{side + 1}"), ("base", f"base{side}")))
        for side, base in enumerate(sides)
    )
    compared = (
        *((_SIGNS[edge.operator], key(edge.left), key(edge.right)) for edge in graph.edges),
        ("<>", "base0", "base1"),
    )
    return select(ConjunctiveQuery(len(graph.nodes), atoms, compared, timed=True), table, _TIMES)


def _atoms(graph: JoinGraph, sides: tuple[Base, Base]) -> Iterator[RelationAtom]:
    for place, (_, child) in enumerate(graph.pairs):
        side = graph.nodes[child].side
        doc = f"doc{side + 1}"
        yield binding(graph, place, sides[side].bindings, docs=(doc,))
        if child in graph.compared:
            binds = (("doc", doc), ("node", node(child)), ("key", key(child)))
            yield RelationAtom(f"d{child}", sides[side].nodes, binds)


_SIGNS = {"=": "=", "!=": "<>"}
_TIMES = {
    "doc1": "ts0.doc",
    "doc2": "ts1.doc",
    "gap": "ts1.ts - ts0.ts",
    "lead": "ts1.start - ts0.ts",
    "age": "CASE WHEN ts0.rank < ts1.rank THEN ts1.clock - ts0.ts"
    " WHEN ts0.rank > ts1.rank THEN ts0.clock - ts1.ts"
    " ELSE GREATEST(ts1.clock - ts0.ts, ts0.clock - ts1.ts) END",
}


def joined_over_base(
    connection: duckdb.DuckDBPyConnection, templates: Iterable[TemplateRows], back: bool
) -> list[tuple[TemplateRows, Columns]]:
    """Return R_out of the templates with two sides, for one pass of a batch (line 2).

    The database has the relations (`copy_relations`).  `back`: the batch is the left side.
    """
    sides = (_BATCH, _OLD) if back else (_KEPT, _BATCH)
    connection.execute(_VIEWS)
    found: list[tuple[TemplateRows, Columns]] = []
    for one in templates:
        rows = connection.execute(over_base(one.template.graph, _r_t(one), *sides)).fetchnumpy()
        found.append((one, {column: np.asarray(values) for column, values in rows.items()}))
    return found


def _r_t(registered: TemplateRows) -> str:
    return f"r_t_{registered.template.number}"


def _every(registered: Any) -> Columns:
    """Return all rows of R_T of a template."""
    rows = np.flatnonzero(registered._rows["alive"])
    return {name: registered._rows[name][rows] for name in registered.names}


_KEPT = Base("binding", "base_node", "times")
_OLD = Base("old_binding", "base_node", "times")
_BATCH = Base("batch_binding", "batch_node", "batch_times")

_VIEWS = """
CREATE OR REPLACE VIEW base_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM binding WHERE key IS NOT NULL;
CREATE OR REPLACE VIEW batch_node AS
    SELECT DISTINCT doc, node2 AS node, key FROM batch_binding WHERE key IS NOT NULL;
CREATE OR REPLACE VIEW old_binding AS
    SELECT doc, pair, node1, node2, key FROM binding ANTI JOIN batch_times USING (doc);
"""
"""R_doc of compared nodes."""
