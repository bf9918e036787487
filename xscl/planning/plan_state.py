"""State of operators over time: its type of attribute, and what it keeps alive."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from cep_core import AttributeType
from cep_core.plan import Operator, Plan, StateMOp
from xscl.documents.composite_events import Composite, composite_of


def _composite(text: str) -> Composite:
    return composite_of(json.loads(text))


COMPOSITE = AttributeType(Composite, json.dumps, _composite)


def held_documents(plan: Plan) -> set[int]:
    """Return the documents of all composites that operators over time still hold."""
    rows = [row for lane in plan.lanes.values() for _, row, _ in lane.waiting()]
    for mop in plan.mops:
        if isinstance(mop, StateMOp):
            rows.extend(row for row, _ in mop.kept())
    held = (value for row in rows for value in row if isinstance(value, Composite))
    return {doc for composite in held for doc in composite.docs}


def instances(
    plan: Plan, operators: Iterable[Operator] | None = None
) -> Iterator[tuple[int | None, int]]:
    """Yield (retention, event time), in ticks, of each instance of operators over time.

    The operators are the given ones, or all.  The retention is None where a row ends the
    instance.
    """
    mops = plan.mops if operators is None else {one.mop for one in operators}
    for mop in mops:
        if isinstance(mop, StateMOp):
            for row, _ in mop.kept():
                yield mop.keeps, row[1]
