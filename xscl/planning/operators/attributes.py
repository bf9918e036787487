"""Attributes: a composite as an event, whose attributes are its variables.

What NEXT, FOLD and the like compare are columns of their rows: the string
values of variables, or their numbers where they are compared as numbers.  The
composite itself stays the first column, so that a row knows its nodes.

What NEXT and the like read has to be whole: they get no row of a document at which a join below
them was cut (`xscl.planning.truncations`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, cast

from cep_core.algebra import number_of
from cep_core.plan import (
    VALUES,
    Members,
    Operator,
    Row,
    SlotWiseMOp,
    Wanted,
    members_of,
    slots_of,
)
from xscl.documents.composite_events import Composite, item_at
from xscl.planning.truncations import Cuts, joins_below
from xscl.shredding.nodes.tree import DocumentTree, string_value

Kind: TypeAlias = Literal["text", "number"]


class Attributed(NamedTuple):
    """The columns behind the composite, by position; whether updated documents are seen.

    The position -1 is a constant: 0, or the empty text.
    """

    columns: tuple[tuple[int, Kind], ...]
    updates: bool


class Attributes(SlotWiseMOp):
    """The same columns for the streams of one channel; the slots stay the same."""

    kind = "attributes"

    def __init__(
        self,
        first: Wanted,
        number: int,
        tree: Callable[[int], DocumentTree],
        cuts: Cuts,
    ) -> None:
        super().__init__(first, number, ordered=first.inputs[0].channel.ordered)
        self._tree = tree
        self._cuts = cuts
        self._joins: dict[int, frozenset[int]] = {}  # below each slot
        self._columns, self._updates = cast(Attributed, first.definition)

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self._joins[operator.slot] = joins_below(operator)
        return operator

    def remove(self, operator: Operator) -> None:
        del self._joins[operator.slot]
        super().remove(operator)

    def receive(self, row: Row, members: Members) -> None:
        """Take a composite in."""
        composite = cast(Composite, row[VALUES])
        if composite.version > 1 and not self._updates:
            return
        if self._cuts.has_rank(composite.rank):
            whole = [
                slot
                for slot in slots_of(members)
                if not self._cuts.has(composite.rank, self._joins[slot])
            ]
            if not whole:
                return
            members = members_of(whole)
        values = [self._value(composite, *column) for column in self._columns]
        self._output.emit((*row, *values), members)

    def _value(self, composite: Composite, position: int, kind: Kind) -> str | float | None:
        if position < 0:
            return 0.0 if kind == "number" else ""
        item = item_at(composite, position, self._tree)
        if item is None:
            return None
        text = string_value(item)
        if kind == "text":
            return text
        found = number_of(text)
        return None if found is None or math.isnan(found) else found
