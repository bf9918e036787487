"""Tree patterns as frozen values: what a block of a query selects and binds.

`text` gives a pattern as XSCL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Axis: TypeAlias = Literal["child", "descendant", "attribute", "descendant-attribute"]
Comparator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
TextFunction: TypeAlias = Literal["contains", "starts-with"]
TextEnd: TypeAlias = Literal["", "/text()", "//text()"]

NAMESPACES = {"p": "urn:one", "dc": "http://purl.org/dc/elements/1.1/"}
SIGNS: dict[Axis, str] = {
    "child": "/",
    "descendant": "//",
    "attribute": "/@",
    "descendant-attribute": "//@",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A pattern node and, in `then`, the rest of its path; `name` is a, p:a, *:a, p:* or *."""

    axis: Axis
    name: str
    variable: str | None = None
    conditions: tuple[Condition, ...] = ()
    then: Step | None = None

    def text(self) -> str:
        """Return the path as XSCL, with the sign of its first axis."""
        bound = "" if self.variable is None else f"->{self.variable}"
        brackets = "".join(f"[{condition.text()}]" for condition in self.conditions)
        rest = "" if self.then is None else self.then.text()
        return f"{SIGNS[self.axis]}{self.name}{bound}{brackets}{rest}"


@dataclass(frozen=True, slots=True)
class Path:
    """The nodes of a path without variables (none: the node itself), or their text() nodes."""

    step: Step | None = None
    texts: TextEnd = ""

    def text(self, origin: str = ".") -> str:
        return origin + ("" if self.step is None else self.step.text()) + self.texts


@dataclass(frozen=True, slots=True)
class Exists:
    """At least one node on the path; the only condition that may bind variables."""

    step: Step

    def text(self) -> str:
        return "." + self.step.text()


@dataclass(frozen=True, slots=True)
class Compare:
    """A node of the path compares with a constant; an order needs a number, as in XPath 1.0."""

    path: Path
    operator: Comparator
    value: str | int | float
    flipped: bool = False

    def text(self, origin: str = ".") -> str:
        """Return the comparison as XSCL, with the constant on the left when flipped."""
        path, constant = self.path.text(origin), literal(self.value)
        if not self.flipped:
            return f"{path} {self.operator} {constant}"
        return f"{constant} {self.operator.translate(str.maketrans('<>', '><'))} {path}"


@dataclass(frozen=True, slots=True)
class StringTest:
    """A string function of the first node's string value and a constant."""

    function: TextFunction
    path: Path
    value: str

    def text(self, origin: str = ".") -> str:
        return f"{self.function}({self.path.text(origin)}, {literal(self.value)})"


@dataclass(frozen=True, slots=True)
class And:
    parts: tuple[Condition, ...]

    def text(self) -> str:
        return "(" + " and ".join(part.text() for part in self.parts) + ")"


@dataclass(frozen=True, slots=True)
class Or:
    parts: tuple[Condition, ...]

    def text(self) -> str:
        return "(" + " or ".join(part.text() for part in self.parts) + ")"


@dataclass(frozen=True, slots=True)
class Not:
    part: Condition

    def text(self) -> str:
        return f"not({self.part.text()})"


Condition: TypeAlias = Exists | Compare | StringTest | And | Or | Not


@dataclass(frozen=True, slots=True)
class Block:
    stream: str
    step: Step

    def text(self) -> str:
        return self.stream + self.step.text()


def literal(value: str | int | float) -> str:
    """Return a constant as XSCL."""
    if not isinstance(value, str):
        return str(value)
    return f"'{value}'" if '"' in value else f'"{value}"'
