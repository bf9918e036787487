"""The sequence scan: inputs, tasks and output, independent of how rows are kept.

A scan is one m-op for all sequences of the same components and equivalence tests over the same
inputs: they keep the same rows, for the largest of their windows (s_SSC).  Sequences with other
conditions are *tasks* of their own, searched one by one when a sequence may be complete.  Sequences
that differ only in their windows are one task; a result is emitted for those whose window holds it
(`tasks`).

Sequences that differ in what they select share a scan as well (c_SEQ, the channels of Hong 2009,
section 5.3): it reads all selections of such an input as one channel.  A row is kept once, with the
*mark* of who wants it at its end: the slots of the channel that it belongs to.  `shared_inputs`
says which inputs are read so.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import Any, cast

from cep_core.dataflow.channels import Channel, Members, Port, members_of, slots_of
from cep_core.dataflow.clock import END
from cep_core.dataflow.code import ATOM_ERRORS
from cep_core.dataflow.mop import Number, Operator, OrderedMOp, Saved, Wanted, Wire
from cep_core.dataflow.predicates import BoundPredicate, values_of
from cep_core.events import VALUES, Row
from cep_core.operators.sase.construction import Construction, RowSequence
from cep_core.operators.sase.pattern import Pattern, Scan
from cep_core.operators.sase.tasks import Marks, Task, TaskOutput

KeyOf = Callable[[Row], Any]


class SequenceScanMOp(OrderedMOp):
    """Sequences over the same inputs; subclasses say how rows are kept and sequences found."""

    kind = "sequence_scan"

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number)
        self.pattern: Pattern = cast(Scan, first.definition).pattern
        self._last = len(self.pattern.components) - 1
        self._output = Channel(True)
        self._wires: list[Wire] = []
        self._shared = shared_inputs(first)
        components = [component.input for component in self.pattern.components]
        self._marked = {c: i for c, i in enumerate(components) if i in self._shared}
        self._listening: list[dict[int, dict[Operator, None]]] = [{} for _ in first.inputs]
        self._tasks: dict[Scan, Task] = {}
        self._differ = False  # whether there are streams of different selections
        self._left = 0  # streams that have gone since the rows were looked through
        self._window = -1  # the largest; END if there is none

    # -- what subclasses say ---------------------------------------------------------------

    @abstractmethod
    def receiver(self, input: int) -> Callable[[Row, Members], None]:
        """Return the receiver of an input's rows."""

    @abstractmethod
    def build(self, pattern: Pattern) -> Construction:
        """Return the functions of a pattern."""

    @abstractmethod
    def kept(self) -> Iterator[tuple[int, Row]]:
        """Yield the rows that are kept, with their component: lower ones first, by time."""

    @abstractmethod
    def clear(self) -> None:
        """Keep no row any more."""

    @abstractmethod
    def load_row(self, component: int, row: Row) -> None:
        """Keep a row of a snapshot."""

    # -- the plan --------------------------------------------------------------------------

    def add(self, wanted: Wanted) -> Operator:
        definition = cast(Scan, wanted.definition)
        task = self._tasks.get(definition)
        if task is None:
            built = self.build(definition.pattern)
            task = Task(definition.constants, built, tuple(self._marked))
            self._tasks[definition] = task
        operator = Operator(wanted, self._output, self._output.slot(), self)
        if not self._wires:
            self._wires = [
                Wire(Port(self, self._taking(i)), self._lane) for i in range(len(wanted.inputs))
            ]
        for wire, source, known in zip(self._wires, wanted.inputs, self._listening, strict=True):
            if source.slot not in known:
                known[source.slot] = {}
                wire.connect(source)
            known[source.slot][operator] = None
        self.operators[operator] = None
        reads = tuple([wanted.inputs[input].slot for input in self._marked.values()])
        task.add(TaskOutput(operator.slot, _window_of(wanted), reads))
        self._update_window()
        return operator

    def remove(self, operator: Operator) -> None:
        wanted, differed = operator.wanted, self._differ
        definition = cast(Scan, wanted.definition)
        del self.operators[operator]
        self._output.release(operator.slot)
        if not self._tasks[definition].remove(operator.slot):
            del self._tasks[definition]
        for wire, source, known in zip(self._wires, wanted.inputs, self._listening, strict=True):
            del known[source.slot][operator]
            if not known[source.slot]:
                del known[source.slot]
                wire.disconnect(source)
        self._update_window()
        if not self.operators:
            self._lane.drop(self)
        elif differed:
            self._forget()

    def instances(self) -> int:
        return sum(1 for _ in self.kept())

    def dump(self, number: Number) -> Saved:
        everyone = [number(operator) for operator in self.operators]
        saved: Saved = []
        for component, row in self.kept():
            if component not in self._marked:
                saved.append([row, everyone, component])
                continue
            wanting = self._wanting(component, row[-1])
            saved.append([row[:-1], [number(one) for one in wanting], component])
        return saved

    def load(self, row: Row, operators: list[Operator], side: int = 0) -> None:
        if side in self._marked:
            input = self._marked[side]
            mark = members_of(sorted({one.wanted.inputs[input].slot for one in operators}))
            row = (*row, mark)
        self.load_row(side, row)

    @abstractmethod
    def way(self) -> str:
        """Describe how sequences are found."""

    def indexes(self) -> str:
        """Describe how sequences are found, and what they share."""
        said = self.way()
        for component, input in self._marked.items():
            selections = len(self._listening[input])
            if selections > 1:
                said += f"; one scan for {selections} selections of component {component + 1}"
        return said

    # -- sequences -------------------------------------------------------------------------

    def _complete(self, row: Row, before: int, stacks: Any) -> None:
        """Find the sequences that a row completes, and emit them."""
        marks: Marks | None = None
        tasks: Iterable[Task] = self._tasks.values()
        if not self._differ:
            marks = ()
        elif self._last in self._marked:
            if len(self._marked) == 1:
                marks = (row[-1],)
            if len(self._tasks) > 1:
                wanting = self._wanting(self._last, row[-1])
                those = dict.fromkeys([cast(Scan, one.wanted.definition) for one in wanting])
                tasks = [self._tasks[one] for one in those]
        for task in tasks:
            oldest, built = row[1] - task.window, task.built
            direct = task.uniform and marks is not None
            try:
                search = built.rows if direct else built.search
                found = search(row, before, stacks, task.constants, oldest)
            except ATOM_ERRORS:
                found, direct = self._carefully(task, row, before, stacks, oldest), False
            if found:
                task.emit(found, self._output, direct, marks)

    def _carefully(
        self, task: Task, row: Row, before: int, stacks: Any, oldest: int
    ) -> list[RowSequence]:
        """Return the sequences that a row completes; conditions that fail are false."""
        every = task.built.every(row, before, stacks, task.constants, oldest)
        holds = task.built.holds
        return [m for m in every if m[0][1] > oldest and holds(m, task.constants)]

    # -- marks -----------------------------------------------------------------------------

    def _taking(self, input: int) -> Callable[[Row, Members], None]:
        """Return the receiver of an input's rows, which adds marks if the input is shared."""
        receive = self.receiver(input)
        if input not in self._shared:
            return receive

        def marked(row: Row, members: Members) -> None:
            receive((*row, members), members)

        return marked

    def _wanting(self, component: int, mark: Members) -> Collection[Operator]:
        """Return the streams that want a row with a mark as a component."""
        known = self._listening[self._marked[component]]
        return dict.fromkeys([one for slot in slots_of(mark) for one in known.get(slot, ())])

    def _forget(self) -> None:
        """Drop rows that no stream wants, when as many streams have gone as there are.

        At once if there is one selection left: then marks are looked at no more.
        """
        self._left += 1
        if self._differ and self._left < len(self.operators):
            return
        self._left = 0
        kept = list(self.kept())
        self.clear()
        for component, row in kept:
            if component not in self._marked or self._wanting(component, row[-1]):
                self.load_row(component, row)

    def _update_window(self) -> None:
        self._differ = any(len(self._listening[input]) > 1 for input in self._shared)
        self._window = max((task.window for task in self._tasks.values()), default=-1)


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


def sharing_key(wanted: Wanted) -> Hashable:
    """Return the key of sequences that one scan computes."""
    pattern = cast(Scan, wanted.definition).pattern
    shared = shared_inputs(wanted)
    inputs = [one.channel if i in shared else one for i, one in enumerate(wanted.inputs)]
    return (pattern.skeleton, tuple(inputs), wanted.lane, wanted.since)


def shared_inputs(wanted: Wanted) -> tuple[int, ...]:
    """Return the inputs of which a scan reads all selections, whichever its sequences ask for.

    Those are inputs of one component that are selected, but not *narrowly*, by a value or between
    two: such a row goes to few queries, and the rows of others would be searched in vain.  If
    nothing else is selected, a narrow input is shared where no search is in vain.  That is the
    case for the last component, and for others unless constants make many tasks.
    """
    definition = cast(Scan, wanted.definition)
    fed = [component.input for component in definition.pattern.components]
    selected = [
        i
        for i, source in enumerate(wanted.inputs)
        if source.wanted.kind == "select" and fed.count(i) == 1
    ]
    broad = tuple([i for i in selected if not is_narrow(wanted.inputs[i])])
    if broad or len(selected) != 1:
        return broad
    return tuple(selected) if selected == fed[-1:] or not definition.constants else ()


def is_narrow(selection: Operator) -> bool:
    """Return True if a selection fixes a value, or bounds one from both sides."""
    shape = cast(BoundPredicate, selection.wanted.definition).shape
    for disjunct in shape.disjuncts:
        above = {one.column for one in disjunct.ranges if one.operator[0] == ">"}
        below = {one.column for one in disjunct.ranges if one.operator[0] == "<"}
        if not disjunct.equalities and not above & below:
            return False
    return True


def _window_of(wanted: Wanted) -> int:
    return END if wanted.window is None else wanted.window
