"""Relational queries on the same plan: CEL, SASE and EQL over documents, their rows as documents.

A stream of documents is a stream of events once its attributes are known: they are declared
(`Engine.stream`), or they are the children of the element that an XSCL query publishes.  A result
row becomes a composite without documents, whose values are the row's.  So results are stored,
counted and read like all others.  The output document has a leaf for each value.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

import cep_core
from cep_core import CepError, Query, Schema
from cep_core.algebra import BoundedDecimal, text_of
from cep_core.plan import VALUES, Operator, Row, Wanted
from xscl.documents.composite_events import Composite
from xscl.documents.results import Subscription
from xscl.errors import NameTaken, QueryError, StreamInUse, XsclError
from xscl.language.syntax import Element, EmbeddedPath
from xscl.planning.compile import CompiledQuery
from xscl.planning.operators.events import READERS, Records
from xscl.store.queries.tables import EARLIEST

StreamAttributes: TypeAlias = Mapping[str, type]
_NAMES = {kind.__name__: kind for kind in READERS}
_UNREAD = (
    "say which leaves of its documents are read, and as what: PUT /v1/streams/{0} with"
    ' {{"attributes": {{"title": "str"}}}}, or Engine.stream'
)
_WORD = re.compile(r"[^\W\d]\w*")


def schema_of(attributes: StreamAttributes) -> Schema:
    """Return the schema of a stream's attributes; raises XsclError for an unsupported type."""
    for name, kind in attributes.items():
        if kind not in (*READERS, Decimal):
            shown = getattr(kind, "__name__", repr(kind))
            raise XsclError(
                f"the attribute {name!r} cannot be of type {shown}",
                hint=f"types are {', '.join(_NAMES)}",
            )
    with translated():
        return Schema(tuple(attributes), tuple(attributes.values()))


def attributes_of(types: Mapping[str, str]) -> StreamAttributes:
    """Return the attributes of a stream whose types are given by name, such as `str`."""
    return {name: _NAMES[kind] for name, kind in types.items()}


def names_of(schema: Schema | None) -> dict[str, str] | None:
    """Return the names of a schema's types by attribute, such as `str`; None of None."""
    if schema is None:
        return None
    return {name: kind.__name__ for name, kind in zip(schema.names, schema.types, strict=True)}


def published_schema(query: CompiledQuery) -> Schema | None:
    """Return the schema of what a query publishes: the leaves that it constructs, as texts.

    None if it publishes nothing, or nothing whose name is known beforehand.
    """
    constructor = query.normal.select
    if constructor is None or query.normal.publish is None:
        return None
    found = [_local(name) for name, _ in constructor.attributes]
    for child in constructor.children:
        match child:
            case Element():
                found.append(_local(child.name))
            case EmbeddedPath(as_string=False):
                found.append(_copied(child, query))
            case _:
                pass  # text between the leaves
    names = tuple(dict.fromkeys(name for name in found if name))
    return Schema(names, (str,) * len(names)) if names else None


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _copied(embedded: EmbeddedPath, query: CompiledQuery) -> str:
    """Return the local name of the elements that an expression in a constructor copies.

    "" if the query does not name them, or if text or an attribute is copied.
    """
    steps = embedded.path.steps or [
        node.step
        for pattern in query.patterns
        for node in pattern.nodes
        if node.variable == embedded.variable
    ]
    if embedded.path.text is not None or not steps or steps[-1].attribute:
        return ""
    return steps[-1].test.local or ""


def schema_as_text(schema: Schema | None) -> str | None:
    """Return a schema as JSON for `schema_from`; None of None."""
    names = names_of(schema)
    return None if names is None else json.dumps(names)


def schema_from(text: str) -> Schema:
    """Return the schema that `schema_as_text` has made a text of."""
    return schema_of(attributes_of(json.loads(text)))


@dataclass(eq=False, repr=False)
class Relational:
    """The relational queries of an engine, and the streams that they read as events.

    `source` returns the operator of a stream of documents, `lateness` its lateness in ticks,
    `schema` its attributes, if they are known.  The name of a query is the key of its
    subscription.  `qids` has the qids by name; the rows of the queries in `muted` are dropped.
    """

    _core: cep_core.Engine
    _records: Records
    _source: Callable[[str], Operator]
    _lateness: Callable[[str], int]
    _schema: Callable[[str], Schema | None]
    qids: dict[str, int] = field(default_factory=dict, init=False)
    muted: set[str] = field(default_factory=set, init=False)
    _adopted: dict[str, Operator] = field(default_factory=dict, init=False)
    _schemas: dict[str, Schema] = field(default_factory=dict, init=False)

    def operators(self, name: str) -> Iterable[Operator]:
        """Return the operators of a query, inputs before the operators that read them."""
        return dict.fromkeys(self._core.query(name).held)

    def root(self, name: str) -> Operator:
        """Return the operator that emits the result rows of a query."""
        root = self._core.query(name).root
        assert root is not None
        return root

    # -- Queries ---------------------------------------------------------------------------

    def plan(
        self, name: str, text: str, language: str, since: int, bound_to: int | None = None
    ) -> Query:
        """Add a query to the plan; it receives documents with numbers from `since` on.

        `name` is the key of its subscription.  Its operators over time are shared with queries of
        the same `bound_to`; None: with all.
        Raises QueryError, NameTaken or XsclError, with the plan unchanged.
        """
        found = {word: self._schema(word) for word in dict.fromkeys(_WORD.findall(text))}
        return self._plan(name, text, language, since, bound_to, found)

    def plan_again(self, subscription: Subscription) -> Query:
        """Add a stored subscription to the plan, with the schemas of its registration."""
        known = json.loads(subscription.events)
        schemas = {name: schema_from(text) for name, text in known.items()}
        one = subscription
        return self._plan(one.key, one.query, one.language, one.since, one.bound_to, schemas)

    def events(self, query: Query) -> str:
        """Return the schemas of the document streams that a query reads as events, as JSON."""
        read = [name for name in query.compiled.reads if name in self._adopted]
        return json.dumps({name: schema_as_text(self._schemas[name]) for name in read})

    def _plan(
        self,
        name: str,
        text: str,
        language: str,
        since: int,
        bound_to: int | None,
        schemas: Mapping[str, Schema | None],
    ) -> Query:
        try:
            self._adopt(schemas)
            self._core.clock.arrivals, self._core.clock.bound_to = since, bound_to
            with translated():
                self._core.register(name, text, language)
        finally:
            self._release()
        return self._core.query(name)

    def remove(self, name: str) -> None:
        """Remove a query; raises StreamInUse while another query reads the stream it publishes."""
        with translated():
            self._core.unregister(name)
        self.qids.pop(name, None)
        self.muted.discard(name)
        self._release()

    @property
    def streams(self) -> Collection[str]:
        """The streams of documents that are read as events."""
        return self._adopted.keys()

    def adopted(self) -> list[Operator]:
        """Return the operators that convert document streams to event streams, sorted by stream."""
        return [self._adopted[name] for name in sorted(self._adopted)]

    def _adopt(self, schemas: Mapping[str, Schema | None]) -> None:
        """Convert the document streams with a known schema to event streams.

        Raises XsclError if the core rejects a schema; the operator is released.
        """
        for name, schema in schemas.items():
            if schema is None or name in self._adopted:
                continue
            source = self._source(name)
            wanted = Wanted("record", schema, (source,), width=len(schema))
            operator = self._core.plan.insert(wanted)
            try:
                with translated():
                    self._core.adopt(name, schema, self._lateness(name), operator)
            except XsclError:
                self._core.plan.release(operator)
                raise
            self._adopted[name] = operator
            self._schemas[name] = schema

    def _release(self) -> None:
        """Release the event streams that no query reads."""
        queries = map(self._core.query, self._core.queries)
        read = {name for query in queries for name in query.compiled.reads}
        for name in self._adopted.keys() - read:
            self._core.disown(name)
            self._core.plan.release(self._adopted.pop(name))
            del self._schemas[name]

    # -- Results ---------------------------------------------------------------------------

    def found(self) -> Iterator[tuple[int, Composite]]:
        """Yield (qid, composite) for each result row since the last call.

        `qid` identifies the result stream of the query.
        """
        for name, row in self._core.rows():
            if name not in self.muted:
                yield self.qids[name], composite_of_row(row)


def composite_of_row(row: Row) -> Composite:
    """Return the composite event of a result row: its values as text, and its interval."""
    values = tuple(map(_text, row[VALUES:]))
    return Composite((), (), values, row[0], row[1], EARLIEST, 0, row[2], 1, (row[2],))


@contextmanager
def translated() -> Iterator[None]:
    """Convert errors of `cep_core` to those of xscl, with their positions and hints."""
    try:
        yield
    except cep_core.QueryError as error:
        place, hint = (error.line, error.column), error.hint
        if isinstance(error, cep_core.UnknownStream):
            hint = _UNREAD.format(error.source[slice(*error.span)])
        raise QueryError(error.message, error.source, *place, hint) from None
    except CepError as error:
        raise _ERRORS.get(type(error), XsclError)(error.message, hint=error.hint) from None


_ERRORS: Mapping[type[CepError], type[XsclError]] = {
    cep_core.NameTaken: NameTaken,
    cep_core.StreamInUse: StreamInUse,
}


def _text(value: Any) -> str | None:
    """Return a value as the text of a leaf; None for a null, which has no leaf."""
    if isinstance(value, tuple):  # several values of a run, such as EQL's ALL
        return f"[{', '.join(map(_as_json, value))}]"
    return text_of(value)


def _as_json(value: Any) -> str:
    """Return a value as JSON.

    Numbers are written as by `text_of`, NaN and infinities as null.
    """
    if isinstance(value, float | BoundedDecimal):
        return (math.isfinite(value) and text_of(value)) or "null"
    return json.dumps(value, ensure_ascii=False)
