"""Matches of patterns: runs of an automaton that go on event by event, an epoch at a time.

A run stores the moves of `algebra.pattern_automaton` that are left to it: rows in between disable
some of them (marks, greedy and reluctant loops, UNTIL).  So each epoch is processed once, and only
runs and rows of absences are kept.

Queries whose patterns differ in constants and windows share an m-op: a run has a set of queries,
and is split where an event disables a move for some of them only.  The slots of a row name the
selections of its channel that hold.

With partitions, where all components agree in some attributes, a row meets the runs of its
partition only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, cast

from cep_core.algebra.pattern_automaton import Move, PatternState
from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members, slots_of
from cep_core.dataflow.mop import (
    OWN,
    RUNS,
    WORK,
    KeptSize,
    MOp,
    Operator,
    OperatorNumber,
    SavedRows,
    Wanted,
    mask_of,
    with_too_many,
)
from cep_core.dataflow.predicates import key_function
from cep_core.events import Row
from cep_core.operators.pattern.absences import AbsentEvents, Bounds, gaps_behind
from cep_core.operators.pattern.conditions import Matching, MatchShape
from cep_core.operators.pattern.epoch_events import Happened, events_of, selecting
from cep_core.operators.pattern.policies import Gap, Policies, Run, add_run, place_of
from cep_core.operators.pattern.stacks import ActiveStacks
from cep_core.operators.pattern.waiting_matches import EndWay, WaitingMatch, WaitingMatches
from cep_core.operators.shared_runs import SharedRuns, members_in, shared_channels


class PatternMatchMOp(SharedRuns):
    """Evaluates patterns of one shape over the same channels by runs of their automaton."""

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        shape = cast(Matching, first.definition).shape
        self._shape: MatchShape = shape
        self._states = shape.states
        self._inputs = [component.input for component in shape.components]
        columns = [shape.pattern.rules.partition[input] for input in self._inputs]
        self._policies = Policies(
            shape.pattern.rules.policy,
            shape.pattern.rules.target,
            [_no_partition if column is None else key_function(column) for column in columns],
        )
        keys = {c: key_function(columns) for c, columns in shape.partitions.keys.items()}
        met = [c for c in range(len(self._inputs)) if c not in shape.absent]
        self._keys = {self._inputs[c]: keys[c] for c in met} if keys else None  # by input
        self._runs: dict[Any, dict[int, list[Run]]] = {}  # by partition and state
        self._looks = [
            [(self._inputs[one.component], one) for one in state.looks] for state in self._states
        ]
        self._meeting = [self._inputs_met(state) for state in self._states]
        self._beginning = frozenset(
            [self._inputs[look.component] for look in self._states[0].looks]
        )
        self._absences = AbsentEvents(shape, self._queries)
        self._waiting = WaitingMatches(
            shape, self._queries, self._absences, lambda time: self._lane.flush_at(time, self)
        )
        self._rows: list[tuple[int, Row, int]] = []
        self._over = 0  # mask of the queries with too many runs in this epoch
        self._next_count = RUNS + 1  # the number of new runs at which each query's are counted
        self._read: dict[str, Row] = {}  # one object for equal loaded rows: NaN equals only itself

    # -- the plan --------------------------------------------------------------------------

    def _forget_query(self, slot: int) -> None:
        bit = 1 << slot
        self._policies.forget_query(slot)
        self._drop(lambda run: run.mask & ~bit, bit)
        self._absences.keep(lambda row, mask: mask & ~bit)

    def instances(self) -> int:
        closed = len(self._policies.closed) if self._policies.is_by_key else 0
        return sum(1 for _ in chain(self.runs(), self._waiting, self._absences)) + closed

    def runs(self) -> Iterator[Run]:
        """Yield the runs that may go on."""
        for found in self._runs.values():
            for runs in found.values():
                yield from runs

    def entries(self) -> int:
        return len(self._runs) if self._keys else 0

    def indexes(self) -> str:
        """Describe how matches are found, and how many queries share the m-op."""
        states = counted(len(self._states), "state", "states")
        said = f"runs of an automaton of {states}"
        if self._keys:
            said += ", partitioned"
        return said + self._shared()

    # -- snapshots -------------------------------------------------------------------------

    def dump(self, number: OperatorNumber) -> SavedRows:
        def owners(mask: int) -> list[int]:
            return self._numbers(mask, number)

        kept: SavedRows = [[run.flat, owners(run.mask), run.state] for run in self.runs()]
        base = len(self._states)
        for deadline, waiting in self._waiting.by_deadline.items():
            for run, ways in waiting:
                flat = tuple([(way.deadline, *map(tuple, way.gaps)) for way in ways])
                kept.append([(deadline, *run.flat, flat), owners(run.mask), base + run.state])
        base += base
        for key, closed in self._policies.closed.items():
            kept += [[(until, key), owners(1 << slot), base] for slot, until in closed.items()]
        for component, row, mask in self._absences:
            kept.append([row, owners(mask), base + 1 + component])
        return kept

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        mask = self._mask_of(operators)
        size = len(self._states)
        if side < size:
            run = self._loaded(row, mask, side)
            self._install(run)
        elif side < 2 * size:
            deadline, *flat, ways = row
            ends = [EndWay(end, tuple([Gap(*gap) for gap in gaps])) for end, *gaps in ways]
            run = self._loaded(tuple(flat), mask, side - size)
            self._waiting.wait(deadline, WaitingMatch(run, tuple(ends)))
        elif side == 2 * size:
            until, key = row
            self._policies.close(key, mask, until)
        else:
            self._absences.add(side - 2 * size - 1, row, mask)
            self._arm(row[1], self._absences.reach)

    def _loaded(self, row: Row, mask: int, state: int) -> Run:
        dead, floor, opened, gaps, *taken = row
        cells: tuple[Any, ...] = (None,) * len(self._inputs)
        taken = [(component, self._read.setdefault(repr(one), one)) for component, one in taken]
        for component, one in taken:
            cells = self._shape.taken(cells, component, one)
        made = tuple([Gap(*gap) for gap in gaps])
        (component, first), (_, last) = taken[0], taken[-1]
        return Run(
            *(tuple(taken), cells, state, mask, dead, made, floor, opened),
            *(first[1], last[1], self._key(component, first)),
        )

    # -- rows ------------------------------------------------------------------------------

    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the function that consumes the rows of an input."""
        queries, keep = self._queries, self._absences.add
        absent = [component for component in self._shape.absent if self._inputs[component] == input]
        others = any(inputs is None or input in inputs for inputs in self._meeting)

        def receive(row: Row, members: Members) -> None:
            if row[2] < self._since:
                return
            mask = queries.reading(input, members)
            for component in absent:
                keep(component, row, mask)
            if absent and not self._armed:
                self._arm(row[1], self._absences.reach)
            if others:
                if not self._rows:
                    self._lane.flush_later(self)
                self._rows.append((input, row, mask))

        return receive

    def flush(self, now: int) -> None:
        """Extend the runs by the events of the epoch, and emit the matches that are certain."""
        rows, self._rows = self._rows, []
        self._read.clear()
        self._absences.begin()
        made = self._advance(now, events_of(rows))
        waiting = self._waiting
        if len(made) > RUNS or self._over:
            self._begin_anew(made)
        if made or waiting.complete or now in waiting.by_deadline:
            whole = waiting.certain(now, made.values()).values()
            if self._absences.given_up:
                self._over = self._absences.given_up
                self._begin_anew(made)
            self._emit(now, whole)
        if self._policies.any:
            self._discard(made)
        added = 0
        for run in made.values():
            self._install(run)
            number = len(run.taken)
            if number > 1:
                added += OWN + number
        # each new run may be kept twice: as a run, and as a match that waits
        if not added or not self._bound.kept.is_full(2 * added):
            return
        if over := mask_of(self._bound.kept.with_too_much(self._sizes(now))):
            self._give_up(over)
            self._drop(lambda run: run.mask & ~over, over)

    def _sizes(self, now: int) -> Iterator[KeptSize]:
        """Yield a `KeptSize` for each run (queries in whose window it is) and waiting match."""
        for run in self.runs():
            yield self._queries.within(run.mask, now - run.first_end), run.taken[0][1][2], run.size
        for run in self._waiting:
            yield run.mask, run.taken[0][1][2], run.size

    def _count(self, made: dict[Hashable, Run]) -> None:
        """Remove from the runs `made` in an epoch the queries that have too many of them."""
        self._over |= with_too_many(Counter([run.mask for run in made.values()]), RUNS)
        self._next_count = len(made) + RUNS + 1
        for key, run in list(made.items()) if self._over else ():
            if left := run.mask & ~self._over:
                made[key] = run.only(left)
            else:
                del made[key]

    def _begin_anew(self, made: dict[Hashable, Run]) -> None:
        """Drop the kept runs, and those ``made`` now, of queries that made too many runs now."""
        self._count(made)
        over = self._over
        self._over, self._next_count = 0, RUNS + 1
        if over:
            self._give_up(over)
            self._waiting.drop_growing(over)
            self._drop_runs(lambda run: run.mask & ~over, over)

    def _advance(self, now: int, events: list[Happened]) -> dict[Hashable, Run]:
        """Extend all runs by the events of an epoch; return the runs made, by `Run.identity`."""
        made: dict[Hashable, Run] = {}
        if not events:
            return made
        apart: dict[Any, list[Happened]] = {None: events}
        if self._keys is not None:
            apart = {}
            for event in events:
                for key, part in self._by_key(event):
                    apart.setdefault(key, []).append(part)
        for key, state, met in self._meetings(now, apart):
            self._meet(now, key, state, met, made)
        for event in events:
            self._start(event, made)
        if self._shape.instant:
            fresh = list(made.values())
            while fresh:
                if len(fresh) * len(events) > WORK:
                    over = self._give_up_work(now, [(fresh, None, events)])
                    fresh = [run for run in fresh if run.mask & ~over]
                further: dict[Hashable, Run] = {}
                for run in fresh:
                    for event in events:
                        self._go_on(run, event, further)
                fresh = [run for key, run in further.items() if add_run(made, key, run)]
                if len(made) > RUNS:
                    self._count(made)
        return made

    def _by_key(self, event: Happened) -> Iterator[tuple[Any, Happened]]:
        """Yield (partition, the event with its rows there) for each partition that has some."""
        assert self._keys is not None
        found: dict[Any, Happened] = {}
        for input, one in event.items():
            key_of = self._keys.get(input)
            key = None if key_of is None else key_of(one[0])
            if key is not None:
                found.setdefault(key, {})[input] = one
        yield from found.items()

    def _meetings(
        self, now: int, apart: Mapping[Any, list[Happened]]
    ) -> list[tuple[Any, int, list[Happened]]]:
        """Return (partition, state, events in `apart` that concern its runs) if there are some."""
        meetings: list[tuple[Any, int, list[Happened]]] = []
        tried = 0
        for key, events in apart.items():
            for state, runs in self._runs.get(key, {}).items():
                inputs = self._meeting[state]
                met = [one for one in events if inputs is None or not inputs.isdisjoint(one)]
                if met:
                    meetings.append((key, state, met))
                    tried += len(runs) * len(met)
        if tried > WORK:
            over = self._give_up_work(
                now,
                [
                    (self._runs[key][state], self._meeting[state], met)
                    for key, state, met in meetings
                ],
            )
            if over:
                self._drop_runs(lambda run: run.mask & ~over, over)
                meetings = self._meetings(now, apart)
        return meetings

    def _give_up_work(
        self,
        now: int,
        meetings: Iterable[tuple[Iterable[Run], frozenset[int] | None, Iterable[Happened]]],
    ) -> int:
        """Exclude from the epoch the queries with too much work; return the mask of these queries.

        Work is a run that meets an event: ``meetings`` are (runs, inputs that concern them or None
        for all, events).  Of these a query has the runs in its window and the events it selects.
        """
        counts, within = Counter[int](), self._queries.within
        for runs, inputs, events in meetings:
            own = Counter(within(run.mask, now - run.first_end) for run in runs)
            selected = Counter(selecting(event, inputs) for event in events)
            for mask, number in own.items():
                for queries, times in selected.items():
                    if both := mask & queries:
                        counts[both] += number * times
        over = with_too_many(counts, WORK)
        self._over |= over
        return over

    def _meet(
        self, now: int, key: Any, state: int, met: list[Happened], made: dict[Hashable, Run]
    ) -> None:
        """Extend the runs of a partition in a state by events; add the new runs to ``made``."""
        oldest = now - self._queries.longest
        kept: list[Run] = []
        for run in self._runs[key][state]:
            if run.first_end <= oldest:
                continue
            ended: dict[int, int] = {}
            for event in met if run.end < now else ():
                self._go_on(run, event, made, ended)
            if ended:
                kept += self._split(run, ended)
            else:
                kept.append(run)
        self._keep_runs(key, state, kept)

    def _keep_runs(self, key: Any, state: int, runs: list[Run]) -> None:
        """Set the list of the runs in a partition and a state; an empty one is removed."""
        if runs:
            self._runs[key][state] = runs
            return
        del self._runs[key][state]
        if not self._runs[key]:
            del self._runs[key]

    def _inputs_met(self, state: PatternState) -> frozenset[int] | None:
        """Return the inputs whose events concern a run in a state; None: all."""
        if state.strict or state.partition:
            return None
        components = [*[look.component for look in state.looks], *self._shape.stops]
        return frozenset([self._inputs[component] for component in components])

    def _start(self, event: Happened, made: dict[Hashable, Run]) -> None:
        """Begin the runs whose first event is ``event``; add them to ``made`` by `Run.identity`."""
        if self._beginning.isdisjoint(event):
            return
        mask = 0
        for _, queries in event.values():
            mask |= queries
        if self._policies.closed:
            input, look = next(one for one in self._looks[0] if one[0] in event)
            mask = self._policies.open(mask, look.component, event[input][0])
        if not mask:
            return
        before = len(made)
        run = Run((), (None,) * len(self._inputs), 0, mask)
        self._go_on(run, event, made)
        if self._policies.policy == "restart":
            for one in list(made.values())[before:]:
                for window, queries in self._queries.windows.items():
                    if one.mask & queries:
                        last = one.end + window - 1
                        self._policies.close(self._policies.key(one), one.mask & queries, last)

    def _go_on(
        self,
        run: Run,
        event: Happened,
        made: dict[Hashable, Run],
        ended: dict[int, int] | None = None,
    ) -> None:
        """Extend a run by an event in all ways; enter in ``ended`` the moves that it ends.

        The keys are bits of moves, as in `Run.dead`, the values masks of queries.
        """
        if self._over:
            run = run.only(run.mask & ~self._over)
        state = self._states[run.state]
        taking: dict[int, int] = {}
        for number, (input, look) in enumerate(self._looks[run.state]):
            found = event.get(input)
            if found is None:
                continue
            base = run
            if look.forgets:
                base = run.without(look.forgets)
                if not base.taken:
                    continue  # no event is left: this one begins a match of its own
            if mask := self._takes(base, look, *found):
                taking[number] = mask
        stopped = self._stopped(run, event) if self._shape.stops else {}
        if taking:
            self._move(run, event, taking, stopped, made, ended)
        if ended is None:
            return
        for component, moves in state.stopped_by:
            if mask := stopped.get(component, 0):
                _ends(ended, moves | moves << len(state.moves), mask)
        if state.strict or state.partition:
            everyone = 0
            for _, mask in event.values():
                everyone |= mask
            _ends(ended, state.strict, everyone)
            if state.partition and self._is_alike(run, event):
                _ends(ended, state.partition, everyone)

    def _stopped(self, run: Run, event: Happened) -> dict[int, int]:
        """Return by component the mask of queries for which an event of it ends loops."""
        stopped: dict[int, int] = {}
        for component in self._shape.stops:
            found = event.get(self._inputs[component])
            if found is not None:
                condition = self._shape.first[component]
                stopped[component] = self._queries.constants.holding(
                    condition, run.cells, found[0], found[1] & run.mask
                )
        return stopped

    def _move(
        self,
        run: Run,
        event: Happened,
        taking: Mapping[int, int],
        stopped: Mapping[int, int],
        made: dict[Hashable, Run],
        ended: dict[int, int] | None,
    ) -> None:
        """Make the moves of a run that take an event; the arguments are those of `_go_on` and:

        ``taking`` has by number of a look, ``stopped`` by component the masks of queries.
        """
        state = self._states[run.state]
        could: dict[int, int] = {}  # by move: the queries that could make it, whatever marks say
        for number, move in enumerate(state.moves):
            mask = taking.get(move.look, 0)
            if mask and not run.dead >> len(state.moves) >> number & 1:
                for component in move.stops:
                    mask &= ~stopped.get(component, 0)
                if mask and move.waits:
                    input, _ = self._looks[run.state][move.look]
                    mask = self._absences.over(run, move.passes, event[input][0], mask)
                if mask:
                    could[number] = mask
        for number, mask in could.items():
            if ended is not None:
                _ends(ended, state.ended_by[number], mask)
            if run.dead >> number & 1:
                continue
            move = state.moves[number]
            for preferred in move.before:
                mask &= ~could.get(preferred, 0)
            look = state.looks[move.look]
            base = run.without(look.forgets) if look.forgets else run
            if mask and self._shape.tested:
                mask = self._passing(base, look, event, mask)
            if not mask:
                continue
            if state.longest >> number & 1:
                self._waiting.grown.append(run.only(mask))
                if ended is not None:
                    _ends(ended, state.grown, mask)
            for part, bounds in self._absences.bounds(mask) if move.waits else ((mask, ()),):
                longer = self._longer(base, look, move, bounds, part, event)
                add_run(made, longer.identity, longer)
        if len(made) >= self._next_count:
            self._count(made)

    def _takes(self, run: Run, look: Any, row: Row, wanting: int) -> int:
        """Return the queries of a run and the mask ``wanting`` that can take a row, marks apart."""
        mask = run.mask & wanting
        if not mask:
            return 0
        if run.taken:
            floor = run.floor if look.later else run.end
            if floor is not None and not (
                floor < row[0] or (self._shape.pattern.rules.simultaneous and floor == row[0])
            ):
                return 0
            mask = self._queries.within(mask, row[1] - run.first_end)
            if self._shape.instant and mask:
                place = place_of(row)
                for component, one in run.taken:
                    other = place_of(one)
                    if place == other or (component == look.component and place < other):
                        return 0  # taken already, or not in the order of simultaneous events
                if look.later and look.span is not None:
                    mask &= self._spanning(look.span, row[1] - run.opened)
        component = look.component
        shape = self._shape
        begins = run.cells[component] is None
        condition = shape.first[component] if begins else shape.more[component]
        return self._queries.constants.holding(condition, run.cells, row, mask)

    def _passing(self, run: Run, look: Any, event: Happened, mask: int) -> int:
        """Return those queries of a mask whose tests of a look's component hold for an event."""
        component, shape = look.component, self._shape
        tests = shape.first_tests if run.cells[component] is None else shape.more_tests
        row, _ = event[self._inputs[component]]
        return self._queries.constants.holding(tests[component], run.cells, row, mask)

    def _longer(
        self, run: Run, look: Any, move: Move, bounds: Bounds, mask: int, event: Happened
    ) -> Run:
        row = event[self._inputs[look.component]][0]
        last, gaps = run.end if run.taken else None, run.gaps
        if move.passes:
            last, passed = gaps_behind(run, move.passes, bounds, row)
            gaps += passed[move.forgotten :]
        floor, opened = run.floor, run.opened
        if look.among and not look.later:
            floor, opened = last, row[1]
        cells = self._shape.taken(run.cells, look.component, row)
        taken = (*run.taken, (look.component, row))
        first_end, key = run.first_end, run.key
        if not run.taken:
            first_end, key = row[1], self._key(look.component, row)
        # positional arguments: with keywords the call takes twice as long
        state = move.target
        return Run(taken, cells, state, mask, 0, gaps, floor, opened, first_end, row[1], key)

    def _split(self, run: Run, ended: Mapping[int, int]) -> Iterable[Run]:
        """Return the runs left of a run when moves ``ended`` (mask of queries by bits of moves)."""
        parts = {run.dead: run.mask}
        for moves, ending in ended.items():
            divided: dict[int, int] = {}
            for dead, mask in parts.items():
                for more, queries in ((moves, mask & ending), (0, mask & ~ending)):
                    if queries:
                        divided[dead | more] = divided.get(dead | more, 0) | queries
            parts = divided
        state = self._states[run.state]
        every = (1 << len(state.moves)) - 1
        left = [
            run._replace(dead=dead, mask=mask)
            for dead, mask in parts.items()
            if state.longest or dead & every != every
        ]
        if state.longest & ~run.dead:
            ended_now = [one for one in left if not state.longest & ~one.dead]
            self._waiting.complete += [one for one in ended_now if not state.grown & one.dead]
        return [one for one in left if one.dead & every != every]

    def _install(self, run: Run) -> None:
        """Keep a run if it may go on."""
        state = self._states[run.state]
        if not state.moves or not run.mask:
            return
        key = run.key
        if key is None and self._keys is not None:
            return
        parts = [run]
        if state.longest and (grown := run.mask & self._waiting.longer.get(run.same, 0)):
            dead = run.dead | state.grown  # an event of the same epoch made the match longer
            parts = [run._replace(mask=grown, dead=dead), run.only(run.mask & ~grown)]
        runs = self._runs.setdefault(key, {}).setdefault(run.state, [])
        runs += [part for part in parts if part.mask]
        self._arm(run.end, self._queries.longest)

    def _drop(self, left: Callable[[Run], int], mask: int) -> None:
        """Remove from runs and waiting matches the queries of `mask` that `left` leaves out."""
        self._drop_runs(left, mask)
        self._waiting.drop(left)

    def _drop_runs(self, left: Callable[[Run], int], mask: int) -> None:
        for key, found in list(self._runs.items()):
            for state, runs in list(found.items()):
                if any(run.mask & mask for run in runs):
                    kept = [run.only(still) for run in runs if (still := left(run))]
                    self._keep_runs(key, state, kept)

    def evict(self, watermark: int) -> None:
        """Drop the runs, and the rows of absences, that no event from the watermark on can meet."""
        super().evict(watermark)
        oldest = watermark - self._queries.longest
        self._drop_runs(lambda run: run.mask if run.first_end > oldest else 0, -1)
        if self._runs:
            self._arm(watermark, self._queries.longest)
        self._absences.drop_old(watermark, self.runs(), self._waiting)
        if any(True for _ in self._absences):
            self._arm(watermark, self._absences.reach)

    # -- whole matches ---------------------------------------------------------------------

    def awaiting(self, time: int) -> Iterator[Operator]:
        for run, _ in self._waiting.by_deadline.get(time, ()):
            yield from [self._owners[slot] for slot in slots_of(run.mask)] if run.mask else ()

    def _emit(self, now: int, whole: Iterable[Run]) -> None:
        policies = self._policies
        if policies.any:
            whole = sorted(whole, key=lambda one: (one.places, one.names))
        for run in whole:
            mask = (policies.left(run) if policies.any else run.mask) & ~self._absences.given_up
            if not mask:
                continue
            if policies.any:
                policies.keep(run, mask, now)
            begin = min(row[0] for _, row in run.taken)
            first = min(row[2] for _, row in run.taken)
            row = (begin, now, first, *self._shape.values(run.cells))
            self._output.emit(row, members_in(mask))

    def _discard(self, made: dict[Hashable, Run]) -> None:
        """Drop the runs that the policy discards in this epoch, also from those ``made`` in it."""
        policies = self._policies
        if policies.policy == "newest":
            self._replace(made.values())
        if discards := policies.discards:
            self._drop(policies.left, discards)
            for key, run in made.items():
                made[key] = run.only(policies.left(run))
            policies.forget()

    def _replace(self, made: Iterable[Run]) -> None:
        """Drop older runs with the partition and `steps` of a run in ``made``, for its queries."""
        newer: dict[Hashable, int] = {}
        key = self._policies.key
        for run in made:
            reached = (key(run), run.steps)
            newer[reached] = newer.get(reached, 0) | run.mask
        self._drop_runs(lambda run: run.mask & ~newer.get((key(run), run.steps), 0), -1)

    # -- partitions ------------------------------------------------------------------------

    def _key(self, component: int, row: Row) -> Any:
        """Return the partition of the runs that an event begins."""
        return None if self._keys is None else self._keys[self._inputs[component]](row)

    # -- queries ---------------------------------------------------------------------------

    def _spanning(self, span: int, distance: int) -> int:
        """Return the queries whose bound of unordered part `span` is above a distance in ticks."""
        place, found = self._shape.spans + span, 0
        for constants, queries in self._queries.constants.queries.items():
            if distance < constants[place]:
                found |= queries
        return found

    def _is_alike(self, run: Run, event: Happened) -> bool:
        """Return True if an event is in the `[k]` partition of the last event of a run."""
        component, last = run.taken[-1]
        known = self._shape.pattern.rules.partition[self._inputs[component]]
        if known is None:
            return False
        value = key_function(known)(last)
        columns = self._shape.pattern.rules.partition
        return value is not None and any(
            (own := columns[input]) is not None and key_function(own)(row) == value
            for input, (row, _) in event.items()
        )


def matching_for(wanted: Wanted, number: int) -> MOp:
    """Return a new m-op with a number: stacks for a plain sequence, runs for any other pattern."""
    plain = cast(Matching, wanted.definition).shape.plain
    return (ActiveStacks if plain else PatternMatchMOp)(wanted, number)


def sharing_key(wanted: Wanted) -> Hashable:
    """Return a key that patterns have in common if one m-op computes them."""
    shape = cast(Matching, wanted.definition).shape
    return (shape, shared_channels(wanted), wanted.lane, wanted.since)


def _ends(ended: dict[int, int], moves: int, mask: int) -> None:
    """Record in `ended` that the moves of some bits have ended for the queries of a mask."""
    if moves and mask:
        ended[moves] = ended.get(moves, 0) | mask


def _no_partition(row: Row) -> tuple[()]:
    return ()
