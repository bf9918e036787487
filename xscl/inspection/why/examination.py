"""The edges of a match: all conditions of a query on the documents of its blocks.

The parts of the query are examined from the inside.  First come the patterns of the blocks.  Then
each operator adds the order and window of its sides, the retention of the earlier one, and the
parts of its predicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from templates.model.join_graph import UNBOUNDED, TemporalRelation
from xscl.inspection.why.choices import Choices, Conjunct
from xscl.inspection.why.comparisons import Comparisons
from xscl.inspection.why.intervals import (
    Side,
    belated,
    dropped,
    in_relation,
    repeated,
    settled,
    together,
)
from xscl.inspection.why.mismatch import mismatch, with_names
from xscl.inspection.why.question import Edge, Question, covered
from xscl.inspection.why.temporal_choice import is_over_time, temporal_choice
from xscl.language.normalform import (
    Absent,
    Folded,
    Following,
    Form,
    Instants,
    Joined,
    Scan,
    components,
)
from xscl.language.parser import parse
from xscl.language.scope import distinct_names
from xscl.language.syntax import Block, Expression, FollowedBy, Join, Predicate, Query
from xscl.language.unparse import unparse
from xscl.language.valuejoin import Disjunct


class Examination:
    """One question while its edges are collected."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._normal = question.query.normal
        self._choices = Choices(question.query.patterns, question.trees)
        self._comparisons = Comparisons(question.query, self._choices)
        self._latest = max(question.lateness.values())
        self._edges: list[Edge] = []

    def edges(self) -> tuple[Edge, ...]:
        """Return all conditions of the query on the documents; they match iff every edge holds.

        Of a query with a calendar only a trial knows the instants.
        """
        source = self._question.query.source
        expression = distinct_names(parse(source).expression, source)
        self._edges.extend(self._registered())
        if self._question.query.calendars:
            for place in self._question.trees:
                self._scan(place)
            if self._hold():
                self._edges.append(temporal_choice(self._question, expression))
            return tuple(self._edges)
        side = self._part(self._normal.form, expression)
        if self._hold():
            self._edges.extend(self._comparisons.at_once(side.conjuncts))
        if self._hold() and is_over_time(self._normal.form):
            self._edges.append(temporal_choice(self._question, expression))
        return tuple(self._edges)

    def _hold(self) -> bool:
        return all(edge.holds for edge in self._edges)

    def _registered(self) -> Iterator[Edge]:
        """Yield the edge that a subscription sees the documents of the match."""
        if self._question.subscription is not None:
            parts = self._question.parts
            missed = [why for one in parts if (why := self._question.unseen(one)) is not None]
            text = f"the subscription sees {', '.join(one.stored.id for one in parts)}"
            near = "; ".join(dict.fromkeys(missed)) or None
            yield Edge("registration", text, not missed, near)

    # -- Parts of the query ----------------------------------------------------------------

    def _part(self, form: Form, expression: Expression) -> Side:
        """Add the edges of a part of the query, and return its side."""
        while isinstance(expression, Query):
            expression = expression.expression
        if isinstance(form, Scan):
            return self._scan(form.component)
        assert not isinstance(form, Instants)
        assert not isinstance(expression, Block)
        left = self._part(form.left, expression.left)
        if isinstance(form, Absent) and not (form.otherwise and self._given(form.right)):
            return self._absent(form, expression, left)
        right = self._part(form.right, expression.right)
        match form:
            case Joined():
                assert isinstance(expression, Join | FollowedBy)
                return self._joined(form, expression, left, right)
            case Absent():
                return self._over_time(left, right, form.predicate, form.relation)
            case Following():
                return self._over_time(left, right, form.predicate)
            case Folded():
                return self._over_time(left, right, form.folding.predicate)
            case _:
                assert_never(form)

    def _given(self, form: Form) -> bool:
        return all(self._question.documents[place] is not None for place in covered(form))

    def _scan(self, component: int) -> Side:
        block = self._normal.blocks[component]
        known = self._question.documents[component]
        assert known is not None
        one = known.stored
        near = None
        if block.stream not in known.streams:
            near = f"{one.id} belongs to {', '.join(known.streams)}"
        elif not self._choices.matched(component):
            near = with_names(mismatch(block, [known.tree]))
        text = f"{one.id} matches {unparse(block)}"
        self._edges.append(Edge("pattern", text, near is None, near))
        late = self._question.lateness[block.stream]
        return Side(one.id, one.ts, one.ts, one.clock, one.rank, late, (one,))

    def _joined(
        self, form: Joined[Disjunct], expression: Join | FollowedBy, left: Side, right: Side
    ) -> Side:
        self._edges.extend(repeated(left, right))
        near = list(in_relation(form.relation, left, right))
        self._edges.extend(near)
        if not self._question.found and all(edge.holds for edge in near if edge.kind == "time"):
            self._edges.extend(dropped(form.relation, left, right))
        return together(left, right, self._values(self._comparisons.written(form, expression)))

    def _over_time(
        self,
        left: Side,
        right: Side,
        predicate: Predicate | None,
        relation: TemporalRelation = UNBOUNDED,
    ) -> Side:
        self._in_time(left, right)
        self._edges.extend(in_relation(relation, left, right))
        both = together(left, right, self._values(predicate))
        return settled(both, both.ts)

    def _in_time(self, *sides: Side) -> None:
        """Add the edges of what came too late; what was found did not, as it was found."""
        if not self._question.found:
            self._edges.extend(belated(self._latest, *sides))

    def _values(self, predicate: Predicate | None) -> tuple[Conjunct, ...]:
        """Add the parts of a predicate, and return them."""
        found = self._comparisons.conjuncts(predicate)
        self._edges.extend(self._comparisons.edges(found))
        return found

    # -- What is not there -----------------------------------------------------------------

    def _absent(self, form: Absent[Disjunct], expression: Expression, left: Side) -> Side:
        """Add the edge that documents on the right side, if any, do not answer the left."""
        self._in_time(left)
        if self._given(form.right):
            assert isinstance(expression, FollowedBy)
            before, self._edges = self._edges, []
            right = self._answering(form, expression, left)
            reasons, self._edges = self._edges, before
            text = f"{right.name} does not answer {left.name}"
            is_answer = all(one.holds for one in reasons)
            if is_answer and self._question.found:
                self._edges.append(Edge("order", text, True, "it came after the silence was over"))
            else:
                self._edges.append(Edge("order", text, not is_answer, _reasons(reasons)))
        return settled(left, left.ts + form.window)

    def _answering(self, form: Absent[Disjunct], expression: FollowedBy, left: Side) -> Side:
        """Add the edges of an answer, and return the right side."""
        for place in covered(form.right):
            known = self._question.documents[place]
            assert known is not None
            missed = self._question.unseen(known)
            if missed is not None:
                self._edges.append(Edge("registration", known.stored.id, False, missed))
        right = self._part(form.right, expression.right)
        self._edges.extend(belated(self._latest, right))
        self._edges.extend(in_relation(form.relation, left, right))
        predicate = self._values(form.predicate)
        if self._hold() and not self._answers(form, left, right, predicate):
            self._edges.append(Edge("value", "the predicate", False, "not by the same nodes"))
        return right

    def _answers(
        self, form: Absent[Disjunct], left: Side, right: Side, predicate: tuple[Conjunct, ...]
    ) -> bool:
        """Return True if the right side answers all bindings of the left side."""
        mine = components(form.left)
        names = [
            name for one in predicate for name in one.variables if self._normal.places[name] in mine
        ]
        return all(
            next(self._choices.of((*predicate, *right.conjuncts), chosen), None) is not None
            for chosen in self._choices.of(left.conjuncts, names=names)
        )


def _reasons(reasons: Iterable[Edge]) -> str:
    """Return the reason why a document is no answer, or the values by which it is one."""
    failing = [one for one in reasons if not one.holds]
    if failing:
        return "; ".join(f"not so: {one.text}: {one.nearest or 'no'}" for one in failing)
    values = [f"{one.text}: {one.nearest}" for one in reasons if one.kind == "value"]
    return "; ".join(("it does", *values))
