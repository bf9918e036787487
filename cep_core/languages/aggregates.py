"""Aggregates in text: where they may stand, and what stands for them in the rest of a SELECT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_core.algebra import AGGREGATES, Aggregate
from cep_core.algebra.expressions import Column, Expression, Function
from cep_core.errors import AlgebraError
from cep_core.languages.formula import Own, arguments
from cep_core.languages.names import OneStream
from cep_core.languages.reader import TokenReader
from cep_core.languages.tokens import LanguageToken


def refused(
    functions: Mapping[str, Function],
    hint: str = "add WINDOW and a duration, or AT INSTANT, after the stream",
    message: str = "{} needs to know over which events",
) -> Own:
    """Return the refusal of aggregates, for predicates and SELECT without WINDOW and AT INSTANT.

    It raises AlgebraError at an aggregate, unless the user's functions have its name.
    """

    def refuse(reader: TokenReader) -> None:
        name = reader.token
        if _is_called(reader) and name.text not in functions:
            raise AlgebraError(message.format(name.word), hint=hint, span=name.span)

    return refuse


@dataclass(slots=True)
class Calls:
    """The aggregates of a SELECT, each once; they come after the grouped columns.

    ``inside`` is the scope of their arguments.
    """

    inside: OneStream
    groups: int
    nested: Own | None = None  # what an aggregate inside an aggregate is refused by
    found: list[Aggregate] = field(default_factory=list)

    def read(self, reader: TokenReader) -> Expression | None:
        """Read an aggregate; return its column, None if another expression is next."""
        if not _is_called(reader):
            return None
        name = reader.next()
        reader.expect_sign("(")
        reader.deeper()
        of_rows = name.word == "COUNT" and reader.take_sign("*")
        one = _aggregate(name, [] if of_rows else arguments(reader, self.inside, self.nested))
        reader.expect_sign(")")
        if one not in self.found:
            self.found.append(one)
        return Column(2, self.groups + self.found.index(one))


def _is_called(reader: TokenReader) -> bool:
    """Return True if an aggregate is next, and its arguments."""
    return reader.token.word in AGGREGATES and reader.tokens[reader.at + 1].text == "("


def _aggregate(name: LanguageToken, given: list[Expression]) -> Aggregate:
    """Return an aggregate of its arguments; COUNT of none counts rows."""
    function = name.word
    wanted = 2 if function.startswith("ARG") else 1
    if function == "COUNT" and not given:
        return Aggregate(function, None)
    if len(given) != wanted:
        raise AlgebraError(
            f"{function} takes {wanted} argument{'s' * (wanted != 1)}, not {len(given)}",
            span=name.span,
        )
    return Aggregate(function, given[0], given[1] if wanted == 2 else None)
