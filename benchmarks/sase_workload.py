"""Events and queries of section 5.1 of Wu, Diao and Rizvi 2006, and engines that take turns.

An event has one of T types, uniformly (Table 1), and attributes with uniform values below V_i; one
event a tick, so a window of W ticks holds W events, as the paper counts windows.  The types share a
channel: they are one event stream, and the basic algorithm's automaton sees all of it.
"""

from __future__ import annotations

import gc
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.harness import Stages, require_equal, timed_stages
from benchmarks.runtime_stack import RuntimeStack
from cep_core import Engine, Event, Match
from cep_core.dataflow.channels import Channel
from cep_core.dataflow.clock import Lane
from cep_core.operators.pattern.stacks import ActiveStacks
from cep_core.plan.plan import Builder
from cep_core.runtime.intake import EventIntake

SEED = 2006
TYPES = 20
WINDOW = 10_000
BATCH = 1_000  # events of a push
STAGES: Mapping[str, tuple[Any, str]] = {
    "take in": (EventIntake, "consume"),
    "epochs": (Lane, "close"),
    "scan": (ActiveStacks, "push_row"),
    "construct": (ActiveStacks, "flush"),
    "deliver": (Channel, "emit_all"),
    "sort matches": (Engine, "_matches"),
}
SCANNING: Mapping[str, tuple[Any, str]] = {
    "scan": (ActiveStacks, "push_row"),
    "construct": (ActiveStacks, "flush"),
    "runtime stack": (RuntimeStack, "advance"),
    "delivery": (Channel, "emit_all"),
}


@dataclass(frozen=True, slots=True)
class Table1:
    """The parameters of a stream: types, and the domains of attr1, attr2, ..."""

    types: int = TYPES
    domains: tuple[int, ...] = (100, 20)


def simulated(types: int, domain: int, length: int) -> int:
    """Return the number of types at which a query is as selective as one with a test over a domain.

    The paper multiplies the types by V^((L-1)/L), from its formula (1), to measure construction
    without the evaluation of predicates.
    """
    multiplied: float = types * domain ** ((length - 1) / length)
    return int(multiplied)


def domain_for(matches: float, length: int, window: int = WINDOW, types: int = TYPES) -> int:
    """Return the domain of attr1 at which each event has so many matches, on average.

    With a window that slides an event of the last type meets W^(L-1) / (L-1)! sequences of others.
    """
    factorial = 1
    for number in range(2, length):
        factorial *= number
    sequences: float = window ** (length - 1) / (factorial * types**length * matches)
    return max(1, int(sequences ** (1 / (length - 1))))


def events(table: Table1, number: int, seed: int = SEED) -> list[Event]:
    """Return events, one a tick."""
    chosen = random.Random(seed)
    names = [f"E{kind}" for kind in range(table.types)]
    return [
        Event(chosen.choice(names), tuple([chosen.randrange(v) for v in table.domains]), tick)
        for tick in range(1, number + 1)
    ]


def query(length: int, window: int = WINDOW, tests: Sequence[str] = (), more: str = "") -> str:
    """Return SEQ(E0, E1, ..) with equivalence tests."""
    components = ", ".join(f"E{kind} x{kind}" for kind in range(length))
    conditions = [f"[{', '.join(tests)}]"] if tests else []
    conditions += [more] if more else []
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"EVENT SEQ({components}){where} WITHIN {window}"


@dataclass(slots=True)
class Side:
    """An engine with one query, which processes the events of a run batch by batch."""

    engine: Engine
    events: Sequence[Event]
    at: int = 0
    matches: int = 0
    cpu: list[float] = field(default_factory=list)  # processor seconds of each run of events
    found: Counter[Any] = field(default_factory=Counter)

    def take(self, number: int, *, remember: bool = False, rows: bool = False) -> float:
        """Push the next events; return the seconds.

        The events of a push are created right before it, as in the paper.  With ``rows``
        results are read as rows, in no order.
        """
        seconds = cpu = 0.0
        end = min(self.at + number, len(self.events))
        for begin in range(self.at, end, BATCH):
            chosen = self.events[begin : min(begin + BATCH, end)]
            batch = [Event(one.stream, (*one.values,), one.t0) for one in chosen]
            began, busy = time.perf_counter(), time.process_time()
            matches = self._rows(batch) if rows else self.engine.push(batch)
            seconds += time.perf_counter() - began
            cpu += time.process_time() - busy
            self.matches += len(matches)
            if remember and not rows:
                self.found.update(map(seen, matches))
        self.at = end
        self.cpu.append(cpu)
        return seconds

    def _rows(self, batch: Sequence[Event]) -> list[Any]:
        self.engine.take(batch)
        return self.engine.rows()


def seen(match: Match) -> tuple[Any, ...]:
    """Return a match as a value."""
    return (match.event.t0, match.event.t1, *match.event.values)


def side(
    table: Table1,
    text: str,
    taken: Sequence[Event],
    builders: Mapping[str, Builder] | None = None,
    *,
    one_stream: bool = True,
) -> Side:
    """Return an engine with a query; without ``one_stream`` each type is a channel of its own."""
    engine = Engine(1, builders=builders)
    attributes = {f"attr{place + 1}": int for place in range(len(table.domains))}
    for kind in range(table.types):
        engine.stream(f"E{kind}", attributes, channel="ES" if one_stream else None)
    engine.register("q", text, "sase")
    return Side(engine, taken)


def warmed(sides: Mapping[str, Side], number: int) -> int:
    """Push the first events to all sides; compare and count their matches."""
    for one in sides.values():
        one.take(number, remember=True)
    first, *others = sides.values()
    for name, one in sides.items():
        if one is not first:
            require_equal(one.found.elements(), first.found.elements(), name)
    for one in others:
        one.found.clear()
    return first.found.total()


def alternating(
    sides: Mapping[str, Side], number: int, repeats: int
) -> Iterator[tuple[str, float]]:
    """Yield (side, seconds) of batches; the sides alternate.

    Garbage is collected in between, so that no side pays for another's.  The benchmark's own list
    of future events is excluded from collection.
    """
    gc.collect()
    gc.freeze()
    for _ in range(repeats):
        for name, one in sides.items():
            gc.collect()
            yield name, one.take(number)
    gc.unfreeze()


def stage_shares(one: Side, number: int) -> dict[str, float]:
    """Return the shares of a batch's time by stage, the largest first."""
    stages = Stages()
    with timed_stages(stages, STAGES):
        one.take(number)
    return stages.shares()


def scanning(one: Side, number: int) -> float:
    """Return the seconds of a batch spent in scan and construction alone.

    They exclude the common parts of both algorithms: intake of events and delivery of results.
    """
    stages = Stages()
    with timed_stages(stages, SCANNING):
        one.take(number)
    return sum(stages.spent[name] for name in ("scan", "construct", "runtime stack")) / 1e9
