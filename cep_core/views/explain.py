"""The explanation of a query: its operators, who shares them, which index answers what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from cep_core.algebra import Absent, GroupAggregate, Iterate, Node, OuterJoin, PatternMatch
from cep_core.algebra.edges import EDGE_RULES
from cep_core.algebra.pattern_tree import trees_in
from cep_core.algebra.text import LiteralValues, counted, operator_in_words
from cep_core.dataflow.mop import Operator
from cep_core.dataflow.predicates import BoundPredicate, PredicateShape

_EDGES = {
    "sequence": "NEXT",
    "iterate": "FOLD",
    "window_join": "JOIN",
    "outer_join": "JOIN ELSE",
    "pattern_match": "PATTERN",
}


def in_words(
    head: str,
    steps: Sequence[tuple[Node, Sequence[Any], Operator]],
    sharers: Mapping[Operator, int],
    output: str,
    published: Mapping[Operator, str],
    ticks_per_second: int,
    *,
    alone: bool = False,
) -> str:
    """Return `head`, a query's operators, lower ones first, its `output`, and the rules of time.

    Each is on lines of its own; a rule says what an operator does at the ends of its window.

    ``steps`` are (node, literals, operator in the plan); ``sharers`` how many queries have
    each operator; ``published`` the names of published streams, by operator.  ``alone`` leaves out
    what tells of other queries: the m-ops with their numbers and indexes.
    """
    own = {operator: f"{operator.wanted.kind}#{n}" for n, (*_, operator) in enumerate(steps, 1)}
    name = (lambda operator: own.get(operator) or name_of(operator)) if alone else name_of
    lines, edges = [head], dict[str, None]()
    for node, literals, operator in steps:
        said = LiteralValues(literals, ticks_per_second)
        lines.append(f"  {name(operator)}  {operator_in_words(node, said)}")
        below = ", ".join(
            f"{published[source]} ({name(source)})" if source in published else name(source)
            for source in operator.wanted.inputs
        )
        shared = _queries(sharers[operator]) + ("" if alone else _others(operator))
        lines.append(f"      reads {below}; used by {shared}")
        answered = "" if alone else indexed(operator)
        if answered:
            lines.append(f"      {answered}")
        for rule in _edges(node, operator.wanted.kind):
            edges[str(EDGE_RULES[rule])] = None
    lines.append(f"  output  {output}")
    return "\n".join([*lines, *(f"  {edge}" for edge in edges)])


def _edges(node: Node, kind: str) -> Iterable[str]:
    """Return the keys of `EDGE_RULES` that apply to a node; `kind` is that of its operator."""
    if isinstance(node, Iterate) and node.longest:
        return ("LONGEST FOLD",)
    if isinstance(node, OuterJoin) and node.lower is None:
        alone = "@" if node.moment else "NOT FOLLOWED BY"
        return ("FOLLOWED BY", "ELSE") if node.paired else (alone,)
    if isinstance(node, GroupAggregate):
        return ("AT INSTANT",) if node.window is None else ("WINDOW",)
    trees = trees_in(node.tree) if isinstance(node, PatternMatch) else ()
    absent = {
        "!" if tree.time is None else "! FOR": 0 for tree in trees if isinstance(tree, Absent)
    }
    return (*([_EDGES[kind]] if kind in _EDGES else []), *absent)


def _queries(number: int) -> str:
    return "this query only" if number == 1 else f"{number} queries"


def _others(operator: Operator) -> str:
    mop = operator.mop
    assert mop is not None
    others = len(mop.operators) - 1
    return f", {others} other operator{'s' * (others != 1)} in {mop.label}" if others else ""


def indexed(operator: Operator) -> str:
    """Return, as text, which index answers which part of an operator's predicate."""
    mop = operator.mop
    if mop is None:
        return ""
    if mop.kind == "select":
        return _static(cast(BoundPredicate, operator.wanted.definition).shape)
    return mop.indexes()


def _static(shape: PredicateShape) -> str:
    found = []
    for disjunct in shape.disjuncts:
        if disjunct.equalities:
            found.append(f"hash on {counted(len(disjunct.equalities), 'equality', 'equalities')}")
        elif disjunct.ranges:
            found.append("sorted list on an inequality")
        else:
            found.append("tried one by one")
    return "predicate index: " + " or ".join(dict.fromkeys(found)) if found else "never holds"


def name_of(operator: Operator) -> str:
    """Return the name of an operator's stream: of a base stream its own, else `label.slot`.

    The label is that of the m-op.
    """
    if operator.mop is None:
        return str(operator.wanted.definition)
    return f"{operator.mop.label}.{operator.slot}"
