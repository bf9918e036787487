"""Record: a document as an event, whose attributes are leaves of its root.

An attribute is the text of the first child of the root with its local name, or else of the root's
own XML attribute.  A missing leaf, and a text that is not of the attribute's type, are null.  New
versions of a document are not events.

Events reach their queries in the order of arrival, each at its own clock M(n), as if it had been
pushed alone: documents that were published between two of a batch come between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, cast

from lxml import etree

from cep_core import Schema
from cep_core.algebra import WHITE_SPACE, integer_of, number_of
from cep_core.plan import VALUES, Clock, Members, Row, SlotWiseMOp, Wanted
from xscl.shredding.arrivals import Arrival
from xscl.shredding.nodes.tree import string_value
from xscl.store.queries.tables import LEVELS

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _float(text: str) -> float | None:
    found = number_of(text)
    return None if found is None or math.isnan(found) else found


READERS: Mapping[type, Callable[[str], Any]] = {
    str: lambda text: text,
    int: integer_of,
    float: _float,
    bool: lambda text: _TRUTH.get(text.strip(WHITE_SPACE)),
}
"""How texts are read as values of the types that attributes may have."""


class Records:
    """Events that wait for their turn among the documents of a batch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, int, int, Row, Callable[[Row], None]]] = []
        self._serial = 0

    def take(self, arrival: Arrival, row: Row, emit: Callable[[Row], None]) -> None:
        """Keep an event until its turn; one that an operator over time has made is due now."""
        if arrival.rank < LEVELS:
            emit(row)
            return
        self._serial += 1
        heappush(self._waiting, (arrival.rank, self._serial, arrival.clock, row, emit))

    def release(self, rank: int) -> None:
        """Hand on the events of a lower rank, in order."""
        now = self._clock.now
        while self._waiting and self._waiting[0][0] < rank:
            _, _, self._clock.now, row, emit = heappop(self._waiting)
            emit(row)
        self._clock.now = now


class Record(SlotWiseMOp):
    """Streams of documents as streams of events of one schema; the slots stay the same."""

    kind = "record"
    single = True

    def __init__(self, first: Wanted, number: int, records: Records) -> None:
        super().__init__(first, number, ordered=False)
        schema = cast(Schema, first.definition)
        self._records = records
        self._columns = [
            (name, READERS[kind]) for name, kind in zip(schema.names, schema.types, strict=True)
        ]

    def receive(self, row: Row, members: Members) -> None:
        """Take a document in."""
        arrival = cast(Arrival, row[VALUES])
        if arrival.version == 1:
            values = _values(arrival.root, self._columns)
            event = (*row[:VALUES], *values)
            self._records.take(arrival, event, lambda one: self._output.emit(one, members))


def _values(root: etree._Element, columns: list[tuple[str, Callable[[str], Any]]]) -> Iterator[Any]:
    """Yield the values of a document's attributes."""
    leaves: dict[str, str] = {}
    for child in root.iterchildren(etree.Element):
        leaves.setdefault(etree.QName(child).localname, string_value(child))
    for name, value in root.attrib.items():
        leaves.setdefault(etree.QName(name).localname, str(value))
    for name, read in columns:
        yield read(leaves[name]) if name in leaves else None
