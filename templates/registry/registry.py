"""The registry of joins: variables, pairs, templates, and R_T (Hong 2009, section 6.4.3).

Every distinct join is one row of its template's R_T, for all its subscribers;
uses are counted, and unused rows are dropped.  Memory is the index, the storage
the source of truth: `load` rebuilds the one from the other.  There the rows of all R_T are one
relation, `r_t`; it has no value joins, which follow from the pairs.

Added rows are counted and indexed as columns on first use, all of a batch together,
by the same code that reads R_T after a restart.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from templates.columns.columns import Column, pack, table_of
from templates.model.join_graph import (
    INFINITE,
    Edge,
    JoinGraph,
    Node,
    TemporalRelation,
    relation_of,
)
from templates.model.relations import Pair
from templates.model.template import Template, Templates, embedding
from templates.registry.members import Members, Row, RowColumns, TemplateIndex
from templates.registry.variable_pairs import VariablePairs, WitnessRetention
from templates.storage import RELATIONS, Storage, scan

if TYPE_CHECKING:
    from templates.registry.text_edges import TextEdges


UNDESIGNATED = -1
"""The designated equality of a row of R_T without one."""


class RowOfRT(NamedTuple):
    """The place of a join: its row in R_T, and the node at each position of the template."""

    template: int
    qid: int
    order: tuple[int, ...]


class DesignatedRows(NamedTuple):
    """The rows of R_T that are evaluated elsewhere, in order, and their longest retention."""

    rows: Column
    keep: int

    def oldest(self, clock: int) -> int:
        """Return the time from which on documents may be joined there; INFINITE if none is."""
        return INFINITE if self.keep < 0 else clock - self.keep


class Registry:
    """All registered joins, shared as far as they are equal."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.templates = Templates()
        self.members: dict[int, Members] = {}
        self.firing = TemplateIndex()
        self._new: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        self.pairs = VariablePairs(storage, self._new)
        self.retention = WitnessRetention()
        self.texts: TextEdges | None = None  # made when a row compares texts
        self._qids: dict[Row, int] = {}
        self._rows: dict[int, Row] = {}
        self._uses: Counter[int] = Counter()
        self._leads: dict[int, int] = {}  # of the rows that have a designated equality
        self._elsewhere: DesignatedRows | None = None  # of these rows; None: to be made
        self._next_qid = 1
        self._fresh: dict[int, list[int]] = {}  # rows that are not counted yet, by template

    # -- Adding and removing ---------------------------------------------------------------

    def add(
        self,
        reduced: JoinGraph,
        variables: Sequence[str],
        relation: TemporalRelation,
        lateness: int = 0,
        *,
        apart: bool = False,
    ) -> RowOfRT:
        """Register a join and return its place; `save` makes it durable.

        Reads of pairs and rows may omit it until `take_changed` or `save`.

        `reduced` is the join graph's minor, `variables` are the canonical
        definitions of its nodes; `lateness` is in ticks;
        `apart` is guaranteed by the caller, see `Row`.
        """
        numbers = [self.pairs.variable(one) for one in variables]
        template = self._template(reduced)
        order = embedding(template.graph, reduced, numbers)
        assert order is not None, "a minor always embeds into its own template"
        ends = [(numbers[order[a]], numbers[order[b]]) for a, b in template.graph.pairs]
        numbered = tuple([self.pairs.pair(one) for one in ends])
        row = Row(template.number, numbered, relation, relation.keep(lateness), apart)
        placed_at = self._qids.get(row) or self._insert(row)
        self._uses[placed_at] += 1
        return RowOfRT(template.number, placed_at, order)

    def remove(self, qid: int) -> tuple[int, ...]:
        """Remove one use of a join and return the pairs that are unused now.

        Rows that were added before are written.
        """
        self.save()
        self._uses[qid] -= 1
        if self._uses[qid]:
            return ()
        del self._uses[qid]
        if self._leads.pop(qid, None) is not None:
            self._elsewhere = None
        row = self._rows.pop(qid)
        del self._qids[row]
        self._storage.discard("r_t", pa.table({"qid": [qid]}))
        members = self.members[row.template]
        members.remove(qid, row)
        self._count(members, _columns(members, [_stored(qid, row)]), -1)
        if members.two_sided:
            self.retention.shorten({pair: self._longest_keep(pair) for pair in row.pairs})
        if not any(members.columns):
            self._drop_template(row.template)
        return self.pairs.drop_unused(row.pairs)

    def save(self) -> None:
        """Write the rows added since the last time."""
        self._settle()
        for relation, rows in self._new.items():
            self._storage.append(relation, table_of(rows, RELATIONS[relation]))
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

    def places(self) -> tuple[int, int]:
        """Return the numbers of rows evaluated elsewhere and here; thread-safe."""
        elsewhere = len(self._leads)
        return elsewhere, max(0, len(self._rows) - elsewhere)

    # -- Designated equalities -------------------------------------------------------------

    def lead(self, qid: int) -> int:
        """Return the designated equality of a row; `UNDESIGNATED` if it has none."""
        return self._leads.get(qid, UNDESIGNATED)

    def designate(self, leads: Mapping[int, int]) -> None:
        """Store the designated equalities of rows that have none, by row.

        One is a place among the template's equalities.  It is never replaced: documents are divided
        by its values, and the parts that hold kept documents would no longer be those that newer
        ones are sent to.
        """
        self.save()
        self._leads.update(leads)
        self._store_leads(leads)

    def withdraw(self, qids: Collection[int]) -> None:
        """Store that rows have no designated equality any more."""
        for qid in qids:
            del self._leads[qid]
        self._store_leads(qids)

    def _store_leads(self, qids: Collection[int]) -> None:
        self._elsewhere = None
        self._storage.discard("r_t", pa.table({"qid": pa.array(qids, pa.int32())}))
        self._storage.append("r_t", self.stored(list(qids))["r_t"])

    @property
    def elsewhere(self) -> DesignatedRows:
        """The rows that have a designated equality: documents are divided by it."""
        if self._elsewhere is None:
            keep = max((self._rows[qid].keep for qid in self._leads), default=-1)
            self._elsewhere = DesignatedRows(np.array(sorted(self._leads), np.int64), keep)
        return self._elsewhere

    # -- Parts -----------------------------------------------------------------------------

    def _template(self, reduced: JoinGraph) -> Template:
        template = self.templates.of(reduced)
        if template.number not in self.members:
            self._know_template(template)
            self._new["template"].append((template.number, text_of(template.graph)))
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
            rows = [_stored(qid, self._rows[qid]) for qid in qids]
            self._new["r_t"] += rows
            self._know_rows(members, _columns(members, rows))
        self._fresh.clear()

    def _know_rows(self, members: Members, rows: RowColumns) -> None:
        """Count and index rows of R_T."""
        members.add(rows)
        self._count(members, rows, 1)

    def _count(self, members: Members, rows: RowColumns, by: int) -> None:
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

    def _longest_keep(self, pair: int) -> int:
        """Return the longest retention of the rows with a pair; -1 if no witnesses are kept."""
        reached = self.firing.reached([pair], two_sided=True)
        return max((members.registered.longest_keep(pair) for members in reached), default=-1)

    def _drop_template(self, number: int) -> None:
        self.templates.drop(self.members.pop(number).template)
        self._storage.discard("template", pa.table({"id": [number]}))

    # -- Restart and replicas --------------------------------------------------------------

    def load(self, uses: Iterable[tuple[int, int]], taken: int = 0) -> None:
        """Rebuild the index from the storage; `uses` are (qid, number of subscriptions).

        New rows get numbers above `taken`, which kept results of removed rows have.
        """
        names = ("variable", "pair", "template", "r_t")
        self.add_stored({name: scan(self._storage, name) for name in names}, uses)
        self._next_qid = max(taken, *self._rows, 0) + 1

    def stored(self, qids: Sequence[int]) -> dict[str, pa.Table]:
        """Return rows of R_T with what they refer to, as the storage has them, by relation."""
        rows = [self._rows[qid] for qid in qids]
        templates = sorted({row.template for row in rows})
        pairs = self.pairs.named(sorted({pair for row in rows for pair in row.pairs}))
        variables = dict(variable for _, *both in pairs for variable in both)
        found: dict[str, Sequence[Sequence[object]]] = {
            "variable": list(variables.items()),
            "pair": [(number, one, other) for number, (one, _), (other, _) in pairs],
            "template": [(n, text_of(self.members[n].template.graph)) for n in templates],
            "r_t": [_stored(qid, row, self.lead(qid)) for qid, row in zip(qids, rows, strict=True)],
        }
        return {name: table_of(of, RELATIONS[name]) for name, of in found.items()}

    def add_stored(
        self, relations: Mapping[str, pa.Table], uses: Iterable[tuple[int, int]]
    ) -> None:
        """Add rows that have their numbers, with their uses, as `load` does.

        Variables, pairs and templates may be known.
        """
        self._uses.update(dict(uses))
        self.pairs.add_stored(relations["variable"], relations["pair"])
        every = relations["r_t"].sort_by([("template", "ascending"), ("qid", "ascending")])
        of = every["template"].to_numpy()
        graphs = relations["template"].sort_by("id").to_pydict()
        for number, graph in zip(graphs["id"], graphs["graph"], strict=True):
            if number not in self.members:
                template = Template(number, graph_of(graph))
                self.templates.restore(template)
                self._know_template(template)
            first, last = np.searchsorted(of, (number, number + 1)).tolist()
            if first < last:
                self._add_rows(self.members[number], every.slice(first, last - first))

    def _add_rows(self, members: Members, stored: pa.Table) -> None:
        pairs = stored["pairs"].combine_chunks().flatten().to_numpy()
        places = pairs.reshape(stored.num_rows, -1).T.tolist()
        columns = stored.select(("qid", "op", "lower", "wl", "keep", "apart")).to_pydict()
        qids = columns["qid"]
        relations = map(relation_of, columns["op"], columns["lower"], columns["wl"])
        fields = (zip(*places, strict=True), relations, columns["keep"], columns["apart"])
        number = members.template.number
        rows = [Row(number, *row) for row in zip(*fields, strict=True)]
        self._rows.update(zip(qids, rows, strict=True))
        self._qids.update(zip(rows, qids, strict=True))
        designated = stored.filter(pa.array(stored["lead"].to_numpy() != UNDESIGNATED))
        leads = (designated[name].to_pylist() for name in ("qid", "lead"))
        self._leads.update(zip(*leads, strict=True))
        self._elsewhere = None
        self._know_rows(members, _columns(members, list(map(_stored, qids, rows))))


def _stored(qid: int, row: Row, lead: int = UNDESIGNATED) -> tuple[object, ...]:
    """Return a row of R_T with the columns of `RELATIONS`."""
    relation = row.relation
    bounds = relation.operator.number, relation.lower, relation.upper
    return row.template, qid, row.pairs, *bounds, row.keep, row.apart, lead


def _columns(members: Members, stored: Iterable[tuple[object, ...]]) -> RowColumns:
    """Return stored rows of R_T of one template as its columns, with their value joins."""
    names = RELATIONS["r_t"].names
    columns: dict[str, Any] = dict(zip(names, zip(*stored, strict=True), strict=True))
    places = list(zip(*columns["pairs"], strict=True))
    for place, column in enumerate(places):
        columns[f"p{place}"] = column
    for edge, (left, right) in enumerate(members.template.graph.value_joins):
        columns[f"e{edge}"] = list(map(pack, places[left], places[right]))
    return columns


def text_of(graph: JoinGraph) -> str:
    """Return the text of a join graph, which `graph_of` reads."""
    nodes = [[n.side, n.parent, n.output] for n in graph.nodes]
    return json.dumps([nodes, [[e.left, e.right, e.operator] for e in graph.edges]])


def graph_of(text: str) -> JoinGraph:
    """Return the join graph of a text in the relation `template`."""
    nodes, edges = json.loads(text)
    return JoinGraph(tuple(Node(*node) for node in nodes), tuple(Edge(*edge) for edge in edges))
