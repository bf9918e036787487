"""Counts by days before now."""

from xscl.time_format import UNITS

DAY = UNITS["d"]


def days_ago(column: str) -> str:
    """Return the SQL of the numbers of rows by days ago, for a column of times: a mapping.

    Its parameters are the time now, and the time after which rows are counted.
    """
    return f"histogram((? - {column}) // {DAY}) FILTER (WHERE {column} > ?)"
