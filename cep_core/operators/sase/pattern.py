"""The shape of a sequence: its components, and the conditions of its predicate taken apart.

An *equivalence test* asks for equal values of one attribute of every component (Wu, Diao and Rizvi
2006, section 2.2.1), whether it is written [id] or as a chain of equalities.  It says to which
partition a row belongs; the conditions that it answers are then tested no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cep_core.algebra import Component, Part, Strategy
from cep_core.algebra.expressions import Column, Compare, Expression, Function
from cep_core.algebra.patterns import parts_in
from cep_core.dataflow.code import Writer, by_atoms
from cep_core.dataflow.predicates import Bound
from cep_core.events import VALUES

Source = Callable[[Part], str]  # how a part is read


class Scan(Bound["Pattern"]):
    """The definition of a sequence but for its window: its shape is the pattern."""

    __slots__ = ()

    @property
    def pattern(self) -> Pattern:
        """The components and conditions, without constants."""
        return self.shape


class Conjunct(NamedTuple):
    """A condition that has to hold, and the parts that it reads."""

    node: Expression
    parts: tuple[Part, ...]

    @property
    def components(self) -> frozenset[int]:
        """The components that it reads."""
        return frozenset(part.component for part in self.parts)


class Test(NamedTuple):
    """An equivalence test: an attribute of each component, and the conjuncts that it answers."""

    columns: tuple[int, ...]
    conjuncts: tuple[Conjunct, ...]


@dataclass(frozen=True, eq=False)
class Pattern:
    """A sequence without constants and window; one object for equal ones."""

    components: tuple[Component, ...]
    parts: tuple[Part, ...]
    outputs: tuple[Part, ...]
    conjuncts: tuple[Conjunct, ...]
    strategy: Strategy
    partition: tuple[tuple[int, ...] | None, ...]
    functions: Mapping[str, Function]
    tests: tuple[Test, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tests", tuple(_tests(self.conjuncts, len(self.components))))

    @property
    def repeated(self) -> bool:
        """True if a component is repeated."""
        return any(component.repeated for component in self.components)

    def reading(self, input: int) -> list[int]:
        """Return the components that read an input."""
        return [place for place, one in enumerate(self.components) if one.input == input]

    @property
    def skeleton(self) -> tuple[Any, ...]:
        """The key of sequences that keep the same rows, given the same inputs."""
        keys = tuple(test.columns for test in self.tests)
        return (self.components, self.strategy, self.partition, keys)

    def writer(self, source: Source) -> Writer:
        """Return a writer of conditions, given how parts are read."""
        parts = self.parts
        return Writer(
            self.functions,
            False,
            lambda slot: f"k[{slot}]",
            lambda column: source(parts[column.index]),
        )

    def written(self, conjuncts: Iterable[Conjunct], source: Source) -> tuple[str, dict[str, Any]]:
        """Return the source of a conjunction ("" of none), and the names that it uses."""
        writer = self.writer(source)
        text = " and ".join([writer.condition(one.node) for one in conjuncts])
        return text, writer.names

    def careful(
        self,
        conjuncts: Iterable[Conjunct],
        source: Source,
        arguments: str,
        names: Mapping[str, Any] | None = None,
    ) -> Callable[..., bool]:
        """Return the conjunction as a function that never raises: an atom that fails is false.

        ``names`` are what sources use.
        """

        def writer() -> Writer:
            made = self.writer(source)
            made.names |= names or {}
            return made

        each = [by_atoms(one.node, writer, arguments) for one in conjuncts]
        return lambda *given: all(one(*given) for one in each)


def pattern_of(
    components: tuple[Component, ...],
    parts: tuple[Part, ...],
    outputs: int,
    conjuncts: Sequence[Expression],
    strategy: Strategy,
    partition: tuple[tuple[int, ...] | None, ...],
    functions: Mapping[str, Function],
) -> Pattern:
    """Return a pattern of conditions over the parts."""
    read = [Conjunct(node, tuple(parts_in(node, parts))) for node in conjuncts]
    return Pattern(
        *(components, parts, parts[:outputs], tuple(read), strategy, partition, functions)
    )


def attribute(row: str, part: Part) -> str:
    """Return the source of an attribute of a row."""
    assert part.index is not None
    return f"{row}[{part.index + VALUES}]"


def _tests(conjuncts: Sequence[Conjunct], length: int) -> Iterable[Test]:
    """Yield the equivalence tests over all components, in order of their first condition."""
    if length < 2:
        return
    classes: list[dict[Part, None]] = []
    equalities = [one for one in conjuncts if _is_equality(one)]
    for one in equalities:
        joined = [found for found in classes if not found.keys().isdisjoint(one.parts)]
        merged = {part: None for found in (*joined, dict.fromkeys(one.parts)) for part in found}
        at = classes.index(joined[0]) if joined else len(classes)
        classes = [found for found in classes if found not in joined]
        classes.insert(at, merged)
    for found in classes:
        chosen: dict[int, Part] = {}
        for part in found:
            if part.role != "first":
                chosen.setdefault(part.component, part)
        if len(chosen) == length:
            parts = {*chosen.values(), *[replace(part, role="first") for part in chosen.values()]}
            columns = tuple([chosen[c].index or 0 for c in range(length)])
            answered = tuple([one for one in equalities if parts.issuperset(one.parts)])
            yield Test(columns, answered)


def _is_equality(conjunct: Conjunct) -> bool:
    """Return True if a condition requires equal attributes of rows, for each row of a run."""
    match conjunct.node:
        case Compare("=", Column(), Column()):
            one, other = conjunct.parts
            if one.component == other.component:
                return {one.role, other.role} == {"current", "first"} and one.index == other.index
            return {one.role, other.role} <= {"value", "current", "first"}
        case _:
            return False
