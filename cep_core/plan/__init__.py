"""The shared plan of all queries, and the extension interface: custom m-ops, m-rules, builders.

    class Double(SlotWiseMOp):
        def receive(self, row: Row, members: Members) -> None:
            self._output.emit((*row[:VALUES], *[2 * value for value in row[VALUES:]]), members)

    Engine(builders={"double": lambda plan, wanted, number: Double(wanted, number, ordered=False)})

A `Wanted` describes a required operator.  The `Plan` asks its `Rule`s for an existing m-op that can
share it, else it calls the `Builder` of that kind.  Rows flow on `Channel`s to `Port`s, each with
the slots of its streams (`Members`).  To state queries, `cep_core` and `cep_core.algebra` suffice;
everything else is internal.
"""

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of
from cep_core.dataflow.clock import Batch, Clock
from cep_core.dataflow.code import evaluator
from cep_core.dataflow.mop import MOp, Operator, SlotWiseMOp, SoleMOp, Wanted, Wire
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.outer_join import OuterJoinMOp
from cep_core.operators.cayuga.state import StateMOp
from cep_core.plan.pending_work import AwaitedTimes
from cep_core.plan.plan import Builder, Plan
from cep_core.plan.steps import PlanStep as Step
from cep_core.plan.steps import Reference, steps_of, wanted

__all__ = [
    "VALUES",
    "AwaitedTimes",
    "Batch",
    "Builder",
    "Channel",
    "Clock",
    "MOp",
    "Members",
    "Operator",
    "OuterJoinMOp",
    "Plan",
    "Port",
    "Reference",
    "Row",
    "SlotWiseMOp",
    "SoleMOp",
    "StateMOp",
    "Step",
    "Wanted",
    "Wire",
    "evaluator",
    "members_of",
    "slots_of",
    "steps_of",
    "wanted",
]
