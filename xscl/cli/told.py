"""Matches as a service tells them: what the command line prints of a match, without an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xscl.match import Node

_ROW = ("subscription", "documents", "t0", "t1", "bindings", "xml")


@dataclass(frozen=True, slots=True)
class Told:
    """A match that was told over HTTP; its attributes are those of `xscl.match.Match`."""

    shown: Mapping[str, Any]

    @property
    def id(self) -> str:
        return str(self.shown["match"] if "match" in self.shown else self.shown["id"])

    @property
    def subscription(self) -> str:
        return str(self.shown["subscription"])

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(self.shown["documents"])

    @property
    def t1(self) -> int:
        return int(self.shown["t1"])

    @property
    def history(self) -> bool:
        return bool(self.shown["history"])

    @property
    def bindings(self) -> dict[str, list[Node]]:
        return {
            variable: [Node(n["document"], n["node"], n["path"], n["value"]) for n in nodes]
            for variable, nodes in self.shown["bindings"].items()
        }

    @property
    def constructed(self) -> bool:
        return bool(self.shown["constructed"])

    def xml(self) -> bytes:
        return str(self.shown["xml"]).encode()

    def row(self) -> dict[str, Any]:
        """Return the match as a value for JSON."""
        return {"match": self.id, **{name: self.shown[name] for name in _ROW}}
