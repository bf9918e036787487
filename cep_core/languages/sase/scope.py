"""The variables of a pattern, what their attributes stand for, and their values in text.

SASE and EQL have them alike.  While a condition is read, Column(2, j) is the j-th *reference*, a
part of the pattern.  A predicate on an attribute that an event lacks is true (Wu, Diao and Rizvi
2006, section 2.2.2): where only some types of an ANY lack it, the atom holds for these as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from cep_core.algebra import Node, Part, Role, patterns, project
from cep_core.algebra import expressions as ex
from cep_core.algebra.pattern_constructors import TIMES
from cep_core.algebra.patterns import RUN_AGGREGATES, aggregate_type
from cep_core.errors import AlgebraError, Extent
from cep_core.languages.formula import CONSTANTS, formula
from cep_core.languages.names import unknown
from cep_core.languages.reader import TokenReader
from cep_core.languages.tokens import LanguageToken

EACH = ("current", "previous", "current_end", "previous_end")  # roles with a value for each event
TAG = "#type"  # the attribute that says of which type of an ANY an event is
RUN_VALUES = (*RUN_AGGREGATES, "LIST")  # functions of a whole run
_TIMES: dict[str, Role] = {"current": "current_end", "previous": "previous_end", "last": "end"}
_OFFSETS = re.compile(r"last-(\d{1,4})|(\d{1,4})")
_INDEXES: dict[str, Role] = {"i": "current", "i-1": "previous", "1": "first", "last": "last"}
INDEXES = (
    r"\[\s*(?:last\s*-\s*\d+|\.\.\s*i\s*-\s*\d+|i\s*-\s*\d+|i|last|\d+|)\s*\]"  # behind a variable
)


@dataclass(frozen=True, slots=True, eq=False)
class PatternVariable:
    """A component of the pattern, under the name that the query gives it.

    ``lacking`` has each attribute that only some of its types have, with the numbers of the types
    that lack it; ``computed`` by name the expressions over an event that aggregates read as
    attributes.
    """

    name: str
    position: int
    node: Node
    lacking: dict[str, tuple[int, ...]]
    negated: bool
    repeated: bool
    span: Extent
    optional: bool = False
    group: int | None = None  # the first component of the repeated group around it
    ends: int | None = None  # if it is in UNTIL: the component that it ends
    computed: dict[str, ex.Expression] = field(default_factory=dict)

    def name_of(self, value: ex.Expression) -> str:
        """Return the name of an expression in `computed`, where a new one is added."""
        known = next((name for name, one in self.computed.items() if one == value), None)
        name = known or f"#{len(self.computed)}"
        self.computed[name] = value
        return name

    def source(self, functions: ex.Functions) -> Node:
        """Return the input of the component, with the `computed` expressions as attributes, too."""
        if not self.computed:
            return self.node
        known = [(name, ex.Column(2, at)) for at, name in enumerate(self.node.schema.names)]
        return project(self.node, [*known, *self.computed.items()], functions, self.span)

    @property
    def names(self) -> list[str]:
        """The names of its attributes, and of the expressions that are computed of each event."""
        return [*self.node.schema.names, *self.computed]

    def part(
        self, role: Role, attribute: str | None = None, before: bool = False, offset: int = 0
    ) -> Part:
        """Return the part that has the value of an attribute for the event of a role.

        Without an attribute it is the row itself or the run.  ``before`` and ``offset`` are those
        of `Part`.
        """
        place = None if attribute is None else self.names.index(attribute)
        return Part(self.position, role, place, before, offset)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of its attributes."""
        return tuple(name for name in self.node.schema.names if name != TAG)

    def has(self, attribute: str) -> bool:
        """Return True if one of its types has an attribute."""
        return attribute in self.node.schema.names

    def type_of(self, attribute: str) -> type:
        """Return the type of an attribute."""
        return self.node.schema.types[self.node.schema.names.index(attribute)]


def is_each(part: Part) -> bool:
    """Return True if a part has a value for each event of a run."""
    return part.before or part.role in EACH


@dataclass(slots=True)
class Variables:
    """The variables of a query, and the references that its conditions make."""

    all: Sequence[PatternVariable]
    references: list[Part] = field(default_factory=list)
    # equalities with rows of a run, each with the condition that the run has no such row
    _vacuous: list[tuple[ex.Expression, ex.Expression]] = field(default_factory=list)

    def positive(self) -> list[PatternVariable]:
        """Return the components that are not negated."""
        return [one for one in self.all if not one.negated]

    def beside(self, variable: PatternVariable) -> set[int]:
        """Return the components of a variable's repeated group; only its own without a group."""
        if variable.group is None:
            return {variable.position}
        return {one.position for one in self.all if one.group == variable.group}

    def shown(self) -> list[str]:
        """Return the names of the components that are not negated: `a`, or `b[]` of a run."""
        return [f"{one.name}{'[]' * one.repeated}" for one in self.positive()]

    def column(self, part: Part, span: Extent | None = None) -> ex.Column:
        """Return the column of a part: its index in `references`, where a new part is added."""
        if part not in self.references:
            self.references.append(part)
        return ex.Column(2, self.references.index(part), span=span)

    def of(self, part: Part) -> PatternVariable:
        """Return the variable of the component that a part belongs to."""
        return self.all[part.component]

    def read_in(self, *expressions: ex.Expression) -> list[Part]:
        """Return the references that expressions read, negated components included, each once."""
        parts = chain.from_iterable(map(ex.walk, expressions))
        indexes = dict.fromkeys(part.index for part in parts if isinstance(part, ex.Column))
        return [self.references[index] for index in indexes]

    def text(self, part: Part) -> str:
        """Return a part as it is written in a query."""
        name, role = self.of(part).name, part.role
        attribute = "" if part.index is None else f".{self.of(part).names[part.index]}"
        if role in RUN_VALUES:
            return f"{role}({name}[{'..i-1' if part.before else ''}]{attribute})"
        index = {role: text for text, role in _INDEXES.items()}.get(role)
        if part.offset:
            shown = part.offset + 1 if role == "first" else f"last-{part.offset}"
            return f"{name}[{shown}]{attribute}"
        if role in TIMES:
            return f"{name}.#{role}"
        return f"{name}[{index}]{attribute}" if index else f"{name}{attribute}"

    def named(self, name: str) -> PatternVariable | None:
        """Return the variable of a name, None if there is none."""
        return next((one for one in self.all if one.name == name), None)

    def resolve(self, decorator: str | None, name: str, span: Extent) -> ex.Expression:
        """Return the column of an attribute without a variable before it.

        Raises AlgebraError unless it is an attribute of exactly one component, negated ones apart.
        """
        if decorator is not None:
            raise AlgebraError(
                f"${decorator}. has no meaning in SASE",
                hint="write the variable before the attribute, such as x.id",
                span=span,
            )
        having = [one for one in self.positive() if one.has(name)]
        if len(having) > 1:
            ways = " or ".join(f"{one.name}.{name}" for one in having)
            raise AlgebraError(
                f"several components have an attribute {name}", hint=f"write {ways}", span=span
            )
        if not having:
            if self.named(name) is not None:
                raise AlgebraError(
                    f"{name} is a variable, not an attribute",
                    hint=f"write {name}.attribute",
                    span=span,
                )
            raise self._negated(name, span) or self.unknown(name, self.positive(), span)
        return self.attribute(having[0], None, name, span)

    def _negated(self, name: str, span: Extent) -> AlgebraError | None:
        """Return the error for an attribute that only negated components have, if some have it."""
        having = [one.name for one in self.all if one.negated and one.has(name)]
        if not having:
            return None
        several = f"{', '.join(having[:-1])} and {having[-1]}, which are" if having[1:] else ""
        whose = several or f"{having[0]}, which is"
        return AlgebraError(
            f"{name} is an attribute of {whose} negated: it is read by the variable only",
            hint="write " + " or ".join(f"{one}.{name}" for one in having),
            span=span,
        )

    def attribute(
        self, variable: PatternVariable, index: str | None, name: str, span: Extent
    ) -> ex.Expression:
        """Return the column of an attribute of a variable, `Missing` if its events lack it.

        ``index`` is the text in the brackets behind the variable, None without brackets.
        """
        if not variable.has(name):
            if not any(one.has(name) for one in self.all):
                raise self.unknown(name, [variable], span)
            return ex.Missing(span=span)
        role, offset = self._role(variable, index, name, span)
        return self.column(variable.part(role, name, offset=offset), span)

    def time(self, variable: PatternVariable, index: str | None, span: Extent) -> ex.Expression:
        """Return the column of the end of an event; ``index`` is the text in brackets."""
        if variable.negated:
            message = f"{variable.name} does not occur: it has no time"
            raise AlgebraError(message, span=span)
        role: Role = "end"
        if variable.repeated:
            found, offset = self._role(variable, index, "time", span)
            if offset or (found == "first" and index != "1"):
                message = "time takes an event, the last or the first one of a run"
                raise AlgebraError(message, span=span)
            role = "first_end" if found == "first" else _TIMES[found]
        elif index is not None:
            raise AlgebraError(f"{variable.name} is one event, not a run", span=span)
        return self.column(variable.part(role), span)

    def aggregate(
        self,
        function: str,
        variable: PatternVariable,
        index: str,
        value: str | ex.Expression | None,
        span: Extent,
        functions: ex.Functions,
    ) -> ex.Expression:
        """Return an aggregate over a run, of an attribute (name), an expression or (None) its rows.

        ``index`` is what stands in the brackets: "" for the whole run, "..i-1" for the rows before
        the current one.
        """
        before = index.startswith("..")
        if not variable.repeated or index not in ("", "..i-1"):
            whole = f"{variable.name}[]" if variable.repeated else "b[] of a component B+ b[]"
            raise AlgebraError(
                f"{function} takes a whole run, such as {whole}, or what is before, [..i-1]",
                span=span,
            )
        if before and function == "LIST":
            raise AlgebraError("LIST takes a whole run, such as b[].x", span=span)
        if value is None and function != "COUNT":
            raise AlgebraError(
                f"{function} takes an attribute of {variable.name}[]",
                hint=f"write {function}({variable.name}[].attribute)",
                span=span,
            )
        name = value if isinstance(value, str) or value is None else variable.name_of(value)
        if name is not None and function != "LIST":
            schema = variable.source(functions).schema
            aggregate_type(function, schema.types[schema.names.index(name)], span)
        role: Role = function  # type: ignore[assignment]  # one of RUN_VALUES
        return self.column(variable.part(role, name, before), span)

    def equivalence(self, name: str, value: ex.Expression | None, span: Extent) -> ex.Expression:
        """Return the condition of [attr] or [attr = value], on all components, negated or not."""
        having = [one for one in self.all if one.has(name)]
        if not having:
            raise self.unknown(name, self.all, span)
        items: list[ex.Expression] = []
        if value is not None:
            items = [
                ex.Compare("=", self._each(one, name, span), value, span=span) for one in having
            ]
        else:
            certain = [v for v in having if not v.negated and not v.optional]
            first = next((v for v in certain if name not in v.lacking), None)
            for one in having:
                items += self._alike(one, first, name, having, span)
        return items[0] if len(items) == 1 else ex.And(tuple(items), span=span)

    def _alike(
        self,
        one: PatternVariable,
        first: PatternVariable | None,
        name: str,
        having: Sequence[PatternVariable],
        span: Extent,
    ) -> list[ex.Expression]:
        """Return the conditions that component ``one`` agrees with others in an attribute.

        ``having`` are the components that have it; ``first`` is the first sure to occur with it.
        Components behind ``first``, and negated ones, are compared with it, others with all before
        them.  A component that ends a run is compared with the run.
        """
        ended = None if one.ends is None else self.all[one.ends]
        if ended is not None and ended.has(name):
            return [self._equal(ended, one, name, span)]
        if first is not None and (one.negated or first.position < one.position):
            return [self._equal(first, one, name, span)]
        others = [
            other
            for other in having
            if not other.negated and (one.negated or other.position < one.position)
        ]
        items = [self._equal(other, one, name, span) for other in others]
        return [self._equal(one, one, name, span), *items] if one.repeated else items

    def _equal(
        self, base: PatternVariable, one: PatternVariable, name: str, span: Extent
    ) -> ex.Expression:
        """Return the condition that ``one`` agrees with ``base`` in the attribute ``name``.

        If both are the same run, its rows agree.  If rows of the run ``base`` may lack the
        attribute, the least value of the rows that have it stands for the run.
        """
        each = self._each(one, name, span)
        if not base.repeated or name not in base.lacking:
            role: Role = "first" if base.repeated else "value"
            same = ex.Compare("=", self.column(base.part(role, name), span), each, span=span)
            if base.optional and base is not one and one.ends is None:
                count = self.column(base.part("COUNT"), span)
                self._vacuous.append((same, ex.Compare("=", count, ex.Constant(0))))
            return same
        if not ex.is_ordered(base.type_of(name)):
            raise AlgebraError(
                f"[{name}] compares runs in which events lack {name}, and its values have no order",
                hint=f"leave out of {base.name} the types without it",
                span=base.span,
            )
        before = one is base
        least = self.column(base.part("MIN", name, before), span)
        count = self.column(base.part("COUNT", name, before), span)
        equal = ex.Compare("=", least, each, span=span)
        self._vacuous.append((equal, ex.Compare("=", count, ex.Constant(0))))
        return (
            ex.And((ex.Compare("=", each, each, span=span), equal), span=span) if before else equal
        )

    def lenient(self, node: ex.Expression, positive: bool = True) -> ex.Expression:
        """Return a condition, or its opposite if not ``positive``, with NOT at atoms only.

        An atom, negated or not, is also true for an event that lacks an attribute that it reads:
        what is lacking is neither equal nor unequal to anything.
        """
        match node:
            case ex.And(items) | ex.Or(items):
                kind = ex.And if isinstance(node, ex.And) is positive else ex.Or
                return kind(tuple([self.lenient(one, positive) for one in items]), span=node.span)
            case ex.Not(item):
                return self.lenient(item, not positive)
            case _:
                return self._lenient(node, positive)

    def _lenient(self, atom: ex.Expression, positive: bool) -> ex.Expression:
        parts = list(ex.walk(atom))
        if any(isinstance(part, ex.Missing) for part in parts):
            return ex.TRUE
        found: dict[tuple[int, int], ex.Expression] = {}
        for part in parts:
            if isinstance(part, ex.Column):
                for test in self._lacks(self.references[part.index]):
                    found.setdefault((test[0].index, test[1]), _is(*test))
        vacuous = [count for equal, count in self._vacuous if equal is atom]
        made = atom if positive else ex.Not(atom, span=atom.span)
        return (
            ex.Or((made, *found.values(), *vacuous), span=atom.span) if found or vacuous else made
        )

    def unknown(
        self, name: str, variables: Iterable[PatternVariable], span: Extent
    ) -> AlgebraError:
        """Return the error for an attribute that none of some variables has."""
        known = [attribute for variable in variables for attribute in variable.attributes]
        return unknown(name, known, span)

    def _each(self, variable: PatternVariable, name: str, span: Extent) -> ex.Column:
        role: Role = "current" if variable.repeated else "value"
        return self.column(variable.part(role, name), span)

    def _lacks(self, part: Part) -> list[tuple[ex.Column, int]]:
        """Return (column of `TAG`, number of a type) for the types that lack a part's attribute."""
        if part.index is None or part.role in RUN_VALUES:
            return []
        variable = self.of(part)
        lacking = variable.lacking.get(variable.names[part.index], ())
        return [
            (self.column(replace(part, index=variable.names.index(TAG))), number)
            for number in lacking
        ]

    def require_single(self, expression: ex.Expression) -> None:
        """Raise AlgebraError if an expression reads what a result has no single value of.

        That is an attribute of each row of a run, or one of a negated component.
        """
        for column in ex.walk(expression):
            if not isinstance(column, ex.Column):
                continue
            part = self.references[column.index]
            variable = self.of(part)
            if variable.negated:
                message = f"{variable.name} is negated, so a result has no event of it"
                raise AlgebraError(message, span=column.span)
            if is_each(part):
                raise AlgebraError(
                    f"a result has many {self.text(part)}",
                    hint=f"write {variable.name}[1], {variable.name}[last] or an aggregate",
                    span=column.span,
                )

    def _role(
        self, variable: PatternVariable, index: str | None, name: str, span: Extent
    ) -> tuple[Role, int]:
        """Return the role of the event that an index names, and its distance from first or last."""
        if not variable.repeated:
            if index is None:
                return "value", 0
            raise AlgebraError(
                f"{variable.name} is one event, not a run",
                hint=f"write {variable.name}.{name}, or + after its type",
                span=span,
            )
        far = None if index is None or index in _INDEXES else _OFFSETS.fullmatch(index)
        if far is not None and (far[1] or int(far[2])):
            return ("last", int(far[1])) if far[1] else ("first", int(far[2]) - 1)
        if index is None or index not in _INDEXES:
            ways = ", ".join(f"{variable.name}[{one}].{name}" for one in _INDEXES)
            what = "is a run" if index is None else f"has no event [{index}] by name"
            raise AlgebraError(
                f"{variable.name} {what}",
                hint=f"write one of {ways}, or an aggregate such as MAX({variable.name}[].{name})",
                span=span,
            )
        return _INDEXES[index], 0


def index_of(text: str) -> str:
    """Return the text inside brackets, without spaces, in lower case."""
    return re.sub(r"\s+", "", text)[1:-1].lower()


def _is(column: ex.Column, number: int) -> ex.Expression:
    return ex.Compare("=", column, ex.Constant(number))


@dataclass(slots=True)
class ValueReader:
    """Reads attributes, aggregates, times and equivalence tests of variables; keeps the tests."""

    variables: Variables
    functions: ex.Functions
    tests: dict[str, ex.Expression] = field(default_factory=dict)  # attributes in brackets

    def read(self, reader: TokenReader) -> ex.Expression | None:
        """Read an attribute, an equivalence test, an aggregate or a time; None if none is next."""
        token = reader.token
        if token.kind == "verbatim":  # in brackets: here even [i] and [last] name attributes
            reader.next()
            name = token.text.strip("[] \t\n")
            if not name.isidentifier():
                raise reader.fault(f"{token.text} belongs behind a variable", token.span)
            return self._tested(name, token.span)
        if reader.is_sign("["):
            return self._equivalences(reader)
        if token.kind != "name" or token.word in CONSTANTS:
            return None
        after = reader.tokens[reader.at + 1]
        if token.word == "TIME" and after.text == "(" and token.text not in self.functions:
            return self._time(reader)
        if token.word in RUN_VALUES and after.text == "(" and token.text not in self.functions:
            return self._aggregate(reader)
        if after.text != "." and after.kind != "verbatim":
            return None
        reader.next()
        variable, index = self.indexed(reader, token)
        if not reader.take_sign("."):
            raise reader.expected(f"'.' and an attribute of {token.text}")
        attribute = reader.nested(reader.expect_name("an attribute"))
        span = Extent(token.start, attribute.end)
        return self.variables.attribute(variable, index, attribute.text, span)

    def indexed(
        self, reader: TokenReader, token: LanguageToken
    ) -> tuple[PatternVariable, str | None]:
        """Return the variable of a name, and what follows it in brackets, None for nothing."""
        variable = self.variables.named(token.text)
        if variable is None:
            known = [one.name for one in self.variables.all]
            message = f"there is no variable {token.text}"
            raise unknown(token.text, known, token.span, message)
        if reader.token.kind != "verbatim":
            return variable, None
        return variable, index_of(reader.next().text)

    def _aggregate(self, reader: TokenReader) -> ex.Expression:
        """Read an aggregate over a run."""
        function = reader.next()
        reader.expect_sign("(")
        inside = _InAggregate(self)
        value = inside.value(reader)
        end = reader.expect_sign(")")
        variable, index = inside.run or (self.variables.all[0], "0")
        span = Extent(function.start, end.end)
        return self.variables.aggregate(function.word, variable, index, value, span, self.functions)

    def _time(self, reader: TokenReader) -> ex.Expression:
        """Read time(a); return the time at which the event of component a ends."""
        start = reader.next()
        reader.expect_sign("(")
        token = reader.expect_name("a component")
        variable, index = self.indexed(reader, token)
        end = reader.expect_sign(")")
        return self.variables.time(variable, index, Extent(start.start, end.end))

    def _equivalences(self, reader: TokenReader) -> ex.Expression:
        """Read `[a, b]` or `[a = value]`; return the condition, an And if it has several items."""
        opened = reader.expect_sign("[")
        found = reader.listed(lambda: self._equivalence(reader))
        closed = reader.expect_sign("]", " or a comma")
        return (
            ex.And(tuple(found), span=Extent(opened.start, closed.end)) if found[1:] else found[0]
        )

    def _equivalence(self, reader: TokenReader) -> ex.Expression:
        """Read `a`, or `a = value`, in brackets; return the condition."""
        known = [name for one in self.variables.all for name in one.attributes]
        token = reader.expect_attribute(known)
        if not reader.take_sign("="):
            return self._tested(token.text, token.span)
        value = formula(reader, self.variables, self.read)
        if any(isinstance(part, ex.Column) for part in ex.walk(value)):
            raise AlgebraError("an equivalence test compares with a constant", span=value.span)
        return self.variables.equivalence(token.text, value, token.span)

    def _tested(self, name: str, span: Extent) -> ex.Expression:
        """Return the condition of `[a]`: a is equal in all components that have it."""
        test = self.variables.equivalence(name, None, span)
        self.tests[name] = self.variables.lenient(test)
        return test

    def tested_by_all(self, condition: ex.Expression) -> tuple[str, ...]:
        """Return the attributes in which, by a condition, all components that occur agree."""
        asked = set(patterns.conjuncts_of(condition))
        return tuple(
            name
            for name, test in self.tests.items()
            if asked.issuperset(patterns.conjuncts_of(test))
            and all(v.has(name) and name not in v.lacking for v in self.variables.positive())
        )


@dataclass(slots=True)
class _InAggregate:
    """Reads what an aggregate is of: a run, an attribute of it, or an expression over its rows.

    In an expression Column(2, j) is the j-th attribute of the run's events.
    """

    values: ValueReader
    run: tuple[PatternVariable, str] | None = None

    def value(self, reader: TokenReader) -> str | ex.Expression | None:
        """Read what an aggregate is of: an attribute (name), an expression, or (None) the run."""
        if reader.token.kind == "verbatim" or reader.is_sign(")", "*"):
            raise reader.expected("a run, such as b[],")
        found = formula(reader, self, self.read)
        if found is _ROWS:
            return None
        if isinstance(found, ex.Column) and self.run is not None:
            return self.run[0].node.schema.names[found.index]
        return found

    def resolve(self, decorator: str | None, name: str, span: Extent) -> ex.Expression:
        """Raise AlgebraError for a name without a variable before it: attributes are `b[].name`."""
        known = [one.name for one in self.values.variables.all]
        raise unknown(name, known, span, f"there is no variable {name}")

    def read(self, reader: TokenReader) -> ex.Expression | None:
        """Read an attribute of a run (`b[].a`) or the run (`b[]`); None if neither is next."""
        if reader.token.kind == "end":
            return None
        token, after = reader.token, reader.tokens[reader.at + 1]
        is_function = token.text in self.values.functions
        if token.word in RUN_VALUES and after.text == "(" and not is_function:
            hint = "write the run and its attribute, such as b[].x"
            raise reader.fault("an aggregate cannot be inside an aggregate", token.span, hint)
        runs = after.text == "." or after.kind == "verbatim"
        if token.kind != "name" or not (runs or self.values.variables.named(token.text)):
            return None
        reader.next()
        variable, index = self.values.indexed(reader, token)
        run = variable, index or ""
        if self.run not in (None, run):
            message = "an aggregate reads the events of one run"
            raise AlgebraError(message, hint="compute with two aggregates", span=token.span)
        self.run = run
        if reader.is_sign(")"):
            return _ROWS
        reader.expect_sign(".", f" and an attribute of {token.text}")
        attribute = reader.nested(reader.expect_name("an attribute"))
        if not variable.has(attribute.text):
            raise self.values.variables.unknown(attribute.text, [variable], attribute.span)
        place = variable.node.schema.names.index(attribute.text)
        return ex.Column(2, place, span=Extent(token.start, attribute.end))


_ROWS = ex.Constant(None)  # the rows of a loop in an aggregate without an attribute: COUNT(b[])
