"""For whom a lane waits: the operators to which its rows go, and those that have set its timers.

M-ops and lanes are shared, so a row that waits concerns only some of their operators: those of its
members (the slots that it belongs to).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from cep_core.dataflow.channels import Members, Port, slots_of
from cep_core.dataflow.clock import END, Lane
from cep_core.dataflow.mop import Operator
from cep_core.operators.cayuga.active import ActiveIndex


class AwaitedTimes:
    """The times at which some operators have work in lanes, searched again after changes only."""

    def __init__(self, operators: Iterable[Operator]) -> None:
        self._operators: dict[Lane, set[Operator]] = {}
        for operator in operators:
            if operator.wanted.lane is not None:
                self._operators.setdefault(operator.wanted.lane, set()).add(operator)
        # by lane: its `changes` at the last search, and the time that was found
        self._known: dict[Lane, tuple[int, int]] = {}

    def first(self, lane: Lane) -> int:
        """Return the first time at which the operators have work in a lane, or `END`.

        The timers and rows of a lane are searched only if it has changed since the last call.
        """
        operators = self._operators.get(lane)
        if not operators:
            return END
        changes, time = self._known.get(lane, (-1, END))
        if changes != lane.changes:
            time = _first(lane, operators)
            self._known[lane] = lane.changes, time
        return time


def _first(lane: Lane, operators: Set[Operator]) -> int:
    timers = (time for time, mop in lane.timers() if not operators.isdisjoint(mop.awaiting(time)))
    first = min(timers, default=END)
    concerned: dict[tuple[Port, Members], bool] = {}
    for port, row, members in lane.waiting():
        if row[1] >= first:
            break
        key = port, members
        if key not in concerned:
            concerned[key] = not operators.isdisjoint(receivers(port, members))
        if concerned[key]:
            first = row[1]
            break
    return first


def receivers(port: Port, members: Members) -> Iterator[Operator]:
    """Yield the operators for which rows with these members wait at a port."""
    mop = port.mop
    if isinstance(mop, ActiveIndex):
        for state in mop.states:
            yield from state.operators
    elif port in mop.waiting_ports():
        side, slots = mop.waiting_ports().index(port), set(slots_of(members))
        for operator in mop.operators:
            if operator.wanted.inputs[side].slot in slots:
                yield operator
