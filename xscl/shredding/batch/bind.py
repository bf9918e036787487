"""All bindings of a pattern in one document that agree with given ones.

Stage 2 returns the nodes of the variables that it compared.  The bindings of all
other variables are computed here, for the few documents that matched.  A tree
pattern's variables are globally consistent iff they are consistent edge by edge,
first from the leaves up and then from the top down.
"""

from __future__ import annotations

from collections.abc import Mapping

from lxml import etree

from xscl.language.syntax import Step
from xscl.shredding.automaton.pattern import Pattern
from xscl.shredding.conditions.navigate import holds
from xscl.shredding.nodes.names import matches_name
from xscl.shredding.nodes.tree import AttributeNode, DocumentTree, Item


def bind(
    pattern: Pattern, tree: DocumentTree, fixed: Mapping[str, frozenset[int]]
) -> list[list[int]]:
    """Return the possible bindings of each pattern node in the document, ascending.

    `fixed` restricts variables to given nodes.
    """
    candidates = [
        _candidates(tree, node.step, fixed.get(node.variable or "")) for node in pattern.nodes
    ]
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


def _candidates(tree: DocumentTree, step: Step, fixed: frozenset[int] | None) -> set[int]:
    """Return the nodes that a step matches by itself, of given ones or of all.

    A document may have thousands of matches, which fix most variables; the candidates of the others
    are common to all of them.
    """
    if fixed is not None:
        return {number for number in fixed if _matches(step, tree.items[number])}
    if step not in tree.matching:
        tree.matching[step] = tuple(
            number for number, item in enumerate(tree.items) if _matches(step, item)
        )
    return set(tree.matching[step])


def _matches(step: Step, item: Item) -> bool:
    if isinstance(item, AttributeNode):
        named = step.attribute and matches_name(step.test, item.name)
    else:
        assert isinstance(item, etree._Element)
        named = not step.attribute and matches_name(step.test, str(item.tag))
    return named and all(holds(condition, item) for condition in step.conditions)


def above(tree: DocumentTree, step: Step, number: int) -> set[int]:
    """Return the nodes (-1 is the document) from which the step's axis leads to a node."""
    at = tree.parents[number]
    found = {at}
    while step.descendant and at >= 0:
        at = tree.parents[at]
        found.add(at)
    return found
