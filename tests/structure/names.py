"""Names of classes and type aliases that mean more than one thing: defined in several modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.project import ROOT
from tests.structure.docstrings import PACKAGES


def ambiguous() -> dict[str, list[str]]:
    """Return the names that several modules of our packages define, with these modules."""
    found: dict[str, list[str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for name in _defined(ast.parse(path.read_text("utf-8"))):
                found.setdefault(name, []).append(module)
    return {name: modules for name, modules in sorted(found.items()) if len(modules) > 1}


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the public classes and aliases of types that a module defines."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                pass
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                pass
            case _:
                continue
        if not name.startswith("_"):
            yield name
