"""Answers of templates where some join may exceed the bound of results.

How many answers a row of R_T has with two documents is at most the product of how many bindings
each place has.  Where the sum over a newcomer's partners stays within the bound, templates are
evaluated as ever.  Elsewhere (a *hot* group: one row of R_T, one newcomer) partners are taken from
the newest to the oldest, until the group has as many answers as stay; two documents whose product
alone is too large go to `templates.first_rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from templates.columns import (
    UNBOUNDED,
    Column,
    Columns,
    Index,
    chosen,
    distinct,
    equal_rows,
    portions,
    steps,
)
from templates.first_rows import WORK, relations_of
from templates.inmemory import FOLLOWED_BY, Touched, answers
from templates.joingraph import LEFT, JoinGraph
from templates.result_bound import LAST, RESULTS, Cut, Newest, Ranks, newcomers, own_group

WAVE = 100_000
"""Expected answers that are made at once of a hot group."""
COMBINED = 1_000_000
"""Combinations of a row of R_T and two documents that are looked at together."""
_LOWER = (1 << 31) - 1

Take = Callable[[Columns], None]


@dataclass(slots=True)
class BoundedAnswers:
    """The hot groups of a push.

    `ranks` gives the places of documents in the order of arrival, `bindings_of` all bindings of
    some documents.  `cuts` are the groups that were given up for the bound of work.
    """

    ranks: Ranks
    bindings_of: Callable[[Column], Columns]
    most: int = RESULTS
    newest: Newest = field(default_factory=Newest)
    cuts: list[Cut] = field(default_factory=list)
    _work: dict[tuple[int, int], int] = field(default_factory=dict)  # that groups have left

    @property
    def enough(self) -> int:
        """The number of answers made of a group: one more than stay shows that something is cut."""
        return self.most + 1

    def begin(self) -> None:
        """Begin another push."""
        self.newest.clear()
        self.cuts.clear()
        self._work.clear()

    # -- Two sides -------------------------------------------------------------------------

    def may_exceed(
        self, joins: Columns, others: Columns | None, equalities: int, rest: int
    ) -> bool:
        """Return whether some group may be hot, cheaply and on the safe side.

        `equalities` is the most value joins of a template that is live, `rest` the most pairs of
        variables that end in no equality.
        """
        docs, counts = np.unique(joins["docs"], return_counts=True)
        bound = counts.astype(np.float64) ** equalities
        if others is not None and rest:
            bound *= float(_most_of_a_pair(others)) ** rest
        if bound.sum() <= self.most:
            return False
        _, rank, _, _ = newcomers(docs >> 31, docs & _LOWER, self.ranks)
        _, newcomer = np.unique(rank, return_inverse=True)
        return bool(np.bincount(newcomer, bound).max() > self.most)

    def answer(
        self, graph: JoinGraph, rows: Columns, joins: Columns, others: Columns | None, take: Take
    ) -> Columns:
        """Give the answers of the rows of R_T that have hot groups to `take`; return the others."""
        left = np.ones(len(rows["qid"]), np.bool_)
        for some in _in_parts(rows, joins):
            found = self._expected(graph, rows, some, joins, others)
            hot = _sums_above(found, self.most)
            for row in distinct(found["row"][hot]).tolist():
                left[row] = False
                of_row = found["row"] == row
                one = chosen(rows, np.array([row]))
                self._light(graph, one, chosen(found, of_row & ~hot), joins, others, take)
                self._hot(graph, one, chosen(found, of_row & hot), joins, others, take)
        return chosen(rows, left)

    def dense(
        self, graph: JoinGraph, rows: Columns, docs: tuple[int, int], times: Columns
    ) -> Iterator[Columns]:
        """Yield the first answers of rows of R_T with two documents, of which no R_vj is made.

        `times` are gap, lead and age of the documents.
        """
        left, right = docs
        both = np.array([(left << 31) | right])
        new, rank, old, old_rank = newcomers(np.array([left]), np.array([right]), self.ranks)
        sides = self._sides(left, right)
        present = [set(distinct(side["pair"]).tolist()) for side in sides]
        for row in range(len(rows["qid"])):
            one = chosen(rows, np.array([row]))
            usable = all(
                int(one[f"p{at}"][0]) in present[graph.nodes[child].side]
                for at, (_, child) in enumerate(graph.pairs)
            )
            qid, partner = int(one["qid"][0]), (int(old_rank[0]), int(old[0]))
            if not usable or not in_time(one, times).all():
                continue
            if old_rank[0] and partner < self.newest.oldest(qid, int(rank[0])):
                continue
            found = self._first(graph, one, int(both[0]), Cut(qid, int(new[0]), int(rank[0])))
            if len(found["qid"]) >= self.enough and old_rank[0]:
                self.newest.note(qid, int(rank[0]), partner)
            yield found

    def _expected(
        self,
        graph: JoinGraph,
        rows: Columns,
        some: Column,
        joins: Columns,
        others: Columns | None,
    ) -> Columns:
        """Return for rows of R_T and pairs of documents how many answers there are at most.

        Columns: row, docs, expected, and the newcomer and the partner with their ranks.
        """
        order = np.lexsort((joins["pairs"], joins["docs"]))
        first = steps(joins["docs"][order], joins["pairs"][order])
        groups = chosen(joins, order[first])
        counts = np.diff(first, append=len(order)).astype(np.float64)
        which, at = Index(groups["pairs"]).rows(rows["e0"][some], most=UNBOUNDED)
        row, expected = some[which], counts[at]
        holds = in_time(chosen(rows, row), chosen(groups, at))
        row, at, expected = row[holds], at[holds], expected[holds]
        docs = groups["docs"][at]
        for place in range(1, len(graph.equalities)):
            kept, at = equal_rows(
                (docs, rows[f"e{place}"][row]), (groups["docs"], groups["pairs"]), len(row)
            )
            row, docs, expected = row[kept], docs[kept], expected[kept] * counts[at]
        if others is not None:
            row, docs, expected = _times_others(graph, rows, row, docs, expected, others)
        new, rank, old, old_rank = newcomers(docs >> 31, docs & _LOWER, self.ranks)
        return {
            **{"row": row, "docs": docs, "expected": expected},
            **{"new": new, "rank": rank, "old": old, "old_rank": old_rank},
            "own": own_group(old, old_rank),
        }

    def _light(
        self,
        graph: JoinGraph,
        one: Columns,
        found: Columns,
        joins: Columns,
        others: Columns | None,
        take: Take,
    ) -> None:
        """Evaluate one row of R_T over the documents of groups that are not hot."""
        for part in portions(found["expected"], WAVE):
            take(_answers(graph, one, joins, others, found["docs"][part]))

    def _hot(
        self,
        graph: JoinGraph,
        one: Columns,
        found: Columns,
        joins: Columns,
        others: Columns | None,
        take: Take,
    ) -> None:
        """Evaluate one row of R_T over hot groups, the newest partners first."""
        qid = int(one["qid"][0])
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
                if len(part) == 1 and group["expected"][part[0]] > WAVE:
                    cut = Cut(qid, int(group["new"][part[0]]), rank)
                    made = self._first(graph, one, int(group["docs"][part[0]]), cut)
                else:
                    made = _answers(graph, one, joins, others, group["docs"][part])
                    made = _distinct(graph, made)
                take(made)
                answered += len(made["qid"])
                if answered >= self.enough and not own:
                    self.newest.note(qid, rank, last)

    def _first(self, graph: JoinGraph, one: Columns, docs: int, group: Cut) -> Columns:
        """Return the first answers of one row of R_T with two documents."""
        left, right = docs >> 31, docs & _LOWER
        pairs = [int(one[f"p{at}"][0]) for at, _ in enumerate(graph.pairs)]
        relations, query = relations_of(graph, pairs, self._sides(left, right))
        key = group.qid, group.rank
        query.work = self._work.get(key, WORK)
        nodes = query.answer(relations, self.enough)
        self._work[key] = query.work
        if query.gave_up:
            self.cuts.append(group)
            self.newest.note(group.qid, group.rank, LAST)  # no older partner is tried
        return _of_outputs(graph, one, left, right, nodes)

    def _sides(self, left: int, right: int) -> tuple[Columns, Columns]:
        found = self.bindings_of(distinct(np.array([left, right])))
        return chosen(found, found["doc"] == left), chosen(found, found["doc"] == right)

    # -- One side --------------------------------------------------------------------------

    def filtered(self, graph: JoinGraph, rows: Columns, bindings: Columns, take: Take) -> Columns:
        """Give the first answers of filters with hot documents to `take`; return the other rows."""
        if float(_most_of_a_pair(bindings)) ** len(graph.pairs) <= self.most:
            return rows
        left = np.ones(len(rows["qid"]), np.bool_)
        order = np.lexsort((bindings["pair"], bindings["doc"]))
        first = steps(bindings["doc"][order], bindings["pair"][order])
        groups = chosen(bindings, order[first])
        counts = np.diff(first, append=len(order)).astype(np.float64)
        row, at = Index(groups["pair"]).rows(rows["p0"], most=UNBOUNDED)
        doc, expected = groups["doc"][at], counts[at]
        for place in range(1, len(graph.pairs)):
            kept, at = equal_rows(
                (doc, rows[f"p{place}"][row]), (groups["doc"], groups["pair"]), len(row)
            )
            row, doc, expected = row[kept], doc[kept], expected[kept] * counts[at]
        hot = expected > self.most
        for one in distinct(row[hot]).tolist():
            left[one] = False
            for number in doc[row == one].tolist():
                take(
                    self._first_of_document(graph, chosen(rows, np.array([one])), number, bindings)
                )
        return chosen(rows, left)

    def _first_of_document(
        self, graph: JoinGraph, one: Columns, doc: int, bindings: Columns
    ) -> Columns:
        pairs = [int(one[f"p{at}"][0]) for at, _ in enumerate(graph.pairs)]
        here = chosen(bindings, bindings["doc"] == doc)
        relations, query = relations_of(graph, pairs, (here, here))
        nodes = query.answer(relations, self.enough)
        if query.gave_up:
            rank = int(self.ranks(np.array([doc]))[0])
            self.cuts.append(Cut(int(one["qid"][0]), doc, rank))
        return _of_outputs(graph, one, doc, doc, nodes)


def in_time(rows: Columns, times: Columns) -> Column:
    """Return whether order, window and arrival hold: see `conjunctive._in_time`."""
    gap, lead, age = times["gap"], times["lead"], times["age"]
    followed = (lead > 0) & (gap <= rows["wl"])
    holds = np.where(rows["op"] == FOLLOWED_BY, followed, abs(gap) <= rows["wl"])
    found: Column = holds & (age <= rows["keep"])
    return found


def _in_parts(rows: Columns, joins: Columns) -> Iterator[Column]:
    """Yield rows of R_T in parts, so that not too many combinations are looked at together."""
    each = Index(joins["pairs"]).counts(rows["e0"])
    before = np.cumsum(each) - each
    cuts = np.flatnonzero(np.diff(before // COMBINED)) + 1
    yield from np.split(np.arange(len(each)), cuts)


def _times_others(
    graph: JoinGraph,
    rows: Columns,
    row: Column,
    docs: Column,
    expected: Column,
    others: Columns,
) -> tuple[Column, Column, Column]:
    """Return what is expected with the bindings of the nodes that have no equality."""
    order = np.lexsort((others["pair"], others["doc"]))
    first = steps(others["doc"][order], others["pair"][order])
    groups = chosen(others, order[first])
    counts = np.diff(first, append=len(order)).astype(np.float64)
    for place, (_, child) in enumerate(graph.pairs):
        if child in graph.equal:
            continue
        doc = docs >> 31 if graph.nodes[child].side == LEFT else docs & _LOWER
        kept, at = equal_rows(
            (doc, rows[f"p{place}"][row]), (groups["doc"], groups["pair"]), len(row)
        )
        row, docs, expected = row[kept], docs[kept], expected[kept] * counts[at]
    return row, docs, expected


def _sums_above(found: Columns, most: int) -> Column:
    """Return which rows are in groups of which more than the bound is expected."""
    if not len(found["row"]):
        return np.zeros(0, np.bool_)
    keys = np.stack((found["row"], found["rank"], found["own"]))
    _, group = np.unique(keys, axis=1, return_inverse=True)
    group = group.ravel()
    above: Column = (np.bincount(group, found["expected"]) > most)[group]
    return above


def _most_of_a_pair(bindings: Columns) -> int:
    """Return how many bindings a document has of a pair of variables at most."""
    if not len(bindings["doc"]):
        return 0
    order = np.lexsort((bindings["pair"], bindings["doc"]))
    first = steps(bindings["doc"][order], bindings["pair"][order])
    return int(np.diff(first, append=len(order)).max())


def _answers(
    graph: JoinGraph, one: Columns, joins: Columns, others: Columns | None, docs: Column
) -> Columns:
    """Return the answers of one row of R_T with some pairs of documents."""
    here = chosen(joins, np.isin(joins["docs"], docs))
    return answers(graph, Touched(one), here, here if others is None else others)


def _distinct(graph: JoinGraph, made: Columns) -> Columns:
    """Return answers that differ in their documents or output nodes, one of each."""
    names = ["doc1", "doc2", *(f"node{at + 1}" for at, n in enumerate(graph.nodes) if n.output)]
    order = np.lexsort([made[name] for name in names])
    return chosen(made, order[steps(*(made[name][order] for name in names))])


def _of_outputs(graph: JoinGraph, one: Columns, left: int, right: int, nodes: Column) -> Columns:
    """Return answers as rows of R_out; nodes that are no output are not known: -1."""
    size = len(nodes)
    made = {f"node{at + 1}": np.full(size, -1, np.int32) for at, _ in enumerate(graph.nodes)}
    outputs = [at for at, node in enumerate(graph.nodes) if node.output]
    for column, at in enumerate(outputs):
        made[f"node{at + 1}"] = nodes[:, column].astype(np.int32)
    return {
        "qid": np.full(size, one["qid"][0], np.int64),
        "doc1": np.full(size, left, np.int64),
        "doc2": np.full(size, right, np.int64),
        **made,
        "wl": np.full(size, one["wl"][0], np.int64),
    }
