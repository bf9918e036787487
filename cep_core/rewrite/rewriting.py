"""Rules that replace a pattern by a cheaper plan that finds the same; `RULES` are applied in order.

Two of them use the rates of streams (Schultz-Møller, Migliavacca and Pietzuch 2009, section 4.3):
unions are put in Huffman's order, and sequences in the cheapest parentheses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import itemgetter
from typing import TypeAlias

from cep_core.algebra import Chain, Node, PatternMatch, Project, Stream, Union, union
from cep_core.algebra.expressions import Column
from cep_core.algebra.operands import with_operands
from cep_core.algebra.pattern_tree import PatternTree
from cep_core.algebra.patterns import conjuncts_in
from cep_core.rewrite.cost import MOST_KEPT, StreamRates, estimate, optimal_next, optimal_union
from cep_core.rewrite.sequences import as_sequences, bound_of, components_of, ways

RewriteRule: TypeAlias = Callable[[Node, StreamRates], Node]
_MOST_COMPARED = 16  # with more operands not all forms of a sequence are compared


def rewritten(node: Node, rates: StreamRates) -> Node:
    """Return a node with the same results, changed by `RULES`.

    ``rates`` has for each stream its events in a second.
    """
    node = with_operands(node, "Node", partial(rewritten, rates=rates))
    for rule in RULES:
        node = rule(node, rates)
    return node


# -- unions --------------------------------------------------------------------------------


def order_unions(node: Node, rates: StreamRates) -> Node:
    """Order unions so that the rarest streams, by ``rates``, lie deepest.

    A union with a stream that has no rate stays as it is.  | is commutative and associative.
    """
    if not isinstance(node, Union):
        return node
    weighted: list[tuple[float, Node]] = [
        (rates[alternative.name], alternative)
        for alternative in _alternatives(node)
        if isinstance(alternative, Stream) and alternative.name in rates
    ]
    if len(weighted) < len(_alternatives(node)):
        return node
    return optimal_union(weighted, union)


def _alternatives(node: Node) -> list[Node]:
    if not isinstance(node, Union):
        return [node]
    return [*_alternatives(node.left), *_alternatives(node.right)]


# -- sequences -----------------------------------------------------------------------------


def associate(node: Node, rates: StreamRates) -> Node:
    """Choose the parentheses of sequences: ; is associative where no filter relates its operands.

    A filter chooses among later events, so the operands up to the last one that it reads stay as
    they are, from left to right.  A time constraint from the first event to the last one bounds all
    that is between, whatever its parentheses.
    """
    if not (isinstance(node, PatternMatch) and isinstance(node.tree, Chain) and rates):
        return node
    if not ways(node.tree, node.rules.mark):
        return node
    operands = _operands(node.tree)
    known = _rates(node, rates)
    found = [estimate(operand, known) for operand in operands]
    estimates = [one for one in found if one is not None]
    if len(estimates) < len(operands) or (node.rules.window is not None and bound_of(node) is None):
        return node
    fixed = _fixed(node, operands)
    first = Chain(tuple(operands[: fixed + 1])) if fixed else operands[0]
    prefix = estimate(first, known)
    assert prefix is not None
    # The optimum of 40 operands takes half a minute, as its work grows with the fourth power.
    few = len(operands) - fixed <= _MOST_COMPARED
    made: PatternTree = optimal_next(
        [first, *operands[fixed + 1 :]],
        [prefix, *estimates[fixed + 1 :]],
        lambda left, right: Chain((left, right)),
        MOST_KEPT if few else 1,
    )
    cheaper, written = estimate(made, known), estimate(Chain(tuple(operands)), known)
    assert cheaper is not None
    assert written is not None
    return replace(node, tree=made) if cheaper.cost < written.cost else node


def _operands(tree: Chain) -> list[PatternTree]:
    """Return the operands of a sequence; a nested sequence is replaced by its operands."""
    found: list[PatternTree] = []
    for part in tree.parts:
        found += _operands(part) if isinstance(part, Chain) else [part]
    return found


def _rates(node: PatternMatch, rates: StreamRates) -> list[float | None]:
    """Return the rate of each component, in events a second; None if a stream of it has none."""
    found: list[float | None] = []
    for component in node.components:
        streams = _alternatives(node.inputs[component.input])
        known = [rates.get(stream.name) for stream in streams if isinstance(stream, Stream)]
        added = [one for one in known if one is not None]
        found.append(sum(added) if len(added) == len(streams) else None)
    return found


def _fixed(node: PatternMatch, operands: Sequence[PatternTree]) -> int:
    """Return the index of the last operand that a condition on several reads; 0 without any.

    The operands up to it are joined from left to right, whatever that costs.
    """
    places = {
        component: place
        for place, operand in enumerate(operands)
        for component in components_of(operand)
    }
    bound, fixed = bound_of(node), 0
    for one in conjuncts_in(node.predicate, node.parts):
        read = {places[component] for component in one.components}
        if len(read) > 1 and one.node != bound:
            fixed = max(fixed, *read)
    return fixed


def sequences(node: Node, rates: StreamRates) -> Node:
    """Replace a pattern of single events by the union of its sequences with `;`, which is equal."""
    if not isinstance(node, PatternMatch):
        return node
    found = as_sequences(node)
    if found is None:
        return node
    made: list[Node] = list(map(itemgetter(1), found))
    if len(found) > 1 and rates:
        estimates = [estimate(tree, _rates(node, rates)) for tree, _ in found]
        known = [one.rate for one in estimates if one is not None]
        if len(known) == len(made):
            return optimal_union(list(zip(known, made, strict=True)), union)
    return reduce(union, made)


def drop_projection(node: Node, rates: StreamRates) -> Node:
    """Replace a projection to all columns, under their names, by its source, which is equal."""
    if isinstance(node, Project) and node.schema == node.source.schema:
        same = tuple([Column(2, at) for at in range(len(node.schema))])
        return node.source if node.columns == same else node
    return node


RULES: tuple[RewriteRule, ...] = (order_unions, associate, sequences, drop_projection)
