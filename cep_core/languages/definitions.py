"""The stream definition language: the sources and sinks that queries stand between.

    definitions := { definition [;] }
    definition  := SOURCE name schema { TIME attribute | LATENESS duration | RATE number }
                 | SINK name schema
    schema      := ( attribute type {, attribute type} )

Schultz-Møller, Migliavacca and Pietzuch 2009, section 3.5: sources and sinks register under unique
names with a schema of their events.  The paper gives no syntax; this one is ours.  Types are str,
int, float, bool and decimal; RATE is in events a second; TIME names the field of a record that
says when it was (for those who read records); comments are those of queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from cep_core.decimals import BoundedDecimal
from cep_core.errors import Extent, QueryError, TypeFault, near_miss
from cep_core.events import TYPES, Schema
from cep_core.languages.reader import TokenReader
from cep_core.languages.tokens import tokens

_TYPES = {kind.__name__: kind for kind in TYPES}
EndKind: TypeAlias = Literal["source", "sink"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A source or a sink; ``rate`` is in events a second, ``lateness`` in ticks."""

    kind: EndKind
    name: str
    schema: Schema
    time: str | None = None
    lateness: int = 0
    rate: float | None = None


def definitions(text: str, ticks_per_second: int) -> tuple[Definition, ...]:
    """Parse the definitions of a text; raises QueryError with line, column and caret."""
    reader = TokenReader(text, tokens(text, ticks_per_second))
    found: dict[str, Definition] = {}
    while reader.token.kind != "end":
        token = reader.token
        made = _definition(reader)
        if made.name in found:
            raise QueryError(f"there are two {made.name}", text, token.span)
        found[made.name] = made
        reader.take_sign(";")
    return tuple(found.values())


def _definition(reader: TokenReader) -> Definition:
    if not reader.is_word("SOURCE", "SINK"):
        raise reader.expected("SOURCE or SINK")
    kind: EndKind = "source" if reader.next().word == "SOURCE" else "sink"
    name = reader.expect_name("a name").text
    schema = _schema(reader)
    if kind == "sink":
        return Definition(kind, name, schema)
    time, lateness, rate = None, 0, None
    while reader.is_word("TIME", "LATENESS", "RATE"):
        match reader.next().word:
            case "TIME":
                time = reader.expect_name("an attribute").text
            case "LATENESS":
                lateness = int(reader.duration("5 min", bare=False).value)
            case _:
                rate = _rate(reader)
    return Definition(kind, name, schema, time, lateness, rate)


def _schema(reader: TokenReader) -> Schema:
    reader.expect_sign("(", " and the attributes")
    names: dict[str, type] = {}
    while True:
        token = reader.expect_name("an attribute")
        if token.text in names:
            message = f"there are two attributes {token.text}"
            raise QueryError(message, reader.text, token.span)
        names[token.text] = _type(reader)
        if not reader.take_sign(","):
            break
    reader.expect_sign(")", " or a comma")
    return Schema(tuple(names), tuple(names.values()))


def _type(reader: TokenReader) -> type:
    token = reader.token
    if token.text not in _TYPES:
        if token.kind != "name":
            raise reader.expected("a type")
        hint = near_miss(token.text, _TYPES)
        message = f"there is no type {token.text}"
        raise TypeFault(message, reader.text, token.span, hint=hint)
    reader.next()
    return _TYPES[token.text]


def _rate(reader: TokenReader) -> float:
    token = reader.token
    number = token.value
    is_number = isinstance(number, int | float | BoundedDecimal)
    if token.kind != "literal" or not is_number or number <= 0:
        raise reader.expected("a number of events in a second")
    if token.text[-1:].isalpha():
        span = Extent(token.start, token.end)
        raise QueryError("a rate has no unit: it is in events a second", reader.text, span)
    reader.next()
    return float(number)
