"""The plan of all queries, and the extension interface: m-ops, m-rules and builders from outside.

    class Double(SlotWiseMOp):
        def receive(self, row: Row, members: Members) -> None:
            self._output.emit((*row[:VALUES], *[2 * value for value in row[VALUES:]]), members)

    Engine(builders={"double": lambda plan, wanted, number: Double(wanted, number, ordered=False)})

An operator is `Wanted` from the `Plan`, which asks the `Rule`s for the m-op that it shares and
else calls the `Builder` of its kind.  Rows travel on `Channel`s to `Port`s, with the slots of the
streams that they belong to (`Members`).  What a package needs to state queries is in `cep_core` and
`cep_core.algebra`; everything else is internal.
"""

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of
from cep_core.dataflow.clock import Batch, Clock
from cep_core.dataflow.mop import MOp, Operator, Wanted, Wire
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.state import StateMOp
from cep_core.operators.slotwise import SlotWiseMOp
from cep_core.plan.pending_work import Awaited
from cep_core.plan.plan import Builder, Plan
from cep_core.plan.steps import Reference, Step, steps_of, wanted

__all__ = [
    "VALUES",
    "Awaited",
    "Batch",
    "Builder",
    "Channel",
    "Clock",
    "MOp",
    "Members",
    "Operator",
    "Plan",
    "Port",
    "Reference",
    "Row",
    "SlotWiseMOp",
    "StateMOp",
    "Step",
    "Wanted",
    "Wire",
    "members_of",
    "slots_of",
    "steps_of",
    "wanted",
]
