"""Runs that each stand for a set of queries of one shape: the sets as masks, and their m-op.

`operators.pattern.policies` defines a run, `operators.pattern.stacks` the rows that take its place
for plain sequences.  A query is a bit of a mask: the slot of its output.  `QueryMasks` has what
each query selects, its constants and its window.  Only the thread of the engine uses it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import Any, cast

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of
from cep_core.dataflow.clock import END
from cep_core.dataflow.constant_index import ConstantIndex
from cep_core.dataflow.mop import (
    MatchBound,
    Operator,
    OperatorNumber,
    OrderedMOp,
    Wanted,
    Wire,
    mask_of,
)
from cep_core.dataflow.predicates import BoundPredicate, BoundShape
from cep_core.events import Row

_MASKED = 64  # a membership is a mask if all its slots are below this
_MOST_MASKS = 1_000  # the most memberships of an input whose masks are cached


class QueryMasks:
    """The queries of one m-op, each a bit of a mask (an int): 1 shifted by the slot of its output.

    Methods take and return sets of queries as such masks.
    """

    def __init__(self, inputs: int) -> None:
        self.constants = ConstantIndex()
        self.windows: dict[int, int] = {}  # by window in ticks: the mask of its queries
        self.longest = self.shortest = -1  # windows
        self._reading: list[dict[int, int]] = [{} for _ in range(inputs)]  # by input and its slot
        self._masks: list[dict[Members, int]] = [{} for _ in range(inputs)]

    def add(self, operator: Operator) -> None:
        """Add the query of an operator."""
        wanted, bit = operator.wanted, 1 << operator.slot
        for source, known in zip(wanted.inputs, self._reading, strict=True):
            known[source.slot] = known.get(source.slot, 0) | bit
        self._forget_masks()
        window = END if wanted.window is None else wanted.window
        self.constants.add(cast(BoundShape[Any], wanted.definition).constants, operator.slot)
        self.windows[window] = self.windows.get(window, 0) | bit
        self.longest, self.shortest = max(self.windows), min(self.windows)

    def remove(self, operator: Operator) -> None:
        """Remove the query of an operator."""
        bit = 1 << operator.slot
        for source, known in zip(operator.wanted.inputs, self._reading, strict=True):
            known[source.slot] &= ~bit
            if not known[source.slot]:
                del known[source.slot]
        self._forget_masks()
        self.constants.remove(operator.slot)
        self.windows = _without(self.windows, bit)
        self.longest = max(self.windows, default=-1)
        self.shortest = min(self.windows, default=-1)

    @property
    def are_alike(self) -> bool:
        """True if all queries select the same rows, and have the same constants and windows."""
        inputs = all(len(known) == 1 for known in self._reading)
        return inputs and len(self.windows) == len(self.constants.queries) == 1

    def _forget_masks(self) -> None:
        for masks in self._masks:
            masks.clear()

    def reading(self, input: int, members: Members) -> int:
        """Return the mask of the queries that select a row of an input, given its membership."""
        masks = self._masks[input]
        mask = masks.get(members)
        if mask is None:
            known, mask = self._reading[input], 0
            for slot in slots_of(members):
                mask |= known.get(slot, 0)
            if len(masks) < _MOST_MASKS:
                masks[members] = mask
        return mask

    def within(self, mask: int, distance: int) -> int:
        """Return those queries of a mask whose window is longer than a distance, in ticks."""
        if distance < self.shortest:
            return mask
        found = 0
        for window, queries in self.windows.items():
            if distance < window:
                found |= queries
        return mask & found


@lru_cache(1_000)  # a large mask becomes a tuple of slots one by one
def members_in(mask: int) -> Members:
    """Return the queries of a mask as the membership of a row."""
    return mask if mask < 1 << _MASKED else members_of(slots_of(mask))


def shared_channels(wanted: Wanted) -> tuple[Hashable, ...]:
    """Return the key by which queries share runs: their inputs, or the channels of these.

    Queries whose selections are all narrow share only equal inputs: else each row would meet the
    runs of all other queries.  With a wide input the rows would go to all these m-ops anyway.
    """
    if all(one.wanted.kind == "select" and _is_narrow(one) for one in wanted.inputs):
        return wanted.inputs
    return tuple([one.channel for one in wanted.inputs])


def _is_narrow(selection: Operator) -> bool:
    """Return True if each disjunct of a selection fixes a value, or bounds one from both sides."""
    shape = cast(BoundPredicate, selection.wanted.definition).shape
    for disjunct in shape.disjuncts:
        above = {one.column for one in disjunct.ranges if one.operator[0] == ">"}
        below = {one.column for one in disjunct.ranges if one.operator[0] == "<"}
        if not disjunct.equalities and not above & below:
            return False
    return True


def _without(known: Mapping[int, int], bit: int) -> dict[int, int]:
    return {key: left for key, queries in known.items() if (left := queries & ~bit)}


class SharedRuns(OrderedMOp):
    """The m-op of queries of one shape over the same channels.

    In masks of queries the bit of a query is its output slot.
    """

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        self._output = Channel(True)
        self._queries = QueryMasks(len(first.inputs))
        self._owners: dict[int, Operator] = {}  # by slot
        self._bound = MatchBound(self)

    @abstractmethod
    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the function that consumes the rows of an input."""

    @abstractmethod
    def _forget_query(self, slot: int) -> None:
        """Drop the state of a query that has been removed."""

    def add(self, wanted: Wanted) -> Operator:
        if not self._wires:
            self._wires = [
                Wire(Port(self, self._receiver(i)), self._lane) for i in range(len(wanted.inputs))
            ]
        operator = super().add(wanted)
        self._owners[operator.slot] = operator
        self._queries.add(operator)
        self._bound.kept.count_again()  # a snapshot may add runs of the query
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        del self._owners[operator.slot]
        self._queries.remove(operator)
        self._forget_query(operator.slot)

    def _give_up(self, mask: int) -> None:
        """Count and log that the queries of a mask get no match at this time: they had too many."""
        self._bound.give_up(slots_of(mask))

    def _shared(self) -> str:
        """Describe how many queries share the m-op, and how often a query had too many matches."""
        said = ""
        if len(self.operators) > 1:
            constants = counted(len(self._queries.constants.queries), "way", "ways")
            said = f"; shared by {len(self.operators)} queries, tested {constants}"
        given_up = str(self._bound)
        return f"{said}; {given_up}" if given_up else said

    # -- snapshots -------------------------------------------------------------------------

    def _numbers(self, mask: int, number: OperatorNumber) -> list[int]:
        """Return the numbers of the operators of a mask's queries.

        ``number`` returns the number of an operator.
        """
        return [number(self._owners[slot]) for slot in slots_of(mask)] if mask else []

    def _mask_of(self, operators: list[Operator]) -> int:
        """Return the mask of the queries of operators."""
        return mask_of(operator.slot for operator in operators)
