"""Uses of positions where names belong: in SQL, in rows of an answer, and in templates of pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from xscl.store.queries.relations import PUBLIC

_STAR = re.compile(r"(?:\bSELECT\s+(?:DISTINCT\s+)?|,\s*)(?:\w+\.)?\*(?=[\s,]|$)", re.IGNORECASE)
_OF_USERS = re.compile(
    rf"\s+FROM\s+(?:{'|'.join((*PUBLIC, 'relations'))}|\(\0\))(?!\w)", re.IGNORECASE
)
"""A public relation, or the statement of a user, in a query for users."""
_ALL = re.compile(r"(?:^|[(;]|\bUNION\s|\bALL\s)FROM\s(?!.*\bLIMIT 0\b)", re.DOTALL)
"""A query of DuckDB without SELECT: of all columns; with LIMIT 0 it asks for their names."""
_VALUES = re.compile(r"\bINSERT\s+(?:OR\s+\w+\s+)?INTO\s+\S+\s+VALUES\b", re.IGNORECASE)
_FETCHES = frozenset({"fetch", "fetchall", "fetchmany", "fetchone"})

_IN_TEMPLATE = re.compile(r"{[{%].*?[%}]}", re.DOTALL)
_PLACE = re.compile(r"[\w\])]\[\d+\]|\bfor\s+\w+\s*,\s*\w+\s*,")


class Position(NamedTuple):
    """A use of a position."""

    line: int
    what: str


def positions_in(source: str) -> list[Position]:
    """Return the uses of positions in a module of the product."""
    tree = ast.parse(source)
    found = list(_of_rows(tree)) if "fetch" in source else []
    for line, text in _texts(tree):
        stars = [one for one in _STAR.finditer(text) if not _OF_USERS.match(text, one.end())]
        if stars:
            found.append(Position(line, "SELECT *: name the columns"))
        if _ALL.search(text):
            found.append(Position(line, "FROM without SELECT: name the columns"))
        if _VALUES.search(text):
            found.append(Position(line, "INSERT without the names of columns"))
    return sorted(found)


def positions_in_template(text: str) -> list[Position]:
    """Return the uses of positions in a template of a page; pairs have none."""
    return [
        Position(text.count("\n", 0, part.start()) + 1, f"{part[0]}: name the values")
        for part in _IN_TEMPLATE.finditer(text)
        if _PLACE.search(part[0])
    ]


def _texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module, except documentation; a null stands for what is filled in."""
    parts: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=values):
                parts.update(id(one) for one in values)
                texts = (v.value if isinstance(v, ast.Constant) else "\0" for v in values)
                yield node.lineno, "".join(map(str, texts))
            case ast.Expr(value=ast.Constant() as told):
                parts.add(id(told))
            case ast.Constant(value=str(text)) if id(node) not in parts:
                yield node.lineno, text
            case _:
                pass


def _of_rows(tree: ast.AST) -> Iterator[Position]:
    """Yield what may be rows as whole lists of arguments: a function that fetches rows has none."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            nodes = list(ast.walk(function))
            if any(isinstance(one, ast.Attribute) and one.attr in _FETCHES for one in nodes):
                yield from _in_function(nodes)


def _in_function(nodes: Iterable[ast.AST]) -> Iterator[Position]:
    for node in nodes:
        if isinstance(node, ast.Call):
            for one in node.args:
                if isinstance(one, ast.Starred) and isinstance(one.value, ast.Name | ast.Subscript):
                    yield Position(one.lineno, "a whole row as arguments: name its columns")
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension) and any(
            isinstance(one, ast.Starred) for one in ast.walk(node.target)
        ):
            yield Position(node.target.lineno, "a part of a row: name its columns")


def product_modules(package: Path) -> Iterator[Path]:
    """Yield the modules of a package of the product."""
    yield from sorted(package.rglob("*.py"))
