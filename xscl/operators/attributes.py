"""Attributes: a composite as an event, whose attributes are its variables.

What NEXT, FOLD and the like compare are columns of their rows: the string
values of variables, or their numbers where they are compared as numbers.  The
composite itself stays the first column, so that a row knows its nodes.

What NEXT and the like read has to be whole: they get no row of a document at which a join below
them was cut (`xscl.cuts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, cast

from cep_core.channels import Members, members_of, slots_of
from cep_core.events import VALUES, Row
from cep_core.mop import Wanted
from cep_core.operators.slotwise import SlotWise
from xscl.composites import Composite, item_at
from xscl.cuts import Cuts, joins_below
from xscl.functions import number
from xscl.xpath.tree import Tree
from xscl.xpath.values import string_value

Kind: TypeAlias = Literal["text", "number"]


class Attributed(NamedTuple):
    """The columns behind the composite, by position; whether updated documents are seen.

    The position -1 is a constant: 0, or the empty text.
    """

    columns: tuple[tuple[int, Kind], ...]
    updates: bool


class Attributes(SlotWise):
    """The same columns for the streams of one channel; the slots stay the same."""

    kind = "attributes"

    def __init__(self, first: Wanted, number: int, tree: Callable[[int], Tree], cuts: Cuts) -> None:
        super().__init__(first, number, ordered=first.inputs[0].channel.ordered)
        self._tree = tree
        self._cuts = cuts
        self._columns, self._updates = cast(Attributed, first.definition)

    def receive(self, row: Row, members: Members) -> None:
        """Take a composite in."""
        composite = cast(Composite, row[VALUES])
        if composite.version > 1 and not self._updates:
            return
        if self._cuts.of_push:
            whole = [slot for slot in slots_of(members) if not self._is_cut(slot, composite.rank)]
            if not whole:
                return
            members = members_of(whole)
        values = [self._value(composite, *column) for column in self._columns]
        self._output.emit((*row, *values), members)

    def _is_cut(self, slot: int, rank: int) -> bool:
        """Return whether a stream lacks rows of the document of a rank."""
        operator = next(one for one in self.operators if one.slot == slot)
        return self._cuts.has(rank, joins_below(operator))

    def _value(self, composite: Composite, position: int, kind: Kind) -> str | float | None:
        if position < 0:
            return 0.0 if kind == "number" else ""
        item = item_at(composite, position, self._tree)
        if item is None:
            return None
        text = string_value(item)
        if kind == "text":
            return text
        found = number(text)
        return None if math.isnan(found) else found
