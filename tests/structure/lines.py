"""Lines of code, of docstrings and of comments, without blank lines.

A line with code and a comment is code.  A string expression that stands alone is a docstring.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("xscl", "templates", "cep_core", "feeds")

_LAYOUT = frozenset(
    (
        *(tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENCODING, tokenize.ENDMARKER),
    )
)


class Lines(NamedTuple):
    """Numbers of lines."""

    code: int = 0
    docstrings: int = 0
    comments: int = 0

    def __add__(self, other: Lines) -> Lines:  # type: ignore[override]
        return Lines(*(mine + its for mine, its in zip(self, other, strict=True)))


def lines_of(source: str) -> Lines:
    """Count the lines of a module's text."""
    docstrings = {line for node in ast.walk(ast.parse(source)) for line in _docstrings(node)}
    code: set[int] = set()
    comments: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in _LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    code -= docstrings
    return Lines(len(code), len(docstrings), len(comments - code))


def _docstrings(node: ast.AST) -> Iterator[int]:
    """Yield the lines of the strings that stand alone in a node's body."""
    body = getattr(node, "body", None)
    for one in body if isinstance(body, list) else ():
        text = one.value if isinstance(one, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            yield from range(one.lineno, (one.end_lineno or one.lineno) + 1)


def lines_by_package(root: Path = ROOT) -> dict[str, Lines]:
    """Count the lines of each top-level package and of its sub-packages, by dotted name."""
    found: dict[str, Lines] = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).parent.parts[:2]
            here = lines_of(path.read_text("utf-8"))
            for name in dict.fromkeys((parts[0], ".".join(parts))):
                found[name] = found.get(name, Lines()) + here
    return found


def report() -> str:
    """Return a table of the lines of all packages, and their sum."""
    found = lines_by_package()
    total = sum((found[package] for package in PACKAGES), Lines())
    rows = [("", *Lines._fields), *((name, *found[name]) for name in found), ("total", *total)]
    return "\n".join(f"{name:24}" + "".join(f"{n:>12}" for n in numbers) for name, *numbers in rows)
