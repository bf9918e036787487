"""The answer: all conditions of a query on the documents of its blocks, as edges.

The parts of the query are examined from the inside.  First come the patterns of the blocks.  Then
each operator adds the order and window of its sides, the retention of the earlier one, and the
parts of its predicate.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, assert_never

from templates.model.join_graph import INFINITE, UNBOUNDED, TemporalRelation
from xscl.documents.document_ids import StoredDocument
from xscl.inspection.reasons import Edge, Why
from xscl.inspection.replay import TRIED, TrialScope
from xscl.inspection.why.mismatch import mismatch, with_names
from xscl.inspection.why.question import KnownDocument, WhyQuestion, covered, lacks
from xscl.inspection.why.values import Choices, TestedConjunct
from xscl.language import normalform as nf
from xscl.language.names import with_prefixes
from xscl.language.parser import parse
from xscl.language.syntax import Join, Predicate, Query, StreamExpression
from xscl.language.unparse import unparse
from xscl.store.queries.tables import EARLIEST
from xscl.subscriptions.match import Match
from xscl.time_format import UNITS, written


class Examination:
    """Collects the edges of one question: the conditions of a match on its documents."""

    def __init__(self, question: WhyQuestion) -> None:
        self._question = question
        self._normal = question.query.normal
        self._choices = Choices(question.query.patterns, question.trees)
        self._latest = max(question.lateness.values())
        self._edges: list[Edge] = []
        self._pending: list[tuple[int, TestedConjunct]] = []  # with the place of its edge

    def edges(self) -> tuple[Edge, ...]:
        """Return all conditions of the query on the documents; they match iff every edge holds.

        Of a query with a calendar only blocks are examined, and a trial, which has the instants.
        """
        self._edges.extend(self._registered())
        calendars, form = self._question.query.calendars, self._normal.form
        alone: NodesAlone | None = None
        if calendars:
            for place in self._question.trees:
                self._scan(place)
        else:
            side = self._part(form)
            self._decide()
            if isinstance(form, nf.AbsenceForm) and self._hold():
                alone = self._alone(form, side)
        if self._hold() and (calendars or is_over_time(form)):
            self._edges.append(temporal_choice(self._question, alone))
        return tuple(self._edges)

    def _hold(self) -> bool:
        return all(edge.holds for edge in self._edges)

    def _registered(self) -> Iterator[Edge]:
        """Yield an edge that holds if the subscription sees all documents; none without one."""
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
            case nf.NextForm() | nf.FoldForm():
                return self._over_time(left, right, form.predicate)
            case _:
                assert_never(form)

    def _given(self, form: nf.NormalForm) -> bool:
        return not lacks(form, self._question.documents)

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
        """Add a failing edge for each side that came too late, unless the match was found."""
        if not self._question.found:
            self._edges.extend(belated(self._latest, *sides))

    def _values(self, predicate: Predicate | None) -> tuple[TestedConjunct, ...]:
        """Keep a place for an edge for each part of a predicate, and return the parts.

        `_decide` makes the edges of all parts of the query: they show the same nodes.
        """
        found = self._choices.conjuncts(predicate)
        self._pending.extend((len(self._edges), conjunct) for conjunct in found)
        return found

    def _compared(self, form: nf.AbsenceForm, side: nf.NormalForm) -> list[str]:
        """Return the variables of a side of an absence that its predicate compares.

        Those that ELSE leaves without a document are bound to no nodes.
        """
        mine = {place for place in nf.components(side) if place in self._question.trees}
        conjuncts = self._choices.conjuncts(form.predicate)
        names = (name for conjunct in conjuncts for name in conjunct.variables)
        return [name for name in names if self._normal.places[name] in mine]

    def _alone(self, form: nf.AbsenceForm, side: QuerySide) -> NodesAlone:
        """Return the choices of nodes of the side that is alone."""
        is_right = form.alone[1] and not self._given(form.left)
        names = self._compared(form, form.right if is_right else form.left)
        choices = self._choices.of(side.conjuncts, names=names)
        return NodesAlone(names, {self._choices.numbers(one, names) for one in choices})

    def _decide(self, given: Sequence[TestedConjunct] = ()) -> None:
        """Insert the edges of the parts of predicates; nodes satisfy those of `given`, too."""
        decided = self._choices.edges([conjunct for _, conjunct in self._pending], given)
        for added, ((place, _), edge) in enumerate(zip(self._pending, decided, strict=True)):
            self._edges.insert(place + added, edge)
        self._pending.clear()

    # -- What is not there -----------------------------------------------------------------

    def _absent(self, form: nf.AbsenceForm, left: QuerySide) -> QuerySide:
        """Add an edge, if there are right documents, that holds if they do not answer the left.

        Return the left side, as it is when its time to wait is over.
        """
        self._in_time(left)
        if self._given(form.right):
            before, self._edges, self._pending = (self._edges, self._pending), [], []
            right = self._answering(form, left)
            reasons, (self._edges, self._pending) = self._edges, before
            text = f"{right.name} does not answer {left.name}"
            is_answer = all(reason.holds for reason in reasons)
            if is_answer and self._question.found:
                self._edges.append(Edge("order", text, True, "it came after the silence was over"))
            else:
                self._edges.append(Edge("order", text, not is_answer, _reasons(reasons)))
        return settled(left, left.ts + form.waits[0])

    def _answering(self, form: nf.AbsenceForm, left: QuerySide) -> QuerySide:
        """Add the edges by which the right side answers the left one; return the right side."""
        for place in covered(form.right):
            known = self._question.documents[place]
            missed = None if known is None else self._question.unseen(known)
            if known is not None and missed is not None:
                self._edges.append(Edge("registration", known.stored.id, False, missed))
        right = self._part(form.right)
        self._edges.extend(belated(self._latest, right))
        self._edges.extend(in_relation(form.relation, left, right))
        predicate = self._values(form.predicate)
        self._decide(left.conjuncts)
        answer = (*predicate, *right.conjuncts)
        names = self._compared(form, form.left)
        answers = (
            next(self._choices.of(answer, chosen), None)
            for chosen in self._choices.of(left.conjuncts, names=names)
        )
        if self._hold() and None in answers:
            near = f"it answers some nodes of {left.name}, and not all"
            self._edges.append(Edge("value", "it answers all", False, near))
        return right


def _reasons(reasons: Iterable[Edge]) -> str:
    """Return in words why a document is no answer or, if it is one, the values that say so."""
    failing = [reason for reason in reasons if not reason.holds]
    if failing:
        return "; ".join(f"it is not so that {one.text}: {one.nearest or 'no'}" for one in failing)
    values = [f"{reason.text}: {reason.nearest}" for reason in reasons if reason.kind == "value"]
    return "; ".join(("it does", *values))


# -- The answer ------------------------------------------------------------------------------


def why(*questions: WhyQuestion) -> Why:
    """Explain why a query matches the documents of its blocks, or why not.

    Several questions are about the same documents.  The answer is that to the first one.  The next
    one is answered instead if all conditions hold, and the subscription lacks the match.
    """
    question, edges = questions[0], Examination(questions[0]).edges()
    for other in questions[1:]:
        if question.found is False and _hold(edges):
            question, edges = other, Examination(other).edges()
    if question.found is False and _hold(edges):
        text = f"{question.label} has the match"
        edges = (*edges, Edge("registration", text, False, question.lost(question)))
    # Mismatches keep namespaces in names: their hints declare prefixes, perhaps the query's own.
    shown = tuple(
        replace(edge, text=with_prefixes(edge.text, question.query.prefixes)) for edge in edges
    )
    return Why(question.label, question.names, _hold(edges), shown)


def _hold(edges: Sequence[Edge]) -> bool:
    return all(edge.holds for edge in edges)


# -- Time: the conditions between two sides of an operator -----------------------------------

# A side is the composite of a part of the query.  It has an interval [start, ts] of event time.
# The `rank` of a side is that of its newest document, the place in the order of arrival.


@dataclass(frozen=True, slots=True)
class QuerySide:
    """One side of an operator: its interval, the clock M(n) and the rank of its newest document.

    `lateness` is the largest one of its streams, `conjuncts` are those of all its predicates.
    """

    name: str
    start: int
    ts: int
    clock: int
    rank: int
    lateness: int
    documents: tuple[StoredDocument, ...]
    conjuncts: tuple[TestedConjunct, ...] = ()


def together(
    left: QuerySide, right: QuerySide, conjuncts: tuple[TestedConjunct, ...] = ()
) -> QuerySide:
    """Return two sides as one, with the conjuncts of the predicate between them."""
    newest = max(left, right, key=lambda side: side.rank)
    return QuerySide(
        f"{left.name} + {right.name}",
        min(left.start, right.start),
        max(left.ts, right.ts),
        newest.clock,
        newest.rank,
        max(left.lateness, right.lateness),
        (*left.documents, *right.documents),
        (*left.conjuncts, *right.conjuncts, *conjuncts),
    )


def settled(side: QuerySide, ts: int) -> QuerySide:
    """Return a side as the result of a temporal operator, whose interval ends at `ts`.

    It arrived before all documents, so it is in time for everything in its window.
    """
    return replace(side, ts=ts, clock=EARLIEST, rank=0)


def repeated(left: QuerySide, right: QuerySide) -> Iterator[Edge]:
    """Yield a failing edge for each document that, perhaps in versions, is on both sides."""
    for document in left.documents:
        for other in right.documents:
            if document.base == other.base:
                text = f"{left.name} and {right.name} are different documents"
                both = "the same" if document.doc == other.doc else "versions of the same"
                yield Edge("order", text, False, f"{document.id} and {other.id} are {both}")


def in_relation(relation: TemporalRelation, left: QuerySide, right: QuerySide) -> Iterator[Edge]:
    """Yield an edge for each bound that a relation sets on the times of two sides."""
    lead, gap = right.start - left.ts, right.ts - left.ts
    measured = {"lead": lead, "gap": gap}
    if relation.operator.follows:
        near = f"by {duration(lead)}" if lead > 0 else f"it is {duration(-lead)} later"
        near = near if lead else "both are at the same time"
        yield Edge("order", f"{left.name} is before {right.name}", lead > 0, near)
    if relation.least is None:
        if relation.window is not None:
            yield _at_most_apart(relation.upper, left, right)
        return
    for bound in relation.bounds:
        value = measured[bound.measure]
        if relation.operator.follows and not bound.is_least:
            yield _at_most_apart(relation.upper, left, right)
            continue
        side = "after" if bound.ticks > 0 or (bound.ticks == 0 and not bound.is_least) else "before"
        least = bound.is_least == (side == "after")
        text = f"{right.name} comes at {'least' if least else 'most'} {duration(abs(bound.ticks))}"
        near = f"it comes {duration(abs(value))} {'after' if value > 0 else 'before'} it"
        near = near if value else "they are at the same time"
        if not bound.holds(value):
            over = duration(abs(value - bound.ticks))
            near = f"{near}, {over} too {'early' if bound.is_least else 'late'}"
        yield Edge("time", f"{text} {side} {left.name}", bound.holds(value), near)


def _at_most_apart(upper: int, left: QuerySide, right: QuerySide) -> Edge:
    gap = abs(right.ts - left.ts)
    near = f"they are {duration(gap)} apart" if gap else "they are at the same time"
    if gap > upper:
        near = f"{near}, {duration(gap - upper)} too much"
    text = f"{left.name} and {right.name} are at most {duration(upper)} apart"
    return Edge("time", text, gap <= upper, near)


def dropped(relation: TemporalRelation, left: QuerySide, right: QuerySide) -> Iterator[Edge]:
    """Yield a failing edge if the earlier arrival was evicted before the newcomer arrived."""
    keep = relation.keep(max(left.lateness, right.lateness))
    pairs = [(left, right)] if left.rank < right.rank else [(right, left)]
    if left.rank == right.rank:
        pairs.append((left, right))
    for old, new in pairs:
        over = new.clock - old.ts - keep
        if over > 0:
            text = f"{old.name} was still kept when {new.name} came"
            near = f"{new.name} came {duration(over)} too late: with this window and lateness"
            near = f"{near} it is kept for {duration(keep)}"
            if all(document.history for document in new.documents):
                near += "; 'try' takes what a feed held already as if it had come in its own time"
            yield Edge("time", text, False, near)
            return


def belated(lateness: int, *sides: QuerySide) -> Iterator[Edge]:
    """Yield a failing edge for each side that came later than `lateness`, in ticks, allows."""
    for side in sides:
        behind = side.clock - lateness - side.ts
        if behind > 0:
            text = f"{side.name} came in time for an operator over time"
            near = f"it came {duration(behind)} too late, with a lateness of {duration(lateness)}"
            yield Edge("time", text, False, near)


def duration(ticks: int) -> str:
    """Return a duration in its two largest units, up to days: `30 d`, `1 d 5 h`; `0 s`."""
    if ticks == 0:
        return "0 s"
    parts: list[str] = []
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if unit != "w" and ticks >= length and len(parts) < 2:
            parts.append(f"{ticks // length} {unit}")
            ticks %= length
    return " ".join(parts) or f"{ticks} tick{'' if ticks == 1 else 's'}"


# -- Operators over time ---------------------------------------------------------------------

# NEXT chooses the earliest document, FOLD continues from row to row, NOT FOLLOWED BY waits.
# The documents of a question alone do not decide the result of such an operator.
# So a query with such an operator is tried on all kept documents in the question's period.


def is_over_time(form: nf.NormalForm) -> bool:
    """Return True if a form contains a temporal operator."""
    return any(
        isinstance(one, nf.NextForm | nf.FoldForm | nf.AbsenceForm) for one in nf.forms(form)
    )


class NodesAlone(NamedTuple):
    """Variables of the side of an absence that is alone, and the numbers of nodes in each choice.

    Nodes that have no answer are a match, whatever answers others of the same document.
    """

    names: Sequence[str]
    choices: set[tuple[int, ...]]


def temporal_choice(question: WhyQuestion, alone: NodesAlone | None) -> Edge:
    """Return an edge that holds if the temporal operators yield the match.

    If not, its `nearest` says what they yield instead.  `alone` is None but for an absence.
    """
    placed = (question.documents[place] for place in question.query.components)
    wanted = tuple("" if one is None else one.stored.id for one in placed)
    text = f"the query finds {', '.join(_present(wanted))} among all kept documents"
    found = {wanted} if question.found else _found(question, question.query.source)
    if wanted in found:
        waits = _pending(question) if question.found is False else None
        return Edge("order", text, waits is None, waits, waits is not None)
    near, pending = _instead(question, _present(wanted), set(map(_present, found)), alone)
    return Edge("order", text, False, near, pending)


def _present(by_block: Sequence[str]) -> tuple[str, ...]:
    return tuple(filter(None, by_block))


def _found(question: WhyQuestion, query: str) -> set[tuple[str, ...]]:
    """Return the names of the documents of each match of a query in a trial, by block."""
    return {match.by_block for match in _tried(question, query)}


def _tried(question: WhyQuestion, query: str) -> Sequence[Match]:
    """Return the matches of a query in a trial on all kept documents of the question's period."""
    subscription = question.subscription
    known = [document for document in question.documents if document is not None]
    trial = TrialScope(
        TRIED,
        query,
        question.query.streams,
        subscription is None or subscription.updates,
        0 if subscription is None else subscription.since,
        *_period(question, known),
        {one.stored.doc: one.xml for one in known},
        own_time=question.own_time,
    )
    return question.attempt(trial)


def _period(question: WhyQuestion, known: Sequence[KnownDocument]) -> tuple[int, int]:
    """Return the first and last event time of documents that decide about a match of `known`.

    Both are in ticks.  With a calendar documents of all times decide.
    """
    if question.query.calendars:
        return -INFINITE, INFINITE
    times = [one.stored.ts for one in known]
    form = question.query.normal.form
    last = INFINITE if nf.has_longest(form) else max(times) + _deadlines(form)
    return min(times) - _earliest(form), last


def _earliest(form: nf.NormalForm) -> int:
    """Return the time before its documents in which a match may have had an answer, in ticks."""
    absent = [one.relation for one in nf.forms(form) if isinstance(one, nf.AbsenceForm)]
    return sum(one.keep(0) for one in absent if one.looks_back)


def _deadlines(form: nf.NormalForm) -> int:
    """Return the time after its documents for which a match waits for absences, in ticks."""
    return sum(one.window for one in nf.forms(form) if isinstance(one, nf.AbsenceForm))


def _instead(
    question: WhyQuestion,
    wanted: tuple[str, ...],
    found: set[tuple[str, ...]],
    alone: NodesAlone | None,
) -> tuple[str | None, bool]:
    """Return in words the reason why operators over time do not yield a match; None if unknown.

    The reason is the documents that answered or consumed the left ones, and the second value False.
    Or an absence is not decided yet: then the words say when it will be, and the value is True.

    `wanted` are the documents' names in the question, `found` those in each match of a trial.
    """
    form = question.query.normal.form
    if question.query.calendars:
        return None, False
    if isinstance(form, nf.AbsenceForm) and not _is_answer(question, form):
        expression: StreamExpression = parse(question.query.source)
        while isinstance(expression, Query):
            expression = expression.expression
        assert isinstance(expression, Join)
        plain = replace(expression, alone=(False, False), negated=False)
        is_right = lacks(form.left, question.documents)
        mine = slice(-len(wanted), None) if is_right else slice(len(wanted))
        pairs = [
            match
            for match in _tried(question, unparse(plain))
            if _present(match.by_block)[mine] == wanted
        ]
        others = {_present(match.by_block) for match in pairs}
        answers = _others(
            wanted, "is answered by", {one[:1] if is_right else one for one in others}
        )
        waits = None
        if alone is not None and not alone.choices <= {
            _numbers(match, alone.names) for match in pairs
        }:
            waits = _pending(question)
            if answers and waits:
                return f"{answers}, and not all of its nodes: {waits}", True
        return answers or waits, waits is not None
    left = wanted[:-1]
    taken = _others(left, "was taken by", {one for one in found if one[:-1] == left})
    if taken is None and nf.has_longest(form):
        return "no later document has ended the run", False
    return taken, False


def _numbers(match: Match, names: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the nodes of variables in a match."""
    bindings = match.bindings
    return tuple(bindings[name][0].node for name in names)


def _pending(question: WhyQuestion) -> str | None:
    """Return in words the time at which a match is certain; None if that time has passed.

    None with a calendar, too: trials have no matches of instants that are not certain.
    """
    if question.query.calendars:
        return None
    if nf.has_longest(question.query.normal.form):
        return "it is decided when time passes the document that ends the run"
    deadline = _period(
        question, [document for document in question.documents if document is not None]
    )[1]
    if deadline <= question.watermark:
        return None
    lateness = max(question.lateness.values())
    end, now = deadline + lateness, question.watermark + 1 + lateness
    text = f"it is decided when time passes {written(end)}; time is at {written(now)}"
    if not question.not_live:
        return f"{text}, and a later document or the wall clock of a service advances it"
    streams = ", ".join(map(repr, question.not_live))
    verb = "is" if len(question.not_live) == 1 else "are"
    text = f"{text}, and only a later document advances it, as {streams} {verb} not live"
    return f"{text}; by the wall clock it has passed" if end < time.time_ns() // 1_000 else text


def _is_answer(question: WhyQuestion, form: nf.AbsenceForm) -> bool:
    """Return True if the match of the question has an answer, as FOLLOWED BY ... ELSE may."""
    sides = form.left, form.right
    return form.otherwise and not any(lacks(side, question.documents) for side in sides)


def _others(left: tuple[str, ...], verb: str, others: set[tuple[str, ...]]) -> str | None:
    names: Iterator[str] = (other[-1] for other in sorted(others))
    return f"{', '.join(left)} {verb} {', '.join(names)}" if others else None
