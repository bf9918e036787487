"""The plan in a worker: patterns, rows of R_T, their designated equalities and subscribers.

A replica has the numbers of the engine that wrote the plan, so bindings that one worker made, or
that a state has kept, mean the same to all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns.columns import UNBOUNDED, Column, Index, distinct, unpack
from templates.model.join_graph import INFINITE
from templates.model.relations import Pair
from templates.registry.registry import Registry
from templates.storage import Mask, Numbers
from xscl.documents.results import Subscription
from xscl.errors import StoreError
from xscl.planning.planned_subscriptions import is_leaf
from xscl.shredding.automaton.nfa import Automaton
from xscl.spark.absences import EqualityAbsence
from xscl.spark.plan_files import ExecutorPlan, PlanTables


class _NoStorage:
    """The storage of a replica, whose source of truth is the engine's."""

    def append(self, relation: str, rows: pa.Table) -> None:
        """Keep nothing."""

    def discard(self, relation: str, rows: pa.Table) -> None:
        """Delete nothing."""

    def parts(
        self, relation: str, columns: Sequence[str] = (), docs: Numbers | None = None
    ) -> Iterator[pa.Table]:
        """Yield nothing."""
        return iter(())

    def keep(self, relation: str, stays: Mask) -> pa.Table:
        """Return an empty table: nothing was deleted."""
        return pa.table({})


class PlanReplica:
    """A version of a plan; `lateness`, in ticks, is added to the retention of its rows."""

    def __init__(self, plan: ExecutorPlan, lateness: int) -> None:
        self.version = 0
        self.subscribers: dict[int, list[Subscription]] = {}
        """The subscribers of each row of R_T; their `since` is a version of the plan."""
        self.absences: list[EqualityAbsence] = []
        self.absent: dict[int, Subscription] = {}
        """The subscription of each absence, by its number."""
        self._plan = plan
        self._lateness = lateness
        self._clear()

    def _clear(self) -> None:
        self.registry = Registry(_NoStorage())
        self.own = Registry(_NoStorage())  # rows that an engine evaluates
        self.automaton = Automaton()
        self._compared: set[int] = set()  # pairs whose values absences compare
        self._rows: dict[int, bool] = {}  # all rows; True: an engine evaluates it
        self._known: dict[tuple[str, str, int], Subscription] = {}  # by key, name, `since`
        self.absences.clear()

    def advance(self, version: int) -> None:
        """Become the newest version, unless this one is not older than that asked for.

        Raises StoreError.
        """
        if version <= self.version:
            return
        known, self.version = self.version, 0  # a failure leaves no half of a version
        newest, first, relations = self._plan.read()
        if newest < version:
            raise StoreError(f"the plan is at version {newest}, and {version} was written")
        if known < first:
            self._clear()
        self._take_rows(relations)
        self._take_subscribers(relations)
        self._index()
        self.version = newest

    def _take_rows(self, plan: PlanTables) -> None:
        """Remove the rows of R_T that are not in a plan, or moved, and add the new ones."""
        rows = plan["r_t"]
        qids, witnesses = rows["qid"].to_pylist(), set(plan["witness"]["qid"].to_pylist())
        wanted = {qid: qid in witnesses for qid in qids}
        known = {qid: is_own for qid, is_own in self._rows.items() if wanted.get(qid) == is_own}
        for qid in self._rows.keys() - known.keys():
            for pair in (self.own if self._rows[qid] else self.registry).remove(qid):
                if not self._described([pair]):
                    self.automaton.remove(pair)
        keep = rows["keep"].to_numpy()
        later = np.where(keep < INFINITE, keep + self._lateness, keep)
        rows = rows.set_column(rows.column_names.index("keep"), "keep", pa.array(later))
        for registry, own in ((self.own, True), (self.registry, False)):
            is_new = [qid not in known and wanted[qid] == own for qid in qids]
            added = rows.filter(pa.array(is_new, pa.bool_()))
            uses = ((qid, 1) for qid in added["qid"].to_pylist())
            registry.add_stored(_of_rows(plan, added), uses)
        self._rows = wanted

    def _take_subscribers(self, plan: PlanTables) -> None:
        """Become the subscribers and absences of a plan."""
        absences = {row["key"]: _absence(row) for row in plan["absence"].to_pylist()}
        self._install(set(absences.values()) - set(self.absences))
        self.absences = list(absences.values())
        table = plan["subscriber"]
        columns = (table[name].to_pylist() for name in ("key", "name", "since"))
        names = [*zip(*columns, strict=True)]
        new = table.filter(pa.array([name not in self._known for name in names], pa.bool_()))
        known = dict(self._known)
        for row in new.to_pylist():
            known[row["key"], row["name"], row["since"]] = Subscription(
                number=0,
                name=row["name"],
                query=row["query"],
                template=0 if row["key"] in absences else self.registry.row(row["qid"]).template,
                qid=row["qid"],
                outputs=tuple(zip(row["places"], row["outputs"], strict=True)),
                since=row["since"],
                distinct=row["is_distinct"],
                key=row["key"],
            )
        self._known = {name: known[name] for name in names}
        self.subscribers.clear()
        self.absent.clear()
        for one in self._known.values():
            if one.key in absences:
                self.absent[absences[one.key].number] = one
            else:
                self.subscribers.setdefault(one.qid, []).append(one)

    def _install(self, absences: Iterable[EqualityAbsence]) -> None:
        """Install the pairs of new rows; those that absences compare have values."""
        changed = {
            pair.number for some in (self.registry, self.own) for pair in some.take_changed()
        }
        for one in absences:
            for qid, nodes in ((one.left, one.left_nodes), (one.right, one.right_nodes)):
                compared = self._pairs(qid, nodes)
                self._compared.update(compared)
                changed.update(compared)
        valued = {pair.number for pair in self._described(changed) if pair.valued} | self._compared
        pairs = {pair.number: pair for pair in self._described(changed)}
        self.automaton.install(
            [
                one._replace(valued=number in valued)
                for number, one in sorted(pairs.items())
                if not is_leaf(one)
            ]
        )

    def _described(self, numbers: Collection[int]) -> list[Pair]:
        """Return pairs as each registry that has them needs them."""
        return [one for some in (self.registry, self.own) for one in some.pairs.described(numbers)]

    def _pairs(self, qid: int, nodes: Sequence[int]) -> list[int]:
        """Return the pairs that end in some nodes of a row's results."""
        row = self.registry.row(qid)
        graph = self.registry.members[row.template].template.graph
        outputs = [number for number, node in enumerate(graph.nodes) if node.output]
        ends = {outputs[place] for place in nodes}
        return [
            pair for pair, (_, child) in zip(row.pairs, graph.pairs, strict=True) if child in ends
        ]

    def _index(self) -> None:
        """Index the designated equalities of all rows, packed, and the others of each."""
        alone, leads, others = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for members in self.registry.members.values():
            if not members.two_sided:  # a block of an absence
                continue
            rows = members.registered.every()
            lead = np.array([self.registry.lead(qid) for qid in rows["qid"].tolist()], np.int64)
            places = range(len(members.template.graph.equalities))
            edges = np.stack([rows[f"e{place}"] for place in places])
            driving = edges[lead, np.arange(len(lead))]
            alone.append(driving)
            for place in places:
                leads.append(driving[lead != place])
                others.append(edges[place][lead != place])
        self.edges = distinct(np.concatenate((*alone, np.empty(0, np.int64))))
        self.ends = distinct(np.concatenate(unpack(self.edges)))
        both = np.unique(np.stack((np.concatenate(leads), np.concatenate(others))), axis=1)
        self._by_lead, self._others = Index(both[0]), both[1]

    def place_of_lead(self, qid: int) -> int:
        """Return the place, among the nodes of a result, of the left node of the designated one."""
        graph = self.registry.members[self.registry.row(qid).template].template.graph
        left = graph.equalities[self.registry.lead(qid)].left
        return sum(1 for node in graph.nodes[:left] if node.output)

    def others(self, present: Column) -> tuple[Column, Column]:
        """Return the other equalities of rows with some designated ones.

        As places in `present`, and packed.
        """
        which, rows = self._by_lead.rows(present, most=UNBOUNDED)
        return which, self._others[rows]

    @property
    def keep(self) -> int:
        """The longest retention of a document's bindings, in ticks."""
        return self.registry.retention.horizon().keep


def _of_rows(plan: PlanTables, rows: pa.Table) -> dict[str, pa.Table]:
    """Return rows of R_T with what they refer to."""

    def chosen(name: str, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
        table = plan[name]
        return table.filter(pc.is_in(table["id"], value_set=ids))

    pairs = chosen("pair", pc.list_flatten(rows["pairs"]))
    ends = pa.chunked_array([*pairs["var1"].chunks, *pairs["var2"].chunks], pairs["var1"].type)
    return {
        "variable": chosen("variable", ends),
        "pair": pairs,
        "template": chosen("template", rows["template"]),
        "r_t": rows,
    }


def _absence(row: Mapping[str, Any]) -> EqualityAbsence:
    nodes = {name: tuple(row[name]) for name in ("left_nodes", "right_nodes")}
    return EqualityAbsence(**{**row, **nodes})


@lru_cache(maxsize=4)
def _replica(plan: ExecutorPlan, lateness: int) -> PlanReplica:
    return PlanReplica(plan, lateness)


def replica_of(plan: ExecutorPlan, lateness: int, version: int) -> PlanReplica:
    """Return a version of a plan, of which a process has one at a time; raises StoreError."""
    replica = _replica(plan, lateness)
    replica.advance(version)
    return replica
