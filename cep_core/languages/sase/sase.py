"""SASE, complex event queries over typed events (Wu, Diao and Rizvi 2006, section 2).

    query     := EVENT pattern [NONSTRICT] [WHERE qualification] [WITHIN [<=] duration]
                 [AFTER MATCH policy] [RETURN items] [PUBLISH name]
    pattern   := item | SEQ( item {, item} )
    item      := [mark] component | [mark] ( sequence {OR sequence} ) [times manner]
               | ( single AND single {AND single} [WITHIN duration] ) | EVERY item
               | ! types [variable] [FOR duration]
    sequence  := item {, item}
    component := types [times manner] [variable [ [] ]] [UNTIL types [variable]]
    single    := types [variable] | ! types [variable] [FOR duration]
    types     := type | ANY( type {, type} )
    type      := name | AT 'cron expression' [ZONE 'zone']
    times     := ? | * | + | {n} | {m,n} | {m,}
    manner    := [greedy | reluctant | longest] [mark]
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
the run, of an expression as well, SUM(b[].a * b[].c); with `[..i-1]` over what precedes b[i].
`time(a)` is when an event ends.  OR is also |.

Without RETURN the result has the attributes of all components that are not negated, of a run its
last event's and `b_count`; where names collide they are written `x_a`.  Strategies, runs and
RETURN are those of SASE+ (Agrawal et al. 2008); what they mean is stated in
`cep_core.algebra.patterns`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cep_core.algebra import Node
from cep_core.algebra.expressions import TRUE, Column, Expression, Functions
from cep_core.algebra.pattern_tree import StepMark
from cep_core.errors import AlgebraError, Extent
from cep_core.languages.formula import CONSTANTS, formula, is_attribute
from cep_core.languages.names import AlgebraQuery, ResultItem, StreamCatalog
from cep_core.languages.reader import TokenReader
from cep_core.languages.sase.components import KEYWORDS as KEYWORDS
from cep_core.languages.sase.components import TIMES, ComponentReader, ReadPattern, take_brackets
from cep_core.languages.sase.lowering import (
    PatternLowering,
    clauses,
    require_partition,
)
from cep_core.languages.sase.scope import INDEXES, ValueReader, Variables
from cep_core.languages.tokens import lexis

_STRATEGIES: dict[str, StepMark] = {
    "SKIP_TILL_ANY_MATCH": "any",
    "SKIP_TILL_NEXT_MATCH": "nearest",
    "STRICT_CONTIGUITY": "strict",
    "PARTITION_CONTIGUITY": "partition",
}
_CLAUSES = "the end of the query or WHERE, WITHIN, AFTER MATCH, RETURN, PUBLISH in this order"
LEXIS = lexis("!.[]∧∨¬?|", rf"{INDEXES}|{TIMES}")


def read(reader: TokenReader, catalog: StreamCatalog, functions: Functions) -> AlgebraQuery:
    """Return a query as algebra; raises QueryError or AlgebraError."""
    reader.expect_word("EVENT")
    span = reader.token.span
    reads: dict[str, None] = {}
    pattern = ComponentReader(reader, catalog, functions, reads).pattern()
    variables = Variables(pattern.variables)
    query = _Query(reader, functions, variables, ValueReader(variables, functions))
    node, publishes = query.read(pattern, span)
    return AlgebraQuery(node, publishes, {}, tuple(reads))


@dataclass(slots=True)
class _Query:
    reader: TokenReader
    functions: Functions
    variables: Variables
    values: ValueReader

    def read(self, pattern: ReadPattern, span: Extent) -> tuple[Node, str | None]:
        """Read the clauses behind the pattern; return the query and the name that it publishes.

        The name is None without PUBLISH.  ``span`` is that of the pattern, for errors.
        """
        reader = self.reader
        simultaneous = reader.take_word("NONSTRICT")
        at = reader.at
        strategy, condition = self._where()
        found = clauses(reader, self.variables)
        partition = self.values.tested_by_all(condition)
        place = reader.tokens[at + 1].span if strategy == "partition" else None
        require_partition(pattern, partition, span, place)
        items = self._return()
        rules = replace(found, simultaneous=simultaneous, mark=strategy, spans=pattern.spans)
        lowering = PatternLowering(
            *(self.variables, self.functions, pattern.tree, rules, span, partition)
        )
        publishes = reader.publication()
        reader.take_sign(";")
        self._refuse_strategy()
        reader.expect_end(_CLAUSES)
        return lowering.lowered(condition, items), publishes

    def _refuse_strategy(self) -> None:
        """Raise QueryError if a strategy is next: it may stand only right behind WHERE."""
        token = self.reader.token
        if token.word in _STRATEGIES:
            known = ", ".join(self.variables.shown())
            hint = f"write WHERE {token.text}({known}) {{ all conditions }}"
            raise self.reader.fault("a strategy stands right behind WHERE", token.span, hint)

    # -- WHERE -----------------------------------------------------------------------------

    def _where(self) -> tuple[StepMark, Expression]:
        reader = self.reader
        if not reader.take_word("WHERE"):
            return "any", TRUE
        strategy = _STRATEGIES.get(reader.token.word)
        if strategy is None:
            self._refuse_unknown_strategy()
            return "any", self._condition()
        reader.next()
        self._strategy_variables()
        reader.expect_sign("{")
        condition = TRUE if reader.is_sign("}") else self._condition()
        reader.expect_sign("}")
        return strategy, condition

    def _refuse_unknown_strategy(self) -> None:
        """Raise QueryError if a name is next and a brace behind it: such a strategy is unknown."""
        reader = self.reader
        texts = [token.text for token in reader.tokens[reader.at + 1 :]]
        if texts[:1] == ["("] and ")" in texts:
            texts = texts[texts.index(")") + 1 :]
        if reader.token.kind == "name" and texts[:1] == ["{"]:
            hint = "strategies are " + ", ".join(one.lower() for one in _STRATEGIES)
            raise reader.fault(f"there is no strategy {reader.token.text}", reader.token.span, hint)

    def _strategy_variables(self) -> None:
        """Consume `(variables)`; raise AlgebraError unless they are those that have to occur."""
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
                span=Extent(opened.start, closed.end),
            )

    def _condition(self) -> Expression:
        found = formula(self.reader, self.variables, self._own)
        return self.variables.lenient(found)

    def _own(self, reader: TokenReader) -> Expression | None:
        """Read a value of SASE's own, such as `a.x` or `[x]`; None if none stands here.

        Raises QueryError at a keyword."""
        token = reader.token
        if token.kind == "name" and token.word not in CONSTANTS:
            self._refuse_strategy()
            if token.word in KEYWORDS and not is_attribute(self.variables, token):
                raise reader.expected("a value")
        return self.values.read(reader)

    # -- the other clauses -----------------------------------------------------------------

    def _return(self) -> list[ResultItem] | None:
        """Read RETURN; None stands for all attributes."""
        reader = self.reader
        if not reader.take_word("RETURN") or reader.take_sign("*"):
            return None
        return reader.listed(self._item)

    def _item(self) -> ResultItem:
        reader = self.reader
        first = reader.token
        expression = formula(reader, self.variables, self._own)
        last = reader.tokens[reader.at - 1]
        self.variables.require_single(expression)
        plain = isinstance(expression, Column) and last.kind == "name"
        name = reader.result_name(last.text if plain else None)
        return ResultItem(name, expression, Extent(first.start, last.end))
