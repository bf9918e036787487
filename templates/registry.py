"""What is registered: variables, pairs, templates, and R_T (Hong 2009, section 6.4.3).

Every distinct join is one row of its template's R_T, whoever asked for it;
uses are counted, and what nothing uses any more is dropped.  Memory is the
index, the database the truth: `load` rebuilds the one from the other.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from templates.conjunctive import OPERATORS
from templates.joingraph import Edge, JoinGraph, Node
from templates.relations import INFINITE, Pair
from templates.template import Template, Templates, embedding
from templates.views import Bounds, both

SCHEMA = """
CREATE TABLE state.variable(id INTEGER, definition VARCHAR);
CREATE TABLE state.pair(id INTEGER, var1 INTEGER, var2 INTEGER);
CREATE TABLE state.template(id INTEGER, graph VARCHAR);
CREATE TABLE state.value(key UBIGINT, strVal VARCHAR);
CREATE TABLE state.binding(
    doc BIGINT, pair INTEGER, node1 INTEGER, node2 INTEGER, key UBIGINT,
    start BIGINT, ts BIGINT, clock BIGINT, rank BIGINT, base BIGINT, first BIGINT);
"""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a join was put: its row in R_T, and which of its nodes takes each position."""

    template: int
    qid: int
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of R_T: a distinct join.

    `apart` says that no two of its value joins can hold between the same two
    nodes, so that documents which match share at least two values.
    """

    template: int
    pairs: tuple[int, ...]
    operator: int
    window: int
    keep: int
    apart: bool


@dataclass(slots=True)
class Members:
    """The rows of one template, as sets for each column, to see quickly whether it can fire."""

    template: Template
    columns: list[Counter[int]]
    joins: int = 0  # rows with the operator JOIN
    together: int = 0  # rows that are not `apart`
    alone: Counter[tuple[int, int]] = field(default_factory=Counter)  # see `views.value_joins`
    changes: int = 0
    others: bool = False  # whether some pair ends in a node without an equality

    def __post_init__(self) -> None:
        equal = self.template.graph.compared("=")
        self.others = any(child not in equal for _, child in self.template.graph.pairs())

    @property
    def several(self) -> bool:
        """Whether the template's query looks only at documents with several value joins."""
        return len(self.template.graph.equalities) > 1 and not self.together

    def can_fire(self, left: set[int], right: set[int]) -> bool:
        """Whether for each place of the template some pair that is used there has arrived."""
        graph = self.template.graph
        return all(
            not column.keys().isdisjoint(right if graph.nodes[child].side else left)
            for column, (_, child) in zip(self.columns, graph.pairs(), strict=True)
        )

    def _alone(self, row: Row) -> list[tuple[int, int]]:
        """Return the pairs of variables by one join of which a row may be satisfied."""
        joins = self.template.graph.value_joins()
        if row.apart and len(joins) > 1:
            return []
        return [(row.pairs[left], row.pairs[right]) for left, right in joins]

    def count(self, row: Row, by: int) -> None:
        """Add or take away one row."""
        self.changes += 1
        for variables in self._alone(row):
            self.alone[variables] += by
            if not self.alone[variables]:
                del self.alone[variables]
        for column, pair in zip(self.columns, row.pairs, strict=True):
            column[pair] += by
            if not column[pair]:
                del column[pair]
        self.joins += by * (row.operator == OPERATORS["JOIN"])
        self.together += by * (not row.apart)


@dataclass(slots=True)
class _PairUse:
    number: int
    rows: int = 0
    valued: int = 0
    keeps: Counter[int] = field(default_factory=Counter)


class Registry:
    """All registered joins, shared as far as they are equal."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.templates = Templates()
        self.members: dict[int, Members] = {}
        self._variables: dict[str, int] = {}
        self._definitions: dict[int, str] = {}
        self._pairs: dict[tuple[int, int], _PairUse] = {}
        self._pair_names: dict[int, tuple[int, int]] = {}
        self._qids: dict[Row, int] = {}
        self._rows: dict[int, Row] = {}
        self._uses: Counter[int] = Counter()
        self._next_variable = self._next_pair = self._next_qid = 1
        self._changed: set[int] = set()
        self._new: dict[str, list[tuple[object, ...]]] = defaultdict(list)

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
        """Register a join and return where it was put; `save` makes it durable.

        `reduced` is the join graph's minor, `variables` are the canonical
        definitions of its nodes; `window` and `lateness` are in ticks, None is INF;
        `apart` is a promise of the caller's, see `Row`.
        """
        numbers = [self._variable(definition) for definition in variables]
        template = self._template(reduced)
        order = embedding(template.graph, reduced, numbers)
        assert order is not None, "a minor always embeds into its own template"
        placed = tuple(numbers[i] for i in order)
        pairs = [self._pair(placed[a], placed[b]) for a, b in template.graph.pairs()]
        length = INFINITE if window is None else window
        keep = INFINITE if window is None else window + lateness
        numbered = tuple(pair.number for pair in pairs)
        row = Row(template.number, numbered, OPERATORS[operator], length, keep, apart)
        qid = self._qids.get(row) or self._insert(row)
        self._uses[qid] += 1
        return Placed(template.number, qid, order)

    def remove(self, qid: int) -> tuple[int, ...]:
        """Take one use of a join away and return the pairs that nothing uses any more."""
        self._uses[qid] -= 1
        if self._uses[qid]:
            return ()
        del self._uses[qid]
        row = self._rows.pop(qid)
        del self._qids[row]
        self._connection.execute(f"DELETE FROM {r_t(row.template)} WHERE qid = ?", [qid])
        self._count(row, -1)
        if not any(self.members[row.template].columns):
            self._drop_template(row.template)
        return self._drop_pairs(row)

    def save(self) -> None:
        """Write what was added since the last time."""
        for table, rows in self._new.items():
            columns = list(zip(*rows, strict=True))
            batch = pa.table({f"c{i}": column for i, column in enumerate(columns)})
            self._connection.register("new_rows", batch)
            self._connection.execute(f"INSERT INTO {table} SELECT * FROM new_rows")
        self._new.clear()

    # -- What stage 1 and the processor need to know ---------------------------------------

    def take_changed(self) -> list[Pair]:
        """Return the pairs that were added, or became valued, since the last time."""
        changed = [self.describe(number) for number in sorted(self._changed)]
        self._changed.clear()
        return changed

    def row(self, qid: int) -> Row:
        """Return a row of R_T."""
        return self._rows[qid]

    def sharers(self, qid: int) -> int:
        """Return how many registered joins share a row."""
        return self._uses[qid]

    def is_kept(self, pair: int) -> bool:
        """Whether some join of two sides needs the witnesses of a pair."""
        names = self._pair_names.get(pair)
        return names is not None and bool(self._pairs[names].keeps)

    def passing(self, pairs: Iterable[int]) -> frozenset[int]:
        """Return those of some pairs that only filters use: their witnesses are not kept."""
        return frozenset(pair for pair in pairs if not self.is_kept(pair))

    def bounds(self) -> Bounds:
        """Return what no registered join of two sides exceeds."""
        joins = [m for m in self.members.values() if m.template.graph.two_sided]
        keep = max((max(use.keeps) for use in self._pairs.values() if use.keeps), default=0)
        return Bounds(keep, keep, not any(m.joins for m in joins))

    def alone(self) -> pa.Table:
        """Return the pairs of variables that may satisfy a query by one value join."""
        pairs = sorted({pair for members in self.members.values() for pair in members.alone})
        columns = list(zip(*pairs, strict=True)) or [(), ()]
        return pa.table(
            {
                "pair1": pa.array(columns[0], pa.int32()),
                "pair2": pa.array(columns[1], pa.int32()),
            }
        )

    def keeps(self) -> dict[int, int]:
        """Return, for each pair, how long its witnesses are kept, in ticks."""
        return {use.number: max(use.keeps) for use in self._pairs.values() if use.keeps}

    def describe(self, number: int) -> Pair:
        """Return a pair of variables by its number."""
        first, second = self._pair_names[number]
        valued = self._pairs[first, second].valued > 0
        return Pair(number, self._definitions[first], self._definitions[second], valued)

    # -- Parts -----------------------------------------------------------------------------

    def _variable(self, definition: str) -> int:
        number = self._variables.get(definition)
        if number is None:
            number, self._next_variable = self._next_variable, self._next_variable + 1
            self._know_variable(number, definition)
            self._new["state.variable"].append((number, definition))
        return number

    def _know_variable(self, number: int, definition: str) -> None:
        self._variables[definition] = number
        self._definitions[number] = definition

    def _pair(self, first: int, second: int) -> _PairUse:
        use = self._pairs.get((first, second))
        if use is None:
            use = self._pairs[first, second] = _PairUse(self._next_pair)
            self._next_pair += 1
            self._pair_names[use.number] = (first, second)
            self._new["state.pair"].append((use.number, first, second))
        return use

    def _template(self, reduced: JoinGraph) -> Template:
        template = self.templates.of(reduced)
        if template.number not in self.members:
            self._know_template(template)
            graph = template.graph
            columns = "".join(f"p{i} INTEGER, " for i, _ in enumerate(graph.pairs()))
            columns += "".join(f"e{i} BIGINT, " for i, _ in enumerate(graph.equalities))
            self._connection.execute(
                f"CREATE TABLE {r_t(template.number)}"
                f"(qid INTEGER, {columns}op TINYINT, wl BIGINT, keep BIGINT, apart BOOLEAN)"
            )
            self._new["state.template"].append((template.number, _to_json(template.graph)))
        return template

    def _know_template(self, template: Template) -> None:
        columns: list[Counter[int]] = [Counter() for _ in template.graph.pairs()]
        self.members[template.number] = Members(template, columns)

    def _insert(self, row: Row) -> int:
        qid, self._next_qid = self._next_qid, self._next_qid + 1
        self._know_row(qid, row)
        self._new[r_t(row.template)].append(
            (
                qid,
                *row.pairs,
                *(both(row.pairs[a], row.pairs[b]) for a, b in self._joins(row)),
                row.operator,
                row.window,
                row.keep,
                row.apart,
            ),
        )
        return qid

    def _joins(self, row: Row) -> tuple[tuple[int, int], ...]:
        return self.members[row.template].template.graph.value_joins()

    def _know_row(self, qid: int, row: Row) -> None:
        self._rows[qid] = row
        self._qids[row] = qid
        self._count(row, 1)

    def _count(self, row: Row, by: int) -> None:
        """Count a row in its template and its pairs."""
        members = self.members[row.template]
        members.count(row, by)
        compared = members.template.graph.compared()
        for number, (_, child) in zip(row.pairs, members.template.graph.pairs(), strict=True):
            use = self._pairs[self._pair_names[number]]
            use.rows += by
            before = use.valued
            use.valued += by * (child in compared)
            if by > 0 and (use.rows == 1 or (before == 0) != (use.valued == 0)):
                self._changed.add(number)
            if members.template.graph.two_sided:
                use.keeps[row.keep] += by
                if not use.keeps[row.keep]:
                    del use.keeps[row.keep]

    def _drop_template(self, number: int) -> None:
        self.templates.drop(self.members.pop(number).template)
        self._connection.execute(f"DROP TABLE {r_t(number)}")
        self._connection.execute("DELETE FROM state.template WHERE id = ?", [number])

    def _drop_pairs(self, row: Row) -> tuple[int, ...]:
        dropped = []
        for number in dict.fromkeys(row.pairs):
            names = self._pair_names[number]
            if not self._pairs[names].rows:
                del self._pairs[names], self._pair_names[number]
                self._changed.discard(number)
                self._connection.execute("DELETE FROM state.pair WHERE id = ?", [number])
                dropped.append(number)
        if dropped:
            self._drop_variables()
        return tuple(dropped)

    def _drop_variables(self) -> None:
        used = {number for names in self._pair_names.values() for number in names}
        for number in [n for n in self._definitions if n not in used]:
            del self._variables[self._definitions.pop(number)]
            self._connection.execute("DELETE FROM state.variable WHERE id = ?", [number])

    # -- Restart ---------------------------------------------------------------------------

    def load(self, uses: Iterable[tuple[int, int]]) -> None:
        """Rebuild the index from the database; `uses` are (qid, number of subscriptions)."""
        fetch = self._fetch
        for number, definition in fetch("SELECT id, definition FROM state.variable"):
            self._know_variable(number, definition)
        for number, first, second in fetch("SELECT id, var1, var2 FROM state.pair ORDER BY id"):
            self._pair_names[number] = (first, second)
            self._pairs[first, second] = _PairUse(number)
        for number, graph in fetch("SELECT id, graph FROM state.template ORDER BY id"):
            template = Template(number, _from_json(graph))
            self.templates.restore(template)
            self._know_template(template)
            width = len(list(template.graph.pairs()))
            for qid, *numbers, operator, window, keep, apart in fetch(
                f"SELECT * FROM {r_t(number)}"
            ):
                pairs = tuple(numbers[:width])
                self._know_row(qid, Row(number, pairs, operator, window, keep, apart))
        self._uses.update(dict(uses))
        self._next_variable = max(self._definitions, default=0) + 1
        self._next_pair = max(self._pair_names, default=0) + 1
        self._next_qid = max(self._rows, default=0) + 1

    def _fetch(self, query: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(query).fetchall()


def r_t(template: int) -> str:
    """Return the name of the table that stores a template's R_T."""
    return f"state.t_{template}"


def _to_json(graph: JoinGraph) -> str:
    nodes = [[n.side, n.parent, n.output] for n in graph.nodes]
    return json.dumps([nodes, [[e.left, e.right, e.operator] for e in graph.edges]])


def _from_json(text: str) -> JoinGraph:
    nodes, edges = json.loads(text)
    return JoinGraph(tuple(Node(*node) for node in nodes), tuple(Edge(*edge) for edge in edges))
