"""Pushing predicates down: what a sequence asks of one event is asked before the event is scanned.

The selections that are made so lie on base streams, where all queries share a predicate index
(Wu, Diao and Rizvi 2006, section 4.2: simple predicates are pushed to sequence scan).  Contiguity
looks at the events between, whatever they are: there nothing is pushed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cep_core.algebra import Component, Loop, Node, One, PatternMatch, Project, Select
from cep_core.algebra.expressions import TRUE, Column, Expression, moved
from cep_core.algebra.pattern_tree import trees_in
from cep_core.algebra.patterns import conjunction, conjuncts_in


def push_down(node: Node) -> Node:
    """Return a query whose sequences have their conditions pushed down; itself if there are none.

    Equivalences: SEQ(A, B){p(a) ∧ q} = SEQ(σ_p(A), B){q}, without contiguity, and the same for
    what is negated.
    """
    match node:
        case Project(source) | Select(source):
            below = push_down(source)
            return node if below is source else replace(node, source=below)
        case PatternMatch():
            trees = list(trees_in(node.tree))
            marks = {
                node.rules.mark,
                *(tree.mark for tree in trees if isinstance(tree, One | Loop)),
            }
            return node if marks & {"strict", "partition"} else _selecting(node)
        case _:
            return node


def _selecting(node: PatternMatch) -> PatternMatch:
    """Return a pattern whose conditions on one event are selections of its inputs."""
    simple: dict[int, list[Expression]] = {}
    rest: list[Expression] = []
    for one in conjuncts_in(node.predicate, node.parts):
        single = all(part.role in ("value", "current") for part in one.parts)
        if single and len(one.components) == 1:
            simple.setdefault(one.parts[0].component, []).append(one.node)
        else:
            rest.append(one.node)
    if not simple:
        return node
    places = {
        (2, j): Column(2, part.index or 0)
        for j, part in enumerate(node.parts)
        if part.role in ("value", "current")
    }
    inputs: list[Node] = []
    partition: list[tuple[int, ...] | None] = []
    components_made: list[Component] = []
    for number, component in enumerate(node.components):
        source = _selected(node.inputs[component.input], simple.get(number, ()), places)
        if source not in inputs:
            inputs.append(source)
            partition.append(node.rules.partition[component.input])
        components_made.append(Component(inputs.index(source), component.repeated))
    return replace(
        node,
        inputs=tuple(inputs),
        components=tuple(components_made),
        predicate=conjunction(rest),
        rules=replace(node.rules, partition=tuple(partition)),
    )


def _selected(
    source: Node, conjuncts: Iterable[Expression], places: Mapping[tuple[int, int], Expression]
) -> Node:
    predicate = conjunction(moved(conjunct, places) for conjunct in conjuncts)
    return source if predicate == TRUE else Select(source, predicate, source.schema)
