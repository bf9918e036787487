"""The layout of a union's rows, one for all of its alternatives.

An alternative that lacks an alias has null for a value of it, and no items for a tuple of values.
Of an alias that is iterated in some alternatives only, as in (s A | (s A)+), rows hold the tuple
of its values, of which the last is what the attribute alone stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from cep_core.algebra.expressions import Constant, Expression, Items
from cep_core.languages.eql.parts import LoweredPart, all_stored
from cep_core.rewrite.pattern import Kind, Ref


def layout_of(reads: Iterable[Ref], parts: Sequence[LoweredPart]) -> list[Ref]:
    """Return the references that the rows of a union hold, in canonical order."""
    wanted: set[Ref] = set()
    partly = partly_iterated((part.aliases, part.iterated) for part in parts)
    for part in parts:
        united = replace(
            part,
            optional=optional_of(parts),
            iterated=part.iterated | part.aliases & partly,
            mixed=part.mixed | part.aliases & partly,
        )
        wanted |= all_stored(reads, united)
    return sorted(wanted, key=lambda ref: ref[:3])


def partly_iterated(
    alternatives: Iterable[tuple[frozenset[str], frozenset[str]]],
) -> frozenset[str]:
    """Return the aliases that are iterated in some alternatives and single events in others.

    Each alternative is given by its aliases and by those of them that are iterated.
    """
    single, repeated = frozenset[str](), frozenset[str]()
    for aliases, iterated in alternatives:
        repeated |= iterated
        single |= aliases - iterated
    return single & repeated


def collected(reads: Iterable[Ref], aliases: frozenset[str]) -> frozenset[Ref]:
    """Return the references that give alternatives tuples of all values read of some aliases."""
    own = [ref for ref in reads if ref.alias in aliases and ref.kind in ("field", "prev", "all")]
    values = [ref._replace(kind="all") for ref in own]
    return frozenset((*values, *map(items_of, values)))


def optional_of(parts: Sequence[LoweredPart]) -> frozenset[str]:
    """Return the aliases that a row of a union need not have: not all alternatives have them."""
    every = frozenset.intersection(*(part.aliases for part in parts))
    own: frozenset[str] = frozenset().union(*(part.aliases | part.optional for part in parts))
    return own - every | frozenset().union(*(part.optional for part in parts))


def are_alike(parts: Sequence[LoweredPart], reads: Iterable[Ref]) -> bool:
    """Return True if all alternatives have the same rows, with all references that are read."""
    first = parts[0]
    read = {ref for ref in reads if ref.alias in first.aliases}
    return all(ref in first.values or ref.kind in ("prev", "all") for ref in read) and all(
        (one.values, one.labels, one.node.schema) == (first.values, first.labels, first.node.schema)
        for one in parts[1:]
    )


def value_of(ref: Ref, part: LoweredPart) -> Expression:
    """Return the value of a reference in an alternative; null or () if it lacks the alias."""
    if ref.alias not in part.aliases:
        return Items(()) if kind_of(ref) is tuple else Constant(None)
    if ref in part.values or ref.kind not in ("items", "all"):
        return part.values[ref]
    other = ref._replace(kind="items" if ref.kind == "all" else "all")
    return part.values.get(other) or Items((part.values[item_of(ref)],))


def items_of(ref: Ref) -> Ref:
    """Return the reference to the tuple of a value: empty if there is none."""
    attribute = f"#{ref.kind}" if ref.kind in ("begin", "end") else ref.attribute
    return Ref("items", ref.alias, attribute, ref.of)


def item_of(ref: Ref) -> Ref:
    """Return the reference to the value of a tuple."""
    match ref.attribute:
        case "#begin":
            return Ref("begin", ref.alias)
        case "#end":
            return Ref("end", ref.alias)
        case _:
            return ref._replace(kind="field")


def kind_of(ref: Ref) -> type:
    return tuple if ref.kind in ("all", "items") else ref.of


def label_of(ref: Ref) -> str:
    name = f"{ref.alias}.{ref.attribute or f'#{ref.kind}'}"
    return f"{name}{_SUFFIXES.get(ref.kind, '')}"


_SUFFIXES: Mapping[Kind, str] = {"all": "*", "items": "?"}


def history_label(aliases: frozenset[str]) -> str:
    return f"{min(aliases)}.#history"
