"""EQL, the event query language of NEXT CEP.

Schultz-Møller, Migliavacca and Pietzuch, *Distributed Complex Event Processing with Query
Rewriting*, 2009, section 3.5.

    query      := SELECT selection FROM pattern [WHERE qualification {, qualification}]
                  [PUBLISH name]
    selection  := * | item {, item}          item := expression [AS name] | ALL(id.f) [AS name]
    pattern    := exception { | exception }                              union
    exception  := next { \\ next }                                        exception
    next       := postfix { ; postfix }                                  next
    postfix    := operand { + | @ duration }                             iteration, time
    operand    := stream [alias] | AT 'cron expression' [ZONE 'zone'] alias | ( pattern )
    qualification := FILTER(condition) | condition
    atom       := expression op expression | field CONTAINS string
                | (id, id) OCCURS WITHIN duration
    field      := id.f | PREV(id.f) | ALL(id.f)      f alone if one stream has f

`op` is one of = <> < <= > >=; conditions have AND, OR, NOT and parentheses; expressions + - * /
and functions.  An expression that is undefined makes its comparison false.

- FILTER(p): events that do not satisfy p are skipped.  p alone: the detection ends with them.  A
  condition belongs to the lowest operator that has all its ids.
- x;y takes the first y after x, by the complete-history time model: of several that end together
  the one that began first, and of composite ones the one whose parts came first.  Equal ones are
  all taken.  One y is taken, whether it satisfies the conditions or not.
- x+ puts out each run of consecutive events.  Inside it x.f is the event that occurs, PREV(x.f) the
  one before, ALL(x.f) all before; elsewhere x.f is the last one.
- (x;y)\\z: z ends what waits for y.  It comes after x and before y, or at the end of y.  x;(y\\z)
  is the same.  (x+)\\z: z comes between two events of a run, or with one of them.
- x@t is a moment t after x, with the attributes of x: it begins when it ends.
- Alternatives with the same attributes may share an alias: (visa t | master t).

A query with other quantifiers, marks, AND, absences or a policy is read by `matching`.

The precedence of the operators, from + and @ down to |, the lists of SELECT, and @ in a pattern are
ours; the paper has parentheses, * and the time operator of its core language.
"""

from __future__ import annotations

from collections.abc import Mapping

from cep_core import algebra
from cep_core.algebra.expressions import Column, Expression, Function, Items, rewrite
from cep_core.errors import Span
from cep_core.languages.cel.cel import Catalog, Prepared
from cep_core.languages.eql import pattern_queries
from cep_core.languages.eql.lowering import Above, PatternLowering
from cep_core.languages.eql.parser import EventQuery, Parser, Selected
from cep_core.languages.eql.parts import LoweredPart, read_before
from cep_core.languages.eql.pattern_operands import is_pattern
from cep_core.languages.names import repeated
from cep_core.languages.reader import TokenReader
from cep_core.rewrite.cost import Rates
from cep_core.rewrite.pattern import Condition, Ref, detected, iterated
from cep_core.rewrite.report import binding, report
from cep_core.rewrite.rewriting import rewritten


def read(reader: TokenReader, catalog: Catalog, functions: Mapping[str, Function]) -> Prepared:
    """Return a query as algebra; raises QueryError or AlgebraError."""
    reader.expect_word("SELECT")
    if reader.tokens[-2].text == ";":  # ends the query, and is no operator
        reader.tokens = (*reader.tokens[:-2], reader.tokens[-1])
    items = reader.parts("FROM")
    reader.expect_word("FROM")
    if is_pattern(reader, catalog):
        return pattern_queries.read(reader, items, catalog, functions)
    query = Parser(reader, catalog, functions).whole(items)
    rates = {name: rate for name in query.reads if (rate := catalog.rate(name)) is not None}
    return lowered(query, rates, functions)


def lowered(query: EventQuery, rates: Rates, functions: Mapping[str, Function]) -> Prepared:
    """Return a query as algebra, its pattern rewritten by the rates."""
    pattern = rewritten(query.pattern, rates) if rates else query.pattern
    lowering = PatternLowering(query.schemas, functions)
    selection = query.selection if query.selection is not None else _everything(query)
    reads = frozenset().union(*(one.condition.read for one in selection))
    part = lowering.part(pattern, Above(reads))
    columns = [(one.name, _selected(one.condition, part)) for one in selection]
    node = algebra.project(
        part.node, columns, functions, repeated((one.name, one.span) for one in selection)
    )
    same = [(name, Column(2, place)) for place, name in enumerate(part.node.schema.names)]
    made = part.node if columns == same else node
    notes = (*binding(query.pattern), *report(query.pattern, pattern, rates))
    return Prepared(made, query.publishes, (), query.reads, notes, pattern)


def _selected(condition: Condition, part: LoweredPart) -> Expression:
    """Return an item over the columns of a part; of many events ALL is a tuple of values."""

    def value(node: Expression) -> Expression:
        if not isinstance(node, Column):
            return node
        ref = condition.refs[node.index]
        if ref not in part.values and ref.kind == "all":
            return Items((part.values[ref._replace(kind="field")],))
        return read_before(ref, part, part.values.__getitem__).expression

    return rewrite(condition.expression, value)


def _everything(query: EventQuery) -> tuple[Selected, ...]:
    """Return the items of SELECT *: all attributes, by alias and name if there are several."""
    sources = list({source.alias: source for source in detected(query.pattern)}.values())
    repeated = iterated(query.pattern)
    found = []
    for source in sources:
        schema = query.schemas[source.stream]
        for name, kind in zip(schema.names, schema.types, strict=True):
            ref = Ref("all" if source.alias in repeated else "field", source.alias, name, kind)
            whole = f"{source.alias}_{name}" if len(sources) > 1 else name
            found.append(
                Selected(whole, Condition(Column(2, 0), (ref,)), source.span or Span(0, 0))
            )
    return tuple(found)
