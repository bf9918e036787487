"""Collect: the rows of an operator over time as composites again, in their epoch, each once."""

from __future__ import annotations

from typing import NamedTuple, cast

from cep_core.algebra import text_of
from cep_core.plan import VALUES, Members, Row, SlotWiseMOp, Wanted, members_of, slots_of
from xscl.documents.composite_events import Composite, absent, over_time


class Collected(NamedTuple):
    """The positions of a row's parts and aggregates among its values.

    A part that a row does not have (after ELSE) has so many components, nodes and values.
    """

    parts: tuple[tuple[int, int, int, int], ...]
    aggregates: tuple[int, ...]


class Collect(SlotWiseMOp):
    """The same layout for the streams of one channel; the slots stay the same."""

    kind = "collect"

    def __init__(self, first: Wanted, number: int) -> None:
        super().__init__(first, number, ordered=True)
        self._parts, self._aggregates = cast(Collected, first.definition)
        self._epoch: int | None = None
        self._seen: dict[tuple[tuple[int, ...], ...], set[int]] = {}

    def receive(self, row: Row, members: Members) -> None:
        """Take a row in."""
        if row[1] != self._epoch:
            self._epoch = row[1]
            self._seen.clear()
        parts = [
            cast(Composite | None, row[VALUES + at]) or absent(*sizes) for at, *sizes in self._parts
        ]
        texts = tuple(text_of(row[VALUES + at]) or "" for at in self._aggregates)
        made = over_time(parts, texts, row)
        seen = self._seen.setdefault((made.docs, made.nodes), set())
        slots = [slot for slot in slots_of(members) if slot not in seen]
        if slots:
            seen.update(slots)
            self._output.emit(made.row, members_of(slots))
