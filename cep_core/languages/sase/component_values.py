"""Values of a pattern's components in text: attributes, aggregates, times, equivalence tests.

SASE and the patterns of EQL have them alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_core.algebra import patterns
from cep_core.algebra.expressions import And, Column, Expression, Function, walk
from cep_core.errors import AlgebraError, Span
from cep_core.languages.formula import formula
from cep_core.languages.names import unknown
from cep_core.languages.reader import TokenReader
from cep_core.languages.sase.scope import (
    RUN_VALUES,
    PartReference,
    PatternVariable,
    Variables,
    index_of,
)
from cep_core.languages.tokens import LanguageToken


@dataclass(slots=True)
class ValueReader:
    """Reads what stands for the events of variables; keeps the equivalence tests that it read."""

    variables: Variables
    functions: Mapping[str, Function]
    tests: dict[str, Expression] = field(default_factory=dict)  # attributes in brackets

    def read(self, reader: TokenReader) -> Expression | None:
        """Read an attribute of a variable, an equivalence test, an aggregate or a time."""
        token = reader.token
        if token.kind == "verbatim":  # [i] and [last] are attributes, too
            reader.next()
            name = token.text.strip("[] \t\n")
            if not name.isidentifier():
                raise reader.fault(f"{token.text} belongs behind a variable", token.span)
            return self._tested(name, token.span)
        if reader.is_sign("["):
            return self._equivalences(reader)
        if token.kind != "name" or token.word in ("TRUE", "FALSE", "NULL"):
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
        span = Span(token.start, attribute.end)
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

    def _aggregate(self, reader: TokenReader) -> Expression:
        """Read an aggregate over a run."""
        function = reader.next()
        reader.expect_sign("(")
        token = reader.token
        if token.kind != "name":
            raise reader.expected("a run, such as b[],")
        if token.word in RUN_VALUES and reader.tokens[reader.at + 1].text == "(":
            hint = "write the run and its attribute, such as b[].x"
            raise reader.fault("an aggregate cannot be inside an aggregate", token.span, hint)
        reader.next()
        variable, index = self.indexed(reader, token)
        name = None
        if reader.take_sign("."):
            name = reader.nested(reader.expect_name("an attribute")).text
        end = reader.expect_sign(")")
        span = Span(function.start, end.end)
        return self.variables.aggregate(function.word, variable, index or "", name, span)

    def _time(self, reader: TokenReader) -> Expression:
        """Read time(a): when an event ends."""
        start = reader.next()
        reader.expect_sign("(")
        token = reader.expect_name("a component")
        variable, index = self.indexed(reader, token)
        end = reader.expect_sign(")")
        return self.variables.time(variable, index, Span(start.start, end.end))

    def _equivalences(self, reader: TokenReader) -> Expression:
        """Read [a, b] or [a = value]."""
        opened = reader.expect_sign("[")
        found = reader.listed(lambda: self._equivalence(reader))
        closed = reader.expect_sign("]", " or a comma")
        return And(tuple(found), span=Span(opened.start, closed.end)) if found[1:] else found[0]

    def _equivalence(self, reader: TokenReader) -> Expression:
        """Read `a`, or `a = value`."""
        known = [name for one in self.variables.all for name in one.attributes]
        token = reader.expect_attribute(known)
        if not reader.take_sign("="):
            return self._tested(token.text, token.span)
        value = formula(reader, self.variables, self.read)
        if any(isinstance(part, Column) for part in walk(value)):
            raise AlgebraError("an equivalence test compares with a constant", span=value.span)
        return self.variables.equivalence(token.text, value, token.span)

    def _tested(self, name: str, span: Span) -> Expression:
        """Return the test of an attribute that is alone in brackets."""
        test = self.variables.equivalence(name, None, span)
        self.tests[name] = self.variables.lenient(test)
        return test

    def tested_by_all(self, condition: Expression) -> tuple[str, ...]:
        """Return the attributes in which all components agree that have to occur."""
        asked = set(patterns.conjuncts_of(condition))
        return tuple(
            name
            for name, test in self.tests.items()
            if asked.issuperset(patterns.conjuncts_of(test))
            and all(v.has(name) and name not in v.lacking for v in self.variables.positive())
        )


def require_one(reference: PartReference, span: Span | None) -> None:
    """Raise AlgebraError unless a result has one value of a reference."""
    variable = reference.variable
    if variable.negated:
        raise AlgebraError(f"{variable.name} is negated, so a result has no event of it", span=span)
    if reference.each:
        raise AlgebraError(
            f"a result has many {reference.text}",
            hint=f"write {variable.name}[1], {variable.name}[last] or an aggregate",
            span=span,
        )
