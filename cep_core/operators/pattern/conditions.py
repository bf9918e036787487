"""The conditions of a pattern, and when they are tested.

A condition belongs to the last of its components, in the order of the text, and is tested with each
event that this component takes; components without an event are null.  Conditions on a whole run
(its last event, its aggregates) are tested with each event of later components, and at the end.
Between components of one unordered part a condition is tested when the last of them comes.

The events that a run has taken are a *cell* for each component: a row; of a repeated component the
tuple that `operators.pattern.accumulators` makes of its rows; None before the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from cep_core.algebra import Part, PatternMatch
from cep_core.algebra.expressions import Functions
from cep_core.algebra.pattern_automaton import PatternState, automaton_of
from cep_core.algebra.pattern_tree import Absent, Unordered, stops_of, trees_in
from cep_core.algebra.patterns import (
    PREVIOUS,
    RUN_AGGREGATES,
    Conjunct,
    conjuncts_in,
    is_of_neighbours,
    is_plain,
)
from cep_core.dataflow.code import Writer, function_of, guarded
from cep_core.dataflow.constant_index import ConstantTest, Holds, constants_in
from cep_core.dataflow.predicates import BoundShape
from cep_core.events import VALUES, Row
from cep_core.operators.pattern.accumulators import (
    COUNT,
    RunAccumulator,
    accumulators_of,
    average,
    longer,
    nth,
    started,
)
from cep_core.operators.pattern.partitions import NO_PARTITIONS, partitions_of

Cells: TypeAlias = tuple[Any, ...]
PatternCondition: TypeAlias = tuple[ConstantTest, ...]  # all of them must hold
_WHOLE = ("last", "end", "LIST")
_NAMES = {"average": average, "nth": nth}


@dataclass(eq=False)
class MatchShape:
    """A pattern without inputs, constants and window; one object for equal ones.

    The first ``outputs`` parts are put out.  The constants from number ``spans`` on are the bounds
    of unordered parts and the times of absences, in ticks.
    """

    pattern: PatternMatch
    outputs: int
    spans: int
    functions: Functions
    states: tuple[PatternState, ...] = field(init=False)
    absent: tuple[int, ...] = field(init=False)
    stops: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        pattern = self.pattern
        self.components, self.parts = pattern.components, pattern.parts
        self.states = automaton_of(pattern.tree, pattern.rules.mark)
        trees = list(trees_in(pattern.tree))
        absences = [one for one in trees if isinstance(one, Absent)]
        self.absent = tuple(dict.fromkeys(absence.component for absence in absences))
        self.spanning = any(absence.spanning for absence in absences)
        # the numbers of the constants that are times of absences
        self.silences = tuple(
            [self.spans + absence.time for absence in absences if absence.time is not None]
        )
        self.waits = any(state.longest for state in self.states)
        # whether all absences have a time of their own
        self.timed = 0 < len(self.silences) == len(absences)
        self.stops = tuple(dict.fromkeys(one for tree in trees for one in stops_of(tree)))
        self._unordered = [set(one.components) for one in trees if isinstance(one, Unordered)]
        self._accumulators = [
            accumulators_of(self.parts, place) for place in range(len(self.components))
        ]
        self.plain = is_plain(pattern)
        # whether a run may take several events of one epoch
        self.instant = pattern.rules.simultaneous or any(
            look.among for state in self.states for look in state.looks
        )
        read = conjuncts_in(pattern.predicate, self.parts)
        self.partitions = NO_PARTITIONS
        if not any(state.strict for state in self.states):
            self.partitions = partitions_of(
                pattern, read, self.absent, self.stops, plain=self.plain, instant=self.instant
            )
        answered = self.partitions.answered
        self.conjuncts = [one for one in read if one not in answered]
        self._tests = conjuncts_in(pattern.rules.tests, self.parts)
        self.tested = bool(self._tests)

    @cached_property
    def first(self) -> list[PatternCondition]:
        """By component: the conditions that its first row is tested with."""
        return self._by_component(self.conjuncts, True)

    @cached_property
    def more(self) -> list[PatternCondition]:
        """By component: the conditions that rows of a run after its first row are tested with."""
        return self._by_component(self.conjuncts, False)

    @cached_property
    def first_tests(self) -> list[PatternCondition]:
        """By component: the tests (a failed one ends a match) of its first row."""
        return self._by_component(self._tests, True)

    @cached_property
    def more_tests(self) -> list[PatternCondition]:
        """By component: the tests (a failed one ends a match) of all but the first row of a run."""
        return self._by_component(self._tests, False)

    @cached_property
    def accept(self) -> PatternCondition:
        """The conditions and tests that read whole runs, for a match that is complete."""
        return self.on_whole(one for one in (*self.conjuncts, *self._tests) if self._whole(one))

    @cached_property
    def constant_conditions(self) -> PatternCondition:
        """The conditions that read constants of a query; they are tested on a complete match."""
        return self.on_whole(conjunct for conjunct in self.conjuncts if conjunct.has_constants)

    @cached_property
    def values(self) -> Callable[[Cells], tuple[Any, ...]]:
        """The function from the cells of a complete run to the values of its result row."""
        sources = [self._value(part) for part in self.parts[: self.outputs]]
        text = "".join(f"{source}, " for source in sources)
        made: Callable[[Cells], tuple[Any, ...]] = function_of(
            f"def made(m):\n    return ({text})", _NAMES
        )
        return made

    # -- cells -----------------------------------------------------------------------------

    def taken(self, cells: Cells, component: int, row: Row) -> Cells:
        """Return the cells of a run with one more row, which is an event of a component."""
        cell = cells[component]
        made: Any = row
        if self.components[component].repeated:
            known = self._accumulators[component]
            made = started(known, row) if cell is None else longer(known, cell, row)
        return (*cells[:component], made, *cells[component + 1 :])

    # -- when conditions are tested --------------------------------------------------------

    def _by_component(self, read: Sequence[Conjunct], begins: bool) -> list[PatternCondition]:
        """Return by component the condition on its first row (``begins``), or on each later one."""
        return [
            self._condition(self._tested(read, place, begins), place)
            for place in range(len(self.components))
        ]

    def on_whole(self, read: Iterable[Conjunct]) -> PatternCondition:
        """Return the condition that all of ``read`` hold, for a whole match."""
        return self._condition([(None, one) for one in read], None)

    def _aside(self, one: Conjunct) -> int | None:
        """Return a component that a condition reads and that is absent or ends loops, or None."""
        return next((c for c in one.components if c in self.absent or c in self.stops), None)

    def _whole(self, one: Conjunct) -> bool:
        """Return True if a condition reads no part, or the whole run of its last component."""
        if self._aside(one) is not None:
            return False
        latest = max(one.components, default=0)
        return not one.parts or (
            any(_is_whole(p) for p in one.parts if p.component == latest)
            and self.components[latest].repeated
        )

    def _tested(
        self, read: Iterable[Conjunct], place: int, begins: bool
    ) -> list[tuple[str | None, Conjunct]]:
        """Return (skip, conjunct) for each condition that is tested with a row of a component.

        ``place`` is the component; with `begins` the row is its first one, else a later one.
        ``skip`` is the source of a condition on the run for which the test is left out, None if it
        is always made.
        """
        found: list[tuple[str | None, Conjunct]] = []
        for one in read:
            aside = self._aside(one)
            if aside is not None:
                if aside == place:
                    found.append((None, one))
                continue
            latest = max(one.components, default=0)
            if self._whole(one):
                if latest < place and place not in (*self.absent, *self.stops):
                    found.append((None, one))
                continue
            beside = next((u for u in self._unordered if latest in u), {latest}) & one.components
            if place not in beside or (begins and is_of_neighbours(one.node, self.parts, place)):
                continue
            others = sorted(beside - {place})
            when = " and ".join(self._came(other, place) for other in others)
            found.append((when or None, one))
        return found

    def _came(self, other: int, place: int) -> str:
        """Return the source of a test that component `other` came before the next row of `place`.

        If `other` is a run, it has to have more rows than the run of `place` has.
        """
        if not self.components[other].repeated:
            return f"m[{other}] is not None"
        own = f"(m[{place}][{COUNT}] if m[{place}] else 0)"
        return f"(m[{other}] is not None and m[{other}][{COUNT}] > {own})"

    def _condition(
        self, conditions: Sequence[tuple[str | None, Conjunct]], current: int | None
    ) -> PatternCondition:
        """Return the tests of some conditions, those that read fewer constants first.

        ``conditions`` are pairs as `_tested` returns them; ``current`` is the component whose row
        is tested, None for a whole match.
        """
        tests = [self._test(when, one, current) for when, one in conditions]
        return tuple(sorted(tests, key=lambda test: len(test.reads)))

    def writer(self, source: Callable[[Part], str]) -> Writer:
        """Return a writer of conditions in Python; ``source`` gives the code of a part's value."""
        parts = self.parts
        made = Writer(self.functions, False, columns=lambda column: source(parts[column.index]))
        made.names |= _NAMES
        return made

    def _test(self, when: str | None, one: Conjunct, current: int | None) -> ConstantTest:
        """Return the test of a conjunct, which never raises: an atom that fails is false.

        It holds where the source `when`, if any, is false.  The row x is tested for the component
        `current`; None: there is no such row.
        """

        writer = self.writer(lambda part: self.source(part, current))
        skipped = "" if when is None else f"not ({when}) or "
        holds: Holds = guarded(one.node, writer, f"return {skipped}{{}}", "m, x, k")
        return ConstantTest(holds, *constants_in(one.node))

    # -- sources ---------------------------------------------------------------------------

    def _value(self, part: Part) -> str:
        """Return the source of a part of a result: null if its component has not occurred."""
        if part.role == "COUNT" and part.index is None:
            return self.source(part)
        return f"({self.source(part)} if m[{part.component}] is not None else None)"

    def source(self, part: Part, current: int | None = None, cells: str = "m[{}]") -> str:
        """Return the source of a part's value; `x` is the row that is tested for ``current``.

        That is a component, None without such a row.  ``cells`` is the source of a component's
        cell, with `{}` for the component.
        """
        component, role = part.component, part.role
        cell = cells.format(component)
        if component == current and role != "COUNT" and (part.before or role in PREVIOUS):
            return f"({self.source(part)} if {cell} else None)"
        own = component == current and not part.before
        repeated = self.components[component].repeated
        first, last = (f"{cell}[0]", f"{cell}[1]") if repeated else (cell, cell)
        if own and repeated:
            first = f"({cell}[0] if {cell} else x)"
        begin = "x" if own and not repeated else first
        latest = "x" if own else last
        match role:
            case "start":
                return f"{begin}[0]"
            case "first_end":
                return f"{begin}[1]"
            case "end" | "current_end":
                return f"{latest}[1]"
            case "previous_end":
                return f"{last}[1]"
            case "first":
                text = f"{begin}[{_place(part)}]"
            case "value" | "current":
                return f"{latest}[{_place(part)}]"
            case "last":
                text = f"{last}[{_place(part)}]"
            case "previous":
                return f"{last}[{_place(part)}]"
            case "COUNT" if part.index is None:
                return (
                    f"({cell}[{COUNT}] if {cell} else 0)"
                    if repeated
                    else f"int({cell} is not None)"
                )
            case _:
                text = self._held(part, role, cell)
                if role == "COUNT":
                    return f"({text} if {cell} else 0)"
                return f"average({text})" if role == "AVG" else text
        if part.offset:
            place = part.offset if role == "first" else -1 - part.offset
            return f"nth({self._held(part, 'LIST', cell)}, {place})"
        return text

    def _held(self, part: Part, role: str, cell: str) -> str:
        assert part.index is not None
        held = self._accumulators[part.component].index(RunAccumulator(role, part.index))
        return f"{cell}[{COUNT + 1 + held}]"


Matching: TypeAlias = BoundShape[MatchShape]
"""The definition of a query's pattern: the shape and the constants, without the window."""


def _place(part: Part) -> int:
    assert part.index is not None
    return part.index + VALUES


def _is_whole(part: Part) -> bool:
    """Return True if a part has its value only when the whole run is known."""
    aggregate = part.role in RUN_AGGREGATES and not part.before
    return aggregate or part.role in _WHOLE or bool(part.offset)
