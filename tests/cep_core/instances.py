"""The instances that wait in the states of a query."""

from __future__ import annotations

from cep_core import Engine, Event
from cep_core.dataflow.channels import slots_of
from cep_core.events import VALUES
from cep_core.operators.cayuga.outer_join import OuterJoinMOp
from cep_core.operators.cayuga.state import StateMOp


def instances(core: Engine, name: str) -> list[list[Event]]:
    """Return the instances that wait in each state of a query, the lower states first."""
    query = core.query(name)
    states = []
    for operator in dict.fromkeys(query.held):
        if isinstance(operator.mop, StateMOp | OuterJoinMOp):
            rows = [
                row
                for row, members, *_ in operator.mop.kept()
                if operator.slot in slots_of(members) and row[2] >= query.since
            ]
            states.append([Event(operator.mop.label, r[VALUES:], r[0], r[1]) for r in rows])
    return states
