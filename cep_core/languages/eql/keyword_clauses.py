"""The keyword clauses CONTAINS and OCCURS WITHIN of EQL, in patterns and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cep_core.algebra.expressions import Arithmetic, Call, Column, Compare, Expression
from cep_core.errors import Span
from cep_core.languages.reader import TokenReader, parameter

T = TypeVar("T")


class Apart(NamedTuple):
    """The bound of a time constraint, and where it stands."""

    time: Expression
    span: Span

    def holds(self, end: Column, begin: Column) -> Compare:
        """Return that one event ends at most so long after another begins."""
        distance = Arithmetic("-", end, begin, span=self.span)
        return Compare("<=", distance, self.time, span=self.span)


def is_pair(reader: TokenReader) -> bool:
    """Return True if two names in parentheses are next, (id, id)."""
    signs = [one.text for one in reader.tokens[reader.at : reader.at + 5]]
    return signs[:1] == ["("] and signs[2:3] == [","] and signs[4:5] == [")"]


def time_constraint(
    reader: TokenReader, name: Callable[[], T], allowed: bool
) -> tuple[T, T, Apart]:
    """Read (id, id) OCCURS WITHIN duration; ``name`` reads an id."""
    start = reader.next()
    first = name()
    reader.next()
    second = name()
    reader.next()
    if not allowed or not reader.take_word("OCCURS"):
        raise reader.expected("OCCURS WITHIN and a duration")
    reader.expect_word("WITHIN", "WITHIN and a duration")
    time = parameter(reader.duration("5 min"))
    return first, second, Apart(time, Span(start.start, reader.tokens[reader.at - 1].end))


def contains(reader: TokenReader, place: Expression) -> Expression:
    """Read CONTAINS string, if it follows a field."""
    if not reader.take_word("CONTAINS"):
        return place
    token = reader.token
    if not isinstance(token.value, str):
        raise reader.expected("a string")
    part = parameter(reader.next())
    start = place.span.start if place.span else token.start
    return Call("contains", (place, part), span=Span(start, token.end))
