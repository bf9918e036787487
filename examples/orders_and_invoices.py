"""Plain XML: orders, invoices and payments that belong together, or should.

    python examples/orders_and_invoices.py

Nothing is stored: the engine is in memory, and the documents are below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import xscl

QUERIES: Mapping[str, str] = {
    "another total": """
        SELECT <disagree order="{n}" ordered="{a}" invoiced="{b}"/>
        FROM orders//order[./number->n][./total->a]
             FOLLOWED BY{n = m AND xs:decimal(a) != xs:decimal(b), 30 d}
             invoices//invoice[./order->m][./total->b]""",
    "no invoice": """
        orders//order[./number->n]
        NOT FOLLOWED BY{n = m, 30 d}
        invoices//invoice[./order->m]""",
    "paid": """
        SELECT <paid order="{n}" by="{payer}"/>
        FROM orders//order[./number->n]
             FOLLOWED BY{n = m, 30 d} invoices//invoice[./order->m][./id->i]
             FOLLOWED BY{i = j, 60 d} payments//payment[./invoice->j][./payer->payer]""",
}
DOCUMENTS = (
    ("orders", "2026-03-02", "<order><number>17</number><total>99</total></order>"),
    ("orders", "2026-03-03", "<order><number>18</number><total>25</total></order>"),
    ("orders", "2026-03-04", "<order><number>19</number><total>60</total></order>"),
    ("invoices", "2026-03-05", "<invoice><id>a</id><order>17</order><total>100</total></invoice>"),
    (
        "invoices",
        "2026-03-06",
        "<invoice><id>b</id><order>18</order><total>25.00</total></invoice>",
    ),
    ("payments", "2026-03-20", "<payment><invoice>b</invoice><payer>Ann</payer></payment>"),
)
"""Stream, day and text of each document."""
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def ticks(day: str) -> int:
    """Return the beginning of a day in microseconds since 1970."""
    return (datetime.fromisoformat(day).replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def documents() -> Iterator[xscl.Document]:
    """Yield the documents, named after their stream and number."""
    for number, (stream, day, text) in enumerate(DOCUMENTS):
        yield xscl.Document(stream, f"{stream}-{number}", ticks(day), text.encode())


def found() -> Iterator[tuple[str, str]]:
    """Yield the subscription and the result of each match, in the order of their times."""
    with xscl.Engine() as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        matches = [*engine.push(documents()), *engine.advance(ticks("2026-05-01"))]
        for match in sorted(matches, key=lambda one: one.t1):
            yield match.subscription, match.xml().decode()


if __name__ == "__main__":
    for subscription, result in found():
        print(f"{subscription}: {result}")
