"""Random events: usual ones, and such as no schema allows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from random import Random
from typing import Any

from cep_core import Event

SCHEMAS: Mapping[str, Mapping[str, type]] = {
    "S": {"n": int, "v": float, "s": str, "flag": bool},
    "T": {"n": int, "x": int, "s": str},
    "U": {"n": int, "v": float, "s": str, "flag": bool},
}
_USUAL: Mapping[type, tuple[Any, ...]] = {
    int: (0, 1, 1, 1, 2, 2, 3, -1, None),
    float: (0.0, 1.0, 1.0, 2.0, 2, 3.5, -1.5, None, math.nan, math.inf),
    str: ("a", "a", "b", "", "it's", "\u00e9", None),
    bool: (True, False, None),
}
_HUGE = 10**400
_EXTREME: Mapping[type, tuple[Any, ...]] = {
    int: (_HUGE, -_HUGE, 2**63, -(2**64), 1 << 70),
    float: (math.inf, -math.inf, math.nan, -0.0, 5e-324, 1.7e308, _HUGE, -_HUGE),
    str: ("\0", "\ud800", "x" * 10_000, "\U0001f600", " ", "NaN"),
    bool: (True, False),
}


class _Unhashable(str):
    """A str that cannot be hashed or shown."""

    __hash__ = None  # type: ignore[assignment]  # that is the point

    def __repr__(self) -> str:
        raise ValueError("no repr")


WRONG: tuple[Any, ...] = (
    *(1, 1.5, "a", True, b"a", 1j, Decimal(1), object(), object, [], {}, set(), (), (1,)),
    *(_HUGE, math.nan, _Unhashable("a"), lambda: None, Ellipsis, NotImplemented),
)
_TIMES: tuple[Any, ...] = (
    *(-(2**62), -(2**62) + 1, 2**62 - 2, 2**62, 2**63, -(2**64), _HUGE),
    *(None, 1.0, "1", True, math.nan, -1, 0, (), [], object()),
)
_STREAMS: tuple[Any, ...] = (
    *("nope", "", "s", None, 1, (), ("S",), ("S", "U"), ("S", "nope"), ["S"], ("S", "S"), ("S", 1)),
    *(b"S", _Unhashable("S"), frozenset(("S",)), ("S", ("S",)), [("S",)]),
)


def usual_event(random: Random, now: int) -> Event:
    """Return an event that fits its stream, at about a time; now and then an extreme value."""
    stream = random.choice("SSSTTU")
    pools = _EXTREME if random.random() < 0.05 else _USUAL
    values = tuple(random.choice(pools[kind]) for kind in SCHEMAS[stream].values())
    end = now + random.choice((0, 0, 1, 1, 2, 5, -1, -3))
    begin = end - random.choice((0, 0, 0, 1, 4))
    return Event(stream, values, begin, end)


def plain_event(random: Random, now: int) -> Event:
    """Return a usual event whose values have the types of its stream: no null, no int for a float.

    An engine takes such events in without asking what it waits for between them.
    """
    while True:
        event = usual_event(random, now)
        if [type(one) for one in event.values] == [*SCHEMAS[str(event.stream)].values()]:
            return event


def odd_event(random: Random, now: int) -> Any:
    """Return an event of which something is wrong, or something else instead of an event."""
    event: Any = usual_event(random, now)
    for _ in range(random.choice((1, 1, 2))):
        match random.randrange(7):
            case 0:
                event = event._replace(stream=random.choice(_STREAMS))
            case 1:
                event = event._replace(t0=random.choice(_TIMES))
            case 2:
                event = event._replace(t1=random.choice(_TIMES))
            case 3:
                short = usual_event(random, now).values[:-1]
                event = event._replace(values=random.choice((*WRONG, short)))
            case 4:
                event = event._replace(schema=random.choice(WRONG))
            case 5:
                return random.choice((*WRONG, None, tuple(event)))
            case _ if isinstance(event.values, tuple) and event.values:
                at = random.randrange(len(event.values))
                wrong = (*event.values[:at], random.choice(WRONG), *event.values[at + 1 :])
                event = event._replace(values=wrong)
            case _:
                pass
    return event


def usual_events(random: Random, number: int, begin: int = 0) -> Iterator[Event]:
    """Yield events whose times go on slowly, some a little out of order."""
    now = begin
    for _ in range(number):
        now += random.choice((0, 0, 1, 1, 2, 7))
        yield usual_event(random, now)
