"""Resolution of names to streams, and to attributes of the inputs of a predicate.

`$1.x` is an attribute of the first stream, `$2.x` of the second, `$.x` of the last iteration
(Hong 2009, section 4.2.2).  A decorator may be left out where only one stream has the name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cep_core.algebra import Node
from cep_core.algebra.expressions import Column, Expression
from cep_core.errors import AlgebraError, Extent, UnknownName, UnknownStream, near_miss
from cep_core.events import Schema


class ResultItem(NamedTuple):
    """An item of SELECT or RETURN: output name, expression, and span in the query text."""

    name: str
    expression: Expression
    span: Extent


def repeated(items: Iterable[ResultItem]) -> Extent | None:
    """Return the span of the first item whose name another item has before it; None without one."""
    known: set[str] = set()
    for name, _, span in items:
        if name in known:
            return span
        known.add(name)
    return None


class StreamCatalog(Protocol):
    """The streams that a query may read."""

    def schema(self, name: str) -> Schema | None:
        """Return a stream's schema, None if there is no such stream."""

    def names(self) -> Iterable[str]:
        """Return the names of all streams."""


def known_schema(catalog: StreamCatalog, what: str, name: str, span: Extent) -> Schema:
    """Return the schema of a stream; raises AlgebraError if there is no such stream."""
    schema = catalog.schema(name)
    if schema is None:
        message = f"there is no {what} {name}"
        raise unknown(name, catalog.names(), span, message, UnknownStream)
    return schema


@dataclass(frozen=True, slots=True)
class AlgebraQuery:
    """A query as algebra, its literals as parameters.

    ``inner`` are sub-queries by what they publish, innermost first: they are parts of the node.
    """

    node: Node
    publishes: str | None
    inner: Mapping[str, Node]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OneStream:
    """The names of FILTER (and SELECT, where decorators are not allowed)."""

    schema: Schema
    decorated: bool = True

    def resolve(self, decorator: str | None, name: str, span: Extent) -> Column:
        """Return the column of a name."""
        if decorator is not None and not self.decorated:
            message = "decorators belong into the predicates of FILTER, NEXT, FOLD and JOIN"
            ways = [one for one in (f"{name}_1", name) if one in self.schema.names]
            hint = f"here it is called {' or '.join(ways)}" if ways else None
            if len(ways) == 2:
                hint = f"the first stream's is called {ways[0]} here, the second's {name}"
            raise AlgebraError(message, hint=hint, span=span)
        if decorator not in (None, "1"):
            message = f"there is one stream here, so ${decorator}. names nothing"
            raise AlgebraError(message, span=span)
        place = _place(self.schema, name)
        if place is None:
            raise unknown(name, self.schema.names, span)
        return Column(2, place, span=span)


@dataclass(frozen=True, slots=True)
class TwoStreams:
    """The names of NEXT and JOIN, and of FOLD with its ``aggregates``, None without.

    An instance of FOLD has, behind the first row, the attributes of the last iteration and these.
    """

    first: Schema
    second: Schema
    aggregates: tuple[str, ...] | None = None

    def resolve(self, decorator: str | None, name: str, span: Extent) -> Expression:
        """Return the column of a name."""
        own, aggregates = (self.first.names, self.second.names), self.aggregates or ()
        if decorator == "" and self.aggregates is None:
            message = "$. names the last iteration of a FOLD; here there are $1. and $2."
            raise AlgebraError(message, span=span)
        # without a decorator a name as it is wins over one that renaming has made
        exact = decorator is None and name in (*own[0], *own[1])
        first, second = _place(self.first, name, exact), _place(self.second, name, exact)
        if decorator is None and name in aggregates:
            decorator = ""
        if decorator is None and first is not None and second is not None:
            last = () if self.aggregates is None else (f"$.{name}",)
            raise ambiguous(name, (f"$1.{name}", f"$2.{name}", *last), span)
        later = (*own[1], *aggregates)
        if decorator == "" and name in later:
            return Column(1, len(self.first) + later.index(name), span=span)
        if first is not None and decorator != "2":
            return Column(1, first, span=span)
        if second is not None and decorator in (None, "2"):
            return Column(2, second, span=span)
        known = own[1] if decorator == "2" else (*own[0], *aggregates)
        raise unknown(name, known if decorator is not None else (*known, *own[1]), span)


@dataclass(frozen=True, slots=True)
class GroupedColumns:
    """The names beside aggregates: grouped attributes, by their place in the output."""

    schema: Schema
    group_by: tuple[int, ...]

    def resolve(self, decorator: str | None, name: str, span: Extent) -> Expression:
        """Return the column of a name."""
        column = OneStream(self.schema, decorated=False).resolve(decorator, name, span)
        if column.index not in self.group_by:
            message = f"{name} is neither grouped nor inside an aggregate"
            raise AlgebraError(message, hint=f"add GROUP BY {name}", span=span)
        return Column(2, self.group_by.index(column.index), span=span)


def unknown(
    name: str,
    known: Iterable[str],
    span: Extent | None,
    message: str | None = None,
    kind: type[UnknownName] = UnknownName,
) -> AlgebraError:
    """Return the error for a name that is not there; the hint is the nearest of the known ones.

    Without a message, the name is one of an attribute.
    """
    hint = near_miss(name, dict.fromkeys(known))
    message = message or f"there is no attribute {name}"
    return AlgebraError(message, hint=hint, span=span, kind=kind)


def ambiguous(name: str, ways: tuple[str, ...], span: Extent) -> AlgebraError:
    """Return the error for a name that both streams have."""
    return AlgebraError(
        f"both streams have an attribute {name}", hint=f"write {' or '.join(ways)}", span=span
    )


def _place(schema: Schema, name: str, exact: bool = False) -> int | None:
    """Return the position of a name.

    Where renaming has added "_1" because another name collides, the plain name still finds its
    attribute if there is no other: Example 9 of Cayuga selects MaxPrice, which is MaxPrice_1.
    ``exact`` excludes that.
    """
    for candidate in (name,) if exact else (name, f"{name}_1"):
        if candidate in schema.names:
            return schema.names.index(candidate)
    return None
