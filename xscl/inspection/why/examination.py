"""The answer: all conditions of a query on the documents of its blocks, as edges.

The parts of the query are examined from the inside.  First come the patterns of the blocks.  Then
each operator adds the order and window of its sides, the retention of the earlier one, and the
parts of its predicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from templates.model.join_graph import UNBOUNDED, TemporalRelation
from xscl.inspection.reasons import Edge, Why
from xscl.inspection.why.mismatch import mismatch, with_names
from xscl.inspection.why.question import WhyQuestion, covered
from xscl.inspection.why.times import (
    QuerySide,
    belated,
    dropped,
    in_relation,
    is_over_time,
    repeated,
    settled,
    temporal_choice,
    together,
)
from xscl.inspection.why.values import Choices, TestedConjunct
from xscl.language import normalform as nf
from xscl.language.names import with_prefixes
from xscl.language.syntax import Predicate
from xscl.language.unparse import unparse


class Examination:
    """One question while its edges are collected."""

    def __init__(self, question: WhyQuestion) -> None:
        self._question = question
        self._normal = question.query.normal
        self._choices = Choices(question.query.patterns, question.trees)
        self._latest = max(question.lateness.values())
        self._edges: list[Edge] = []

    def edges(self) -> tuple[Edge, ...]:
        """Return all conditions of the query on the documents; they match iff every edge holds.

        Of a query with a calendar only a trial knows the instants.
        """
        self._edges.extend(self._registered())
        calendars = self._question.query.calendars
        if calendars:
            for place in self._question.trees:
                self._scan(place)
        else:
            side = self._part(self._normal.form)
            if self._hold():
                self._edges.extend(self._choices.at_once(side.conjuncts))
        if self._hold() and (calendars or is_over_time(self._normal.form)):
            self._edges.append(temporal_choice(self._question))
        return tuple(self._edges)

    def _hold(self) -> bool:
        return all(edge.holds for edge in self._edges)

    def _registered(self) -> Iterator[Edge]:
        """Yield the test whether the subscription was registered before the documents came."""
        if self._question.subscription is not None:
            parts = self._question.parts
            missed = [why for part in parts if (why := self._question.unseen(part)) is not None]
            text = f"the subscription sees {', '.join(part.stored.id for part in parts)}"
            near = "; ".join(dict.fromkeys(missed)) or None
            yield Edge("registration", text, not missed, near)

    # -- Parts of the query ----------------------------------------------------------------

    def _part(self, form: nf.NormalForm) -> QuerySide:
        """Add the edges of a part of the query, and return its side."""
        if isinstance(form, nf.Scan):
            return self._scan(form.component)
        assert not isinstance(form, nf.CalendarForm)
        if isinstance(form, nf.AbsenceForm) and form.alone[1] and not self._given(form.left):
            right = self._part(form.right)
            self._in_time(right)
            return settled(right, right.ts + form.waits[1])
        left = self._part(form.left)
        if isinstance(form, nf.AbsenceForm) and not (form.otherwise and self._given(form.right)):
            return self._absent(form, left)
        right = self._part(form.right)
        match form:
            case nf.JoinForm():
                return self._joined(form, left, right)
            case nf.AbsenceForm():
                if not form.relation.operator.follows:
                    self._edges.extend(repeated(left, right))
                return self._over_time(left, right, form.predicate, form.relation)
            case nf.NextForm():
                return self._over_time(left, right, form.predicate)
            case nf.FoldForm():
                return self._over_time(left, right, form.folding.predicate)
            case _:
                assert_never(form)

    def _given(self, form: nf.NormalForm) -> bool:
        return all(self._question.documents[place] is not None for place in covered(form))

    def _scan(self, component: int) -> QuerySide:
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
        return QuerySide(one.id, one.ts, one.ts, one.clock, one.rank, late, (one,))

    def _joined(self, form: nf.JoinForm, left: QuerySide, right: QuerySide) -> QuerySide:
        self._edges.extend(repeated(left, right))
        near = list(in_relation(form.relation, left, right))
        self._edges.extend(near)
        if not self._question.found and all(edge.holds for edge in near if edge.kind == "time"):
            self._edges.extend(dropped(form.relation, left, right))
        return together(left, right, self._values(form.predicate))

    def _over_time(
        self,
        left: QuerySide,
        right: QuerySide,
        predicate: Predicate | None,
        relation: TemporalRelation = UNBOUNDED,
    ) -> QuerySide:
        self._in_time(left, right)
        self._edges.extend(in_relation(relation, left, right))
        both = together(left, right, self._values(predicate))
        return settled(both, both.ts)

    def _in_time(self, *sides: QuerySide) -> None:
        """Add the edges of what came too late; what was found did not, as it was found."""
        if not self._question.found:
            self._edges.extend(belated(self._latest, *sides))

    def _values(self, predicate: Predicate | None) -> tuple[TestedConjunct, ...]:
        """Add the parts of a predicate, and return them."""
        found = self._choices.conjuncts(predicate)
        self._edges.extend(self._choices.edges(found))
        return found

    # -- What is not there -----------------------------------------------------------------

    def _absent(self, form: nf.AbsenceForm, left: QuerySide) -> QuerySide:
        """Add the edge that documents on the right side, if any, do not answer the left."""
        self._in_time(left)
        if self._given(form.right):
            before, self._edges = self._edges, []
            right = self._answering(form, left)
            reasons, self._edges = self._edges, before
            text = f"{right.name} does not answer {left.name}"
            is_answer = all(reason.holds for reason in reasons)
            if is_answer and self._question.found:
                self._edges.append(Edge("order", text, True, "it came after the silence was over"))
            else:
                self._edges.append(Edge("order", text, not is_answer, _reasons(reasons)))
        return settled(left, left.ts + form.waits[0])

    def _answering(self, form: nf.AbsenceForm, left: QuerySide) -> QuerySide:
        """Add the edges of an answer, and return the right side."""
        for place in covered(form.right):
            known = self._question.documents[place]
            assert known is not None
            missed = self._question.unseen(known)
            if missed is not None:
                self._edges.append(Edge("registration", known.stored.id, False, missed))
        right = self._part(form.right)
        self._edges.extend(belated(self._latest, right))
        self._edges.extend(in_relation(form.relation, left, right))
        predicate = self._values(form.predicate)
        if self._hold() and not self._answers(form, left, right, predicate):
            self._edges.append(Edge("value", "the predicate", False, "not by the same nodes"))
        return right

    def _answers(
        self,
        form: nf.AbsenceForm,
        left: QuerySide,
        right: QuerySide,
        predicate: tuple[TestedConjunct, ...],
    ) -> bool:
        """Return True if the right side answers all bindings of the left side."""
        mine = nf.components(form.left)
        names = [
            name for one in predicate for name in one.variables if self._normal.places[name] in mine
        ]
        return all(
            next(self._choices.of((*predicate, *right.conjuncts), chosen), None) is not None
            for chosen in self._choices.of(left.conjuncts, names=names)
        )


def _reasons(reasons: Iterable[Edge]) -> str:
    """Return the reason why a document is no answer, or the values by which it is one."""
    failing = [reason for reason in reasons if not reason.holds]
    if failing:
        return "; ".join(f"not so: {one.text}: {one.nearest or 'no'}" for one in failing)
    values = [f"{reason.text}: {reason.nearest}" for reason in reasons if reason.kind == "value"]
    return "; ".join(("it does", *values))


# -- The answer ------------------------------------------------------------------------------


def why(*questions: WhyQuestion) -> Why:
    """Explain why a query matches the documents of its blocks, or why not.

    Of several questions about the same documents, the first counts whose answer has a reason.
    """
    question, edges = questions[0], Examination(questions[0]).edges()
    for other in questions[1:]:
        if question.found is False and _hold(edges):
            question, edges = other, Examination(other).edges()
    if question.found is False and _hold(edges):
        text = f"{question.label} has the match"
        edges = (*edges, Edge("registration", text, False, question.lost(question)))
    # Mismatches keep whole names: their hints declare prefixes, perhaps those of the query.
    shown = tuple(
        replace(edge, text=with_prefixes(edge.text, question.query.prefixes)) for edge in edges
    )
    return Why(question.label, question.names, _hold(edges), shown)


def _hold(edges: Sequence[Edge]) -> bool:
    return all(edge.holds for edge in edges)
