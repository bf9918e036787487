"""Unions by Huffman: the rarest alternatives the deepest.

E1|E2 is commutative and associative, and an event passes every union between its source and the
root.  So the cost of a tree is the sum of rate times depth, as in an optimal prefix code
(Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.3 and Figure 3).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

Tree = TypeVar("Tree")


def optimal_union(
    operands: Sequence[tuple[float, Tree]], join: Callable[[Tree, Tree], Tree]
) -> Tree:
    """Return the cheapest tree of unions; operands come with their rates.

    The left operand of each union is the rarer one; of equal ones the one that came first.
    """
    queue = [(rate, place, tree) for place, (rate, tree) in enumerate(operands)]
    heapify(queue)
    made = len(queue)
    while len(queue) > 1:
        rate, _, left = heappop(queue)
        other, _, right = heappop(queue)
        heappush(queue, (rate + other, made, join(left, right)))
        made += 1
    return queue[0][2]
