"""Answers of templates where some join may exceed the bound of results.

The number of answers of a row of R_T with two documents is at most the product of the numbers of
bindings of each place.  Where the sum over a newcomer's partners stays within the bound, templates
are evaluated as usual.  Elsewhere (a *hot* group: one row of R_T, one newcomer) answers are
enumerated up to the bound (`templates.bound.enumeration`), which both evaluators share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from templates.bound.enumeration import WORK, Enumeration, relations_of
from templates.columns.columns import (
    Column,
    Columns,
    Index,
    among,
    chosen,
    distinct,
    equal_rows,
    grouped_counts,
    portions,
    steps,
    unpack,
)
from templates.evaluators import Evaluator
from templates.model.conjunctive_query import (
    BATCH,
    BINDINGS,
    JOINS,
    SIDES,
    ConjunctiveQuery,
    Views,
    in_time,
    node,
    over_sides,
    over_views,
)
from templates.model.join_graph import MEASURES, JoinGraph
from templates.model.result_bound import GROUP, Cut, newcomers
from templates.registry.members import TemplateRows
from templates.state.batch_documents import BatchDocuments

WAVE = 100_000
"""Expected answers of a row of R_T that are evaluated in one step."""
COMBINED = 1_000_000
"""Combinations of a row of R_T and two documents whose bounds are computed in one step."""

Touched = tuple[TemplateRows, Columns]
"""A template and a selection of rows of its R_T."""


@dataclass(slots=True)
class BoundedAnswers:
    """Evaluator of one push under the bound of results.

    `over` are the groups that exceed the bound, of results or of work (`WORK`): nothing more is
    asked of them.  Answers that were computed before remain.
    """

    documents: BatchDocuments
    most: int
    over: dict[Cut, None] = field(default_factory=dict)
    _counts: dict[Cut, int] = field(default_factory=dict)
    _work: dict[Cut, int] = field(default_factory=dict)  # that groups have left

    def count(self, graph: JoinGraph, made: Columns) -> None:
        """Count the answers of a part; all answers of two documents are in the same part."""
        names = [node(at) for at, one in enumerate(graph.nodes) if one.output]
        every = dict(grouped_counts(made, "qid", "doc1", "doc2", *names)[0])
        every["rank"], every["own"] = newcomers(every["doc1"], every["doc2"], self.documents.ranks)
        groups, sizes = grouped_counts(every, *GROUP)
        for group, size in zip(_cuts(groups), sizes.tolist(), strict=True):
            self._counts[group] = size + self._counts.get(group, 0)
            if self._counts[group] > self.most:
                self.over[group] = None

    def exceeding(self, rank: int) -> Column:
        """Return the rows of R_T that exceed the bound with a newcomer, sorted."""
        return distinct(
            np.array([one.qid for one in self.over if one.rank == rank and not one.own], np.int64)
        )

    # -- Two sides -------------------------------------------------------------------------

    def answers(
        self, evaluator: Evaluator, touched: Sequence[Touched], views: Views
    ) -> Iterator[tuple[TemplateRows, Columns]]:
        """Yield (members, R_out) in parts, for templates with two sides."""
        most = _MostAnswers(views, self.documents)
        for members, rows in touched:
            light = np.ones(len(rows["qid"]), np.bool_)
            if most.may_exceed(members.template.graph, self.most):
                each = Index(views.joins["pairs"]).counts(rows["e0"])
                for some in portions(each, COMBINED):
                    found = most.expected(members.template.graph, rows, some)
                    hot = _sums_above(found, self.most)
                    for row in distinct(found["row"][hot]).tolist():
                        light[row] = False
                        one = members, chosen(rows, np.array([row]))
                        of_row = found["row"] == row
                        cool = chosen(found, of_row & ~hot)
                        for part in portions(cool["expected"], WAVE):
                            there = views.of(cool["docs"][part])
                            relations = there.relations(several=members.several)
                            yield members, evaluator.answers(*one, relations)
                        for made in self._hot(one, chosen(found, of_row & hot), views):
                            yield members, made
            if light.any():
                relations = views.relations(several=members.several)
                yield members, evaluator.answers(members, chosen(rows, light), relations)

    def _hot(self, touched: Touched, found: Columns, views: Views) -> Iterator[Columns]:
        """Yield R_out of one row of R_T, a hot group each."""
        members, one = touched
        graph = members.template.graph
        edges = [one[f"e{at}"][0] for at, _ in enumerate(graph.equalities)]
        joins = chosen(views.joins, np.isin(views.joins["pairs"], edges))
        relations = {} if views.bindings is None else {BINDINGS: views.bindings}
        for group in dict.fromkeys(_cuts(found)):
            of_group = (found["rank"] == group.rank) & (found["own"] == group.own)
            docs = distinct(found["docs"][of_group])
            relations[JOINS] = chosen(joins, among(joins["docs"], docs))
            yield self._bounded(members, over_views(graph), one, relations, group)

    def dense(
        self, touched: Touched, docs: tuple[int, int], times: Columns
    ) -> Iterator[tuple[TemplateRows, Columns]]:
        """Yield the answers of rows of R_T over a dense pair of documents, without R_vj.

        `docs` are the left and the right document, `times` what `in_time` reads of them.
        """
        members, rows = touched
        graph = members.template.graph
        ones, others = np.array(docs[:1]), np.array(docs[1:])
        rank, own = newcomers(ones, others, self.documents.ranks)
        every = self.documents.bindings(distinct(np.array(docs)))
        sides = [chosen(every, every["doc"] == doc) for doc in docs]
        usable = in_time(rows, times)
        for at, (_, child) in enumerate(graph.pairs):
            usable &= among(rows[f"p{at}"], distinct(sides[graph.nodes[child].side]["pair"]))
        relations = dict(zip(SIDES, sides, strict=True))
        for row in np.flatnonzero(usable).tolist():
            one = chosen(rows, np.array([row]))
            group = Cut(int(one["qid"][0]), int(rank[0]), int(own[0]))
            yield members, self._bounded(members, over_sides(graph), one, relations, group)

    # -- One side --------------------------------------------------------------------------

    def filtered(
        self, evaluator: Evaluator, touched: Sequence[Touched], bindings: Columns
    ) -> Iterator[tuple[TemplateRows, Columns]]:
        """Yield (members, R_out) in parts, for templates with one side."""
        counts = _Counts.of(bindings, "doc", "pair")
        for members, rows in touched:
            graph = members.template.graph
            light = np.ones(len(rows["qid"]), np.bool_)
            if counts.largest ** len(graph.pairs) > self.most:
                found = _Expected.first(counts, rows["p0"])
                for place in range(1, len(graph.pairs)):
                    found = found.times(counts, found.docs, rows[f"p{place}"])
                light[found.row[found.expected > self.most]] = False
                hot = ~light[found.row]  # the row's other documents, too
                docs = found.docs[hot]
                rank, own = newcomers(docs, docs, self.documents.ranks)
                qids = rows["qid"][found.row[hot]]
                groups = _cuts({"qid": qids, "rank": rank, "own": own})
                for row, doc, group in zip(found.row[hot], docs, groups, strict=True):
                    one = chosen(rows, np.array([row]))
                    here = {BATCH: chosen(bindings, bindings["doc"] == doc)}
                    yield members, self._bounded(members, members.queries[0], one, here, group)
            if light.any():
                yield members, evaluator.answers(members, chosen(rows, light), {BATCH: bindings})

    def _bounded(
        self,
        members: TemplateRows,
        query: ConjunctiveQuery,
        one: Columns,
        relations: Mapping[str, Columns],
        group: Cut,
    ) -> Columns:
        """Return the answers of one row of R_T with a newcomer; none beyond the bound.

        A group is `over` then, and also if its remaining work does not suffice.
        """
        graph = members.template.graph
        head = ["doc1", "doc2", *(node(at) for at, one in enumerate(graph.nodes) if one.output)]
        found = np.empty((0, len(head)), np.int64)
        if group not in self.over:
            unequal = [(left, right) for _, left, right in query.compared]
            enumeration = Enumeration(head, unequal, self._work.get(group, WORK))
            found = enumeration.answer(relations_of(query, one, relations), self.most + 1)
            self._work[group] = enumeration.work
            if enumeration.gave_up or len(found) > self.most:
                self.over[group] = None
                found = found[:0]
        made = {name: np.repeat(one[name], len(found)) for name in ("qid", "wl")}
        # Nodes that are no output are unknown.
        made |= {node(at): np.full(len(found), -1, np.int32) for at, _ in enumerate(graph.nodes)}
        made |= {name: found[:, at].astype(np.int32) for at, name in enumerate(head)}
        return {**made, "doc1": found[:, 0], "doc2": found[:, 1]}


@dataclass(frozen=True, slots=True)
class _Counts:
    """The numbers of rows of a relation by document (or two) and pair of variables (or two)."""

    docs: Column
    pairs: Column
    counts: Column

    @classmethod
    def of(cls, relation: Columns, docs: str, pairs: str) -> _Counts:
        groups, counts = grouped_counts(relation, docs, pairs)
        return cls(groups[docs], groups[pairs], counts.astype(np.float64))

    @property
    def largest(self) -> float:
        """The largest of the counts."""
        return float(self.counts.max(initial=0))


@dataclass(frozen=True, slots=True)
class _Expected:
    """Upper bounds of the answers of rows of R_T with documents (or two)."""

    row: Column
    docs: Column
    expected: Column

    @classmethod
    def first(cls, counts: _Counts, wanted: Column) -> _Expected:
        """Return the counts of one place of the template: `wanted` is its column of R_T."""
        row, at = Index(counts.pairs).rows(wanted)
        return cls(row, counts.docs[at], counts.counts[at])

    def times(self, counts: _Counts, docs: Column, wanted: Column) -> _Expected:
        """Return the counts multiplied by those of a further place, with its documents `docs`."""
        kept, at = equal_rows((docs, wanted[self.row]), (counts.docs, counts.pairs), len(self.row))
        return _Expected(self.row[kept], self.docs[kept], self.expected[kept] * counts.counts[at])


@dataclass(frozen=True, eq=False)
class _MostAnswers:
    """Upper bounds of the numbers of answers over views."""

    views: Views
    documents: BatchDocuments

    @cached_property
    def _joins(self) -> _Counts:
        return _Counts.of(self.views.joins, "docs", "pairs")

    @cached_property
    def _others(self) -> _Counts | None:
        bindings = self.views.bindings
        return None if bindings is None else _Counts.of(bindings, "doc", "pair")

    @cached_property
    def _of_documents(self) -> tuple[Column, Column]:
        """The distinct pairs of documents, and the most value joins that one has of two pairs."""
        first = steps(self._joins.docs)
        return self._joins.docs[first], np.maximum.reduceat(self._joins.counts, first)

    @cached_property
    def _newcomers(self) -> Column:
        """The newcomer of each of these, as a number from 0 on."""
        rank, _ = newcomers(*unpack(self._of_documents[0]), self.documents.ranks)
        newcomer: Column = np.unique(rank, return_inverse=True)[1]
        return newcomer

    @cached_property
    def _times(self) -> Columns:
        """The columns that `in_time` reads, of each pair of documents."""
        _, first = np.unique(self.views.joins["docs"], return_index=True)
        return {name: self.views.joins[name][first] for name in (*MEASURES, "doc1", "doc2")}

    def may_exceed(self, graph: JoinGraph, most: int) -> bool:
        """Return True if a newcomer may exceed the bound with some row of R_T.

        The largest count of *equal* pairs of two documents, to the power of the equalities, is an
        upper bound of what they can have.  All value joins of two documents in its place were a
        bound that nearly every batch exceeded, and `expected` took longer than the joins.  It is
        not computed where all rows together cannot exceed the bound.
        """
        joins, bindings = self.views.joins["docs"], self.views.bindings
        free = 0 if bindings is None else len(graph.pairs) - len(graph.equal)
        others = 1 if bindings is None else len(bindings["doc"])
        if len(joins) ** len(graph.equalities) * others**free <= most:
            return False
        bound = self._of_documents[1] ** len(graph.equalities)
        if self._others is not None:
            bound = bound * self._others.largest ** (len(graph.pairs) - len(graph.equal))
        return bool(bound.sum() > most and np.bincount(self._newcomers, bound).max() > most)

    def expected(self, graph: JoinGraph, rows: Columns, some: Column) -> Columns:
        """Return the upper bounds of answers for some rows of R_T and pairs of documents.

        Columns: row, docs, expected, and those of the groups.
        """
        rows = chosen(rows, some)
        found = _Expected.first(self._joins, rows["e0"])
        for place in range(1, len(graph.equalities)):
            found = found.times(self._joins, found.docs, rows[f"e{place}"])
        if self._others is not None:
            for place, (_, child) in enumerate(graph.pairs):
                if child not in graph.equal:
                    doc = unpack(found.docs)[graph.nodes[child].side]
                    found = found.times(self._others, doc, rows[f"p{place}"])
        times = chosen(self._times, np.searchsorted(self._of_documents[0], found.docs))
        holds = in_time(chosen(rows, found.row), times)
        row, docs = found.row[holds], found.docs[holds]
        rank, own = newcomers(*unpack(docs), self.documents.ranks)
        return {
            **{"row": some[row], "docs": docs, "expected": found.expected[holds]},
            **{"qid": rows["qid"][row], "rank": rank, "own": own},
        }


def _sums_above(found: Columns, most: int) -> Column:
    """Return a mask of the rows in groups with more expected answers than the bound."""
    if not len(found["row"]):
        return np.zeros(0, np.bool_)
    keys = np.stack([found[name] for name in GROUP])
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.ravel()
    above: Column = (np.bincount(group, found["expected"]) > most)[group]
    return above


def _cuts(groups: Columns) -> list[Cut]:
    """Return the group of each row."""
    return list(map(Cut, *(groups[name].tolist() for name in GROUP)))
