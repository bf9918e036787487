"""What all ways to compute a sequence have in common: inputs, tasks, and what is put out.

A scan is one m-op for all sequences over the same inputs with the same components and equivalence
tests: they keep the same rows, for the largest of their windows.  Those that differ in their other
conditions are *tasks*, searched one by one when a sequence may be complete; those that differ in
their windows only are one task, and a sequence is put out for those whose window holds it.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator
from typing import Any, cast

from cep_core.channels import Channel, Members, Port, members_of
from cep_core.code import ATOM_ERRORS
from cep_core.events import VALUES, Row
from cep_core.mop import MOp, Number, Operator, Wanted, Wire
from cep_core.mop import State as Saved
from cep_core.operators.construction import Construction, Found
from cep_core.operators.pattern import Pattern, Scan
from cep_core.predicates import values_of
from cep_core.runtime import END

KeyOf = Callable[[Row], Any]


class Task:
    """The sequences of one definition: functions, constants, and slots by window."""

    def __init__(self, constants: tuple[Any, ...], built: Construction, plain: bool) -> None:
        self.constants = constants
        self.built = built
        self.plain = plain  # what the search finds is what holds, in the window
        self.window = -1  # the largest
        self.sole: Members | None = None  # of all streams, if they have the same window
        self._slots: dict[int, list[int]] = {}
        self._windows: list[int] = []
        self._members: list[Members] = []  # of the streams with at least the window there

    def add(self, window: int, slot: int) -> None:
        """Let a stream have the sequences within a window."""
        self._slots.setdefault(window, []).append(slot)
        self._settle()

    def remove(self, window: int, slot: int) -> bool:
        """Let a stream have them no more; return whether there are others."""
        self._slots[window].remove(slot)
        if not self._slots[window]:
            del self._slots[window]
        self._settle()
        return bool(self._slots)

    def emit(self, found: list[Any], output: Channel, made: bool) -> None:
        """Put sequences out for the streams whose window holds them; ``made``: they are rows."""
        rows = found if made else self.built.make(found)
        if self.sole is not None:
            output.emit_all(rows, self.sole)
            return
        for one, row in zip(found, rows, strict=True):
            place = bisect_right(self._windows, one[-1][1] - one[0][1])
            output.emit(row, self._members[place])

    def _settle(self) -> None:
        self._windows = sorted(self._slots)
        self.window = self._windows[-1] if self._windows else -1
        held: list[int] = []
        self._members = []
        for window in reversed(self._windows):
            held = sorted([*held, *self._slots[window]])
            self._members.insert(0, members_of(held))
        self.sole = self._members[0] if len(self._members) == 1 else None


class SequenceScan(MOp):
    """Sequences over the same inputs; subclasses say how rows are kept and sequences found."""

    kind = "sequence_scan"

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        assert first.lane is not None
        self.lane = self._lane = first.lane
        self.pattern: Pattern = cast(Scan, first.definition).pattern
        self._since = first.since
        self._last = len(self.pattern.components) - 1
        self._output = Channel(self, True)
        self._wires: list[Wire] = []
        self._tasks: dict[Scan, Task] = {}
        self._window = -1  # the largest; END if there is none
        self._armed = False  # whether old rows will be looked for
        self.constructed = 0  # sequences that the search has found
        self.selected = 0  # those of them that hold, within their window

    # -- what subclasses say ---------------------------------------------------------------

    @abstractmethod
    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return what takes the rows of an input."""

    @abstractmethod
    def build(self, pattern: Pattern) -> tuple[Construction, bool]:
        """Return the functions of a pattern, and whether its search tests all."""

    @abstractmethod
    def evict(self, watermark: int) -> None:
        """Drop rows that are part of no sequence with a row from the watermark on."""

    @abstractmethod
    def kept(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows that are kept, with their component: lower ones first, by time."""

    @abstractmethod
    def take_back(self, component: int, row: Row) -> None:
        """Keep a row of a snapshot."""

    # -- the plan --------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> Operator:
        definition = cast(Scan, wanted.definition)
        if definition not in self._tasks:
            self._tasks[definition] = Task(definition.constants, *self.build(definition.pattern))
        operator = Operator(wanted, self._output, self._output.slot(), self)
        if not self._wires:
            self._wires = [
                Wire(Port(self, self.receiver(i)), self._lane) for i in range(len(wanted.inputs))
            ]
            for wire, source in zip(self._wires, wanted.inputs, strict=True):
                wire.connect(source)
        self.operators[operator] = None
        self._tasks[definition].add(_window_of(wanted), operator.slot)
        self._settle()
        return operator

    def remove(self, operator: Operator) -> None:
        wanted = operator.wanted
        definition = cast(Scan, wanted.definition)
        del self.operators[operator]
        self._output.release(operator.slot)
        if not self._tasks[definition].remove(_window_of(wanted), operator.slot):
            del self._tasks[definition]
        self._settle()
        if not self.operators:
            for wire, source in zip(self._wires, wanted.inputs, strict=True):
                wire.disconnect(source)
            self._lane.drop(self)

    def channels(self) -> Iterator[Channel]:
        yield self._output

    def waiting_ports(self) -> tuple[Port, ...]:
        return tuple([wire.port for wire in self._wires])

    def instances(self) -> int:
        return sum(1 for _ in self.kept())

    def dump(self, number: Number) -> Saved:
        owners = [number(operator) for operator in self.operators]
        return [[row, owners, component] for component, row in self.kept()]

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        self.take_back(side, row)

    def indexes(self) -> str:
        """Return how sequences are found, in words."""
        return ""

    # -- sequences -------------------------------------------------------------------------

    def finish(self, now: int) -> None:
        """Do what is to be done at the end of an epoch."""

    def _complete(self, row: Row, before: int, stacks: Any) -> None:
        """Find the sequences that a row completes, and put them out."""
        for task in self._tasks.values():
            oldest, built = row[1] - task.window, task.built
            direct = task.plain and task.sole is not None
            try:
                search = built.rows if direct else built.search
                found = search(row, before, stacks, task.constants, oldest)
                self.constructed += len(found)
                if found and not task.plain:
                    found = built.select(found, task.constants, oldest)
            except ATOM_ERRORS:
                found, direct = self._carefully(task, row, before, stacks, oldest), False
            if found:
                self.selected += len(found)
                task.emit(found, self._output, direct)

    def _carefully(
        self, task: Task, row: Row, before: int, stacks: Any, oldest: int
    ) -> list[Found]:
        """Return the sequences that a row completes; conditions that fail are false."""
        every = task.built.every(row, before, stacks, task.constants, oldest)
        self.constructed += len(every)
        holds = task.built.holds
        return [m for m in every if m[0][1] > oldest and holds(m, task.constants)]

    def _settle(self) -> None:
        self._window = max((task.window for task in self._tasks.values()), default=-1)

    def _arm(self, now: int) -> None:
        """Look for old rows when they may be half of all, if there is a window."""
        if not self._armed and self._window < END:
            self._armed = True
            self._lane.evict_at(now + max(1, self._window // 2), self)


def key_function(columns: tuple[int, ...]) -> Callable[[Row], Any]:
    """Return a function from a row to its partition; None: nulls and NaN belong to none."""
    value_of, place = values_of(columns), columns[0] + VALUES

    def key(row: Row) -> Any:
        found = value_of(row)
        for value in found:
            if value is None or value != value:
                return None
        return found

    def single(row: Row) -> Any:
        value = row[place]
        return value if value == value else None

    return key if len(columns) > 1 else single


def sharing_key(wanted: Wanted) -> Hashable | None:
    """Return what sequences have in common that one scan computes; None: nothing to share."""
    pattern = cast(Scan, wanted.definition).pattern
    if pattern.repeated or pattern.strategy != "any":
        return None
    return (pattern.skeleton, wanted.inputs, wanted.lane, wanted.since)


def _window_of(wanted: Wanted) -> int:
    return END if wanted.window is None else wanted.window
