"""Texts of SQL on the stored tables, found in the modules that have no business with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.structure.rows import product_modules

_ON_STATE = re.compile(
    r"\b(?:FROM|JOIN|INTO|UPDATE|TABLE|EXISTS|USING)\s+(?:state|mark)\.", re.IGNORECASE
)
_TABLE = re.compile(r"(?:state|mark)\.\w+")
"""A whole text that names a table, which the code around it puts into SQL."""
OWNERS = ("xscl/store/",)
"""The modules whose job the SQL of state is."""


def sql_of_state(root: Path) -> dict[str, list[int]]:
    """Return the lines with SQL on stored tables, by module, outside the modules of `OWNERS`."""
    found = {}
    for package in ("xscl", "templates"):
        for path in product_modules(root / package):
            name = path.relative_to(root).as_posix()
            if not name.startswith(OWNERS):
                lines = sorted(set(_lines(ast.parse(path.read_text("utf-8")))))
                if lines:
                    found[name] = lines
    return found


def _lines(tree: ast.Module) -> Iterator[int]:
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if id(node) not in documented and (_ON_STATE.search(text) or _TABLE.fullmatch(text)):
                yield node.lineno


def report(root: Path) -> str:
    """Return a line for each module, with the numbers of its lines."""
    found = sql_of_state(root)
    total = sum(map(len, found.values()))
    listed = [f"{name}: {', '.join(map(str, lines))}" for name, lines in found.items()]
    return "\n".join((*listed, f"{total} texts in {len(found)} modules"))
