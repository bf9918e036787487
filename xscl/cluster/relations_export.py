"""The export of a cell for SQL: its witnesses and the relations of its last push, as Arrow.

Variables are named by their definitions, rows of R_T by what they join, published documents by
their ids: the numbers of all these are the cell's own.  Composites are left out, as no relation
shows them.  `relations_union` makes one set of relations of the files of all cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from templates.batch_join import Pushed
from templates.registry.registry import text_of
from templates.sql.views import BACKWARD, FORWARD
from xscl.engine.facade import Engine
from xscl.engine.state import MADE_FROM, EngineState
from xscl.store.store import Store

Tables = dict[str, pa.Table]

ROW = pa.schema(
    {
        "template": pa.int32(),
        "qid": pa.int32(),
        "graph": pa.string(),
        "variables": pa.list_(pa.string()),
        "op": pa.int8(),
        "wl": pa.int64(),
        "keep": pa.int64(),
        "apart": pa.bool_(),
    }
)
"""Rows of R_T: the graph of the template in the cell, and the definitions of its nodes."""
OUT = pa.schema(
    {
        **{name: pa.int32() for name in ("template", "qid")},
        **{name: pa.int64() for name in ("doc1", "doc2")},
        "nodes": pa.list_(pa.int64()),
        "wl": pa.int64(),
    }
)
"""R_out of all templates, with the nodes in the order of the template in the cell."""
PAIR = pa.schema({"pair": pa.int32(), "var1": pa.string(), "var2": pa.string()})
_JOINED = "doc1, doc2, strVal, pair1, above1, node1, pair2, above2, node2, gap, lead, age"


def exported(engine: Engine, *, has_pushed: bool) -> Tables:
    """Return the relations of a cell by name; those of its last push only if `has_pushed`."""
    with engine.host.transactions.lock:
        state, store = engine.host.state, engine.host.transactions.store
        pushed = state.processor.pushed
        out = _out(state, pushed if has_pushed else None)
        store.lend("last_binding", _if(has_pushed, pushed.bindings))
        store.lend("last_times", _if(has_pushed, pushed.times))
        for name in (FORWARD, BACKWARD):
            store.lend(f"last_{name}", _if(has_pushed, pushed.joins(name)))
        store.lend("last_out", out)
        with store.reading():
            found = {
                "binding": _bindings(store, "state.binding"),
                "times": store.arrow("SELECT doc, ts FROM state.times"),
                "batch_binding": _bindings(store, "last_binding"),
                "batch_times": store.arrow("SELECT doc, ts FROM last_times"),
                **{
                    name: store.arrow(
                        f"SELECT {_JOINED} FROM last_{name} LEFT JOIN state.value USING (key)"
                    )
                    for name in (FORWARD, BACKWARD)
                },
                "out": out,
                "published": store.arrow(_PUBLISHED),
            }
        found["row"] = _rows(state, out)
        numbers = [
            found[name][column].to_numpy() for name, columns in _PAIRS.items() for column in columns
        ]
        named = state.registry.pairs.named(np.unique(np.concatenate(numbers)).tolist())
        rows = [(number, first, second) for number, (_, first), (_, second) in named]
        found["pair"] = _table(rows, PAIR)
        return found


_PUBLISHED = f"""
SELECT doc, id FROM state.document WHERE doc >= {MADE_FROM} AND doc IN (
    SELECT doc FROM state.times UNION SELECT doc FROM last_times
    UNION SELECT doc1 FROM last_out UNION SELECT doc2 FROM last_out
    UNION SELECT unnest([doc1, doc2]) FROM last_vj1
    UNION SELECT unnest([doc1, doc2]) FROM last_vj2)
"""
_PAIRS = {
    **dict.fromkeys(("binding", "batch_binding"), ("pair",)),
    **dict.fromkeys((FORWARD, BACKWARD), ("pair1", "pair2")),
}


def _if(wanted: bool, table: pa.Table) -> pa.Table:
    return table if wanted else table.slice(0, 0)


def _bindings(store: Store, table: str) -> pa.Table:
    return store.arrow(
        f"SELECT b.doc, pair, node1, node2, strVal FROM {table} b"
        " SEMI JOIN state.document d ON d.doc = b.doc LEFT JOIN state.value USING (key)"
    )


def _out(state: EngineState, pushed: Pushed | None) -> pa.Table:
    found = [OUT.empty_table()]
    for number, rows in ({} if pushed is None else pushed.out).items():
        width = len(state.registry.members[number].template.graph.nodes)
        nodes = np.stack([rows[f"node{at + 1}"].to_numpy() for at in range(width)], axis=1)
        offsets = np.arange(rows.num_rows + 1, dtype=np.int32) * width
        columns = {
            **{name: rows[name] for name in ("qid", "doc1", "doc2", "wl")},
            "template": pa.array(np.full(rows.num_rows, number)),
            "nodes": pa.ListArray.from_arrays(offsets, pa.array(nodes.ravel(), pa.int64())),
        }
        found.append(pa.table({name: columns[name] for name in OUT.names}).cast(OUT))
    return pa.concat_tables(found)


def _rows(state: EngineState, out: pa.Table) -> pa.Table:
    """Return the rows of R_T that have rows of R_out."""
    found = []
    for qid in np.unique(out["qid"].to_numpy()).tolist():
        row = state.registry.row(qid)
        graph = state.registry.members[row.template].template.graph
        variables = [""] * len(graph.nodes)
        named = state.registry.pairs.named(row.pairs)
        for (parent, child), (_, (_, above), (_, below)) in zip(graph.pairs, named, strict=True):
            variables[parent], variables[child] = above, below
        values = row.operator, row.window, row.keep, row.apart
        found.append((row.template, qid, text_of(graph), variables, *values))
    return _table(found, ROW)


def _table(rows: Iterable[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(one, kind) for one, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def packed(tables: Mapping[str, pa.Table]) -> pa.Table:
    """Return tables as one, with one row of lists."""
    lists = {}
    for name, table in tables.items():
        chunks = table.combine_chunks().to_struct_array().chunks
        (rows,) = chunks or [pa.array([], pa.struct(table.schema))]
        lists[name] = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
    return pa.table(lists)


def unpacked(table: pa.Table) -> Tables:
    """Return the tables of `packed`."""
    return {
        name: pa.Table.from_struct_array(table[name].combine_chunks().flatten())
        for name in table.column_names
    }
