"""The definition of patterns with quantifiers, marks, unordered parts and after-match policies.

docs/internals/patterns.md states the definitions; here they are evaluated over finished streams.
All ways to take the events of a stream one after the other are tried.  Nothing is the engine's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

Mark: TypeAlias = Literal["any", "next", "nearest", "strict", "partition"]
Pace: TypeAlias = Literal["all", "greedy", "reluctant", "longest", "every"]
Policy: TypeAlias = Literal[
    "none", "to next", "to first", "to last", "past last", "first only", "restart", "newest"
]


class Happened(NamedTuple):
    """An event: its type, interval, and attributes by name."""

    type: str
    t0: int
    t1: int
    values: Mapping[str, Any]


Taken: TypeAlias = tuple[tuple[str, Happened], ...]  # components with their events, as taken
Test: TypeAlias = Callable[[Taken, Happened], bool | None]  # null does not hold


@dataclass(frozen=True, eq=False)
class Step:
    """One event of some types; without a mark, that of the query.

    An event that satisfies `test`, but not `stay`, ends the match: it is not taken, and what may
    not be between.  No event of `until` is between it and the event before.
    """

    name: str
    types: tuple[str, ...]
    mark: Mark | None = None
    test: Test = lambda taken, event: True
    stay: Test = lambda taken, event: True
    until: tuple[Step, ...] = ()


@dataclass(frozen=True, eq=False)
class Repeat:
    """A pattern, `least` to `most` times; `inner` is the mark of all but the first time.

    Of a pattern with the pace `every` only the last time is of the match.
    """

    pattern: Pattern
    least: int
    most: int | None = None
    pace: Pace = "all"
    inner: Mark | None = None
    until: Step | None = None
    begun: bool = False
    loop: object = field(default_factory=object)  # what all iterations have in common


@dataclass(frozen=True, eq=False)
class Chain:
    """Patterns one after the other."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """One of some patterns."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, eq=False)
class Unordered:
    """One event of each step, in any order; `span` bounds their distance."""

    steps: tuple[Step, ...]
    span: int | None = None
    ends: tuple[int, ...] = ()  # of what has been taken
    floor: int | None = None  # the end of what came before all of them


@dataclass(frozen=True, eq=False)
class Absent:
    """No event that the step takes between what comes before and after.

    ``along`` the unordered part before it as well.  With a ``time`` it is a silence that lasts so
    long; it begins together with the one before it if it is ``beside`` that.
    """

    step: Step
    along: bool = False
    time: int | None = None
    beside: bool = False


Pattern: TypeAlias = Step | Repeat | Chain | Choice | Unordered | Absent
Absences: TypeAlias = tuple[Absent, ...]


class Gap(NamedTuple):
    """A time in which something may not be; None: where the pattern begins or ends.

    A silence before the first event has the least end of what may not be, ``since``.
    """

    absent: Absent
    after: int | None
    before: int | None
    since: int | None = None


@dataclass(frozen=True)
class Query:
    """A pattern with its window, and what becomes of matches that overlap."""

    pattern: Pattern
    window: int | None = None
    inclusive: bool = False
    mark: Mark = "any"
    simultaneous: bool = False
    policy: Policy = "none"
    target: str = ""  # the component of "to first" and "to last"
    partition: tuple[
        str, ...
    ] = ()  # attributes in which events of "partition", and policies, agree
    reads: tuple[str, ...] = ()  # types that count for "strict" beside those of the steps
    accept: Callable[[Taken], bool] = lambda taken: True  # what holds of a whole match

    @property
    def reach(self) -> int | None:
        """The least distance of first and last event that is too long."""
        return None if self.window is None else self.window + self.inclusive


class Way(NamedTuple):
    """A way for a match to go on: the step, and what it says about loops."""

    step: Step
    mark: Mark | None
    stays: frozenset[object] = frozenset()  # loops that go on by it
    leaves: frozenset[object] = frozenset()  # loops that end by it
    until: tuple[tuple[Step, bool], ...] = ()  # with whether the loop has begun
    among: Unordered | None = None
    passes: Absences = ()
    forgets: frozenset[str] = frozenset()  # the steps of a time that is no part of the match
    own: int | None = None  # the last passes that are not of that time


class Partial(NamedTuple):
    """The events taken, the rest of the pattern, and the end of a last event that was forgotten."""

    taken: Taken
    rest: Pattern
    last: int | None


# -- words of a pattern ----------------------------------------------------------------------

EMPTY = Chain(())


def finished(pattern: Pattern) -> bool:
    """Return True if nothing more has to be taken."""
    return bool(empties(pattern))


def empties(pattern: Pattern) -> list[Absences]:
    """Return the absences on each way through a pattern that takes nothing."""
    match pattern:
        case Step():
            return []
        case Repeat(inner, least):
            return [()] if least <= 0 else empties(inner)
        case Chain(parts):
            found: list[Absences] = [()]
            for part in parts:
                found = [(*before, *more) for before in found for more in empties(part)]
            return found
        case Choice(parts):
            return [one for part in parts for one in empties(part)]
        case Unordered(steps):
            return [] if steps else [()]
        case Absent():
            return [(pattern,)]
        case _:
            assert_never(pattern)


def ways(pattern: Pattern) -> Iterator[tuple[Way, Pattern]]:
    """Yield what may be taken next, and what is left then."""
    match pattern:
        case Step(_, _, mark, until=stops):
            yield Way(pattern, mark, until=tuple([(stop, True) for stop in stops])), EMPTY
        case Repeat(inner, least, most):
            if most == 0:
                return
            more = replace(
                pattern, least=least - 1, most=None if most is None else most - 1, begun=True
            )
            for way, rest in ways(inner):
                yield _in_loop(way, pattern), Chain((rest, more))
        case Chain(parts):
            if not parts:
                return
            first, others = parts[0], parts[1:]
            for way, rest in ways(first):
                yield way, Chain((rest, *others))
            for passes in empties(first):
                for way, rest in ways(Chain(others)):
                    leaves = way.leaves | loops(first)
                    yield way._replace(leaves=leaves, passes=(*passes, *way.passes)), rest
        case Choice(parts):
            for part in parts:
                yield from ways(part)
        case Unordered(steps):
            for step in steps:
                left = tuple(one for one in steps if one is not step)
                yield Way(step, "any", among=pattern), replace(pattern, steps=left)
        case Absent():
            return
        case _:
            assert_never(pattern)


def _in_loop(way: Way, loop: Repeat) -> Way:
    mark = way.mark if not loop.begun or loop.inner is None else loop.inner
    until = () if loop.until is None else ((loop.until, loop.begun),)
    if loop.begun and loop.pace == "every":
        names = frozenset(step.name for step in (*steps(loop.pattern), *absent(loop.pattern)))
        way = way._replace(forgets=names, own=len(way.passes))
    return way._replace(mark=mark, stays=way.stays | {loop.loop}, until=way.until + until)


def loops(pattern: Pattern) -> frozenset[object]:
    """Return the loops that end if a pattern is left."""
    match pattern:
        case Repeat(inner, _, most):
            return frozenset() if most == 0 else loops(inner) | {pattern.loop}
        case Chain(parts):
            return frozenset().union(*map(loops, parts))
        case _:
            return frozenset()


def parts_of(pattern: Pattern) -> Iterator[Pattern]:
    """Yield a pattern and all of its parts, from left to right."""
    yield pattern
    match pattern:
        case Repeat(inner):
            yield from parts_of(inner)
        case Chain(parts) | Choice(parts) | Unordered(parts):
            for part in parts:
                yield from parts_of(part)
        case _:
            return


def steps(pattern: Pattern) -> Iterator[Step]:
    """Yield all steps of a pattern."""
    return (part for part in parts_of(pattern) if isinstance(part, Step))


def absent(pattern: Pattern) -> Iterator[Step]:
    """Yield what a pattern says does not occur."""
    return (part.step for part in parts_of(pattern) if isinstance(part, Absent))


def rewritten(pattern: Pattern, change: Callable[[Pattern], Pattern]) -> Pattern:
    """Return a pattern with each of its parts changed, the innermost first."""

    def each(parts: Sequence[Pattern]) -> tuple[Any, ...]:
        return tuple([rewritten(part, change) for part in parts])

    match pattern:
        case Repeat(inner):
            return change(replace(pattern, pattern=rewritten(inner, change)))
        case Chain(parts) | Choice(parts):
            return change(replace(pattern, parts=each(parts)))
        case Unordered(parts):
            return change(replace(pattern, steps=each(parts)))
        case _:
            return change(pattern)


# -- matches ---------------------------------------------------------------------------------


def matches(query: Query, events: Sequence[Happened]) -> list[Taken]:
    """Return the matches, in the order in which they are reported."""
    found = Search(query, tuple(sorted(events, key=lambda one: (one.t1, one.t0))))
    return found.kept()


def reported(query: Query, events: Sequence[Happened]) -> list[tuple[int, Taken]]:
    """Return the matches with the times when they are reported, in order."""
    found = Search(query, tuple(sorted(events, key=lambda one: (one.t1, one.t0))))
    return [(found.time_of(one), one) for one in found.kept()]


def end(taken: Taken) -> int:
    """Return when the last event of a match ends."""
    return max(event.t1 for _, event in taken)


def begin(taken: Taken) -> int:
    """Return when the event that a match begins with ends: windows count from there."""
    return min(event.t1 for _, event in taken)


class Search:
    """All matches of a query over a stream."""

    def __init__(self, query: Query, events: tuple[Happened, ...]) -> None:
        self._query = query
        self._events = events
        self._place = {id(event): place for place, event in enumerate(events)}
        self._named = {name for step in steps(query.pattern) for name in step.types}
        self._named.update(query.reads)
        loops = (part for part in parts_of(query.pattern) if isinstance(part, Repeat))
        self._paces = {part.loop: part.pace for part in loops}
        self.reached: dict[frozenset[tuple[str, int]], Taken] = {}  # prefixes of matches
        self._complete: dict[frozenset[tuple[str, int]], tuple[int, Taken]] = {}
        self._extend(Partial((), query.pattern, None), ())

    def _key(self, taken: Taken) -> frozenset[tuple[str, int]]:
        return frozenset((name, self._place[id(event)]) for name, event in taken)

    def _extend(self, at: Partial, gaps: tuple[Gap, ...]) -> None:
        taken, rest, _ = at
        if taken:
            self.reached[self._key(taken)] = taken
        options = list(ways(rest))
        made: list[tuple[Partial, tuple[Gap, ...]]] = []
        longer = False
        for way, left in options:
            base = _without(at, way.forgets)
            for event in self._events:
                goes_on = self._takes(base, way, event) and self._may(at, way, event, options)
                if goes_on and way.step.stay(base.taken, event) is True:
                    more, over = self._passed(base, way.passes, event)
                    more = more[0 if way.own is None else len(more) - way.own :]
                    after = _since(left, way, over, event)
                    kept = (
                        *(gap for gap in gaps if gap.absent.step.name not in way.forgets),
                        *more,
                    )
                    next_taken = (*base.taken, (way.step.name, event))
                    made.append((Partial(next_taken, after, event.t1), kept))
                    longer = longer or self._is_longest(way)
        for passes in empties(rest) if taken and not longer else ():
            last, over = self._passed(at, passes, None)
            self._finish(taken, (*gaps, *last), over, self._done(at, options))
        for partial, kept in made:
            self._extend(partial, kept)

    def _is_longest(self, way: Way) -> bool:
        return any(self._paces[loop] == "longest" for loop in way.stays)

    def _done(self, at: Partial, options: list[tuple[Way, Pattern]]) -> float:
        """Return when a run that has to be the longest is known to take no more."""
        done = [float(end(at.taken))]
        for way, _ in options:
            if self._is_longest(way):
                later = [one for one in self._events if end(at.taken) < one.t1]
                ended = [one.t1 for one in later if self._blocks(at, way, one, options)]
                reach = self._query.reach
                over = math.inf if reach is None else begin(at.taken) + reach - 1
                done.append(max(end(at.taken), min([over, *ended])))
        return max(done)

    def _passed(
        self, at: Partial, passes: Absences, event: Happened | None
    ) -> tuple[tuple[Gap, ...], int | None]:
        """Return the gaps before an event, or the end, and when what is before it is over."""
        taken, rest, over = at
        begins = over
        found: list[Gap] = []
        for one in passes:
            if one.along:
                among = next(part for part in _chained(rest) if isinstance(part, Unordered))
                begins = among.floor
            elif not one.beside:
                begins = over
            if one.time is None:
                found.append(Gap(one, begins, None if event is None else event.t0))
            elif begins is None:
                first = taken[0][1] if taken else event
                assert first is not None
                found.append(Gap(one, None, first.t0, first.t1 - one.time))
            else:
                found.append(Gap(one, begins, begins + one.time + 1))
                assert over is not None
                over = max(over, begins + one.time)
        return tuple(found), over

    def _finish(self, taken: Taken, gaps: tuple[Gap, ...], over: int | None, done: float) -> None:
        """Note a match, if what may not be is not, and when it is reported."""
        assert over is not None
        if math.isinf(done):
            return
        reach, time = self._query.reach, max(over, int(done))
        if any(gap.before is None for gap in gaps):
            assert reach is not None
            if over >= begin(taken) + reach - 1:
                return
            time = max(time, begin(taken) + reach - 1)
        if not self._query.accept(taken) or any(self._happened(taken, gap, time) for gap in gaps):
            return
        known = self._complete.get(self._key(taken))
        self._complete[self._key(taken)] = (time if known is None else min(time, known[0]), taken)

    def _happened(self, taken: Taken, gap: Gap, time: int) -> bool:
        """Return True if an event that may not be is in a gap."""
        step = gap.absent.step
        for one in self._events:
            if gap.after is not None:
                within = gap.after < one.t0
            elif gap.since is not None:
                within = gap.since <= one.t1
            else:
                assert self._query.reach is not None
                within = end(taken) - self._query.reach < one.t1
            ends = one.t1 <= time if gap.before is None else one.t1 < gap.before
            if within and ends and one.type in step.types and step.test(taken, one) is True:
                return True
        return False

    # -- one event more ----------------------------------------------------------------------

    def _takes(self, at: Partial, way: Way, event: Happened) -> bool:
        """Return True if an event is one that a way takes, without regard to marks.

        ``at`` is without what the way forgets.
        """
        query, taken = self._query, at.taken
        if way.forgets and not taken:
            return False  # it begins a match of its own
        if event.type not in way.step.types or any(event is one for _, one in taken):
            return False
        if way.step.test(taken, event) is not True:
            return False
        place = self._place[id(event)]
        if any(name == way.step.name and self._place[id(one)] > place for name, one in taken):
            return False  # simultaneous events of one component are taken in their order
        _, floor = self._passed(at, way.passes, event)
        if way.among is not None and way.among.ends:
            floor = way.among.floor
            if event.t1 < max(way.among.ends):
                return False  # they are taken in the order of their ends
        follows = floor is None or floor < event.t0 or (query.simultaneous and floor == event.t0)
        return follows and self._near(taken, way, event)

    def _near(self, taken: Taken, way: Way, event: Happened) -> bool:
        """Return True if an event is within the window, and the span of what is unordered."""
        query = self._query
        if query.window is not None and taken:
            first, last = min(begin(taken), event.t1), max(end(taken), event.t1)
            if last - first >= query.window + query.inclusive:
                return False
        among = way.among
        if among is None or among.span is None:
            return True
        return all(abs(event.t1 - one) < among.span for one in among.ends)

    def _may(
        self, at: Partial, way: Way, event: Happened, options: list[tuple[Way, Pattern]]
    ) -> bool:
        """Return True if marks, paces and UNTIL let a way take an event."""
        if any(self._stops(at, stop, event) for stop, _ in way.until):
            return False
        if any(self._could(at, other, event) for other in self._preferred(way, options)):
            return False
        reluctant = any(self._paces[loop] == "reluctant" for loop in way.stays)
        if reluctant and at.taken and finished(at.rest):
            return False
        return not any(
            self._blocks(at, way, one, options)
            for one in self._events
            if at.last is not None and at.last < one.t1 < event.t1
        )

    def _blocks(
        self, at: Partial, way: Way, one: Happened, options: list[tuple[Way, Pattern]]
    ) -> bool:
        """Return True if a way takes no event after one that comes later than what was taken."""
        if any(self._stops(at, stop, one) for stop, begun in way.until if begun):
            return True
        if any(self._could(at, other, one) for other in self._preferred(way, options)):
            return True
        match way.mark or self._query.mark:
            case "any":
                return False
            case "next":
                return self._could(at, way, one)
            case "nearest":
                return any(self._could(at, other, one) for other, _ in options)
            case "strict":
                return one.type in self._named
            case "partition":
                return self._alike(one, at.taken[-1][1])

    def _stops(self, at: Partial, stop: Step, one: Happened) -> bool:
        return one.type in stop.types and stop.test(at.taken, one) is True

    def _could(self, at: Partial, way: Way, event: Happened) -> bool:
        """Return True if a way could have taken an event, without regard to marks and paces.

        What comes after an event that UNTIL names, a run could not take.
        """
        base = _without(at, way.forgets)
        stopped = any(
            self._stops(at, stop, one)
            for stop, begun in way.until
            for one in (*(self._events if begun else ()), event)
            if one is event or (at.last is not None and at.last < one.t1 < event.t1)
        )
        return self._takes(base, way, event) and not stopped

    def _preferred(self, way: Way, options: list[tuple[Way, Pattern]]) -> list[Way]:
        """Return the ways that the pace of a loop prefers."""
        return [other for other, _ in options if self._rather(way, other)]

    def _rather(self, way: Way, other: Way) -> bool:
        """Return True if the pace of a loop prefers another way."""
        paces = self._paces
        return any(
            paces[loop] in ("greedy", "longest") for loop in way.leaves & other.stays
        ) or any(paces[loop] == "reluctant" for loop in way.stays & other.leaves)

    def _alike(self, one: Happened, other: Happened) -> bool:
        values = [(one.values[name], other.values[name]) for name in self._query.partition]
        return one.type in self._named and all(a is not None and a == b for a, b in values)

    # -- which matches are kept --------------------------------------------------------------

    def time_of(self, taken: Taken) -> int:
        """Return when a match is reported."""
        return self._complete[self._key(taken)][0]

    def _places(self, taken: Taken) -> list[int]:
        return sorted(self._place[id(event)] for _, event in taken)

    def _order(self, taken: Taken) -> tuple[int, list[int], list[int]]:
        """Return the order of reports: the end of a match, then its events, the earlier first.

        Of those with the same events, the one with earlier components for earlier events.
        """
        order = [one.name for one in steps(self._query.pattern)]
        by_place = sorted((self._place[id(event)], order.index(name)) for name, event in taken)
        return self.time_of(taken), self._places(taken), [component for _, component in by_place]

    def kept(self) -> list[Taken]:
        """Return the matches that the policy keeps, in order; it acts within a partition."""
        found = sorted((taken for _, taken in self._complete.values()), key=self._order)
        apart: dict[tuple[Any, ...], list[Taken]] = {}
        for one in found:
            apart.setdefault(self._partition(one), []).append(one)
        return sorted(
            (one for key, own in apart.items() for one in self._kept(key, own)), key=self._order
        )

    def _partition(self, taken: Taken) -> tuple[Any, ...]:
        key = tuple(taken[0][1].values.get(name) for name in self._query.partition)
        return key if all(one is not None and one == one for one in key) else ()

    def _kept(self, key: tuple[Any, ...], found: list[Taken]) -> list[Taken]:
        match self._query.policy:
            case "first only":
                return found[:1]
            case "restart":
                return list(self._restarted(key, found))
            case "newest":
                return [one for one in found if self._survives(one)]
            case _:
                kept: list[Taken] = []
                for one in found:
                    if not any(self._discards(other, one) for other in kept):
                        kept.append(one)
                return kept

    def _discards(self, match: Taken, later: Taken) -> bool:
        """Return True if a match that was kept discards one that is reported after it."""
        started = self._places(later)[0]
        first, last = self._places(match)[0], self._places(match)[-1]
        of_target = [self._place[id(one)] for name, one in match if name == self._query.target]
        match self._query.policy:
            case "to next":
                return started == first
            case "past last":
                return first <= started <= last
            case "to first":
                return bool(of_target) and first <= started < min(of_target)
            case "to last":
                return bool(of_target) and first <= started < max(of_target)
            case _:
                return False

    def _restarted(self, key: tuple[Any, ...], found: Sequence[Taken]) -> Iterator[Taken]:
        """Yield the first match of each start; the next start is after it, or after its window."""
        reached = [one for one in self.reached.values() if self._partition(one) == key]
        starts = sorted({self._places(one)[0] for one in reached})
        until: int | None = None
        for place in starts:
            start = self._events[place]
            if until is not None and start.t0 <= until:
                continue
            own = [one for one in found if self._places(one)[0] == place]
            if own:
                yield own[0]
                until = self.time_of(own[0])
            elif self._query.window is None:
                return
            else:
                until = start.t1 + self._query.window - (not self._query.inclusive)

    def _survives(self, taken: Taken) -> bool:
        """Return True if no partial match has taken the place of one before it went on."""
        return all(
            not any(
                names(other) == names(taken[:size])
                and self._partition(other) == self._partition(taken)
                and taken[size - 1][1].t1 < other[-1][1].t1 < taken[size][1].t1
                and self._survives(other)
                for other in self.reached.values()
                if len(other) == size
            )
            for size in range(1, len(taken))
        )


def names(taken: Taken) -> list[str]:
    """Return the components of what was taken, in any order."""
    return sorted(name for name, _ in taken)


def _without(at: Partial, forgotten: frozenset[str]) -> Partial:
    """Return the taken events without those of some steps; the next event is still behind these."""
    return at._replace(taken=tuple([one for one in at.taken if one[0] not in forgotten]))


def _since(rest: Pattern, way: Way, over: int | None, event: Happened) -> Pattern:
    """Return the rest of a pattern, with the state that an unordered part keeps of the event."""
    if way.among is None:
        return rest
    floor = way.among.floor if way.among.ends else over
    return _remembering(rest, way.among, (*way.among.ends, event.t1), floor)


def _remembering(
    rest: Pattern, among: Unordered, ends: tuple[int, ...], floor: int | None
) -> Pattern:
    match rest:
        case Chain((Chain() as first, *others)):
            return Chain((_remembering(first, among, ends, floor), *others))
        case Unordered(steps) if set(steps) < set(among.steps):
            return replace(rest, ends=ends, floor=floor)
        case Chain((first, *others)):
            return Chain((_remembering(first, among, ends, floor), *others))
        case _:
            return rest


def _chained(pattern: Pattern) -> Iterator[Pattern]:
    """Yield the parts of chains, from left to right."""
    if isinstance(pattern, Chain):
        for part in pattern.parts:
            yield from _chained(part)
    else:
        yield pattern
