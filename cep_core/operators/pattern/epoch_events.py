"""The events of an epoch, each with its row at every input of a pattern that reads it."""

from __future__ import annotations

from typing import TypeAlias

from cep_core.events import Row
from cep_core.operators.pattern.policies import RunPlace, place_of

# An event: for each input that reads it, its row and the mask of the queries that select it.
Happened: TypeAlias = dict[int, tuple[Row, int]]


def selecting(event: Happened, inputs: frozenset[int] | None) -> int:
    """Return the mask of the queries that select an event at some inputs, or at any (None)."""
    found = 0
    for input, (_, queries) in event.items():
        if inputs is None or input in inputs:
            found |= queries
    return found


def events_of(rows: list[tuple[int, Row, int]]) -> list[Happened]:
    """Return the events of an epoch in order, given (input, row, mask of queries) of its rows."""
    if len(rows) == 1:
        return [{input: (row, mask) for input, row, mask in rows}]
    events: dict[tuple[RunPlace, int], Happened] = {}
    times: dict[tuple[RunPlace, int], int] = {}
    for input, row, mask in rows:
        place = place_of(row)
        again = times.get((place, input), 0)
        times[place, input] = again + 1
        events.setdefault((place, again), {})[input] = (row, mask)
    return [events[key] for key in sorted(events)]
