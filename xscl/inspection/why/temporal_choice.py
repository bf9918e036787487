"""The choices of temporal operators: a trial of the whole query on all kept documents.

NEXT chooses the earliest document, FOLD continues from row to row, and NOT FOLLOWED BY waits for an
absence.  The documents of a question alone do not decide that.  So a query with such an operator is
tried, within the time of these documents.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from templates.model.join_graph import INFINITE
from xscl.inspection.replay import TRIED, Trial
from xscl.inspection.why.question import Edge, Known, Question, covered
from xscl.language.normalform import Absent, Folded, Following, Form, forms
from xscl.language.syntax import Expression, FollowedBy, Query
from xscl.language.unparse import unparse
from xscl.language.valuejoin import Disjunct
from xscl.time_format import written


def is_over_time(form: Form) -> bool:
    """Return True if a form contains a temporal operator."""
    return any(isinstance(one, Following | Folded | Absent) for one in forms(form))


def temporal_choice(question: Question, expression: Expression) -> Edge:
    """Return the edge that the temporal operators yield the match, or their other result.

    `expression` is that of the query.
    """
    wanted = tuple(one.stored.id for one in question.parts)
    what = "calendars" if question.query.calendars else "operators over time"
    text = f"the {what} yield {', '.join(wanted)}, of all kept documents"
    found = {wanted} if question.found else _found(question, question.query.source)
    if wanted in found:
        waits = _pending(question) if question.found is False else None
        return Edge("order", text, waits is None, waits, waits is not None)
    near, pending = _instead(question, expression, wanted, found)
    return Edge("order", text, False, near, pending)


def _found(question: Question, query: str) -> set[tuple[str, ...]]:
    """Return the documents of a query's matches."""
    subscription = question.subscription
    known = [one for one in question.documents if one is not None]
    trial = Trial(
        TRIED,
        query,
        question.query.streams,
        subscription is None or subscription.updates,
        0 if subscription is None else subscription.since,
        *_period(question, known),
        {one.stored.doc: one.xml for one in known},
        own_time=question.own_time,
    )
    return {match.names for match in question.attempt(trial)}


def _period(question: Question, known: Sequence[Known]) -> tuple[int, int]:
    """Return the first and the last time that can matter; of instants, all."""
    if question.query.calendars:
        return -INFINITE, INFINITE
    times = [one.stored.ts for one in known]
    return min(times), max(times) + _deadlines(question.query.normal.form)


def _deadlines(form: Form) -> int:
    """Return the longest wait of a match after its documents."""
    return sum(one.window for one in forms(form) if isinstance(one, Absent))


def _instead(
    question: Question,
    expression: Expression,
    wanted: tuple[str, ...],
    found: set[tuple[str, ...]],
) -> tuple[str | None, bool]:
    """Return the documents that answered or consumed the left ones, and False.

    If an absence is not decided yet, return what it waits for, and True.
    """
    form = question.query.normal.form
    if question.query.calendars:
        return None, False
    while isinstance(expression, Query):
        expression = expression.expression
    if isinstance(form, Absent) and not _is_answer(question, form):
        assert isinstance(expression, FollowedBy)
        answered = unparse(replace(expression, negated=False, otherwise=False))
        others = {one for one in _found(question, answered) if one[: len(wanted)] == wanted}
        answers = _others(wanted, "is answered by", others)
        waits = _pending(question) if answers is None else None
        return answers or waits, waits is not None
    left = wanted[:-1]
    return _others(left, "was taken by", {one for one in found if one[:-1] == left}), False


def _pending(question: Question) -> str | None:
    """Return the time at which a match is certain, if that is not over, and what it needs."""
    deadline = _period(question, [one for one in question.documents if one is not None])[1]
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


def _is_answer(question: Question, form: Absent[Disjunct]) -> bool:
    """Return True if the match of the question has an answer, as FOLLOWED BY ... ELSE may."""
    return form.otherwise and all(question.documents[p] is not None for p in covered(form.right))


def _others(left: tuple[str, ...], verb: str, others: set[tuple[str, ...]]) -> str | None:
    names: Iterator[str] = (one[-1] for one in sorted(others))
    return f"{', '.join(left)} {verb} {', '.join(names)}" if others else None
