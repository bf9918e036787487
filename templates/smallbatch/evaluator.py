"""Conjunctive queries over NumPy columns, for small batches.

A push of a few documents joins a handful of kept rows, for which DuckDB takes ten times as long
(docs/decisions/templates.md).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from templates.columns.columns import Column, Columns, Index, TooManyRows, chosen, equal_rows
from templates.model.conjunctive_query import (
    BATCH,
    BINDINGS,
    JOINS,
    ConjunctiveQuery,
    Views,
    in_time,
)
from templates.registry.members import Members
from templates.sql.queries import Evaluator


class SmallBatch:
    """The evaluator over NumPy columns.

    A join of more than `columns.MOST` pairs of rows is left to another evaluator.
    """

    def __init__(self, otherwise: Evaluator) -> None:
        self.made = 0
        self._otherwise = otherwise

    def answers(self, members: Members, rows: Columns, views: Views) -> Columns:
        """Return R_out of a template with two sides over the views of a batch."""
        relations = {JOINS: views.several if members.several else views.joins}
        if views.bindings is not None:
            relations[BINDINGS] = views.bindings
        try:
            found = _evaluate(members.query, RowIndex(rows), relations)
        except TooManyRows:
            return self._otherwise.answers(members, rows, views)
        self.made += len(found["qid"])
        return found

    def filtered(self, members: Members, rows: Columns, bindings: Columns) -> Columns:
        """Return R_out of a template with one side over the bindings of a batch."""
        try:
            found = _evaluate(members.query, RowIndex(rows), {BATCH: bindings})
        except TooManyRows:
            return self._otherwise.filtered(members, rows, bindings)
        self.made += len(found["qid"])
        return found


class RowIndex:
    """Rows of a template's R_T, to be found by one of its columns."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._indexes: dict[str, Index] = {}

    def by(self, column: str) -> Index:
        """Return the index of a column."""
        if column not in self._indexes:
            self._indexes[column] = Index(self.columns[column])
        return self._indexes[column]


def _evaluate(
    query: ConjunctiveQuery, registered: RowIndex, relations: Mapping[str, Columns]
) -> Columns:
    """Return R_out, joining one atom after the other.

    `bound` has a column for each variable so far, and `rows` are rows of R_T: one entry of each for
    each answer so far.
    """
    rows: Column | None = None
    bound: Columns = {}
    for atom in query.atoms:
        assert atom.key is not None
        relation, (column, asked) = relations[atom.relation], atom.key
        if atom.valued:
            relation = chosen(relation, relation["valued"])
        if rows is None:
            which, rows = registered.by(asked).rows(relation[column])
        else:
            shared = [(bound[name], relation[one]) for one, name in atom.binds if name in bound]
            ours, theirs = zip(*shared, strict=True)
            kept, which = equal_rows(
                (registered.columns[asked][rows], *ours), (relation[column], *theirs)
            )
            rows, bound = rows[kept], chosen(bound, kept)
        agree = np.ones(len(rows), np.bool_)
        known, bound = bound, dict(bound)
        for one, name in atom.binds:
            if name not in known:
                values = relation[one][which]
                if bound.setdefault(name, values) is not values:  # twice in this atom
                    agree &= bound[name] == values
        if query.timed and atom is query.atoms[0]:
            agree &= in_time(chosen(registered.columns, rows), bound)
        if not agree.all():
            rows, bound = rows[agree], chosen(bound, agree)
    assert rows is not None
    for _, left, right in query.compared:
        differ = bound[left] != bound[right]
        rows, bound = rows[differ], chosen(bound, differ)
    ends = {name: registered.columns[name][rows] for name in ("qid", "wl")}
    return {"qid": ends["qid"], **{name: bound[name] for name in query.head}, "wl": ends["wl"]}
