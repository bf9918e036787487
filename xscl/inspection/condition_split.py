"""The evaluation of a block's conditions: shared, by an index, or as a residual.

`shared`: the automaton, with all patterns.  `indexed`: found without a test of each.  `narrowed`:
tested on the nodes that an index has left.  `tested`: tested on each node that the rest of the
pattern has left.  `residual`: XPath on these nodes, once for each expression and node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple, TypeAlias

from xscl.language.scope import shortest, walk
from xscl.language.syntax import Block, Compare, Condition, Residual, Step, TextMatch
from xscl.language.unparse import unparse
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.automaton.subtree import is_structural
from xscl.shredding.conditions.atoms import plan

Where: TypeAlias = Literal["shared", "indexed", "narrowed", "tested", "residual"]


class Placed(NamedTuple):
    """A condition, where it is evaluated, and what would be faster."""

    text: str
    where: Where
    how: str = ""
    hint: str = ""


def placed(block: Block) -> Iterator[Placed]:
    """Yield the conditions of a block in the order of its pattern nodes."""
    for node in pattern(block).nodes:
        for condition in node.step.conditions:
            yield _placed(shortest(condition))


def _placed(condition: Condition) -> Placed:
    text = unparse(condition)
    if is_structural(condition):
        return Placed(text, "shared")
    residuals = [one for one in walk(condition) if isinstance(one, Residual)]
    lookups = plan((condition,))
    if residuals:
        where = "where the names that it needs exist" if lookups else ""
        return Placed(text, "residual", where, _hint(residuals[0]))
    if not lookups:
        return Placed(text, "tested")
    proved = any(lookup.proves for lookup in lookups)
    kinds = dict.fromkeys(atom.question.kind for lookup in lookups for atom in lookup.atoms)
    return Placed(text, "indexed" if proved else "narrowed", ", ".join(kinds))


def _hint(residual: Residual) -> str:
    if residual.selects:
        return "a path of names and // alone is shared; write other axes as conditions"
    return "a path, perhaps in functions, compared with a constant would be indexed"


def expressions(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield what may fail to be evaluated: residual conditions, and functions of values."""
    for one in walk(tuple(blocks)):
        if isinstance(one, Residual):
            yield one.text
        elif isinstance(one, Compare | TextMatch) and one.through is not None:
            yield unparse(one.through.operand)


def lines(block: Block) -> Iterator[str]:
    """Yield the split of a block, for `explain`; nothing for one without conditions."""
    steps = [one for one in walk(block) if isinstance(one, Step)]
    if not any(step.conditions for step in steps):
        return
    yield f"conditions of {block.stream}"
    for one in placed(block):
        how = f" ({one.how})" if one.how else ""
        hint = f"; {one.hint}" if one.hint and one.where != "indexed" else ""
        yield f"  [{one.text}]: {one.where}{how}{hint}"
