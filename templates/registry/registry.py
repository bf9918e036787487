"""The registry of joins: variables, pairs, templates, and R_T (Hong 2009, section 6.4.3).

Every distinct join is one row of its template's R_T, for all its subscribers;
uses are counted, and unused rows are dropped.  Memory is the index, the database
the source of truth: `load` rebuilds the one from the other.

Added rows are counted and indexed as columns on first use, all of a batch together,
by the same code that reads R_T after a restart.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pyarrow as pa

from templates.columns.arrow_tables import Lender
from templates.columns.columns import pack
from templates.model.join_graph import Edge, JoinGraph, Node
from templates.model.relations import INFINITE, OPERATORS, Pair
from templates.model.template import Template, Templates, embedding
from templates.registry.members import Firing, Members, Row, Rows
from templates.registry.variable_pairs import VariablePairs, WitnessRetention

if TYPE_CHECKING:
    from templates.registry.text_edges import TextEdges

SCHEMA = """
CREATE TABLE state.variable(id INTEGER, definition VARCHAR);
CREATE TABLE state.pair(id INTEGER, var1 INTEGER, var2 INTEGER);
CREATE TABLE state.template(id INTEGER, graph VARCHAR);
CREATE TABLE state.value(key UBIGINT, strVal VARCHAR);
CREATE TABLE state.binding(
    doc BIGINT, pair INTEGER, node1 INTEGER, node2 INTEGER, key UBIGINT);
CREATE TABLE state.times(
    doc BIGINT, start BIGINT, ts BIGINT, clock BIGINT, rank BIGINT, base BIGINT);
"""


class Placed(NamedTuple):
    """The place of a join: its row in R_T, and the node at each position of the template."""

    template: int
    qid: int
    order: tuple[int, ...]


class Registry:
    """All registered joins, shared as far as they are equal.

    `lender` inserts the rows; it is that of the connection, if somebody else lends there, too.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, lender: Lender | None = None) -> None:
        self._connection = connection
        self.lender = Lender(connection) if lender is None else lender
        self.templates = Templates()
        self.members: dict[int, Members] = {}
        self.firing = Firing()
        self._new: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        self.pairs = VariablePairs(connection, self._new)
        self.retention = WitnessRetention()
        self.texts: TextEdges | None = None  # made when a row compares texts
        self._qids: dict[Row, int] = {}
        self._rows: dict[int, Row] = {}
        self._uses: Counter[int] = Counter()
        self._next_qid = 1
        self._fresh: dict[int, list[int]] = {}  # rows that are not counted yet, by template

    # -- Adding and removing ---------------------------------------------------------------

    def add(
        self,
        reduced: JoinGraph,
        variables: Sequence[str],
        operator: str,
        window: int | None,
        lateness: int = 0,
        *,
        apart: bool = False,
    ) -> Placed:
        """Register a join and return its place; `save` makes it durable.

        Reads of pairs and rows may omit it until `take_changed` or `save`.

        `reduced` is the join graph's minor, `variables` are the canonical
        definitions of its nodes; `window` and `lateness` are in ticks, None is INF;
        `apart` is guaranteed by the caller, see `Row`.
        """
        numbers = [self.pairs.variable(one) for one in variables]
        template = self._template(reduced)
        order = embedding(template.graph, reduced, numbers)
        assert order is not None, "a minor always embeds into its own template"
        ends = [(numbers[order[a]], numbers[order[b]]) for a, b in template.graph.pairs]
        numbered = tuple([self.pairs.pair(one) for one in ends])
        length = INFINITE if window is None else window
        keep = INFINITE if window is None else window + lateness
        row = Row(template.number, numbered, OPERATORS[operator], length, keep, apart)
        placed_at = self._qids.get(row) or self._insert(row)
        self._uses[placed_at] += 1
        return Placed(template.number, placed_at, order)

    def remove(self, qid: int) -> tuple[int, ...]:
        """Remove one use of a join and return the pairs that are unused now.

        Rows that were added before are written.
        """
        self.save()
        self._uses[qid] -= 1
        if self._uses[qid]:
            return ()
        del self._uses[qid]
        row = self._rows.pop(qid)
        del self._qids[row]
        self._connection.execute(f"DELETE FROM {r_t(row.template)} WHERE qid = ?", [qid])
        members = self.members[row.template]
        members.remove(qid, row)
        self._count(members, self._columns(members, [qid], [row]), -1)
        if not any(members.columns):
            self._drop_template(row.template)
        return self.pairs.drop_unused(row.pairs)

    def save(self) -> None:
        """Write the rows added since the last time."""
        self._settle()
        for table, rows in self._new.items():
            columns = list(zip(*rows, strict=True))
            named = {f"c{i}": column for i, column in enumerate(columns)}
            self.lender.insert(table, pa.table(named))
        self._new.clear()

    # -- What stage 1 and the processor need to know ---------------------------------------

    def take_changed(self) -> list[Pair]:
        """Return the pairs that were added, or became valued, since the last call."""
        self._settle()
        return self.pairs.take_changed()

    def row(self, qid: int) -> Row:
        """Return a row of R_T."""
        return self._rows[qid]

    def rows(self) -> dict[int, Row]:
        """Return all current rows of R_T; thread-safe."""
        return self._rows.copy()

    def __contains__(self, qid: int) -> bool:
        return qid in self._rows

    # -- Parts -----------------------------------------------------------------------------

    def _template(self, reduced: JoinGraph) -> Template:
        template = self.templates.of(reduced)
        if template.number not in self.members:
            self._know_template(template)
            columns = ", ".join(f"{name} {kind}" for name, kind in _r_t_columns(template.graph))
            self._connection.execute(f"CREATE TABLE {r_t(template.number)}({columns})")
            self._connection.execute(
                "INSERT INTO state.template (id, graph) VALUES (?, ?)",
                [template.number, text_of(template.graph)],
            )
        return template

    def _know_template(self, template: Template) -> None:
        self.members[template.number] = Members.of(template)

    def _insert(self, row: Row) -> int:
        qid, self._next_qid = self._next_qid, self._next_qid + 1
        self._rows[qid] = row
        self._qids[row] = qid
        self._fresh.setdefault(row.template, []).append(qid)
        return qid

    def _settle(self) -> None:
        """Count and index the rows added since the last call, which `save` writes."""
        for number, qids in self._fresh.items():
            members = self.members[number]
            columns = self._columns(members, qids, [self._rows[qid] for qid in qids])
            self._new[r_t(number)] += zip(*columns.values(), strict=True)
            self._know_rows(members, columns)
        self._fresh.clear()

    def _columns(self, members: Members, qids: Sequence[int], rows: Sequence[Row]) -> Rows:
        """Return rows of R_T as columns, in the order of its table."""
        _, pairs, *others = zip(*rows, strict=True)
        places = list(zip(*pairs, strict=True))
        edges = [
            list(map(pack, places[left], places[right]))
            for left, right in members.template.graph.value_joins
        ]
        return {
            "qid": qids,
            **{f"p{place}": column for place, column in enumerate(places)},
            **{f"e{place}": column for place, column in enumerate(edges)},
            **dict(zip(("op", "wl", "keep", "apart"), others, strict=True)),
        }

    def _know_rows(self, members: Members, rows: Rows) -> None:
        """Count and index rows of R_T."""
        members.add(rows)
        self._count(members, rows, 1)

    def _count(self, members: Members, rows: Rows, by: int) -> None:
        """Count rows in their pairs."""
        graph = members.template.graph
        columns = [rows[f"p{place}"] for place, _ in enumerate(graph.pairs)]
        counted = [Counter(pairs) for pairs in columns]
        for counts, (_, child) in zip(counted, graph.pairs, strict=True):
            self.pairs.count(counts, by, child in graph.compared)
        members.count(counted, by)
        self.retention.count(graph, columns, rows, by)
        if graph.text_joins:
            if self.texts is None:
                from templates.registry.text_edges import TextEdges  # few queries compare texts

                self.texts = TextEdges()
            self.texts.count(graph, rows, by)
        if by > 0:
            self.firing.add(members, [pair for counts in counted for pair in counts])
        else:
            self.firing.remove(members, [pair for counts in counted for pair in counts])

    def _drop_template(self, number: int) -> None:
        self.templates.drop(self.members.pop(number).template)
        self._connection.execute(f"DROP TABLE {r_t(number)}")
        self._connection.execute("DELETE FROM state.template WHERE id = ?", [number])

    # -- Restart ---------------------------------------------------------------------------

    def load(self, uses: Iterable[tuple[int, int]], taken: int = 0) -> None:
        """Rebuild the index from the database; `uses` are (qid, number of subscriptions).

        New rows get numbers above `taken`, which kept results of removed rows have.
        """
        self.pairs.load()
        graphs = self._connection.execute("SELECT id, graph FROM state.template ORDER BY id")
        for number, graph in graphs.fetchall():
            template = Template(number, graph_of(graph))
            self.templates.restore(template)
            self._know_template(template)
            names = ", ".join(name for name, _ in _r_t_columns(template.graph))
            found = self._connection.execute(f"SELECT {names} FROM {r_t(number)}").fetchnumpy()
            self._load_rows(template, {name: c.tolist() for name, c in found.items()})
        self._uses.update(dict(uses))
        self._next_qid = max(taken, *self._rows, 0) + 1

    def _load_rows(self, template: Template, columns: Rows) -> None:
        if not columns["qid"]:
            return
        pairs = zip(*(columns[f"p{i}"] for i, _ in enumerate(template.graph.pairs)), strict=True)
        others = (columns[name] for name in ("op", "wl", "keep", "apart"))
        rows = [Row(template.number, *row) for row in zip(pairs, *others, strict=True)]
        self._rows.update(zip(columns["qid"], rows, strict=True))
        self._qids.update(zip(rows, columns["qid"], strict=True))
        self._know_rows(self.members[template.number], columns)


def r_t(template: int) -> str:
    """Return the name of the table that stores a template's R_T."""
    return f"state.t_{template}"


def _r_t_columns(graph: JoinGraph) -> Iterator[tuple[str, str]]:
    """Yield the columns of the table of a template's R_T, each with its type."""
    yield "qid", "INTEGER"
    yield from ((f"p{place}", "INTEGER") for place, _ in enumerate(graph.pairs))
    yield from ((f"e{place}", "BIGINT") for place, _ in enumerate(graph.equalities))
    yield from (("op", "TINYINT"), ("wl", "BIGINT"), ("keep", "BIGINT"), ("apart", "BOOLEAN"))


def text_of(graph: JoinGraph) -> str:
    """Return the text of a join graph, which `graph_of` reads."""
    nodes = [[n.side, n.parent, n.output] for n in graph.nodes]
    return json.dumps([nodes, [[e.left, e.right, e.operator] for e in graph.edges]])


def graph_of(text: str) -> JoinGraph:
    """Return the join graph of a text in `state.template`."""
    nodes, edges = json.loads(text)
    return JoinGraph(tuple(Node(*node) for node in nodes), tuple(Edge(*edge) for edge in edges))
