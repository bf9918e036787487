"""Aggregates in text: where they may stand, and what stands for them in the rest of a SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_core.algebra import AGGREGATES, Aggregate
from cep_core.algebra.expressions import Column, Expression, Function
from cep_core.errors import AlgebraError
from cep_core.languages.formula import Scope
from cep_core.languages.names import OneStream
from cep_core.languages.tokens import Token


@dataclass(frozen=True, slots=True)
class Refused:
    """SELECT without WINDOW and AT INSTANT, and predicates: what aggregates is refused."""

    functions: Mapping[str, Function]
    hint: str = "add WINDOW and a duration, or AT INSTANT, after the stream"

    @property
    def inside(self) -> Scope:
        """No arguments are read."""
        raise AssertionError("no arguments are read")

    def takes(self, name: Token) -> bool:
        """Refuse an aggregate; take nothing."""
        if name.word in AGGREGATES and name.text not in self.functions:
            raise AlgebraError(
                f"{name.word} needs to know over which events",
                hint=self.hint,
                span=name.span,
            )
        return False

    def made(self, name: Token, arguments: list[Expression] | None) -> Expression:
        """Nothing is taken."""
        raise AssertionError("nothing is taken")


@dataclass(slots=True)
class Calls:
    """The aggregates of a SELECT, each once; they come after the grouped columns."""

    inside: OneStream
    groups: int
    found: list[Aggregate] = field(default_factory=list)

    def takes(self, name: Token) -> bool:
        """Return True if a function is an aggregate."""
        return name.word in AGGREGATES

    def made(self, name: Token, arguments: list[Expression] | None) -> Expression:
        """Return the column of an aggregate."""
        one = aggregate(name.word, arguments, name)
        if one not in self.found:
            self.found.append(one)
        return Column(2, self.groups + self.found.index(one))


def aggregate(function: str, arguments: list[Expression] | None, name: Token) -> Aggregate:
    """Return an aggregate of its arguments; None stands for `*`."""
    given = arguments or []
    wanted = 2 if function.startswith("ARG") else 1
    if function == "COUNT" and not given:
        return Aggregate(function, None)
    if len(given) != wanted:
        raise AlgebraError(
            f"{function} takes {wanted} argument{'s' * (wanted != 1)}, not {len(given)}",
            span=name.span,
        )
    return Aggregate(function, given[0], given[1] if wanted == 2 else None)
