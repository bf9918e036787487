"""All bindings of a pattern in one document that agree with given ones.

Stage 2 returns the nodes of the variables that it compared.  The bindings of all
other variables are computed here, for the few documents that matched.  A tree
pattern's variables are globally consistent iff they are consistent edge by edge,
first from the leaves up and then from the top down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from xscl.language.syntax import Step
from xscl.shredding.automaton.pattern import Pattern, PatternNode
from xscl.shredding.conditions.navigate import holds
from xscl.shredding.nodes import DocumentTree, keys_of

DOCUMENT = frozenset({-1})
"""The document node, -1, as the set of nodes at which the first step begins."""


def bind(
    pattern: Pattern, tree: DocumentTree, fixed: Mapping[str, frozenset[int]]
) -> list[list[int]]:
    """Return the possible bindings of each pattern node in the document, ascending.

    `fixed` restricts variables to given nodes.
    """
    candidates = [_candidates(tree, node, fixed.get(node.variable or "")) for node in pattern.nodes]
    for child in reversed(range(len(candidates))):
        node = pattern.nodes[child]
        if node.parent is not None:
            uppers = above(tree, node.step, candidates[child])
            candidates[node.parent] = candidates[node.parent] & uppers
    for child, node in enumerate(pattern.nodes):
        upper = DOCUMENT if node.parent is None else candidates[node.parent]
        candidates[child] = below(tree, node.step, candidates[child], upper)
    return [sorted(nodes) for nodes in candidates]


def _candidates(tree: DocumentTree, node: PatternNode, fixed: frozenset[int] | None) -> Set[int]:
    """Return the nodes that the step of a pattern node matches by itself: of `fixed`, None: of all.

    A document may have thousands of matches, which fix most variables; the candidates of the others
    are common to all of them.
    """
    if fixed is not None:
        return _matching(tree, node, fixed)
    asked = node.step.key, node.step.conditions
    if asked not in tree.matching:
        tree.matching[asked] = _matching(tree, node, range(len(tree.items)))
    return tree.matching[asked]


def _matching(tree: DocumentTree, node: PatternNode, numbers: Iterable[int]) -> set[int]:
    """Return those of the node numbers `numbers` whose items a pattern node's step matches."""
    key = node.step.key
    found = {number for number in numbers if key in keys_of(tree.symbols[number])}
    for condition in node.step.conditions:
        found = {number for number in found if holds(condition, tree.items[number])}
    return found


def above(tree: DocumentTree, step: Step, numbers: Iterable[int]) -> set[int]:
    """Return the nodes (-1 is the document) from which a step's axis leads to one of `numbers`."""
    level = found = {tree.parents[number] for number in numbers}
    while step.descendant and level:
        level = {tree.parents[number] for number in level if number >= 0} - found
        found = found | level
    return found


def below(tree: DocumentTree, step: Step, numbers: Iterable[int], upper: Set[int]) -> set[int]:
    """Return those of `numbers` to which a step's axis leads from one of the `upper` nodes."""
    if not step.descendant:
        return {number for number in numbers if tree.parents[number] in upper}
    if upper is DOCUMENT:
        return set(numbers)
    return {number for number in numbers if not upper.isdisjoint(above(tree, step, (number,)))}
