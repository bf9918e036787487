"""The registry of joins: variables, pairs, templates, and R_T (Hong 2009, section 6.4.3).

Every distinct join is one row of its template's R_T, for all its subscribers; uses are counted, and
unused rows are dropped.  Memory is the index, the storage the source of truth: `load` rebuilds the
one from the other.  There the rows of all R_T are one relation, `r_t`; it has no value joins, which
follow from the pairs.  Stage 1 binds pairs of adjacent variables; a row of R_T has one in each
place of its template.
"""

from __future__ import annotations

import json
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from templates.columns import Column, columns_of, grown, pack, table_of
from templates.model.join_graph import (
    INFINITE,
    LEFT,
    RIGHT,
    Edge,
    JoinGraph,
    Node,
    TemporalRelation,
    relation_of,
)
from templates.model.relations import Horizon, Pair
from templates.storage import RELATIONS, Storage, scan
from templates.template import (
    JoinRow,
    RowColumns,
    Template,
    TemplateIndex,
    TemplateRows,
    Templates,
    embedding,
)

if TYPE_CHECKING:
    from templates.text.text_comparisons import TextEdges


# Added rows are counted and indexed as columns on first use, all of a batch together, by the same
# code that reads R_T after a restart.

UNDESIGNATED = -1
"""Value in place of the designated equality (`Registry.designate`) of a row without one."""


class RowOfRT(NamedTuple):
    """The row of R_T of a join.

    `order` has for each node of the template the node of the join's minor.
    """

    template: int
    qid: int
    order: tuple[int, ...]


class DesignatedRows(NamedTuple):
    """The qids of R_T that other processes evaluate, ascending, and their longest retention."""

    rows: Column
    keep: int

    def oldest(self, clock: int) -> int:
        """Return the time, in ticks, of the oldest documents that these rows join at a clock.

        INFINITE without rows.
        """
        return INFINITE if self.keep < 0 else clock - self.keep


class Registry:
    """Registers joins: equal ones are one row of R_T, and share templates, variables and pairs."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.templates = Templates()
        self.members: dict[int, TemplateRows] = {}
        self.firing = TemplateIndex()
        self._new: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        self.pairs = VariablePairs(storage, self._new)
        self.retention = WitnessRetention()
        self.texts: TextEdges | None = None  # made when a row compares texts
        self._qids: dict[JoinRow, int] = {}
        self._rows: dict[int, JoinRow] = {}
        self._uses: Counter[int] = Counter()
        self._leads: dict[int, int] = {}  # by qid: the designated equality, where there is one
        self._elsewhere: DesignatedRows | None = None  # the keys of `_leads`; None: not made yet
        self._next_qid = 1
        self._fresh: dict[int, list[int]] = {}  # qids of rows that are not counted yet, by template

    # -- Adding and removing ---------------------------------------------------------------

    def add(
        self,
        reduced: JoinGraph,
        variables: Sequence[str],
        relation: TemporalRelation,
        lateness: int = 0,
    ) -> RowOfRT:
        """Register a join and return its row of R_T; `save` makes it durable.

        Reads of pairs and rows may omit it until `take_changed` or `save`.

        `reduced` is the join graph's minor, `variables` are the canonical definitions of its nodes;
        `lateness` is in ticks.
        """
        numbers = list(map(self.pairs.variable, variables))
        template = self.templates.of(reduced)
        if template.number not in self.members:
            self.members[template.number] = TemplateRows(template)
            self._new["template"].append((template.number, text_of(template.graph)))
        order = embedding(template.graph, reduced, numbers)
        assert order is not None, "a minor always embeds into its own template"
        ends = [(numbers[order[a]], numbers[order[b]]) for a, b in template.graph.pairs]
        numbered = tuple(map(self.pairs.pair, ends))
        row = JoinRow(template.number, numbered, relation, relation.keep(lateness))
        qid = self._qids.get(row)
        if qid is None:
            qid, self._next_qid = self._next_qid, self._next_qid + 1
            self._rows[qid] = row
            self._qids[row] = qid
            self._fresh.setdefault(row.template, []).append(qid)
        self._uses[qid] += 1
        return RowOfRT(template.number, qid, order)

    def remove(self, qid: int) -> tuple[int, ...]:
        """Remove one use of the join `qid`; return the pairs of variables that no join uses then.

        Rows of R_T that were added and not written yet are written first.
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
        members.remove(qid)
        self._count(members, _columns(members, [_stored(qid, row)]), -1)
        if members.two_sided:
            self.retention.shorten({pair: self._longest_keep(pair) for pair in row.pairs})
        if not any(members.columns):
            self._drop_template(row.template)
        return self.pairs.drop_unused(row.pairs)

    def save(self) -> None:
        """Write the rows of all relations that were added since the last call."""
        self._settle()
        for relation, rows in self._new.items():
            self._storage.append(relation, table_of(rows, RELATIONS[relation]))
        self._new.clear()

    # -- What stage 1 and the processor need to know ---------------------------------------

    def take_changed(self) -> list[Pair]:
        """Return the pairs that were added, or became valued, since the last call."""
        self._settle()
        return self.pairs.take_changed()

    def row(self, qid: int) -> JoinRow:
        """Return the row of R_T with a qid."""
        return self._rows[qid]

    def rows(self) -> dict[int, JoinRow]:
        """Return all current rows of R_T by qid; thread-safe."""
        return self._rows.copy()

    def __contains__(self, qid: int) -> bool:
        return qid in self._rows

    def places(self) -> tuple[int, int]:
        """Return two counts of rows of R_T: those that other processes evaluate, and the others.

        Thread-safe.
        """
        elsewhere = len(self._leads)
        return elsewhere, max(0, len(self._rows) - elsewhere)

    # -- Designated equalities -------------------------------------------------------------

    def lead(self, qid: int) -> int:
        """Return the designated equality of the row `qid`; `UNDESIGNATED` if it has none."""
        return self._leads.get(qid, UNDESIGNATED)

    def designate(self, leads: Mapping[int, int]) -> None:
        """Store the designated equalities of rows that have none; `leads` has them by qid.

        A designated equality is an index in the template's `equalities`.  It is never replaced:
        documents are divided by its values, and the parts that hold kept documents would no longer
        be those that newer ones are sent to.
        """
        self.save()
        self._leads.update(leads)
        self._store_leads(leads)

    def withdraw(self, qids: Collection[int]) -> None:
        """Remove the designated equalities of the rows with these qids, also in the storage."""
        for qid in qids:
            del self._leads[qid]
        self._store_leads(qids)

    def _store_leads(self, qids: Collection[int]) -> None:
        self._elsewhere = None
        self._storage.discard("r_t", pa.table({"qid": pa.array(qids, pa.int32())}))
        self._storage.append("r_t", self.stored(list(qids))["r_t"])

    @property
    def elsewhere(self) -> DesignatedRows:
        """The rows that have a designated equality, which other processes evaluate."""
        if self._elsewhere is None:
            keep = max((self._rows[qid].keep for qid in self._leads), default=-1)
            self._elsewhere = DesignatedRows(np.array(sorted(self._leads), np.int64), keep)
        return self._elsewhere

    # -- Parts -----------------------------------------------------------------------------

    def _settle(self) -> None:
        """Count and index the rows added since the last call; `save` writes them later."""
        for number, qids in self._fresh.items():
            members = self.members[number]
            rows = [_stored(qid, self._rows[qid]) for qid in qids]
            self._new["r_t"] += rows
            self._count(members, _columns(members, rows), 1)
        self._fresh.clear()

    def _count(self, members: TemplateRows, rows: RowColumns, by: int) -> None:
        """Update the counts and the indexes for rows that are added (`by` is 1) or removed (-1)."""
        graph = members.template.graph
        columns = list(map(rows.__getitem__, members.places))
        counted = list(map(Counter, columns))
        for counts, (_, child) in zip(counted, graph.pairs, strict=True):
            self.pairs.count(counts, by, child in graph.compared)
        members.count(counted, by)
        self.retention.count(graph, columns, rows, by)
        if graph.text_joins:
            if self.texts is None:
                # imported on demand, since few queries compare texts
                from templates.text.text_comparisons import TextEdges

                self.texts = TextEdges()
            self.texts.count(graph, rows, by)
        pairs = chain.from_iterable(counted)
        if by > 0:
            members.add(rows)
            self.firing.add(members, pairs)
        else:
            self.firing.remove(members, pairs)

    def _longest_keep(self, pair: int) -> int:
        """Return the longest retention, in ticks, of the rows with a pair; -1 without rows."""
        reached = self.firing.reached([pair], two_sided=True)
        return max((members.longest_keep(pair) for members in reached), default=-1)

    def _drop_template(self, number: int) -> None:
        self.templates.drop(self.members.pop(number).template)
        self._storage.discard("template", pa.table({"id": [number]}))

    # -- Restart and replicas --------------------------------------------------------------

    def load(self, uses: Iterable[tuple[int, int]], taken: int = 0) -> None:
        """Rebuild the index from the storage; `uses` are (qid, number of subscriptions).

        New rows get numbers above `taken`, the largest one that kept results have: also results of
        removed rows are kept.
        """
        names = ("variable", "pair", "template", "r_t")
        self.add_stored({name: scan(self._storage, name) for name in names}, uses)
        self._next_qid = max(taken, *self._rows, 0) + 1

    def stored(self, qids: Sequence[int]) -> dict[str, pa.Table]:
        """Return the rows of R_T with these qids, and all rows that they refer to, by relation.

        The names and columns are those of `RELATIONS`.
        """
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
        """Add stored rows under their numbers; `uses` are (qid, number of subscriptions).

        Variables, pairs and templates may be present already.
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
                self.members[number] = TemplateRows(template)
            first, last = np.searchsorted(of, (number, number + 1)).tolist()
            if first < last:
                self._add_rows(self.members[number], every.slice(first, last - first))

    def _add_rows(self, members: TemplateRows, stored: pa.Table) -> None:
        pairs = stored["pairs"].combine_chunks().flatten().to_numpy()
        places = pairs.reshape(stored.num_rows, -1).T.tolist()
        columns = stored.select(("qid", "op", "lower", "wl", "keep")).to_pydict()
        qids = columns["qid"]
        relations = map(relation_of, columns["op"], columns["lower"], columns["wl"])
        fields = (zip(*places, strict=True), relations, columns["keep"])
        number = members.template.number
        rows = [JoinRow(number, *row) for row in zip(*fields, strict=True)]
        self._rows.update(zip(qids, rows, strict=True))
        self._qids.update(zip(rows, qids, strict=True))
        designated = stored.filter(pa.array(stored["lead"].to_numpy() != UNDESIGNATED))
        leads = (designated[name].to_pylist() for name in ("qid", "lead"))
        self._leads.update(zip(*leads, strict=True))
        self._elsewhere = None
        self._count(members, _columns(members, list(map(_stored, qids, rows))), 1)


def _stored(qid: int, row: JoinRow, lead: int = UNDESIGNATED) -> tuple[object, ...]:
    """Return a row of R_T with the columns of `RELATIONS`; `lead` is its designated equality."""
    relation = row.relation
    bounds = relation.operator.number, relation.lower, relation.upper
    return row.template, qid, row.pairs, *bounds, row.keep, lead


def _columns(members: TemplateRows, stored: Iterable[tuple[object, ...]]) -> RowColumns:
    """Return rows of one template, as `_stored` makes them, in columns with their value joins."""
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
    return json.dumps(astuple(graph))


def graph_of(text: str) -> JoinGraph:
    """Return the join graph of a text in the relation `template`."""
    nodes, edges = json.loads(text)
    return JoinGraph(tuple(Node(*node) for node in nodes), tuple(Edge(*edge) for edge in edges))


# -- Variables and pairs -------------------------------------------------------------

NumberedVariable: TypeAlias = tuple[int, str]
"""The number and the definition of a variable."""


NUMBERS = 40
"""Bits of the lower of two numbers that are packed into one key of a dictionary.

Such a dictionary takes a third of the memory of one with a dictionary, or a tuple, in each entry.
"""


class VariablePairs:
    """All variables and pairs; `new` collects new rows by relation until they are written.

    Pairs are columns by number: both variables, how many rows of R_T have the pair, and how many
    of these compare its value.  0 is no pair, and the number of a dropped one is not reused.
    """

    def __init__(self, storage: Storage, new: Mapping[str, list[tuple[object, ...]]]) -> None:
        self._storage = storage
        self._new = new
        self._variables: dict[str, int] = {}
        self._definitions: list[str | None] = [None]  # by the number of a variable
        # by the number of a pair: the numbers of its variables
        self._firsts, self._seconds = array("q", [0]), array("q", [0])
        self._rows, self._valued = array("q", [0]), array("q", [0])
        # pair numbers by the numbers of both variables, packed with `NUMBERS`
        self._numbers: dict[int, int] = {}
        self._pairs_of = array("q", [0])  # by the number of a variable: the count of its pairs
        self._changed: set[int] = set()

    def __iter__(self) -> Iterator[int]:
        return (number for number, first in enumerate(self._firsts) if first)

    def add_stored(self, variables: pa.Table, pairs: pa.Table) -> None:
        """Add stored variables and pairs under their numbers; some may be present already."""
        known = variables.to_pydict()
        self._variables.update(zip(known["definition"], known["id"], strict=True))
        missing = max(known["id"], default=0) + 1 - len(self._definitions)
        self._definitions += [None] * missing
        self._pairs_of.frombytes(bytes(8 * max(0, missing)))
        for number, definition in zip(known["id"], known["definition"], strict=True):
            self._definitions[number] = definition
        columns = columns_of(pairs)
        keys = (columns["var1"].astype(np.int64) << NUMBERS | columns["var2"]).tolist()
        new = [place for place, key in enumerate(keys) if key not in self._numbers]
        numbers, firsts, seconds = (columns[name][new] for name in ("id", "var1", "var2"))
        size = max(int(numbers.max(initial=0)) + 1, len(self._firsts))
        for column in (self._firsts, self._seconds, self._rows, self._valued):
            column.frombytes(bytes(8 * (size - len(column))))
        for column, values in ((self._firsts, firsts), (self._seconds, seconds)):
            np.frombuffer(column, np.int64)[numbers] = values
        self._numbers.update(zip((keys[place] for place in new), numbers.tolist(), strict=True))
        each = np.concatenate((firsts, seconds[seconds != firsts]))
        uses = np.bincount(each, minlength=len(self._definitions))
        np.frombuffer(self._pairs_of, np.int64)[:] += uses

    def variable(self, definition: str) -> int:
        """Return the number of a variable; assign one if it is new."""
        number = self._variables.get(definition)
        if number is None:
            number = self._variables[definition] = len(self._definitions)
            self._definitions.append(definition)
            self._pairs_of.append(0)
            self._new["variable"].append((number, definition))
        return number

    def pair(self, ends: tuple[int, int]) -> int:
        """Return the number of the pair of two variables; assign one if it is new."""
        key = ends[0] << NUMBERS | ends[1]
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._firsts)
            for column, value in ((self._seconds, ends[1]), (self._rows, 0), (self._valued, 0)):
                column.append(value)
            self._firsts.append(ends[0])  # last: other threads test its length
            for variable in set(ends):
                self._pairs_of[variable] += 1
            self._new["pair"].append((number, *ends))
        return number

    def describe(self, number: int) -> Pair:
        """Return a pair of variables with their definitions, given its number."""
        (pair,) = self.described((number,))
        return pair

    def described(self, numbers: Iterable[int]) -> list[Pair]:
        """Return pairs of variables with their definitions, without unknown and dropped ones."""
        return [
            Pair(number, first, second, self._valued[number] > 0)
            for number, (_, first), (_, second) in self.named(numbers)
        ]

    def named(self, pairs: Iterable[int]) -> list[tuple[int, NumberedVariable, NumberedVariable]]:
        """Return (pair, first variable, second variable) of pairs that are not dropped;
        thread-safe.
        """
        found = []
        for number in pairs:
            ends = self._ends(number)
            if ends is not None:
                first, second = map(self._definitions.__getitem__, ends)
                if first is not None and second is not None:
                    found.append((number, (ends[0], first), (ends[1], second)))
        return found

    def take_changed(self) -> list[Pair]:
        """Return the pairs that were added, or became valued, since the last call."""
        changed = self.described(sorted(self._changed))
        self._changed.clear()
        return changed

    def count(self, counts: Mapping[int, int], by: int, compared: bool) -> None:
        """Add `by` to the uses of pairs for each row of R_T; `counts` has the rows by pair.

        The pairs are those at one place of a template.  `compared` says that the value of the
        second variable is compared there.
        """
        rows_of, valued = self._rows, self._valued
        for number, rows in counts.items():
            if by > 0 and (not rows_of[number] or (compared and not valued[number])):
                self._changed.add(number)
            rows_of[number] += by * rows
            valued[number] += by * rows * compared

    def drop_unused(self, pairs: Iterable[int]) -> tuple[int, ...]:
        """Drop those of `pairs` that no row of R_T has, and variables that are in no other pair.

        Return the dropped pairs.
        """
        dropped = []
        for number in dict.fromkeys(pairs):
            ends = self._ends(number)
            if ends is not None and not self._rows[number]:
                del self._numbers[ends[0] << NUMBERS | ends[1]]
                self._firsts[number] = self._seconds[number] = 0
                self._changed.discard(number)
                self._storage.discard("pair", pa.table({"id": [number]}))
                for variable in set(ends):
                    self._drop_variable(variable)
                dropped.append(number)
        return tuple(dropped)

    def _ends(self, number: int) -> tuple[int, int] | None:
        """Return the variables of a pair; None if it was dropped.  For any thread."""
        first = self._firsts[number] if number < len(self._firsts) else 0
        return (first, self._seconds[number]) if first else None

    def _drop_variable(self, number: int) -> None:
        """Decrement the pair count of a variable; delete the variable at 0."""
        self._pairs_of[number] -= 1
        definition = self._definitions[number]
        if not self._pairs_of[number] and definition is not None:
            del self._variables[definition]
            self._definitions[number] = None
            self._storage.discard("variable", pa.table({"id": [number]}))


class WitnessRetention:
    """Retention of witnesses and counts of value joins per variable pair, aggregated over R_T.

    Arrays are indexed by pair number.
    """

    def __init__(self) -> None:
        self.keeps: Column = np.full(64, -1, dtype=np.int64)
        """Retention of each pair's witnesses in ticks; -1 if no join of two sides needs them."""
        self.joined = [np.zeros(64, dtype=np.int64) for _ in (LEFT, RIGHT)]
        """The number of value joins of each pair by side (`LEFT`, `RIGHT`)."""
        self._backward = 0  # the number of rows whose relation looks back
        self._horizon: Horizon | None = None  # None: to be made
        self._changed = False

    def horizon(self) -> Horizon:
        """Return the smallest horizon that covers the windows of all registered two-sided joins."""
        if self._horizon is None:
            keep = int(self.keeps.max(initial=0))
            self._horizon = Horizon(-keep if self.looks_back else 1, keep, keep)
        return self._horizon

    @property
    def looks_back(self) -> bool:
        """True if a right side may end before the left one of some join, or with it."""
        return self._backward > 0

    def take_changed(self) -> bool:
        """Return True if the retention of some pair has changed since the last call."""
        changed, self._changed = self._changed, False
        return changed

    def count(
        self, graph: JoinGraph, places: Sequence[Sequence[int]], rows: RowColumns, by: int
    ) -> None:
        """Count the joins of rows of a template that were added (`by` is 1) or removed (-1).

        `places` has a column of pair numbers for each place of the template.  Rows that are added
        lengthen the retention of their pairs; after a removal `shorten` sets it.
        """
        self._backward += by * sum(lower < 1 for lower in rows["lower"])
        self._horizon = None
        last = max(map(max, places))
        self.keeps = grown(self.keeps, last, -1)
        self.joined = [grown(counts, last, 0) for counts in self.joined]
        if graph.two_sided and by > 0:
            for pairs in map(list, places):
                before = self.keeps[pairs]
                np.maximum.at(self.keeps, pairs, rows["keep"])
                self._note_change(pairs, before)
        for ends in graph.value_joins:
            for joined, place in zip(self.joined, ends, strict=True):
                np.add.at(joined, list(places[place]), by)

    def shorten(self, keeps: Mapping[int, int]) -> None:
        """Set the retention (`keeps`, ticks by pair) of pairs that have lost rows of R_T."""
        pairs = list(keeps)
        before = self.keeps[pairs]
        self.keeps[pairs] = list(keeps.values())
        self._note_change(pairs, before)

    def _note_change(self, pairs: list[int], before: Column) -> None:
        self._changed |= bool(((before >= 0) & (before != self.keeps[pairs])).any())
        self._horizon = None
