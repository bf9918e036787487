"""Calendars in XSCL: what a query finds is what it would find if a program pushed the instants.

The oracle gets them as documents of a stream, where `tests.cep_core.calendar_reference` has them.
The engine gets the same query with the calendar in place of that stream.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from cep_core import Event
from tests.cep_core.calendar_reference import with_instants
from tests.examples import examples
from tests.oracle.evaluation import matches, outputs
from tests.oracle.queries import (
    Call,
    Comparison,
    Constant,
    Decorated,
    Doc,
    Expression,
    Fold,
    FollowedBy,
    Formula,
    Join,
    Next,
    Push,
    Query,
    Subscribe,
    Subscription,
    Var,
)
from tests.oracle.steps import Block, Comparator, Exists, Step
from tests.strategies.patterns import Draw
from tests.xscl.engine.player import CUTS, batches, pushed

MINUTE = 60
TICKS = 1_000_000
START = int(datetime(2026, 11, 23, 8, tzinfo=UTC).timestamp())
CALENDARS = {"C": "*/2 * * * *", "D": "3,4,7 8 * * MON"}
_SIGNS: tuple[Comparator, ...] = ("=", "=", "!=", "<")
_BLOCKS = re.compile(r"\b([CD])/i\b")
Found: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...], tuple[tuple[str, str, int], ...]]
"""The subscription, the documents, the instants, and the nodes in documents."""


@dataclass(frozen=True, slots=True)
class History:
    """A query that is subscribed before a document and again later, and the documents."""

    query: Query
    documents: tuple[Doc, ...]
    later: int
    lateness: int

    def events(self, documents: Sequence[Doc]) -> Iterator[Push | Subscribe]:
        """Yield what happens, with these documents; an instant occurs when the next one comes."""
        yield Subscribe(Subscription("early", self.query))
        before = self.documents[self.later - 1].id
        for one in documents:
            yield Push(one)
            if one.id == before:
                yield Subscribe(Subscription("late", self.query))

    @property
    def text(self) -> str:
        """The query as the engine gets it."""
        return _BLOCKS.sub(lambda found: f"AT '{CALENDARS[found[1]]}'", self.query.text())

    def with_instants(self) -> list[Doc]:
        """Return the documents, and the instants as documents."""
        events = [Event("doc", (one.id,), one.timestamp // TICKS) for one in self.documents]
        for stream, expression in CALENDARS.items():
            events = with_instants(events, stream, expression, "UTC")
        known = {one.id: one for one in self.documents}
        return [
            _instant(one) if one.stream in CALENDARS else known[one.values[0]] for one in events
        ]


def _instant(event: Event) -> Doc:
    (at,) = event.values
    stream = str(event.stream)
    return Doc((stream,), str(at), event.t0 * TICKS, f"<i>{at}</i>".encode())


def _text(minute: int) -> str:
    return datetime.fromtimestamp(START + minute * MINUTE, UTC).isoformat()


@st.composite
def expressions(draw: Draw, names: Iterator[str], depth: int) -> tuple[Expression, tuple[str, ...]]:
    """Return a strategy of expressions, each with the variables that it has."""
    if not depth or draw(st.integers(0, 3)) == 3:
        name = next(names)
        stream = draw(st.sampled_from("SSCCD"))
        if stream == "S":
            return Block("S", Step("child", "r", None, (Exists(Step("child", "n", name)),))), (
                name,
            )
        return Block(stream, Step("child", "i", name)), (name,)
    left, mine = draw(expressions(names, depth - 1))
    right, others = draw(expressions(names, depth - 1))
    window = draw(st.sampled_from((1, 2, 4))) * MINUTE * TICKS
    predicate = None
    if draw(st.booleans()):
        sign = draw(st.sampled_from(_SIGNS))
        one, other = draw(st.sampled_from(mine)), draw(st.sampled_from(others))
        predicate = Comparison(sign, Var(one), Var(other))
    match draw(st.sampled_from(("join", "followed", "not", "else", "next", "fold"))):
        case "join":
            return Join(left, right, predicate, window), (*mine, *others)
        case "followed":
            return FollowedBy(left, right, predicate, window), (*mine, *others)
        case "not":
            return FollowedBy(left, right, predicate, window, negated=True), mine
        case "else":
            return FollowedBy(left, right, predicate, window, otherwise=True), mine
        case "next":
            return Next(left, right, predicate), (*mine, *others)
        case _:
            last = Decorated(2, others[-1])
            again: Formula = Comparison("!=", last, Constant("u"))
            made = ("k" + next(names), Call("string-length", (last,)))
            return Fold(left, right, predicate or again, again, (made,)), (*mine, *others)


@st.composite
def histories(draw: Draw) -> History:
    """Return a strategy of queries with calendars, and documents that come in order or late."""
    expression, _ = draw(expressions(iter("abcdefghxyzw"), 2))
    size = draw(st.integers(3, 6))
    minutes = sorted(draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    late = draw(st.sampled_from((0, 0, 2)))
    if late:
        minutes = [max(0, m - draw(st.integers(0, late + 1))) for m in minutes]
    documents = []
    for number, minute in enumerate(minutes):
        value = draw(st.sampled_from((_text(minute), _text(minute + 1), _text(4), "u")))
        xml = f"<r><n>{value}</n></r>".encode()
        documents.append(Doc(("S",), f"d{number}", (START + minute * MINUTE) * TICKS, xml))
    later = draw(st.integers(1, size - 1))
    query = Query(expression, distinct=draw(st.integers(0, 4)) == 4)
    return History(query, tuple(documents), later, late * MINUTE * TICKS)


def expected(history: History) -> Counter[Found]:
    """Return the matches of the oracle, with instants in place of their documents."""
    events = list(history.events(history.with_instants()))
    found = Counter[Found]()
    for (name, placed, nodes), count in matches(events, {"S": history.lateness}).items():
        documents = tuple(filter(None, placed))
        instants = tuple(one[2:] for one in documents if one[0] in CALENDARS)
        own = tuple(one for one in documents if one[0] not in CALENDARS)
        read = tuple(one for one in nodes if one[1][0] not in CALENDARS)
        found[name, own, instants, read] += count
    return found


def delivered(history: History, cuts: Sequence[bool], pause: int | None = None) -> list[xscl.Match]:
    """Return the matches of an engine; with a `pause` it is closed and opened again then."""
    events = list(history.events(history.documents))
    with tempfile.TemporaryDirectory() as folder:
        path = None if pause is None else Path(folder) / "store"
        with xscl.Engine(path) as engine:
            engine.stream("S", lateness=history.lateness)
            _play(engine, history, events[: pause or len(events)], cuts)
            if path is None:
                return _ended(engine)
        with xscl.Engine(path) as engine:
            _play(engine, history, events[pause:], cuts)
            return _ended(engine)


def _play(
    engine: xscl.Engine, history: History, events: Sequence[Push | Subscribe], cuts: Sequence[bool]
) -> None:
    for item in batches(events, cuts):
        if isinstance(item, Subscribe):
            engine.subscribe(item.subscription.name, history.text)
        elif isinstance(item, list):
            engine.push([pushed(one.document) for one in item])


def _ended(engine: xscl.Engine) -> list[xscl.Match]:
    engine.flush()
    found = list(engine.matches())
    for one in found:
        assert one.xml().startswith(b"<result")
        assert one.id
    return found


def found(history: History, given: Sequence[xscl.Match]) -> Counter[Found]:
    """Return matches in the form of the oracle's."""
    query = history.query
    wanted = frozenset() if query.distinct else outputs(query.expression)
    assert len({one.id for one in given}) == len(given)
    return Counter(
        (
            one.subscription,
            one.names,
            tuple(at for _, at in one.instants if at is not None),
            tuple(
                sorted(
                    (name, node.document, node.node)
                    for name in wanted
                    for node in one.bindings[name]
                    if node.document
                )
            ),
        )
        for one in given
    )


@pytest.mark.hypothesis
def test_an_engine_finds_what_the_oracle_finds() -> None:
    """Many cases have matches with instants; some engines are closed and opened again."""
    cases = [0, 0]

    @examples(60)
    @given(histories(), CUTS, st.sampled_from((None, None, None, 1, 2, 3, 4)))
    def property_holds(history: History, cuts: list[bool], pause: int | None) -> None:
        wanted = expected(history)
        assert found(history, delivered(history, cuts, pause)) == wanted, history.text
        cases[0] += 1
        cases[1] += any(instants for _, _, instants, _ in wanted)

    property_holds()
    assert 4 * cases[1] >= cases[0], f"{cases[1]} of {cases[0]} cases had instants"
