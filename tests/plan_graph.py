"""The plan as plain data: states, edges, indexes, who shares what."""

from __future__ import annotations

from typing import Any

from cep_core.dataflow.mop import MOp, Operator
from cep_core.plan.plan import Plan
from cep_core.views.explain import indexed, name_of


def graph(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain data: sources, m-ops with their operators, and who reads whom."""
    mops = list(plan.mops)
    return {
        "sources": [
            {"name": name, "operator": name_of(operator), "lateness": operator.lateness}
            for name, operator in plan.sources.items()
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


def _label(operator: Operator) -> str:
    return str(operator.wanted.definition) if operator.mop is None else operator.mop.label
