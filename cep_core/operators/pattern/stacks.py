"""Active instance stacks: plain sequences by sequence scan with AIS and joint partitions (SS).

Each component has a stack of the rows that may be part of a sequence, in order of time.  A row
stores its RIP, the height of the stack before it (Wu, Diao and Rizvi 2006, section 4.1).  With an
equivalence test there are such stacks for each value of its attribute; a row is dropped when the
stack before it is empty in its partition (PAIS, section 4.2.1).  It is also dropped when all
sequences on that stack began too early (windows in SS, section 4.3).  Each row stores the latest
begin of a sequence that ends with it; a sequence begins when its first row ends.

Queries of one shape share the stacks: a row has the mask of those that select it, and a sequence
belongs to the queries of all its rows.

Differs from section 4.2.2: several equivalence tests are jointly one key.  The paper fears that
partitions would be too many; in a hash table there are only those with rows, fewer than rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Members, slots_of
from cep_core.dataflow.code import ATOM_ERRORS
from cep_core.dataflow.mop import (
    RUNS,
    WORK,
    Operator,
    OperatorNumber,
    SavedRows,
    Wanted,
    with_too_many,
)
from cep_core.dataflow.predicates import key_function
from cep_core.events import Row
from cep_core.operators.pattern.conditions import Matching
from cep_core.operators.pattern.construction import END_OF, Search, search_of
from cep_core.operators.shared_runs import SharedRuns, members_in


class Stack:
    """Rows of a component in order of time, each with its RIP and the queries that select it.

    A RIP counts the rows that were ever pushed on the stack before it; ``gone`` of them have been
    pruned.  ``starts`` has for each row the latest begin of a sequence that ends with it or with a
    row below it.
    """

    __slots__ = ("gone", "masks", "rips", "rows", "starts")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.rips: list[int] = []
        self.starts: list[int] = []
        self.masks: list[int] = []
        self.gone = 0

    def push(self, row: Row, rip: int, start: int, mask: int) -> None:
        """Push a row that the queries of ``mask`` select, with its RIP (see `Stack`).

        ``start`` is the latest begin, in ticks, of a sequence that ends with the row.
        """
        starts = self.starts
        self.rows.append(row)
        self.rips.append(rip)
        self.masks.append(mask)
        starts.append(start if not starts or starts[-1] < start else starts[-1])

    def before(self, row: Row) -> int:
        """Return the number of rows on the stack that end before a row begins."""
        rows = self.rows
        if not rows or rows[-1][1] < row[0]:
            return len(rows)
        return bisect_left(rows, row[0], key=END_OF)

    def prune(self, oldest: int) -> None:
        """Drop the rows at which only sequences end that began at ``oldest`` or before."""
        dead = bisect_right(self.starts, oldest)
        if dead:
            del self.rows[:dead], self.rips[:dead], self.starts[:dead], self.masks[:dead]
            self.gone += dead


Completed: TypeAlias = tuple[Row, Sequence[Stack], int]
"""A row that completes sequences, the stacks of its partition, and the queries that select it."""


class ActiveStacks(SharedRuns):
    """Evaluates plain sequences of one shape by active instance stacks.

    Each partition by the equivalence tests has its own stacks.
    """

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        self._shape = cast(Matching, first.definition).shape
        self._inputs = [component.input for component in self._shape.components]
        self._last = len(self._inputs) - 1
        keys = self._shape.partitions.keys
        self._keys = [key_function(keys[c]) if keys else None for c in range(self._last + 1)]
        self._partitions: dict[Any, list[Stack]] = {}
        self._completed: list[Completed] = []  # of this epoch
        self._alike: bool | None = None  # whether all want the same sequences; None: not known

    # -- the plan --------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self._choose()
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        self._choose()

    def _choose(self) -> None:
        """Compile the search if need be.

        It tests conditions on constants if all queries have the same constants and windows.
        """
        alike = self._queries.are_alike
        if alike is not self._alike:
            self._alike, self._search = alike, self._search_of(alike)

    def _search_of(self, alike: bool, careful: bool = False) -> Search:
        conjuncts = self._shape.conjuncts
        tested = [conjunct for conjunct in conjuncts if alike or not conjunct.has_constants]
        return search_of(self._shape, tuple(tested), alike, careful)

    def _forget_query(self, slot: int) -> None:
        self._drop(1 << slot)

    def _give_up(self, mask: int) -> None:
        super()._give_up(mask)
        self._drop(mask)

    def _drop(self, mask: int) -> None:
        """Remove the queries of a mask from all rows on the stacks; drop rows of no other query."""
        kept = list(self._kept())
        self._partitions.clear()
        for component, row, queries in kept:
            if left := queries & ~mask:
                self.push_row(component, row, left, False)

    def instances(self) -> int:
        return sum(1 for _ in self._kept())

    def entries(self) -> int:
        return len(self._partitions) if self._shape.partitions.keys else 0

    def indexes(self) -> str:
        """Describe how sequences are found, and how many queries share the m-op."""
        said = "active instance stacks"
        if keys := self._shape.partitions.keys:
            tests = counted(len(keys[0]), "equivalence test", "equivalence tests")
            said += f", partitioned by {tests}"
        return said + self._shared()

    def _kept(self) -> Iterator[tuple[int, Row, int]]:
        """Yield (component, row, mask of its queries), by component, then by stack and time."""
        for component in range(self._last):
            for stacks in self._partitions.values():
                stack = stacks[component]
                for row, mask in zip(stack.rows, stack.masks, strict=True):
                    yield component, row, mask

    def dump(self, number: OperatorNumber) -> SavedRows:
        return [
            [row, self._numbers(mask, number), component] for component, row, mask in self._kept()
        ]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        self.push_row(side, row, self._mask_of(operators), False)

    def evict(self, watermark: int) -> None:
        super().evict(watermark)
        oldest = watermark - self._queries.longest
        for key, stacks in list(self._partitions.items()):
            for stack in stacks:
                stack.prune(oldest)
            if not any(stack.rows for stack in stacks):
                del self._partitions[key]
        if self._partitions:
            self._arm(watermark, self._queries.longest)

    # -- rows ------------------------------------------------------------------------------

    def _receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the function that consumes the rows of an input."""
        components = [place for place, one in enumerate(self._inputs) if one == input]
        reading, since = self._queries.reading, self._since

        def receive(row: Row, members: Members) -> None:
            if row[2] >= since:
                mask = reading(input, members)
                for component in components:
                    self.push_row(component, row, mask, True)

        return receive

    def push_row(self, component: int, row: Row, mask: int, new: bool) -> None:
        """Push a row, which the queries of ``mask`` select, on the stack of a component.

        A row that completes sequences waits for the end of the epoch instead.  A row that is not
        ``new`` was on a stack before.
        """
        key_of, key = self._keys[component], None
        if key_of is not None:
            key = key_of(row)
            if key is None:
                return
        stacks = self._partitions.get(key)
        end, window = row[1], self._queries.longest
        rip, start = 0, end
        if component:
            if stacks is None:
                return
            under = stacks[component - 1]
            before = under.before(row)
            if not before:
                return
            start = under.starts[before - 1]
            if new and end - start >= window:
                return
            rip = before + under.gone
        elif stacks is None:
            stacks = [Stack() for _ in range(self._last)]
            if stacks:  # of a single component nothing is kept
                self._partitions[key] = stacks
                self._arm(end, window)
        if component == self._last:
            if not self._completed:
                self._lane.flush_later(self)
            self._completed.append((row, stacks, mask))
            return
        stack = stacks[component]
        starts, oldest = stack.starts, end - window
        if starts and starts[len(starts) >> 1] <= oldest:  # half of the stack is too old
            stack.prune(oldest)
        stack.push(row, rip, start, mask)

    # -- sequences -------------------------------------------------------------------------

    def flush(self, now: int) -> None:
        """Find the sequences that the rows of the epoch complete, and emit them."""
        rows, self._completed = self._completed, []
        if self._alike:
            every = rows[0][2]  # the mask of each row: queries that are alike select the same rows
            self._complete(rows, every, self._queries.constants.only, self._queries.longest)
            return
        found = self._found(rows, None, self._queries.longest, False)
        if found is not None:
            self._deliver(found)
            return
        every = 0  # all queries together try too many rows, so each query searches by itself
        for _, _, mask in rows:
            every |= mask
        for slot in slots_of(every):
            bit, apart = 1 << slot, dict[int, list[Stack]]()
            window = next(time for time, of in self._queries.windows.items() if of & bit)
            for _, stacks, mask in rows:
                if mask & bit and id(stacks) not in apart:
                    apart[id(stacks)] = _of_queries(stacks, bit)
            own = [(row, apart[id(stacks)], bit) for row, stacks, mask in rows if mask & bit]
            self._complete(own, bit, self._queries.constants.of(slot), window)

    def _complete(self, rows: Iterable[Completed], mask: int, constants: Any, window: int) -> None:
        """Emit the sequences that ``rows`` complete, for the queries of ``mask``.

        These queries select the same rows and have the same ``constants`` and ``window``, in ticks.
        """
        found = self._found(rows, constants, window, True)
        if found is None or len(found) > RUNS:
            self._give_up(mask)
        elif found:
            self._output.emit_all(found, members_in(mask))

    def _found(
        self, rows: Iterable[Completed], constants: Any, window: int, alike: bool
    ) -> list[Any] | None:
        """Return the sequences that rows complete; None if too many rows are tried for them.

        ``alike``: all queries have the same ``constants``; the window is in ticks.
        """
        search = self._search if alike is self._alike else self._search_of(alike)
        found: list[Any] = []
        left = WORK
        for row, stacks, mask in rows:
            before = stacks[-1].before(row) if stacks else 0
            oldest = row[1] - window
            try:
                more, left = search(row, before, stacks, constants, oldest, mask, left)
            except ATOM_ERRORS:
                careful = self._search_of(alike, careful=True)
                more, left = careful(row, before, stacks, constants, oldest, mask, left)
            if left < 0:
                return None
            found += more
        return found

    def _deliver(self, found: Iterable[tuple[int, tuple[Row, ...]]]) -> None:
        """Emit the match of each (mask of queries, rows) to those queries of the mask that have it.

        These are the queries whose window and constants the rows satisfy.
        """
        queries = self._queries
        whole: list[tuple[int, tuple[Row, ...]]] = []
        conditions = self._shape.constant_conditions
        for mask, cells in found:
            mask = queries.within(mask, cells[-1][1] - cells[0][1])
            mask = queries.constants.holding(conditions, cells, (), mask)
            if mask:
                whole.append((mask, cells))
        over = 0
        if len(whole) > RUNS:
            over = with_too_many(Counter([mask for mask, _ in whole]), RUNS)
        if over:
            self._give_up(over)
        for mask, cells in whole:
            if left := mask & ~over:
                first = min([row[2] for row in cells])
                row = (cells[0][0], cells[-1][1], first, *self._shape.values(cells))
                self._output.emit(row, members_in(left))


def _of_queries(stacks: Sequence[Stack], mask: int) -> list[Stack]:
    """Return stacks with the rows of some queries only, as they would be without the others."""
    made = [Stack() for _ in stacks]
    for place, stack in enumerate(stacks):
        for row, queries in zip(stack.rows, stack.masks, strict=True):
            rip = made[place - 1].before(row) if place else 0
            if queries & mask and (rip or not place):
                start = made[place - 1].starts[rip - 1] if place else row[1]
                made[place].push(row, rip, start, mask)
    return made
