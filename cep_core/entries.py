"""Entries: a snapshot in parts, of which only those that have changed are written.

An entry is a small snapshot: an instance, a row that waits for its epoch, the lanes, or the
operators that a query holds.  All entries together say what a whole snapshot says; the order of
their numbers is that in which rows came.  Entries name operators by numbers that stay, which the
entries of the queries say; those of a snapshot are positions, which move when a query leaves.

States, aggregates, window joins and lanes tell the journal what changes, so their entries cost what
a batch touches.  The other m-ops that keep rows are compared with what they had kept, row by row,
when their lane has passed an epoch; of these, too, only what is new is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from cep_core.events import Row
from cep_core.journal import Journal, Note
from cep_core.mop import MOp, Operator
from cep_core.plan import Plan
from cep_core.runtime import Lane
from cep_core.snapshot import Codec, Data, Numbering, lanes_of, load_state, waiting_of

Entry: TypeAlias = tuple[int, bytes]


class Held(NamedTuple):
    """The operators that a query holds."""

    holder: str
    operators: tuple[Operator, ...]


class Lanes(NamedTuple):
    """How far lanes have come: (lateness, closed)."""

    closed: list[list[int]]


class Dumped(NamedTuple):
    """A row of an m-op that is compared, as it was dumped."""

    row: Row
    rest: Sequence[Any]


class Entries:
    """What of a plan's state has changed since it was asked last."""

    def __init__(self, plan: Plan, journal: Journal, codec: Codec) -> None:
        self._plan = plan
        self._journal = journal
        self._codec = codec
        self._numbering = Lasting(plan, {})
        self._held: dict[str, Held] = {}
        self._lanes = Lanes([])
        self._changes: dict[Lane, int] = {}  # of lanes, when they were asked last
        self._compared: dict[MOp, dict[Any, Dumped]] = {}
        self._replanned = False  # since m-ops were compared
        self._last = 0  # the number of an operator

    # -- What the numbers of operators mean ------------------------------------------------

    def hold(self, holder: str, operators: Iterable[Operator]) -> None:
        """Let entries speak of the operators of a query, or whoever holds them."""
        held = Held(holder, tuple(operators))
        if self._held.get(holder, Held(holder, ())) != held:
            self.release(holder)
        if held.operators and holder not in self._held:
            self._held[holder] = held
            self._journal.keep(self, held)
            self._number(held)
            self._replanned = True

    def release(self, holder: str) -> None:
        """Let the operators go of who may have held some; no entry may speak of them alone."""
        if holder in self._held:
            held = self._held.pop(holder)
            self._journal.drop((held,))
            self._replanned = True
            for operator in held.operators:
                if not operator.uses:
                    self._rewrite(operator)

    def _number(self, held: Held) -> None:
        for operator in held.operators:
            if not operator.number:
                self._last += 1
                operator.number = self._last
                self._rewrite(operator)

    def _rewrite(self, operator: Operator) -> None:
        """Have what waits for others as well written anew: the operator has come or left.

        A row that waits is written with all operators behind its port.
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

    def take(self) -> tuple[list[Entry], list[int]]:
        """Return the new entries, and the numbers of those that are gone."""
        moved = any(map(self._has_changed, self._plan.lanes.values()))
        self._compare()
        self._changes = {lane: lane.changes for lane in self._plan.lanes.values()}
        if moved or self._journal:
            self._journal.drop((self._lanes,))
            if self._held:
                self._lanes = Lanes(lanes_of(self._plan))
                self._journal.keep(self, self._lanes)
        fresh, gone = self._journal.take()
        found = [(number, self._entry(kept)) for number, kept in fresh.items()]
        return [(number, self._codec.packed(one)) for number, one in found if one], gone

    def _has_changed(self, lane: Lane) -> bool:
        return lane.changes != self._changes.get(lane, 0)

    def _compare(self) -> None:
        """Tell the journal what has changed in the m-ops that do not."""
        replanned, self._replanned = self._replanned, False
        if replanned:
            for mop in self._compared.keys() - self._plan.mops.keys():
                self._journal.drop(self._compared.pop(mop).values())
        for mop in self._plan.mops:
            if mop.journals or type(mop).dump is MOp.dump:
                continue
            if replanned or mop.lane is None or self._has_changed(mop.lane):
                self._compared[mop] = self._compared_with(self._compared.get(mop, {}), mop)

    def _compared_with(self, before: dict[Any, Dumped], mop: MOp) -> dict[Any, Dumped]:
        """Return what an m-op keeps now; rows are the same if they are equal."""
        found: dict[Any, Dumped] = {}
        times: Counter[Any] = Counter()  # some m-ops keep a row twice
        for row, numbers, *rest in mop.dump(self._numbering.number):
            same = (row, *numbers, *rest)
            times[same] += 1
            key = same, times[same]
            saved = before.pop(key, None)
            if saved is None:
                saved = Dumped(row, [numbers, *rest])
                self._journal.keep(self, saved)
            found[key] = saved
        self._journal.drop(before.values())
        return found

    def _entry(self, kept: Note) -> Data:
        """Return what is written of a thing; None: it makes no difference."""
        keeper, thing = kept
        codec, numbering = self._codec, self._numbering
        if isinstance(keeper, Lane):
            waiting = waiting_of(keeper, thing, numbering, codec)
            return None if waiting is None else {"waiting": [waiting]}
        if isinstance(thing, Held):
            return {"held": [thing.holder, [operator.number for operator in thing.operators]]}
        if isinstance(thing, Lanes):
            return {"lanes": thing.closed}
        if isinstance(thing, Dumped):
            return {"kept": [[codec.row(thing.row), *thing.rest]]}
        row, *rest = keeper.saved(thing, numbering.number)
        return {"kept": [[codec.row(row), *rest]]}

    # -- Reading ---------------------------------------------------------------------------

    def restore(self, entries: Iterable[Entry], positions: Numbering) -> None:
        """Take back what was written of the same queries, by ascending number.

        ``positions`` is how an entry speaks of operators that is a whole snapshot, as earlier
        releases wrote it; it is rewritten in parts.  An operator that no query holds, as earlier
        releases left some behind, is left out.
        """
        known = [(number, self._codec.unpacked(packed)) for number, packed in entries]
        if known:
            self._journal.begin_after(known[-1][0])
        meant = Lasting(self._plan, {})
        same = self._meant(
            [(number, *data["held"]) for number, data in known if "held" in data], meant.operators
        )
        parts: dict[str, list[Data]] = {"kept": [], "waiting": []}
        for number, data in sorted(known, key=lambda one: list(one[1]) != ["lanes"]):
            if "held" in data:
                continue
            if list(data) == ["lanes"]:
                self._lanes = Lanes(data["lanes"])
                self._journal.keep(self, self._lanes)
                self._journal.adopt(number, self._lanes)
                load_state(self._plan, meant, data)
                continue
            if len(data) > 1:
                self._journal.forget(number)
                load_state(self._plan, positions, data)
                continue
            left = meant.known(data)
            read = partial(load_state, self._plan, meant, left)
            if same and left == data:
                self._journal.reading(number, read)
            elif same:
                self._journal.forget(number)
                read()
            else:  # several operators may have become one: what all kept is looked at together
                self._journal.forget(number)
                for key, rows in left.items():
                    parts[key] += rows
        load_state(self._plan, meant, parts)
        self._replanned = True

    def _meant(
        self, stored: Sequence[tuple[int, str, list[int]]], operators: dict[int, Operator]
    ) -> bool:
        """Give operators the numbers that they had; return whether each has just one."""
        same = True
        for held in self._held.values():
            for operator in held.operators:
                operator.number = 0
        for _, holder, numbers in stored:
            held = self._held[holder]
            for operator, known in zip(held.operators, numbers, strict=True):
                same &= operator.number in (0, known)
                same &= operators.setdefault(known, operator) is operator
                operator.number = known
                self._last = max(self._last, known)
        for number, holder, _ in stored:
            if same:
                self._journal.adopt(number, self._held[holder])
            else:
                self._journal.forget(number)
        for held in self._held.values():
            self._number(held)
        return same


class Lasting(Numbering):
    """Operators by the numbers that they have as long as they are in the plan."""

    def __init__(self, plan: Plan, operators: dict[int, Operator]) -> None:
        super().__init__(plan, ())
        self.operators = operators

    def number(self, operator: Operator) -> int:
        assert operator.number, "somebody holds it"
        return operator.number

    def operator(self, reference: int | str) -> Operator:
        return (
            super().operator(reference) if isinstance(reference, str) else self.operators[reference]
        )

    def known(self, data: Data) -> Data:
        """Return rows as they were written, without the operators that nobody holds."""
        found = {
            key: [[one, self._known(whose), *rest] for one, whose, *rest in rows]
            for key, rows in data.items()
        }
        return {key: [one for one in rows if one[1]] for key, rows in found.items()}

    def _known(self, whose: Data) -> Data:
        if isinstance(whose, list):
            return [number for number in whose if number in self.operators]
        return whose if isinstance(whose, str) or whose in self.operators else None
