"""Printing: the text of a syntax tree.  `parse(unparse(q)) == q`.

The printed form of a block identifies a variable, so it is a function of the
tree alone: one bracket for each condition, `Q{uri}name` where no predeclared
prefix stands for the namespace.
"""

from __future__ import annotations

from typing import assert_never

from xscl.language.names import PREFIXES
from xscl.language.syntax import (
    And,
    Block,
    Compare,
    Condition,
    Exists,
    NameTest,
    Not,
    Or,
    Path,
    Step,
    TextMatch,
)


def unparse(node: Block | Condition | Path) -> str:
    """Return the text of a block, a condition or a relative path."""
    match node:
        case Block(stream, steps):
            return stream + "".join(_step(step) for step in steps)
        case Path():
            return _path(node)
        case _:
            return _condition(node)


def _condition(condition: Condition) -> str:
    match condition:
        case Exists(path):
            return _path(path)
        case Compare(path, operator, value):
            return f"{_path(path)} {operator} {_literal(value)}"
        case TextMatch(function, path, value):
            return f"{function}({_path(path)}, {_literal(value)})"
        case And(parts):
            return " and ".join(_grouped(part) for part in parts)
        case Or(parts):
            return " or ".join(_grouped(part) for part in parts)
        case Not(part):
            return f"not({_condition(part)})"
        case _:
            assert_never(condition)


def _grouped(condition: Condition) -> str:
    text = _condition(condition)
    return f"({text})" if isinstance(condition, And | Or) else text


def _path(path: Path) -> str:
    steps = "".join(_step(step) for step in path.steps)
    tail = {None: "", "child": "/text()", "descendant": "//text()"}[path.text]
    return f".{steps}{tail}"


def _step(step: Step) -> str:
    slash = "//" if step.descendant else "/"
    at = "@" if step.attribute else ""
    bound = "" if step.variable is None else f"->{step.variable}"
    conditions = "".join(f"[{_condition(condition)}]" for condition in step.conditions)
    return f"{slash}{at}{_name(step.test)}{bound}{conditions}"


def _name(test: NameTest) -> str:
    local = test.local or "*"
    match test.uri:
        case None:
            return "*" if test.local is None else f"*:{local}"
        case "":
            return local if test.local is not None else "Q{}*"
        case uri if uri in PREFIXES:
            return f"{PREFIXES[uri]}:{local}"
        case uri:
            return f"Q{{{uri}}}{local}"


def _literal(value: str | float) -> str:
    if isinstance(value, str):
        return f"'{value}'" if '"' in value else f'"{value}"'
    if value < 0:
        return f"-{_literal(-value)}"
    return f"{value:.17g}" if (value < 1e16 and value > 1e-4) or value == 0 else f"{value:f}"
