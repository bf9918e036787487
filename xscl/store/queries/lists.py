"""Lists in statements: as parameters, and as values of columns."""

from __future__ import annotations

from xscl.store.opening import IS_SQLITE

_GIVEN = "SELECT value FROM json_each(?)"

TEXTS = f"({_GIVEN})" if IS_SQLITE else "(SELECT unnest(?::VARCHAR[]))"
"""SQL for the texts of a parameter, a list, after IN."""
NUMBERS = f"({_GIVEN})" if IS_SQLITE else "(SELECT unnest(?::BIGINT[]))"
"""SQL for the numbers of a parameter, a list, after IN."""


def first_of(column: str) -> str:
    """Return SQL for the first value of a list."""
    return f"{column} ->> 0" if IS_SQLITE else f"{column}[1]"


def is_empty(column: str) -> str:
    """Return SQL for whether a list has no value."""
    return f"{column} = '[]'" if IS_SQLITE else f"len({column}) = 0"


def has_any(column: str) -> str:
    """Return SQL for whether a list has one of the values of a parameter."""
    if not IS_SQLITE:
        return f"list_has_any({column}, ?)"
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value IN ({_GIVEN}))"


def contains(column: str) -> str:
    """Return SQL for whether a list has the value of a parameter."""
    if not IS_SQLITE:
        return f"list_contains({column}, ?)"
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE value = ?)"


def any_of(column: str, condition: str) -> str:
    """Return SQL for whether a condition holds of a value, which is called so, of a list."""
    if not IS_SQLITE:
        return f"len([value FOR value IN {column} IF {condition}]) > 0"
    return f"EXISTS (SELECT 1 FROM json_each({column}) WHERE {condition})"
