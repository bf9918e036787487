"""Documents and composites as events, and rows of operators over time as composites again.

`Attributes`: a composite as an event, whose attributes are its variables.  What NEXT, FOLD and the
like compare are columns of their rows: the string values of variables, or their numbers where they
are compared as numbers.  The composite itself stays the first column, so that a row knows its
nodes.  What NEXT and the like read has to be whole: they get no row of a document at which a join
below them was cut (`xscl.planning.truncations`).

`Collect`: the rows of an operator over time as composites, in their epoch, each once.

`Instants`: those of a calendar as composites of one value, their local time.  An instant has a
component as a document has, so that matches with different instants differ.  In place of a
document's number it has a number below 0, made of the calendar and the second.

`Record`: a document as an event, whose attributes are leaves of its root.  An attribute is the text
of the first child of the root with its local name, or else of the root's own XML attribute.  A
missing leaf, and a text that is not of the attribute's type, are null.  New versions of a document
are not events.  Events reach their queries in the order of arrival, each at its own clock M(n), as
if it had been pushed alone: documents that were published between two of a batch come between them.

`COMPOSITE` is the type of attributes that are composites; `instances` yields the state of operators
over time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, NamedTuple, cast

from lxml import etree

from cep_core import AttributeType, Schema
from cep_core.algebra import (
    WHITE_SPACE,
    BoundedDecimal,
    DecimalOrDouble,
    compared_number,
    decimal_value,
    integer_of,
    number_of,
    operand_of,
    text_of,
)
from cep_core.plan import (
    VALUES,
    Clock,
    Members,
    Operator,
    OuterJoinMOp,
    Plan,
    Row,
    SlotWiseMOp,
    StateMOp,
    Wanted,
    members_of,
    slots_of,
)
from xscl.documents.composite_events import Composite, absent, composite_of, item_at, over_time
from xscl.language.lowering import ColumnKind
from xscl.planning.truncations import Cuts, joins_below
from xscl.shredding.arrivals import Arrival
from xscl.shredding.nodes import DocumentTree, string_value, time_of
from xscl.store.queries.tables import EARLIEST, LEVELS
from xscl.time_format import UNITS


class EventColumns(NamedTuple):
    """The definition of `Attributes`: the columns of its rows after the composite.

    Each is a position of a variable and a kind; position -1 is a constant, 0 or the empty text.
    `updates` says that later versions of documents are read.
    """

    columns: tuple[tuple[int, ColumnKind], ...]
    updates: bool


class Attributes(SlotWiseMOp):
    """Turns composites into rows of columns, for the streams of one channel with their slots."""

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
        self._joins: dict[int, frozenset[int]] = {}  # by slot, the rows of R_T below it
        self._columns, self._updates = cast(EventColumns, first.definition)

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self._joins[operator.slot] = joins_below(operator)
        return operator

    def remove(self, operator: Operator) -> None:
        del self._joins[operator.slot]
        super().remove(operator)

    def receive(self, row: Row, members: Members) -> None:
        """Emit the row of a composite, but not for slots with a join below that was cut."""
        composite = cast(Composite, row[VALUES])
        if composite.version > 1 and not self._updates:
            return
        if cut := self._cuts.pending.get(composite.rank):
            whole = [slot for slot in slots_of(members) if cut.isdisjoint(self._joins[slot])]
            if not whole:
                return
            members = members_of(whole)
        values = [self._value(composite, *column) for column in self._columns]
        self._output.emit((*row, *values), members)

    def _value(
        self, composite: Composite, position: int, kind: ColumnKind
    ) -> str | DecimalOrDouble | None:
        if position < 0:
            return "" if kind == "text" else _ZERO
        item = item_at(composite, position, self._tree)
        if item is None:
            return None
        if kind == "time":
            return time_of(item)
        text = string_value(item)
        if kind == "text":
            return text
        return _not_nan(compared_number(text) if kind == "number" else operand_of(text))


class CompositeLayout(NamedTuple):
    """The positions of a row's parts and aggregates among its values.

    A part has its position, then the counts of its components, nodes and values, by which an empty
    composite is made for a part that a row lacks (after ELSE).
    """

    parts: tuple[tuple[int, int, int, int], ...]
    aggregates: tuple[int, ...]


class Collect(SlotWiseMOp):
    """Turns rows of an operator over time into composites, for the streams of one channel."""

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=True)
        self._parts, self._aggregates = cast(CompositeLayout, first.definition)
        self._epoch: int | None = None
        self._seen: dict[tuple[tuple[int, ...], ...], set[int]] = {}

    def receive(self, row: Row, members: Members) -> None:
        """Emit the composite of a row for the slots that have not had it in this epoch."""
        if row[1] != self._epoch:
            self._epoch = row[1]
            self._seen.clear()
        parts = [
            cast(Composite | None, row[VALUES + at]) or absent(*sizes) for at, *sizes in self._parts
        ]
        texts = tuple(text_of(row[VALUES + at]) or "" for at in self._aggregates)
        made = over_time(parts, texts, row)
        seen = self._seen.setdefault((made.docs, made.nodes), set())
        slots = [slot for slot in slots_of(members) if slot not in seen]
        if slots:
            seen.update(slots)
            self._output.emit(made.row, members_of(slots))


_SECONDS = 1 << 40
"""More than the seconds of Python's calendar; half of the range is for those before 1970."""


def document_number(stream: int, second: int) -> int:
    """Return the number below 0 that an instant has in place of a document's.

    `stream` is the number of the calendar's stream, `second` the instant in seconds since 1970.
    """
    return -(abs(stream) * _SECONDS + _SECONDS // 2 + second)


class Instants(SlotWiseMOp):
    """Turns instants of one calendar into composites; its stream's number is the definition."""

    single = True

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=False)
        (self._stream,) = cast(tuple[int], first.definition)

    def receive(self, row: Row, members: Members) -> None:
        """Emit the composite of an instant."""
        t0, t1, first, at = row
        number = document_number(self._stream, t1 // UNITS["s"])
        made = Composite((number,), (), (at,), t0, t1, EARLIEST, 0, first, 1, (number,))
        self._output.emit(made.row, members)


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


_ZERO = BoundedDecimal(0)


def _not_nan(value: DecimalOrDouble | None) -> DecimalOrDouble | None:
    return None if value is None or math.isnan(value) else value


READERS: Mapping[type, Callable[[str], Any]] = {
    str: lambda text: text,
    int: integer_of,
    float: lambda text: _not_nan(number_of(text)),
    BoundedDecimal: decimal_value,
    bool: lambda text: _TRUTH.get(text.strip(WHITE_SPACE)),
}
"""The reader of texts for each type of attribute."""


class Records:
    """Holds events until their turn among the documents of a batch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, int, int, Row, Callable[[Row], None]]] = []
        self._serial = 0

    def take(self, arrival: Arrival, row: Row, emit: Callable[[Row], None]) -> None:
        """Queue the event of a document until its turn in the order of arrival.

        The event of a document that an operator over time has published is emitted at once.
        """
        if arrival.rank < LEVELS:
            emit(row)
            return
        self._serial += 1
        heappush(self._waiting, (arrival.rank, self._serial, arrival.clock, row, emit))

    def release(self, rank: int) -> None:
        """Emit the events of ranks below `rank` in order, each at its own clock."""
        now, self._clock.turn = self._clock.now, rank
        while self._waiting and self._waiting[0][0] < rank:
            _, _, self._clock.now, row, emit = heappop(self._waiting)
            emit(row)
        self._clock.now = now


class Record(SlotWiseMOp):
    """Turns streams of documents into streams of events of one schema; slots stay the same."""

    single = True

    def __init__(self, first: Wanted, number: int, records: Records) -> None:
        super().__init__(first, number, ordered=False)
        schema = cast(Schema, first.definition)
        self._records = records
        self._columns = [
            (name, READERS[kind]) for name, kind in zip(schema.names, schema.types, strict=True)
        ]

    def receive(self, row: Row, members: Members) -> None:
        """Queue the event of a document; later versions are no events."""
        arrival = cast(Arrival, row[VALUES])
        if arrival.version == 1:
            values = _values(arrival.root, self._columns)
            event = (*row[:VALUES], *values)
            self._records.take(arrival, event, lambda one: self._output.emit(one, members))


def _values(root: etree._Element, columns: list[tuple[str, Callable[[str], Any]]]) -> Iterator[Any]:
    """Yield the values of a document's attributes; `columns` has names and readers of texts."""
    leaves: dict[str, str] = {}
    for child in root.iterchildren(etree.Element):
        leaves.setdefault(etree.QName(child).localname, string_value(child))
    for name, value in root.attrib.items():
        leaves.setdefault(etree.QName(name).localname, str(value))
    for name, read in columns:
        yield read(leaves[name]) if name in leaves else None


def _composite(text: str) -> Composite:
    return composite_of(json.loads(text))


COMPOSITE = AttributeType(Composite, json.dumps, _composite)


def instances(
    plan: Plan, operators: Iterable[Operator] | None = None
) -> Iterator[tuple[int | None, int]]:
    """Yield (retention, event time), in ticks, of each instance of operators over time.

    The operators are the given ones, or all.  The retention is None where a row ends the
    instance.
    """
    mops = plan.mops if operators is None else {operator.mop for operator in operators}
    for mop in mops:
        if isinstance(mop, StateMOp | OuterJoinMOp):
            for one in mop.kept():
                yield mop.keeps, one[0][1]
