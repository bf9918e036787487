"""Multi-operators: what a plan is made of (Hong 2009, section 5.2.2).

A logical operator of a query is `Wanted` from the plan; it becomes an `Operator`: a slot of some
m-op's output channel.  An m-op implements many operators; each has the rows it would have alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

from cep_core.algebra.function_bounds import BeyondBounds, report
from cep_core.algebra.text import counted
from cep_core.dataflow.channels import Channel, Members, Port, slots_of, without_slots
from cep_core.dataflow.clock import BEGINNING, END, Lane
from cep_core.dataflow.journal import Unwritten
from cep_core.events import Row

SavedRows: TypeAlias = list[list[Any]]  # [row, numbers of operators, anything else] of a snapshot
Kept = TypeVar("Kept")
OperatorNumber: TypeAlias = Callable[["Operator"], int]
RUNS = 10_000
"""The most runs (partial matches), or matches, that a query gets at one time: epoch or arrival."""
WORK = 250_000
"""The most rows or runs that are tried for a query at one time; that takes 0.1 to 0.5 s."""
KEPT = 1_000_000
"""The most events in the runs and rows that an operator keeps for a query; some 60 MB.

A run counts its events and `OWN` more, a row `OWN`.  Of all that begins with the same event the
first `FREE` do not count: the size of the input explains them.
"""
OWN, FREE = 8, 100
Tried: TypeAlias = Iterable[tuple[Any, Members]]
"""Rows to count, each with the membership of its queries; iterated once, if at all."""
KeptSize: TypeAlias = tuple[Members, int, int]
"""Of a kept run or row: its queries, its smallest arrival number, its size in events."""


class Wanted(NamedTuple):
    """A logical operator with its inputs; equal objects have equal results.

    ``kind`` is the name of the algebra's node in lower case; ``definition`` has its predicate,
    columns or other parameters.  An ordered operator has a ``lane`` (else None).  ``since`` is the
    arrival number from which it sees rows, if its results depend on that (else None).  A join has
    a ``window``.  ``width`` is the number of values of its rows.
    """

    kind: str
    definition: Hashable
    inputs: tuple[Operator, ...]
    lane: Lane | None = None
    since: int | None = None
    window: int | None = None
    width: int = 0


class Operator:
    """A logical operator in the plan, and the stream that it puts out: a slot of a channel.

    ``simple`` says that each of its rows is made of one event; ``joined`` that it is a join or lies
    above one.  ``number`` names it in the entries of a state log (0: none names it).  ``uses``
    counts the queries and operators that need it.  ``lateness`` is in ticks.
    """

    __slots__ = (
        "channel",
        "depth",
        "joined",
        "lateness",
        "mop",
        "number",
        "simple",
        "slot",
        "uses",
        "wanted",
    )

    def __init__(
        self, wanted: Wanted, channel: Channel, slot: int, mop: MOp | None, lateness: int = 0
    ) -> None:
        self.wanted = wanted
        self.channel = channel
        self.slot = slot
        self.mop = mop
        self.uses = 0
        self.number = 0
        self.depth = 0
        self.simple = mop is None or mop.single
        self.joined = mop is not None and mop.joins
        self.lateness = lateness
        for one in wanted.inputs:
            self.depth = max(self.depth, one.depth + 1)
            self.simple = self.simple and one.simple
            self.joined = self.joined or one.joined
            self.lateness = max(self.lateness, one.lateness)
        if wanted.lane is not None:
            self.lateness = wanted.lane.lateness

    def below(self) -> Iterator[Operator]:
        """Yield this operator and all operators below it, each once."""
        found = {self: None}
        pending = [self]
        while pending:
            one = pending.pop()
            yield one
            pending += [source for source in one.wanted.inputs if source not in found]
            found |= dict.fromkeys(pending)


_depth = attrgetter("depth")


class MOp(ABC):
    """A multi-operator: its label, its depth in the plan, and the operators that it implements."""

    single: ClassVar[bool] = False  # whether it makes each row of one row of an input
    # whether it makes a row of several rows, which may come in any order
    joins: ClassVar[bool] = False
    journals: ClassVar[bool] = False  # whether it journals its state; else the log compares it
    lane: Lane | None = None
    _output: Channel
    _wires: Sequence[Wire] = ()  # by input; a right input may have none

    def __init__(self, first: Wanted, number: int) -> None:
        self.label = f"{first.kind}#{number}"  # in plans and messages
        self.depth = 1 + max(map(_depth, first.inputs))
        self.operators: dict[Operator, None] = {}
        self.seconds = 0.0  # spent in batches and ends of epochs: a figure of the plan
        self.left_out = Counter[int]()  # by slot: how often an operator was over a bound

    @property
    def kind(self) -> str:
        """The kind of its operators: the part of the label before `#`."""
        return self.label.partition("#")[0]

    def accepts(self, wanted: Wanted) -> bool:
        """Return True if the m-op can implement one more operator with its sharing key."""
        return True

    def add(self, wanted: Wanted) -> Operator:
        """Implement one more operator: connect it with its inputs, and return it."""
        operator = Operator(wanted, *self._slot(wanted), self)
        self.operators[operator] = None
        for wire, source in zip(self._wires, wanted.inputs, strict=False):
            wire.connect(source)
        return operator

    def remove(self, operator: Operator) -> None:
        """Remove an operator, and all state that only it needed."""
        del self.operators[operator]
        for wire, source in zip(self._wires, operator.wanted.inputs, strict=False):
            wire.disconnect(source)
        operator.channel.release(operator.slot)
        self.left_out.pop(operator.slot, None)
        if not self.operators and self.lane is not None:
            self.lane.drop(self)

    def _slot(self, wanted: Wanted) -> tuple[Channel, int]:
        """Return the channel and the slot of a new operator."""
        return self._output, self._output.slot()

    def channels(self) -> Iterable[Channel]:
        """Return the output channels."""
        return (self._output,)

    def instances(self) -> int:
        """Count the rows that the m-op keeps."""
        return 0

    def entries(self) -> int:
        """Count the entries of its indexes."""
        return 0

    def kept(self) -> Iterable[Any]:
        """Return the kept objects, which `saved` converts and the journal, if any, records."""
        return ()

    def saved(self, kept: Any, number: OperatorNumber) -> list[Any]:
        """Return a kept object as plain data: row, numbers of operators, and its side if any."""
        raise AssertionError(f"{self.label} keeps nothing")

    def dump(self, number: OperatorNumber) -> SavedRows:
        """Return all kept objects as plain data (see `saved`)."""
        return [self.saved(one, number) for one in self.kept()]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        """Add a saved row to the state of some of the operators.

        ``side`` is the number of the input that the row came from, if the m-op keeps rows of two.
        """
        raise AssertionError(f"{self.label} keeps nothing")

    def indexes(self) -> str:
        """Describe what the indexes of the m-op answer."""
        return ""

    def waiting_ports(self) -> tuple[Port, ...]:
        """Return the ports at which rows of monotone streams wait, in the order of the inputs."""
        return tuple([wire.port for wire in self._wires])


class OrderedMOp(MOp):
    """An m-op whose rows come epoch by epoch, in a lane."""

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        assert first.lane is not None
        self.lane = self._lane = first.lane
        self._since = BEGINNING if first.since is None else first.since
        self._armed = False  # whether an eviction is scheduled

    def flush(self, now: int) -> None:
        """Emit the results that need all rows of the epoch ``now``, or that are due then."""

    def finish(self, now: int) -> None:
        """Delete and install instances at the end of an epoch."""

    def awaiting(self, time: int) -> Iterator[Operator]:
        """Yield the operators that have something to emit or to drop at the deadline ``time``."""
        yield from ()

    def evict(self, watermark: int) -> None:
        """Drop the kept rows that no row from the watermark on can meet."""
        self._armed = False

    def _arm(self, now: int, window: int) -> None:
        """Schedule an eviction half a window after `now`; not twice, nor for a window without an
        end.
        """
        if not self._armed and window < END:
            self._armed = True
            self._lane.evict_at(now + max(1, window // 2), self)


def count_by_slot(counts: Counter[Any]) -> Counter[int]:
    """Return for each slot the sum of the `counts` of the memberships that have it."""
    by_slot = Counter[int]()
    for mask, count in counts.items():
        for slot in slots_of(mask):
            by_slot[slot] += count
    return by_slot


def mask_of(slots: Iterable[int]) -> int:
    """Return the mask with the bits of some slots, which are distinct."""
    return sum([1 << slot for slot in slots])


def with_too_many(counts: Counter[Any], most: int) -> int:
    """Return the mask of the queries whose `counts`, given by masks, add up to above `most`."""
    by_slot = count_by_slot(counts)
    return mask_of(slot for slot, count in by_slot.items() if count > most)


class QueryCounts:
    """The numbers of rows, or of matches, that each query of an m-op has at one time.

    Counting by query begins when the total exceeds the bound of a query, and includes the rows of
    that time that came before.  So the count of a query does not depend on other queries.
    """

    def __init__(self, few: int = 0) -> None:
        self._few = few  # an addition to a query counts only if it has more rows than this
        self.over: set[int] = set()  # slots of the queries over the bound
        self.most = 0  # no query outside of `over` has a larger count
        self._uncounted: list[Tried] = []
        self._counts = Counter[int]()  # by slot

    def begin(self) -> None:
        """Reset the counts for another time."""
        if self._uncounted or self._counts:
            self._uncounted.clear()
            self._counts.clear()
            self.over.clear()
            self.most = 0

    def add(self, number: int, rows: Tried, bound: int) -> None:
        """Count rows, at most `number` for each query; add slots over `bound` to `over`."""
        self.most += number
        self._uncounted.append(rows)
        if self.most > bound:
            for some in self._uncounted:
                added = count_by_slot(Counter(members for _, members in some))
                self._counts.update({s: count for s, count in added.items() if count > self._few})
            self._uncounted.clear()
            self.over |= {slot for slot, count in self._counts.items() if count > bound}
            others = [count for slot, count in self._counts.items() if slot not in self.over]
            self.most = max(others, default=0)


class MatchBound:
    """The bounds of an m-op, whose queries are the slots of its output.

    Operators over time multiply: each of n rows may make a match with each of m others, and so on
    at the next operator; and n rows may begin n² runs that are kept.  What is beyond a bound is
    left out, logged, and counted in explanations.
    """

    def __init__(self, mop: MOp, few: int = 0) -> None:
        """Do not count the rows of a query in one `attempt` if they are at most `few`."""
        self._mop = mop
        self._time: Hashable = None
        self._tried, self._made = QueryCounts(few), QueryCounts()
        self.over: set[int] = set()  # slots of the queries over a bound at this time
        self.kept = KeptBound()

    def __str__(self) -> str:
        if not self._mop.left_out:
            return ""
        times = counted(self._mop.left_out.total(), "time", "times")
        return f"had too many matches or runs, and left them out ({times})"

    def give_up(self, slots: Iterable[int]) -> None:
        """Count and log that what is over a bound was left out for the queries of some slots."""
        for slot in slots:
            self._mop.left_out[slot] += 1
            what = f"{self._mop.label}, query {slot}"
            bounds = f"over {RUNS:,} runs or {WORK:,} steps at one time, or {KEPT:,} events kept"
            report(what, BeyondBounds(bounds))

    def _begin(self, time: Hashable) -> None:
        self._time = time
        self._tried.begin()
        self._made.begin()
        if self.over:
            self.over = set()

    def room(self, time: Hashable) -> int:
        """Return the number of rows that can be tried before a query may be over `WORK`, plus 1.

        Rows that were tried at the same ``time`` count, those of other times do not.
        """
        return WORK + 1 - self._tried.most * (time == self._time)

    def attempt(self, time: Hashable, number: int, rows: Tried) -> set[int]:
        """Count rows to try at a time, of which no query has more than `number`.

        Return the slots of the queries with over `WORK` of them at this time.
        """
        if time != self._time:
            self._begin(time)
        self._tried.add(number, rows, WORK)
        over = self._tried.over
        if over:
            self._leave_out(over)
        return over

    def within(self, time: Hashable, found: list[tuple[Row, Members]]) -> list[tuple[Row, Members]]:
        """Count the results (row, its queries); return them without the queries over a bound now.

        Results of earlier rows stay: the operators above have processed them, and a result that is
        left out makes no other one.  A pattern has no match at such a time: its policies, marks
        and longest runs would take a part of the matches for all of them.
        """
        if time != self._time:
            self._begin(time)
        if found:
            self._made.add(len(found), found, RUNS)
            if self._made.over:
                self._leave_out(self._made.over)
        if not self.over:
            return found
        parts = [(row, self.left(members)) for row, members in found]
        return [(row, members) for row, members in parts if members is not None]

    def left(self, members: Members) -> Members | None:
        """Return a membership without the queries `over` a bound; None if nothing is left."""
        return without_slots(members, self.over) if self.over else members

    def _leave_out(self, slots: set[int]) -> None:
        self.give_up(slots - self.over)
        self.over |= slots


class KeptBound:
    """Counts what an m-op keeps for each query, or each stream of an input, against `KEPT`."""

    def __init__(self) -> None:
        self._room = 0  # the size (in events) that can be added before a query is over the bound

    def count_again(self) -> None:
        """Note a change other than an addition: the next `is_full` returns True."""
        self._room = 0

    def is_full(self, added: int) -> bool:
        """Count ``added`` events; return True if a query may be over `KEPT`.

        Then `with_too_much` has to count all that is kept.
        """
        self._room -= added
        return self._room < 0

    def with_too_much(self, kept: Iterable[KeptSize]) -> set[int]:
        """Return the slots of the queries over `KEPT`, given the sizes of all that is kept.

        The result depends neither on the time of the count nor on other queries.
        """
        sizes, together = Counter[tuple[int, Members]](), Counter[int]()
        for members, first, size in kept:
            if members:
                sizes[first, members] += size
                together[first] += size
        self._room = KEPT - _counting(together)
        if self._room >= 0:
            return set()
        by_slot = defaultdict[int, Counter[int]](Counter)
        for (first, members), size in sizes.items():
            for slot in slots_of(members):
                by_slot[slot][first] += size
        counts = {slot: _counting(own) for slot, own in by_slot.items()}
        self._room = KEPT - max([count for count in counts.values() if count <= KEPT], default=0)
        return {slot for slot, count in counts.items() if count > KEPT}


def _counting(sizes: Mapping[int, int]) -> int:
    """Return the size that counts for `KEPT`: the sum of what each of ``sizes`` has above `FREE`.

    The keys are the arrival numbers of first events.
    """
    return sum(max(0, size - FREE) for size in sizes.values())


class KeptGroups(Generic[Kept]):
    """The state of an m-op, in groups by key; the journal records additions and removals."""

    def __init__(self, keeper: MOp, journal: Unwritten) -> None:
        self.groups: dict[Any, list[Kept]] = {}
        self.count = 0
        self._keeper = keeper
        self._journal = journal

    def __iter__(self) -> Iterator[Kept]:
        for group in self.groups.values():
            yield from group

    def add(self, key: Any, kept: Kept) -> None:
        """Add an object to the group of a key."""
        self.groups.setdefault(key, []).append(kept)
        self.count += 1
        self._journal.keep(self._keeper, kept)

    def clear(self) -> None:
        """Remove all groups; the journal does not record it."""
        self.groups.clear()
        self.count = 0

    def drop(self, key: Any) -> None:
        """Drop the group of a key."""
        group = self.groups.pop(key)
        self.count -= len(group)
        self._journal.drop(group)

    def change(self, changed: Callable[[Kept], Kept | None], *keys: Any) -> None:
        """Replace each kept object by what `changed` returns for it; drop it if that is None.

        Only the groups of `keys` are changed; without keys, all.
        """
        for key in keys or list(self.groups):
            before, kept = self.groups[key], []
            for one in before:
                left = changed(one)
                if left is not one:
                    self._journal.drop((one,))
                    if left is not None:
                        self._journal.keep(self._keeper, left)
                if left is not None:
                    kept.append(left)
            self.count -= len(before) - len(kept)
            if kept:
                self.groups[key] = kept
            else:
                del self.groups[key]


class SoleMOp(MOp):
    """An m-op of one operator."""

    def __init__(self, first: Wanted, number: int, *, ordered: bool = True) -> None:
        super().__init__(first, number)
        self._output = Channel(ordered)

    def accepts(self, wanted: Wanted) -> bool:
        return not self.operators


class Wire:
    """The connections of an m-op's input port with slots of channels, direct or through its lane.

    A stream that several operators of the m-op read is connected once.
    """

    __slots__ = ("_lane", "_ports", "_readers", "port")

    def __init__(self, port: Port, lane: Lane | None) -> None:
        self.port = port
        self._lane = lane
        self._ports: dict[Channel, Port] = {}
        self._readers: Counter[tuple[Channel, int]] = Counter()

    def connect(self, source: Operator) -> None:
        """Connect the port with a stream, for one more operator that reads it."""
        channel, place = source.channel, (source.channel, source.slot)
        self._readers[place] += 1
        if self._readers[place] > 1:
            return
        if channel not in self._ports:
            lane = self._lane
            self._ports[channel] = self.port if lane is None else lane.before(channel, self.port)
        port = self._ports[channel]
        channel.connect(port, source.slot)
        if self._lane is not None and self._lane.connected is not None:
            self._lane.connected.append((port, source.slot))

    def disconnect(self, source: Operator) -> None:
        """End the connection of one operator; after the last one drop the stream's waiting rows."""
        slot, place = source.slot, (source.channel, source.slot)
        self._readers[place] -= 1
        if self._readers[place]:
            return
        del self._readers[place]
        port = self._ports[source.channel]
        source.channel.disconnect(port, slot)
        if port is not self.port and self._lane is not None:
            self._lane.forget(self.port, slot)


class SlotWiseMOp(MOp):
    """An m-op that applies one definition to each stream of a channel.

    The slot of an operator in the output is the slot of its input.
    """

    def __init__(self, first: Wanted, number: int, *, ordered: bool) -> None:
        super().__init__(first, number)
        self._wires = [Wire(Port(self, self.receive), self.lane)]
        self._output = Channel(ordered)
        self._owners: dict[int, Operator] = {}  # by slot

    @abstractmethod
    def receive(self, row: Row, members: Members) -> None:
        """Process a row of an input; ``members`` is its membership in that input's channel."""

    def accepts(self, wanted: Wanted) -> bool:
        return wanted.inputs[0].slot not in self._owners

    def add(self, wanted: Wanted) -> Operator:
        operator = super().add(wanted)
        self._owners[operator.slot] = operator
        return operator

    def remove(self, operator: Operator) -> None:
        super().remove(operator)
        del self._owners[operator.slot]

    def _slot(self, wanted: Wanted) -> tuple[Channel, int]:
        return self._output, self._output.slot(wanted.inputs[0].slot)
