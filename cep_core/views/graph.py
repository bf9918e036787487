"""The plan as plain data, for pictures and programs: states, edges, indexes, who shares what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cep_core.algebra.text import counted
from cep_core.dataflow.mop import MOp, Operator
from cep_core.dataflow.predicates import BoundPredicate, Shape


def graph(sources: Mapping[str, Operator], mops: Iterable[MOp]) -> dict[str, Any]:
    """Return the plan as plain data: sources, m-ops with their operators, and who reads whom."""
    mops = list(mops)
    return {
        "sources": [
            {"name": name, "operator": name_of(operator), "lateness": operator.lateness}
            for name, operator in sources.items()
        ],
        "mops": [_mop(mop) for mop in mops],
        "edges": [
            {"from": _label(source), "to": mop.label, "stream": name_of(source)}
            for mop in mops
            for source in dict.fromkeys(
                source for operator in mop.operators for source in operator.wanted.inputs
            )
        ],
    }


def _mop(mop: MOp) -> dict[str, Any]:
    return {
        "label": mop.label,
        "kind": mop.kind,
        "depth": mop.depth,
        "ordered": mop.lane is not None,
        "instances": mop.instances(),
        "index_entries": mop.entries(),
        "operators": [
            {
                "operator": name_of(operator),
                "reads": [name_of(source) for source in operator.wanted.inputs],
                "uses": operator.uses,
                "indexes": indexed(operator),
            }
            for operator in mop.operators
        ],
    }


def indexed(operator: Operator) -> str:
    """Return which index answers which part of an operator's predicate."""
    mop = operator.mop
    if mop is None:
        return ""
    definition = operator.wanted.definition
    if isinstance(definition, BoundPredicate) and mop.kind == "select":
        return _static(definition.shape)
    return mop.indexes()


def _static(shape: Shape) -> str:
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


def _label(operator: Operator) -> str:
    return str(operator.wanted.definition) if operator.mop is None else operator.mop.label
