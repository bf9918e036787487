"""Queries whose pattern has quantifiers, marks, AND, absences or a policy: one `PatternMatch`.

    query   := SELECT selection FROM pattern [NONSTRICT] [WHERE qualification {, qualification}]
               [WITHIN [<=] duration] [AFTER MATCH policy] [PUBLISH name]
    pattern := sequence { | sequence }           sequence := item { ; item }
    item    := [mark] operand [UNTIL types [alias]] | [mark] ( pattern ) [times manner]
             | ( operand AND operand { AND operand } [WITHIN duration] ) | ! types [alias]
    operand := types [alias] [times manner]

Types, times, manners, marks and policies are those of SASE, and so are values of runs: `A[1].f`,
`COUNT(A[])`, `time(A)`, `[f]`.  What EQL says of conditions remains:

- FILTER(p) says which events are taken.  p alone ends the match with the event that fails it, as a
  test of the `PatternMatch`.
- In a condition on a run alone, A.f is each of its events; beside others and in SELECT it is the
  last one.  PREV(A.f) is the event before.  ALL(A.f) in SELECT is the list of all.
- A step without a mark is `next`: the first event that it could take.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cep_core.algebra import Role
from cep_core.algebra.expressions import (
    And,
    Arithmetic,
    Column,
    Compare,
    Expression,
    Function,
    walk,
)
from cep_core.algebra.operands import with_operands
from cep_core.algebra.pattern_tree import Chain, Loop, One, Tree, Unordered, trees_in
from cep_core.algebra.patterns import conjunction, conjuncts_of
from cep_core.errors import AlgebraError, Span
from cep_core.languages.cel.cel import Catalog, Prepared
from cep_core.languages.eql.keyword_clauses import Apart, contains, is_pair, time_constraint
from cep_core.languages.eql.pattern_operands import OperandReader
from cep_core.languages.formula import formula
from cep_core.languages.reader import TokenReader
from cep_core.languages.sase.component_values import ValueReader, require_one
from cep_core.languages.sase.components import Pattern
from cep_core.languages.sase.lowering import Item, PatternLowering
from cep_core.languages.sase.pattern_clauses import clauses, require_partition
from cep_core.languages.sase.scope import Reference, Variable, Variables
from cep_core.languages.tokens import Token

_ENDS = "; | AND, a quantifier, a clause or the end"
_CLAUSES = "the end of the query or WHERE, WITHIN, AFTER MATCH, PUBLISH in this order"
_CONSTRAINTS = (["start", "end"], ["start", "current_end"])
_NOTE = "one pattern: ; goes on event by event, and each way to match is a match"


def read(
    reader: TokenReader,
    items: Sequence[TokenReader],
    catalog: Catalog,
    functions: Mapping[str, Function],
) -> Prepared:
    """Return a query as algebra, from behind FROM; ``items`` are what SELECT lists."""
    span, reads = reader.token.span, dict[str, None]()
    pattern = OperandReader(reader, catalog, functions, reads).pattern()
    return _Query(reader, functions, pattern, Variables(pattern.variables), span).read(items, reads)


@dataclass(slots=True)
class _Query:
    reader: TokenReader
    functions: Mapping[str, Function]
    pattern: Pattern
    variables: Variables
    span: Span
    values: ValueReader = field(init=False)
    # attributes of runs, as columns below 0: of each event or of the last, as the condition says
    open: list[Reference] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.values = ValueReader(self.variables, self.functions)

    def read(self, items: Sequence[TokenReader], reads: Mapping[str, None]) -> Prepared:
        """Read the clauses behind the pattern, then what SELECT lists."""
        reader = self.reader
        simultaneous = reader.take_word("NONSTRICT")
        if reader.token.kind != "end" and not reader.is_word("WHERE", "WITHIN", "AFTER", "PUBLISH"):
            named = reader.token.kind == "name"
            hint = "an alias stands right behind its stream: t A{2}" if named else None
            raise reader.expected(_ENDS, hint)
        filters, tests = self._qualifications()
        bounds = clauses(reader, self.variables)
        if bounds.window is None and (window := self._window((*filters, *tests))) is not None:
            bounds = bounds._replace(window=window, inclusive=True)
        publishes = reader.publication(reads)
        reader.expect_end(_CLAUSES)
        partition = self.values.tested_by_all(conjunction((*filters, *tests)))
        require_partition(self.pattern, partition, self.span)
        rules = bounds.rules(self.pattern, simultaneous, "next")
        found = PatternLowering(
            *(self.variables, self.functions, self.pattern.tree, rules, self.span, partition),
            tests=conjunction(tests),
        )
        node = found.lowered(conjunction(filters), self._selection(items))
        return Prepared(node, publishes, (), tuple(reads), (_NOTE,))

    # -- SELECT ----------------------------------------------------------------------------

    def _selection(self, items: Sequence[TokenReader]) -> list[Item]:
        if len(items) == 1 and items[0].take_sign("*"):
            items[0].expect_end("FROM")
            return self._everything()
        return [self._item(item) for item in items]

    def _everything(self) -> list[Item]:
        """Return the attributes of all that occurs, of a run as lists."""
        found: list[Item] = []
        positive = self.variables.positive()
        for one in positive:
            role: Role = "LIST" if one.repeated else "value"
            for name in one.attributes:
                whole = f"{one.name}_{name}" if len(positive) > 1 else name
                column = self.variables.column(Reference(one, role, name))
                found.append((whole, column, one.span))
        return found

    def _item(self, item: TokenReader) -> Item:
        start = item.token
        if item.is_sign("*"):
            raise item.expected("an attribute (* stands alone)")
        read = formula(item, self, lambda reader: self._own(reader, True))
        expression = self._closed(read, [])
        columns = [part for part in walk(expression) if isinstance(part, Column)]
        references = [self.variables.references[part.index] for part in columns]
        for reference, part in zip(references, columns, strict=True):
            require_one(reference, part.span)
        default = None
        if isinstance(expression, Column) and references[0].attribute is not None:
            one, default = references[0].variable, references[0].attribute
            default = f"{one.name}_{default}" if len(self.variables.all) > 1 else default
        name = item.result_name(default)
        span = Span(start.start, item.tokens[item.at - 1].end)
        item.expect_end("a comma or FROM")
        return name, expression, span

    # -- WHERE -----------------------------------------------------------------------------

    def _qualifications(self) -> tuple[list[Expression], list[Expression]]:
        """Read WHERE; return the conditions that filter, and those that end a match."""
        reader = self.reader
        found: tuple[list[Expression], list[Expression]] = ([], [])
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
            for one in conjuncts_of(condition):
                closed = self.variables.lenient(self._closed(one, self._read_by(one)))
                aside = any(each.negated for each in self._read_by(closed))
                found[not (filters or aside)].append(closed)
            if not reader.take_sign(","):
                return found

    def _read_by(self, condition: Expression) -> list[Variable]:
        """Return the components that a condition reads."""
        indexes = [part.index for part in walk(condition) if isinstance(part, Column)]
        known = self.variables.references
        return [(known[at] if at >= 0 else self.open[-1 - at]).variable for at in indexes]

    def _closed(self, node: Expression, read: Sequence[Variable]) -> Expression:
        """Return a condition whose open attributes are of each event or of the last one."""
        columns = [part for part in walk(node) if isinstance(part, Column) and part.index < 0]
        if not columns:
            return node
        if not isinstance(node, Column):
            return with_operands(node, "Expression", lambda part: self._closed(part, read))
        reference = self.open[-1 - node.index]
        beside = self.variables.beside(reference.variable)
        each = bool(read) and all(one.position in beside for one in read)
        role: Role = "current" if each else "last"
        return self.variables.column(reference._replace(role=role), node.span)

    def _window(self, conditions: Iterable[Expression]) -> Expression | None:
        """Return the window that a time constraint on the first and the last event implies."""
        tree = self.pattern.tree
        parts = tree.parts if isinstance(tree, Chain) else (tree,)
        edges = [_occurring(parts[0]), _occurring(parts[-1])]
        for one in conditions:
            match one:
                case Compare("<=", Arithmetic("-", Column() as end, Column() as start), time):
                    known = [self.variables.references[part.index] for part in (start, end)]
                    places = [reference.variable.position for reference in known]
                    timed = [reference.role for reference in known] in _CONSTRAINTS
                    if timed and places == edges:
                        return time
                case _:
                    continue
        return None

    # -- values ----------------------------------------------------------------------------

    def resolve(self, decorator: str | None, name: str, span: Span) -> Expression:
        """Return the attribute of an unqualified name; raises AlgebraError unless there is one."""
        if decorator is not None:
            hint = f"ids are {', '.join(one.name for one in self.variables.all)}"
            raise AlgebraError("EQL has no decorators: write id.f", hint=hint, span=span)
        having = [one for one in self.variables.positive() if one.has(name)]
        if len(having) == 1 and having[0].repeated:
            return self._of_run(having[0], name, span)
        return self.variables.resolve(decorator, name, span)

    def _own(self, reader: TokenReader, selects: bool) -> Expression | None:
        """Read what only patterns have, and what only EQL has."""
        token, *after = reader.tokens[reader.at : reader.at + 3]
        signs = [one.text for one in after]
        if is_pair(reader):
            return self._time_constraint(reader, selects)
        if token.word in ("PREV", "ALL") and signs[:1] == ["("]:
            return contains(reader, self._aggregate(reader, selects))
        variable = self.variables.named(token.text) if signs[:1] == ["."] else None
        if variable is not None and variable.repeated:
            reader.next()
            reader.next()
            attribute = reader.nested(reader.expect_name(f"an attribute of {variable.name}"))
            span = Span(token.start, attribute.end)
            return contains(reader, self._of_run(variable, attribute.text, span))
        known = token.kind == "name" and token.word not in reader.keywords
        if known and signs[:1] and after[0].word == "CONTAINS":
            reader.next()
            return contains(reader, self.resolve(None, token.text, token.span))
        found = self.values.read(reader)
        return None if found is None else contains(reader, found)

    def _of_run(self, variable: Variable, name: str, span: Span) -> Expression:
        """Return an attribute of a run that is not said to be that of each event or the last."""
        self._require(variable, name, span)
        reference = Reference(variable, "current", name)
        if reference not in self.open:
            self.open.append(reference)
        return Column(2, -1 - self.open.index(reference), span=span)

    def _require(self, variable: Variable, name: str, span: Span) -> None:
        if not variable.has(name):
            raise self.variables.unknown(name, [variable], span)

    def _aggregate(self, reader: TokenReader, selects: bool) -> Expression:
        """Read PREV(id.f) in a condition, ALL(id.f) in SELECT."""
        word = reader.next()
        reader.expect_sign("(")
        token = reader.expect_name("an id and its attribute, id.f,")
        variable, index = self.values.indexed(reader, token)
        reader.expect_sign(".", f" and an attribute of {token.text}")
        attribute = reader.nested(reader.expect_name(f"an attribute of {token.text}"))
        span = Span(word.start, reader.expect_sign(")").end)
        text = f"{variable.name}[]"
        if not variable.repeated or index is not None:
            message = f"{word.word} takes the attribute of a run, such as {variable.name}.f"
            raise AlgebraError(message, hint="write + after the alias", span=span)
        if selects != (word.word == "ALL"):
            hint = f"compare MIN({text}.f), MAX({text}.f) or each event, {variable.name}[i].f"
            if selects:
                raise AlgebraError("PREV belongs into conditions", hint="select id.f", span=span)
            message = "ALL(id.f) is a list, which is selected as it is"
            raise AlgebraError(message, hint=hint, span=span)
        self._require(variable, attribute.text, span)
        role: Role = "LIST" if selects else "previous"
        return self.variables.column(Reference(variable, role, attribute.text), span)

    def _time_constraint(self, reader: TokenReader, selects: bool) -> Expression:
        """Read (id, id) OCCURS WITHIN duration."""
        first, second, apart = time_constraint(reader, lambda: self._id(reader), not selects)
        pairs = sorted(((first, second), (second, first)), key=lambda pair: pair[0].position)
        if not self._are_unordered(first, second):
            pairs = pairs[:1]
        parts = [self._apart(*pair, apart) for pair in pairs]
        return parts[0] if len(parts) == 1 else And(tuple(parts), span=apart.span)

    def _are_unordered(self, first: Variable, second: Variable) -> bool:
        return first is not second and any(
            {first.position, second.position} <= set(one.components)
            for one in trees_in(self.pattern.tree)
            if isinstance(one, Unordered)
        )

    def _apart(self, begin: Variable, end: Variable, apart: Apart) -> Expression:
        role: Role = "current_end" if end.repeated else "end"
        return apart.holds(
            self.variables.column(Reference(end, role, None), apart.span),
            self.variables.column(Reference(begin, "start", None), apart.span),
        )

    def _id(self, reader: TokenReader) -> Variable:
        token: Token = reader.next()
        variable, _ = self.values.indexed(reader, token)
        if variable.negated:
            message = f"{variable.name} does not occur: it has no time"
            raise AlgebraError(message, span=token.span)
        return variable


def _occurring(tree: Tree) -> int | None:
    """Return the component whose events a part certainly consists of."""
    match tree:
        case One(component):
            return component
        case Loop(One(component), least) if least > 0:
            return component
        case _:
            return None
