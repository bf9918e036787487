"""Tasks of a scan: the sequences of one definition, and for which streams one is put out.

Streams of a task differ in their windows and in the selections that they read (`scan`).  A sequence
belongs to those in whose window it lies and that want each of its rows: the *mark* of a row says
which slots of the selections' channel it belongs to.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from cep_core.dataflow.channels import Channel, Members, members_of, slots_of
from cep_core.events import Row
from cep_core.operators.sase.construction import Construction

Marks: TypeAlias = tuple[Members, ...]  # of the rows of a sequence that have one, by component
_MOST_KNOWN = 1_000  # audiences that a task remembers


class TaskOutput(NamedTuple):
    """A stream of a task: its output slot, its window, its slots of the marked inputs."""

    slot: int
    window: int
    reads: tuple[int, ...]


class Audience:
    """Streams by window: a sequence is put out for those whose window holds it."""

    __slots__ = ("_members", "_windows", "everyone")

    def __init__(self, readers: Iterable[TaskOutput]) -> None:
        by_window: dict[int, list[int]] = {}
        for one in readers:
            by_window.setdefault(one.window, []).append(one.slot)
        self._windows = sorted(by_window)
        held: list[int] = []
        self._members: list[Members] = []  # of the streams with at least the window there
        for window in reversed(self._windows):
            held = sorted([*held, *by_window[window]])
            self._members.append(members_of(held))
        self._members.reverse()
        self.everyone: Members | None = self._members[0] if self._members else None

    def within(self, duration: int) -> Members | None:
        """Return the streams whose window holds a duration, None if there is none."""
        place = bisect_right(self._windows, duration)
        return self._members[place] if place < len(self._members) else None


class Task:
    """The sequences of one definition: functions, constants, and the streams that have them."""

    def __init__(
        self,
        constants: tuple[Any, ...],
        built: Construction,
        marked: tuple[int, ...] = (),
    ) -> None:
        """``marked`` are the components whose rows end with their mark."""
        self.constants = constants
        self.built = built
        self.window = -1  # the largest
        self.uniform = True  # whether all streams have the same window
        self._marked = marked
        self._readers: dict[int, TaskOutput] = {}  # by output slot
        self._by_first: dict[int, dict[int, None]] = {}  # output slots by slot of the first mark
        self._windows: Counter[int] = Counter()
        self._audiences: dict[Marks, Audience] = {}

    def add(self, reader: TaskOutput) -> None:
        """Subscribe an output stream to the sequences."""
        self._readers[reader.slot] = reader
        self._windows[reader.window] += 1
        for first in reader.reads[:1]:
            self._by_first.setdefault(first, {})[reader.slot] = None
        self._update_window()

    def remove(self, slot: int) -> bool:
        """Unsubscribe an output stream; return True if others are left."""
        reader = self._readers.pop(slot)
        self._windows[reader.window] -= 1
        if not self._windows[reader.window]:
            del self._windows[reader.window]
        for first in reader.reads[:1]:
            del self._by_first[first][slot]
            if not self._by_first[first]:
                del self._by_first[first]
        self._update_window()
        return bool(self._readers)

    def emit(self, found: list[Any], output: Channel, made: bool, marks: Marks | None) -> None:
        """Emit sequences for the output streams that they belong to.

        ``made`` says that they are rows, ``marks`` are those of all of them if they are known.
        """
        rows = found if made else self.built.make(found)
        if marks is not None and self.uniform:
            everyone = self._audience(marks).everyone
            if everyone is not None:
                output.emit_all(rows, everyone)
            return
        chosen: dict[Members, list[Row]] = {}
        for one, row in zip(found, rows, strict=True):
            those = marks if marks is not None else tuple([one[c][-1] for c in self._marked])
            members = self._audience(those).within(one[-1][1] - one[0][1])
            if members is not None:
                chosen.setdefault(members, []).append(row)
        for members, together in chosen.items():
            output.emit_all(together, members)

    def _audience(self, marks: Marks) -> Audience:
        """Return the streams that want rows with some marks."""
        known = self._audiences.get(marks)
        if known is None:
            if len(self._audiences) >= _MOST_KNOWN:
                self._audiences.clear()
            known = self._audiences[marks] = Audience(self._wanting(marks))
        return known

    def _wanting(self, marks: Marks) -> Iterable[TaskOutput]:
        if not marks:
            return self._readers.values()
        first, *others = marks
        wanted = [set(slots_of(one)) for one in others]
        some = [
            self._readers[out] for slot in slots_of(first) for out in self._by_first.get(slot, ())
        ]
        return [
            one
            for one in some
            if all(slot in slots for slot, slots in zip(one.reads[1:], wanted, strict=True))
        ]

    def _update_window(self) -> None:
        self.window = max(self._windows, default=-1)
        self.uniform = len(self._windows) < 2
        self._audiences.clear()
