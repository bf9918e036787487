"""Snapshots: what the plan keeps, in numbers that do not depend on how it came about.

Slots and m-ops depend on the history of registrations; the operators of the live queries, in order
of registration, do not.  So a kept row is written with the positions of its operators in that
list, and read back into whatever m-ops implement them now.  The bytes are msgpack with a version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import msgpack

from cep_core import algebra, expressions
from cep_core.awaited import receivers
from cep_core.channels import members_of
from cep_core.errors import CepError, SnapshotError
from cep_core.events import TYPES, Row, Schema
from cep_core.mop import MOp, Operator
from cep_core.operators.active import ActiveIndex
from cep_core.operators.scan import SequenceScan
from cep_core.plan import Plan
from cep_core.runtime import Lane, Waiting

VERSION = 3
READ = (2, 3)  # version 2 has no rates of streams, and no tuples
_OWN, _BIG, _TUPLE = 2, 3, 4  # values of the user's types, integers beyond 64 bits, tuples
_LONE = "surrogatepass"  # half a character of UTF-16 is a character to Python
Data: TypeAlias = Any


class _Kept(NamedTuple):
    """A row that was kept: by what part of the plan, and for which operators, by reference."""

    place: tuple[Any, ...]
    row: Row
    references: list[int | str]


class AttributeType(NamedTuple):
    """A type of the user's for attributes: how its values are written to a snapshot and read."""

    type: type
    dump: Callable[[Any], str]
    load: Callable[[str], Any]


class Codec:
    """Values, rows and algebra as plain data and back; ``types`` are the user's."""

    def __init__(self, types: Iterable[AttributeType]) -> None:
        self._own = {one.type.__name__: one for one in types}
        self._types: dict[str, type] = {kind.__name__: kind for kind in TYPES}
        self._types |= {"tuple": tuple, **{name: one.type for name, one in self._own.items()}}
        modules = (algebra, expressions)
        self._nodes: dict[str, Any] = {
            name: made
            for module in modules
            for name, made in vars(module).items()
            if isinstance(made, type) and is_dataclass(made)
        }

    def row(self, row: Row) -> list[Data]:
        """Return a row as data."""
        return [self._value(value) for value in row]

    def node(self, node: Any) -> Data:
        """Return algebra, or an expression, as data."""
        if isinstance(node, Schema):
            return ["Schema", list(node.names), [self.type_name(kind) for kind in node.types]]
        if isinstance(node, type):
            return ["type", self.type_name(node)]
        if isinstance(node, tuple):
            return ["tuple", *[self.node(part) for part in node]]
        if is_dataclass(node):
            values = {f.name: self.node(getattr(node, f.name)) for f in fields(node) if f.compare}
            return ["node", type(node).__name__, values]
        return ["value", self._value(node)]

    def made(self, data: Data) -> Any:
        """Return what `node` made data of."""
        match data:
            case ["Schema", names, kinds]:
                return Schema(tuple(names), tuple(self.type_named(kind) for kind in kinds))
            case ["type", name]:
                return self.type_named(name)
            case ["tuple", *parts]:
                return tuple(self.made(part) for part in parts)
            case ["node", name, values]:
                return self._nodes[name](**{key: self.made(part) for key, part in values.items()})
            case _:
                return data[1]

    def type_name(self, kind: type) -> str:
        """Return the name of an attribute's type."""
        if self._types.get(kind.__name__) is not kind:
            raise SnapshotError(
                f"values of type {kind.__name__} cannot be written to a snapshot",
                hint="pass an AttributeType for it as types=[...] when the engine is made",
            )
        return kind.__name__

    def type_named(self, name: str) -> type:
        """Return the type of a name."""
        if name not in self._types:
            raise SnapshotError(
                f"the snapshot has values of type {name}",
                hint="pass its AttributeType as types=[...]",
            )
        return self._types[name]

    def packed(self, data: Data) -> bytes:
        """Return data as bytes."""
        packed: bytes = msgpack.packb({"cep_core": VERSION, "data": data}, unicode_errors=_LONE)
        return packed

    def unpacked(self, packed: bytes) -> Data:
        """Return the data of bytes; raises SnapshotError."""
        try:
            found = msgpack.unpackb(
                packed, ext_hook=self._extension, strict_map_key=False, unicode_errors=_LONE
            )
        except CepError:
            raise
        except Exception as error:  # whatever the bytes, or the types of the user, are up to
            raise SnapshotError(f"these bytes are no snapshot: {error}") from error
        if not isinstance(found, dict) or not {"cep_core", "data"} <= found.keys():
            raise SnapshotError("these bytes are no snapshot of cep_core")
        if found["cep_core"] not in READ:
            raise SnapshotError(
                f"the snapshot has version {found['cep_core']}; this release reads"
                f" {READ[0]} to {READ[-1]}"
            )
        return found["data"]

    def _value(self, value: Any) -> Data:
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            size = value.bit_length() // 8 + 1
            return msgpack.ExtType(_BIG, value.to_bytes(size, "big", signed=True))
        if value is None or type(value) in (str, int, float, bool):
            return value
        if type(value) is tuple:
            items = [self._value(item) for item in value]
            return msgpack.ExtType(_TUPLE, msgpack.packb(items, unicode_errors=_LONE))
        own = self._own.get(type(value).__name__)
        if own is None:
            self.type_name(type(value))
            return value
        return msgpack.ExtType(
            _OWN, msgpack.packb([own.type.__name__, own.dump(value)], unicode_errors=_LONE)
        )

    def _extension(self, code: int, data: bytes) -> Any:
        if code == _BIG:
            return int.from_bytes(data, "big", signed=True)
        if code == _TUPLE:
            return tuple(msgpack.unpackb(data, ext_hook=self._extension, unicode_errors=_LONE))
        if code != _OWN:
            raise SnapshotError(f"the snapshot has values of the unknown kind {code}")
        name, text = msgpack.unpackb(data, unicode_errors=_LONE)
        self.type_named(name)
        return self._own[name].load(text)


class Numbering:
    """The operators of the live queries, by position; base streams by name."""

    def __init__(self, plan: Plan, held: Iterable[Sequence[Operator]]) -> None:
        self._operators = [operator for one in held for operator in one]
        self._positions: dict[Operator, int] = {}
        for position, operator in enumerate(self._operators):
            self._positions.setdefault(operator, position)
        self._sources = plan.sources

    def number(self, operator: Operator) -> int:
        """Return the position of an operator."""
        return self._positions[operator]

    def reference(self, operator: Operator) -> int | str:
        """Return the position of an operator, or the name of a base stream."""
        if operator.mop is None:
            return cast(str, operator.wanted.definition)
        return self.number(operator)

    def operator(self, reference: int | str) -> Operator:
        """Return the operator at a position, or the base stream of a name."""
        if isinstance(reference, str):
            return self._sources[reference]
        return self._operators[reference]


def state_of(plan: Plan, numbering: Numbering, codec: Codec) -> Data:
    """Return what the m-ops keep, and the rows that wait for their epoch."""
    kept = []
    for mop in plan.mops:
        kept += [[codec.row(row), *rest] for row, *rest in mop.dump(numbering.number)]
    waiting = [
        waiting_of(lane, one, numbering, codec)
        for lane in plan.lanes.values()
        for one in lane.waiting()
    ]
    return {"kept": kept, "waiting": list(filter(None, waiting)), "lanes": lanes_of(plan)}


def waiting_of(lane: Lane, waiting: Waiting, numbering: Numbering, codec: Codec) -> Data:
    """Return a row that waits for its epoch as data; None: it makes no difference."""
    port, row, members = waiting
    side = 0
    if isinstance(port.mop, ActiveIndex):
        target: Data = numbering.reference(port.mop.right)
    elif port not in port.mop.waiting_ports():
        return None
    else:
        side = port.mop.waiting_ports().index(port)
        target = list(map(numbering.number, receivers(port, members)))
    return [lane.lateness, target, codec.row(row), *([side] if side else [])]


def lanes_of(plan: Plan) -> list[list[int]]:
    """Return how far the lanes have come: (lateness, closed)."""
    return [[lane.lateness, lane.closed] for lane in plan.lanes.values()]


def load_state(plan: Plan, numbering: Numbering, data: Data) -> None:
    """Give a plan of the same queries what another one kept, or a part of it."""
    for lateness, closed in data.get("lanes", ()):
        lane = plan.lanes.get(lateness)  # earlier releases kept some that nobody has
        if lane is not None:
            lane.closed = max(lane.closed, closed)
    kept = _together(
        _Kept((mop, *rest), tuple(values), known)
        for values, references, *rest in data.get("kept", ())
        for mop, known in _by_mop(numbering, references).items()
    )
    scans = [one for one in kept if isinstance(one.place[0], SequenceScan)]
    others = [one for one in kept if not isinstance(one.place[0], SequenceScan)]
    for (mop, *rest), row, known in (*others, *sorted(scans, key=lambda one: one.row[1])):
        mop.load(row, _operators(numbering, known), *rest)
    waiting: list[_Kept] = []
    for lateness, target, values, *rest in data.get("waiting", ()):
        lane, row = plan.lane(lateness), tuple(values)
        if isinstance(target, list):
            for mop, known in _by_mop(numbering, target).items():
                side = rest[0] if rest else 0
                waiting.append(_Kept((lane, mop.waiting_ports()[side], side), row, known))
        else:
            index = plan.active(numbering.operator(target), lane)
            waiting.append(_Kept((lane, index.wire.port, None), row, [target]))
    for (lane, port, side), row, known in _together(waiting):
        operators = _operators(numbering, known)
        sources = operators if side is None else [one.wanted.inputs[side] for one in operators]
        lane.wait(port, row, members_of(sorted({source.slot for source in sources})))


def _together(kept: Iterable[_Kept]) -> list[_Kept]:
    """Return rows; what several operators or m-ops kept that are one now is there once.

    Their references tell: a row that one operator kept twice has its reference twice.
    """
    kept = list(kept)
    if len(kept) < 2:
        return kept
    found: list[_Kept] = []
    places: dict[Any, list[int]] = {}
    for one in kept:
        key = (one.place, *["NaN" if value != value else value for value in one.row])
        for place in places.setdefault(key, []):
            if set(found[place].references).isdisjoint(one.references):
                found[place].references.extend(one.references)
                break
        else:
            places[key].append(len(found))
            found.append(one)
    return found


def _by_mop(numbering: Numbering, references: Iterable[int]) -> Mapping[MOp, list[int | str]]:
    found: dict[MOp, list[int | str]] = {}
    for reference in references:
        mop = numbering.operator(reference).mop
        assert mop is not None
        found.setdefault(mop, []).append(reference)
    return found


def _operators(numbering: Numbering, references: Iterable[int | str]) -> list[Operator]:
    return list(dict.fromkeys(map(numbering.operator, references)))
