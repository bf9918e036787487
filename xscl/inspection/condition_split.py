"""The evaluation of a block's conditions: shared, by an index, or as a residual.

`shared`: the automaton, with all patterns.  `indexed`: found without a test of each.  `narrowed`:
tested on the nodes that an index has left.  `tested`: tested on each node that the rest of the
pattern has left.  `residual`: XPath on these nodes, once for each expression and node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from xscl.documents.results import XSCL, Subscription
from xscl.language.scope import shortest, walk
from xscl.language.syntax import Block, Condition, Residual, Step, ValueTest
from xscl.language.unparse import unparse
from xscl.planning.compile import compile_query
from xscl.planning.dataflow import Dataflow
from xscl.plurals import counted
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.automaton.structure import is_structural
from xscl.shredding.conditions.atoms import plan
from xscl.shredding.conditions.unevaluated import Tally

EvaluatedAt: TypeAlias = Literal["shared", "indexed", "narrowed", "tested", "residual"]


class SplitCondition(NamedTuple):
    """A condition, where it is evaluated, and what would be faster."""

    text: str
    where: EvaluatedAt
    how: str = ""
    hint: str = ""


def placed(block: Block) -> Iterator[SplitCondition]:
    """Yield the conditions of a block in the order of its pattern nodes."""
    for node in pattern(block).nodes:
        for condition in node.step.conditions:
            yield _placed(shortest(condition))


def _placed(condition: Condition) -> SplitCondition:
    text = unparse(condition)
    if is_structural(condition):
        return SplitCondition(text, "shared")
    residuals = [node for node in walk(condition) if isinstance(node, Residual)]
    lookups = plan((condition,))
    if residuals:
        where = "where the names that it needs exist" if lookups else ""
        return SplitCondition(text, "residual", where, _hint(residuals[0]))
    if not lookups:
        return SplitCondition(text, "tested")
    proved = any(lookup.proves for lookup in lookups)
    kinds = dict.fromkeys(atom.question.kind for lookup in lookups for atom in lookup.atoms)
    return SplitCondition(text, "indexed" if proved else "narrowed", ", ".join(kinds))


def _hint(residual: Residual) -> str:
    if residual.selects:
        return "a path of names and // alone is shared; write other axes as conditions"
    return "a path, perhaps in functions, compared with a constant would be indexed"


def expressions(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield what may fail to be evaluated: residual conditions, and functions of values."""
    for node in walk(tuple(blocks)):
        if isinstance(node, Residual):
            yield node.text
        elif isinstance(node, ValueTest) and node.through is not None:
            yield unparse(node.through.operand)


def lines(block: Block) -> Iterator[str]:
    """Yield the split of a block, for `explain`; nothing for one without conditions."""
    steps = [node for node in walk(block) if isinstance(node, Step)]
    if not any(step.conditions for step in steps):
        return
    yield f"conditions of {block.stream}"
    for one in placed(block):
        how = f" ({one.how})" if one.how else ""
        hint = f"; {one.hint}" if one.hint and one.where != "indexed" else ""
        yield f"  [{one.text}]: {one.where}{how}{hint}"


# -- Conditions that could not be evaluated, and so did not hold -----------------------------


def unmet(dataflow: Dataflow, subscription: Subscription) -> list[Tally]:
    """Return the expressions of a subscription that were not evaluated in some documents."""
    tallies = dataflow.automaton.unevaluated
    if not len(tallies) or subscription.language != XSCL:
        return []
    return tallies.of(_expressions(subscription.query))


@lru_cache(maxsize=1_000)
def _expressions(query: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expressions(compile_query(query).normal.blocks)))


def unmet_lines(dataflow: Dataflow, subscription: Subscription) -> Iterator[str]:
    """Yield a line for each expression, for `explain`."""
    for one in unmet(dataflow, subscription):
        yield (
            f"not evaluated in {counted(one.documents, 'document')}, the latest: {one.latest}:"
            f" [{one.expression}]: {one.reason}; it does not hold there"
        )
    tallies = dataflow.automaton.one_sided
    for one in tallies.of(_expressions(subscription.query)) if len(tallies) else ():
        yield (
            f"compares a number with a text in {counted(one.documents, 'document')},"
            f" the latest: {one.latest}: [{one.expression}]; such a comparison does not hold"
        )
