"""Answers of templates where some join may exceed the bound of results.

A query is evaluated over all rows of R_T at once.  Where that would make too many rows, these and
then the documents are halved, down to one row of R_T and one newcomer: a *group*.  Its answers are
enumerated, in bounded memory and work (`Enumeration`): two documents of 40 equal nodes each, joined
by four value joins, have 40^4 answers, of which only one more than the bound is made.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from templates import columns
from templates.columns import (
    Column,
    Columns,
    TooManyRows,
    among,
    chosen,
    distinct,
    equal_rows,
    steps,
    unpack,
)
from templates.evaluators import Evaluator, SmallBatch
from templates.model.conjunctive_query import (
    SIDES,
    ConjunctiveQuery,
    PartViews,
    in_time,
    node,
    over_sides,
)
from templates.model.join_graph import JoinGraph
from templates.model.result_bound import Cut, groups_of, newcomers
from templates.state.value_joins import BatchDocuments
from templates.template import TemplateRows

UNCOUNTED = 100_000
"""Answers of a batch after which further ones are counted by group as they come, so that no group
has very many in memory.  Fewer are not, since counting takes longer than making them."""

WORK = 5_000_000
"""Rows that are joined for one group of answers at most: about a second.

Only cyclic queries without answers come near it.
"""


@dataclass(slots=True)
class BoundedAnswers:
    """Evaluates the queries of one push under the bound of results.

    A group (`Cut`) is a row of R_T with one newcomer.  `over` are the groups that exceed the bound,
    of results or of work (`WORK`): nothing more is evaluated for them.  Answers found before stay.
    """

    documents: BatchDocuments
    evaluator: Evaluator
    of_one: SmallBatch
    most: int
    over: dict[Cut, None] = field(default_factory=dict)
    _counts: Counter[Cut] = field(default_factory=Counter)
    _work: dict[Cut, int] = field(default_factory=dict)  # rows left to join (`WORK`), by group
    _qids: dict[int, set[int]] = field(default_factory=dict)  # by newcomer's rank: cut rows

    def within(self, graph: JoinGraph, made: Columns) -> Columns:
        """Count answers by group; return those whose groups do not exceed the bound so far.

        `made` are rows of R_out of the template `graph`.  All answers of two documents must be
        given in the same call.
        """
        rank, own = newcomers(made["doc1"], made["doc2"], self.documents.ranks)
        keys, _, place = groups_of({"qid": made["qid"], "rank": rank, "own": own})
        groups = list(map(Cut, *keys))
        answer = [place, *(made[name] for name in ("doc1", "doc2", *map(node, graph.outputs)))]
        order = np.lexsort(answer[::-1])
        first = order[steps(*(column[order] for column in answer))]
        sizes = np.bincount(place[first], minlength=len(groups))
        for group, size in zip(groups, sizes.tolist(), strict=True):
            self._counts[group] += size
            if self._counts[group] > self.most:
                self.exceed(group)
        stays = np.array([group not in self.over for group in groups], np.bool_)
        return made if stays.all() else chosen(made, stays[place])

    def exceed(self, group: Cut) -> None:
        """Note that a group exceeds the bound."""
        self.over[group] = None
        if not group.own:
            self._qids.setdefault(group.rank, set()).add(group.qid)

    def exceeding(self, rank: int) -> Column:
        """Return the qids of the cuts with the newcomer of a rank, sorted."""
        return np.array(sorted(self._qids.get(rank, ())), np.int64)

    def answers(
        self, templates: Sequence[TemplateRows], present: Column, views: PartViews
    ) -> Iterator[tuple[TemplateRows, Columns]]:
        """Yield the answers of templates in parts: a template's rows of R_T, and rows of its R_out.

        `present` are the value joins of the views (`TemplateRows.touched`), which choose the rows.
        """
        for members in templates:
            rows = members.touched(present)
            if len(rows["qid"]):
                for made in self._divided(members, rows, views):
                    yield members, made

    def _divided(self, members: TemplateRows, rows: Columns, views: PartViews) -> Iterator[Columns]:
        """Yield R_out in parts; where a join has too many rows, rows of R_T, then documents, are
        halved.
        """
        evaluator = self.evaluator
        # NumPy counts the rows of a join before it makes them, the database does not.
        if evaluator is not self.of_one and views.may_be_many(members.template.graph):
            evaluator = self.of_one
        try:
            yield evaluator.answers(members, rows, views)
            return
        except TooManyRows:
            pass
        count = len(rows["qid"])
        if count > 1:
            for some in np.array_split(np.arange(count), 2):
                yield from self._divided(members, chosen(rows, some), views)
            return
        views = views.of_row(members.template.graph, rows)
        keys = np.stack(newcomers(*unpack(views.docs), self.documents.ranks))
        groups, place = np.unique(keys, axis=1, return_inverse=True)
        if groups.shape[1] > 1:
            first = place.ravel() < groups.shape[1] // 2
            for mask in (first, ~first):
                yield from self._divided(members, rows, views.of(mask))
            return
        for rank, own in groups.T.tolist():
            group, relations = Cut(int(rows["qid"][0]), rank, own), views.relations()
            yield self._bounded(members, members.query, rows, relations, group)

    def dense(
        self, members: TemplateRows, rows: Columns, docs: tuple[int, int], times: Columns
    ) -> Iterator[tuple[TemplateRows, Columns]]:
        """Yield the answers of rows of R_T over two documents with very many value joins, without
        R_vj.

        `docs` are the left and the right document, `times` their measures for `in_time`.
        """
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

    def _bounded(
        self,
        members: TemplateRows,
        query: ConjunctiveQuery,
        one: Columns,
        relations: Mapping[str, Columns],
        group: Cut,
    ) -> Columns:
        """Return the answers of `one` row of R_T with a newcomer (`group`); none over a bound.

        A group with too many answers, or with too little work left, enters `over`.
        """
        graph = members.template.graph
        head = ["doc1", "doc2", *map(node, graph.outputs)]
        found = np.empty((0, len(head)), np.int64)
        if group not in self.over:
            unequal = [(left, right) for _, left, right in query.compared]
            enumeration = Enumeration(head, unequal, self._work.get(group, WORK))
            found = enumeration.answer(relations_of(query, one, relations), self.most + 1)
            self._work[group] = enumeration.work
            if enumeration.gave_up or len(found) > self.most:
                self.exceed(group)
                found = found[:0]
        made = {name: np.repeat(one[name], len(found)) for name in ("qid", "wl")}
        # Nodes that are no output get -1.
        made |= {node(at): np.full(len(found), -1, np.int32) for at, _ in enumerate(graph.nodes)}
        made |= {name: found[:, at].astype(np.int32) for at, name in enumerate(head)}
        return {**made, "doc1": found[:, 0], "doc2": found[:, 1]}


# -- Enumeration -------------------------------------------------------------------------------

RowsByVariable: TypeAlias = "Mapping[str, Column]"
"""The rows of one relation by variable; a variable in several relations joins them."""


@dataclass(slots=True)
class Enumeration:
    """A conjunctive query over some relations, of which a limited number of answers is made.

    `outputs` are its head; `unequal` are pairs of variables that have to differ.  `work` is the
    remaining number of rows that may be joined.
    """

    outputs: Sequence[str]
    unequal: Sequence[tuple[str, str]] = ()
    work: int = WORK

    @property
    def gave_up(self) -> bool:
        """True if the work was too much: answers may be missing then."""
        return self.work < 0

    def answer(self, relations: Sequence[RowsByVariable], most: int) -> Column:
        """Return the distinct answers, a row each; any `most` of them if there are more.

        The relations are reduced by semi-joins and joined depth first, with at most `columns.MOST`
        rows at a time: of a join that would have more, one side is halved.
        """
        needed = [
            self._projected(one, [*relations[:at], *relations[at + 1 :]])
            for at, one in enumerate(relations)
        ]
        found: dict[tuple[int, ...], None] = {}
        if (reduced := _reduced(needed)) is not None:
            # no more answers than combinations of output values: often one, of very many bindings
            most = min(most, math.prod(len(distinct(_values(reduced, n))) for n in self.outputs))
            first, *others = sorted(reduced, key=_size)
            parts: list[tuple[RowsByVariable, Sequence[RowsByVariable]]] = [(first, others)]
            while parts and len(found) < most and not self.gave_up:
                part, left = parts.pop()
                if left:
                    parts += self._joined(part, left)
                else:
                    found.update(dict.fromkeys(self._heads(part)))
        rows = list(found)[:most]
        return np.array(rows, np.int64).reshape(len(rows), len(self.outputs))

    def _joined(
        self, part: RowsByVariable, left: Sequence[RowsByVariable]
    ) -> Iterator[tuple[RowsByVariable, Sequence[RowsByVariable]]]:
        """Join a part of the answers with one relation; yield (joined part, the relations left).

        If that makes too many rows, two halves are yielded, not joined yet.  Each is reduced with
        the relations left: in a cyclic query that removes most rows.
        """
        following = min([one for one in left if part.keys() & one.keys()] or left, key=_size)
        left = [one for one in left if one is not following]
        self.work -= _size(part) + _size(following)
        try:
            joined = _join(part, following)
        except TooManyRows:
            is_split = _size(part) > 1
            for half in _halves(part if is_split else following):
                pair = (half, following) if is_split else (part, half)
                if (reduced := _reduced([*pair, *left])) is not None:
                    self.work -= sum(map(_size, reduced))
                    yield reduced[0], reduced[1:]
            return
        self.work -= _size(joined)
        yield self._projected(joined, left), left

    def _heads(self, part: RowsByVariable) -> Iterable[tuple[int, ...]]:
        for one, other in self.unequal:
            part = chosen(part, part[one] != part[other])
        return zip(*(part[name].tolist() for name in self.outputs), strict=True)

    def _projected(self, answer: RowsByVariable, left: Sequence[RowsByVariable]) -> RowsByVariable:
        """Return a part of the answers with the variables that are needed, without duplicates.

        Needed are outputs, and variables of comparisons and of the relations left to join.
        """
        needed = {*self.outputs}.union(*self.unequal, *left)
        return _distinct(answer, [name for name in answer if name in needed])


def _size(relation: RowsByVariable) -> int:
    return len(next(iter(relation.values())))


def _values(relations: Sequence[RowsByVariable], name: str) -> Column:
    """Return the values of the variable `name`, from the first relation that binds it."""
    return next(relation[name] for relation in relations if name in relation)


def _halves(relation: RowsByVariable) -> Iterator[RowsByVariable]:
    return (chosen(relation, rows) for rows in np.array_split(np.arange(_size(relation)), 2))


def _distinct(relation: RowsByVariable, names: Sequence[str]) -> dict[str, Column]:
    """Return the distinct rows of columns `names`; without names, at most one row, unchanged."""
    if not names:  # that there is a row is all that matters
        return {name: column[:1] for name, column in relation.items()}
    order = np.lexsort([relation[name] for name in names])
    first = steps(*(relation[name][order] for name in names))
    return {name: relation[name][order[first]] for name in names}


def _join(left: RowsByVariable, right: RowsByVariable) -> dict[str, Column]:
    """Return the natural join of two relations; raises TooManyRows."""
    names = [name for name in left if name in right]
    if names:
        ours, theirs = equal_rows([left[name] for name in names], [right[name] for name in names])
    else:
        if _size(left) * _size(right) > columns.MOST:
            raise TooManyRows
        ours = np.repeat(np.arange(_size(left)), _size(right))
        theirs = np.tile(np.arange(_size(right)), _size(left))
    others = {name: column for name, column in right.items() if name not in left}
    return {**chosen(left, ours), **chosen(others, theirs)}


def _reduced(relations: Sequence[RowsByVariable]) -> list[RowsByVariable] | None:
    """Return the relations reduced by semi-joins; None if one becomes empty.

    As many rounds as there are relations suffice for an acyclic query: then some answer uses every
    remaining row.  In a cyclic one each round may remove one row only.
    """
    relations = list(relations)
    for _ in range(len(relations)):
        changed = False
        for name in {name for relation in relations for name in relation}:
            having = [at for at, one in enumerate(relations) if name in one]
            if len(having) < 2:
                continue
            common = distinct(relations[having[0]][name])
            for at in having[1:]:
                common = common[among(common, distinct(relations[at][name]))]
            for at in having:
                stays = among(relations[at][name], common)
                if not stays.all():
                    relations[at] = chosen(relations[at], stays)
                    changed = True
        if not changed:
            break
    return relations if all(map(_size, relations)) else None


def relations_of(
    query: ConjunctiveQuery, row: Columns, relations: Mapping[str, Columns]
) -> list[RowsByVariable]:
    """Return the rows of relations that the atoms of a query read for one row of R_T."""
    made = []
    for atom in query.atoms:
        assert atom.key is not None
        relation, (column, asked) = relations[atom.relation], atom.key
        here = relation[column] == row[asked][0]
        if atom.valued:
            here = here & relation["valued"]
        bound: dict[str, Column] = {}
        for one, name in atom.binds:
            values = relation[one]
            if bound.setdefault(name, values) is not values:  # the atom has the variable twice
                here = here & (bound[name] == values)
        made.append(chosen(bound, here))
    return made
