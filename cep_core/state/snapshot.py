"""The codec: values, rows and algebra as plain data, and data as msgpack with a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple, TypeAlias

import msgpack

from cep_core import algebra
from cep_core.algebra import expressions
from cep_core.decimals import BoundedDecimal
from cep_core.errors import CepError, SnapshotError
from cep_core.events import TYPES, Row, Schema

VERSION = 8
# Codes of values in msgpack: of the user's types, integers beyond 64 bits, tuples, decimals.
_OWN, _BIG, _TUPLE, _DECIMAL = 2, 3, 4, 5
_LONE = "surrogatepass"  # a str of Python may contain half of a UTF-16 pair
PlainData: TypeAlias = Any


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

    def row(self, row: Row) -> list[PlainData]:
        """Encode a row as plain data; raises SnapshotError for a value of an unregistered type."""
        return [self._value(value) for value in row]

    def node(self, node: Any) -> PlainData:
        """Encode an algebra node or expression as plain data."""
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

    def made(self, data: PlainData) -> Any:
        """Decode the result of `node`; raises SnapshotError for an unknown type."""
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
        """Return the name of an attribute's type; raises SnapshotError if it is not registered."""
        if self._types.get(kind.__name__) is not kind:
            raise SnapshotError(
                f"values of type {kind.__name__} cannot be written to a snapshot",
                hint="pass an AttributeType for it as types=[...] when the engine is made",
            )
        return kind.__name__

    def type_named(self, name: str) -> type:
        """Return the attribute type of a name; raises SnapshotError if it is not registered."""
        if name not in self._types:
            raise SnapshotError(
                f"the snapshot has values of type {name}",
                hint="pass its AttributeType as types=[...]",
            )
        return self._types[name]

    def packed(self, data: PlainData) -> bytes:
        """Serialise data with msgpack, with the version of the format."""
        packed: bytes = msgpack.packb({"cep_core": VERSION, "data": data}, unicode_errors=_LONE)
        return packed

    def unpacked(self, packed: bytes) -> PlainData:
        """Deserialise the result of `packed`; raises SnapshotError for other bytes or versions."""
        try:
            found = msgpack.unpackb(
                packed, ext_hook=self._extension, strict_map_key=False, unicode_errors=_LONE
            )
        except CepError:
            raise
        except Exception as error:  # other bytes, and types of the user, may raise anything
            raise SnapshotError(f"these bytes are no snapshot: {error}") from error
        if not isinstance(found, dict) or not {"cep_core", "data"} <= found.keys():
            raise SnapshotError("these bytes are no snapshot of cep_core")
        if found["cep_core"] != VERSION:
            raise SnapshotError(
                f"the snapshot has version {found['cep_core']}; this release reads {VERSION}"
            )
        return found["data"]

    def _value(self, value: Any) -> PlainData:
        if type(value) is int and not -(1 << 63) <= value < 1 << 63:
            size = value.bit_length() // 8 + 1
            return msgpack.ExtType(_BIG, value.to_bytes(size, "big", signed=True))
        if value is None or type(value) in (str, int, float, bool):
            return value
        if type(value) is tuple:
            items = [self._value(item) for item in value]
            return msgpack.ExtType(_TUPLE, msgpack.packb(items, unicode_errors=_LONE))
        if type(value) is BoundedDecimal:
            return msgpack.ExtType(_DECIMAL, str(value).encode())
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
        if code == _DECIMAL:
            return BoundedDecimal(data.decode())
        if code != _OWN:
            raise SnapshotError(f"the snapshot has values of the unknown kind {code}")
        name, text = msgpack.unpackb(data, unicode_errors=_LONE)
        self.type_named(name)
        return self._own[name].load(text)
