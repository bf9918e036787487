"""Names of code in the docstrings of the product that do not exist.

Checked are what is said to be raised (`Raises StoreError`), full names (`xscl.store.chunks`), and
names of classes in backticks, also with a member (`DataDirectory.hold`).  Words of one capital
letter, such as `Host`, are names of other things too often.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeGuard

PACKAGES = ("xscl", "templates", "cep_core", "feeds")
FOREIGN = frozenset(
    {
        *("DuckDB", "NaN", "P1DT12H"),
        *("StreamingQueryException", "DataStreamWriter", "trigger"),  # of PySpark
    }
)
"""Names of other programs and formats."""

_RAISES = re.compile(r"\b[Rr]aises?\s+([^.]*)")
_CLASS = r"[A-Z][a-z0-9]+(?:[A-Z][a-zA-Z0-9]*)+"
_IN_PROSE = re.compile(rf"(?<![\w`'\"<./-]){_CLASS}\b")
_QUOTED = re.compile(r"``?([^`\n]+)``?")
_FULL = re.compile(rf"(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
_OF_CLASS = re.compile(rf"{_CLASS}|[A-Z][a-z]\w*(?:\.[a-z]\w*)+|(?:[a-z_]+\.)+{_CLASS}")


class Unknown(NamedTuple):
    """A name in a docstring that nothing has."""

    path: str
    line: int
    name: str


class Docstring(NamedTuple):
    """A docstring with its place."""

    path: str
    line: int
    text: str


class Names:
    """The names that the modules below a folder define, import or use, and their docstrings."""

    def __init__(self, root: Path) -> None:
        self.known = {*dir(builtins), *FOREIGN}
        self.members: defaultdict[str, set[str]] = defaultdict(set)  # of classes, by their names
        self.bases: defaultdict[str, set[str]] = defaultdict(set)
        self.modules: dict[str, set[str]] = {}  # with the names at their top
        self.types: defaultdict[str, list[str]] = defaultdict(list)  # modules that define them
        self.docstrings: list[Docstring] = []
        for package in PACKAGES:
            for path in sorted((root / package).rglob("*.py")):
                place = path.relative_to(root)
                parts = place.with_suffix("").parts
                tree = ast.parse(path.read_text("utf-8"))
                module = ".".join(parts).removesuffix(".__init__")
                self.modules[module] = set(_defined(tree.body))
                for name in _public_types(tree.body):
                    self.types[name].append(module)
                self._read(tree, place.as_posix())
        self.known.update(one.rpartition(".")[2] for one in self.modules)

    def _read(self, tree: ast.Module, path: str) -> None:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                self.known.add(node.id)
            elif isinstance(node, ast.Attribute):
                self.known.add(node.attr)
            elif isinstance(node, ast.arg):
                self.known.add(node.arg)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self.known.update(one.asname or one.name for one in node.names)
            elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                self.known.add(node.name)
            if isinstance(node, ast.ClassDef):
                self.members[node.name].update(_defined(node.body), _assigned(node))
                self.bases[node.name].update(map(ast.unparse, node.bases))
            if isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ) and (text := ast.get_docstring(node, clean=False)):
                line = 1 if isinstance(node, ast.Module) else node.lineno
                self.docstrings.append(Docstring(path, line, text))

    def ambiguous(self) -> dict[str, list[str]]:
        """Return the types that several modules define, with these modules."""
        return {name: modules for name, modules in sorted(self.types.items()) if len(modules) > 1}

    def unknown(self, docstrings: Iterable[Docstring]) -> Iterator[Unknown]:
        """Yield the names that docstrings name and nothing has."""
        for path, line, text in docstrings:
            for name in _named(text):
                if not self._exists(name):
                    yield Unknown(path, line, name)

    def _exists(self, name: str) -> bool:
        parts = name.split(".")
        if not _FULL.fullmatch(name):
            head, *rest = parts
            return head in self.known and (
                self._have(head, rest) if head in self.members else self.known.issuperset(rest)
            )
        module = name
        while module and module not in self.modules:
            module = module.rpartition(".")[0]
        rest = parts[module.count(".") + 1 :]
        return not rest or (rest[0] in self.modules[module] and self._have(rest[0], rest[1:]))

    def _have(self, name: str, rest: Sequence[str]) -> bool:
        """Return True if a class of a name has a member; its own members are not followed."""
        if not rest or name not in self.members or rest[0] in self.members[name]:
            return True
        bases = (one.partition("[")[0].rpartition(".")[2] for one in self.bases[name])
        return any(self._have(one, rest) for one in bases if one in self.members)


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements define, also below conditions."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (x.id for one in targets for x in ast.walk(one) if _is_name(x))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((one.asname or one.name).partition(".")[0] for one in names)
            case ast.If(body=inner, orelse=other):
                yield from _defined((*inner, *other))
            case ast.Try(body=inner):
                yield from _defined(inner)
            case _:
                pass


def _public_types(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the public classes and aliases of types that a module defines."""
    for node in body:
        match node:
            case (
                ast.ClassDef(name=name)
                | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"))
            ) if not name.startswith("_"):
                yield name
            case _:
                pass


def _is_name(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _assigned(node: ast.ClassDef) -> Iterator[str]:
    """Yield the attributes that the methods of a class assign."""
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store):
            yield one.attr


def _named(text: str) -> Iterator[str]:
    for raised in _RAISES.finditer(text):
        yield from _IN_PROSE.findall(raised[1])
    for quoted in _QUOTED.findall(text):
        name = quoted.removesuffix("()")
        is_file = name.endswith((".py", ".toml", ".lark"))
        if not is_file and (_FULL.fullmatch(name) or _OF_CLASS.fullmatch(name)):
            yield name
