"""The names of operators, and which index answers what."""

from __future__ import annotations

from cep_core.algebra.text import counted
from cep_core.dataflow.mop import Operator
from cep_core.dataflow.predicates import BoundPredicate, PredicateShape


def indexed(operator: Operator) -> str:
    """Return which index answers which part of an operator's predicate."""
    mop = operator.mop
    if mop is None:
        return ""
    definition = operator.wanted.definition
    if isinstance(definition, BoundPredicate) and mop.kind == "select":
        return _static(definition.shape)
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
    """Return the name of an operator's stream."""
    if operator.mop is None:
        return str(operator.wanted.definition)
    return f"{operator.mop.label}.{operator.slot}"
