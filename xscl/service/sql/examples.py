"""Example queries for the web UI and the API."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """An example query with a title."""

    title: str
    query: str


EXAMPLES = (
    Example("What can be asked for", "SELECT * FROM relations"),
    Example("The latest matches", "SELECT * FROM matches ORDER BY position DESC LIMIT 20"),
    Example(
        "Matches by subscription",
        "SELECT subscription, count(*) AS matches FROM matches GROUP BY ALL ORDER BY 2 DESC, 1",
    ),
    Example(
        "Matches by hour",
        "SELECT time_bucket(INTERVAL 1 hour, make_timestamp(timestamp)) AS hour,"
        " count(*) AS matches\nFROM matches GROUP BY hour ORDER BY hour",
    ),
    Example(
        "Documents by stream",
        "SELECT stream, count(*) AS documents\n"
        "FROM (SELECT unnest(streams) AS stream FROM documents) GROUP BY stream ORDER BY 2 DESC",
    ),
    Example(
        "Values that many documents share",
        "SELECT strVal, count(DISTINCT docid) AS documents FROM R_doc\n"
        "WHERE strVal IS NOT NULL GROUP BY strVal ORDER BY documents DESC LIMIT 20",
    ),
    Example(
        "The witnesses that wait for partners",
        "SELECT var2 AS variable, count(*) AS witnesses FROM R_bin GROUP BY ALL ORDER BY 2 DESC",
    ),
    Example(
        "How late documents came",
        "SELECT stream, lateness, documents, late, rejected FROM watermarks",
    ),
    Example(
        "What was not taken, and why",
        "SELECT reason, count(*) AS documents, any_value(message) AS example FROM rejected\n"
        "GROUP BY reason ORDER BY 2 DESC",
    ),
    Example("Subscriptions with a template in common", "SELECT * FROM R_sub ORDER BY template"),
)
