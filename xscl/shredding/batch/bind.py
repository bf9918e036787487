"""All bindings of a pattern in one document that agree with given ones.

Stage 2 returns the nodes of the variables that it compared.  The bindings of all
other variables are computed here, for the few documents that matched.  A tree
pattern's variables are globally consistent iff they are consistent edge by edge,
first from the leaves up and then from the top down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xscl.language.syntax import Step
from xscl.shredding.automaton.pattern import Pattern, PatternNode
from xscl.shredding.conditions.navigate import holds
from xscl.shredding.nodes.names import keys_of
from xscl.shredding.nodes.tree import DocumentTree


def bind(
    pattern: Pattern, tree: DocumentTree, fixed: Mapping[str, frozenset[int]]
) -> list[list[int]]:
    """Return the possible bindings of each pattern node in the document, ascending.

    `fixed` restricts variables to given nodes.
    """
    candidates = [_candidates(tree, node, fixed.get(node.variable or "")) for node in pattern.nodes]
    for child in reversed(range(len(pattern.nodes))):
        parent = pattern.nodes[child].parent
        step = pattern.nodes[child].step
        uppers = {a for number in candidates[child] for a in above(tree, step, number)}
        if parent is not None:
            candidates[parent] &= uppers
        elif -1 not in uppers:
            candidates[child] = set()
    for child, node in enumerate(pattern.nodes):
        upper = {-1} if node.parent is None else candidates[node.parent]
        candidates[child] = {
            n for n in candidates[child] if not upper.isdisjoint(above(tree, node.step, n))
        }
    return [sorted(nodes) for nodes in candidates]


def _candidates(tree: DocumentTree, node: PatternNode, fixed: frozenset[int] | None) -> set[int]:
    """Return the nodes that a pattern node's step matches by itself, of given ones or of all.

    A document may have thousands of matches, which fix most variables; the candidates of the others
    are common to all of them.
    """
    if fixed is not None:
        return _matching(tree, node, fixed)
    asked = node.key, node.step.conditions
    if asked not in tree.matching:
        tree.matching[asked] = _matching(tree, node, range(len(tree.items)))
    return set(tree.matching[asked])


def _matching(tree: DocumentTree, node: PatternNode, numbers: Iterable[int]) -> set[int]:
    """Return those of some numbers whose items a pattern node's step matches."""
    found = {number for number in numbers if node.key in keys_of(tree.symbols[number])}
    for condition in node.step.conditions:
        found = {number for number in found if holds(condition, tree.items[number])}
    return found


def above(tree: DocumentTree, step: Step, number: int) -> set[int]:
    """Return the nodes (-1 is the document) from which the step's axis leads to a node."""
    at = tree.parents[number]
    found = {at}
    while step.descendant and at >= 0:
        at = tree.parents[at]
        found.add(at)
    return found
