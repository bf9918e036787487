"""Events, schemas and matches: what goes in and what comes out.

An event has data values and an interval [t0, t1] in integer ticks; t1 is its detection time.
Events with the same t1 are simultaneous: they form one epoch (Hong 2009, sections 3.2 and 4.2.1).
Inside the engine a row is the plain tuple (t0, t1, first, *values), `first` being the smallest
arrival number of its parts.

Times are at most as far from the origin as the year 9999 is from 1970 (`clock.farthest`). An
event beyond is rejected: it would be of another unit, and make all later events late.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

from cep_core.decimals import BoundedDecimal, is_decimal
from cep_core.errors import CepError

Row: TypeAlias = tuple[Any, ...]
VALUES = 3  # where the values of a row begin
_LONGEST = 80  # characters of a value in a message
TYPES = (str, int, float, bool, BoundedDecimal)  # types of attributes; users add more
CALENDAR = "AT '"  # begins the names of calendar streams: AT '0 9 * * MON' ZONE 'Europe/Berlin'


@dataclass(frozen=True, slots=True)
class Schema:
    """The names and types of a stream's attributes, in order.  Every attribute may be null."""

    names: tuple[str, ...]
    types: tuple[type, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.names, tuple) or not isinstance(self.types, tuple):
            raise CepError("the names and types of a schema are tuples")
        if len(self.names) != len(self.types):
            raise CepError(f"{len(self.names)} names and {len(self.types)} types are no schema")
        for name, kind in zip(self.names, self.types, strict=True):
            if not isinstance(name, str):
                raise CepError(f"the name of an attribute is a str, not {shown(name)}")
            if not isinstance(kind, type) or kind.__hash__ is None:
                raise CepError(
                    f"the type of {shown(name)} is {shown(kind)}, which is no hashable class",
                    hint=f"types are {', '.join(t.__name__ for t in TYPES)}, or your own",
                )
        if Decimal in self.types:
            kinds = [BoundedDecimal if kind is Decimal else kind for kind in self.types]
            object.__setattr__(self, "types", tuple(kinds))
        if len(set(self.names)) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise CepError(f"a schema has the attribute {shown(twice)} twice")

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        pairs = zip(self.names, self.types, strict=True)
        return "(" + ", ".join(f"{name} {kind.__name__}" for name, kind in pairs) + ")"

    def fault(self, values: Iterable[Any]) -> str | None:
        """Return why values do not fit the schema; None if they do.

        An int fits where a float is declared; a `decimal.Decimal` or an int where a decimal is.
        """
        values = tuple(values)
        if len(values) != len(self.names):
            return f"{len(values)} values for the {len(self.names)} attributes {self}"
        for name, kind, value in zip(self.names, self.types, values, strict=True):
            if value is None or (type(value) is kind and kind in TYPES):
                continue
            if kind is float and type(value) is int:
                continue
            if kind is BoundedDecimal and type(value) in (int, Decimal) and is_decimal(value):
                continue
            if kind in TYPES or not isinstance(value, kind):
                return f"{name} is {shown(value)}, not of type {kind.__name__}"
            if not is_hashable(value):
                return f"{name} is {shown(value)}, which cannot be hashed"
        return None

    def row_values(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """Return values that fit the schema as a row has them: decimals as `BoundedDecimal`."""
        return tuple(
            BoundedDecimal(value) if kind is BoundedDecimal and value is not None else value
            for kind, value in zip(self.types, values, strict=True)
        )


CALENDAR_SCHEMA = Schema(("at",), (str,))


def is_calendar(name: str) -> bool:
    """Return True if a stream is a calendar: no other name has a space or a quote."""
    return name.startswith(CALENDAR)


def written(value: object) -> str:
    """Return the repr of a value, or its type if it has none."""
    try:
        return repr(value)
    except Exception:  # of a type of the user's, or an int of too many digits
        return f"a value of type {type(value).__name__}"


def shown(value: object) -> str:
    """Return the repr of a value for a message, cut to `_LONGEST` characters."""
    text = written(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def is_hashable(value: object) -> bool:
    """Return True if a value can be hashed; some types fail only when hashed."""
    try:
        hash(value)
    except Exception:
        return False
    return True


class Event(NamedTuple):
    """An event of a stream; without `t1` it is a point in time.  Events of matches have `schema`.

    `stream` may be several names: the event then belongs to each of these streams, which have to
    be labelled sharable (the same `channel` in `Engine.stream`).
    """

    stream: str | tuple[str, ...]
    values: tuple[Any, ...]
    t0: int
    t1: int | None = None
    schema: Schema | None = None


class Match(NamedTuple):
    """An event of a query's output."""

    query: str
    event: Event


class Late(NamedTuple):
    """A row that came after its epoch was closed, and the labels of the m-ops that missed it."""

    row: Row
    watermark: int
    missed: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why the row was late, in words."""
        return f"it ended at {self.row[1]}, when everything before {self.watermark} was closed"


class Rejected(NamedTuple):
    """An event that was not taken in, and why."""

    event: Event
    reason: str
