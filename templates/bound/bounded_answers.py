"""Answers of templates where some join may exceed the bound of results.

The number of answers of a row of R_T with two documents is at most the product of the numbers of
bindings of each place.  Where the sum over a newcomer's partners stays within the bound, templates
are evaluated as usual.  Elsewhere (a *hot* group: one row of R_T, one newcomer) partners are joined
from the newest to the oldest, until the group has as many answers as stay.  Two documents whose
product alone is too large go to `templates.bound.first_rows`.

The evaluator is a parameter: the bound and its order are the same for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from templates.bound.first_rows import WORK, relations_of
from templates.columns.columns import (
    UNBOUNDED,
    Column,
    Columns,
    Index,
    chosen,
    distinct,
    equal_rows,
    grouped_counts,
    portions,
    steps,
    unpack,
)
from templates.model.join_graph import JoinGraph
from templates.model.result_bound import Cut, newcomers, own_group
from templates.registry.members import Members
from templates.smallbatch.evaluator import in_time
from templates.sql.queries import Evaluator
from templates.sql.views import Views
from templates.state.batch_documents import BatchDocuments

WAVE = 100_000
"""Expected answers of a hot group that are evaluated in one step."""
COMBINED = 1_000_000
"""Combinations of a row of R_T and two documents whose bounds are computed in one step."""

Touched = tuple[Members, Columns]
"""A template and a selection of rows of its R_T."""


_ANY = (-1, -1)
LAST = (1 << 62, 0)
"""Later than every partner: no further partner is needed."""


class Newest:
    """The oldest partner that each join of a push still needs, by newcomer.

    A join with `most` answers for a newcomer needs no partner older than that of the last one.
    """

    def __init__(self) -> None:
        self._oldest: dict[tuple[int, int], tuple[int, int]] = {}

    def note(self, qid: int, rank: int, partner: tuple[int, int]) -> None:
        """Record the oldest partner (rank, number) that a join still needs for a newcomer."""
        key = qid, rank
        self._oldest[key] = max(partner, self._oldest.get(key, partner))

    def oldest(self, qid: int, rank: int) -> tuple[int, int]:
        """Return the rank and the number of the oldest needed partner."""
        return self._oldest.get((qid, rank), _ANY)

    def __bool__(self) -> bool:
        return bool(self._oldest)


@dataclass(slots=True)
class BoundedAnswers:
    """Evaluator of one push under the bound of results.

    A group is a row of R_T (a join) with one newcomer.  At least the first `most` answers of each
    group are computed, the newest partners first; further ones only where a cut costs more.
    `cuts` lists the groups that exceeded the bound of work (`WORK`): their answers may be missing.
    """

    documents: BatchDocuments
    most: int
    newest: Newest = field(default_factory=Newest)
    cuts: list[Cut] = field(default_factory=list)
    _work: dict[tuple[int, int], int] = field(default_factory=dict)  # that groups have left

    @property
    def enough(self) -> int:
        """The number of answers computed for a group: one more than stay, to detect a cut."""
        return self.most + 1

    # -- Two sides -------------------------------------------------------------------------

    def answers(
        self, evaluator: Evaluator, touched: Sequence[Touched], views: Views
    ) -> Iterator[tuple[Members, Columns]]:
        """Yield (members, R_out) in parts, for templates with two sides."""
        most = _MostAnswers(views, self.documents)
        for members, rows in touched:
            light = np.ones(len(rows["qid"]), np.bool_)
            if most.may_exceed(members.template.graph, self.most):
                for some in _in_parts(rows, views.joins):
                    found = most.expected(members.template.graph, rows, some)
                    hot = _sums_above(found, self.most)
                    for row in distinct(found["row"][hot]).tolist():
                        light[row] = False
                        one = members, chosen(rows, np.array([row]))
                        of_row = found["row"] == row
                        cool = chosen(found, of_row & ~hot)
                        for part in portions(cool["expected"], WAVE):
                            there = views.of(cool["docs"][part])
                            yield members, evaluator.answers(*one, there)
                        for made in self._hot(evaluator, one, chosen(found, of_row & hot), views):
                            yield members, made
            if light.any():
                yield members, evaluator.answers(members, chosen(rows, light), views)

    def dense(
        self, touched: Touched, docs: tuple[int, int], times: Columns
    ) -> Iterator[tuple[Members, Columns]]:
        """Yield the first answers of rows of R_T over a dense pair of documents, without R_vj.

        `docs` are the left and the right document, `times` the columns gap, lead and age of both.
        """
        members, rows = touched
        graph = members.template.graph
        new, rank, old, old_rank = (
            int(one[0])
            for one in newcomers(np.array(docs[:1]), np.array(docs[1:]), self.documents.ranks)
        )
        sides = self._sides(docs)
        present = [set(distinct(side["pair"]).tolist()) for side in sides]
        for row in range(len(rows["qid"])):
            one = chosen(rows, np.array([row]))
            usable = all(
                int(one[f"p{at}"][0]) in present[graph.nodes[child].side]
                for at, (_, child) in enumerate(graph.pairs)
            )
            qid, partner = int(one["qid"][0]), (old_rank, old)
            if not usable or not in_time(one, times).all():
                continue
            if old_rank and partner < self.newest.oldest(qid, rank):
                continue
            found = self._first(graph, one, docs, sides, Cut(qid, new, rank))
            if len(found["qid"]) >= self.enough and old_rank:
                self.newest.note(qid, rank, partner)
            yield members, found

    def _hot(
        self, evaluator: Evaluator, touched: Touched, found: Columns, views: Views
    ) -> Iterator[Columns]:
        """Yield R_out of one row of R_T over hot groups, the newest partners first."""
        members, one = touched
        graph, qid = members.template.graph, int(one["qid"][0])
        for rank, own in sorted(
            set(zip(found["rank"].tolist(), found["own"].tolist(), strict=True))
        ):
            group = chosen(found, (found["rank"] == rank) & (found["own"] == own))
            oldest = self.newest.oldest(qid, rank)
            order = np.lexsort((group["docs"], group["new"], group["old"], group["old_rank"]))[::-1]
            group = chosen(group, order)
            answered = 0
            for part in portions(group["expected"], WAVE):
                last = int(group["old_rank"][part[-1]]), int(group["old"][part[-1]])
                newest = int(group["old_rank"][part[0]]), int(group["old"][part[0]])
                if answered >= self.enough or (newest < oldest and not own):
                    break
                docs = group["docs"][part]
                if len(part) == 1 and group["expected"][part[0]] > WAVE:
                    cut = Cut(qid, int(group["new"][part[0]]), rank)
                    both = unpack(int(docs[0]))
                    joins = views.of(docs).joins
                    made = self._first(graph, one, both, self._sides(both), cut, joins)
                else:
                    made = _distinct(graph, evaluator.answers(members, one, views.of(docs)))
                yield made
                answered += len(made["qid"])
                if answered >= self.enough and not own:
                    self.newest.note(qid, rank, last)

    def _sides(self, docs: tuple[int, int]) -> tuple[Columns, Columns]:
        """Return all bindings of a left and of a right document."""
        found = self.documents.bindings(distinct(np.array(docs)))
        return chosen(found, found["doc"] == docs[0]), chosen(found, found["doc"] == docs[1])

    # -- One side --------------------------------------------------------------------------

    def filtered(
        self, evaluator: Evaluator, touched: Sequence[Touched], bindings: Columns
    ) -> Iterator[tuple[Members, Columns]]:
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
                for row, doc in zip(found.row[hot].tolist(), found.docs[hot].tolist(), strict=True):
                    one = chosen(rows, np.array([row]))
                    here = chosen(bindings, bindings["doc"] == doc)
                    (rank,) = self.documents.ranks(np.array([doc])).tolist()
                    cut = Cut(int(one["qid"][0]), doc, rank)
                    yield members, self._first(graph, one, (doc, doc), (here, here), cut)
            if light.any():
                yield members, evaluator.filtered(members, chosen(rows, light), bindings)

    def _first(
        self,
        graph: JoinGraph,
        one: Columns,
        docs: tuple[int, int],
        sides: tuple[Columns, Columns],
        group: Cut,
        joins: Columns | None = None,
    ) -> Columns:
        """Return the first answers of one row of R_T over a left and a right document.

        `joins` is their R_vj, which comparisons of texts need.  Adds the group to `cuts` if its
        remaining work does not suffice.
        """
        pairs = [int(one[f"p{at}"][0]) for at, _ in enumerate(graph.pairs)]
        compared = {
            edge: chosen(joins, joins["pairs"] == one[f"e{at}"][0])
            for at, edge in graph.text_joins.items()
            if joins is not None
        }
        relations, query = relations_of(graph, pairs, sides, compared)
        key = group.qid, group.rank
        query.work = self._work.get(key, WORK)
        nodes = query.answer(relations, self.enough)
        self._work[key] = query.work
        if query.gave_up:
            self.cuts.append(group)
            self.newest.note(*key, LAST)  # no older partner is tried
        return _of_outputs(graph, one, docs, nodes)


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
        row, at = Index(counts.pairs).rows(wanted, most=UNBOUNDED)
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
        _, rank, _, _ = newcomers(*unpack(self._of_documents[0]), self.documents.ranks)
        newcomer: Column = np.unique(rank, return_inverse=True)[1]
        return newcomer

    @cached_property
    def _times(self) -> Columns:
        """Gap, lead and age of each of these."""
        _, first = np.unique(self.views.joins["docs"], return_index=True)
        return {name: self.views.joins[name][first] for name in ("gap", "lead", "age")}

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

        Columns: row, docs, expected, and the newcomer and the partner with their ranks.
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
        docs = found.docs[holds]
        new, rank, old, old_rank = newcomers(*unpack(docs), self.documents.ranks)
        return {
            **{"row": some[found.row[holds]], "docs": docs, "expected": found.expected[holds]},
            **{"new": new, "rank": rank, "old": old, "old_rank": old_rank},
            "own": own_group(old, old_rank),
        }


def _in_parts(rows: Columns, joins: Columns) -> Iterator[Column]:
    """Yield rows of R_T in parts, to bound the combinations that are evaluated together."""
    each = Index(joins["pairs"]).counts(rows["e0"])
    before = np.cumsum(each) - each
    cuts = np.flatnonzero(np.diff(before // COMBINED)) + 1
    yield from np.split(np.arange(len(each)), cuts)


def _sums_above(found: Columns, most: int) -> Column:
    """Return a mask of the rows in groups with more expected answers than the bound."""
    if not len(found["row"]):
        return np.zeros(0, np.bool_)
    keys = np.stack((found["row"], found["rank"], found["own"]))
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.ravel()
    above: Column = (np.bincount(group, found["expected"]) > most)[group]
    return above


def _distinct(graph: JoinGraph, made: Columns) -> Columns:
    """Return the distinct answers by documents and output nodes."""
    outputs = (f"node{at + 1}" for at, node in enumerate(graph.nodes) if node.output)
    return grouped_counts(made, "doc1", "doc2", *outputs)[0]


def _of_outputs(graph: JoinGraph, one: Columns, docs: tuple[int, int], nodes: Column) -> Columns:
    """Return answers as rows of R_out; nodes that are no output are unknown: -1."""
    size = len(nodes)
    made = {f"node{at + 1}": np.full(size, -1, np.int32) for at, _ in enumerate(graph.nodes)}
    outputs = [at for at, node in enumerate(graph.nodes) if node.output]
    for column, at in enumerate(outputs):
        made[f"node{at + 1}"] = nodes[:, column].astype(np.int32)
    return {
        "qid": np.full(size, one["qid"][0], np.int64),
        "doc1": np.full(size, docs[0], np.int64),
        "doc2": np.full(size, docs[1], np.int64),
        **made,
        "wl": np.full(size, one["wl"][0], np.int64),
    }
