"""Streams and CEL texts of the papers' event benchmarks, all from seeds, and engines to run them.

Cayuga's technical benchmark is Table 4.1 of Hong 2009 (section 4.6.1), the feed
patterns are Table 4.3, the workloads of RUMOR are Table 5.3 (section 5.5).  All
times are ticks, one to a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from math import exp
from random import Random
from typing import Any, Literal, TypeAlias, get_args

from benchmarks.harness import ResultsDiffer, interleaved, require_equal, seconds
from benchmarks.mmqjp import zipf_weights
from cep_core import ALL_RULES, Engine, Event, Match, Options
from cep_core import Rule as MRule

Result: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams by name, queries by name, and the events in order of arrival.

    Streams that ``sharable`` names are labelled to share one channel.
    """

    streams: Mapping[str, Mapping[str, type]]
    queries: Sequence[tuple[str, str]]
    events: Sequence[Event]
    sharable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Mode:
    """Sharing between the queries of an engine."""

    rules: tuple[MRule, ...]
    options: Options


INDEXES_ON = Options()
INDEXES_OFF = Options(active_node_index=False, active_instance_index=False)
ALL, NOTHING = Mode(ALL_RULES, INDEXES_ON), Mode((), INDEXES_OFF)


def without(*names: str, options: Options = INDEXES_ON) -> Mode:
    """Return a mode that lacks the named rules."""
    return Mode(tuple(rule for rule in ALL_RULES if rule.name not in names), options)


class Side:
    """An engine with a workload: loads queries, pushes events part by part, keeps the matches."""

    def __init__(self, workload: Workload, mode: Mode = ALL) -> None:
        self.engine = Engine(ticks_per_second=1, rules=mode.rules, options=mode.options)
        for name, attributes in workload.streams.items():
            channel = "sharable" if name in workload.sharable else None
            self.engine.stream(name, attributes, channel=channel)
        self.matches: list[Match] = []
        self.loaded = 0
        self.registrations_per_s = 0.0  # of the latest load
        self._queries = workload.queries
        self._events = workload.events
        self._taken = 0

    def load(self, count: int | None = None) -> None:
        """Register queries until there are ``count``, or all."""
        batch = self._queries[self.loaded : count]

        def register() -> None:
            for name, text in batch:
                self.engine.register(name, text)

        if batch:
            self.registrations_per_s = len(batch) / seconds(register)
        self.loaded += len(batch)

    def load_within(self, count: int, budget: float) -> bool:
        """Load up to ``count`` if the latest load went fast enough for ``budget`` seconds."""
        if self.loaded and count - self.loaded > budget * self.registrations_per_s:
            return False
        self.load(count)
        return True

    def push(self, count: int) -> float:
        """Push the next events; return the seconds for each."""
        part = self._events[self._taken : self._taken + count]
        if len(part) < count:
            raise ValueError(f"the workload has {len(self._events)} events, too few")
        self._taken += count
        return seconds(lambda: self.matches.extend(self.engine.push(part))) / count

    def results(self, said: Callable[[Match], Result]) -> list[Result]:
        """Return the values of all matches so far, and clear them."""
        found, self.matches = self.matches, []
        return [said(match) for match in found]


def whole(match: Match) -> Result:
    """Return the content of a match."""
    return (match.query, match.event.t0, match.event.t1, *match.event.values)


def raced(
    sides: Mapping[str, Side],
    events: int,
    parts: int,
    what: str,
    said: Callable[[Match], Result] = whole,
) -> tuple[dict[str, float], int]:
    """Return the seconds for an event by side, and the number of matches of each.

    The sides process the same parts of the stream in turns, after one part that is
    not timed.  Their results must be equal, those of that part included.  ``said``
    returns the compared content of a match.
    """
    size = events // (parts + 1)
    for side in sides.values():
        side.push(size)
    measures = {name: partial(side.push, size) for name, side in sides.items()}
    spent = interleaved(measures, parts)
    first, *others = sides.values()
    expected = first.results(said)
    for side in others:
        require_equal(side.results(said), expected, what)
    return spent, len(expected)


def verified(workload: Workload, modes: Mapping[str, Mode], what: str) -> int:
    """Return the number of matches, equal in all modes and positive."""
    sides = {name: Side(workload, mode) for name, mode in modes.items()}
    expected: list[Result] | None = None
    for name, side in sides.items():
        side.load()
        side.push(len(workload.events))
        side.matches += side.engine.close()
        found = side.results(whole)
        expected = found if expected is None else expected
        require_equal(found, expected, f"{what}, {name}")
    if not expected:
        raise ResultsDiffer(f"{what}: nothing matched, so nothing was compared")
    return len(expected)


class Zipf:
    """Draws ranks from 0: rank k has the weight 1 / (k + 1)^parameter."""

    def __init__(self, size: int, parameter: float) -> None:
        self._ranks = range(size)
        self._weights = list(accumulate(zipf_weights(size, parameter)))

    def draw(self, random: Random) -> int:
        """Return a rank."""
        return random.choices(self._ranks, cum_weights=self._weights)[0]

    def draw_other(self, random: Random, than: int) -> int:
        """Return a rank that is not the given one."""
        while (rank := self.draw(random)) == than:
            pass
        return rank


def named(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return texts with names: q0, q1, ..."""
    return [(f"q{number}", text) for number, text in enumerate(texts)]


# -- Cayuga: the technical benchmark -------------------------------------------------------

Template: TypeAlias = Literal[
    "LinearStat", "LinearDyn", "Filter", "NonDeterministic", "NonDeterministicAgg"
]
TEMPLATES: tuple[Template, ...] = get_args(Template)
DISCRETE = ("d1", "d2", "d3", "d4")
CONTINUOUS = ("c1", "c2", "c3", "c4")
ATTRIBUTES = DISCRETE + CONTINUOUS


@dataclass(frozen=True, slots=True)
class Table41:
    """The parameters of Table 4.1 with their defaults; `zipf` is zipf_1, zipf_2, zipf_3.

    An inequality predicate is a range lo <= c < lo + selectivity; there are ``ranges`` of them.
    """

    domain: int = 100
    ranges: int = 25
    selectivity: float = 0.7
    zipf: tuple[float, float, float] = (1, 1, 0.8)
    duration: int = 20


def cayuga(
    template: Template, subscriptions: int, events: int, table: Table41, seed: int
) -> Workload:
    """Return the technical benchmark: eight attributes, uniform, one event a tick."""
    stream = dict[str, type](dict.fromkeys(DISCRETE, int)) | dict.fromkeys(CONTINUOUS, float)
    texts = [
        written(template, conditions, primary, table.duration)
        for primary, conditions in _conditions(subscriptions, table, Random(seed))
    ]
    happening = list(_uniform_events(events, table.domain, Random(seed + 1)))
    return Workload({"S": stream}, named(texts), happening)


def _uniform_events(count: int, domain: int, random: Random) -> Iterator[Event]:
    for time in range(count):
        discrete = [random.randrange(domain) for _ in DISCRETE]
        yield Event("S", (*discrete, *(random.random() for _ in CONTINUOUS)), time)


def _conditions(
    count: int, table: Table41, random: Random
) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Yield the primary predicate and θ_1, θ_2, θ_3 of each subscription.

    The primary attribute and its constant are the same in all three; the other
    attributes are drawn anew for each by zipf_1, the constants of θ_i by zipf_i.
    """
    attribute = Zipf(len(DISCRETE), table.zipf[0])
    constants = [Zipf(table.domain, parameter) for parameter in table.zipf]
    ranges = [Zipf(table.ranges, parameter) for parameter in table.zipf]
    for _ in range(count):
        primary = attribute.draw(random)
        value = constants[0].draw(random)

        def step(i: int, primary: int = primary, value: int = value) -> str:
            other = attribute.draw_other(random, primary)
            equal = {primary: value, other: constants[i].draw(random)}
            first = attribute.draw(random)
            within = {
                column: ranges[i].draw(random)
                for column in (first, attribute.draw_other(random, first))
            }
            return _conjunction(equal, within, table)

        yield f"{DISCRETE[primary]} = {value}", (step(0), step(1), step(2))


def _conjunction(equal: Mapping[int, int], within: Mapping[int, int], table: Table41) -> str:
    """Return two equalities and two ranges in CEL, attributes in the schema's order."""
    parts = [f"{DISCRETE[column]} = {value}" for column, value in sorted(equal.items())]
    for column, number in sorted(within.items()):
        low = (1 - table.selectivity) * number / max(1, table.ranges - 1)
        name = CONTINUOUS[column]
        parts.append(f"{name} >= {low:.4f} AND {name} < {low + table.selectivity:.4f}")
    return " AND ".join(parts)


def written(
    template: Template, conditions: tuple[str, str, str], primary: str, duration: int
) -> str:
    """Return a subscription in CEL.

    DUR of the second NEXT or FOLD counts from the first event of all.  FOLD needs
    the second stream's attributes once in the first: what a FOLD has made is
    renamed before the next one.
    """
    one, two, three = conditions
    kept = f"DUR <= {duration} AND $2.{primary}"  # θ_4 and θ_5
    match template:
        case "LinearStat":
            return _linear(one, two, three, "")
        case "LinearDyn":
            rise = " AND c1 > 1.01 * c1_1"
            return _linear(one, two + rise, three + rise, "")
        case "Filter":
            return _linear(one, two, three, f"{{{kept}}}")
        case "NonDeterministic":
            begun = f"FILTER{{{one}}}(S)"
            return _iterated(begun, two, three, kept, (), "")
        case "NonDeterministicAgg":
            sums = [f"s{number}" for number, _ in enumerate(CONTINUOUS, 1)]
            named = ", ".join(f"{c} AS {s}" for c, s in zip(CONTINUOUS, sums, strict=True))
            begun = f"FILTER{{{one}}}(SELECT *, {named} FROM S)"
            adding = ", ".join(
                f"$.{s} + $2.{c} AS {s}" for c, s in zip(CONTINUOUS, sums, strict=True)
            )
            return _iterated(begun, two, three, kept, sums, adding)


def _linear(one: str, two: str, three: str, kept: str) -> str:
    pairs = f"FILTER{{{two}}}(FILTER{{{one}}}(S) NEXT{kept} S)"
    return f"SELECT * FROM FILTER{{{three}}}({pairs} NEXT{kept} S)"


def _iterated(begun: str, two: str, three: str, kept: str, sums: Sequence[str], adding: str) -> str:
    fold = f"FOLD{{{kept}, , {adding}}} S"
    columns = [*(f"{name}_1 AS {name}_0" for name in ATTRIBUTES), *ATTRIBUTES, *sums]
    middle = f"(SELECT {', '.join(columns)} FROM FILTER{{{two}}}({begun} {fold}))"
    return f"SELECT * FROM FILTER{{{three}}}({middle} {fold})"


# -- Stock quotes --------------------------------------------------------------------------

NAMES = 24


def quotes(count: int, window: int, seed: int) -> list[Event]:
    """Return daily prices of 24 names, one quote a tick, as averages of the last ``window``.

    Log prices swing around a level and keep much of their last direction, so that
    rises and falls of a fifth occur.  A name is absent on
    one day in two hundred.  Prices are in cents: equal neighbours occur.
    """
    random = Random(seed)
    depth, drift = [0.0] * NAMES, [0.0] * NAMES
    level = [random.uniform(2.5, 4.5) for _ in range(NAMES)]
    last: list[list[float]] = [[] for _ in range(NAMES)]
    events: list[Event] = []
    while len(events) < count:
        for name in range(NAMES):
            drift[name] = 0.9 * drift[name] - 0.06 * depth[name] + random.gauss(0, 0.03)
            depth[name] += drift[name]
            if random.random() < 0.005:
                continue
            last[name] = [*last[name], exp(level[name] + depth[name] + random.gauss(0, 0.004))][
                -window:
            ]
            price = round(sum(last[name]) / len(last[name]), 2)
            events.append(Event("Stock", (f"N{name:02}", price), len(events)))
    return events[:count]


# -- Feed items: Table 4.3 -----------------------------------------------------------------

Pattern: TypeAlias = Literal["Stateless", "Concatenation", "Parameterization", "Iteration"]
PATTERNS: tuple[Pattern, ...] = get_args(Pattern)
WEBSITES, POPULARITIES, ITEMS, SPAN = 415, 100, 26_623, 100
ALWAYS = ("website", "channel", "popularity", "title", "link", "published")
SOMETIMES = ("author", "category", "comments", "description", "guid")


def feed_patterns(pattern: Pattern, subscriptions: int, items: int, seed: int) -> Workload:
    """Return feed items, strings hashed to integers, and subscriptions of one template.

    Few websites publish most of the items (Zipf 0.8); each has one to six
    channels.  Six attributes are always there, five are null in some items.
    W and X are uniform.
    """
    random = Random(seed)
    texts = [
        pattern_text(pattern, random.randrange(WEBSITES), random.randrange(POPULARITIES))
        for _ in range(subscriptions)
    ]
    schema = dict.fromkeys((*ALWAYS, *SOMETIMES), int)
    return Workload({"Item": schema}, named(texts), list(_items(items, Random(seed + 1))))


def _items(count: int, random: Random) -> Iterator[Event]:
    popular, order = Zipf(WEBSITES, 0.8), random.sample(range(WEBSITES), WEBSITES)
    channels = [random.randint(1, 6) for _ in range(WEBSITES)]
    for time in range(count):
        website = order[popular.draw(random)]
        channel = 10 * website + random.randrange(channels[website])
        hashed = [random.getrandbits(31) for _ in range(len(ALWAYS) - 4)]
        present = set(random.sample(SOMETIMES, random.randint(0, len(SOMETIMES))))
        optional = [random.getrandbits(31) if name in present else None for name in SOMETIMES]
        popularity = random.randrange(POPULARITIES)
        yield Event("Item", (website, channel, popularity, *hashed, time, *optional), time)


def pattern_text(pattern: Pattern, website: int, least: int) -> str:
    """Return a subscription of Table 4.3 in CEL; only the first two templates use ``least``.

    Events that a series skips do not end it: NEXT and FOLD filter.
    """
    article = f"FILTER{{website = {website} AND popularity > {least}}}(Item)"
    begun = f"FILTER{{website = {website}}}(Item)"
    kept = f"DUR <= {SPAN} AND $2.website = {website}"
    match pattern:
        case "Stateless":
            return f"SELECT * FROM {article}"
        case "Concatenation":
            following = f"NEXT{{{kept} AND $2.popularity > {least}}} Item"
            return f"SELECT * FROM {article} {following} {following}"
        case "Parameterization":
            rising = "AND $2.channel = $1.channel AND $2.popularity > $1.popularity"
            following = f"NEXT{{{kept} {rising}}} Item"
            return f"SELECT * FROM {begun} {following} {following}"
        case "Iteration":
            rising = "AND $2.channel = $1.channel AND $2.popularity > $.popularity"
            return f"SELECT * FROM {begun} FOLD{{{kept} {rising}, , }} Item"


# -- RUMOR: Table 5.3 ----------------------------------------------------------------------

TEN: Mapping[str, type] = {f"a{number}": int for number in range(10)}
WINDOWS = 1_000
Operator: TypeAlias = Literal[";", "μ"]


@dataclass(frozen=True, slots=True)
class Table53:
    """The parameters of Table 5.3 with their defaults."""

    domain: int = 1_000
    zipf: float = 1.5


def workload_1(queries: int, events: int, table: Table53, seed: int) -> Workload:
    """Return σ(a0 = c)(S) ; T with a0 = c' and a window: AN-index and predicate index."""
    random, windows = Random(seed), Zipf(WINDOWS, table.zipf)
    constants = Zipf(table.domain, table.zipf)
    texts = [
        f"SELECT * FROM FILTER{{a0 = {constants.draw(random)}}}(S)"
        f" NEXT{{$2.a0 = {constants.draw(random)} AND DUR <= {WINDOWS - windows.draw(random)}}} T"
        for _ in range(queries)
    ]
    happening = list(_alternating(("S",), events, table.domain, Random(seed + 1)))
    return Workload({"S": TEN, "T": TEN}, named(texts), happening)


def workload_2(
    operator: Operator, queries: int, events: int, table: Table53, seed: int
) -> Workload:
    """Return S ; T, or S μ T with rising a1, joined on a0 within windows: the AI-index."""
    random, windows = Random(seed), Zipf(WINDOWS, table.zipf)
    texts = [_joined(operator, "S", WINDOWS - windows.draw(random)) for _ in range(queries)]
    happening = list(_alternating(("S",), events, table.domain, Random(seed + 1)))
    return Workload({"S": TEN, "T": TEN}, named(texts), happening)


def workload_3(
    operator: Operator, queries: int, capacity: int, events: int, table: Table53, seed: int
) -> Workload:
    """Return workload 2 over sharable streams S1, S2, ...; an event belongs to all of them.

    Each window that is drawn is asked for on every stream, as many times as
    there are streams for ``queries`` in all.
    """
    random, windows = Random(seed), Zipf(WINDOWS, table.zipf)
    sharable = tuple(f"S{number}" for number in range(1, capacity + 1))
    drawn = [WINDOWS - windows.draw(random) for _ in range(queries // capacity)]
    texts = [_joined(operator, stream, window) for window in drawn for stream in sharable]
    happening = list(_alternating(sharable, events, table.domain, Random(seed + 1)))
    streams = dict.fromkeys((*sharable, "T"), TEN)
    return Workload(streams, named(texts), happening, frozenset(sharable))


def _joined(operator: Operator, stream: str, window: int) -> str:
    kept = f"$1.a0 = $2.a0 AND DUR <= {window}"
    if operator == ";":
        return f"SELECT * FROM {stream} NEXT{{{kept}}} T"
    return f"SELECT * FROM {stream} FOLD{{{kept}, $2.a1 > $.a1, }} T"


def _alternating(
    first: tuple[str, ...], count: int, domain: int, random: Random
) -> Iterator[Event]:
    """Yield events of the first streams and of T in turns, all ten attributes uniform."""
    belongs = first if len(first) > 1 else first[0]
    for time in range(count):
        values = tuple([random.randrange(domain) for _ in TEN])
        yield Event("T" if time % 2 else belongs, values, time)


# -- RUMOR: hybrid queries over processor loads --------------------------------------------

PROCESSES = 104
SMOOTHED = "SELECT pid, AVG(load) AS load FROM CPU GROUP BY pid WINDOW 60 s PUBLISH SMOOTHED"


def hybrid(queries: int, selectivity: float, seconds: int, seed: int) -> Workload:
    """Return instances of Query 2 on all processes, and a reading of each process a second.

    The starting conditions are not indexable.  Each holds for about the given share
    of the rows of SMOOTHED, each for other rows.
    """
    texts = [
        f"SELECT * FROM FILTER{{load > 10}}(FILTER{{{_starting(number, selectivity)}}}(SMOOTHED)"
        " FOLD{$2.pid = $1.pid, $2.load > $.load, } SMOOTHED)"
        for number in range(queries)
    ]
    readings = list(_loads(seconds, Random(seed)))
    smoothed = ("smoothed", f"SELECT * FROM FILTER{{pid < 0}}(({SMOOTHED}))")  # delivers nothing
    return Workload({"CPU": {"pid": int, "load": float}}, [smoothed, *named(texts)], readings)


def _starting(number: int, selectivity: float) -> str:
    """Return a condition on the digits of a load, which spread evenly."""
    return f"(load * 9973 + {37 * number}) % 100 < {100 * selectivity:g}"


def _loads(seconds: int, random: Random) -> Iterator[Event]:
    """Yield loads in per cent: mostly idle processes that ramp up, stay and fall back."""
    level, aim = [0.0] * PROCESSES, [0.0] * PROCESSES
    for second in range(seconds):
        for pid in range(PROCESSES):
            if random.random() < 0.02:
                aim[pid] = random.choice((0.0, 0.0, random.uniform(0, 100)))
            level[pid] += 0.1 * (aim[pid] - level[pid])
            load = min(100.0, max(0.0, level[pid] + random.gauss(0, 1)))
            yield Event("CPU", (pid, round(load, 3)), second)
