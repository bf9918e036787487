"""The predicate index: which of many predicates hold for a row, without trying them all.

A disjunct with static equalities (see `predicates`) lies in a hash table over all their columns;
one with static inequalities only, in a sorted list of one of its constants; any other is tried.
Literals that the index does not answer are tested by one compiled scan of all entries of a layout.
Nulls and NaN enter no index.  Sources: Hong 2009, sections 4.5.3 and 4.5.4 (AN- and FR-index),
5.2.4 (s_σ).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from cep_core.dataflow.predicates import (
    BoundPredicate,
    ConstantRange,
    EntryLayout,
    is_proper,
    values_of,
)
from cep_core.events import TYPES, VALUES, Row

Target = TypeVar("Target")
_Bucket: TypeAlias = dict[EntryLayout, list[tuple[Any, ...]]]


class EntryPlace(NamedTuple):
    """The position of an entry in the index.

    It is in the hash table of ``columns`` under ``key``, or in the sorted list of a ``range``.
    """

    part: EntryLayout
    entry: tuple[Any, ...]
    columns: tuple[int, ...] = ()
    key: Any = ()
    range: ConstantRange | None = None


class _Sorted(NamedTuple):
    """Index entries of one layout, sorted by the constant of an inequality that all of them have.

    ``values[i]`` is that constant of ``entries[i]``.
    """

    values: list[Any]
    entries: list[tuple[Any, ...]]


class PredicateIndex(Generic[Target]):
    """An index of targets by predicate; `find` returns each target whose predicate holds, once."""

    __slots__ = ("_ranges", "_several", "_tables", "definitions")

    def __init__(self) -> None:
        self.definitions: dict[Target, BoundPredicate] = {}
        # by columns: the function from a row to its key in them, and the entries by key;
        # () has the entries without columns
        self._tables: dict[tuple[int, ...], tuple[Callable[[Row], Any], dict[Any, _Bucket]]] = {}
        self._ranges: dict[tuple[int, str, EntryLayout], _Sorted] = {}
        # number of predicates with several disjuncts, each of which may find the target
        self._several = 0

    def __len__(self) -> int:
        return len(self.definitions)

    def add(self, definition: BoundPredicate, target: Target) -> None:
        """Add a target under its predicate; if it raises, the index is unchanged.

        It takes amortised constant time, apart from an insertion into a sorted list.
        """
        for place in places_of(definition, target):
            self._enter(place)
        self.definitions[target] = definition
        self._several += len(definition.shape.disjuncts) > 1

    def remove(self, target: Target) -> None:
        """Remove a target."""
        definition = self.definitions.pop(target)
        self._several -= len(definition.shape.disjuncts) > 1
        for place in places_of(definition, target):
            self._drop(place)

    def find(self, a: Row | None, b: Row) -> list[Target]:
        """Return the targets whose predicate holds for the rows of sides 1 and 2, in no order."""
        found: list[Target] = []
        for value_of, table in self._tables.values():
            if (key := value_of(b)) in table:
                for part, entries in table[key].items():
                    found += part.scan(entries, a, b)
        for (column, operator, part), held in self._ranges.items():
            value = b[column + VALUES]
            if value is not None and value == value:
                found += part.scan(_satisfied(held, operator, value), a, b)
        return list(dict.fromkeys(found)) if self._several else found

    def _enter(self, place: EntryPlace) -> None:
        if place.range is not None:
            name = (place.range.column, place.range.operator, place.part)
            held = self._ranges.setdefault(name, _Sorted([], []))
            at = bisect_right(held.values, place.key)
            held.values.insert(at, place.key)
            held.entries.insert(at, place.entry)
            return
        if place.columns not in self._tables:
            self._tables[place.columns] = (values_of(place.columns), {})
        bucket = self._tables[place.columns][1].setdefault(place.key, {})
        bucket.setdefault(place.part, []).append(place.entry)

    def _drop(self, place: EntryPlace) -> None:
        if place.range is not None:
            name = (place.range.column, place.range.operator, place.part)
            held = self._ranges[name]
            at = held.entries.index(place.entry, bisect_left(held.values, place.key))
            del held.values[at], held.entries[at]
            if not held.values:
                del self._ranges[name]
            return
        table = self._tables[place.columns][1]
        bucket = table[place.key]
        bucket[place.part].remove(place.entry)
        if not bucket[place.part]:
            del bucket[place.part]
        if not bucket:
            del table[place.key]
        if not table:
            del self._tables[place.columns]


def places_of(definition: BoundPredicate, target: object) -> list[EntryPlace]:
    """Return the places of a target's disjuncts in an index; a disjunct that never holds has none.

    All that must be compiled is compiled here, so that adding and removing targets change tables
    only.
    """
    found: list[EntryPlace] = []
    shape, constants = definition
    for number, disjunct in enumerate(shape.disjuncts):
        columns: tuple[int, ...] = ()
        key: Any = ()
        answered: tuple[int, ...] = ()
        chosen = disjunct.ranges[0] if disjunct.ranges else None
        if disjunct.equalities:
            columns, slots, answered = zip(*disjunct.equalities, strict=True)
            key, chosen = tuple([constants[slot] for slot in slots]), None
            if not is_proper(key, True):
                continue
            key = key if len(columns) > 1 else key[0]
        elif chosen is not None and type(constants[chosen.slot]) in TYPES:
            key, answered = constants[chosen.slot], (chosen.literal,)
            if not is_proper(key, False):
                continue
        else:
            chosen = None
        part = shape.part(number, frozenset(answered))
        entry = (*[constants[slot] for slot in part.slots], target)
        found.append(EntryPlace(part, entry, columns, key, chosen))
    return found


def _satisfied(held: _Sorted, operator: str, value: Any) -> list[tuple[Any, ...]]:
    """Return the entries whose constant c satisfies `value operator c`."""
    match operator:
        case ">":
            return held.entries[: bisect_left(held.values, value)]
        case ">=":
            return held.entries[: bisect_right(held.values, value)]
        case "<":
            return held.entries[bisect_right(held.values, value) :]
        case _:
            return held.entries[bisect_left(held.values, value) :]
