"""Names of owners' objects: those of the account 7 begin with `_7.`, the operator's do not.

`xscl.service.names` maps them to the names that users write.
"""

OPERATOR = 0
"""The account number of the operator."""


def own_condition(column: str, number: int) -> str:
    """Return the SQL condition that a name in a column is that of an object of an account."""
    if number == OPERATOR:
        return (
            f"NOT (substr({column}, 1, 1) = '_' AND substr({column}, 2, 1) BETWEEN '0' AND '9'"
            f" AND substr(ltrim(substr({column}, 2), '0123456789'), 1, 1) = '.')"
        )
    prefix = f"_{number}."
    return f"substr({column}, 1, {len(prefix)}) = '{prefix}'"
