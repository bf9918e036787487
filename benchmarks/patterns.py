"""`patterns`: queries with quantifiers and policies that differ in constants, against one of them.

- `broad`: bounds of rare events, selected through the shared index.
- `narrow`: one key for each query, `[key] AND a.key = 17`; other components read all keys.
- `narrow everywhere`: one key for each component of each query.
- `between`: a factor between two components, `[key] AND c.value > a.value * 50.1`; few pairs
  satisfy it.

`one` is one such query.  `whole` is a single query that finds what all narrow ones find together:
one narrow query is idle for all other keys, so what 1,000 cost beside it is mostly their own work.
The policy has no such query: it would discard matches of other keys.
The sides take turns, and times are processor time without reading results.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.harness import REPEATS, Options, Row, Value, require_equal, values
from cep_core import Engine, Event

NAME = "patterns"
SEED = 31
ONE, ALL, WHOLE = "one", "all", "whole"
_SASE = "EVENT SEQ(A a, {}, C c) WHERE {{}} WITHIN {{}}{} RETURN a.key, c.value AS last"
_EQL = "SELECT a.key, c.value AS last FROM A a ; {} ; C c WHERE FILTER({{}}) WITHIN {{}}{}"
LAST = " AFTER MATCH SKIP PAST LAST"
FORMS: Mapping[str, tuple[str, str, str]] = {  # language, text, how the middle is read
    "{2,4}": ("sase", _SASE.format("B{{2,4}} next b[]", ""), "b[i]"),
    "optional": ("sase", _SASE.format("B? b", ""), "b"),
    "greedy": ("sase", _SASE.format("B+ greedy next b[]", ""), "b[i]"),
    "policy": ("sase", _SASE.format("B b", LAST), "b"),
    "EQL {2,4}": ("eql", _EQL.format("B b{{2,4}}", ""), "b"),
    "EQL optional": ("eql", _EQL.format("B b?", ""), "b"),
    "EQL greedy": ("eql", _EQL.format("B b+ greedy", ""), "b"),
    "EQL policy": ("eql", _EQL.format("B b", LAST), "b"),
}
WINDOW = 60
EVENTS_OF_A_KEY = 6  # in a window
SPLIT = ("narrow", "narrow everywhere")  # what one query finds, each finds a part of


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of a run."""

    queries: int
    batch: int  # events of a measurement


QUICK, FULL = Plan(200, 1_000), Plan(1_000, 5_000)


def condition(kind: str, number: int, queries: int, middle: str) -> str:
    """Return the condition of a query; its number is its constant."""
    match kind:
        case "broad":
            bound = 99 + number / queries
            return f"a.value > {bound} AND c.value > {bound}"
        case "narrow":
            return f"[key] AND a.key = {number}"
        case "between":
            return f"[key] AND c.value > a.value * {50 + number / 10}"
        case _:
            return f"a.key = {number} AND {middle}.key = {number} AND c.key = {number}"


def engine(queries: Sequence[str], language: str) -> Engine:
    """Return an engine with three streams and some queries."""
    core = Engine(1)
    for stream in "ABC":
        core.stream(stream, {"key": int, "value": float})
    for number, query in enumerate(queries):
        core.register(f"q{number}", query, language)
    return core


def compared(form: str, kind: str, plan: Plan) -> Iterator[Row]:
    """Yield a row for each number of queries."""
    language, text, middle = FORMS[form]
    keys = plan.queries // 20 if kind == "between" else plan.queries
    window = WINDOW if kind == "broad" else EVENTS_OF_A_KEY * keys
    conditions = [condition(kind, one, plan.queries, middle) for one in range(plan.queries)]
    texts = [text.format(one, window) for one in conditions]
    sides = {ONE: engine(texts[:1], language), ALL: engine(texts, language)}
    if kind in SPLIT and LAST not in text:
        sides[WHOLE] = engine([text.format("[key]", window)], language)
    chance = random.Random(SEED)
    spent: dict[str, list[float]] = {side: [] for side in sides}
    found: dict[str, list[tuple[object, ...]]] = {side: [] for side in sides}
    for turn in range(REPEATS):
        events = [
            Event(chance.choice("ABC"), (chance.randrange(keys), 100 * chance.random()), at)
            for at in range(turn * plan.batch, (turn + 1) * plan.batch)
        ]
        for side, core in sides.items():
            began = time.process_time()
            core.take(events)
            spent[side].append((time.process_time() - began) / plan.batch)
            found[side] += [(*row[:2], *row[3:]) for _, row in core.rows()]
    if WHOLE in found:
        require_equal(found[ALL], found[WHOLE], f"{form}, {kind}")
    costs = {side: statistics.median(each) for side, each in spent.items()}
    for side, cost in costs.items():
        parameters = values(
            pattern=form, constants=kind, queries=plan.queries if side == ALL else 1, side=side
        )
        figures: dict[str, Value] = {
            "us_per_event": 1e6 * cost,
            "to_one": cost / costs[ONE],
            "to_whole": cost / costs[WHOLE] if WHOLE in costs else None,
            "matches": len(found[side]),
            "mops": len(sides[side].plan.mops),
        }
        yield Row(NAME, parameters, figures)


def run(options: Options) -> Iterator[Row]:
    """Yield all patterns with all constants."""
    plan = QUICK if options.quick else FULL
    for form in FORMS:
        for kind in ("broad", "narrow", "narrow everywhere", "between"):
            yield from compared(form, kind, plan)
