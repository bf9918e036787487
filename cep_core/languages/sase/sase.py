"""SASE, complex event queries over typed events (Wu, Diao and Rizvi 2006, section 2).

    query     := EVENT pattern [NONSTRICT] [WHERE qualification] [WITHIN [<=] duration]
                 [AFTER MATCH policy] [RETURN items] [PUBLISH name]
    pattern   := item | SEQ( item {, item} )
    item      := [mark] component | [mark] ( sequence {OR sequence} ) [times manner]
               | ( single AND single {AND single} [WITHIN duration] ) | ! types [variable]
    sequence  := item {, item}
    component := types [times manner] [variable [ [] ]] [UNTIL types [variable]]
    single    := [!] types [variable]
    types     := type | ANY( type {, type} )
    type      := name | AT 'cron expression' [ZONE 'zone']
    times     := ? | * | + | {n} | {m,n} | {m,}
    manner    := [greedy | reluctant] [mark]
    mark      := any | next | nearest | strict | partition
    policy    := SKIP TO NEXT | SKIP PAST LAST | SKIP TO FIRST name | SKIP TO LAST name
               | FIRST ONLY | RESTART | NEWEST
    qualification := condition | strategy( variables ) { condition }
    strategy  := skip_till_any_match | skip_till_next_match | strict_contiguity
               | partition_contiguity
    items     := * | expression [AS name] {, expression [AS name]}

Conditions are those of all languages, and ∧ ∨ ¬ for AND, OR, NOT.  `x.a` is an attribute of a
component, `a` alone if it is unique.  `[a]` asks for equal values of a in all components that
have it, the negated ones included, `[a = 'v']` for the value v, `[a, b]` is both.  Of a run
`B+ b[]`, `b[i].a` is each event, `b[i-1].a` the one before it, `b[1].a` and `b[last].a` the first
and last, `b[3].a` and `b[last-1].a` others; COUNT(b[]), SUM, AVG, MIN, MAX and LIST(b[].a) are over
the run, with `[..i-1]` over what precedes b[i].  `time(a)` is when an event ends.  OR is also |.

Without RETURN the result has the attributes of all components that are not negated, of a run its
last event's and `b_count`; where names collide they are written `x_a`.  Strategies, runs and
RETURN are those of SASE+ (Agrawal et al. 2008); what they mean is stated in
`cep_core.algebra.patterns`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cep_core.algebra import Loop, One, Rules, Strategy, patterns
from cep_core.algebra.expressions import (
    TRUE,
    And,
    Arithmetic,
    Column,
    Constant,
    Expression,
    Function,
    walk,
)
from cep_core.algebra.pattern_tree import Mark, Policy, trees_in
from cep_core.errors import AlgebraError, Span
from cep_core.languages.cel.cel import Catalog, Prepared
from cep_core.languages.formula import formula
from cep_core.languages.names import unknown
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.sase.components import (
    KEYWORDS as KEYWORDS,
)
from cep_core.languages.sase.components import (
    TIMES,
    ComponentReader,
    take_brackets,
)
from cep_core.languages.sase.lowering import Item, SequenceLowering
from cep_core.languages.sase.scope import (
    INDEXES,
    RUN_VALUES,
    Reference,
    Variable,
    Variables,
    index_of,
)
from cep_core.languages.tokens import Token, lexis

_STRATEGIES: dict[str, Strategy] = {
    "SKIP_TILL_ANY_MATCH": "any",
    "SKIP_TILL_NEXT_MATCH": "next",
    "STRICT_CONTIGUITY": "strict",
    "PARTITION_CONTIGUITY": "partition",
}
_POLICIES: dict[tuple[str, ...], Policy] = {
    ("SKIP", "TO", "NEXT"): "to next",
    ("SKIP", "PAST", "LAST"): "past last",
    ("FIRST", "ONLY"): "first only",
    ("RESTART",): "restart",
    ("NEWEST",): "newest",
    ("SKIP", "TO", "FIRST"): "to first",
    ("SKIP", "TO", "LAST"): "to last",
}
_MARKS: dict[Strategy, Mark] = {"next": "nearest"}
_CLAUSES = "the end of the query or WHERE, WITHIN, AFTER MATCH, RETURN, PUBLISH in this order"
LEXIS = lexis("!.[]∧∨¬?|", rf"{INDEXES}|{TIMES}")


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
        span = reader.token.span
        pattern = ComponentReader(reader, self.catalog, self.functions, self.reads).pattern()
        self.variables = Variables(pattern.variables)
        simultaneous = reader.take_word("NONSTRICT")
        strategy, condition = self._where()
        inclusive, window = self._within()
        policy, target = self._after_match()
        lowering = SequenceLowering(self.variables, self.functions, window, strategy, span)
        lowering.partition = self._partition(strategy, condition)
        items = self._return()
        new = simultaneous or policy != "none" or not pattern.plain
        if not (new or self.variables.needs_pattern()):
            if inclusive and window is not None:
                lowering.window = Arithmetic("+", window, Constant(1), span=window.span)
        else:
            mark = _MARKS.get(strategy, strategy)
            lowering.partition = lowering.partition or self._tested_by_all(condition)
            marks = [one.mark for one in trees_in(pattern.tree) if isinstance(one, One | Loop)]
            if "partition" in marks and not lowering.partition:
                raise _without_partition("the mark partition", span)
            lowering.rules = Rules(
                *(window, inclusive, simultaneous, mark),
                policy=policy,
                target=target,
                spans=pattern.spans,
            )
            lowering.tree = pattern.tree
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
            take_brackets(reader)
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
        if token.word == "TIME" and after.text == "(" and token.text not in self.functions:
            return self._time()
        if token.word in RUN_VALUES and after.text == "(" and token.text not in self.functions:
            return self._aggregate()
        if after.text != "." and after.kind != "verbatim":
            return None
        reader.next()
        variable, index = self._indexed(token)
        if not reader.take_sign("."):
            raise reader.expected(f"'.' and an attribute of {token.text}")
        attribute = reader.nested(reader.expect_name("an attribute"))
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
        if token.word in RUN_VALUES and reader.tokens[reader.at + 1].text == "(":
            hint = "write the run and its attribute, such as b[].x"
            raise reader.fault("an aggregate cannot be inside an aggregate", token.span, hint)
        reader.next()
        variable, index = self._indexed(token)
        name = None
        if reader.take_sign("."):
            name = reader.nested(reader.expect_name("an attribute")).text
        end = reader.expect_sign(")")
        span = Span(function.start, end.end)
        return self.variables.aggregate(function.word, variable, index or "", name, span)

    def _time(self) -> Expression:
        """Read time(a): when an event ends."""
        reader = self.reader
        start = reader.next()
        reader.expect_sign("(")
        token = reader.expect_name("a component")
        variable, index = self._indexed(token)
        end = reader.expect_sign(")")
        return self.variables.time(variable, index, Span(start.start, end.end))

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
        common = self._tested_by_all(condition)
        if not common:
            raise _without_partition("partition_contiguity", self.strategy.span)
        return common

    def _tested_by_all(self, condition: Expression) -> tuple[str, ...]:
        """Return the attributes in which all components agree that have to occur."""
        asked = set(patterns.conjuncts_of(condition))
        return tuple(
            name
            for name, test in self.tests.items()
            if asked.issuperset(patterns.conjuncts_of(test))
            and all(v.has(name) and name not in v.lacking for v in self.variables.positive())
        )

    # -- the other clauses -----------------------------------------------------------------

    def _within(self) -> tuple[bool, Expression | None]:
        """Read the window, and whether its length belongs to it."""
        reader = self.reader
        if not reader.take_word("WITHIN"):
            return False, None
        hint = "leave WITHIN out if there is no window"
        inclusive = reader.take_sign("<=")
        zero = None if inclusive else hint
        return inclusive, parameter(reader.duration("12 hours", zero=zero, before="AFTER"))

    def _after_match(self) -> tuple[Policy, int | None]:
        """Read AFTER MATCH and its policy, with the component that it goes to."""
        reader = self.reader
        if not reader.take_word("AFTER"):
            return "none", None
        self._expect("MATCH")
        start = reader.at
        words = [reader.next().word for _ in range(_longest(reader))]
        policy = _POLICIES.get(tuple(words))
        if policy is None:
            to = ("to first", "to last")
            known = ", ".join(
                " ".join(words) + " x" * (one in to) for words, one in _POLICIES.items()
            )
            message = "this is no policy after a match"
            raise reader.fault(message, reader.tokens[start].span, f"policies are {known}")
        if policy not in ("to first", "to last"):
            return policy, None
        token = reader.expect_name("a component")
        variable = self.variables.named(token.text)
        if variable is None or variable.negated:
            known = ", ".join(one.name for one in self.variables.positive())
            message = f"there is no component {token.text} that occurs"
            raise reader.fault(message, token.span, f"components are {known}")
        return policy, variable.position

    def _expect(self, word: str) -> None:
        if not self.reader.take_word(word):
            raise self.reader.expected(word)

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


def _without_partition(what: str, span: Span) -> AlgebraError:
    message = f"{what} needs an equivalence test over all components"
    return AlgebraError(message, hint="add one to the condition, such as [id]", span=span)


def _longest(reader: TokenReader) -> int:
    """Return the number of words of the policy that may be next."""
    sizes = {words[0]: len(words) for words in _POLICIES}
    return sizes.get(reader.token.word, 0)


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
