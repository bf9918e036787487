"""The plan in a worker: patterns, rows of R_T, their designated equalities and subscribers.

A replica has the numbers of the engine that wrote the plan, so bindings that one worker made, or
that a state has kept, mean the same to all.  It is made anew of each version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from templates.columns import Column, Index, distinct, unpack
from templates.model.join_graph import INFINITE
from templates.registry import Registry
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
    """The newest version of a plan in a worker; raises StoreError if it is older than `version`.

    `lateness`, in ticks, is added to the retention of the rows of R_T.
    """

    def __init__(self, plan: ExecutorPlan, lateness: int, version: int) -> None:
        self.version, relations = plan.read()
        if self.version < version:
            raise StoreError(f"the plan is at version {self.version}, and {version} was written")
        rows = relations["r_t"]
        keep = rows["keep"].to_numpy()
        later = np.where(keep < INFINITE, keep + lateness, keep)
        rows = rows.set_column(rows.column_names.index("keep"), "keep", pa.array(later))
        is_own = pc.is_in(rows["qid"], value_set=relations["witness"]["qid"].combine_chunks())
        self.registry = _registry(relations, rows.filter(pc.invert(is_own)))
        self.own = _registry(relations, rows.filter(is_own))
        """The registry of the rows of R_T that an engine evaluates, and no executor."""
        self.subscribers: dict[int, list[Subscription]] = {}
        """The subscribers of each row of R_T; their `since` is a version of the plan."""
        absences = {row["key"]: _absence(row) for row in relations["absence"].to_pylist()}
        self.absences = list(absences.values())
        self.absent: dict[int, Subscription] = {}
        """The subscription of each absence, by its number."""
        for row in relations["subscriber"].to_pylist():
            if (absence := absences.get(row["key"])) is not None:
                self.absent[absence.number] = _subscription(row, 0)
            else:
                template = self.registry.row(row["qid"]).template
                self.subscribers.setdefault(row["qid"], []).append(_subscription(row, template))
        self.automaton = Automaton()
        self._install()
        self._index()

    def _install(self) -> None:
        """Install the pairs of all rows; those that absences compare are `valued`, too."""
        described = [*self.registry.take_changed(), *self.own.take_changed()]
        valued = {pair.number for pair in described if pair.valued}
        for one in self.absences:
            for qid, nodes in ((one.left, one.left_nodes), (one.right, one.right_nodes)):
                valued.update(self._pairs(qid, nodes))
        pairs = {pair.number: pair for pair in described if not is_leaf(pair)}
        self.automaton.install(
            [one._replace(valued=number in valued) for number, one in sorted(pairs.items())]
        )

    def _pairs(self, qid: int, nodes: Sequence[int]) -> list[int]:
        """Return the pairs of a row of R_T that end at `nodes`, which are places in its results."""
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
            rows = members.every()
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
        """Return the index in a result's nodes of the left node of a row's designated equality."""
        graph = self.registry.members[self.registry.row(qid).template].template.graph
        left = graph.equalities[self.registry.lead(qid)].left
        return sum(1 for node in graph.nodes[:left] if node.output)

    def others(self, present: Column) -> tuple[Column, Column]:
        """Return the equalities of rows of R_T beside their designated ones, which are in
        `present`.

        They are two columns: an index in `present`, and a packed pair of variables.
        """
        which, rows = self._by_lead.rows(present)
        return which, self._others[rows]

    @property
    def keep(self) -> int:
        """The longest retention of a document's bindings, in ticks."""
        return self.registry.retention.horizon().keep


def _registry(plan: PlanTables, rows: pa.Table) -> Registry:
    """Return a registry of rows of R_T, with their templates, pairs and variables."""

    def chosen(name: str, ids: pa.Array | pa.ChunkedArray) -> pa.Table:
        table = plan[name]
        return table.filter(pc.is_in(table["id"], value_set=ids))

    pairs = chosen("pair", pc.list_flatten(rows["pairs"]))
    ends = pa.chunked_array([*pairs["var1"].chunks, *pairs["var2"].chunks], pairs["var1"].type)
    relations = {
        "variable": chosen("variable", ends),
        "pair": pairs,
        "template": chosen("template", rows["template"]),
        "r_t": rows,
    }
    registry = Registry(_NoStorage())
    registry.add_stored(relations, ((qid, 1) for qid in rows["qid"].to_pylist()))
    return registry


def _absence(row: Mapping[str, Any]) -> EqualityAbsence:
    nodes = {name: tuple(row[name]) for name in ("left_nodes", "right_nodes")}
    return EqualityAbsence(**{**row, **nodes})


def _subscription(row: Mapping[str, Any], template: int) -> Subscription:
    return Subscription(
        number=0,
        name=row["name"],
        query=row["query"],
        template=template,
        qid=row["qid"],
        outputs=tuple(zip(row["places"], row["outputs"], strict=True)),
        since=row["since"],
        distinct=row["is_distinct"],
        key=row["key"],
    )


_kept: dict[tuple[ExecutorPlan, int], PlanReplica] = {}
_MOST = 4
"""The most plans that a process keeps, each in one version."""


def replica_of(plan: ExecutorPlan, lateness: int, version: int) -> PlanReplica:
    """Return the replica of a plan at `version` or later, which is cached; raises StoreError."""
    which = plan, lateness
    replica = _kept.pop(which, None)
    if replica is None or replica.version < version:
        replica = PlanReplica(plan, lateness, version)
    _kept[which] = replica
    if len(_kept) > _MOST:
        del _kept[next(iter(_kept))]
    return replica
