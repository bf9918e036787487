"""SASE, complex event queries over typed events (Wu, Diao and Rizvi 2006, section 2).

    query     := EVENT pattern [WHERE qualification] [WITHIN duration] [RETURN items] [PUBLISH name]
    pattern   := component | SEQ( component {, component} )
    component := [!] [(] types [+] [variable [ [] ]] [)]
    types     := type | ANY( type {, type} )
    qualification := condition | strategy( variables ) { condition }
    strategy  := skip_till_any_match | skip_till_next_match | strict_contiguity
               | partition_contiguity
    items     := * | expression [AS name] {, expression [AS name]}

Conditions are those of all languages, and ∧ ∨ ¬ for AND, OR, NOT.  `x.a` is an attribute of a
component, `a` alone if it is unique.  `[a]` asks for equal values of a in all components that
have it, the negated ones included, `[a = 'v']` for the value v, `[a, b]` is both.  Of a run
`B+ b[]`, `b[i].a` is each event, `b[i-1].a` the one before it, `b[1].a` and `b[last].a` the first
and last; COUNT(b[]), SUM, AVG, MIN and MAX(b[].a) are over the run, with `[..i-1]` over what
precedes b[i].

Without RETURN the result has the attributes of all components that are not negated, of a run its
last event's and `b_count`; where names collide they are written `x_a`.  Strategies, runs and
RETURN are those of SASE+ (Agrawal et al. 2008); what they mean is stated in
`cep_core.algebra.patterns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce

from cep_core import algebra
from cep_core.algebra import Node, Strategy, patterns
from cep_core.algebra.expressions import (
    TRUE,
    And,
    Column,
    Constant,
    Expression,
    Function,
    walk,
)
from cep_core.algebra.patterns import RUN_AGGREGATES
from cep_core.errors import AlgebraError, SchemaFault, Span
from cep_core.languages.cel.cel import Catalog, Prepared, known_schema
from cep_core.languages.formula import formula
from cep_core.languages.names import unknown
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.sase.lowering import Item, SequenceLowering
from cep_core.languages.sase.scope import (
    INDEXES,
    TAG,
    Reference,
    Variable,
    Variables,
    index_of,
)
from cep_core.languages.tokens import Token, lexis

KEYWORDS = ("EVENT", "SEQ", "ANY", "WHERE", "WITHIN", "RETURN", "PUBLISH", "AS")
_STRATEGIES: dict[str, Strategy] = {
    "SKIP_TILL_ANY_MATCH": "any",
    "SKIP_TILL_NEXT_MATCH": "next",
    "STRICT_CONTIGUITY": "strict",
    "PARTITION_CONTIGUITY": "partition",
}
_CLAUSES = "the end of the query or WHERE, WITHIN, RETURN, PUBLISH in this order"
LEXIS = lexis("!.[]∧∨¬", INDEXES)


def read(reader: TokenReader, catalog: Catalog, functions: Mapping[str, Function]) -> Prepared:
    """Return a query as algebra; raises QueryError or AlgebraError."""
    return _Parser(reader, catalog, functions).whole()


@dataclass(slots=True)
class _Parser:
    reader: TokenReader
    catalog: Catalog
    functions: Mapping[str, Function]
    reads: dict[str, None] = field(default_factory=dict)
    variables: Variables = field(default_factory=lambda: Variables(()))
    strategy: Token = field(default_factory=lambda: Token("end", "", 0, 0))
    tests: dict[str, Expression] = field(default_factory=dict)  # attributes in brackets

    def whole(self) -> Prepared:
        """Read the text."""
        reader = self.reader
        reader.expect_word("EVENT")
        pattern = reader.token.span
        self.variables = Variables(self._pattern())
        strategy, condition = self._where()
        window = self._within()
        lowering = SequenceLowering(self.variables, self.functions, window, strategy, pattern)
        lowering.partition = self._partition(strategy, condition)
        items = self._return()
        publishes = reader.publication(self.reads)
        reader.take_sign(";")
        self._refuse_strategy()
        reader.expect_end(_CLAUSES)
        return Prepared(lowering.lowered(condition, items), publishes, (), tuple(self.reads))

    def _refuse_strategy(self) -> None:
        """Raise QueryError at a strategy: it has been read where it may stand."""
        token = self.reader.token
        if token.word in _STRATEGIES:
            known = ", ".join(self.variables.shown())
            hint = f"write WHERE {token.text}({known}) {{ all conditions }}"
            raise self.reader.fault("a strategy stands right behind WHERE", token.span, hint)

    # -- EVENT -----------------------------------------------------------------------------

    def _pattern(self) -> list[Variable]:
        reader = self.reader
        if not self._is_call("SEQ"):
            if reader.is_sign("!"):
                raise reader.expected("SEQ (a negation needs a sequence)")
            return [self._component(0)]
        reader.next()
        reader.expect_sign("(")
        found = [self._component(0)]
        while reader.take_sign(","):
            if len(found) == patterns.MOST_COMPONENTS:
                message = f"a sequence has at most {patterns.MOST_COMPONENTS} components"
                raise reader.fault(message, reader.token.span)
            found.append(self._component(len(found)))
        hint = f"{reader.token.text} is a word of the language: a variable needs another name"
        if reader.token.word in KEYWORDS:
            raise reader.expected("')' or a comma", hint)
        reader.expect_sign(")", " or a comma")
        names = [one.name for one in found]
        for place, one in enumerate(found):
            if one.name in names[:place]:
                raise AlgebraError(
                    f"two components are called {one.name}",
                    hint="give each a variable of its own",
                    span=one.span,
                )
        if all(one.negated for one in found):
            raise AlgebraError("some component has to occur", span=found[0].span)
        return found

    def _is_call(self, word: str) -> bool:
        reader = self.reader
        after = reader.tokens[min(reader.at + 1, len(reader.tokens) - 1)]
        return reader.is_word(word) and after.text == "("

    def _component(self, position: int) -> Variable:
        """Read a component."""
        reader = self.reader
        start = reader.token.span
        negated = reader.take_sign("!")
        inside = reader.take_sign("(")
        streams, name = self._types()
        repeated = reader.take_sign("+")
        if repeated and negated:
            raise AlgebraError(
                "what is negated occurs not even once, so + says nothing", span=start
            )
        if reader.is_name():
            token = reader.next()
            name, start = token.text, token.span
            brackets = reader.token
            if self._take_brackets() and not repeated:
                raise AlgebraError(
                    f"{name}[] is a run, and its type is not repeated",
                    hint="write + after the type",
                    span=brackets.span,
                )
        if inside:
            reader.expect_sign(")")
        node, lacking = self._any(streams, start)
        return Variable(name, position, node, lacking, negated, repeated, start)

    def _take_brackets(self) -> bool:
        """Consume [] if it is next; return True if so."""
        token = self.reader.token
        found = token.kind == "verbatim" and index_of(token.text) == ""
        if found:
            self.reader.next()
        return found

    def _types(self) -> tuple[list[algebra.Stream], str]:
        """Read a type, or ANY of several; return their streams and the name without a variable."""
        reader = self.reader
        if not self._is_call("ANY"):
            stream = self._type()
            return [stream], stream.name
        start = reader.next()
        reader.expect_sign("(")
        streams = reader.listed(self._type)
        reader.expect_sign(")", " or a comma")
        for place, one in enumerate(streams):
            if one in streams[:place]:
                raise AlgebraError(f"ANY names {one.name} twice", span=start.span)
        return streams, f"any{start.start}" if len(streams) > 1 else streams[0].name

    def _type(self) -> algebra.Stream:
        """Read the name of a type; the paper's SHELF-READING finds SHELF_READING."""
        reader = self.reader
        if reader.token.kind != "name":
            raise reader.expected("an event type")
        if self._is_call("SEQ"):
            hint = "write the components of both one after the other"
            message = "a sequence cannot be inside a sequence"
            raise reader.fault(message, reader.token.span, hint)
        token = reader.next()
        text, end = token.text, token.end
        while reader.is_sign("-") and reader.tokens[reader.at + 1].kind == "name":
            reader.next()
            part = reader.next()
            text, end = f"{text}_{part.text}", part.end
        schema = known_schema(self.catalog, "event type", text, Span(token.start, end))
        self.reads[text] = None
        return algebra.stream(text, schema)

    def _any(
        self, streams: list[algebra.Stream], span: Span
    ) -> tuple[Node, dict[str, tuple[int, ...]]]:
        """Return the events of any of the types, and which types lack an attribute."""
        types: dict[str, type] = {}
        for one in streams:
            for name, kind in zip(one.schema.names, one.schema.types, strict=True):
                if types.setdefault(name, kind) is not kind:
                    raise AlgebraError(
                        f"{name} has another type in {one.name}",
                        hint="ANY needs one type for each attribute; use a query for each",
                        span=span,
                        kind=SchemaFault,
                    )
        nodes: list[Node] = [*streams]
        lacking: dict[str, tuple[int, ...]] = {}
        if any(one.schema != streams[0].schema for one in streams):
            nodes = []
            for number, one in enumerate(streams):
                columns: dict[str, Expression] = dict.fromkeys(types, Constant(None))
                columns |= {name: Column(2, at) for at, name in enumerate(one.schema.names)}
                columns[TAG] = Constant(number)
                nulls = [*types.values(), int]
                nodes.append(algebra.project(one, [*columns.items()], self.functions, span, nulls))
                for name in types:
                    if name not in one.schema.names:
                        lacking[name] = (*lacking.get(name, ()), number)
        return reduce(lambda left, right: algebra.union(left, right, span), nodes), lacking

    # -- WHERE -----------------------------------------------------------------------------

    def _where(self) -> tuple[Strategy, Expression]:
        reader = self.reader
        if not reader.take_word("WHERE"):
            return "any", TRUE
        strategy = _STRATEGIES.get(reader.token.word)
        if strategy is None:
            return "any", self._condition()
        self.strategy = reader.next()
        self._strategy_variables()
        reader.expect_sign("{")
        condition = TRUE if reader.is_sign("}") else self._condition()
        reader.expect_sign("}")
        return strategy, condition

    def _strategy_variables(self) -> None:
        """Read the variables in parentheses: those of the pattern that have to occur."""
        reader = self.reader
        opened = reader.expect_sign("(")
        given: list[str] = []
        while reader.token.kind == "name":
            given.append(reader.next().text)
            self._take_brackets()
            if not reader.take_sign(","):
                break
        closed = reader.expect_sign(")", " or a comma")
        known = [one.name for one in self.variables.positive()]
        if given != known:
            shown = ", ".join(self.variables.shown())
            raise AlgebraError(
                "a strategy names the components that have to occur, in order",
                hint=f"write ({shown})",
                span=Span(opened.start, closed.end),
            )

    def _condition(self) -> Expression:
        found = formula(self.reader, self.variables, self._own)
        return self.variables.lenient(found)

    def _own(self, reader: TokenReader) -> Expression | None:
        """Read what only SASE has: attributes of variables, equivalence tests, aggregates."""
        token = reader.token
        if token.kind == "verbatim":  # [i] and [last] are attributes, too
            reader.next()
            name = token.text.strip("[] \t\n")
            if not name.isidentifier():
                raise reader.fault(f"{token.text} belongs behind a variable", token.span)
            return self._tested(name, token.span)
        if reader.is_sign("["):
            return self._equivalences()
        if token.kind != "name" or token.word in ("TRUE", "FALSE", "NULL"):
            return None
        self._refuse_strategy()
        if token.word in KEYWORDS:
            raise reader.expected("a value")
        after = reader.tokens[reader.at + 1]
        if token.word in RUN_AGGREGATES and after.text == "(" and token.text not in self.functions:
            return self._aggregate()
        if after.text != "." and after.kind != "verbatim":
            return None
        reader.next()
        variable, index = self._indexed(token)
        if not reader.take_sign("."):
            raise reader.expected(f"'.' and an attribute of {token.text}")
        attribute = reader.expect_name("an attribute")
        span = Span(token.start, attribute.end)
        return self.variables.attribute(variable, index, attribute.text, span)

    def _indexed(self, token: Token) -> tuple[Variable, str | None]:
        """Return the variable of a name, and what follows it in brackets, None for nothing."""
        variable = self.variables.named(token.text)
        if variable is None:
            known = [one.name for one in self.variables.all]
            message = f"there is no variable {token.text}"
            raise unknown(token.text, known, token.span, message)
        if self.reader.token.kind != "verbatim":
            return variable, None
        return variable, index_of(self.reader.next().text)

    def _aggregate(self) -> Expression:
        """Read an aggregate over a run."""
        reader = self.reader
        function = reader.next()
        reader.expect_sign("(")
        token = reader.token
        if token.kind != "name":
            raise reader.expected("a run, such as b[],")
        if token.word in RUN_AGGREGATES and reader.tokens[reader.at + 1].text == "(":
            hint = "write the run and its attribute, such as b[].x"
            raise reader.fault("an aggregate cannot be inside an aggregate", token.span, hint)
        reader.next()
        variable, index = self._indexed(token)
        name = reader.expect_name("an attribute").text if reader.take_sign(".") else None
        end = reader.expect_sign(")")
        span = Span(function.start, end.end)
        return self.variables.aggregate(function.word, variable, index or "", name, span)

    def _equivalences(self) -> Expression:
        """Read [a, b] or [a = value]."""
        reader = self.reader
        opened = reader.expect_sign("[")
        found = reader.listed(self._equivalence)
        closed = reader.expect_sign("]", " or a comma")
        return And(tuple(found), span=Span(opened.start, closed.end)) if found[1:] else found[0]

    def _equivalence(self) -> Expression:
        """Read `a`, or `a = value`."""
        token = self.reader.expect_name("an attribute")
        if not self.reader.take_sign("="):
            return self._tested(token.text, token.span)
        value = formula(self.reader, self.variables, self._own)
        if any(isinstance(part, Column) for part in walk(value)):
            raise AlgebraError("an equivalence test compares with a constant", span=value.span)
        return self.variables.equivalence(token.text, value, token.span)

    def _tested(self, name: str, span: Span) -> Expression:
        """Return the test of an attribute that is alone in brackets."""
        test = self.variables.equivalence(name, None, span)
        self.tests[name] = self.variables.lenient(test)
        return test

    def _partition(self, strategy: Strategy, condition: Expression) -> tuple[str, ...]:
        """Return the attributes that make partitions of contiguous events."""
        if strategy != "partition":
            return ()
        asked = set(patterns.conjuncts_of(condition))
        common = [
            name
            for name, test in self.tests.items()
            if asked.issuperset(patterns.conjuncts_of(test))
            and all(v.has(name) and name not in v.lacking for v in self.variables.positive())
        ]
        if not common:
            raise AlgebraError(
                "partition_contiguity needs an equivalence test over all components",
                hint="add one to the condition, such as [id]",
                span=self.strategy.span,
            )
        return tuple(common)

    # -- the other clauses -----------------------------------------------------------------

    def _within(self) -> Expression | None:
        reader = self.reader
        if not reader.take_word("WITHIN"):
            return None
        hint = "leave WITHIN out if there is no window"
        return parameter(reader.duration("12 hours", zero=hint))

    def _return(self) -> list[Item] | None:
        """Read RETURN; None stands for all attributes."""
        reader = self.reader
        if not reader.take_word("RETURN") or reader.take_sign("*"):
            return None
        return reader.listed(self._item)

    def _item(self) -> Item:
        reader = self.reader
        first = reader.token
        expression = formula(reader, self.variables, self._own)
        last = reader.tokens[reader.at - 1]
        for part in walk(expression):
            if isinstance(part, Column):
                _require_one(self.variables.references[part.index], part.span)
        plain = isinstance(expression, Column) and last.kind == "name"
        name = reader.result_name(last.text if plain else None)
        return name, expression, Span(first.start, last.end)


def _require_one(reference: Reference, span: Span | None) -> None:
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
