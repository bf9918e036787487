"""Market data: the same quotes in three event languages, on one plan.

    python examples/market_data.py

CEL finds a rise, SASE a run of rising prices with its length, EQL a fall.  One query counts what
another one publishes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import cep_core

SCHEMA: Mapping[str, type] = {"name": str, "price": float, "volume": int}
QUERIES = (
    (
        "rise",
        "cel",
        """SELECT name, price_1 AS bought, price AS sold
           FROM FILTER{volume > 1000}(Quote)
                NEXT{$1.name = $2.name AND $2.price > 1.02 * $1.price} Quote PUBLISH Rise""",
    ),
    (
        "run",
        "sase",
        """EVENT Quote{3,} next q[] WHERE [name] AND q[i].price > q[i-1].price WITHIN 1 min
           RETURN q[1].name AS name, COUNT(q[]) AS steps, q[last].price AS price""",
    ),
    (
        "fall",
        "eql",
        """SELECT A.name, A.price AS before, B.price AS after FROM Quote A ; Quote B
           WHERE FILTER(A.name = B.name), B.price < 0.99 * A.price""",
    ),
    ("rises", "cel", "SELECT name, COUNT(*) AS rises FROM Rise GROUP BY name WINDOW 1 min"),
)
QUOTES = (
    (1, "IBM", 100.0, 5000),
    (5, "XYZ", 50.0, 2000),
    (10, "IBM", 101.0, 3000),
    (20, "IBM", 104.0, 4000),
    (25, "XYZ", 49.0, 2500),
    (30, "IBM", 107.0, 900),
)
"""Second, name, price and volume of each quote."""


def found() -> Iterator[tuple[str, tuple[object, ...]]]:
    """Yield the query and the values of each match."""
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("Quote", SCHEMA)
    for name, language, text in QUERIES:
        core.register(name, text, language)
    events = (cep_core.Event("Quote", tuple(values), second) for second, *values in QUOTES)
    for match in (*core.push(events), *core.close()):
        yield match.query, match.event.values


if __name__ == "__main__":
    for query, values in found():
        print(query, *values)
