"""The second opinion on SASE: queries by their formal definition, over finished streams.

Wu, Diao and Rizvi 2006, section 2.2.2, and for runs and strategies the docstring of
`cep_core.algebra.patterns`: every choice of events is tried, and kept if the definition says so.
Nothing
is the engine's: a query is data of this module, and `text` says it in SASE.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any, NamedTuple, TypeAlias, assert_never

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
WORDS = {
    "any": "skip_till_any_match",
    "next": "skip_till_next_match",
    "strict": "strict_contiguity",
    "partition": "partition_contiguity",
}
Types: TypeAlias = Mapping[str, Sequence[str]]  # the attributes of each event type, in order


class Happened(NamedTuple):
    """An event: its type, interval, and attributes by name."""

    type: str
    t0: int
    t1: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Item:
    """A component of SEQ."""

    name: str
    types: tuple[str, ...]
    negated: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Attribute:
    """x.a, or b[index].a of a run."""

    name: str
    attribute: str
    index: str | None = None


@dataclass(frozen=True)
class Over:
    """An aggregate over a run, or over the events before the current one."""

    function: str
    name: str
    attribute: str | None = None
    before: bool = False


@dataclass(frozen=True)
class Plus:
    """A sum of two terms."""

    left: Term
    right: Term


@dataclass(frozen=True)
class Default:
    """COALESCE of a term and a value."""

    term: Term
    value: int | float


@dataclass(frozen=True)
class Unknown:
    """IS NULL, or IS NOT NULL, of a term."""

    term: Term
    negated: bool = False


@dataclass(frozen=True)
class Compared:
    """An atom."""

    operator: str
    left: Term
    right: Term


@dataclass(frozen=True)
class Same:
    """[attribute], or [attribute = value]."""

    attribute: str
    value: Any = None


@dataclass(frozen=True)
class Alike:
    """Part of a `Same`: equal values in two components, wherever both events have one."""

    one: str
    other: str
    attribute: str


@dataclass(frozen=True)
class Either:
    """A disjunction."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Opposite:
    """A negation, of an atom."""

    part: Condition


Term: TypeAlias = Attribute | Over | Plus | Default | int | float | str
Condition: TypeAlias = Compared | Unknown | Same | Alike | Either | Opposite


@dataclass(frozen=True)
class Query:
    """A query: its conditions are a conjunction."""

    items: tuple[Item, ...]
    conditions: tuple[Condition, ...] = ()
    window: int | None = None
    strategy: str = "any"
    returned: tuple[tuple[str, Term], ...] = ()  # () stands for all attributes

    @property
    def positive(self) -> list[Item]:
        """The components that have to occur."""
        return [item for item in self.items if not item.negated]

    def __repr__(self) -> str:
        return text(self)


# -- as text ---------------------------------------------------------------------------------


def text(query: Query) -> str:
    """Return a query in SASE."""
    written = f"EVENT SEQ({', '.join(map(_item, query.items))})"
    condition = " AND ".join(map(_condition, query.conditions))
    if query.strategy != "any":
        names = ", ".join(f"{item.name}{'[]' * item.repeated}" for item in query.positive)
        written += f" WHERE {WORDS[query.strategy]}({names}) {{{condition}}}"
    elif condition:
        written += f" WHERE {condition}"
    if query.window is not None:
        written += f" WITHIN {query.window}"
    if query.returned:
        items = [f"{_term(term)} AS {name}" for name, term in query.returned]
        written += f" RETURN {', '.join(items)}"
    return written


def _item(item: Item) -> str:
    types = item.types[0] if len(item.types) == 1 else f"ANY({', '.join(item.types)})"
    component = f"{types}{'+' * item.repeated} {item.name}{'[]' * item.repeated}"
    return f"!({component})" if item.negated else component


def _condition(condition: Condition) -> str:
    match condition:
        case Compared(sign, left, right):
            return f"{_term(left)} {sign} {_term(right)}"
        case Unknown(term, negated):
            return f"{_term(term)} IS {'NOT ' * negated}NULL"
        case Same(attribute, value):
            return f"[{attribute}]" if value is None else f"[{attribute} = {_term(value)}]"
        case Either(parts):
            return f"({' OR '.join(map(_condition, parts))})"
        case Opposite(part):
            return f"NOT {_condition(part)}"
        case Alike():
            raise AssertionError("it is written as a Same")
        case _:
            assert_never(condition)


def _term(term: Term) -> str:
    match term:
        case Attribute(name, attribute, index):
            return f"{name}{'' if index is None else f'[{index}]'}.{attribute}"
        case Over(function, name, attribute, before):
            run = f"{name}[{'..i-1' if before else ''}]"
            return f"{function}({run}{'' if attribute is None else f'.{attribute}'})"
        case Plus(left, right):
            return f"({_term(left)} + {_term(right)})"
        case Default(part, value):
            return f"COALESCE({_term(part)}, {value})"
        case str():
            return f"'{term}'"
        case _:
            return str(term)


# -- matches ---------------------------------------------------------------------------------

Path: TypeAlias = tuple[tuple[int, Happened], ...]  # selected events with their components


def matches(query: Query, events: Sequence[Happened], types: Types) -> list[tuple[Any, ...]]:
    """Return the results of a query as (t0, t1, *values): a bag, in no order."""
    meaning = _Meaning(query, events, types)
    return [meaning.result(path) for path in meaning.paths() if meaning.without(path)]


@dataclass(frozen=True)
class _Meaning:
    query: Query
    events: Sequence[Happened]
    types: Types

    # -- SEQ -------------------------------------------------------------------------------

    def paths(self) -> Iterator[Path]:
        """Yield the sequences that hold, without regard to what is negated."""
        chosen = [self._choices(item) for item in self.query.positive]
        for path in _sequences(chosen, 0, ()):
            within = self.query.window is None or path[-1][1].t1 - path[0][1].t1 < self.query.window
            if within and self._holds(path, closed=True) and self._selected(path):
                yield path

    def _choices(self, item: Item) -> list[tuple[Happened, ...]]:
        """Return the events of a component, or its runs."""
        found = [event for event in self.events if event.type in item.types]
        if not item.repeated:
            return [(event,) for event in found]
        runs = (run for size in range(1, len(found) + 1) for run in combinations(found, size))
        ordered = (tuple(sorted(run, key=lambda e: (e.t1, e.t0))) for run in runs)
        return [run for run in ordered if _follow(run)]

    # -- strategies ------------------------------------------------------------------------

    def _selected(self, path: Path) -> bool:
        """Return True if a strategy selects each event after its predecessors."""
        return self.query.strategy == "any" or all(
            self._may_follow(path[:at], path[at][1]) for at in range(1, len(path))
        )

    def _may_follow(self, prefix: Path, event: Happened) -> bool:
        last = prefix[-1][1]
        between = [one for one in self.events if last.t1 < one.t1 < event.t1]
        match self.query.strategy:
            case "next":
                return not any(self._goes_on(prefix, one) for one in between)
            case "strict":
                named = {name for item in self.query.items for name in item.types}
                return not any(one.type in named for one in between)
            case _:
                return not any(self._of_partition(one, last) for one in between)

    def _goes_on(self, prefix: Path, event: Happened) -> bool:
        """Return True if an event continues a prefix: as the next component, or in its run."""
        last, before = prefix[-1]
        if not before.t1 < event.t0:
            return False
        options = [last + 1] if last + 1 < len(self.query.positive) else []
        options += [last] if self.query.positive[last].repeated else []
        return any(
            event.type in self.query.positive[option].types
            and self._holds((*prefix, (option, event)), closed=False)
            for option in options
        )

    def _of_partition(self, event: Happened, other: Happened) -> bool:
        named = {name for item in self.query.items for name in item.types}
        tests = [
            one.attribute
            for one in self.query.conditions
            if isinstance(one, Same)
            and one.value is None
            and all(
                one.attribute in self.types[name]
                for item in self.query.positive
                for name in item.types
            )
        ]
        return event.type in named and all(
            test in event.values and _compare("=", event.values[test], other.values[test])
            for test in tests
        )

    # -- WHERE -----------------------------------------------------------------------------

    def _holds(self, path: Path, *, closed: bool) -> bool:
        """Evaluate the conditions that a path decides; ``closed``: it is complete."""
        bound = {self.query.positive[place].name for place, _ in path}
        open_run = None if closed else self.query.positive[path[-1][0]].name
        rows = {
            item.name: [event for at, event in path if at == place]
            for place, item in enumerate(self.query.positive)
        }
        return all(
            self._true(part, rows)
            for condition in self.query.conditions
            for part in self._parts(condition)
            if not self._negated_in(part)
            and {name for name, *_ in _reads(part)} <= bound
            and not any(name == open_run and whole for name, whole, _ in _reads(part))
        )

    def _parts(self, condition: Condition) -> list[Condition]:
        """Return a condition without Same."""
        if not isinstance(condition, Same):
            return [condition]
        having = [
            item
            for item in self.query.items
            if any(condition.attribute in self.types[name] for name in item.types)
        ]
        terms = {
            item.name: Attribute(item.name, condition.attribute, "i" if item.repeated else None)
            for item in having
        }
        if condition.value is not None:
            return [Compared("=", term, condition.value) for term in terms.values()]
        pairs = [*combinations(having, 2), *((item, item) for item in having if item.repeated)]
        return [
            Alike(one.name, other.name, condition.attribute)
            for one, other in pairs
            if not (one.negated and other.negated)
        ]

    def _negated_in(self, condition: Condition) -> str | None:
        names = [item.name for item in self.query.items if item.negated]
        return next((name for name, *_ in _reads(condition) if name in names), None)

    def _true(self, condition: Condition, rows: Mapping[str, Sequence[Happened]]) -> bool:
        """Evaluate a condition: for each event of a run that it names by [i]."""
        if isinstance(condition, Alike):
            return self._alike(condition, rows)
        runs = {name for name, _, each in _reads(condition) if each}
        if not runs:
            return self._at(condition, rows, None, 0)
        (run,) = runs
        later = any(map(_is_before, _terms(condition))) and not _handles_null(condition)
        return all(self._at(condition, rows, run, at) for at in range(int(later), len(rows[run])))

    def _alike(self, condition: Alike, rows: Mapping[str, Sequence[Happened]]) -> bool:
        values = [
            [
                one.values[condition.attribute]
                for one in rows[name]
                if condition.attribute in one.values
            ]
            for name in (condition.one, condition.other)
        ]
        return all(_compare("=", one, other) for one, other in product(*values))

    def _at(
        self, condition: Condition, rows: Mapping[str, Sequence[Happened]], run: str | None, at: int
    ) -> bool:
        match condition:
            case Compared(sign, left, right):
                try:
                    values = [self._value(term, rows, run, at) for term in (left, right)]
                except KeyError:
                    return True  # an event lacks the attribute
                return _compare(sign, *values)
            case Unknown(term, negated):
                try:
                    return (self._value(term, rows, run, at) is None) is not negated
                except KeyError:
                    return True
            case Either(parts):
                return any(self._at(part, rows, run, at) for part in parts)
            case Opposite(part):
                return self._not_at(part, rows, run, at)
            case _:
                raise AssertionError(condition)

    def _not_at(
        self, part: Condition, rows: Mapping[str, Sequence[Happened]], run: str | None, at: int
    ) -> bool:
        """NOT of what an event lacks is true, too: it is a predicate on that attribute."""
        assert isinstance(part, Compared)
        try:
            for term in (part.left, part.right):
                self._value(term, rows, run, at)
        except KeyError:
            return True
        return not self._at(part, rows, run, at)

    def _value(
        self, term: Term, rows: Mapping[str, Sequence[Happened]], run: str | None, at: int
    ) -> Any:
        match term:
            case Attribute(name, attribute, index):
                places = {"i": at, "i-1": at - 1, "1": 0, None: 0, "last": -1}
                if index == "i-1" and not at:
                    return None  # the first event of a run has none before it
                return rows[name][places[index]].values[attribute]
            case Over(function, name, attribute, before):
                over = rows[name][:at] if before else rows[name]
                return _aggregate(function, over, attribute)
            case Plus(left, right):
                parts = [self._value(one, rows, run, at) for one in (left, right)]
                return None if None in parts else parts[0] + parts[1]
            case Default(part, value):
                found = self._value(part, rows, run, at)
                return value if found is None else found
            case _:
                return term

    # -- negation --------------------------------------------------------------------------

    def without(self, path: Path) -> bool:
        """Return True if no negated event occurred."""
        ends = self._ends_negated()
        if ends and not path[-1][1].t1 < self._deadline(path):
            return False
        rows = {
            item.name: [event for at, event in path if at == place]
            for place, item in enumerate(self.query.positive)
        }
        for place, item in enumerate(self.query.items):
            if not item.negated:
                continue
            conditions = [
                part
                for condition in self.query.conditions
                for part in self._parts(condition)
                if self._negated_in(part) == item.name
            ]
            for event in self.events:
                there = event.type in item.types and self._between(event, place, rows, path)
                bound = {**rows, item.name: [event]}
                if there and all(self._true(one, bound) for one in conditions):
                    return False
        return True

    def _between(
        self, event: Happened, place: int, rows: Mapping[str, Sequence[Happened]], path: Path
    ) -> bool:
        items = self.query.items
        before = [item for item in items[:place] if not item.negated]
        after = [item for item in items[place + 1 :] if not item.negated]
        if not before:
            begins = path[-1][1].t1 - (self.query.window or 0)
            return begins < event.t1 and event.t1 < path[0][1].t0
        begins = rows[before[-1].name][-1].t1
        if not after:
            return begins < event.t0 and event.t1 <= self._deadline(path)
        return begins < event.t0 and event.t1 < rows[after[0].name][0].t0

    def _ends_negated(self) -> bool:
        return self.query.items[-1].negated

    def _deadline(self, path: Path) -> int:
        assert self.query.window is not None
        return path[0][1].t1 + self.query.window - 1

    # -- results ---------------------------------------------------------------------------

    def result(self, path: Path) -> tuple[Any, ...]:
        """Return the row of a sequence."""
        rows = {
            item.name: [event for at, event in path if at == place]
            for place, item in enumerate(self.query.positive)
        }
        end = self._deadline(path) if self._ends_negated() else path[-1][1].t1
        return (path[0][1].t0, end, *self._values(rows))

    def _values(self, rows: Mapping[str, Sequence[Happened]]) -> Iterator[Any]:
        for _, term in self.query.returned:
            try:
                yield self._value(term, rows, None, 0)
            except KeyError:
                yield None
        if self.query.returned:
            return
        for item in self.query.positive:
            names = dict.fromkeys(name for one in item.types for name in self.types[one])
            yield from (rows[item.name][-1].values.get(name) for name in names)
            if item.repeated:
                yield len(rows[item.name])


def _sequences(
    chosen: Sequence[Sequence[tuple[Happened, ...]]], place: int, path: Path
) -> Iterator[Path]:
    """Yield the choices of one run for each component, each after the one before."""
    if place == len(chosen):
        yield path
        return
    for run in chosen[place]:
        if not path or path[-1][1].t1 < run[0].t0:
            yield from _sequences(chosen, place + 1, (*path, *((place, event) for event in run)))


def _follow(run: Sequence[Happened]) -> bool:
    return all(one.t1 < other.t0 for one, other in pairwise(run))


def _terms(condition: Condition) -> Iterator[Term]:
    match condition:
        case Compared(_, left, right):
            for term in (left, right):
                yield from _inside(term)
        case Unknown(term):
            yield from _inside(term)
        case Either(parts):
            for part in parts:
                yield from _terms(part)
        case Opposite(part):
            yield from _terms(part)
        case Same() | Alike():
            return


def _inside(term: Term) -> Iterator[Term]:
    if isinstance(term, Plus):
        yield from _inside(term.left)
        yield from _inside(term.right)
    elif isinstance(term, Default):
        yield from _inside(term.term)
    else:
        yield term


def _is_before(term: Term) -> bool:
    """Return True if a term reads what is before an event of a run."""
    return (isinstance(term, Over) and term.before) or (
        isinstance(term, Attribute) and term.index == "i-1"
    )


def _handles_null(condition: Condition) -> bool:
    """Return True if a condition says what holds of the first event of a run, too."""
    match condition:
        case Compared(_, left, right):
            counts = any(
                isinstance(one, Over) and one.before and one.function == "COUNT"
                for one in _terms(condition)
            )
            given = [one.term for one in (left, right) if isinstance(one, Default)]
            return counts or any(_is_before(one) for term in given for one in _inside(term))
        case Unknown(term):
            return any(map(_is_before, _inside(term)))
        case Either(parts):
            return any(map(_handles_null, parts))
        case Opposite(part):
            return _handles_null(part)
        case _:
            return False


def _reads(condition: Condition) -> Iterator[tuple[str, bool, bool]]:
    """Yield (variable, whether a whole run, whether each of its events)."""
    if isinstance(condition, Alike):
        yield condition.one, False, False
        yield condition.other, False, False
    for term in _terms(condition):
        if isinstance(term, Attribute):
            yield term.name, term.index == "last", term.index in ("i", "i-1")
        elif isinstance(term, Over):
            yield term.name, not term.before, term.before


def _compare(sign: str, left: Any, right: Any) -> bool:
    if left is None or right is None or left != left or right != right:
        return False
    return bool(COMPARISONS[sign](left, right))


def _aggregate(function: str, rows: Sequence[Happened], attribute: str | None) -> Any:
    if attribute is None:
        return len(rows)
    found = [event.values.get(attribute) for event in rows]
    proper = [value for value in found if value is not None and value == value]
    if function == "COUNT":
        return len(proper)
    if not proper:
        return None
    match function:
        case "SUM":
            return sum(proper)
        case "AVG":
            return sum(proper) / len(proper)
        case "MIN":
            return min(proper)
        case _:
            return max(proper)
