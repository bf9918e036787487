"""EQL against the definitions of its paper: random patterns over random streams.

Every query is written as text; the engine reads it, plans it and is fed in batches, sometimes
restored from a snapshot in between.  What comes out has to be what the second opinion says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core import ALL_RULES, Engine, Event, Rule
from tests.cep_core.eql_reference import (
    Alt,
    Any2,
    Atom,
    Exc,
    Nxt,
    Operand,
    Read,
    Run,
    Src,
    Sum,
    Test,
    Tests,
    Tim,
    Tree,
    Within,
    World,
    aliases,
    parts,
    selected,
    text,
)
from tests.cep_core.strategies import Choice
from tests.cep_core.test_engine_properties import CONFIGURATIONS, holding
from tests.examples import until

NAMES = ("n", "s")
STREAMS = ("A", "B", "C")


@dataclass(frozen=True, slots=True)
class Case:
    """A pattern, events in order, where they are cut, and where a snapshot is taken."""

    tree: Tree
    events: tuple[Event, ...]
    cuts: tuple[int, ...]
    restored: int

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def __repr__(self) -> str:
        shown = [f"{e.stream}{e.values}@[{e.t0}, {e.t1}]" for e in self.events]
        return f"{text(self.tree)}\n  {' '.join(shown)}\n  {self.cuts} {self.restored}"


class Trees:
    """Patterns with conditions where the language puts them."""

    filtered = tested = 2  # how often the operators have conditions: one in so many
    events = (6, 14)

    def __init__(self, choose: Choice) -> None:
        self._choose = choose
        self._made = 0

    def tree(self, depth: int, runs: bool = True) -> Tree:
        choose = self._choose
        if not depth or self._made >= 5:
            return self._source()
        match choose.number(0, 12):
            case 0:
                return self._source()
            case 1 | 2 | 3 | 4:
                return self._next(depth, runs)
            case 5 | 6:
                return Alt(self.tree(depth - 1, runs), self.tree(depth - 1, runs))
            case 7 | 8 | 9 if runs:
                return self._run(depth)
            case 10:
                return Tim(self.tree(depth - 1, runs), choose.number(1, 4))
            case _:
                return self._exception(depth, runs)

    def _source(self) -> Src:
        self._made += 1
        alias = f"x{self._made}"
        filters: Tests = ()
        if self._choose.seldom(3):
            filters = (self._test([alias], [alias], plain=True),)
        return Src(self._choose.of("A", *STREAMS), alias, filters)

    def _next(self, depth: int, runs: bool) -> Nxt:
        choose = self._choose
        left, right = self.tree(depth - 1, runs), self.tree(depth - 1, runs)
        while isinstance(right, Exc):
            right = right.inner
        if choose.seldom(6):
            right = Tim(self._source(), choose.number(1, 4))
        filters: list[Test] = []
        tests: list[Test] = []
        for into, often in ((filters, self.filtered), (tests, self.tested)):
            if choose.seldom(often):
                into.append(self._across(aliases(left), aliases(right), not runs))
        if isinstance(right, Src) and choose.seldom(3):
            tests.append(self._test([right.alias], [right.alias]))
        return Nxt(left, right, tuple(filters), tuple(tests))

    def _across(self, left: Sequence[str], right: Sequence[str], plain: bool) -> Test:
        choose = self._choose
        if choose.seldom(3):
            return Within(choose.of(*left), choose.of(*right), choose.number(1, 8))
        made = self._test(left, right, plain)
        if choose.seldom(5):
            return Any2(made, self._test(left, right, plain) if choose.often(3) else None)
        return made

    def _run(self, depth: int) -> Run:
        choose = self._choose
        inner = self.tree(depth - 1, False)
        own = aliases(inner)
        filters: list[Test] = []
        tests: list[Test] = []
        for into in (filters, tests):
            if choose.seldom(2):
                alias = choose.of(*own)
                into.append(self._looking_back(alias))
        if isinstance(inner, Src) and choose.seldom(3):
            tests.append(self._test(own, own, plain=True))
        return Run(inner, tuple(filters), tuple(tests))

    def _looking_back(self, alias: str) -> Test:
        choose = self._choose
        attribute = choose.of(*NAMES)
        back = Read(choose.of("prev", "all"), alias, attribute)
        operator = choose.of("<>", "<", "=", ">=")
        if choose.seldom(4):
            return Within(alias, alias, choose.number(1, 6))
        return Atom(operator, back, Read("field", alias, attribute))

    def _exception(self, depth: int, runs: bool) -> Exc:
        choose = self._choose
        inner = self._ended(depth, runs)
        other = self.tree(choose.of(0, 0, depth - 1), False)
        if choose.seldom(6):
            other = Tim(other, choose.number(1, 4))
        below = inner
        while isinstance(below, Exc):
            below = below.inner
        past = aliases(below.left if isinstance(below, Nxt) else below)
        tests: Tests = ()
        if choose.seldom(2) and not isinstance(below, Alt):
            tests = (self._test(past, aliases(other), not runs),)
        inside = isinstance(inner, Nxt) and choose.often(2)
        return Exc(inner, other, tests, inside)

    def _ended(self, depth: int, runs: bool) -> Tree:
        """Return the operand of an exception: each kind of pattern, or any."""
        choose = self._choose
        match choose.number(0, 7):
            case 0:
                return self._next(1, runs)
            case 1 if runs:
                return self._run(1)
            case 2:
                return Alt(self._source(), self._source())
            case 3:
                return Tim(self._source(), choose.number(1, 4))
            case 4:
                return Exc(Tim(self._source(), choose.number(1, 4)), self._source())
            case _:
                return self.tree(depth - 1, runs)

    def _test(self, left: Sequence[str], right: Sequence[str], plain: bool = False) -> Test:
        """Return a comparison of attributes of two aliases, or of one with a constant."""
        choose = self._choose
        one, other = choose.of(*left), choose.of(*right)
        attribute = choose.of("n", "n", "s")
        if one == other:
            if attribute == "s" and choose.seldom(2):
                return Atom("CONTAINS", Read("field", one, "s"), "a")
            constant = choose.of(0, 1) if attribute == "n" else choose.of("a", "b")
            return Atom(choose.of("=", "<>", ">="), Read("field", one, attribute), constant)
        first: Operand = Read("field", one, attribute)
        if not plain:
            first = choose.of(
                first, first, Read("prev", one, attribute), Read("all", one, attribute)
            )
        back = not plain and choose.seldom(3)
        second: Operand = Read("prev" if back else "field", other, attribute)
        if attribute == "n" and choose.seldom(3):
            second = Sum(choose.of("+", "/"), second, choose.of(1, 0))
        return Atom(choose.of("=", "=", "<>", "<", ">="), first, second)


class Chains(Trees):
    """Patterns that can be rewritten: long sequences and unions, and what keeps their order."""

    filtered, tested = 7, 6
    events = (12, 18)

    def tree(self, depth: int, runs: bool = True) -> Tree:
        choose = self._choose
        if not depth or self._made >= 5:
            return self._source()
        match choose.number(0, 9):
            case 0 if depth < 3:
                return self._source()
            case 1 | 2 | 3:
                return Alt(self.tree(depth - 1, runs), self.tree(depth - 1, runs))
            case 4 if depth < 3:
                return self._exception(depth, runs)
            case 5 if depth < 2 and choose.often(2):
                return Tim(self.tree(depth - 1, runs), choose.number(1, 4))
            case 5 if runs and depth < 2:
                return self._run(depth)
            case _:
                return self._next(depth, runs)


@st.composite
def cases(draw: st.DrawFn, kind: type[Trees] = Trees) -> Case:
    """Return a pattern over streams that are dense enough for it to be found."""
    choose = Choice(draw)
    tree = kind(choose).tree(3)
    events = []
    for _ in range(choose.number(*kind.events)):
        t1 = choose.number(0, 14)
        values = (choose.of(0, 1, 2, None), choose.of("a", "b", "ab"))
        t0 = t1 - choose.of(0, 0, 0, 1, 2)
        events.append(Event(choose.of("A", *STREAMS), values, t0, t1))
    events.sort(key=lambda one: one.t1 or 0)
    cuts = tuple(sorted(choose.number(0, len(events)) for _ in range(3)))
    return Case(tree, tuple(events), cuts, choose.number(0, 4))


def engine(rates: Sequence[float] = (), rules: tuple[Rule, ...] = ALL_RULES) -> Engine:
    core = Engine(ticks_per_second=1, rules=rules)
    for place, name in enumerate(STREAMS):
        rate = rates[place] if rates else None
        core.stream(name, {"n": int, "s": str}, rate=rate)
    return core


def found(case: Case, core: Engine, rules: tuple[Rule, ...] = ALL_RULES) -> Counter[Any]:
    """Return the matches of an engine with the query, as a multiset."""
    core.register("q", text(case.tree), language="eql")
    matches = []
    edges = (0, *case.cuts, len(case.events))
    for number, (start, stop) in enumerate(pairwise(edges)):
        matches += core.push(case.events[start:stop])
        if number == case.restored:
            core = Engine.restore(core.snapshot(), rules=rules)
    matches += core.close()
    return Counter((e.t0, e.t1, e.values) for _, e in matches)


def expected(case: Case) -> Counter[Any]:
    """Return the matches of the reference."""
    streams = {name: [e for e in case.events if e.stream == name] for name in STREAMS}
    names = dict.fromkeys(all_aliases(case.tree), NAMES)
    made = World(streams, names).found(case.tree)
    return Counter((e.times[0], e.end, selected(case.tree, names, e)) for e in made)


def all_aliases(tree: Tree) -> list[str]:
    own = [tree.alias] if isinstance(tree, Src) else []
    return own + [alias for part in parts(tree) for alias in all_aliases(part)]


def features(tree: Tree) -> Iterator[str]:
    """Yield what occurs in a pattern."""
    yield type(tree).__name__
    conditions: Tests = ()
    match tree:
        case Nxt(_, right, filters, tests) if isinstance(right, Nxt | Run | Alt | Tim):
            yield f"{type(right).__name__} to the right"
            conditions = filters + tests
        case Nxt(_, _, filters, tests) | Run(_, filters, tests):
            conditions = filters + tests
            yield from [f"filtered {type(tree).__name__}"] if filters else []
            yield from [f"tested {type(tree).__name__}"] if tests else []
        case Exc(inner, other, tests):
            yield f"Exc over {type(inner).__name__}"
            yield from ["several over Tim"] if isinstance(inner, Exc) and _timed(inner) else []
            yield from ["Exc by Tim"] if isinstance(other, Tim) else []
            conditions = tests
        case _:
            pass
    for test in conditions:
        yield type(test).__name__
        yield from (word for word in ("PREV", "ALL", "CONTAINS", "/") if word in str(test).upper())
    for part in parts(tree):
        yield from features(part)


def _timed(tree: Exc) -> bool:
    inner = tree.inner
    return _timed(inner) if isinstance(inner, Exc) else isinstance(inner, Tim)


FEATURES = {
    *("Src", "Nxt", "Alt", "Run", "Exc", "Tim", "Atom", "Within", "Any2", "PREV", "ALL", "/"),
    *("Nxt to the right", "Run to the right", "Alt to the right", "Tim to the right"),
    *("filtered Nxt", "tested Nxt", "filtered Run", "tested Run"),
    *("Exc over Nxt", "Exc over Run", "Exc over Src", "Exc over Tim", "Exc over Alt"),
    *("several over Tim", "Exc by Tim"),
}


class Worth:
    """Counts of cases, of those with matches, and of what occurs."""

    def __init__(self) -> None:
        self.cases = 0
        self.matching = 0
        self.features: Counter[str] = Counter()

    def count(self, case: Case, wanted: Counter[Any]) -> None:
        self.cases += 1
        self.matching += bool(wanted)
        self.features.update(set(features(case.tree)))

    def demand(self) -> None:
        assert 3 * self.matching >= self.cases
        assert set(self.features) >= FEATURES, FEATURES - set(self.features)


@pytest.mark.hypothesis
def test_rewriting_changes_no_result() -> None:
    """For all rates, with filters, tests and time constraints."""
    worth, changed = Worth(), 0

    @holding(28)
    @given(cases(Chains), st.lists(st.sampled_from([1.0, 8.0, 64.0]), min_size=3, max_size=3))
    def agrees(case: Case, rates: list[float]) -> None:
        nonlocal changed
        wanted = expected(case)
        worth.count(case, wanted)
        core = engine(rates)
        assert found(case, core) == wanted
        changed += "as planned" in core.explain("q")

    agrees()
    assert 3 * worth.matching >= worth.cases
    assert 12 * changed >= worth.cases


@pytest.mark.hypothesis
def test_patterns_are_found_as_the_definitions_say() -> None:
    worth = Worth()

    @holding(50)
    @given(cases(), st.sampled_from(list(CONFIGURATIONS.values())))
    def agrees(case: Case, rules: tuple[Rule, ...]) -> None:
        wanted = expected(case)
        worth.count(case, wanted)
        assert found(case, engine(rules=rules), rules) == wanted

    agrees()
    until(lambda: set(worth.features) >= FEATURES, agrees)
    worth.demand()


class Sequences(Trees):
    """Sequences of events, or of a run and events: `;` means the same in both evaluations."""

    def tree(self, depth: int, runs: bool = True) -> Tree:
        choose = self._choose
        left: Tree = self._run_of(self._source()) if choose.seldom(3) else self._source()
        for _ in range(choose.of(1, 1, 2)):
            right = self._source()
            conditions = [
                self._across(aliases(left), [right.alias], True) for _ in range(choose.of(0, 1, 2))
            ]
            split = choose.number(0, len(conditions))
            left = Nxt(left, right, tuple(conditions[:split]), tuple(conditions[split:]))
        return left

    def _run_of(self, source: Src) -> Run:
        choose, alias = self._choose, source.alias
        back = Atom(choose.of("<>", "<"), Read("prev", alias, "n"), Read("field", alias, "n"))
        conditions: list[Tests] = [(), (back,)]
        return Run(source, choose.of(*conditions), choose.of(*conditions))


@pytest.mark.hypothesis
def test_sequences_find_the_same_as_patterns() -> None:
    """Of events that do not end together; WITHIN makes a pattern of a sequence."""
    worth = Worth()

    @holding(24)
    @given(cases(Sequences))
    def agrees(case: Case) -> None:
        events = [Event(one.stream, one.values, at) for at, one in enumerate(case.events)]
        wanted: Counter[Any] | None = None
        for within in ("", " WITHIN 1000 s"):
            core = engine()
            core.register("q", text(case.tree) + within, "eql")
            matches = [*core.push(events), *core.close()]
            found = Counter((e.t0, e.t1, e.values) for _, e in matches)
            assert wanted is None or found == wanted
            wanted = found
        assert [mop.kind for mop in core.plan.mops].count("pattern_match") == 1
        worth.count(case, found)

    agrees()
    assert 5 * worth.matching >= worth.cases


WITHIN = "WHERE FILTER(a.n = b.n), (a, b) OCCURS WITHIN 100 s"
BOUNDED = {
    "next": f"SELECT * FROM A a ; B b {WITHIN}",
    "two nexts": "SELECT * FROM A a ; B b ; C c"
    " WHERE FILTER(a.n = b.n), FILTER(b.n = c.n), (a, c) OCCURS WITHIN 100 s",
    "iteration": f"SELECT ALL(b.s) AS run FROM A a ; B b+ {WITHIN}",
    "moment": "SELECT * FROM A a @ 100 s",
    "what comes before a moment": "SELECT * FROM (B b ; A a @ 100 s) WHERE FILTER(a.n = b.n)",
    "exception": rf"SELECT a.n FROM (A a ; B b @ 50 s) \ C c {WITHIN}",
    "nothing up to a moment": r"SELECT a.n FROM A a @ 100 s \ B b WHERE a.n = b.n",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_what_is_kept_is_bounded_over_ten_windows(name: str) -> None:
    """Values that never come again are dropped, too: nobody looks at their groups."""
    core = Engine(1)
    for stream in STREAMS:
        core.stream(stream, {"n": int, "s": str})
    core.register("q", BOUNDED[name], "eql")
    counts = []
    for window in range(10):
        ticks = range(100 * window, 100 * window + 100)
        core.push([Event("ABC"[tick % 7 % 3], (tick // 5, "x"), tick) for tick in ticks])
        counts.append(core.stats()["instances"])
    assert 10 < max(counts[2:]) <= 1.5 * counts[1] + 10, counts
    core.advance(5_000)
    assert core.stats()["instances"] == 0
