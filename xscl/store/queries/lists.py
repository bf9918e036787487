"""Lists in statements: as parameters, and as values of columns."""

from __future__ import annotations

_GIVEN = "SELECT value FROM json_each(?)"

LISTED = f"({_GIVEN})"
"""SQL for the values of a parameter, a list, after IN."""


def first_of(column: str) -> str:
    """Return SQL for the first value of a list."""
    return f"{column} ->> 0"


def is_empty(column: str) -> str:
    """Return SQL for whether a list has no value."""
    return f"{column} = '[]'"


def has_any(column: str) -> str:
    """Return SQL for whether a list has one of the values of a parameter."""
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value IN ({_GIVEN}))"


def contains(column: str) -> str:
    """Return SQL for whether a list has the value of a parameter."""
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value = ?)"


def any_of(column: str, condition: str) -> str:
    """Return SQL for whether a condition holds of a value, which is called so, of a list."""
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE {condition})"
