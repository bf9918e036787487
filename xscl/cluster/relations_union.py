"""The relations of all cells as those of one engine, with the numbers of the driver.

Cells that have the same witness, for subscriptions that read the same paths, give it once.  What
the driver's catalog does not know any more is left out, and so are witnesses that nothing can join
any more: an engine evicts them when this pays, and a cell without documents does not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.model.relations import INFINITE
from templates.registry.members import Row
from templates.registry.registry import graph_of
from templates.sql.views import BACKWARD, FORWARD, JOINS
from xscl.cluster.relations_export import Tables
from xscl.engine.state import MADE_FROM, EngineState
from xscl.inspection.relations import JoinRelations, no_output
from xscl.store.database import in_memory

_HERE = f"""
CREATE MACRO here(one, other) AS CASE WHEN one < {MADE_FROM} THEN one ELSE other END;
CREATE TABLE kept AS
    SELECT here(b.doc, d.there) AS doc, p.there AS pair, node1, node2, max(strVal) AS strVal
    FROM binding b JOIN pair p USING (cell, pair) JOIN times t USING (cell, doc)
    LEFT JOIN published d USING (cell, doc) WHERE t.ts >= p.bound GROUP BY ALL;
CREATE TABLE batch AS
    SELECT here(b.doc, d.there) AS doc, p.there AS pair, node1, node2, max(strVal) AS strVal
    FROM batch_binding b JOIN pair p USING (cell, pair) LEFT JOIN published d USING (cell, doc)
    GROUP BY ALL;
CREATE VIEW joined AS SELECT *, 'vj1' AS pass FROM vj1 UNION ALL SELECT *, 'vj2' FROM vj2;
CREATE TABLE met AS
    SELECT DISTINCT pass, here(doc1, d1.there) AS doc1, here(doc2, d2.there) AS doc2, strVal,
        p1.there AS pair1, above1, node1, p2.there AS pair2, above2, node2, gap, lead, age
    FROM joined j JOIN pair p1 ON p1.cell = j.cell AND p1.pair = j.pair1
    JOIN pair p2 ON p2.cell = j.cell AND p2.pair = j.pair2
    LEFT JOIN published d1 ON d1.cell = j.cell AND d1.doc = j.doc1
    LEFT JOIN published d2 ON d2.cell = j.cell AND d2.doc = j.doc2;
CREATE TABLE text AS
    SELECT strVal, (row_number() OVER ())::UBIGINT AS key FROM (
        SELECT strVal FROM kept UNION SELECT strVal FROM batch UNION SELECT strVal FROM met)
    WHERE strVal IS NOT NULL;
"""
_BINDINGS = "SELECT doc, pair, node1, node2, key FROM {} LEFT JOIN text USING (strVal)"
_TIMES = (
    "SELECT DISTINCT here(t.doc, d.there) AS doc, ts FROM {} t LEFT JOIN published d"
    " USING (cell, doc)"
)
_MET = (
    "SELECT {} FROM (SELECT *, 0::BIGINT AS docs, 0::BIGINT AS pairs FROM met"
    " LEFT JOIN text USING (strVal) WHERE pass = '{}')"
)
_ASKED = {
    "binding": _BINDINGS.format("kept"),
    "times": f"SELECT * FROM ({_TIMES.format('times')}) SEMI JOIN kept USING (doc)",
    "value": "SELECT key, strVal FROM text",
    "batch_binding": _BINDINGS.format("batch"),
    "batch_times": _TIMES.format("batch_times"),
    **{name: _MET.format(", ".join(JOINS.names), name) for name in (FORWARD, BACKWARD)},
}


def unite_relations(state: EngineState, cells: Sequence[Tables]) -> JoinRelations:
    """Return the relations of all cells; the engine's lock guards `state`, that of the driver."""
    published = [_documents(state, one["published"]) for one in cells]
    with in_memory() as connection:
        pairs = [_pairs(state, one["pair"]) for one in cells]
        connection.register("published", _together(published))
        connection.register("pair", _together(pairs))
        for name in ("binding", "times", "batch_binding", "batch_times", FORWARD, BACKWARD):
            connection.register(name, _together([one[name] for one in cells]))
        connection.execute(_HERE)
        found = {name: connection.sql(asked).to_arrow_table() for name, asked in _ASKED.items()}
    each = zip(cells, published, strict=True)
    return JoinRelations(found, _out(state, [_out_of(state, *one) for one in each]))


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of all cells, each with the number of its cell."""
    numbered = [
        one.append_column("cell", pa.array(np.full(one.num_rows, cell, np.int32)))
        for cell, one in enumerate(tables)
    ]
    return pa.concat_tables(numbered)


def _documents(state: EngineState, published: pa.Table) -> pa.Table:
    """Return the driver's numbers of published documents."""
    state.store.lend("asked", published)
    return state.store.arrow(
        "SELECT a.doc, d.doc AS there FROM asked a JOIN state.document d USING (id)"
    )


def _pairs(state: EngineState, pairs: pa.Table) -> pa.Table:
    """Return the driver's numbers of pairs, with the time before which they join nothing."""
    columns = (pairs[name].to_pylist() for name in ("pair", "var1", "var2"))
    registry, clock = state.registry, state.documents.clock
    known = [
        (number, found)
        for number, *ends in zip(*columns, strict=True)
        if (found := registry.pairs.find(*ends)) is not None
    ]
    here, there = np.array(known, np.int64).reshape(-1, 2).T
    keeps = registry.retention.keeps[there]
    bounds = np.where(keeps >= INFINITE, -INFINITE, clock - keeps)
    bounds[keeps < 0] = INFINITE  # they are joined with nothing
    return pa.table({"pair": here, "there": there.astype(np.int32), "bound": bounds})


def _out_of(
    state: EngineState, tables: Tables, published: pa.Table
) -> dict[int, npt.NDArray[np.int64]]:
    """Return the rows of R_out of a cell by templates of the driver: qid, documents, nodes, wl."""
    numbers = dict(zip(*(published[name].to_pylist() for name in ("doc", "there")), strict=True))
    found: dict[int, npt.NDArray[np.int64]] = {}
    placed = {
        one["qid"]: state.registry.find(
            graph_of(one["graph"]),
            one["variables"],
            Row(0, (), one["op"], one["wl"], one["keep"], one["apart"]),
        )
        for one in tables["row"].to_pylist()
    }
    qids = tables["out"]["qid"].to_numpy()
    for qid, place in placed.items():
        if place is None:
            continue
        rows = tables["out"].filter(pa.array(qids == qid))
        documents = [
            [numbers.get(doc, doc if doc < MADE_FROM else 0) for doc in rows[name].to_pylist()]
            for name in ("doc1", "doc2")
        ]
        nodes = rows["nodes"].combine_chunks().flatten().to_numpy().reshape(rows.num_rows, -1)
        columns = [np.full(rows.num_rows, place.qid), *map(np.array, documents)]
        columns += [nodes[:, at] for at in place.order]
        here = np.stack([*columns, rows["wl"].to_numpy()], axis=1).astype(np.int64)
        earlier = found.get(place.template, here[:0])
        found[place.template] = np.concatenate([earlier, here])
    return found


def _out(
    state: EngineState, cells: Sequence[dict[int, npt.NDArray[np.int64]]]
) -> dict[int, pa.Table]:
    """Return R_out of all cells by template, each row once."""
    found = {}
    for number in sorted({number for one in cells for number in one}):
        rows = np.unique(np.concatenate([one[number] for one in cells if number in one]), axis=0)
        names = no_output(state.registry.members[number].template.graph).column_names
        found[number] = pa.table([pa.array(column) for column in rows.T], names)
    return found
