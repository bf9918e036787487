"""The base streams: declared by name, checked event by event, handed to the plan.

Calendars are base streams, too, while queries read them; nobody pushes events to them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from sys import float_info
from typing import Any

from cep_core.dataflow.channels import Channel, Members, Port, members_of
from cep_core.dataflow.clock import END, farthest
from cep_core.dataflow.code import function_of
from cep_core.dataflow.mop import Operator
from cep_core.errors import CepError, near_miss
from cep_core.events import (
    CALENDAR_SCHEMA,
    TYPES,
    Event,
    Row,
    Schema,
    is_calendar,
    is_hashable,
    shown,
)
from cep_core.languages import require_name
from cep_core.plan.plan import Plan
from cep_core.runtime.instants import CalendarInstants

_LONGEST = 200  # characters of a name for which a similar one is looked for


@dataclass(frozen=True, slots=True)
class BaseStream:
    """A base stream: for pushed events, the rows of an adopted operator, or a calendar's instants.

    The lateness is in ticks.
    """

    name: str
    schema: Schema
    lateness: int
    label: str | None
    operator: Operator
    routes: Mapping[int, Sequence[Port]]  # by slot of its channel: the ports that read the stream
    slot: int
    members: Members = 0  # the membership of a row of this stream only
    # tests that values have exactly the types of the stream: then nothing else is checked
    fits: Callable[[tuple[Any, ...]], bool] = lambda values: False


class EngineStreams:
    """The base streams of an engine, and their rows of open epochs."""

    def __init__(self, plan: Plan, ticks_per_second: int) -> None:
        self._plan = plan
        self.rates: dict[str, float] = {}  # by stream: its declared rate, in events a second
        # the largest distance of a time from 0, in ticks
        self.farthest = farthest(ticks_per_second)
        self.by_name: dict[str, BaseStream] = {}
        self.recent: deque[tuple[Row, tuple[str, ...]]] = deque()
        self._labels: dict[str, BaseStream] = {}  # the first stream of each label
        self.widest = 0  # the largest lateness: how long rows may be open
        self.instants = CalendarInstants(ticks_per_second, self.farthest)
        self._readers: Counter[str] = Counter()  # by name of a calendar: its number of readers

    def declare(
        self,
        name: str,
        attributes: Mapping[str, type] | Schema,
        lateness: int,
        label: str | None,
        rate: float | None = None,
    ) -> None:
        """Add a base stream; those of one ``label`` share a channel, a schema and a lateness.

        The lateness is in ticks, the rate in events a second.
        """
        require_name(name, "the name of a stream")
        if type(lateness) is not int or not 0 <= lateness < END:
            raise CepError(f"a lateness is at least 0 ticks, not {shown(lateness)}")
        if label is not None and not isinstance(label, str):
            raise CepError(f"the label of a channel is a str, not {shown(label)}")
        if rate is not None and not (isinstance(rate, int | float) and 0 < rate <= float_info.max):
            raise CepError(f"a rate is a number of events in a second, not {shown(rate)}")
        schema = attributes if isinstance(attributes, Schema) else _schema(name, attributes)
        other = self._labels.get(label or "")
        if other is not None and (other.schema, other.lateness) != (schema, lateness):
            raise CepError(
                f"{name} and {other.name} cannot share the channel {label}:"
                " their attributes or latenesses differ"
            )
        operator = self._plan.source(name, len(schema), lateness, label)
        fits, members = _fits(schema.types), members_of([operator.slot])
        heard = operator.channel.routes, operator.slot
        stream = BaseStream(name, schema, lateness, label, operator, *heard, members, fits)
        self.by_name[name] = stream
        if label:
            self._labels.setdefault(label, stream)
        self.widest = max(self.widest, lateness)
        if rate is not None:
            self.rates[name] = float(rate)

    def adopt(self, name: str, schema: Schema, lateness: int, operator: Operator) -> None:
        """Add a stream whose rows an m-op of the plan puts out; nobody pushes events to it.

        ``lateness`` is in ticks.
        """
        require_name(name, "the name of a stream")
        heard = operator.channel.routes, operator.slot
        self.by_name[name] = BaseStream(name, schema, lateness, None, operator, *heard)

    def read_calendar(self, name: str) -> Operator:
        """Count a reader of a calendar, until `leave_calendar`; return the calendar's operator.

        The first reader adds the calendar: its instants of open epochs are earlier arrivals.
        """
        if self._readers[name]:
            self._readers[name] += 1
            return self.by_name[name].operator
        clock = self._plan.clock
        for time, _, at in self.instants.add(name, clock.now, self.widest):
            self.recent.append(((time, time, clock.arrivals - 1, at), (name,)))
        operator = self._plan.source(name, len(CALENDAR_SCHEMA), 0, None)
        heard = operator.channel.routes, operator.slot
        self.by_name[name] = BaseStream(name, CALENDAR_SCHEMA, 0, None, operator, *heard)
        self._readers[name] = 1
        return operator

    def leave_calendar(self, name: str) -> None:
        """Remove a reader of a calendar, and the calendar with the last one."""
        self._readers[name] -= 1
        if self._readers[name]:
            return
        del self._readers[name]
        self.instants.remove(name)
        del self.by_name[name], self._plan.sources[name]
        self.recent = deque(one for one in self.recent if name not in one[1])

    def calendars(self, names: Iterable[str]) -> list[str]:
        """Return a line of text for each of the named streams that is a calendar and is read."""
        now, known = self._plan.clock.now, filter(self.by_name.__contains__, names)
        return [self.instants.described(name, now) for name in known if is_calendar(name)]

    def pass_instants(self, time: int, arrival: int | None = None) -> int:
        """Emit the instants before a time; return the number of them.

        They arrive one after the other or, in an engine whose arrivals are numbered by its user,
        all with the number ``arrival``.
        """
        if time <= self.instants.next():
            return 0
        clock = self._plan.clock
        found = self.instants.before(time)
        for at, name, text in found:
            number = clock.arrivals if arrival is None else arrival
            clock.arrivals = number + 1
            self.consume((at, at, number, text), (name,))
        return len(found)

    def adopted(self) -> list[str]:
        """Return the names of adopted streams."""
        return [name for name, one in self.by_name.items() if one.operator.mop is not None]

    def fault(self, event: Event, names: tuple[str, ...]) -> str | None:
        """Return why an event of the streams ``names`` is rejected, as text; None if it is not."""
        if not names:
            return "it names no stream"
        for name in names:
            if not isinstance(name, str) or not is_hashable(name) or name not in self.by_name:
                if type(name) is not str or len(name) > _LONGEST:
                    return f"there is no stream {shown(name)}"
                hint = near_miss(name, self.by_name)
                return f"there is no stream {name}" + (f"; {hint}" if hint else "")
        first = self.by_name[names[0]]
        for name in names[1:]:
            if first.label is None or self.by_name[name].label != first.label:
                return f"{names[0]} and {name} are not labelled sharable"
        if first.operator.mop is not None:
            return f"{names[0]} is an adopted stream: nobody pushes events to it"
        if is_calendar(names[0]):
            return f"{names[0]} is a calendar: nobody pushes events to it"
        t1 = event.t0 if event.t1 is None else event.t1
        if type(event.t0) is not int or type(t1) is not int:
            return "its times are not integers"
        if event.t0 > t1:
            return f"its interval [{shown(event.t0)}, {shown(t1)}] is none"
        if not -self.farthest <= event.t0 <= t1 <= self.farthest:
            return (
                f"its interval [{shown(event.t0)}, {shown(t1)}] is out of range: times of events"
                f" are at most {self.farthest} ticks from the origin"
            )
        if not isinstance(event.values, tuple | list):
            return "its values are no tuple"
        return first.schema.fault(event.values)

    def consume(self, row: Row, names: tuple[str, ...]) -> None:
        """Emit a row into the plan; keep it while its epoch may be open."""
        self.remember(row, names)
        self.emit(row, names)

    def remember(self, row: Row, names: tuple[str, ...]) -> None:
        """Keep a row of the streams ``names`` while its epoch may be open."""
        if self.widest:
            self.recent.append((row, names))

    def emit(self, row: Row, names: tuple[str, ...]) -> None:
        """Emit a row into the plan, once on each channel of its streams."""
        by_channel: dict[Channel, list[int]] = {}
        for name in names:
            operator = self.by_name[name].operator
            by_channel.setdefault(operator.channel, []).append(operator.slot)
        for channel, slots in by_channel.items():
            channel.emit(row, members_of(sorted(slots)))

    def forget(self, now: int) -> None:
        """Drop kept rows whose epoch is closed everywhere when the clock is at ``now``."""
        while self.recent and self.recent[0][0][1] < now - self.widest:
            self.recent.popleft()


def names_of(event: Event) -> tuple[str, ...]:
    """Return the streams that an event names, each once; () if it names none."""
    names = event.stream
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, tuple | list):
        return ()
    known = all(isinstance(name, str) for name in names)
    return tuple(dict.fromkeys(names)) if known else tuple(names)


@lru_cache(1_000)
def _fits(types: tuple[type, ...]) -> Callable[[tuple[Any, ...]], bool]:
    """Return a compiled test that values have exactly some types.

    To compare a tuple of their types would take five times as long.
    """
    tests = [f"len(v) == {len(types)}", *[f"type(v[{at}]) is t{at}" for at in range(len(types))]]
    made: Callable[[tuple[Any, ...]], bool] = function_of(
        f"def made(v):\n    return {' and '.join(tests if {*types} <= {*TYPES} else ['False'])}",
        {f"t{at}": kind for at, kind in enumerate(types)},
    )
    return made


def _schema(name: str, attributes: Mapping[str, type]) -> Schema:
    if not isinstance(attributes, Mapping):
        raise CepError(f"the attributes of {name} are a mapping of names to types")
    return Schema(tuple(attributes), tuple(attributes.values()))
