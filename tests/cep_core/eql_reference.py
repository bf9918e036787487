r"""The second opinion on EQL: patterns straight from the definitions of NEXT CEP's paper.

Schultz-Møller, Migliavacca and Pietzuch 2009, sections 3.1 to 3.4.  A composite event is all its
primitive events with all their timestamps; SUCC is written as the paper writes it.  Conditions
belong to the operator that evaluates them: *filters* are φ, *tests* θ.  Nothing here is the
engine's, and everything is tried.  `text` writes a pattern as EQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

from cep_core.events import Event

Scalar: TypeAlias = int | str


class Read(NamedTuple):
    """id.f, PREV(id.f) or ALL(id.f)."""

    kind: Literal["field", "prev", "all"]
    alias: str
    attribute: str


class Sum(NamedTuple):
    """left op right."""

    operator: Literal["+", "/"]
    left: Operand
    right: Operand


class Atom(NamedTuple):
    """left op right, or left CONTAINS right."""

    operator: str
    left: Operand
    right: Operand


class Within(NamedTuple):
    """(first, second) OCCURS WITHIN so many seconds."""

    first: str
    second: str
    time: int


class Any2(NamedTuple):
    """One OR other, or NOT one."""

    one: Test
    other: Test | None


Operand: TypeAlias = Read | Sum | Scalar
Test: TypeAlias = Atom | Within | Any2
Tests: TypeAlias = tuple[Test, ...]


@dataclass(frozen=True, slots=True)
class Src:
    """A stream by an alias; ``plain``: its filters are written without FILTER."""

    stream: str
    alias: str
    filters: Tests = ()
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Nxt:
    """left;right."""

    left: Tree
    right: Tree
    filters: Tests = ()
    tests: Tests = ()


@dataclass(frozen=True, slots=True)
class Alt:
    """left|right."""

    left: Tree
    right: Tree


@dataclass(frozen=True, slots=True)
class Run:
    """inner+."""

    inner: Tree
    filters: Tests = ()
    tests: Tests = ()


@dataclass(frozen=True, slots=True)
class Exc:
    r"""inner\other; ``inside``: (x;y)\other is written x;(y\other)."""

    inner: Tree
    other: Tree
    tests: Tests = ()
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Tim:
    """inner@time."""

    inner: Tree
    time: int


Tree: TypeAlias = Src | Nxt | Alt | Run | Exc | Tim


class Composite(NamedTuple):
    """A composite event: its timestamps, and its events by alias, both in order."""

    times: tuple[int, ...]
    events: tuple[tuple[str, Event], ...]

    @property
    def end(self) -> int:
        return self.times[-1]


Streams: TypeAlias = Mapping[str, Sequence[Event]]
Names: TypeAlias = Mapping[str, Sequence[str]]  # of attributes, by alias


def before(one: Sequence[int], other: Sequence[int]) -> bool:
    """The modified lexicographical order of section 3.2, from the end of both sequences."""
    for i in range(1, min(len(one), len(other)) + 1):
        if one[-i] != other[-i]:
            return one[-i] < other[-i]
    return len(other) < len(one)


def successors(event: Composite, candidates: Sequence[Composite]) -> list[Composite]:
    """SUCC of section 3.2."""
    after = [one for one in candidates if event.end < one.times[0]]
    return [one for one in after if not any(before(two.times, one.times) for two in after)]


class World:
    """Evaluates patterns over finished streams."""

    def __init__(self, streams: Streams, names: Names) -> None:
        self._streams = streams
        self._names = names

    def found(self, tree: Tree) -> list[Composite]:
        """Return the composite events of a pattern."""
        match tree:
            case Src(stream, alias, filters):
                made = [
                    Composite((one.t0, one.t0 if one.t1 is None else one.t1), ((alias, one),))
                    for one in self._streams.get(stream, ())
                ]
                return [one for one in made if self.all(filters, (), one.events, tree)]
            case Nxt():
                return self._pairs(tree, [])
            case Alt(left, right):
                return self.found(left) + self.found(right)
            case Run():
                return self._runs(tree, [])
            case Exc():
                return self._excepted(tree, [])
            case Tim(inner, time):
                return [_timed(one, time) for one in self.found(inner)]
            case _:
                assert_never(tree)

    def _pairs(self, tree: Nxt, ends: list[Exc]) -> list[Composite]:
        """E1;E2 with φ and θ: the successors that satisfy φ, if they satisfy θ, too."""
        rights = self.found(tree.right)
        made = []
        for a in self.found(tree.left):
            fitting = [b for b in rights if self.all(tree.filters, a.events, b.events, tree.right)]
            for b in successors(a, fitting):
                holds = self.all(tree.tests, a.events, b.events, tree.right)
                if holds and not self._ended(a, b.end, ends):
                    made.append(Composite(a.times + b.times, a.events + b.events))
        return made

    def _runs(self, tree: Run, ends: list[Exc]) -> list[Composite]:
        """E+ with φ and θ: runs of one event, of two, ..."""
        events = self.found(tree.inner)
        conditions = tree.filters + tree.tests
        runs = [
            one
            for one in events
            if self.all(conditions, (), one.events, tree.inner) and not self._joined(one, ends)
        ]
        made = list(runs)
        while runs:
            longer = []
            for a in runs:
                fitting = [
                    b for b in events if self.all(tree.filters, a.events, b.events, tree.inner)
                ]
                for b in successors(a, fitting):
                    holds = self.all(tree.tests, a.events, b.events, tree.inner)
                    if holds and not self._ended(a, b.end, ends):
                        longer.append(Composite(a.times + b.times, a.events + b.events))
            made += longer
            runs = longer
        return made

    def _excepted(self, tree: Exc, ends: list[Exc]) -> list[Composite]:
        r"""E1\E2: what ends the detection comes after what waits, and not after the result."""
        ends = [tree, *ends]
        inner = tree.inner
        match inner:
            case Exc():
                return self._excepted(inner, ends)
            case Nxt():
                return self._pairs(inner, ends)
            case Run():
                return self._runs(inner, ends)
            case Tim(waiting, time):
                made = self.found(waiting)
                return [_timed(a, time) for a in made if not self._ended(a, a.end + time, ends)]
            case Alt(left, right):
                made = []
                for one in (left, right):
                    known = {*aliases(one)}
                    own = [end for end in ends if _mentions(end.tests) <= known | _all(end.other)]
                    for end in own:
                        one = Exc(one, end.other, end.tests)
                    made += self.found(one)
                return made
            case Src():
                return [one for one in self.found(inner) if not self._joined(one, ends)]
            case _:
                assert_never(inner)

    def _ended(self, waiting: Composite, end: int, ends: Sequence[Exc]) -> bool:
        return any(
            waiting.end < z.times[0]
            and z.end <= end
            and self.all(one.tests, waiting.events, z.events, one.other)
            for one in ends
            for z in self.found(one.other)
        )

    def _joined(self, event: Composite, ends: Sequence[Exc]) -> bool:
        return any(
            z.end == event.end and self.all(one.tests, event.events, z.events, one.other)
            for one in ends
            for z in self.found(one.other)
        )

    # -- conditions ------------------------------------------------------------------------

    def all(self, tests: Tests, past: Events, now: Events, tree: Tree) -> bool:
        """Evaluate conditions on ``now``, a result of the tree, after past ones."""
        runs, own = frozenset(_iterated(tree)), frozenset(aliases(tree))
        moment = Moment(past, now, runs, own, self._names)
        return all(moment.holds(test) for test in tests)


Events: TypeAlias = tuple[tuple[str, Event], ...]


class Moment(NamedTuple):
    """The input of conditions: events detected before, and those that occur.

    Of the ``own`` aliases of those that occur, ``runs`` have several events.
    """

    past: Events
    now: Events
    runs: frozenset[str]
    own: frozenset[str]
    names: Names

    def holds(self, test: Test) -> bool:
        """Evaluate a condition; an undefined value makes its comparison false."""
        match test:
            case Any2(one, None):
                return not self.holds(one)
            case Any2(one, other):
                assert other is not None
                return self.holds(one) or self.holds(other)
            case Within(first, second, time):
                both = self._apart(second, first), self._apart(first, second)
                return all(one is not None and one <= time for one in both)
            case Atom():
                return self._atom(test)
            case _:
                assert_never(test)

    def _apart(self, later: str, earlier: str) -> int | None:
        ends = [event.t1 for alias, event in self.past + self.now if alias == later]
        begins = [event.t0 for alias, event in self.past + self.now if alias == earlier]
        return (ends[-1] or 0) - begins[0] if ends and begins else None

    def _atom(self, atom: Atom) -> bool:
        reads = dict.fromkeys(_reads((atom.left, atom.right)))
        previous = {read: self._previous(read.alias) for read in reads if read.kind != "field"}
        if any(read.kind == "prev" and not previous[read] for read in reads):
            return True
        several = sorted({read.alias for read in reads if read.kind == "all"})
        for chosen in product(*(self._previous(alias) for alias in several)):
            by_alias = dict(zip(several, chosen, strict=True))

            def value(read: Read, by_alias: Mapping[str, Event] = by_alias) -> Any:
                match read.kind:
                    case "prev":
                        return self._value(read, previous[read][-1])
                    case "all":
                        return self._value(read, by_alias[read.alias])
                    case _:
                        return self._current(read)

            if not _compared(atom, value):
                return False
        return True

    def _previous(self, alias: str) -> list[Event]:
        """Return the events of an alias that were detected before: also those of a whole run."""
        found = [event for name, event in self.past if name == alias]
        if alias in self.runs:
            found += [event for name, event in self.now if name == alias]
        return found

    def _current(self, read: Read) -> Any:
        events = self.now if read.alias in self.own else self.past
        found = [event for name, event in events if name == read.alias]
        return self._value(read, found[-1]) if found else None

    def _value(self, read: Read, event: Event) -> Any:
        return event.values[list(self.names[read.alias]).index(read.attribute)]


def _compared(atom: Atom, value: Callable[[Read], Any]) -> bool:
    def computed(operand: Operand) -> Any:
        match operand:
            case Read():
                return value(operand)
            case Sum(operator, left, right):
                one, other = computed(left), computed(right)
                if one is None or other is None or (operator == "/" and other == 0):
                    return None
                return one + other if operator == "+" else one / other
            case _:
                return operand

    left, right = computed(atom.left), computed(atom.right)
    if left is None or right is None:
        return False
    match atom.operator:
        case "=":
            return bool(left == right)
        case "<>":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case ">=":
            return bool(left >= right)
        case _:
            return right in left


def _reads(operands: Sequence[Operand]) -> Iterator[Read]:
    for operand in operands:
        if isinstance(operand, Read):
            yield operand
        elif isinstance(operand, Sum):
            yield from _reads((operand.left, operand.right))


def _mentions(tests: Sequence[Test | None]) -> set[str]:
    found: set[str] = set()
    for test in tests:
        match test:
            case Atom(_, left, right):
                found |= {read.alias for read in _reads((left, right))}
            case Within(first, second):
                found |= {first, second}
            case Any2(one, other):
                found |= _mentions((one, other))
            case None:
                pass
    return found


# -- trees ---------------------------------------------------------------------------------


def parts(tree: Tree) -> tuple[Tree, ...]:
    """Return the trees directly below one."""
    match tree:
        case Src():
            return ()
        case Nxt(left, right) | Alt(left, right):
            return (left, right)
        case Exc(inner, other):
            return (inner, other)
        case Run(inner) | Tim(inner):
            return (inner,)
        case _:
            assert_never(tree)


def sources(tree: Tree) -> Iterator[Src]:
    """Yield the sources of a tree that are part of its results, from left to right."""
    if isinstance(tree, Src):
        yield tree
    for part in parts(tree)[: 1 if isinstance(tree, Exc) else None]:
        yield from sources(part)


def aliases(tree: Tree) -> list[str]:
    """Return the aliases of a tree's results."""
    return [source.alias for source in sources(tree)]


def _all(tree: Tree) -> set[str]:
    own = {tree.alias} if isinstance(tree, Src) else set()
    return own.union(*map(_all, parts(tree)))


def _iterated(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Run):
        yield from aliases(tree)
    for part in parts(tree):
        yield from _iterated(part)


def _timed(event: Composite, time: int) -> Composite:
    """Return the moment so long after an event: a timer event is instantaneous (section 3.3)."""
    return event._replace(times=(event.end + time, event.end + time))


def selected(tree: Tree, names: Names, event: Composite) -> tuple[Any, ...]:
    """Return the values of SELECT *: of an iterated alias those of all its events."""
    runs = set(_iterated(tree))
    row: list[Any] = []
    for alias in aliases(tree):
        events = [one for name, one in event.events if name == alias]
        for place in range(len(names[alias])):
            values = tuple([one.values[place] for one in events])
            row.append(values if alias in runs else (values[0] if values else None))
    return tuple(row)


# -- text ----------------------------------------------------------------------------------


def text(tree: Tree) -> str:
    """Return a query that selects everything of a pattern."""
    filters, tests = _conditions(tree)
    conditions = [*(f"FILTER({said(one)})" for one in filters), *map(said, tests)]
    where = f" WHERE {', '.join(conditions)}" if conditions else ""
    return f"SELECT * FROM {_pattern(tree)}{where}"


def _pattern(tree: Tree) -> str:
    match tree:
        case Src(stream, alias):
            return f"{stream} {alias}"
        case Nxt(left, right):
            return f"({_pattern(left)} ; {_pattern(right)})"
        case Alt(left, right):
            return f"({_pattern(left)} | {_pattern(right)})"
        case Run(inner):
            return f"({_pattern(inner)})+"
        case Exc(Nxt(left, right), other, _, True):
            return f"({_pattern(left)} ; ({_pattern(right)} \\ {_pattern(other)}))"
        case Exc(inner, other):
            return f"({_pattern(inner)} \\ {_pattern(other)})"
        case Tim(inner, time):
            return f"({_pattern(inner)})@{time} s"
        case _:
            assert_never(tree)


def _conditions(tree: Tree) -> tuple[list[Test], list[Test]]:
    """Return the conditions of a tree: those in FILTER, and the others."""
    filters: list[Test] = []
    tests: list[Test] = []
    if isinstance(tree, Src):
        (tests if tree.plain else filters).extend(tree.filters)
    elif isinstance(tree, Nxt | Run):
        filters += tree.filters
        tests += tree.tests
    elif isinstance(tree, Exc):
        tests += tree.tests
    for part in parts(tree):
        below = _conditions(part)
        filters += below[0]
        tests += below[1]
    return filters, tests


def said(test: Test) -> str:
    """Return a condition as text."""
    match test:
        case Atom(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case Within(first, second, time):
            return f"({first}, {second}) OCCURS WITHIN {time} s"
        case Any2(one, None):
            return f"NOT ({said(one)})"
        case Any2(one, other):
            assert other is not None
            return f"({said(one)} OR {said(other)})"
        case _:
            assert_never(test)


def _operand(operand: Operand) -> str:
    match operand:
        case Read("field", alias, attribute):
            return f"{alias}.{attribute}"
        case Read(kind, alias, attribute):
            return f"{kind.upper()}({alias}.{attribute})"
        case Sum(operator, left, right):
            return f"({_operand(left)} {operator} {_operand(right)})"
        case _:
            return repr(operand)
