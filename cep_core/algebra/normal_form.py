"""Disjunctive normal form: a predicate as OR of ANDs of literals, for expressions of any kind.

NOT is moved inwards to the atoms by De Morgan's laws and stays there.  A conjunction of atoms is a
bit mask: atom i, numbered by its first appearance, is bit 2i, and its complement is bit 2i + 1.
One conjunction absorbs another if its mask is contained in the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any, Literal, NamedTuple, TypeAlias

MOST_DISJUNCTS = 64

Junction: TypeAlias = tuple[Literal["and", "or", "not"], Sequence[Any]]


class NumberedAtom(NamedTuple):
    """An atom or (not `positive`) its complement; atoms with one key are the same."""

    key: Hashable
    node: Any
    positive: bool


class TooManyDisjuncts(Exception):
    """A part of a predicate, `node`, has more than 64 disjuncts."""

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.node = node


def disjuncts(
    node: Any, junction: Callable[[Any], Junction | None], atom: Callable[[Any, bool], NumberedAtom]
) -> list[list[tuple[Any, bool]]]:
    """Return the literals of each disjunct as (atom, positive), both in the order of the text.

    `junction` returns the word and the parts of AND, OR and NOT, and None for an atom, of which
    `atom` returns the key and the sign.  No disjunct implies
    another by its literals alone or contradicts itself: the result is empty for a predicate that
    never holds, and one empty disjunct for one that always holds.  Raises TooManyDisjuncts.
    """
    numbers: dict[Hashable, int] = {}
    atoms: list[Any] = []

    def masks(node: Any, positive: bool) -> Sequence[int]:
        match junction(node):
            case None:
                key, first, holds = atom(node, positive)
                number = numbers.setdefault(key, len(atoms))
                if number == len(atoms):
                    atoms.append(first)
                return (1 << 2 * number + (not holds),)
            case "not", (part,):
                return masks(part, not positive)
            case word, parts:
                found = [masks(part, positive) for part in parts]
                if (word == "and") is not positive:
                    return least(chain.from_iterable(found), node)
                # The literals of a conjunction, perhaps many, are combined in one step.
                sole = reduce(or_, (one[0] for one in found if len(one) == 1), 0)
                several = (one for one in found if len(one) != 1)
                return reduce(
                    lambda ones, others: least((a | b for a in ones for b in others), node),
                    several,
                    least((sole,), node),
                )

    def least(found: Iterable[int], where: Any) -> Sequence[int]:
        # A mask that is contained in another one is a smaller number and comes first, so that a
        # mask that is kept is never dropped again.
        positives = ((1 << 2 * len(atoms)) - 1) // 3
        kept: list[int] = []
        for mask in sorted(set(found)):
            if mask & mask >> 1 & positives or any(mask & one == one for one in kept):
                continue
            if len(kept) == MOST_DISJUNCTS:
                raise TooManyDisjuncts(where)
            kept.append(mask)
        return kept

    ordered = sorted(map(_bits, masks(node, True)))
    return [[(atoms[bit // 2], not bit % 2) for bit in bits] for bits in ordered]


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
