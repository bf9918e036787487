"""The temporal conditions between two sides of an operator: order, window, arrival.

A side is the composite of a part of the query: an interval [start, ts] of event time, and the place
of its newest document in the order of arrival.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from templates.model.join_graph import TemporalRelation
from xscl.documents.document_ids import StoredDocument
from xscl.inspection.why.choices import Conjunct
from xscl.inspection.why.question import Edge
from xscl.store.queries.tables import EARLIEST
from xscl.time_format import UNITS


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an operator: its interval, M(n) and the rank of its newest document.

    `lateness` is the largest of its streams, `conjuncts` are those of all predicates in it.
    """

    name: str
    start: int
    ts: int
    clock: int
    rank: int
    lateness: int
    documents: tuple[StoredDocument, ...]
    conjuncts: tuple[Conjunct, ...] = ()


def together(left: Side, right: Side, conjuncts: tuple[Conjunct, ...] = ()) -> Side:
    """Return two sides as one, with the conjuncts of the predicate between them."""
    newest = max(left, right, key=lambda side: side.rank)
    return Side(
        f"{left.name} + {right.name}",
        min(left.start, right.start),
        max(left.ts, right.ts),
        newest.clock,
        newest.rank,
        max(left.lateness, right.lateness),
        (*left.documents, *right.documents),
        (*left.conjuncts, *right.conjuncts, *conjuncts),
    )


def settled(side: Side, ts: int) -> Side:
    """Return the side of a temporal operator: it is in time for everything in its window."""
    return replace(side, ts=ts, clock=EARLIEST, rank=0)


def repeated(left: Side, right: Side) -> Iterator[Edge]:
    """Yield an edge if a document, or versions of one, occurs on both sides."""
    for one in left.documents:
        for other in right.documents:
            if one.base == other.base:
                text = f"{left.name} and {right.name} are different documents"
                both = "the same" if one.doc == other.doc else "versions of the same"
                yield Edge("order", text, False, f"{one.id} and {other.id} are {both}")


def in_relation(relation: TemporalRelation, left: Side, right: Side) -> Iterator[Edge]:
    """Yield the edges of the bounds that a relation has for two sides."""
    lead, gap = right.start - left.ts, abs(right.ts - left.ts)
    if relation.operator.follows:
        near = f"by {duration(lead)}" if lead > 0 else f"it is {duration(-lead)} later"
        near = near if lead else "both are at the same time"
        yield Edge("order", f"{left.name} is before {right.name}", lead >= relation.lower, near)
    if relation.window is not None:
        near = f"they are {duration(gap)} apart" if gap else "they are at the same time"
        if gap > relation.upper:
            near = f"{near}, {duration(gap - relation.upper)} too much"
        text = f"{left.name} and {right.name} are at most {duration(relation.upper)} apart"
        yield Edge("time", text, gap <= relation.upper, near)


def dropped(relation: TemporalRelation, left: Side, right: Side) -> Iterator[Edge]:
    """Yield an edge if the earlier arrival was evicted before the newcomer arrived."""
    keep = relation.keep(max(left.lateness, right.lateness))
    pairs = [(left, right)] if left.rank < right.rank else [(right, left)]
    if left.rank == right.rank:
        pairs.append((left, right))
    for old, new in pairs:
        over = new.clock - old.ts - keep
        if over > 0:
            text = f"{old.name} was still kept when {new.name} came"
            near = f"{new.name} came {duration(over)} too late: with this window and lateness"
            near = f"{near} it is kept for {duration(keep)}"
            if all(one.history for one in new.documents):
                near += "; 'try' takes what a feed held already as if it had come in its own time"
            yield Edge("time", text, False, near)
            return


def belated(lateness: int, *sides: Side) -> Iterator[Edge]:
    """Yield an edge for each side that was too late for a temporal operator."""
    for side in sides:
        behind = side.clock - lateness - side.ts
        if behind > 0:
            text = f"{side.name} came in time for an operator over time"
            near = f"it came {duration(behind)} too late, with a lateness of {duration(lateness)}"
            yield Edge("time", text, False, near)


def duration(ticks: int) -> str:
    """Return a duration in its two largest units, up to days: `30 d`, `1 d 5 h`; `0 s`."""
    if ticks == 0:
        return "0 s"
    parts: list[str] = []
    for unit, length in sorted(UNITS.items(), key=lambda item: -item[1]):
        if unit != "w" and ticks >= length and len(parts) < 2:
            parts.append(f"{ticks // length} {unit}")
            ticks %= length
    return " ".join(parts) or f"{ticks} tick{'' if ticks == 1 else 's'}"
