"""The edges of a match: what a query asks of the documents of its blocks, one thing after another.

The documents are looked at by themselves, by navigation: the pattern of each block, each part of
each predicate, order and window, whether one was still kept when the other came.  What an operator
over time takes depends on other documents, too: a query with one is at last tried on all that are
kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, assert_never

from templates.relations import INFINITE
from xscl.choices import Choices, Conjunct
from xscl.compile import CompiledQuery
from xscl.documents import EARLIEST, Stored
from xscl.history import TRIED, Trial
from xscl.language.limits import UNITS
from xscl.language.normalform import (
    Absent,
    Folded,
    Following,
    Form,
    Joined,
    Scan,
    aggregates,
    components,
)
from xscl.language.parser import parse
from xscl.language.renaming import distinct_names
from xscl.language.scope import Scope, leaves, with_leaves, with_operands
from xscl.language.syntax import (
    And,
    Block,
    Decorated,
    Expression,
    FollowedBy,
    Join,
    Not,
    Operand,
    Or,
    Predicate,
    Query,
    VariablePath,
)
from xscl.language.unparse import unparse
from xscl.match import Subscription
from xscl.mismatch import mismatch
from xscl.nearest import told
from xscl.residual import texts_of
from xscl.xpath.tree import Tree

Kind: TypeAlias = Literal["pattern", "value", "time", "order", "registration"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A condition of a match, and whether it holds; `nearest` says by what, or what is nearest."""

    kind: Kind
    text: str
    holds: bool
    nearest: str | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A document that is asked about, with its text and its nodes."""

    stored: Stored
    streams: tuple[str, ...]
    xml: bytes
    tree: Tree


class Found(Protocol):
    """A match of a trial, as far as it is looked at here."""

    @property
    def documents(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Question:
    """A query, the subscription that it is (if it is one), and a document for each block.

    `lateness` gives that of a stream, `attempt` the matches of a trial.
    """

    query: CompiledQuery
    subscription: Subscription | None
    documents: tuple[Known | None, ...]
    lateness: Callable[[str], int]
    attempt: Callable[[Trial], Sequence[Found]]

    @property
    def trees(self) -> Mapping[int, Tree]:
        return {place: one.tree for place, one in enumerate(self.documents) if one is not None}

    def seen(self, known: Known) -> tuple[bool, str]:
        """Return whether the subscription sees a document, and if not, why."""
        one, subscription = known.stored, self.subscription
        if subscription is None:
            return True, ""
        if one.first < subscription.since:
            return False, f"{one.id} arrived before the subscription"
        if one.version > 1 and not subscription.updates:
            return False, f"{one.id} is a new version, and the subscription sees first ones only"
        return True, ""


def examined(question: Question) -> tuple[Edge, ...]:
    """Return all that a query asks of its documents; they match iff every edge holds."""
    return _Examination(question).edges()


@dataclass(frozen=True, slots=True)
class _Side:
    """What a part of the query makes of its documents: an interval, and a place among arrivals.

    `conjuncts` are those of all predicates in it.
    """

    name: str
    start: int
    ts: int
    clock: int
    rank: int
    lateness: int
    documents: tuple[Stored, ...]
    conjuncts: tuple[Conjunct, ...] = ()


class _Examination:
    """One question while its edges are collected."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._normal = question.query.normal
        self._source = question.query.source
        self._choices = Choices(question.query.patterns, question.trees)
        self._edges: list[Edge] = []

    def edges(self) -> tuple[Edge, ...]:
        """Return all edges."""
        expression = distinct_names(parse(self._source).expression, self._source)
        self._registered()
        side = self._part(self._normal.form, expression)
        if self._holds() and not self._satisfied(side.conjuncts):
            near = "each holds for some nodes, but no choice of nodes satisfies them together"
            self._edge("value", " AND ".join(map(_text, side.conjuncts)), False, near)
        if self._holds() and _is_over_time(self._normal.form):
            self._over_time(expression)
        return tuple(self._edges)

    def _edge(self, kind: Kind, text: str, holds: bool, nearest: str | None = None) -> None:
        self._edges.append(Edge(kind, text, holds, nearest))

    def _holds(self) -> bool:
        return all(edge.holds for edge in self._edges)

    def _registered(self) -> None:
        """Add whether the subscription sees the documents of the match."""
        if self._question.subscription is None:
            return
        asked = [self._question.documents[place] for place in self._question.query.components]
        known = [one for one in asked if one is not None]
        missed = list(dict.fromkeys(why for one in known for ok, why in [self._see(one)] if not ok))
        text = f"the subscription sees {_listed(one.stored.id for one in known)}"
        self._edge("registration", text, not missed, "; ".join(missed) or None)

    def _see(self, known: Known) -> tuple[bool, str]:
        return self._question.seen(known)

    # -- Parts of the query ----------------------------------------------------------------

    def _part(self, form: Form, expression: Expression) -> _Side:
        """Add the edges of a part of the query, and return what it makes of its documents."""
        while isinstance(expression, Query):
            expression = expression.expression
        if isinstance(form, Scan):
            return self._scan(form.component)
        assert not isinstance(expression, Block)
        left = self._part(form.left, expression.left)
        if isinstance(form, Absent) and not self._given(form.right):
            self._punctual(left)
            return _over_time(left, left.ts + form.window)
        if isinstance(form, Absent) and not form.otherwise:
            self._punctual(left)
            self._unanswered(form, expression, left)
            return _over_time(left, left.ts + form.window)
        right = self._part(form.right, expression.right)
        both = _together(left, right)
        match form:
            case Joined():
                assert isinstance(expression, Join | FollowedBy)
                self._different(left, right)
                self._within(form.operator == "FOLLOWED BY", form.window, left, right)
                self._kept(form.window, left, right)
                predicate = self._resolved(form, expression)
                return replace(both, conjuncts=(*both.conjuncts, *self._values(predicate)))
            case Absent():
                self._punctual(left, right)
                self._within(True, form.window, left, right)
                found = self._values(form.predicate)
            case Following():
                self._punctual(left, right)
                self._within(True, None, left, right)
                found = self._values(form.predicate)
            case Folded():
                self._punctual(left, right)
                self._within(True, None, left, right)
                found = self._values(form.folding.predicate)
            case _:
                assert_never(form)
        return _over_time(replace(both, conjuncts=(*both.conjuncts, *found)), both.ts)

    def _given(self, form: Form) -> bool:
        return all(self._question.documents[place] is not None for place in _covered(form))

    def _scan(self, component: int) -> _Side:
        block = self._normal.blocks[component]
        known = self._question.documents[component]
        assert known is not None
        one = known.stored
        text = f"{one.id} matches {unparse(block)}"
        if block.stream not in known.streams:
            near = f"{one.id} belongs to {_listed(known.streams)}"
            self._edge("pattern", text, False, near)
        elif self._choices.matched(component):
            self._edge("pattern", text, True)
        else:
            self._edge("pattern", text, False, mismatch(block, known.tree))
        late = self._question.lateness(block.stream)
        return _Side(one.id, one.ts, one.ts, one.clock, one.rank, late, (one,))

    # -- Documents and time ----------------------------------------------------------------

    def _different(self, left: _Side, right: _Side) -> None:
        """Add that a document, or versions of one, occurs on both sides, if it does."""
        for one in left.documents:
            for other in right.documents:
                if one.base == other.base:
                    text = f"{left.name} and {right.name} are different documents"
                    both = "the same" if one.doc == other.doc else "versions of the same"
                    self._edge("order", text, False, f"{one.id} and {other.id} are {both}")

    def _within(self, ordered: bool, window: int | None, left: _Side, right: _Side) -> None:
        """Add the order of two sides, if it counts, and their window."""
        if ordered:
            lead = right.start - left.ts
            near = f"by {duration(lead)}" if lead > 0 else f"it is {duration(-lead)} later"
            near = near if lead else "both are at the same time"
            self._edge("order", f"{left.name} is before {right.name}", lead > 0, near)
        if window is not None:
            gap = right.ts - left.ts
            far = gap if ordered else abs(gap)
            near = f"they are {duration(abs(gap))} apart"
            if far > window:
                near = f"{near}, {duration(far - window)} too much"
            text = f"{left.name} and {right.name} are at most {duration(window)} apart"
            self._edge("time", text, far <= window, near)

    def _kept(self, window: int | None, left: _Side, right: _Side) -> None:
        """Add that the earlier arrival was still kept when the newcomer came, if it was not."""
        if window is None:
            return
        keep = window + max(left.lateness, right.lateness)
        pairs = [(left, right)] if left.rank < right.rank else [(right, left)]
        if left.rank == right.rank:
            pairs.append((left, right))
        for old, new in pairs:
            over = new.clock - old.ts - keep
            if over > 0:
                text = f"{old.name} was still kept when {new.name} came"
                near = f"{new.name} came {duration(over)} too late: with this window and lateness"
                near = f"{near} it is kept for {duration(keep)}"
                self._edge("time", text, False, near)
                return

    def _punctual(self, *sides: _Side) -> None:
        """Add that what an operator over time reads came too late for it, if it did."""
        late = max(map(self._question.lateness, self._question.query.streams))
        for side in sides:
            behind = side.clock - late - side.ts
            if behind > 0:
                text = f"{side.name} came in time for an operator over time"
                near = f"it came {duration(behind)} too late, with a lateness of {duration(late)}"
                self._edge("time", text, False, near)

    # -- Values ----------------------------------------------------------------------------

    def _resolved(self, form: Joined, expression: Join | FollowedBy) -> Predicate | None:
        """Return the predicate of a join as it was written."""
        if expression.predicate is None:
            return None
        scope = Scope(self._source, self._names(form.left), self._names(form.right))
        return scope.resolved(expression.predicate, paths=True)

    def _names(self, form: Form) -> tuple[str, ...]:
        covered = components(form)
        places = self._normal.places.items()
        return (*(name for name, place in places if place in covered), *aggregates(form))

    def _conjuncts(self, predicate: Predicate | None) -> tuple[Conjunct, ...]:
        """Return the parts of a predicate that the documents decide: without a FOLD's values."""
        if predicate is None:
            return ()
        found = with_operands(predicate, lambda operand: with_leaves(operand, _plain))
        return tuple(Conjunct(part) for part in _parts(found) if self._is_decided(part))

    def _is_decided(self, predicate: Predicate) -> bool:
        return all(
            isinstance(leaf, VariablePath) and leaf.variable in self._normal.places
            for leaf in leaves(predicate)
            if isinstance(leaf, VariablePath | Decorated)
        )

    def _values(self, predicate: Predicate | None) -> tuple[Conjunct, ...]:
        """Add the parts of a predicate, and return them."""
        found = self._conjuncts(predicate)
        for one in found:
            self._edge("value", _text(one), self._satisfied([one]), self._told(one))
        return found

    def _satisfied(self, conjuncts: Sequence[Conjunct]) -> bool:
        return next(self._choices.of(conjuncts), None) is not None

    def _told(self, conjunct: Conjunct) -> str:
        return told(conjunct.predicate, self._texts)

    def _texts(self, operand: Operand) -> Sequence[str]:
        """Return the values of an operand over all nodes of its variable; of several, none."""
        names = {leaf.variable for leaf in leaves(operand) if isinstance(leaf, VariablePath)}
        texts = texts_of(with_leaves(operand, _here))
        if not names:
            return texts("")
        if len(names) > 1:
            return [unparse(operand)]
        return [text for item in self._choices.items(names.pop()) for text in texts(item)]

    # -- What is not there, and what is taken ----------------------------------------------

    def _unanswered(self, form: Absent, expression: Expression, left: _Side) -> None:
        """Add that the document on the right side of NOT FOLLOWED BY does not answer the left."""
        assert isinstance(expression, FollowedBy)
        before, self._edges = self._edges, []
        for place in _covered(form.right):
            known = self._question.documents[place]
            assert known is not None
            sees, missed = self._see(known)
            if not sees:
                self._edge("registration", known.stored.id, False, missed)
        right = self._part(form.right, expression.right)
        self._punctual(right)
        self._within(True, form.window, left, right)
        predicate = self._values(form.predicate)
        if self._holds() and not self._answers(left, right, predicate):
            self._edge("value", "the predicate", False, "not by the same nodes")
        reasons, self._edges = self._edges, before
        failing = [edge for edge in reasons if not edge.holds]
        near = [f"{one.text}: {one.nearest}" for one in reasons if one.kind == "value"]
        if failing:
            near = [f"not so: {one.text}: {one.nearest or 'no'}" for one in failing]
        self._edge("order", f"{right.name} does not answer {left.name}", bool(failing), _last(near))

    def _answers(self, left: _Side, right: _Side, predicate: tuple[Conjunct, ...]) -> bool:
        """Whether the right side answers all that the left side can be bound to."""
        mine = {place for one in left.documents for place in self._places(one)}
        names = [
            name for one in predicate for name in one.variables if self._normal.places[name] in mine
        ]
        return all(
            next(self._choices.of((*predicate, *right.conjuncts), chosen), None) is not None
            for chosen in self._choices.of(left.conjuncts, names=names)
        )

    def _places(self, one: Stored) -> Iterator[int]:
        """Yield the components of a document that a match has."""
        for place in self._question.query.components:
            known = self._question.documents[place]
            if known is not None and known.stored.doc == one.doc:
                yield place

    def _over_time(self, expression: Expression) -> None:
        """Add whether the operators over time, given all kept documents, yield the match."""
        trial = self._trial(self._source)
        parts = [self._question.documents[place] for place in self._question.query.components]
        wanted = tuple(one.stored.id for one in parts if one is not None)
        found = {match.documents for match in self._question.attempt(trial)}
        text = f"the operators over time yield {_listed(wanted)}, of all kept documents"
        near = None if wanted in found else self._instead(expression, wanted, found)
        self._edge("order", text, wanted in found, near)

    def _trial(self, query: str) -> Trial:
        subscription = self._question.subscription
        known = [one for one in self._question.documents if one is not None]
        return Trial(
            TRIED,
            query,
            self._question.query.streams,
            subscription is None or subscription.updates,
            0 if subscription is None else subscription.since,
            min(one.stored.ts for one in known),
            max(one.stored.ts for one in known) + _deadlines(self._normal.form),
            {one.stored.doc: one.xml for one in known},
        )

    def _instead(
        self, expression: Expression, wanted: tuple[str, ...], found: set[tuple[str, ...]]
    ) -> str | None:
        """Return what took the left document, or answered it."""
        form = self._normal.form
        while isinstance(expression, Query):
            expression = expression.expression
        if isinstance(form, Absent) and not self._given_in_match(form):
            assert isinstance(expression, FollowedBy)
            asked = unparse(replace(expression, negated=False, otherwise=False))
            pairs = {match.documents for match in self._question.attempt(self._trial(asked))}
            names = sorted(one[-1] for one in pairs if one[: len(wanted)] == wanted)
            return f"{_listed(wanted)} is answered by {_listed(names)}" if names else None
        others = sorted(one for one in found if one[:-1] == wanted[:-1])
        if not others:
            return None
        return f"{_listed(wanted[:-1])} was taken by {_listed(one[-1] for one in others)}"

    def _given_in_match(self, form: Absent) -> bool:
        return form.otherwise and self._given(form.right)


# -- Sides -----------------------------------------------------------------------------------


def _together(left: _Side, right: _Side) -> _Side:
    newest = max(left, right, key=lambda side: side.rank)
    return _Side(
        f"{left.name} + {right.name}",
        min(left.start, right.start),
        max(left.ts, right.ts),
        newest.clock,
        newest.rank,
        max(left.lateness, right.lateness),
        (*left.documents, *right.documents),
        (*left.conjuncts, *right.conjuncts),
    )


def _over_time(side: _Side, ts: int) -> _Side:
    """Return what an operator over time makes: it is in time for whatever lies in its window."""
    return replace(side, ts=ts, clock=EARLIEST, rank=0)


def _covered(form: Form) -> tuple[int, ...]:
    """Return all components of a form, also those that its results have no documents of."""
    if isinstance(form, Scan):
        return (form.component,)
    return (*_covered(form.left), *_covered(form.right))


def _is_over_time(form: Form) -> bool:
    match form:
        case Scan():
            return False
        case Joined(left, right):
            return _is_over_time(left) or _is_over_time(right)
        case Following() | Folded() | Absent():
            return True
        case _:
            assert_never(form)


def _deadlines(form: Form) -> int:
    """Return how long after its documents a match may have to wait."""
    if isinstance(form, Scan):
        return 0
    below = _deadlines(form.left) + _deadlines(form.right)
    return below + (form.window if isinstance(form, Absent) else 0)


# -- Predicates ------------------------------------------------------------------------------


def _parts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the conjuncts of a predicate."""
    match predicate:
        case And(parts):
            for part in parts:
                yield from _parts(part)
        case Not(Or(parts)):
            for part in parts:
                yield from _parts(Not(part))
        case Not(Not(part)):
            yield from _parts(part)
        case _:
            yield predicate


def _plain(leaf: Operand) -> Operand:
    """Return a name of FOLD without its decorator, but for values of the last row."""
    if isinstance(leaf, Decorated) and leaf.input:
        return VariablePath(leaf.name)
    return leaf


def _here(leaf: Operand) -> Operand:
    return replace(leaf, variable="") if isinstance(leaf, VariablePath) else leaf


# -- Words -----------------------------------------------------------------------------------


def _text(conjunct: Conjunct) -> str:
    return unparse(conjunct.predicate)


def _listed(names: Iterator[str] | Sequence[str]) -> str:
    return ", ".join(names)


def _last(reasons: Sequence[str]) -> str | None:
    return "; ".join(reasons) or None


def duration(ticks: int) -> str:
    """Return a duration in its two largest units: `1 d 5 h`."""
    if ticks >= INFINITE:
        return "INF"
    parts: list[str] = []
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if ticks >= length and len(parts) < 2:
            parts.append(f"{ticks // length} {unit}")
            ticks %= length
    return " ".join(parts) or f"{ticks} tick{'' if ticks == 1 else 's'}"
