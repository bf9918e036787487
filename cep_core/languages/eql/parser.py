"""The text of an EQL query as a pattern with conditions; the grammar is that of `eql`.

While a condition is read, Column(2, n) is reference n; what SELECT lists is read when the pattern
is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cep_core.algebra.expressions import (
    And,
    Column,
    Expression,
    Function,
    require_condition,
    type_of,
    walk,
)
from cep_core.algebra.patterns import conjuncts_of
from cep_core.errors import AlgebraError, Span
from cep_core.events import Schema
from cep_core.languages.cel.cel import Catalog, known_schema
from cep_core.languages.eql.keyword_clauses import Apart, contains, is_pair, time_constraint
from cep_core.languages.eql.placement import Qualification, lifted, placed
from cep_core.languages.formula import formula
from cep_core.languages.names import unknown
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.sase.components import TIMES
from cep_core.languages.sase.scope import INDEXES
from cep_core.languages.tokens import Token, lexis
from cep_core.rewrite.pattern import (
    After,
    Condition,
    Either,
    Except,
    Next,
    Pattern,
    Plus,
    Ref,
    Source,
    aliases_of,
    iterated,
    parts_of,
    sources_of,
)

KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "FILTER", "AS", "PUBLISH", "OCCURS", "WITHIN", "PREV", "ALL"),
    *("CONTAINS", "AND", "OR", "NOT", "TRUE", "FALSE", "NULL"),
)
LEXIS = lexis(".|\\@?![]", rf"{INDEXES}|{TIMES}")
_BINARY = (("|", Either), ("\\", Except), (";", Next))  # the loosest first
_ENDS = "the end of the query, ; | \\ + @ WHERE or PUBLISH"


class Selected(NamedTuple):
    """An item of SELECT: its name, and the expression over references."""

    name: str
    condition: Condition
    span: Span


@dataclass(frozen=True, slots=True)
class EventQuery:
    """A query as it is written: what is selected of which pattern; None selects everything."""

    selection: tuple[Selected, ...] | None
    pattern: Pattern
    publishes: str | None
    reads: tuple[str, ...]
    schemas: Mapping[str, Schema]


@dataclass(slots=True)
class Parser:
    reader: TokenReader
    catalog: Catalog
    functions: Mapping[str, Function]
    schemas: dict[str, Schema] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)
    refs: dict[Ref, int] = field(default_factory=dict)
    streams: dict[str, str] = field(default_factory=dict)  # by alias

    def whole(self, items: list[TokenReader]) -> EventQuery:
        """Read the text from behind FROM; ``items`` are what SELECT lists."""
        reader = self.reader
        pattern = self._pattern()
        found: list[Qualification] = []
        for source in sources_of(pattern):
            self.streams[source.alias] = source.stream
        if not (reader.is_word("WHERE", "PUBLISH") or reader.token.kind == "end"):
            raise reader.expected(_ENDS, _alias_hint(reader))
        self._require_distinct(pattern)
        if reader.take_word("WHERE"):
            found = self._qualifications(pattern)
        publishes = reader.publication(self.reads)
        reader.expect_end("the end of the query")
        selection = self._selection(items, pattern)
        found.sort(key=lambda one: not one.is_filter)  # filters before tests
        whole = placed(lifted(pattern), found)
        return EventQuery(selection, whole, publishes, tuple(self.reads), self.schemas)

    # -- SELECT ----------------------------------------------------------------------------

    def _selection(self, items: list[TokenReader], pattern: Pattern) -> tuple[Selected, ...] | None:
        if len(items) == 1 and items[0].take_sign("*"):
            items[0].expect_end("FROM")
            return None
        known = aliases_of(pattern)
        return tuple(self._item(item, known) for item in items)

    def _item(self, item: TokenReader, known: frozenset[str]) -> Selected:
        start = item.token
        if item.is_sign("*"):
            raise item.expected("an attribute (* stands alone)")
        expression = formula(item, self, lambda reader: self._own(reader, None))
        read = {self._ref(part) for part in walk(expression) if isinstance(part, Column)}
        for ref in read:
            if ref.kind == "prev":
                message = "PREV belongs into conditions"
                raise AlgebraError(message, hint="select id.f or ALL(id.f)", span=start.span)
            if ref.kind == "all" and not isinstance(expression, Column):
                raise AlgebraError("ALL(id.f) is selected as it is", span=start.span)
            if ref.alias not in known:
                raise AlgebraError(
                    f"{ref.alias} only ends the detection: it is no part of the result",
                    span=start.span,
                )
        default = None
        if isinstance(expression, Column):
            ref = self._ref(expression)
            default = f"{ref.alias}_{ref.attribute}" if len(self.streams) > 1 else ref.attribute
        name = item.result_name(default)
        span = item.consumed
        item.expect_end("a comma or FROM")
        type_of(expression, self._types(), self.functions)
        return Selected(name, Condition(expression, tuple(self.refs)), span)

    # -- FROM ------------------------------------------------------------------------------

    def _pattern(self, level: int = 0) -> Pattern:
        """Read operators that bind at least as tightly as those of a level."""
        if level == len(_BINARY):
            return self._postfix()
        sign, operator = _BINARY[level]
        pattern = self._pattern(level + 1)
        while self.reader.is_sign(sign):
            span = self._operator().span
            pattern = operator(pattern, self._pattern(level + 1), span=span)
        return pattern

    def _postfix(self) -> Pattern:
        reader = self.reader
        pattern = self._operand()
        while reader.is_sign("+", "@"):
            sign = self._operator()
            if sign.text == "@":
                zero = "leave @ out for the moment itself"
                time = parameter(reader.duration("5 min", zero=zero))
                pattern = After(pattern, time, span=sign.span)
            elif iterated(pattern):
                hint = "write one of them as {1,}"
                message = "an iteration cannot be inside an iteration"
                raise AlgebraError(message, hint=hint, span=sign.span)
            else:
                pattern = Plus(pattern, span=sign.span)
        return pattern

    def _operand(self) -> Pattern:
        reader = self.reader
        if reader.take_sign("("):
            reader.deeper()
            pattern = self._pattern()
            if not reader.is_sign(")"):
                raise reader.expected("')' or ; | \\ + @", _alias_hint(reader))
            reader.next()
            return pattern
        instants = reader.calendar()
        if instants is not None:
            name = reader.expect_name("an alias of the calendar")
            start, stream, schema = name.start, instants.name, instants.schema
        else:
            known = reader.token.kind == "name" and self.catalog.schema(reader.token.text)
            token = reader.next() if known else reader.expect_name("a stream or '('")
            start, stream = token.start, token.text
            schema = known_schema(self.catalog, "stream", stream, token.span)
            name = reader.next() if reader.is_name() else token
        self.reads[stream] = None
        self.schemas[stream] = schema
        self.streams[name.text] = stream
        return Source(stream, name.text, span=Span(start, name.end))

    def _operator(self) -> Token:
        self.reader.deeper()
        return self.reader.next()

    def _require_distinct(self, pattern: Pattern) -> None:
        """Raise AlgebraError if an alias is there twice, unless in alternatives that are alike."""
        known: dict[str, str] = {}
        parts = parts_of(pattern)
        for number, part in enumerate(parts):
            for source in sources_of(part):
                schema = self.schemas[source.stream]
                other = known.get(source.alias)
                alike = isinstance(pattern, Either) and other is not None
                if other is not None and not (alike and schema == self.schemas[other]):
                    hint = f"give each its own alias: {source.stream} {source.alias}{number + 1}"
                    if alike:
                        hint = "alternatives of one alias have the same attributes"
                    message = f"there are two {source.alias} in the pattern"
                    raise AlgebraError(message, hint=hint, span=source.span)
            known |= {source.alias: source.stream for source in sources_of(part)}
        for part in parts:
            self._require_distinct(part)

    # -- WHERE -----------------------------------------------------------------------------

    def _qualifications(self, pattern: Pattern) -> list[Qualification]:
        reader = self.reader
        found: list[Qualification] = []
        while True:
            is_filter = reader.take_word("FILTER")
            if is_filter:
                reader.expect_sign("(", " after FILTER")
                reader.deeper()
            condition = self._condition(pattern)
            if is_filter:
                reader.expect_sign(")")
            refs = tuple(self.refs)
            conjuncts = conjuncts_of(condition)
            found += [Qualification(Condition(one, refs), is_filter) for one in conjuncts]
            if not reader.take_sign(","):
                break
        if not (reader.is_word("PUBLISH") or reader.is_sign(";") or reader.token.kind == "end"):
            raise reader.expected("a comma, AND, OR, PUBLISH or the end of the query")
        return found

    def _condition(self, pattern: Pattern) -> Expression:
        found = formula(self.reader, self, lambda reader: self._own(reader, pattern))
        require_condition(found, self._types(), self.functions)
        return found

    def _own(self, reader: TokenReader, pattern: Pattern | None) -> Expression | None:
        """Read what only EQL has: fields of an id, aggregate fields, time constraints."""
        token, *after = reader.tokens[reader.at : reader.at + 3]
        signs = [one.text for one in after]
        if is_pair(reader):
            return self._time_constraint(reader, pattern)
        if token.word in ("PREV", "ALL") and signs[:1] == ["("]:
            return contains(reader, self._aggregate(reader))
        if token.kind == "name" and signs[:1] == ["."]:
            return contains(reader, self._field(reader))
        known = token.kind == "name" and token.word not in KEYWORDS and signs[:1] != ["("]
        if known and after and after[0].word == "CONTAINS":
            reader.next()
            return contains(reader, self.resolve(None, token.text, token.span))
        return None

    def _aggregate(self, reader: TokenReader) -> Expression:
        """Read PREV(id.f) or ALL(id.f)."""
        word = reader.next()
        reader.expect_sign("(")
        place = self._field(reader)
        end = reader.expect_sign(")")
        ref = self._ref(place)._replace(kind="prev" if word.word == "PREV" else "all")
        return self._column(ref, Span(word.start, end.end))

    def _field(self, reader: TokenReader) -> Column:
        """Read id.f."""
        name = reader.expect_name("an id and its attribute, id.f,")
        self._require_alias(name)
        reader.expect_sign(".", f" and an attribute of {name.text}")
        attribute = reader.token
        if attribute.kind != "name":
            raise reader.expected(f"an attribute of {name.text}")
        reader.next()
        attribute = reader.nested(attribute)
        span = Span(name.start, attribute.end)
        return self._attribute(name.text, attribute.text, span)

    def _attribute(self, alias: str, name: str, span: Span) -> Column:
        schema = self.schemas[self.streams[alias]]
        if name not in schema.names:
            raise unknown(name, schema.names, span, f"{alias} has no attribute {name}")
        kind = schema.types[schema.names.index(name)]
        return self._column(Ref("field", alias, name, kind), span)

    def resolve(self, decorator: str | None, name: str, span: Span) -> Expression:
        """Return the attribute of an unqualified name.

        Raises AlgebraError unless exactly one stream has an attribute of that name.
        """
        if decorator is not None:
            message = "EQL has no decorators: write id.f"
            raise AlgebraError(message, hint=f"ids are {', '.join(self.streams)}", span=span)
        having = [
            alias for alias, stream in self.streams.items() if name in self.schemas[stream].names
        ]
        if len(having) == 1:
            return self._attribute(having[0], name, span)
        if having:
            hint = "write " + " or ".join(f"{alias}.{name}" for alias in having[:3])
            raise AlgebraError(f"several streams have an attribute {name}", hint=hint, span=span)
        names = {one for stream in self.streams.values() for one in self.schemas[stream].names}
        error = unknown(name, sorted(names), span)
        if name in self.streams:
            error.hint = f"write {name}.f for one of its attributes"
        raise error

    def _time_constraint(self, reader: TokenReader, pattern: Pattern | None) -> Expression:
        """Read (id, id) OCCURS WITHIN duration."""
        first, second, apart = time_constraint(
            reader, lambda: self._id(reader), pattern is not None
        )
        assert pattern is not None
        pairs = [(first, second), (second, first)]
        if first == second or _is_before(pattern, first, second):
            pairs = pairs[:1]
        elif _is_before(pattern, second, first):
            pairs = pairs[1:]
        parts = [self._apart(begin, end, apart) for begin, end in pairs]
        return parts[0] if len(parts) == 1 else And(tuple(parts), span=apart.span)

    def _apart(self, begin: str, end: str, apart: Apart) -> Expression:
        return apart.holds(
            self._column(Ref("end", end), apart.span), self._column(Ref("begin", begin), apart.span)
        )

    def _id(self, reader: TokenReader) -> str:
        self._require_alias(reader.token)
        return reader.next().text

    def _require_alias(self, token: Token) -> None:
        """Raise AlgebraError if no stream of the pattern has a name."""
        if token.text not in self.streams:
            message = f"there is no {token.text} in the pattern"
            raise unknown(token.text, self.streams, token.span, message)

    # -- pieces ----------------------------------------------------------------------------

    def _column(self, ref: Ref, span: Span) -> Column:
        """Return the placeholder of a reference whose column is not known yet."""
        return Column(2, self.refs.setdefault(ref, len(self.refs)), span=span)

    def _ref(self, column: Expression) -> Ref:
        assert isinstance(column, Column)
        return list(self.refs)[column.index]

    def _types(self) -> dict[int, tuple[type, ...]]:
        return {2: tuple(ref.of for ref in self.refs)}


def _alias_hint(reader: TokenReader) -> str | None:
    if reader.is_word("AS"):
        return "an alias stands right after its stream: t A"
    word = reader.token.text
    reserved = reader.token.word in KEYWORDS
    return f"{word} is a word of the language: an alias needs another name" if reserved else None


def _is_before(pattern: Pattern, first: str, second: str) -> bool:
    """Return True if an event of one alias ends before one of another begins."""
    if isinstance(pattern, Next):
        left, right = aliases_of(pattern.left), aliases_of(pattern.right)
        if first in left and second in right:
            return True
    return any(_is_before(part, first, second) for part in parts_of(pattern))
