"""Hypothesis strategies for SASE: queries as data of the second opinion, and events for them.

Three types share attributes, so that ANY meets events that lack one; values are few, times too, so
that windows are met at their edges and many events are simultaneous.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from cep_core.events import Event, Schema
from tests.cep_core.sase_reference import (
    Attribute,
    Compared,
    Condition,
    Default,
    Either,
    Happened,
    Item,
    Opposite,
    Over,
    Plus,
    Query,
    Same,
    Term,
    Unknown,
    matches,
)
from tests.cep_core.strategies import NAN, Choice, Declared, in_order

SCHEMAS: Mapping[str, Schema] = {
    "A": Schema(("id", "v", "s"), (int, float, str)),
    "B": Schema(("id", "v"), (int, float)),
    "C": Schema(("id", "w"), (int, int)),
}
TYPES = {name: schema.names for name, schema in SCHEMAS.items()}
_VALUES: Mapping[str, tuple[Any, ...]] = {
    "id": (1, 1, 1, 1, 1, 2, 2, None),
    "v": (1.0, 2.0, 0.5, 3, 1.0, 2.0, 1.0, 2.0, None, NAN),
    "s": ("a", "b"),
    "w": (1, 2, 3),
}
_SIGNS = ("<=", ">=", "!=", "=", "<", ">", "<=", ">=", "!=")


@dataclass(frozen=True)
class Case:
    """A query, events in order of arrival, and where the input is cut."""

    query: Query
    events: tuple[Event, ...]
    cuts: tuple[int, ...]
    lateness: int

    def __repr__(self) -> str:
        shown = [f"{one.stream}{one.values}@[{one.t0}, {one.t1}]" for one in self.events]
        return f"{self.query!r}\n  lateness {self.lateness}, cuts {self.cuts}: {' '.join(shown)}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True)
class Company:
    """Queries that share a plan: each is there between two positions of the input."""

    queries: tuple[Query, ...]
    lives: tuple[tuple[int, int], ...]
    events: tuple[Event, ...]
    restored: int

    def __repr__(self) -> str:
        shown = [f"{one.stream}{one.values}@[{one.t0}, {one.t1}]" for one in self.events]
        queries = [
            f"{life} {query!r}" for life, query in zip(self.lives, self.queries, strict=True)
        ]
        return "\n  ".join(["", *queries, f"restored at {self.restored}", " ".join(shown)])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@st.composite
def companies(draw: st.DrawFn, selects: bool = False, runs: bool = False) -> Company:
    """Return queries of which some are alike; they come and go while events arrive.

    If it ``selects`` they are of one shape, with different constants; so they are with ``runs``.
    """
    choose = Choice(draw)
    first = with_runs(choose) if runs else selecting(choose) if selects else query(choose)
    selects |= runs
    if not runs and choose.often(3) and not any(item.repeated for item in first.items):
        first = replace(first, strategy="any")  # the others share nothing but equal queries
    if selects:
        queries = [first, *[with_constants(choose, first) for _ in range(choose.of(2, 3, 4))]]
    else:
        queries = [first, alike(choose, first)]
        queries.append(choose.of(alike(choose, choose.of(*queries)), query(choose)))
    number = choose.number(7, 11) + 3 * selects
    named = [name for one in queries for item in one.items for name in item.types]
    streams = [Declared(name, schema) for name, schema in SCHEMAS.items()]
    events = in_order(choose, streams, [event(choose, named) for _ in range(number)])
    if not selects:
        queries = [likely(choose, one, events) for one in queries]
    lives = [(0, number + 1)]
    for _ in queries[1:]:
        begin = choose.number(0, number // 2)
        lives.append((begin, choose.of(number + 1, choose.number(begin, number))))
    return Company(tuple(queries), tuple(lives), tuple(events), choose.number(0, number))


def alike(choose: Choice, one: Query) -> Query:
    """Return a query with another window, or with one condition less or more."""
    if one.window is not None and choose.often(2):
        return replace(one, window=choose.number(1, 12))
    if len(one.conditions) > 1 and choose.often(2):
        return replace(one, conditions=one.conditions[:-1])
    return replace(one, conditions=(*one.conditions, condition(choose, one.items)))


def selecting(choose: Choice) -> Query:
    """Return a sequence of single events that asks for constants of some, and relates others."""
    size = choose.of(2, 3)
    kinds = choose.of(("A", "B"), ("B", "A"), ("A", "A"))
    items = [Item(f"x{place}", (kinds[place % 2],)) for place in range(size)]
    if choose.seldom(4):
        items.insert(choose.number(1, size - 1), Item("n", ("C",), negated=True))
    positive = [item for item in items if not item.negated]
    conditions: list[Condition] = [Same("id")] if choose.often(2) else []
    if choose.seldom(3):
        one, other = positive[0], positive[-1]
        term: Term = Attribute(other.name, "v")
        term = Plus(term, 0.5) if choose.often(2) else term
        conditions.append(Compared(choose.of(*_SIGNS), Attribute(one.name, "v"), term))
    for item in choose.of(positive[:1], positive[-1:], positive, positive[:2]):
        for sign in choose.of((">=",), ("<=",), ("=",), ("!=",), (">", "<"), ("<",)):
            conditions.append(Compared(sign, Attribute(item.name, "v"), choose.of(0.5, 1.0, 2.0)))
    window = choose.of(None, 8, 12)
    return Query(tuple(items), tuple(conditions), window)


def with_runs(choose: Choice) -> Query:
    """Return a query that runs compute, most often with constants."""
    found = query(choose)
    single = [item for item in having(found.items, "v") if not item.repeated and not item.negated]
    conditions = list(found.conditions)
    if len(single) > 1 and choose.often(2):
        term = Plus(Attribute(single[-1].name, "v"), 0.5)
        conditions.append(Compared(choose.of(*_SIGNS), Attribute(single[0].name, "v"), term))
    if single and choose.often(2):
        bounded = Attribute(choose.of(*single).name, "v")
        conditions.append(Compared(choose.of(">=", "<=", "!="), bounded, 1.0))
    any_run = any(item.repeated for item in found.items)
    strategy = "next" if found.strategy == "any" and not any_run else found.strategy
    return replace(found, conditions=tuple(conditions), strategy=strategy)


def with_constants(choose: Choice, one: Query) -> Query:
    """Return a query of the same shape with other constants, most often."""
    return replace(
        one,
        conditions=tuple([_with_constants(choose, condition) for condition in one.conditions]),
        window=choose.of(one.window, choose.number(1, 12)) if one.window is not None else None,
    )


def _with_constants(choose: Choice, one: Condition) -> Condition:
    match one:
        case Compared(sign, left, int()):
            return Compared(sign, left, choose.of(1, 2, 3))
        case Compared(sign, left, float()):
            return Compared(sign, left, choose.of(0.5, 1.0, 1.5, 2.0))
        case Compared(sign, left, Plus(term, float())):
            return Compared(sign, left, Plus(term, choose.of(-0.5, 0.0, 0.5, 1.0)))
        case Either(parts):
            return Either(tuple([_with_constants(choose, part) for part in parts]))
        case Opposite(part):
            return Opposite(_with_constants(choose, part))
        case Same(attribute, int()):
            return Same(attribute, choose.of(1, 2))
        case _:
            return one


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Return a query with events."""
    choose = Choice(draw)
    found = query(choose)
    lateness = choose.of(0, 0, 2)
    streams = [Declared(name, schema, lateness) for name, schema in SCHEMAS.items()]
    runs = sum(item.repeated for item in found.items)
    number = choose.number(8, 16 - 3 * runs)
    named = [name for item in found.items for name in item.types]
    events = in_order(choose, streams, [event(choose, named) for _ in range(number)])
    found = likely(choose, found, events)
    cuts = tuple(sorted({choose.number(0, number) for _ in range(choose.number(0, 3))}))
    return Case(found, tuple(events), cuts, lateness)


def likely(choose: Choice, found: Query, events: Sequence[Event]) -> Query:
    """Return a query that has results more often than not: one that has none asks for less."""
    for _ in range(3):
        if choose.seldom(4) or matches(found, [happened(one) for one in events], TYPES):
            break
        least = 1 if found.strategy == "partition" else 0
        if len(found.conditions) > least:
            found = replace(found, conditions=found.conditions[:-1])
        elif found.window is not None:
            found = replace(found, window=found.window + 4)
    return found


def event(choose: Choice, named: Sequence[str]) -> Event:
    """Return an event, most often of a type that a query names; seldom an interval."""
    name = choose.of(*named) if choose.often(6) else choose.of(*SCHEMAS)
    t1 = choose.number(0, 12)
    t0 = t1 if choose.often(6) else t1 - choose.number(1, 3)
    return Event(name, tuple([choose.of(*_VALUES[one]) for one in TYPES[name]]), t0, t1)


def happened(event: Event) -> Happened:
    """Return an event for the second opinion."""
    assert isinstance(event.stream, str)
    t1 = event.t0 if event.t1 is None else event.t1
    return Happened(
        event.stream, event.t0, t1, dict(zip(TYPES[event.stream], event.values, strict=True))
    )


# -- queries ---------------------------------------------------------------------------------


def query(choose: Choice) -> Query:
    """Return a query that SASE accepts."""
    strategy = choose.of("any", "any", "next", "next", "strict", "partition")
    items = pattern(choose)
    conditions: list[Condition] = []
    if strategy == "partition" or choose.seldom(3):
        conditions.append(Same("id"))
    if choose.seldom(4):  # C lacks v
        conditions.append(Same("v"))
        mixed = choose.of(0, next(at for at, item in enumerate(items) if not item.negated))
        items[mixed] = replace(items[mixed], types=choose.of(("A", "C"), ("B", "C")))
    conditions += [condition(choose, items) for _ in range(choose.of(1, 0, 0, 1, 2))]
    ends = items[0].negated or items[-1].negated
    window = choose.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 12) if ends or choose.often(4) else None
    returned = () if choose.often(2) else returning(choose, items)
    return Query(tuple(items), tuple(conditions), window, strategy, returned)


def pattern(choose: Choice) -> list[Item]:
    """Return components, among them at least one that has to occur, and at most two runs."""
    size = choose.of(2, 2, 3, 3, 1)
    items: list[Item] = []
    runs = 0
    for place in range(size):
        if choose.seldom(5):
            items.append(Item(f"n{place}", types(choose), negated=True))
        repeated = runs < (1 if size > 2 else 2) and choose.seldom(3)
        runs += repeated
        items.append(Item(f"x{place}", types(choose), repeated=repeated))
    for place in range(choose.of(0, 0, 0, 1, 1, 2)):
        items.append(Item(f"e{place}", types(choose), negated=True))
    if len(items) == 1 and not items[0].repeated:
        items.append(Item("x9", types(choose)))
    return items


def types(choose: Choice) -> tuple[str, ...]:
    """Return a type, or the types of an ANY."""
    if choose.often(5):
        return (choose.of("A", "B", "C", "A", "B"),)
    return choose.of(("A", "C"), ("B", "C"), ("A", "B"), ("A", "B", "C"))


def having(items: Sequence[Item], attribute: str) -> list[Item]:
    """Return the components of which some type has an attribute."""
    return [item for item in items if any(attribute in TYPES[name] for name in item.types)]


def condition(choose: Choice, items: Sequence[Item]) -> Condition:
    """Return a condition: an atom, a disjunction, a negated atom, [attribute = value]."""
    full = [one for one in items if one.repeated and all("v" in TYPES[name] for name in one.types)]
    if full and choose.seldom(3):
        return of_first_events(choose, choose.of(*full))
    made = atom(choose, items)
    match choose.number(0, 8):
        case 0 | 5 | 6:
            return Opposite(made)
        case 1 | 3 | 4 | 7:
            other = atom(choose, [item for item in items if not item.negated])
            names = {item.name for item in items if item.repeated}
            return made if _runs(made, names) | _runs(other, names) else Either((made, other))
        case 2 if choose.often(2):
            return Same("id", choose.of(1, 2))
        case 2:
            return Same(choose.of(*[one for one in ("id", "v") if having(items, one)]))
        case _:
            return made


def of_first_events(choose: Choice, item: Item) -> Condition:
    """Return a condition that says what holds of the first event of a run, too."""
    sign = choose.of(*_SIGNS)
    each, previous = (Attribute(item.name, "v", index) for index in ("i", "i-1"))
    options: list[Term] = [previous, over(choose, item, "v", True)]
    before = choose.of(*options)
    others: list[Term] = [previous, 1.0, Default(before, choose.of(0.5, 1.0))]
    compared = Compared(sign, each, choose.of(*others))
    match choose.number(0, 3):
        case 0:
            return Compared(sign, each, Default(before, choose.of(0.5, 1.0, 2.0)))
        case 1:
            return Compared(choose.of("<", ">="), Over("COUNT", item.name, None, True), 1)
        case _:
            return Either((Unknown(before, choose.of(False, True)), compared))


def _runs(made: Condition, names: set[str]) -> set[str]:
    """Return the runs that an atom reads."""
    assert isinstance(made, Compared)
    terms = (made.left, made.right)
    return {one.name for one in terms if isinstance(one, Attribute | Over)} & names


def atom(choose: Choice, items: Sequence[Item]) -> Compared:
    """Return an atom on one component or two, of which a negated one is not the first."""
    positive = [item for item in items if not item.negated]
    attribute = choose.of("v", "v", "id")
    known = having(items, attribute) or having(items, "id")
    attribute = attribute if having(items, attribute) else "id"
    item = choose.of(*known)
    sign = choose.of(*_SIGNS)
    others = [one for one in having(positive, attribute) if one is not item]
    if item.repeated:
        return run_atom(choose, item, attribute, sign, items)
    term = Attribute(item.name, attribute)
    if others and choose.often(3):
        other = choose.of(*others)
        index = choose.of("last", "1") if other.repeated else None
        return Compared(sign, Attribute(other.name, attribute, index), term)
    value: Term = choose.of(1, 2) if attribute == "id" else choose.of(1.0, 2.0, 0.5)
    if attribute == "v" and choose.seldom(4):
        return Compared(sign, Plus(term, 1.0), value)
    return Compared(sign, term, value)


def run_atom(
    choose: Choice, item: Item, attribute: str, sign: str, items: Sequence[Item]
) -> Compared:
    """Return an atom on a run: each event, neighbours, its ends, or an aggregate."""
    each = Attribute(item.name, attribute, "i")
    before = [one for one in items[: items.index(item)] if not one.negated and not one.repeated]
    value: Term = choose.of(1, 2) if attribute == "id" else choose.of(1.0, 2.0)
    match choose.number(0, 8):
        case 0 | 1:
            return Compared(sign, each, Attribute(item.name, attribute, "i-1"))
        case 2:
            return Compared(sign, each, value)
        case 3:
            known = having(before, attribute)
            return Compared(sign, each, Attribute(known[0].name, attribute) if known else value)
        case 4:
            return Compared(sign, each, over(choose, item, attribute, True))
        case 5:
            return Compared(sign, Attribute(item.name, attribute, choose.of("last", "1")), value)
        case 6:
            return Compared(choose.of(">=", ">"), Over("COUNT", item.name), choose.of(1, 2))
        case _:
            return Compared(sign, over(choose, item, attribute, False), value)


def over(choose: Choice, item: Item, attribute: str, before: bool) -> Over:
    """Return an aggregate over a run."""
    return Over(choose.of("SUM", "MIN", "MAX", "AVG", "COUNT"), item.name, attribute, before)


def returning(choose: Choice, items: Sequence[Item]) -> tuple[tuple[str, Term], ...]:
    """Return items for RETURN."""
    found: list[tuple[str, Term]] = []
    for item in (one for one in items if not one.negated):
        attribute = TYPES[item.types[0]][choose.number(0, 1)]
        term: Term = Attribute(item.name, attribute)
        if item.repeated:
            options: list[Term] = [
                Attribute(item.name, attribute, choose.of("1", "last")),
                Over("COUNT", item.name),
                over(choose, item, attribute, False),
            ]
            term = choose.of(*options)
        found.append((f"r{len(found)}", term))
    return tuple(found)
