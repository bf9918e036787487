"""From a step of a shape to what one query wants of the plan."""

from __future__ import annotations

from cep_core.dataflow.clock import Lane
from cep_core.dataflow.mop import Operator, Wanted
from cep_core.plan.steps import Literals, Step


def wanted(
    step: Step,
    literals: Literals,
    inputs: tuple[Operator, ...],
    lane: Lane,
    since: int,
    *,
    exact: bool = False,
) -> Wanted:
    """Return the operator that a step stands for, with a query's literals and its inputs.

    It is bound to ``since``, and shared between equal registrations only, if it forgets the parts
    of its rows or lies above a join.  ``exact`` binds every ordered operator of a lane with
    lateness, where rows may arrive in another order than that of time.
    """
    late = exact and lane.lateness > 0
    bound = step.forgets or (step.ordered and (late or any(one.joined for one in inputs)))
    return Wanted(
        *(step.kind, step.define(literals), inputs),
        lane if step.ordered else None,
        since if bound else None,
        None if step.window is None else step.window(literals),
        step.width,
    )
