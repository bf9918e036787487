"""States: `;` and `μ`, whose instances wait for a right row.

An automaton's state with its instances is such an m-op (Hong 2009, section 5.4.2).  Its instances
are pairs (row, membership).  They lie in the AI-index, a hash on the dynamic equalities of the
filter predicate.  The state itself lies in the AN-index of its right stream while it has instances
(section 4.5.3).  Streams of the left channel with the same predicate and right stream share one
state; each row is one instance for all of them (rules c_; and c_μ, section 5.4.4).  The watermark
evicts instances whose duration bound has passed.

Sequence (;θ): each left row with the earliest later right rows that satisfy θ.  A right row meets
the instances that ended before it began; what is met is deleted when the epoch ends, so that all
simultaneous right rows meet it (sections 3.2.2 and 4.4.3).  With a rank an instance takes of the
right rows of an epoch those of the least rank.  They are known when the epoch has all its right
rows: so results come by depth, as those of aggregates do.

Iterate (μ): an instance takes one right row after the other and is put out each time.  An instance
that a right row meets (filter θ) is deleted when the epoch ends.  Each row that also satisfies the
rebind predicate makes a new instance with that row as the last, which is emitted (section 3.2.3;
the rebind and forward edges of section 3.3.2 have the same predicate).  The longest run is put out
in place of all: an instance that the right rows of an epoch meet and none of them rebinds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, cast

from cep_core.algebra.text import counted
from cep_core.dataflow import code
from cep_core.dataflow.channels import Members, members_of, paired, slots_of, without_slots
from cep_core.dataflow.clock import END
from cep_core.dataflow.mop import (
    OWN,
    KeptGroups,
    KeptSize,
    MatchBound,
    Operator,
    OperatorNumber,
    OrderedMOp,
    SlotWiseMOp,
    Wanted,
)
from cep_core.dataflow.predicates import (
    BoundColumns,
    BoundPredicate,
    IndexedDisjunct,
    is_proper,
    key_function,
    values_of,
)
from cep_core.events import VALUES, Row
from cep_core.operators.cayuga.active import ActiveIndex

Instance = tuple[Row, Members]
_FEW = 1_000  # instances of a group that are tried uncounted: counting costs 8 % of NEXT


class StateMOp(SlotWiseMOp, OrderedMOp):
    """The base of the m-ops of `;` and μ: it keeps left rows as instances.

    All have one filter predicate.  `match` gets each right row that may concern an instance.
    """

    journals = True

    def __init__(
        self, first: Wanted, number: int, filter: BoundPredicate, index: ActiveIndex
    ) -> None:
        # More than 30 attributes would cost each object a dictionary of its own: 5 % of NEXT.
        super().__init__(first, number, ordered=True)
        right = first.inputs[1]
        self.depth = right.depth + 1
        self.active = index
        self.place = index.place(filter)
        self._listens = False
        self._constants = filter.constants
        self._kept: KeptGroups[Instance] = KeptGroups(self, self._lane.journal)
        self._pending: list[Instance] = []
        # by group: `id` of the instances to delete, None for all
        self._met: dict[Any, set[int] | None] = {}
        # by group: slots of the queries with too many instances
        self._untried: dict[Any, set[int]] = {}
        self._bound = MatchBound(self, _FEW)
        self._multiplies = not first.inputs[0].simple  # an event may make many left rows
        self._read(filter, index)

    # -- the plan --------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self.active.attend(self, wanted.inputs[1])
        self._bound.kept.count_again()  # a snapshot may add instances of the operator
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        self._forget({operator.slot}, *self._kept.groups)
        self._attend()
        if not self.operators:
            self.active.leave(self)

    def _attend(self) -> None:
        """Enter the state in the index of active states if it has instances, else take it out."""
        listens = self._kept.count > 0
        if listens is not self._listens:
            self._listens = listens
            (self.active.activate if listens else self.active.deactivate)(self)

    def instances(self) -> int:
        return self._kept.count

    def entries(self) -> int:
        return len(self._kept.groups) + (1 if self._kept.count else 0)

    @property
    def keeps(self) -> int | None:
        """The largest number of ticks for which an instance is kept; None if only a row ends it."""
        return min((bound for _, bound in self._bounds), default=None)

    def kept(self) -> Iterator[Instance]:
        """Yield the instances, oldest first within their group."""
        return iter(self._kept)

    # -- rows ------------------------------------------------------------------------------

    def receive(self, row: Row, members: Members) -> None:
        """Consume a left row: it becomes an instance when the epoch ends."""
        if row[2] >= self._since:
            self._pend(row, members)

    @abstractmethod
    def match(self, row: Row) -> None:
        """Match a right row with the instances."""

    def finish(self, now: int) -> None:
        """Delete the instances that were met, install the new ones."""
        kept = self._kept
        pending, self._pending = self._pending, []
        for key, met in self._met.items():
            if met is None:
                kept.drop(key)
            else:
                gone = met
                kept.change(lambda one: None if id(one) in gone else one, key)  # noqa: B023
        self._met.clear()
        bound = self._bound
        if self._untried:  # an untried row may be the next one: the instance meets no later row
            for key in self._untried.keys() & kept.groups.keys():
                self._forget(self._untried[key], key)
            self._untried.clear()
        for instance in pending:
            self.install(instance)
        if self._multiplies and bound.kept.is_full(OWN * len(pending)):
            over = bound.kept.with_too_much(self._sizes(now))
            bound.give_up(over)
            self._forget(over, *kept.groups)
        self._attend()

    def _sizes(self, now: int) -> Iterator[KeptSize]:
        """Yield the size of each instance that a row may still meet at time ``now``."""
        for row, members in self._kept:
            last = self._last_of(row)
            if last is not None and last >= now:
                yield members, row[2], OWN

    def install(self, instance: Instance) -> None:
        """Keep an instance, unless nothing can ever meet it."""
        row = instance[0]
        if self._worthy is not None and not self._worthy(row, row, self._constants):
            return
        last = self._last_of(row)
        if last is None:
            return
        key = None
        if self._left_key is not None:
            key = self._left_key(row)
            if key is None:
                return
        self._kept.add(key, instance)
        if self._bounds and not self._armed:
            self._arm(last, self.keeps or 0)

    def evict(self, watermark: int) -> None:
        """Drop instances that no row from the watermark on can meet: their time has passed."""
        super().evict(watermark)
        nearest = END

        def alive(instance: Instance) -> Instance | None:
            nonlocal nearest
            last = self._last_of(instance[0])
            if last is None or last < watermark:
                return None
            nearest = min(nearest, last)
            return instance

        self._kept.change(alive)
        self._attend()
        if self._kept.count:
            self._arm(nearest, self.keeps or 0)

    def saved(self, kept: Instance, number: OperatorNumber) -> list[Any]:
        row, members = kept
        return [row, [number(self._owners[slot]) for slot in slots_of(members)]]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        self.install((row, members_of(sorted(operator.slot for operator in operators))))
        self._attend()

    def _forget(self, slots: Collection[int], *keys: Any) -> None:
        """Remove the streams with these slots from the instances of the groups ``keys``."""

        def left(instance: Instance) -> Instance | None:
            members = without_slots(instance[1], slots)
            if members == instance[1]:
                return instance
            return None if members is None else (instance[0], members)

        if slots and keys:
            self._kept.change(left, *keys)

    def _pend(self, row: Row, members: Members) -> None:
        self._pending.append((row, members))
        self._lane.touch(self)

    def _meet(self, row: Row) -> list[Instance]:
        """Return the instances that a right row meets, and note that they are met."""
        if row[2] < self._since:
            return []
        if self._guard is not None and not self._guard(None, row, self._constants):
            return []
        key = None if self._right_key is None else self._right_key(row)
        group = self._kept.groups.get(key)
        if group is None:
            return []
        bound, now = self._bound, self._lane.now
        if len(group) > _FEW and (over := bound.attempt(now, len(group), group)):
            self._untried[key] = over
            self._lane.touch(self)
            if len(over) == len(self.operators):
                return []
        found: list[Instance] = self._scan(group, row, self._constants)
        if not found:
            return found
        self._note(key, found)
        return bound.within(now, found)

    def _note(self, key: Any, found: list[Instance]) -> None:
        """Mark instances as met: they are deleted when the epoch ends.

        ``key`` is that of their group in `_kept`.
        """
        if len(found) == len(self._kept.groups[key]):
            self._met[key] = None
        else:
            met = self._met.setdefault(key, set())
            if met is not None:
                met.update(map(id, found))
        self._lane.touch(self)

    def indexes(self) -> str:
        """Describe what the indexes answer."""
        found = []
        if equal := len(self.place.columns):
            found.append(f"AN-index on {counted(equal, 'equality', 'equalities')}")
        if self._left_key is not None:
            found.append("AI-index on dynamic equality")
        if self._bounds:
            found.append(f"instances are dropped after {self.keeps} ticks")
        return "; ".join(filter(None, [*found, str(self._bound)]))

    # -- the filter predicate --------------------------------------------------------------

    def _read(self, filter: BoundPredicate, index: ActiveIndex) -> None:
        """Split the filter into what the indexes answer and what is tested for each instance.

        The parts are stored as attributes of the m-op.
        """
        shape = filter.shape
        self._guard: code.CompiledCondition | None = None
        self._worthy: code.CompiledCondition | None = None
        self._left_key: Callable[[Row], Any] | None = None
        self._right_key: Callable[[Row], Any] | None = None
        # (place of a time in an instance, ticks after it in which a row may meet the instance)
        self._bounds = _bounds_of(shape.disjuncts, self._constants)
        self._last_of = _last_of(self._bounds)
        if shape.joins and index.instance_index:
            left, right = zip(*shape.joins, strict=True)
            self._left_key = key_function(left)
            self._right_key = values_of(right)  # no group has a key with null or NaN
        if len(shape.disjuncts) != 1:
            self._scan = shape.instances()
            return
        disjunct = shape.disjuncts[0]
        answered = frozenset(literal for _, _, literal in disjunct.equalities if index.indexed)
        if index.instance_index:
            reads = list(enumerate(disjunct.reads))
            newer = frozenset(n for n, read in reads if read <= {2} and n not in answered)
            older = frozenset(n for n, read in reads if read == {1})
            self._guard, self._worthy = shape.some(newer), shape.some(older)
            answered |= newer.union(older, disjunct.joins.values())
        self._scan = shape.instances(answered)


def _bounds_of(
    disjuncts: Sequence[IndexedDisjunct], constants: Sequence[Any]
) -> list[tuple[int, int]]:
    """Return (index of a time in an instance's row, most ticks since then) for all its bounds.

    Only times that all disjuncts bound are among them.
    """
    found: list[dict[int, int]] = []
    for disjunct in disjuncts:
        own: dict[int, int] = {}
        for place, slot in disjunct.bounds:
            bound = constants[slot]
            if is_proper(bound, False):
                own[place] = max(0, min(bound, own.get(place, END)))
        found.append(own)
    first, *others = found or [{}]
    shared = [place for place in first if all(place in other for other in others)]
    return [(place, max(own[place] for own in found)) for place in shared]


def _last_of(bounds: Sequence[tuple[int, int]]) -> Callable[[Row], Any]:
    """Return a function from an instance's row to the last time at which a row may meet it.

    It returns `END` without a bound, and None if no row may meet the instance.
    """
    if not bounds:
        return lambda row: END
    if len(bounds) == 1 and bounds[0][0] == 0:
        longest = bounds[0][1]
        return lambda row: row[0] + longest

    def last(row: Row) -> Any:
        found = [(row[place], bound) for place, bound in bounds]
        if any(begin is None for begin, _ in found):
            return None
        return min(begin + bound for begin, bound in found)

    return last


class RankedFilter(NamedTuple):
    """The definition of a sequence.

    Of simultaneous right rows only those with the least value in ``column`` match; None: all.
    """

    filter: BoundPredicate
    column: int | None


class SequenceMOp(StateMOp):
    """Evaluates sequences (`;`) of one predicate over a left channel and one right stream."""

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        filter, column = cast(RankedFilter, first.definition)
        super().__init__(first, number, filter, index)
        self._rank = None if column is None else VALUES + column
        # by the id of an instance's row: the right rows of the epoch with the least rank so far
        self._least: dict[int, tuple[Instance, int, list[Row]]] = {}

    def match(self, row: Row) -> None:
        found = self._meet(row)
        if self._rank is None:
            for older, members in found:
                self._output.emit(paired(older, row), members)
            return
        if found and not self._least:
            self._lane.flush_later(self)
        for instance in found:
            rank, place = row[self._rank] or 0, id(instance[0])
            known = self._least.get(place)
            if known is None or rank < known[1]:
                self._least[place] = (instance, rank, [row])
            elif rank == known[1]:
                known[2].append(row)

    def flush(self, now: int) -> None:
        """Emit the pairs of each instance with the epoch's right rows of the least rank."""
        least, self._least = self._least, {}
        for (older, members), _, rows in least.values():
            if (left := self._bound.left(members)) is not None:  # a query may be over the bound
                for row in rows:
                    self._output.emit(paired(older, row), left)


class Iteration(NamedTuple):
    """The definition of μ: filter θ, rebind predicate, columns of the first and later instances.

    With ``longest`` an instance's last column says whether the run has a right row.
    """

    filter: BoundPredicate
    rebind: BoundPredicate
    first: BoundColumns
    next: BoundColumns
    longest: bool = False


class IterateMOp(StateMOp):
    """Evaluates iterations (μ) of one definition over a left channel and one right stream."""

    def __init__(self, first: Wanted, number: int, index: ActiveIndex) -> None:
        self._definition = cast(Iteration, first.definition)
        super().__init__(first, number, self._definition.filter, index)
        self._ended: dict[
            int, Instance | None
        ] = {}  # the instances that were met, by `id` of their row; None if it was extended

    def receive(self, row: Row, members: Members) -> None:
        if row[2] >= self._since:
            shape, constants = self._definition.first
            self._pend(shape(None, row, constants), members)

    def match(self, row: Row) -> None:
        found = self._meet(row)
        if not found:
            return
        _, rebind, _, (follow, constants), longest = self._definition
        if longest and not self._ended:
            self._lane.flush_later(self)
        for instance in found:
            older, members = instance
            if rebind.shape.holds(older, row, rebind.constants):
                made = follow(older, row, constants)
                self._pend(made, members)
                if longest:
                    self._ended[id(older)] = None
                else:
                    self._output.emit(made, members)
            elif longest:
                self._ended.setdefault(id(older), instance)

    def flush(self, now: int) -> None:
        """Emit the longest runs that the epoch ends."""
        ended, self._ended = self._ended, {}
        for instance in ended.values():
            if instance is not None and instance[0][-1]:
                row, members = instance
                left = self._bound.left(members)  # a row that a query left out might extend the run
                if left is not None:
                    self._output.emit((row[0], now, *row[2:-1]), left)
