"""Absences and their opposites, as the tests write them."""

from functools import partial

from cep_core.algebra import Node, OuterJoin, outer_join
from cep_core.algebra.expressions import Expression


def alternative(
    left: Node,
    right: Node,
    predicate: Expression,
    window: Expression,
    *,
    paired: bool = True,
    moment: bool = False,
) -> OuterJoin:
    """Return FOLLOWED BY .. ELSE: pairs, and left rows that nothing answers."""
    return outer_join(left, right, predicate, (None, window), paired=paired, moment=moment)


absence = partial(alternative, paired=False)
"""NOT FOLLOWED BY: the left rows that nothing answers."""
timer = partial(alternative, paired=False, moment=True)
"""E@window: a moment so long after each left row that no right row has ended."""
