"""`next`: Figures 9 to 11 of NEXT CEP (Schultz-Møller, Migliavacca and Pietzuch, DEBS 2009).

Eight sources with Poisson-distributed events, 1, 2, 4, ... 128 a second; queries of the workloads
next, union and mix, random trees of a size with random sources at their leaves.

*   Figure 9: the number of operators that one node carries, by the size of the queries.  A node
    carries as many as keep up with the stream, by the time for a part of the stream.
*   Figure 10: the throughput of queries of five operators, by their number.
*   Figure 11: the number of queries of five operators that 1 to 40 nodes carry.  The nodes are
    simulated: `benchmarks.placement` computes their load from the cost model, in events a
    second; a node of the paper's machines is one of CAPACITY.
*   `memory`: the instances that are kept after each of ten windows, for a next and an iteration
    with `OCCURS WITHIN`, and a moment (`@`), which wait for rare events.

Both sides of Figures 9 and 10 share equal operators between queries, as the engine does (and the
paper's planner); their results are compared before anything is timed.  Processor time excludes
the delivery of matches: the paper's sinks are on other machines.
"""

from __future__ import annotations

import gc
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from time import process_time
from typing import Literal, NamedTuple, TypeAlias, get_args

from benchmarks.harness import (
    Options,
    Row,
    Value,
    exponent,
    interleaved,
    module_profile,
    require_equal,
    values,
)
from benchmarks.placement import Policy, supported, tree_of
from cep_core import Engine, Event, Match
from cep_core import Options as EngineOptions
from cep_core.algebra import Chain, Choice, One
from cep_core.algebra.pattern_tree import PatternTree
from cep_core.rewrite.cost import of_source, optimal_next, optimal_union

NAME = "next"
SEED = 2009
TICKS = 1_000
RATES: Mapping[str, float] = {f"E{2**n}": float(2**n) for n in range(8)}
CAPACITY = 40_000.0
Kind: TypeAlias = Literal["next", "union", "mix"]
Variant: TypeAlias = Literal["plain", "rewritten"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MANY: tuple[Kind, ...] = ("next", "union")  # on many nodes
VARIANTS: tuple[Variant, ...] = get_args(Variant)
TIMED: Mapping[str, str] = {  # {window} in seconds
    "next": "SELECT * FROM E64 x ; E8 y WHERE FILTER(x.id = y.id), (x, y) OCCURS WITHIN {window} s",
    "iteration": "SELECT ALL(y.id) AS run FROM E64 x ; E8 y+"
    " WHERE FILTER(x.id = y.id), (x, y) OCCURS WITHIN {window} s",
    "moment": "SELECT * FROM E8 x @ {window} s",
}
PLACEMENTS: Mapping[str, tuple[Policy, bool]] = {
    "round robin": ("round robin", False),
    "greedy": ("greedy", False),
    "greedy, reuse": ("reuse", False),
    "greedy, reuse, rewrite": ("reuse", True),
}


# -- workloads -----------------------------------------------------------------------------


class Pattern(NamedTuple):
    """A tree of sequences and unions of two, and the streams of its components."""

    tree: PatternTree
    streams: tuple[str, ...]


def pattern(kind: Kind, size: int, choose: random.Random) -> Pattern:
    """Return a random tree of so many operators."""
    streams: list[str] = []

    def grown(operators: int, operator: type[Chain] | type[Choice]) -> PatternTree:
        if not operators:
            streams.append(choose.choice(list(RATES)))
            return One(len(streams) - 1)
        inner = operator
        if kind == "mix" and operators <= size - 2:
            inner = Chain if choose.random() < 0.5 else Choice
        left = choose.randrange(operators)
        return inner((grown(left, inner), grown(operators - 1 - left, inner)))

    first = Choice if kind == "union" or (kind == "mix" and choose.random() < 0.5) else Chain
    tree = grown(size, first)
    return Pattern(tree, tuple(streams))


def text(one: Pattern) -> str:
    """Return a pattern as EQL; alternatives share one alias, as the operands of a union do."""

    def written(tree: PatternTree, alias: str | None) -> str:
        match tree:
            case One(component):
                return f"{one.streams[component]} {alias or f'x{component}'}"
            case Chain(parts):
                return f"({' ; '.join(written(part, None) for part in parts)})"
            case Choice(parts):
                name = alias or f"ux{leaves(tree)[0].component}"
                return f"({' | '.join(written(part, name) for part in parts)})"
            case _:
                raise AssertionError("workloads have sources, next and union")

    return f"SELECT * FROM {written(one.tree, None)}"


def leaves(tree: PatternTree) -> list[One]:
    """Return the components of a tree, from left to right."""
    if isinstance(tree, Chain | Choice):
        return [leaf for part in tree.parts for leaf in leaves(part)]
    assert isinstance(tree, One)
    return [tree]


def rewritten(one: Pattern) -> Pattern:
    """Return a pattern of sequences or of unions alone in its cheapest form."""
    parts: list[PatternTree] = [*leaves(one.tree)]
    rates = [RATES[one.streams[part.component]] for part in leaves(one.tree)]
    if isinstance(one.tree, Choice):
        weighted = list(zip(rates, parts, strict=True))
        return one._replace(tree=optimal_union(weighted, lambda x, y: Choice((x, y))))
    estimates = list(map(of_source, rates))
    return one._replace(tree=optimal_next(parts, estimates, lambda x, y: Chain((x, y))))


def queries(kind: Kind, size: int, number: int, seed: int) -> list[Pattern]:
    """Return the patterns of a workload."""
    choose = random.Random(seed)
    return [pattern(kind, size, choose) for _ in range(number)]


def events(seconds_of_stream: float, seed: int) -> list[Event]:
    """Return the events of all sources, in order."""
    choose = random.Random(seed)
    found: list[Event] = []
    for name, rate in RATES.items():
        time = choose.expovariate(rate)
        while time < seconds_of_stream:
            found.append(Event(name, (len(found),), int(time * TICKS)))
            time += choose.expovariate(rate)
    return sorted(found, key=lambda one: one.t0)


class Undelivered(Engine):
    """An engine whose matches stay undelivered, as rows."""

    def _matches(self) -> list[Match]:
        return []


def engine(patterns: Sequence[Pattern], variant: Variant, kind: type[Engine] = Engine) -> Engine:
    """Return an engine with the queries; the variants differ in rewriting only."""
    core = kind(TICKS, options=EngineOptions(rewriting=variant == "rewritten"))
    for name, rate in RATES.items():
        core.stream(name, {"id": int}, rate=rate)
    for number, one in enumerate(patterns):
        core.register(f"q{number}", text(one), language="eql")
    return core


# -- one node ------------------------------------------------------------------------------


def verify(kind: Kind, size: int, number: int = 6, stream: float = 4.0) -> int:
    """Return the number of matches of both variants; raise ResultsDiffer if they differ."""
    patterns, sent = queries(kind, size, number, SEED), events(stream, SEED)
    plain, rewritten_ = (_said(engine(patterns, variant).push(sent)) for variant in VARIANTS)
    return require_equal(rewritten_, plain, f"{kind}, {size} operators")


def _said(matches: Sequence[Match]) -> list[tuple[object, ...]]:
    return [(name, event.t0, event.t1, event.values) for name, event in matches]


def spent(patterns: Sequence[Pattern], sent: Sequence[Event]) -> dict[str, float]:
    """Return the seconds of each variant for a part of the stream."""

    def measured(variant: Variant) -> Callable[[], float]:
        def measure() -> float:
            core = engine(patterns, variant, Undelivered)
            gc.collect()
            gc.disable()
            began = process_time()
            core.push(sent)
            passed = process_time() - began
            gc.enable()
            return passed

        return measure

    return interleaved({variant: measured(variant) for variant in VARIANTS})


def figure_9(quick: bool) -> Iterator[Row]:
    """Yield the operators that one node carries, by the size of queries."""
    amount, stream, repeats = (12, 3.0, 1) if quick else (20, 20.0, 5)
    for kind in KINDS:
        for size in (2, 5, 10) if quick else (2, 3, 4, 5, 6, 8, 10):
            matches = verify(kind, size)
            times: dict[str, float] = dict.fromkeys(VARIANTS, 0.0)
            for number in range(repeats):
                patterns = queries(kind, size, amount, SEED + number)
                for variant, time in spent(patterns, events(stream, SEED + number)).items():
                    times[variant] += time / repeats
            for variant in VARIANTS:
                parameters: dict[str, Value] = {"figure": "9", "workload": kind}
                figures: dict[str, Value] = {
                    "operators": size * amount * stream / times[variant],
                    "ratio": times["plain"] / times[variant],
                    "matches": matches,
                }
                yield Row(NAME, parameters | {"size": size, "variant": variant}, figures)


def figure_10(quick: bool) -> Iterator[Row]:
    """Yield the throughput of queries of five operators, by their number."""
    stream = 2.0 if quick else 10.0
    for kind in KINDS:
        for amount in (10, 30) if quick else (10, 20, 40, 80, 160):
            sent = events(stream, SEED)
            times = spent(queries(kind, 5, amount, SEED), sent)
            for variant in VARIANTS:
                parameters: dict[str, Value] = {"figure": "10", "workload": kind}
                figures = values(
                    events_per_s=len(sent) / times[variant], ratio=times["plain"] / times[variant]
                )
                yield Row(NAME, parameters | {"queries": amount, "variant": variant}, figures)


def profiles(stream: float, amount: int = 40) -> Iterator[Row]:
    """Yield profiles of rewriting and planning queries, and of events."""
    sent = events(stream, SEED)
    for kind in KINDS:
        patterns = queries(kind, 5, amount, SEED)
        for variant in VARIANTS:
            core = engine(patterns, variant, Undelivered)
            parameters: dict[str, Value] = {"figure": "10", "workload": kind, "variant": variant}
            at_first, later = parameters | {"of": "registering"}, parameters | {"of": "events"}
            yield module_profile(NAME, at_first, engine, patterns, variant)
            yield module_profile(NAME, later, core.push, sent)


# -- many nodes ----------------------------------------------------------------------------


def figure_11(quick: bool) -> Iterator[Row]:
    """Yield the number of queries of five operators that simulated nodes carry, by policy."""
    sizes = (1, 10, 40) if quick else (1, 2, 5, 10, 15, 20, 25, 30, 35, 40)
    repeats = 1 if quick else 5
    for kind in MANY:
        found = {name: [carried(name, kind, n, repeats) for n in sizes] for name in PLACEMENTS}
        for name, counts in found.items():
            growth = exponent(sizes[1:], counts[1:])
            for nodes, amount in zip(sizes, counts, strict=True):
                parameters: dict[str, Value] = {"figure": "11", "workload": kind, "nodes": nodes}
                base = found["round robin"][sizes.index(nodes)]
                figures = values(queries=amount, ratio=amount / base, exponent=growth)
                yield Row(NAME, parameters | {"variant": name}, figures)


def carried(name: str, kind: Kind, nodes: int, repeats: int) -> float:
    """Return the mean number of queries that nodes carry under a placement."""
    policy, rewrites = PLACEMENTS[name]
    total = 0
    for number in range(repeats):
        choose = random.Random(SEED + number)
        patterns = (pattern(kind, 5, choose) for _ in count())
        planned = (rewritten(one) if rewrites else one for one in patterns)
        trees = (tree_of(*one, RATES) for one in planned)
        total += supported(trees, nodes, policy, CAPACITY)
    return total / repeats


# -- memory --------------------------------------------------------------------------------


def memory(windows: int, window: int) -> Iterator[Row]:
    """Yield the instances that are kept after each of some windows of so many seconds."""
    for variant, asked in TIMED.items():
        core = engine([], "plain")
        core.register("q", asked.format(window=window), language="eql")
        sent = [
            Event(one.stream, (number // 8,), one.t0)
            for number, one in enumerate(events(float(windows * window), SEED))
        ]
        matches = at = 0
        for number in range(1, windows + 1):
            end = bisect_left(sent, number * window * TICKS, key=lambda one: one.t0)
            matches += len(core.push(sent[at:end]))
            at = end
            parameters: dict[str, Value] = {"figure": "memory", "workload": variant}
            yield Row(
                NAME,
                parameters | {"window": window, "windows": number},
                {"instances": core.stats()["instances"], "matches": matches},
            )


def run(options: Options) -> Iterator[Row]:
    """Yield the rows of all figures."""
    if options.profile:
        yield from profiles(2.0 if options.quick else 10.0)
    yield from figure_9(options.quick)
    yield from figure_10(options.quick)
    yield from figure_11(options.quick)
    yield from memory(10, 2 if options.quick else 10)
