"""Instants: those of a calendar as composites of one value, their local time.

An instant has a component as a document has, so that what is found with two of them is two things.
In place of a document's number it has one below 0, of the calendar and the second.
"""

from __future__ import annotations

from typing import cast

from cep_core.plan import Members, Row, SlotWiseMOp, Wanted
from xscl.documents.composite_events import Composite
from xscl.store.queries.tables import EARLIEST
from xscl.time_format import UNITS

_SECONDS = 1 << 40
"""More than there are seconds in the calendar of Python; half of them are before 1970."""


def document_number(stream: int, second: int) -> int:
    """Return the number of an instant as a document, by the number of its calendar's stream."""
    return -(abs(stream) * _SECONDS + _SECONDS // 2 + second)


class Instants(SlotWiseMOp):
    """A calendar, by the number of its stream."""

    kind = "instants"
    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=False)
        (self._stream,) = cast(tuple[int], first.definition)

    def receive(self, row: Row, members: Members) -> None:
        """Take an instant in."""
        t0, t1, first, at = row
        number = document_number(self._stream, t1 // UNITS["s"])
        made = Composite((number,), (), (at,), t0, t1, EARLIEST, 0, first, 1, (number,))
        self._output.emit(made.row, members)
