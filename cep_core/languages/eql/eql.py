r"""EQL, the event query language of NEXT CEP, over patterns.

Schultz-Møller, Migliavacca and Pietzuch, *Distributed Complex Event Processing with Query
Rewriting*, 2009, section 3.5.

    query     := SELECT selection FROM pattern [NONSTRICT] [WHERE qualification {, qualification}]
                 [WITHIN [<=] duration] [AFTER MATCH policy] [PUBLISH name]
    selection := * | item {, item}       item := expression [AS name] | ALL(id.f) [AS name]
    pattern   := exception { | exception }                        alternatives
    exception := sequence { \ event }                             an event that is absent
    sequence  := item { ; item }
    item      := [mark] operand [UNTIL types [alias]] | [mark] ( pattern ) [times manner]
               | ( operand AND operand { AND operand } [WITHIN duration] ) | EVERY item
               | ! types [alias] [FOR duration] | item @ duration
    event     := operand | ( pattern )
    operand   := types [alias] [times manner] | AT 'cron expression' [ZONE 'zone'] alias
    qualification := FILTER(condition) | condition
    atom      := expression op expression | field CONTAINS string
               | (id, id) OCCURS WITHIN duration
    field     := id.f | PREV(id.f) | ALL(id.f)     f alone if one stream has f

Types, times, manners, marks and policies are those of SASE, and so are values of runs: `A[1].f`,
`COUNT(A[])`, `time(A)`, `[f]`.  `op` is one of = <> < <= > >=.  What a pattern matches is defined
in docs/internals/patterns.md; EQL says of it:

- A step without a mark is `next`: the first event that it could take.
- FILTER(p) says which events are taken.  p alone ends the match with the event that fails it, as a
  test of the `PatternMatch`.
- In a condition on a run alone, A.f is each of its events; beside others and in SELECT it is the
  last one.  PREV(A.f) is the event before, ALL(A.f) all of a run.
- `p \ z` is !z in front of the last part of p; of a run alone z interrupts it, as UNTIL does; of a
  moment z comes in time to prevent it.
- x@t is a moment t after x, with the attributes of x: it begins when it ends.
- Alternatives with the same attributes may share an alias: (visa t | master t).

The precedence of the operators, from + and @ down to |, and the lists of SELECT are ours; the paper
has parentheses, * and the time operator of its core language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cep_core.algebra import Part, Role
from cep_core.algebra import expressions as ex
from cep_core.algebra.operands import with_operands
from cep_core.algebra.pattern_tree import Unordered, trees_in
from cep_core.algebra.patterns import conjunction, conjuncts_of
from cep_core.errors import AlgebraError, Extent
from cep_core.languages.eql.operands import OperandReader
from cep_core.languages.eql.scopes import Scopes
from cep_core.languages.formula import formula
from cep_core.languages.names import AlgebraQuery, ResultItem, StreamCatalog, unknown
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.sase.components import TIMES, ReadPattern
from cep_core.languages.sase.lowering import clauses, require_partition
from cep_core.languages.sase.scope import INDEXES, PatternVariable, ValueReader, Variables
from cep_core.languages.tokens import LanguageToken, lexis

KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "FILTER", "AS", "PUBLISH", "OCCURS", "WITHIN", "PREV", "ALL"),
    *("CONTAINS", "AND", "OR", "NOT", "TRUE", "FALSE", "NULL"),
)
LEXIS = lexis(".|\\@?![]", rf"{INDEXES}|{TIMES}")
_ENDS = "; | \\ @ AND, a quantifier, a clause or the end"
_CLAUSES = "a comma, WITHIN, AFTER MATCH, PUBLISH in this order or the end"


def read(reader: TokenReader, catalog: StreamCatalog, functions: ex.Functions) -> AlgebraQuery:
    """Return a query as algebra; raises QueryError or AlgebraError."""
    reader.expect_word("SELECT")
    if reader.tokens[-2].text == ";":  # ends the query, and is no operator
        reader.tokens = (*reader.tokens[:-2], reader.tokens[-1])
    items = reader.parts("FROM")
    reader.expect_word("FROM")
    span = reader.token.span
    operands = OperandReader(reader, catalog, functions, {})
    pattern = operands.pattern()
    variables = Variables(pattern.variables)
    values = ValueReader(variables, functions)
    query = _Query(reader, functions, pattern, variables, values, span)
    return query.read(items, operands)


@dataclass(slots=True)
class _Query:
    reader: TokenReader
    functions: ex.Functions
    pattern: ReadPattern
    variables: Variables
    values: ValueReader
    span: Extent
    # Attributes of runs; number n is column -1 - n while a condition is read.  Only the whole
    # condition says which attribute is meant: of each event of the run, of the last one or of all.
    open: list[Part] = field(default_factory=list)

    def read(self, items: Sequence[TokenReader], operands: OperandReader) -> AlgebraQuery:
        """Read the clauses behind the pattern, then the items of SELECT; return the query."""
        reader = self.reader
        simultaneous = reader.take_word("NONSTRICT")
        if reader.token.kind != "end" and not reader.is_word("WHERE", "WITHIN", "AFTER", "PUBLISH"):
            raise reader.expected(_ENDS, self._alias_hint())
        filters, tests = self._qualifications()
        rules = replace(
            clauses(reader, self.variables),
            simultaneous=simultaneous,
            mark="next",
            spans=self.pattern.spans,
        )
        publishes = reader.publication()
        reader.expect_end(_CLAUSES)
        partition = self.values.tested_by_all(conjunction((*filters, *tests)))
        require_partition(self.pattern, partition, self.span)
        scopes = Scopes(
            *(self.variables, self.functions, self.pattern, filters, tests),
            *(self._selection(items), self.span, partition, rules),
        )
        node = scopes.lowered(operands.in_order())
        return AlgebraQuery(node, publishes, {}, tuple(operands.reads))

    def _alias_hint(self) -> str | None:
        token = self.reader.token
        if token.word == "AS":
            return "an alias stands right after its stream: t A"
        if token.word in KEYWORDS:
            return f"{token.text} is a word of the language: an alias needs another name"
        named = token.kind == "name"
        return "an alias stands right behind its stream: t A{2}" if named else None

    def _named(self) -> list[PatternVariable]:
        """Return the components that have names, without groups and merged alternatives."""
        return [one for one in self.variables.all if one.name.isidentifier()]

    # -- SELECT ----------------------------------------------------------------------------

    def _selection(self, items: Sequence[TokenReader]) -> list[ResultItem]:
        if len(items) == 1 and items[0].take_sign("*"):
            items[0].expect_end("FROM")
            return self._everything()
        return [self._item(item) for item in items]

    def _everything(self) -> list[ResultItem]:
        """Return the attributes of all components that occur, those of a run as lists."""
        found: list[ResultItem] = []
        positive = [one for one in self._named() if not one.negated]
        for one in positive:
            role: Role = "LIST" if one.repeated else "value"
            for name in one.attributes:
                whole = f"{one.name}_{name}" if len(positive) > 1 else name
                column = self.variables.column(one.part(role, name))
                found.append(ResultItem(whole, column, one.span))
        return found

    def _item(self, item: TokenReader) -> ResultItem:
        start = item.token
        if item.is_sign("*"):
            raise item.expected("an attribute (* stands alone)")
        read = formula(item, self, lambda reader: self._own(reader, True))
        expression = self._closed(read, [])
        self.variables.require_single(expression)
        default = None
        if isinstance(expression, ex.Column):
            only = self.variables.references[expression.index]
            if only.index is not None:
                one = self.variables.of(only)
                default = one.names[only.index]
                default = f"{one.name}_{default}" if len(self._named()) > 1 else default
        name = item.result_name(default)
        span = Extent(start.start, item.tokens[item.at - 1].end)
        item.expect_end("a comma or FROM")
        return ResultItem(name, expression, span)

    # -- WHERE -----------------------------------------------------------------------------

    def _qualifications(self) -> tuple[list[ex.Expression], list[ex.Expression]]:
        """Read WHERE; return the conditions that filter, and those that end a match."""
        reader = self.reader
        found: tuple[list[ex.Expression], list[ex.Expression]] = ([], [])
        if not reader.take_word("WHERE"):
            return found
        while True:
            filters = reader.take_word("FILTER")
            if filters:
                reader.expect_sign("(", " after FILTER")
                reader.deeper()
            condition = formula(reader, self, lambda reader: self._own(reader, False))
            if filters:
                reader.expect_sign(")")
            for conjunct in conjuncts_of(condition):
                closed = self.variables.lenient(self._closed(conjunct, self._read_by(conjunct)))
                found[not filters].append(closed)
            if not reader.take_sign(","):
                return found

    def _read_by(self, condition: ex.Expression) -> list[PatternVariable]:
        """Return the variables that a condition reads, one for each reference, in order."""
        indexes = [part.index for part in ex.walk(condition) if isinstance(part, ex.Column)]
        known = self.variables.references
        read = [known[at] if at >= 0 else self.open[-1 - at] for at in indexes]
        return [self.variables.all[part.component] for part in read]

    def _closed(self, node: ex.Expression, read: Sequence[PatternVariable]) -> ex.Expression:
        """Return a condition on ``read`` without the placeholders of `_of`.

        Each becomes the attribute of every event of its run, that of the last one, or the list of
        all.
        """
        if not any(isinstance(part, ex.Column) and part.index < 0 for part in ex.walk(node)):
            return node  # the same object: `Variables` knows equivalence tests by identity
        if isinstance(node, ex.And | ex.Or | ex.Not):
            return with_operands(node, "Expression", lambda part: self._closed(part, read))
        # by variable of a run: its lists of values, by `TupleItem.name`
        many: dict[PatternVariable, dict[int, ex.Column]] = {}

        def closed(part: ex.Expression) -> ex.Expression:
            if not isinstance(part, ex.Column) or part.index >= 0:
                return part
            reference = self.open[-1 - part.index]
            variable = self.variables.of(reference)
            if reference.role == "LIST":
                assert reference.index is not None
                column = self.variables.column(reference, part.span)
                many.setdefault(variable, {})[-part.index] = column
                kind = variable.node.schema.types[reference.index]
                return ex.TupleItem(-part.index, kind, span=part.span)
            beside = self.variables.beside(variable)
            each = bool(read) and all(one.position in beside for one in read)
            role: Role = "current" if each else "last"
            return self.variables.column(replace(reference, role=role), part.span)

        made = ex.rewrite(node, closed)
        for lists in many.values():
            made = ex.Every(tuple(lists), tuple(lists.values()), made, span=node.span)
        return made

    # -- values ----------------------------------------------------------------------------

    def resolve(self, decorator: str | None, name: str, span: Extent) -> ex.Expression:
        """Return the attribute of an unqualified name; raises AlgebraError unless there is one."""
        if decorator is not None:
            hint = f"ids are {', '.join(one.name for one in self.variables.all)}"
            raise AlgebraError("EQL has no decorators: write id.f", hint=hint, span=span)
        having = [one for one in self.variables.positive() if one.has(name)]
        if len(having) == 1 and having[0].repeated:
            return self._of(having[0], name, span)
        return self.variables.resolve(decorator, name, span)

    def _own(self, reader: TokenReader, selects: bool) -> ex.Expression | None:
        """Read a value that only patterns or EQL have, such as PREV(A.f); None if none is next.

        ``selects`` is True in an item of SELECT, False in a condition.
        """
        token, *after = reader.tokens[reader.at : reader.at + 5]
        signs = [one.text for one in after]
        if token.text == "(" and signs[1:2] == [","] and signs[3:4] == [")"]:  # (id, id)
            return self._time_constraint(reader, selects)
        if token.word in ("PREV", "ALL") and signs[:1] == ["("]:
            return contains(reader, self._aggregate(reader, selects))
        variable = self.variables.named(token.text) if signs[:1] == ["."] else None
        if variable is not None:
            reader.next()
            reader.next()
            attribute = reader.nested(reader.expect_name(f"an attribute of {variable.name}"))
            span = Extent(token.start, attribute.end)
            return contains(reader, self._of(variable, attribute.text, span))
        known = token.kind == "name" and token.word not in reader.keywords
        if known and signs[:1] and after[0].word == "CONTAINS":
            reader.next()
            return contains(reader, self.resolve(None, token.text, token.span))
        found = self.values.read(reader)
        return None if found is None else contains(reader, found)

    def _of(self, variable: PatternVariable, name: str, span: Extent) -> ex.Expression:
        """Return the column of a component's attribute; for a run a placeholder, a negative column.

        Column -1 - i stands for ``open[i]``, a part that `_closed` replaces.
        """
        self._require(variable, name, span)
        if not variable.repeated:
            return self.variables.attribute(variable, None, name, span)
        return self._opened(variable.part("current", name), span)

    def _opened(self, reference: Part, span: Extent) -> ex.Column:
        if reference not in self.open:
            self.open.append(reference)
        return ex.Column(2, -1 - self.open.index(reference), span=span)

    def _require(self, variable: PatternVariable, name: str, span: Extent) -> None:
        if not variable.has(name):
            message = f"{variable.name} has no attribute {name}"
            raise unknown(name, variable.attributes, span, message)

    def _aggregate(self, reader: TokenReader, selects: bool) -> ex.Expression:
        """Read PREV(id.f) in a condition, ALL(id.f) in SELECT."""
        word = reader.next()
        reader.expect_sign("(")
        token = reader.expect_name("an id and its attribute, id.f,")
        variable, index = self.values.indexed(reader, token)
        reader.expect_sign(".", f" and an attribute of {token.text}")
        attribute = reader.nested(reader.expect_name(f"an attribute of {token.text}"))
        span = Extent(word.start, reader.expect_sign(")").end)
        if not variable.repeated or index is not None:
            message = f"{word.word} takes the attribute of a run, such as {variable.name}.f"
            raise AlgebraError(message, hint="write + after the alias", span=span)
        self._require(variable, attribute.text, span)
        if word.word == "PREV":
            if selects:
                raise AlgebraError("PREV belongs into conditions", hint="select id.f", span=span)
            previous = variable.part("previous", attribute.text)
            return self.variables.column(previous, span)
        reference = variable.part("LIST", attribute.text)
        return self.variables.column(reference, span) if selects else self._opened(reference, span)

    def _time_constraint(self, reader: TokenReader, selects: bool) -> ex.Expression:
        """Read `(id, id) OCCURS WITHIN duration` as a condition; raise QueryError if ``selects``.

        ``selects`` is True in an item of SELECT, where no condition is allowed.
        """
        start = reader.next()
        first = self._id(reader)
        reader.next()
        second = self._id(reader)
        reader.next()
        if selects or not reader.take_word("OCCURS"):
            raise reader.expected("OCCURS WITHIN and a duration")
        reader.expect_word("WITHIN", "WITHIN and a duration")
        time = parameter(reader.duration("5 min"))
        span = Extent(start.start, reader.tokens[reader.at - 1].end)
        pairs = sorted(((first, second), (second, first)), key=lambda pair: pair[0].position)
        if not self._are_unordered(first, second):
            pairs = pairs[:1]
        parts = [self._apart(begin, end, time, span) for begin, end in pairs]
        return parts[0] if len(parts) == 1 else ex.And(tuple(parts), span=span)

    def _are_unordered(self, first: PatternVariable, second: PatternVariable) -> bool:
        if first.negated or second.negated:
            return True
        return first is not second and any(
            {first.position, second.position} <= set(tree.components)
            for tree in trees_in(self.pattern.tree)
            if isinstance(tree, Unordered)
        )

    def _apart(
        self, begin: PatternVariable, end: PatternVariable, time: ex.Expression, span: Extent
    ) -> ex.Expression:
        """Return the condition that an event ends at most ``time`` after another begins."""
        role: Role = "current_end" if end.repeated else "end"
        columns = (
            self.variables.column(end.part(role), span),
            self.variables.column(begin.part("start"), span),
        )
        return ex.Compare("<=", ex.Arithmetic("-", *columns, span=span), time, span=span)

    def _id(self, reader: TokenReader) -> PatternVariable:
        token: LanguageToken = reader.next()
        return self.values.indexed(reader, token)[0]


def contains(reader: TokenReader, place: ex.Expression) -> ex.Expression:
    """Read CONTAINS and a string behind the value ``place``; return the condition.

    Without CONTAINS return the value.
    """
    if not reader.take_word("CONTAINS"):
        return place
    token = reader.token
    if not isinstance(token.value, str):
        raise reader.expected("a string")
    part = parameter(reader.next())
    start = place.span.start if place.span else token.start
    return ex.Call("contains", (place, part), span=Extent(start, token.end))
