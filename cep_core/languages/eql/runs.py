"""The layout of a run of EQL, its first row and its steps.

A run keeps what is read of its last event, the tuples that ALL reads, and of aliases that are
iterated among others the tuples of their times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cep_core.algebra.expressions import Arithmetic, Column, Expression, Items, Latest
from cep_core.languages.eql.parts import (
    OWN_BEGIN,
    OWN_END,
    LoweredPart,
    Piece,
    Place,
    Resolved,
    all_stored,
    joined,
    now,
    older,
    read_before,
)
from cep_core.languages.eql.unions import history_label, item_of, items_of, label_of
from cep_core.rewrite.pattern import Ref


def layout_of_run(reads: Iterable[Ref], part: LoweredPart) -> list[Ref]:
    """Return the references that a run has to hold in columns, in canonical order."""
    run = replace(part, iterated=part.aliases, mixed=part.optional)
    held = [ref for ref in all_stored(reads, run) if ref.kind != "items"]
    return sorted([ref for ref in held if own_time(ref, part) is None], key=lambda ref: ref[:3])


def own_time(ref: Ref, part: LoweredPart) -> Expression | None:
    """Return the time of a run that needs no column: its own begin or end."""
    own = {"begin": OWN_BEGIN, "end": OWN_END}.get(ref.kind)
    if ref.alias in part.optional:
        return None
    return own if own is not None and part.values[ref] == own else None


def run_of(part: LoweredPart, layout: list[Ref], history: bool) -> LoweredPart:
    """Return where values stand in a run.

    Times of an alias that is iterated among others are tuples whose last item is what counts.
    """
    values: dict[Ref, Expression] = {}
    for place, ref in enumerate(layout):
        collected = is_collected(ref, part) and ref.kind != "all"
        values[ref] = Latest(Column(2, place), int) if collected else Column(2, place)
    for ref in part.values:
        own = own_time(ref, part)
        if own is not None:
            values[ref] = own
    labels = [f"{label_of(ref)}{place}" for place, ref in enumerate(layout)]
    pieces = (Piece(Column(2, len(layout)), True),) if history else ()
    if history:
        labels.append(history_label(part.aliases))
    return LoweredPart(
        *(part.node, values, pieces, tuple(labels), part.aliases),
        iterated=part.aliases,
        optional=part.optional,
        mixed=part.optional,
    )


def is_collected(ref: Ref, part: LoweredPart) -> bool:
    """Return True if a run holds a tuple of its events' values."""
    return ref.kind == "all" or (ref.kind in ("begin", "end") and ref.alias in part.optional)


def _items(ref: Ref, part: LoweredPart) -> Expression:
    """Return the tuple of what one event adds to a run."""
    items = items_of(ref)
    return (
        part.values[items] if ref.alias in part.optional else Items((part.values[item_of(items)],))
    )


def beginning(part: LoweredPart, layout: list[Ref], history: bool) -> list[Expression]:
    """Return the columns of a run of one event, over the event."""
    found = [_items(ref, part) if is_collected(ref, part) else part.values[ref] for ref in layout]
    return [*found, *([joined(part.history)] if history else [])]


def following(part: LoweredPart, layout: list[Ref], history: bool) -> list[Expression]:
    """Return the columns of a run with one event more: the run is side 1, the event side 2."""
    found: list[Expression] = []
    for place, ref in enumerate(layout):
        before = Column(1, place)
        match ref.kind:
            case "begin" if is_collected(ref, part):
                found.append(Arithmetic("+", _items(ref, part), before))
            case "all" | "end" if is_collected(ref, part):
                found.append(Arithmetic("+", before, _items(ref, part)))
            case "begin":
                found.append(before)
            case _:
                found.append(part.values[ref])
    if history:
        found.append(Arithmetic("+", joined(part.history), Column(1, len(layout))))
    return found


def at_first(part: LoweredPart) -> Place:
    """Resolve references at the first event of a run, which has no predecessor."""
    return lambda ref: None if ref.kind in ("prev", "all") else now(part)(ref)


def at_step(run: LoweredPart, part: LoweredPart) -> Place:
    """Resolve references where a run meets its next event."""

    def place(ref: Ref) -> Resolved | None:
        if ref.kind in ("begin", "end") and ref.alias in part.optional:
            own = run.values[ref]
            assert isinstance(own, Latest)
            past, added = older(own.operand), part.values[items_of(ref)]
            both = (added, past) if ref.kind == "begin" else (past, added)
            return Resolved(Latest(Arithmetic("+", *both), int))
        if ref.kind in ("prev", "all", "begin"):
            return read_before(ref, run, lambda one: older(run.values[one]))
        return now(part)(ref)

    return place
