"""Snapshots: the rows that a user may see at a boundary between two batches, as Arrow tables.

The file is unlinked: it exists as long as a descriptor is open, and no path leads to it.  Children
of the fork server map it into memory (`snapshot_file`).

The tables are those that the views of `xscl.store.queries.relations` read.  A user's tables contain
the documents on visible streams, the own subscriptions, and the rows that belong to these.
Templates and joins are renumbered from 1, because the engine's numbers reveal others' activity.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from templates.model.conjunctive_query import BACKWARD, FORWARD
from templates.processor import Pushed
from templates.template import JoinRow
from xscl.client.bodies import time_of
from xscl.client.service_answers import SnapshotDate
from xscl.engine.facade import Engine
from xscl.engine.queries import ReadSnapshot, read_snapshot
from xscl.inspection.rebuilt_relations import (
    VALUED,
    RebuiltRelations,
    may_read_joins,
    may_read_values,
    rebuilt,
)
from xscl.service.accounts import Account
from xscl.service.sql.snapshot_file import Tables, write
from xscl.store.queries.tables import EARLIEST
from xscl.store.queries.visible_rows import join_state, template_graphs, visible_rows
from xscl.store.store import Store
from xscl.subscriptions.matches import VALUES, values_table


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A published snapshot: the read-only descriptor of its file, and its date."""

    descriptor: int
    as_of: SnapshotDate

    def close(self) -> None:
        os.close(self.descriptor)


def publish(
    engine: Engine,
    store: Store,
    viewer: Account,
    directory: Path | None,
    now: int,
    question: str = "",
) -> Snapshot:
    """Publish a snapshot of the current state for a query; `now` is in ticks.

    Values of the newest matches, and relations of joins on executors, are computed only if the text
    `question` may read them.  `store` is a connection that only this call uses.  The file is in
    `directory`, in memory if that is None.
    """
    began = time.monotonic()
    with read_snapshot(engine.transactions, store) as look:
        tables = _tables(look, viewer, has_joins=may_read_joins(question))
        clock = store.progress("clock")
        last = pc.max(tables["result"]["position"]).as_py()
    has_values = may_read_values(question)
    tables["match_values"] = _values(engine, viewer) if has_values else VALUES.empty_table()
    descriptor = _anonymous(directory)
    try:
        write(descriptor, tables)
        readable = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(descriptor)
    age = time.monotonic() - began
    as_of = SnapshotDate(
        position=last or 0,
        clock=None if clock <= EARLIEST else time_of(clock),
        taken=time_of(now),
        age=age,
    )
    return Snapshot(readable, as_of)


# -- Contents ------------------------------------------------------------------------------


def _tables(look: ReadSnapshot, viewer: Account, *, has_joins: bool) -> Tables:
    tables = visible_rows(look.store, viewer.number)
    names: list[str] = tables["subscription"]["name"].to_pylist()
    rows = look.rows
    if viewer.is_operator:
        pairs = None
    else:
        rows = {qid: rows[qid] for qid in sorted(look.qids(names)) if qid in rows}
        pairs = {pair for row in rows.values() for pair in row.pairs}
        for table in ("subscription", "retired"):
            tables[table] = _renamed(tables[table], viewer)
    documents = tables["document"]
    joined = _joined(look, rows, has_joins=has_joins)
    tables |= join_state(joined.state, documents, pairs)
    tables |= _seen(_last_push(joined.pushed), documents, pairs)
    tables |= _variables(look, rows, viewer)
    tables |= _templates(look, rows, documents, joined.pushed.out)
    tables |= _readers(look, names, viewer)
    return tables if viewer.is_operator else _numbered(tables)


def _values(engine: Engine, viewer: Account) -> pa.Table:
    """Return the table `match_values`: values of the viewer's newest matches."""
    prefix = viewer.qualify("")  # empty for the operator
    page = engine.log.page_of_all(
        lambda one: one.name.startswith(prefix), limit=VALUED, newest_first=True, prefix=prefix
    )
    found = values_table(page.matches)
    return found if viewer.is_operator else _own_names(found, viewer, "subscription")


def _variables(look: ReadSnapshot, rows: Mapping[int, JoinRow], viewer: Account) -> Tables:
    """Return the tables `pair` and `variable`, for the variables of the given rows of R_T."""
    pairs = look.named(sorted({pair for row in rows.values() for pair in row.pairs}))
    variables = dict(sorted(one for _, *both in pairs for one in both))
    texts = pa.chunked_array([pa.array(variables.values(), pa.string())])
    numbers = [(pair, first, second) for pair, (first, _), (second, _) in pairs]
    columns = zip(*numbers, strict=True) if numbers else ((), (), ())
    arrays = [pa.array(column, pa.int32()) for column in columns]
    return {
        "pair": pa.table(arrays, ["id", "var1", "var2"]),
        "variable": pa.table(
            {
                "id": pa.array(variables, pa.int32()),
                "definition": texts if viewer.is_operator else _as_written(texts, viewer),
            }
        ),
    }


def _joined(
    look: ReadSnapshot, rows: Mapping[int, JoinRow], *, has_joins: bool
) -> RebuiltRelations:
    """Return relations of the last push and join state; with `has_joins` also of executors."""
    store, found = look.store, None
    if has_joins:
        found = rebuilt(store, look.pushed, look.documents_seen, look.most, qids=rows.keys())
    state = {name: store.scan(name) for name in ("binding", "times", "value")}
    return RebuiltRelations(look.pushed, state) if found is None else found


def _last_push(pushed: Pushed) -> Tables:
    """Return the witnesses, times and value joins of the last push by table."""
    return {
        "batch_binding": pushed.bindings.select(["doc", "pair", "node1", "node2", "key"]),
        "batch_times": pushed.times.select(["doc", "ts"]),
        "vj1": pushed.joins(FORWARD),
        "vj2": pushed.joins(BACKWARD),
    }


def _seen(tables: Mapping[str, pa.Table], documents: pa.Table, pairs: set[int] | None) -> Tables:
    """Return tables with only the rows of given documents and pairs; all if `pairs` is None."""
    found = dict(tables)
    if pairs is None:
        return found
    seen, own = documents["doc"], pa.array(sorted(pairs), pa.int32())
    visible = {"doc": seen, "doc1": seen, "doc2": seen, "pair": own, "pair1": own, "pair2": own}
    for name, table in found.items():
        for column in visible.keys() & set(table.column_names):
            table = table.filter(pc.is_in(table[column], visible[column]))
        found[name] = table
    return found


def _templates(
    look: ReadSnapshot,
    rows: Mapping[int, JoinRow],
    documents: pa.Table,
    last: Mapping[int, pa.Table],
) -> Tables:
    """Return the tables of R_T, of its templates, and of each template's R_out of the last push."""
    numbers = {row.template for row in rows.values()}
    r_t = pa.table(
        {
            "template": pa.array([row.template for row in rows.values()], pa.int32()),
            "qid": pa.array(rows, pa.int32()),
            "pairs": pa.array([row.pairs for row in rows.values()], pa.list_(pa.int32())),
            "op": pa.array([row.relation.operator.number for row in rows.values()], pa.int8()),
            "wl": pa.array([row.relation.upper for row in rows.values()], pa.int64()),
        }
    )
    graphs = template_graphs(look.store)
    chosen = pa.array(sorted(numbers), pa.int32())
    found = {"r_t": r_t, "template": graphs.filter(pc.is_in(graphs["id"], chosen))}
    for number, out in last.items():
        if number in numbers:
            kept = pc.is_in(out["qid"].cast(pa.int32()), r_t["qid"])
            for column in ("doc1", "doc2"):
                kept = pc.and_(kept, pc.is_in(out[column].cast(pa.int64()), documents["doc"]))
            found[f"out_{number}"] = out.filter(kept)
    return found


def _readers(look: ReadSnapshot, names: Sequence[str], viewer: Account) -> Tables:
    """Return the tables `reading` (subscriptions and streams they read) and `known_stream`."""
    readings, streams = look.readings, look.streams
    if not viewer.is_operator:
        readings = readings.filter(pc.is_in(readings["subscription"], pa.array(names, pa.string())))
        readings = _own_names(readings, viewer, "subscription", "stream")
        own = pc.starts_with(streams["stream"], viewer.qualify(""))
        public = pc.invert(pc.match_substring_regex(streams["stream"], r"^_[0-9]+\."))
        streams = _own_names(streams.filter(pc.or_(own, public)), viewer, "stream")
    return {"reading": readings, "known_stream": streams}


def _own_names(table: pa.Table, viewer: Account, *columns: str) -> pa.Table:
    """Return a table whose columns of the given names are without the viewer's prefix."""
    for name in columns:
        at = table.column_names.index(name)
        pattern = f"^{viewer.qualify('').replace('.', '[.]')}"
        shown = pc.replace_substring_regex(table[name], pattern, "")
        table = table.set_column(at, name, shown)
    return table


def _renamed(table: pa.Table, viewer: Account) -> pa.Table:
    """Return a table of subscriptions with the owner's names, and queries as he wrote them."""
    table = _own_names(table, viewer, "name", "publish")
    at = table.column_names.index("query")
    return table.set_column(at, "query", _as_written(table["query"], viewer))


def _as_written(texts: pa.ChunkedArray, viewer: Account) -> pa.ChunkedArray:
    """Return texts without the viewer's prefix before names."""
    pattern = rf"(^|[^\w.]){viewer.qualify('').replace('.', '[.]')}"
    return pc.replace_substring_regex(texts, pattern, r"\1")


def _numbered(tables: Tables) -> Tables:
    """Renumber templates and joins from 1 in order of subscription."""
    used = [tables[name]["qid"].to_pylist() for name in ("subscription", "retired", "r_t")]
    templates = _in_order(tables["template"]["id"].to_pylist())
    qids = _in_order(qid for each in used for qid in each)
    found: Tables = {}
    for name, table in tables.items():
        if name.startswith("out_"):
            name = f"out_{templates[int(name[4:])]}"
        for column, numbers in (("template", templates), ("qid", qids), ("id", templates)):
            if column in table.column_names and (column != "id" or name == "template"):
                table = _mapped(table, column, numbers)
        found[name] = table
    return found


def _in_order(numbers: Iterable[int]) -> dict[int, int]:
    return {number: at for at, number in enumerate(dict.fromkeys(numbers), 1)}


def _mapped(table: pa.Table, column: str, numbers: Mapping[int, int]) -> pa.Table:
    """Return a table with a column's numbers mapped by `numbers`, whose values are 1, 2, ...

    A number that is not in `numbers`, such as 0, becomes 0.
    """
    known = pa.array(numbers, table.schema.field(column).type)
    places = pc.index_in(table[column], value_set=known)
    shown = pc.fill_null(pc.add(places, 1), 0)
    return table.set_column(table.column_names.index(column), column, shown)


def _anonymous(directory: Path | None) -> int:
    """Return the descriptor of an unlinked file in `directory`, in memory if that is None."""
    if directory is None:
        return os.memfd_create("snapshot", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        return os.dup(file.fileno())
