"""Event patterns: what EQL's FROM and WHERE say, before anything is planned.

A pattern is a tree of the core operators of NEXT CEP (Schultz-Møller, Migliavacca and Pietzuch,
2009, section 3.4), whose leaves are streams under their aliases.  A condition belongs to the
operator that evaluates it: as a *filter* (φ, what does not satisfy it is skipped) or as a *test*
(θ, what does not satisfy it ends the detection).  The references of conditions are resolved when
the pattern becomes algebra, because rewriting changes where a value stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from cep_core.algebra.expressions import Column, Expression, Spanned, walk
from cep_core.algebra.operands import operands

Kind: TypeAlias = Literal["field", "prev", "all", "items", "begin", "end"]


class Ref(NamedTuple):
    """A reference of a condition to an attribute or a time of the events of an alias.

    "prev" is PREV(x.f), "all" is ALL(x.f).  "items" is the tuple of the value, empty if there is no
    event.  "begin" and "end" have no attribute.  ``of`` is the type of the attribute.
    """

    kind: Kind
    alias: str
    attribute: str = ""
    of: type = int


@dataclass(frozen=True, slots=True)
class Condition:
    """A conjunct: column n of side 2 of the expression is reference n."""

    expression: Expression
    refs: tuple[Ref, ...]

    @property
    def read(self) -> frozenset[Ref]:
        """The references that it reads."""
        parts = walk(self.expression)
        return frozenset(self.refs[part.index] for part in parts if isinstance(part, Column))

    @property
    def aliases(self) -> frozenset[str]:
        """The aliases that it reads."""
        return frozenset(ref.alias for ref in self.read)


Conditions: TypeAlias = tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Source(Spanned):
    """The events of a stream, by an alias."""

    stream: str
    alias: str
    filters: Conditions = ()


@dataclass(frozen=True, slots=True)
class Next(Spanned):
    """E1;E2: each E1 with the next E2 after it."""

    left: Pattern
    right: Pattern
    filters: Conditions = ()
    tests: Conditions = ()


@dataclass(frozen=True, slots=True)
class Either(Spanned):
    """E1|E2: both."""

    left: Pattern
    right: Pattern
    tests: Conditions = ()


@dataclass(frozen=True, slots=True)
class Plus(Spanned):
    """E+: one or more E, one after the other."""

    inner: Pattern
    filters: Conditions = ()
    tests: Conditions = ()


@dataclass(frozen=True, slots=True)
class Except(Spanned):
    r"""E1\E2: E1, unless E2 comes while it is detected."""

    inner: Pattern
    other: Pattern
    tests: Conditions = ()


@dataclass(frozen=True, slots=True)
class After(Spanned):
    """E@time: so long after E."""

    inner: Pattern
    time: Expression


Pattern: TypeAlias = Source | Next | Either | Plus | Except | After


def parts_of(pattern: Pattern) -> tuple[Pattern, ...]:
    """Return the patterns directly below one."""
    return tuple(operands(pattern, "Pattern"))


def sources_of(pattern: Pattern) -> Iterator[Source]:
    """Yield the sources of a pattern, from left to right; those of exceptions are among them."""
    if isinstance(pattern, Source):
        yield pattern
    for part in parts_of(pattern):
        yield from sources_of(part)


def detected(pattern: Pattern) -> Iterator[Source]:
    """Yield the sources whose events are part of the result: not those of exceptions."""
    match pattern:
        case Source():
            yield pattern
        case Except(inner):
            yield from detected(inner)
        case _:
            for part in parts_of(pattern):
                yield from detected(part)


def aliases_of(pattern: Pattern) -> frozenset[str]:
    """Return the aliases of a pattern's result."""
    return frozenset(source.alias for source in detected(pattern))


def iterated(pattern: Pattern) -> frozenset[str]:
    """Return the aliases of which a result may have many events."""
    if isinstance(pattern, Plus):
        return aliases_of(pattern)
    return frozenset().union(*(iterated(part) for part in parts_of(pattern)))


_FORMS: Mapping[type[Pattern], str] = {
    Next: "({};{})",
    Either: "({}|{})",
    Plus: "{}+",
    Except: "({}\\{})",
    After: "{}@",
}


def in_words(pattern: Pattern) -> str:
    """Return a pattern as text, its aliases without their streams."""
    if isinstance(pattern, Source):
        return pattern.alias
    return _FORMS[type(pattern)].format(*map(in_words, parts_of(pattern)))
