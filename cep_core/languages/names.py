"""Names of streams and of results, and the algebra that a language makes of a query's text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cep_core.algebra import Node
from cep_core.algebra.expressions import Expression
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
    """The streams that a query may read: their names, and their schemas by name."""

    def schema(self, name: str) -> Schema | None:
        """Return a stream's schema, None if there is no such stream."""

    def names(self) -> Iterable[str]:
        """Return the names of all streams."""


def known_schema(catalog: StreamCatalog, what: str, name: str, span: Extent) -> Schema:
    """Return the schema of a stream; raises AlgebraError, with the noun ``what``, if none."""
    schema = catalog.schema(name)
    if schema is None:
        message = f"there is no {what} {name}"
        raise unknown(name, catalog.names(), span, message, UnknownStream)
    return schema


@dataclass(frozen=True, slots=True)
class AlgebraQuery:
    """A query as algebra, its literals as parameters.

    ``inner`` are the sub-queries that publish, by the streams' names, innermost first; they are
    parts of the node.
    """

    node: Node
    publishes: str | None
    inner: Mapping[str, Node]
    reads: tuple[str, ...]


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
