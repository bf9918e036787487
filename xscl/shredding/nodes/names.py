"""Names of nodes and name tests, as strings for dictionary look-ups.

A *symbol* is a name in Clark notation (`{uri}local`, `local` without a
namespace), that of an attribute behind an `@`.  A node passes four tests: of
its whole name, of its local name, of its namespace, and any.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from xscl.language.syntax import NameTest, Path

Symbol: TypeAlias = str
Key: TypeAlias = str  # of a test: `{uri}local`, `*:local`, `{uri}`, `*`, behind an `@` or not
Steps: TypeAlias = tuple[tuple[bool, Key], ...]
"""The steps of a path without conditions: whether each is `//`, and the key of its test."""


@lru_cache(maxsize=100_000)
def key_of(attribute: bool, test: NameTest) -> Key:
    """Return the key of a name test."""
    if test.uri is not None:
        key = f"{{{test.uri}}}{test.local or ''}"
    else:
        key = "*" if test.local is None else f"*:{test.local}"
    return f"@{key}" if attribute else key


@lru_cache(maxsize=100_000)
def keys_of(symbol: Symbol) -> tuple[Key, Key, Key, Key]:
    """Return the keys of all tests that a name passes."""
    at, name = ("@", symbol[1:]) if symbol.startswith("@") else ("", symbol)
    uri, _, local = name[1:].rpartition("}") if name.startswith("{") else ("", "", name)
    return f"{at}{{{uri}}}{local}", f"{at}*:{local}", f"{at}{{{uri}}}", f"{at}*"


def steps_of(path: Path) -> Steps:
    """Return the steps of a path."""
    return tuple([(step.descendant, key_of(step.attribute, step.test)) for step in path.steps])


def matches_name(test: NameTest, name: str) -> bool:
    """Return True if a name in Clark notation passes a name test."""
    return key_of(False, test) in keys_of(name)
