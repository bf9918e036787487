"""`register`: subscriptions in and out of an engine on a file, with few and many present.

The queries have 1,000 shapes (`query_shapes`) and constants of their own.  With
each number present there are, in turns, a bulk (`subscribe_many`), one by one,
and removal of the same; at the end the engine is closed and opened again, until
its first push is committed.  The first query of a shape is compiled, and with the
second the shape itself; all others only get their constants put in.  The shapes
are known before anything is timed; their compilation has rows of its own.

`ratio` compares with no subscriptions present.  Queries with temporal operators are
planned one by one, and are fewer.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.harness import (
    REPEATS,
    Options,
    Row,
    Stages,
    Value,
    growth_row,
    require_equal,
    seconds,
    timed_stages,
    values,
)
from benchmarks.query_shapes import Kind, Queries, documents
from templates.columns import InternedValues
from templates.registry import Registry
from templates.state.stored_state import StoredState
from xscl.engine import transactions
from xscl.engine.eviction import Eviction
from xscl.engine.facade import Engine
from xscl.planning import dataflow as flow
from xscl.planning.compile import QueryPlans
from xscl.planning.planned_subscriptions import InstalledPairs, PlannedSubscriptions
from xscl.store.database import Database
from xscl.subscriptions.registration import Registration
from xscl.subscriptions.subscriptions import Subscriptions

NAME = "register"
SEED = 2009
SHAPES = 1_000
PART = 10_000  # subscriptions that are brought in at once while an engine is made ready
STAGES: dict[str, tuple[Any, str]] = {
    "text to shape and constants": (QueryPlans, "prepare"),
    "R_T in memory": (Registry, "add"),
    "R_T to the store": (Registry, "save"),
    "subscription in memory": (Subscriptions, "add"),
    "subscription to the store": (Subscriptions, "save"),
    "plan": (PlannedSubscriptions, "plan"),
    "attach": (PlannedSubscriptions, "attach"),
    "stage 1": (InstalledPairs, "install"),
    "prompt": (Registration, "set_prompt"),
    "operators' state": (Registration, "save_plan_state"),
    "commit": (Database, "_commit"),
    "subscribe, other": (Engine, "subscribe"),
}
REMOVAL: dict[str, tuple[Any, str]] = {
    "R_T": (Registry, "remove"),
    "subscription": (Subscriptions, "remove"),
    "detach": (PlannedSubscriptions, "detach"),
    "join state": (StoredState, "forget_pairs"),
    "values": (InternedValues, "sweep"),
    "documents": (Eviction, "sweep"),
    "prompt": (Registration, "set_prompt"),
    "operators' state": (Registration, "save_plan_state"),
    "commit": (Database, "_commit"),
    "unsubscribe, other": (Engine, "unsubscribe"),
}
RESTART: dict[str, tuple[Any, str]] = {
    "R_T": (Registry, "load"),
    "subscriptions": (Subscriptions, "_load"),
    "attach and plan": (Registration, "plan_again"),
    "stage 1": (InstalledPairs, "install"),
    "first push, stage 1": (flow, "shred"),
    "first push, other": (Engine, "push"),
    "opening, other": (transactions, "EngineState"),
    "store": (Engine, "__init__"),
}


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of each round: subscriptions present, in a bulk, and one by one."""

    kind: Kind
    present: tuple[int, ...]
    bulk: int
    singles: int
    shapes: int = SHAPES


QUICK = (
    Plan("joins", (0, 1_000, 3_000), 60, 15),
    Plan("over time", (0, 100), 25, 10, shapes=25),
)
FULL = (
    Plan("joins", (0, 1_000, 10_000, 100_000), 2_000, 100),
    Plan("over time", (0, 1_000, 10_000), 500, 50),
)


def run(options: Options) -> Iterator[Row]:
    """Yield rates of a bulk, times of one registration, removal and restart, and their growth."""
    for kind in ("joins", "over time"):
        verify(kind, 40 if options.quick else 150)
    for plan in QUICK if options.quick else FULL:
        yield from _points(_up_to(plan, options.most), options)


def _up_to(plan: Plan, most: int | None) -> Plan:
    """Return a plan limited to a number of subscriptions present."""
    if most is None or plan.kind != "joins":
        return plan
    present = (*(count for count in plan.present if count < most), most)
    return Plan(plan.kind, present, plan.bulk, plan.singles, plan.shapes)


# -- The same matches, however they came in ----------------------------------------------------


def verify(kind: Kind, subscriptions: int = 150, count: int = 200) -> int:
    """Return the number of matches of a small run; raises ResultsDiffer if they are not the same.

    Subscriptions are registered in a bulk, one by one, or between others that are
    removed again, with a restart before the documents.
    """
    queries = Queries(kind, subscriptions, SEED)
    asked, others = queries.take(subscriptions), queries.take(subscriptions // 2)
    pushed = documents(count, SEED)
    found = []
    with TemporaryDirectory() as folder:
        for way in ("bulk", "one by one", "among others"):
            path = Path(folder, f"{way}.sqlite")
            with Engine(path, owns_process=True) as engine:
                if way == "among others":
                    engine.subscribe_many(others)
                if way == "one by one":
                    for name, query in asked:
                        engine.subscribe(name, query)
                else:
                    engine.subscribe_many(asked)
                if way == "among others":
                    for name, _ in others:
                        engine.unsubscribe(name)
            with Engine(path, owns_process=True) as engine:
                matches = [*engine.push(pushed), *engine.flush()]
                found.append([(m.subscription, m.documents) for m in matches])
    require_equal(found[1], found[0], f"{kind}, one by one")
    return require_equal(found[2], found[0], f"{kind}, among others")


# -- Measuring -------------------------------------------------------------------------------


@dataclass(slots=True)
class Side:
    """An engine with some subscriptions, and the seconds of registration and removal."""

    path: Path
    plan: Plan
    present: int
    engine: Engine = field(init=False)
    queries: Queries = field(init=False)
    ready: float = 0.0
    bulk: list[float] = field(default_factory=list)
    one: list[float] = field(default_factory=list)
    removed: list[float] = field(default_factory=list)
    restart: list[float] = field(default_factory=list)
    coming: Stages = field(default_factory=Stages)
    going: Stages = field(default_factory=Stages)
    starting: Stages = field(default_factory=Stages)

    def __post_init__(self) -> None:
        self.engine = Engine(self.path, owns_process=True)
        self.queries = Queries(self.plan.kind, self.plan.shapes, SEED)
        for query in 2 * _each_shape(self.plan):
            self.engine.state.registration._shapes.prepare(query)
        parts = [min(PART, self.present - at) for at in range(0, self.present, PART)]
        texts = [self.queries.take(part) for part in parts]
        self.ready = sum(seconds(partial(self.engine.subscribe_many, text)) for text in texts)

    def turn(self) -> None:
        """Register a bulk, then some one by one; remove these, and the bulk if it is large."""
        bulk, singles = (self.queries.take(n) for n in (self.plan.bulk, self.plan.singles))
        self.bulk.append(seconds(lambda: self.engine.subscribe_many(bulk)))
        with timed_stages(self.coming, STAGES):
            for name, query in singles:
                self.one.append(seconds(partial(self.engine.subscribe, name, query)))
        with timed_stages(self.going, REMOVAL):
            for name, _ in singles:
                self.removed.append(seconds(partial(self.engine.unsubscribe, name)))
        if self.present < len(bulk):
            for name, _ in bulk:
                self.engine.unsubscribe(name)

    def start_again(self) -> None:
        """Close and open the engine, until its first push is committed."""
        self.engine.close()
        (document,) = documents(1, SEED + len(self.restart))

        def again() -> None:
            self.engine = Engine(self.path, owns_process=True)
            self.engine.push(document)

        with timed_stages(self.starting, RESTART):
            self.restart.append(seconds(again))


def _points(plan: Plan, options: Options) -> Iterator[Row]:
    yield from _compiled(plan)
    with TemporaryDirectory() as folder:
        sides = [Side(Path(folder, f"{present}.sqlite"), plan, present) for present in plan.present]
        for action in (Side.turn, Side.start_again):
            for _ in range(REPEATS):
                for side in sides:
                    action(side)
        for side in sides:
            yield from _rows(plan, side, sides[0])
            if options.profile:
                stages_of = {
                    "one by one": side.coming,
                    "remove": side.going,
                    "restart": side.starting,
                }
                for mode, stages in stages_of.items():
                    parameters = _parameters(plan, side, mode)
                    yield Row(
                        NAME,
                        {**parameters, "profile": "share of time by stage"},
                        stages.shares(),
                    )
        yield from _growth(plan, sides[1:])
        for side in sides:
            side.engine.close()


def _parameters(plan: Plan, side: Side, mode: str) -> dict[str, Value]:
    return values(
        variant=plan.kind, mode=mode, subscriptions=side.present, shapes=plan.shapes, storage="file"
    )


def _each_shape(plan: Plan) -> list[str]:
    """Return a query of each shape."""
    return [text for _, text in Queries(plan.kind, plan.shapes, SEED).take(plan.shapes)]


def _compiled(plan: Plan) -> Iterator[Row]:
    """Yield the compilation times of the first and the second query of each shape.

    Each shape once: of one that the process has seen, memos of the process may have parts.
    """
    shapes = QueryPlans()
    times: dict[str, list[float]] = {"first": [], "second": []}
    for query in _each_shape(plan):
        for some in times.values():
            some.append(seconds(partial(shapes.prepare, query)))
    for which, some in times.items():
        parameters = values(variant=plan.kind, mode=f"{which} of its shape", shapes=plan.shapes)
        yield Row(NAME, parameters, _spread(some))


def _rows(plan: Plan, side: Side, first: Side) -> Iterator[Row]:
    """Yield one row for each way; `ratio` compares with the fewest present."""
    rate, compared = (plan.bulk / statistics.median(s.bulk) for s in (side, first))
    figures: dict[str, Value] = {"registrations_per_s": rate, "ratio": rate / compared}
    if side.present:
        figures["registrations_per_s_until_here"] = side.present / side.ready
    yield Row(NAME, _parameters(plan, side, "bulk") | {"batch": plan.bulk}, figures)
    for mode, times, theirs in (
        ("one by one", side.one, first.one),
        ("remove", side.removed, first.removed),
    ):
        figures = _spread(times)
        figures["ratio"] = statistics.median(theirs) / statistics.median(times)
        yield Row(NAME, _parameters(plan, side, mode), figures)
    restart, compared = statistics.median(side.restart), statistics.median(first.restart)
    figures = {"milliseconds": restart * 1000, "ratio": compared / restart}
    yield Row(NAME, _parameters(plan, side, "restart"), figures)


def _spread(times: Sequence[float]) -> dict[str, Value]:
    cuts = statistics.quantiles(times, n=20, method="inclusive")
    return {"p50_ms": cuts[9] * 1000, "p95_ms": cuts[18] * 1000}


def _growth(plan: Plan, sides: Sequence[Side]) -> Iterator[Row]:
    if len(sides) < 2:
        return
    for mode in ("bulk", "one", "removed", "restart"):
        costs = [statistics.median(getattr(side, mode)) for side in sides]
        named = {"one": "one by one", "removed": "remove"}.get(mode, mode)
        sizes = [side.present for side in sides]
        yield growth_row(NAME, {"variant": plan.kind, "mode": named}, sizes, costs)
