"""The state log: the state of a plan as numbered entries; only changed ones are written.

An entry is a dict.  ``held`` has the operators that a query holds, ``lanes`` the time before which
each lane has closed its epochs, with how often operators were over a bound, ``kept`` a row that an
m-op keeps, ``waiting`` a row that waits for its epoch.  A snapshot is the list of entries that an
empty log would write.  The order of the entries' numbers is that in which rows came.  Entries name
operators by numbers, which the ``held`` entries define: slots and m-ops depend on the history of
registrations, the operators of the live queries do not.

States, aggregates, window joins and lanes journal what changes, so their entries cost what a batch
touches.  The rows of other m-ops are compared with those of the last comparison when their lane has
passed an epoch; of these, too, only changes are written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from cep_core.dataflow.channels import members_of
from cep_core.dataflow.clock import BEGINNING, Lane, WaitingRow
from cep_core.dataflow.journal import Journal, Note
from cep_core.dataflow.mop import MOp, Operator, OperatorNumber
from cep_core.errors import SnapshotError
from cep_core.events import Row, shown
from cep_core.operators.cayuga.active import ActiveIndex
from cep_core.operators.pattern.stacks import ActiveStacks
from cep_core.plan.pending_work import receivers
from cep_core.plan.plan import Plan
from cep_core.state.snapshot import Codec, PlainData

Entry: TypeAlias = tuple[int, bytes]
HeldReference: TypeAlias = int | str  # of a held operator its number, of a base stream its name


class HeldOperators(NamedTuple):
    """The operators that a query holds; ``holder`` is the name of the query in the log."""

    holder: str
    operators: tuple[Operator, ...]


class Lanes:
    """The object that the journal keeps for the entry `lanes`, which `StateWriter.lanes` makes.

    When the entry has to be written again the object is replaced by another one.
    """


class DumpedRow(NamedTuple):
    """A row of an m-op without a journal, and the rest of what `dump` returned for it."""

    row: Row
    rest: Sequence[Any]


class LoadedRow(NamedTuple):
    """A stored row to load: the operators that hold it, and its place in the plan.

    The place is (m-op, side if any), or (lane, port, side) of a row that waits.
    """

    place: tuple[Any, ...]
    row: Row
    references: list[HeldReference]


class StateWriter:
    """Writes parts of a plan's state as entries; ``number`` returns the number of an operator."""

    def __init__(self, plan: Plan, codec: Codec, number: OperatorNumber) -> None:
        self._plan = plan
        self._codec = codec
        self._number = number

    def entries(self, held: Mapping[str, Sequence[Operator]]) -> Iterator[PlainData]:
        """Yield all entries of the state, as an empty log would write them.

        ``held`` has the operators of the queries by holder.
        """
        for holder, operators in held.items():
            yield self.held(holder, operators)
        yield self.lanes()
        for mop in self._plan.mops:
            for row, *rest in mop.dump(self._number):
                yield self.kept(row, rest)
        for lane in self._plan.lanes.values():
            yield from filter(None, [self.waiting(lane, one) for one in lane.waiting()])

    def held(self, holder: str, operators: Iterable[Operator]) -> PlainData:
        """Return the entry of the operators that a query holds."""
        return {"held": [holder, list(map(self._number, operators))]}

    def lanes(self) -> PlainData:
        """Return the entry of the lanes and of the operators that were over a bound.

        It has (lateness, time before which all epochs are closed) of each lane, and by number of an
        operator how often it was over a bound.
        """
        left_out = {
            self._number(operator): mop.left_out[operator.slot]
            for mop in self._plan.mops
            if mop.left_out
            for operator in mop.operators
            if operator.slot in mop.left_out
        }
        lanes = [[lane.lateness, lane.closed] for lane in self._plan.lanes.values()]
        return {"lanes": lanes, "left out": left_out}

    def kept(self, row: Row, rest: Sequence[Any]) -> PlainData:
        """Return the entry of a row that an m-op keeps; `rest` is what `dump` returns beside it."""
        return {"kept": [self._codec.row(row), *rest]}

    def waiting(self, lane: Lane, waiting: WaitingRow) -> PlainData:
        """Return the entry of a row that waits for its epoch; None if its m-op awaits no rows."""
        port, row, members = waiting
        side = 0
        if isinstance(port.mop, ActiveIndex):
            right = port.mop.right
            target: PlainData = (
                right.wanted.definition if right.mop is None else self._number(right)
            )
        elif port not in port.mop.waiting_ports():
            return None
        else:
            side = port.mop.waiting_ports().index(port)
            target = list(map(self._number, receivers(port, members)))
        return {"waiting": [lane.lateness, target, self._codec.row(row), side]}


class StateReader:
    """Reads entries into a plan of the same queries; ``held`` has their operators, by holder.

    Only the state of ``fresh`` operators is loaded: the plan has that of all others.  With None
    all state is loaded.
    """

    def __init__(
        self,
        plan: Plan,
        held: Mapping[str, Sequence[Operator]],
        operators: Mapping[int, Operator] = MappingProxyType({}),
        fresh: Container[Operator] | None = None,
    ) -> None:
        self._plan = plan
        self._held = held
        self._fresh = fresh
        # Operators by their number or name in entries; None if no query of the plan holds it.
        self._operators: dict[HeldReference, Operator | None] = dict(plan.sources.items())
        self._operators.update(operators.items())
        if fresh is not None:
            self._operators = defaultdict(lambda: None, self._operators)

    def read(self, entries: Iterable[PlainData]) -> None:
        """Load entries into the plan; ``held`` entries have to come first.

        A row of several operators that are one operator here is loaded once, if read by one call.
        """
        kept: list[LoadedRow] = []
        waiting: list[LoadedRow] = []
        for entry in entries:
            match entry:
                case {"held": [holder, numbers]}:
                    self._read_held(holder, numbers)
                case {"lanes": closed}:
                    self._read_lanes(closed)
                    self._read_left_out(entry.get("left out", {}))  # 0.2 wrote none
                case {"kept": [values, numbers, *side]}:
                    kept += self._kept(values, numbers, *side)
                case {"waiting": data}:
                    waiting += self._waiting(*data)
                case _:
                    raise SnapshotError(f"there is no entry {shown(entry)}")
        for (mop, *rest), row, known in sorted(_together(kept), key=_loaded_before):
            mop.load(row, self._named(known), *rest)
        for (lane, port, side), row, known in _together(waiting):
            operators = self._named(known)
            sources = (
                operators
                if side is None
                else [operator.wanted.inputs[side] for operator in operators]
            )
            lane.queue(port, row, members_of(sorted({source.slot for source in sources})))

    def _read_held(self, holder: str, numbers: Sequence[int]) -> None:
        for number, operator in zip(numbers, self._held.get(holder, repeat(None)), strict=False):
            if self._operators.get(number) is None:
                self._operators[number] = operator

    def _read_lanes(self, closed: Iterable[tuple[int, int]]) -> None:
        for lateness, until in closed:
            if lateness in self._plan.lanes:
                self._plan.lanes[lateness].pass_to(until)

    def _read_left_out(self, times: Mapping[HeldReference, int]) -> None:
        for mop, numbers in self._by_mop(times).items():
            mop.left_out.update({o.slot: times[n] for n in numbers for o in self._named([n])})

    def _kept(
        self, values: Sequence[Any], numbers: Iterable[int], *side: int
    ) -> Iterator[LoadedRow]:
        for mop, known in self._by_mop(numbers).items():
            yield LoadedRow((mop, *side), tuple(values), known)

    def _waiting(
        self, lateness: int, target: list[int] | HeldReference, values: Sequence[Any], side: int
    ) -> Iterator[LoadedRow]:
        row = tuple(values)
        if isinstance(target, list):
            for mop, known in self._by_mop(target).items():
                lane = self._plan.lane(lateness)
                yield LoadedRow((lane, mop.waiting_ports()[side], side), row, known)
        elif (right := self._operators[target]) is not None:
            lane = self._plan.lane(lateness)
            port = self._plan.active(right, lane).wire.port
            waits = self._fresh is not None and (port, row) in [one[:2] for one in lane.waiting()]
            if not waits:
                yield LoadedRow((lane, port, None), row, [target])

    def _by_mop(self, numbers: Iterable[HeldReference]) -> dict[MOp, list[HeldReference]]:
        found: dict[MOp, list[HeldReference]] = {}
        for number in numbers:
            operator = self._operators[number]
            if operator is not None and (self._fresh is None or operator in self._fresh):
                assert operator.mop is not None
                found.setdefault(operator.mop, []).append(number)
        return found

    def _named(self, references: Iterable[HeldReference]) -> list[Operator]:
        known = map(self._operators.__getitem__, references)
        return list(dict.fromkeys(one for one in known if one is not None))


def _loaded_before(one: LoadedRow) -> int:
    """Return a sort key by which rows of stacks come last, in order of t1.

    The log has these rows stack by stack.
    """
    return int(one.row[1]) if isinstance(one.place[0], ActiveStacks) else BEGINNING


def _together(rows: list[LoadedRow]) -> list[LoadedRow]:
    """Return rows in which equal rows of one place are united, with the references of all.

    Two rows with a reference in common stay apart: one operator has kept the row twice.
    """
    if len(rows) < 2:
        return rows
    found: list[LoadedRow] = []
    places: dict[Any, list[int]] = {}
    for row in rows:
        key = (row.place, *["NaN" if value != value else value for value in row.row])
        for place in places.setdefault(key, []):
            if set(found[place].references).isdisjoint(row.references):
                found[place].references.extend(row.references)
                break
        else:
            places[key].append(len(found))
            found.append(row)
    return found


class StateLog:
    """The entries of a plan's state that have come or gone since the last `pop`."""

    def __init__(self, plan: Plan, journal: Journal, codec: Codec) -> None:
        self._plan = plan
        self._journal = journal
        self._codec = codec
        self._writer = StateWriter(plan, codec, _number)
        self._held: dict[str, HeldOperators] = {}
        self._lanes = Lanes()
        self._changes: dict[Lane, int] = {}  # the `changes` of lanes at the last `pop`
        self._compared: dict[MOp, dict[Any, DumpedRow]] = {}
        self._replanned = False  # whether the plan has changed since m-ops were compared
        self._last = 0  # the largest number of an operator

    # -- What the numbers of operators mean ------------------------------------------------

    @property
    def held(self) -> dict[str, Sequence[Operator]]:
        """The operators that each query holds; the keys are the names of queries in the log."""
        return {one.holder: one.operators for one in self._held.values()}

    def hold(self, holder: str, operators: Iterable[Operator]) -> None:
        """Number the operators that the query ``holder`` holds, so that entries can name them."""
        held = HeldOperators(holder, tuple(operators))
        if self._held.get(holder, HeldOperators(holder, ())) != held:
            self.release(holder)
        if held.operators and holder not in self._held:
            self._held[holder] = held
            self._journal.keep(self, held)
            self._number_all(held)
            self._replanned = True

    def release(self, holder: str) -> None:
        """Release the operators of a query, if it holds any: drop the entry that names them."""
        if holder in self._held:
            held = self._held.pop(holder)
            self._journal.drop((held,))
            self._replanned = True
            for operator in held.operators:
                if not operator.uses:
                    self._rewrite(operator)

    def _number_all(self, held: HeldOperators) -> None:
        for operator in held.operators:
            if not operator.number:
                self._last += 1
                operator.number = self._last
                self._rewrite(operator)

    def _rewrite(self, operator: Operator) -> None:
        """Journal the waiting rows of an operator's m-op again, if it has other operators, too.

        The entry of a waiting row names all operators behind its port: one has come or left.
        """
        mop = operator.mop
        if mop is None or all(one is operator for one in mop.operators):
            return
        if mop.lane is not None and mop.waiting_ports():
            rows = [waiting for waiting in mop.lane.waiting() if waiting[0].mop is mop]
            self._journal.drop(rows)
            for waiting in rows:
                self._journal.keep(mop.lane, waiting)

    # -- Writing ---------------------------------------------------------------------------

    def pop(self) -> tuple[list[Entry], list[int]]:
        """Return the entries for all changes since the last call, and the numbers of dropped ones.

        An entry is (number, bytes).
        """
        moved = any(map(self._has_changed, self._plan.lanes.values()))
        self._compare()
        self._changes = {lane: lane.changes for lane in self._plan.lanes.values()}
        if moved or self._journal:
            self._journal.drop((self._lanes,))
            if self._held:
                self._lanes = Lanes()
                self._journal.keep(self, self._lanes)
        fresh, gone = self._journal.pop()
        found = [(number, self._entry(kept)) for number, kept in fresh.items()]
        return [(number, self._codec.packed(one)) for number, one in found if one], gone

    def _has_changed(self, lane: Lane) -> bool:
        return lane.changes != self._changes.get(lane, 0)

    def _compare(self) -> None:
        """Journal the changes of m-ops without a journal, by comparison with their last state."""
        replanned, self._replanned = self._replanned, False
        if replanned:
            for mop in self._compared.keys() - self._plan.mops.keys():
                self._journal.drop(self._compared.pop(mop).values())
        for mop in self._plan.mops:
            if mop.journals or mop.lane is None:
                continue
            if replanned or self._has_changed(mop.lane):
                self._compared[mop] = self._compared_with(self._compared.get(mop, {}), mop)

    def _compared_with(self, before: dict[Any, DumpedRow], mop: MOp) -> dict[Any, DumpedRow]:
        """Return the rows that an m-op keeps; journal how they differ from those `before`."""
        found: dict[Any, DumpedRow] = {}
        # how often an equal row came so far: some m-ops keep a row twice
        times: Counter[Any] = Counter()
        for row, numbers, *rest in mop.dump(_number):
            same = (row, *numbers, *rest)
            times[same] += 1
            key = same, times[same]
            saved = before.pop(key, None)
            if saved is None:
                saved = DumpedRow(row, [numbers, *rest])
                self._journal.keep(self, saved)
            found[key] = saved
        self._journal.drop(before.values())
        return found

    def _entry(self, note: Note) -> PlainData:
        """Return the entry of a kept object; None: it has none."""
        keeper, thing = note
        writer = self._writer
        match thing:
            case HeldOperators():
                return writer.held(*thing)
            case Lanes():
                return writer.lanes()
            case DumpedRow():
                return writer.kept(*thing)
            case _ if isinstance(keeper, Lane):
                return writer.waiting(keeper, thing)
            case _:
                row, *rest = keeper.saved(thing, _number)
                return writer.kept(row, rest)

    # -- Reading ---------------------------------------------------------------------------

    def restore(self, entries: Iterable[Entry]) -> None:
        """Load the entries that were written for the same queries, by ascending number.

        The next `pop` writes all of them again, as operators have other numbers here.  Entries of
        holders that hold no operators are dropped.
        """
        known = [(number, self._codec.unpacked(packed)) for number, packed in entries]
        kept = [Note(self, held) for held in self._held.values()]
        self._journal.begin_anew([number for number, _ in known], kept)
        data = sorted((data for _, data in known), key=lambda one: "held" not in one)
        StateReader(self._plan, self.held).read(data)
        self._replanned = True

    def adopt(
        self,
        entries: Iterable[bytes],
        operators: Mapping[int, Operator],
        fresh: Container[Operator],
    ) -> None:
        """Load the entries of another log for those of some operators that are `fresh`.

        `operators` has operators of this plan by their numbers in the other log.
        """
        StateReader(self._plan, {}, operators, fresh).read(map(self._codec.unpacked, entries))
        self._replanned = True


def _number(operator: Operator) -> int:
    assert operator.number, "somebody holds it"
    return operator.number
