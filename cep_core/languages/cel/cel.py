"""CEL, Cayuga's event language (Hong 2009, section 4.2.2), with windows, joins and instants.

    query   := [SELECT items] FROM stream [GROUP BY names] [WINDOW w | AT INSTANT] [PUBLISH name]
    stream  := operand { NEXT [{p}] operand | FOLD{p, q, aggregates} operand
                       | JOIN{p, w} operand | UNION operand }          left to right
    operand := name | AT 'cron expression' [ZONE 'zone'] | FILTER{p} operand
             | ( stream ) | ( query )

What is inside braces is read after the second operand, whose attributes it may name; so parsing,
resolving names and building the algebra are one pass.  Literals become parameters: the result
serves all queries of the same shape (`cep_core.languages.tokens`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from cep_core import algebra
from cep_core.algebra import AGGREGATES, Aggregate, Node
from cep_core.algebra.constructors import iterated_schema, schema_of
from cep_core.algebra.expressions import TRUE, Column, Expression, Functions, type_of, with_literals
from cep_core.errors import AlgebraError, Extent, QueryError, SchemaFault
from cep_core.events import Schema
from cep_core.languages.formula import NameScope, Own, arguments, formula
from cep_core.languages.names import (
    AlgebraQuery,
    ResultItem,
    StreamCatalog,
    known_schema,
    repeated,
    unknown,
)
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.tokens import LanguageToken, lexis

_OPERATORS = ("NEXT", "FOLD", "JOIN", "UNION")
_ENDS = ("GROUP", "WINDOW", "AT", "PUBLISH")
_AFTER_A_STREAM = "the end of the query, NEXT, FOLD, JOIN, UNION or PUBLISH"
_NOT_HERE = "compute it in a sub-query: (SELECT ... FROM ... WINDOW 5 s)"
LEXIS = lexis(".")
KEYWORDS = (*_OPERATORS, *_ENDS, "SELECT", "FROM", "FILTER", "AS", "BY", "INSTANT")


def read(reader: TokenReader, catalog: StreamCatalog, functions: Functions) -> AlgebraQuery:
    """Parse a query into algebra; raises QueryError or AlgebraError."""
    return _Parser(reader, catalog, functions).whole()


@dataclass(slots=True)
class _Parser:
    reader: TokenReader
    catalog: StreamCatalog
    functions: Functions
    inner: dict[str, Node] = field(default_factory=dict)
    reads: dict[str, None] = field(default_factory=dict)

    def whole(self) -> AlgebraQuery:
        """Parse the text as one query; raises QueryError if more follows it."""
        if not self.reader.is_word("SELECT", "FROM"):
            raise self.reader.expected("SELECT or FROM")
        node, publishes = self._query()
        self.reader.take_sign(";")
        if self.reader.is_word("WHERE", "WITHIN", "FILTER"):
            hint = "conditions stand before a stream, FILTER{v > 1} s, or between two, NEXT{n = 1}"
            raise self.reader.expected(_AFTER_A_STREAM, hint)
        self.reader.expect_end(_AFTER_A_STREAM)
        return AlgebraQuery(node, publishes, self.inner, tuple(self.reads))

    # -- queries ---------------------------------------------------------------------------

    def _query(self) -> tuple[Node, str | None]:
        """Parse a query; return its node and the name of the stream that it publishes, if any.

        The items of SELECT are parsed last, when the schema of the stream is known.
        """
        reader = self.reader
        start = reader.token.span
        items = reader.parts("FROM") if reader.take_word("SELECT") else []
        reader.expect_word("FROM")
        source = self._stream()
        groups = self._groups(source.schema)
        node = self._selected(source, items, groups, start)
        return node, reader.publication()

    def _groups(self, schema: Schema) -> list[LanguageToken] | None:
        """Parse GROUP BY; return the tokens of its attributes, None without GROUP BY."""
        reader = self.reader
        if not reader.take_word("GROUP"):
            return None
        reader.expect_word("BY")
        return reader.listed(lambda: reader.expect_attribute(schema.names))

    def _selected(
        self,
        source: Node,
        items: list[TokenReader],
        groups: list[LanguageToken] | None,
        span: Extent,
    ) -> Node:
        reader = self.reader
        if reader.take_word("WINDOW"):
            window = reader.duration("5 s", zero="AT INSTANT aggregates rows that end together")
            return self._aggregated(source, items, groups or [], parameter(window), span)
        if reader.take_word("AT"):
            reader.expect_word("INSTANT")
            return self._aggregated(source, items, groups or [], None, span)
        if groups is not None:
            raise reader.expected("WINDOW or AT INSTANT (GROUP BY needs one)")
        return self._projected(source, items)

    def _projected(self, source: Node, items: list[TokenReader]) -> Node:
        if not items:
            return source
        scope = OneStream(source.schema, decorated=False)
        everything = [(name, Column(2, place)) for place, name in enumerate(source.schema.names)]
        columns: list[ResultItem] = []
        for item in items:
            if item.take_sign("*"):
                item.expect_end("a comma or FROM")
                columns += [ResultItem(name, column, item.consumed) for name, column in everything]
            else:
                columns.append(self._item(item, scope))
        made = [(one.name, one.expression) for one in columns]
        if made == everything:
            return source
        return algebra.project(source, made, self.functions, repeated(columns))

    def _item(self, item: TokenReader, scope: NameScope, calls: Calls | None = None) -> ResultItem:
        """Parse `expression [AS name]`; ``calls`` reads its aggregates, None: it may have none."""
        first = item.token
        if calls is not None and item.is_sign("*"):
            raise item.expected("an aggregate or an attribute of GROUP BY")
        expression = formula(item, scope, calls.read if calls else refused(self.functions))
        default = first.text if item.at == 1 and first.kind == "name" else None
        if calls is not None and item.at > 1 and isinstance(expression, Column):
            inside = [token.text for token in item.tokens[2 : item.at - 1] if token.kind == "name"]
            default = "_".join([first.word, *inside]) if first.kind == "name" else None
        name = item.result_name(default)
        item.expect_end("a comma or FROM")
        return ResultItem(name, expression, item.consumed)

    def _aggregated(
        self,
        source: Node,
        items: list[TokenReader],
        groups: list[LanguageToken],
        window: Expression | None,
        span: Extent,
    ) -> Node:
        scope = OneStream(source.schema, decorated=False)
        group_by = tuple(scope.resolve(None, group.text, group.span).index for group in groups)
        nested = refused(self.functions, _NOT_HERE, "{} cannot be inside another aggregate")
        calls = Calls(scope, len(group_by), nested)
        grouped = GroupedColumns(source.schema, group_by)
        columns = [self._item(item, grouped, calls) for item in items]
        found = [(f"{one.function}#{place}", one) for place, one in enumerate(calls.found)]
        if not found:
            raise AlgebraError("WINDOW and AT INSTANT need an aggregate in SELECT", span=span)
        node = algebra.group_aggregate(source, group_by, found, window, self.functions, span)
        return self._renamed(node, columns)

    def _renamed(self, node: Node, columns: list[ResultItem]) -> Node:
        """Return an aggregation whose attributes are the items of SELECT.

        It has a projection above it only if the items are not its own columns in order.
        """
        in_place = [Column(2, place) for place in range(len(node.schema))]
        if [column.expression for column in columns] != in_place:
            made = [(column.name, column.expression) for column in columns]
            return algebra.project(node, made, self.functions, repeated(columns))
        names = [column.name for column in columns]
        return replace(node, schema=schema_of(names, node.schema.types, repeated(columns)))

    # -- streams ---------------------------------------------------------------------------

    def _stream(self) -> Node:
        reader = self.reader
        node = self._operand()
        while reader.is_word(*_OPERATORS):
            operator = reader.next()
            reader.deeper()
            bare = not reader.is_sign("{") if operator.word == "NEXT" else operator.word == "UNION"
            braces = [] if bare else self._braces()
            node = self._combined(node, operator, braces, self._operand())
        return node

    def _combined(
        self, left: Node, operator: LanguageToken, braces: list[TokenReader], right: Node
    ) -> Node:
        """Return an operator over two streams; the parts in its braces are read now."""
        scope, span = TwoStreams(left.schema, right.schema), operator.span
        match operator.word:
            case "UNION":
                return algebra.union(left, right, span)
            case "NEXT" if not braces:
                return algebra.sequence(left, right, TRUE, self.functions, span)
            case "NEXT":
                (part,) = self._exactly(braces, 1, "NEXT{predicate}")
                predicate = self._predicate(part, scope)
                return algebra.sequence(left, right, predicate, self.functions, span)
            case "JOIN":
                part, window = self._exactly(braces, 2, "JOIN{predicate, window}")
                predicate = self._predicate(part, scope)
                time = parameter(window.duration("5 s", what="a window"))
                window.expect_end("'}'")
                return algebra.window_join(left, right, predicate, time, self.functions, span)
            case _:
                return self._fold(left, braces, right, span)

    def _operand(self) -> Node:
        reader = self.reader
        if reader.take_word("FILTER"):
            return self._filter()
        if reader.take_sign("("):
            reader.deeper()
            node = self._parenthesised()
            reader.expect_sign(")")
            return node
        instants = reader.calendar()
        if instants is not None:
            self.reads[instants.name] = None
            return instants
        hint = "a sub-query stands in parentheses" if reader.is_word("SELECT") else None
        token = reader.expect_name("a stream, FILTER or '('", hint)
        schema = known_schema(self.catalog, "stream", token.text, token.span)
        self.reads[token.text] = None
        return algebra.stream(token.text, schema)

    def _parenthesised(self) -> Node:
        if not self.reader.is_word("SELECT", "FROM"):
            return self._stream()
        node, publishes = self._query()
        if publishes is not None:
            self.inner[publishes] = node
        return node

    def _filter(self) -> Node:
        reader = self.reader
        braces = self._braces()
        reader.deeper()
        source = self._operand()
        (part,) = self._exactly(braces, 1, "FILTER{predicate}")
        predicate = self._predicate(part, OneStream(source.schema))
        return algebra.select(source, predicate, self.functions)

    def _fold(self, left: Node, braces: list[TokenReader], right: Node, span: Extent) -> Node:
        if len(braces) < 2:
            form = "FOLD{which event is next, how long it goes on, aggregates}"
            raise self.reader.fault("FOLD has at least two parts", span, hint=form)
        parts = [part for part in braces[2:] if part.token.kind != "end"]
        tokens = [_given_name(part, self.reader.text) for part in parts]
        for token in tokens:
            if token.text in right.schema.names:
                raise AlgebraError(
                    f"the second stream has an attribute {token.text}, too",
                    hint="give the aggregate another name",
                    span=token.span,
                    kind=SchemaFault,
                )
        names = tuple(token.text for token in tokens)
        iterated_schema(left.schema, right.schema, names, [float] * len(names), span)
        scope = TwoStreams(left.schema, right.schema, names)
        expressions = [self._aggregate_of(part, scope) for part in parts]
        kinds = [kind or float for kind in self._kinds(scope, expressions)]
        wanted, going = (self._predicate(part, scope) for part in braces[:2])
        aggregates = list(zip(names, expressions, kinds, strict=True))
        return algebra.iterate(left, right, wanted, going, aggregates, self.functions, span)

    def _kinds(self, scope: TwoStreams, expressions: list[Expression]) -> list[type | None]:
        """Return the types of a FOLD's aggregates, in the order of ``expressions``.

        None is the type of an aggregate that is always null.  An expression may read each
        aggregate's value before, so the types are computed in rounds.
        """
        left, right, names = scope.first, scope.second, scope.aggregates or ()
        begun = [left.types[left.names.index(n)] if n in left.names else None for n in names]
        kinds: list[type | None] = [*begun]
        # an initial null gets the type of the values after it, once that is known
        for _ in expressions:
            types = {1: (*left.types, *right.types, *kinds), 2: right.types}
            settled = [with_literals(one, types, self.functions) for one in expressions]
            found = [type_of(one, types, self.functions) for one in settled]
            before, kinds = kinds, [kind or made for kind, made in zip(begun, found, strict=True)]
            if kinds == before:
                break
        return kinds

    def _aggregate_of(self, part: TokenReader, scope: TwoStreams) -> Expression:
        expression = formula(part, scope, refused(self.functions, _NOT_HERE))
        part.expect_word("AS", "AS name")
        part.expect_name("a name")
        part.expect_end("a comma or '}'")
        return expression

    # -- predicates and braces -------------------------------------------------------------

    def _predicate(self, part: TokenReader, scope: NameScope) -> Expression:
        if part.token.kind == "end":
            return TRUE
        predicate = formula(part, scope, refused(self.functions, _NOT_HERE))
        part.expect_end("AND, OR, a comma or '}'")
        return predicate

    def _braces(self) -> list[TokenReader]:
        """Skip braces; return their parts, to be parsed later."""
        self.reader.expect_sign("{")
        parts = self.reader.parts("}")
        self.reader.expect_sign("}")
        return parts

    def _exactly(self, parts: list[TokenReader], count: int, form: str) -> list[TokenReader]:
        if len(parts) != count:
            token = parts[min(len(parts), count + 1) - 1].tokens[-1]
            raise self.reader.fault(
                f"{form} has {count} part{'s' * (count != 1)}, not {len(parts)}", token.span
            )
        return parts


def _given_name(part: TokenReader, text: str) -> LanguageToken:
    """Return the token of the name in `expression AS name`; raises QueryError if there is none."""
    if len(part.tokens) < 4 or part.tokens[-3].word != "AS":
        last = part.tokens[-1]
        raise QueryError("an aggregate of FOLD ends with AS and a name", text, last.span)
    return part.tokens[-2]


# -- aggregates ----------------------------------------------------------------------------


def refused(
    functions: Functions,
    hint: str = "add WINDOW and a duration, or AT INSTANT, after the stream",
    message: str = "{} needs to know over which events",
) -> Own:
    """Return a reader that refuses aggregates, for predicates and SELECT without a window.

    It raises AlgebraError at an aggregate, unless the user's functions have its name.  ``message``
    has the aggregate's name in place of `{}`.
    """

    def refuse(reader: TokenReader) -> None:
        name = reader.token
        if _is_called(reader) and name.text not in functions:
            raise AlgebraError(message.format(name.word), hint=hint, span=name.span)

    return refuse


@dataclass(slots=True)
class Calls:
    """The aggregates of a SELECT, each once; they come after the grouped columns.

    ``groups`` is the number of grouped columns, ``inside`` the scope of the aggregates' arguments.
    """

    inside: OneStream
    groups: int
    nested: Own | None = None  # refuses an aggregate inside an aggregate
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
    """Return True if the name of an aggregate and a parenthesis are next."""
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


# -- names ---------------------------------------------------------------------------------

# `$1.x` is an attribute of the first stream, `$2.x` of the second, `$.x` of the last iteration
# (Hong 2009, section 4.2.2).  A decorator may be left out where only one stream has the name.


@dataclass(frozen=True, slots=True)
class OneStream:
    """The scope of an expression over one stream, as in FILTER and SELECT.

    Only if ``decorated`` a name may be written `$1.name`.
    """

    schema: Schema
    decorated: bool = True

    def resolve(self, decorator: str | None, name: str, span: Extent) -> Column:
        """Return the column of an attribute; raise AlgebraError if the name has none."""
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

    An instance of FOLD has, behind the first row, attributes of the last iteration and aggregates.
    """

    first: Schema
    second: Schema
    aggregates: tuple[str, ...] | None = None

    def resolve(self, decorator: str | None, name: str, span: Extent) -> Expression:
        """Return the column of an attribute of the first (`$1.`) or second stream or of the FOLD.

        ``decorator`` is "1", "2" or, for the last iteration, ""; None: an undecorated name.  Raises
        AlgebraError unless there is exactly one such attribute.
        """
        own, aggregates = (self.first.names, self.second.names), self.aggregates or ()
        if decorator == "" and self.aggregates is None:
            message = "$. names the last iteration of a FOLD; here there are $1. and $2."
            raise AlgebraError(message, span=span)
        # without a decorator an exact name is preferred to one that has got the suffix _1
        exact = decorator is None and name in (*own[0], *own[1])
        first, second = _place(self.first, name, exact), _place(self.second, name, exact)
        if decorator is None and name in aggregates:
            decorator = ""
        if decorator is None and first is not None and second is not None:
            last = () if self.aggregates is None else (f"$.{name}",)
            ways = " or ".join((f"$1.{name}", f"$2.{name}", *last))
            message = f"both streams have an attribute {name}"
            raise AlgebraError(message, hint=f"write {ways}", span=span)
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
    """The scope beside aggregates: grouped attributes only, as columns of the output."""

    schema: Schema
    group_by: tuple[int, ...]

    def resolve(self, decorator: str | None, name: str, span: Extent) -> Expression:
        """Return the output column of a grouped attribute; raise AlgebraError for other names."""
        column = OneStream(self.schema, decorated=False).resolve(decorator, name, span)
        if column.index not in self.group_by:
            message = f"{name} is neither grouped nor inside an aggregate"
            raise AlgebraError(message, hint=f"add GROUP BY {name}", span=span)
        return Column(2, self.group_by.index(column.index), span=span)


def _place(schema: Schema, name: str, exact: bool = False) -> int | None:
    """Return the position of a name in a schema, None without it.

    Where renaming has added "_1" because another name collides, the plain name still finds its
    attribute if there is no other: Example 9 of Cayuga selects MaxPrice, which is MaxPrice_1.
    ``exact`` excludes that.
    """
    for candidate in (name,) if exact else (name, f"{name}_1"):
        if candidate in schema.names:
            return schema.names.index(candidate)
    return None
