"""A typed program: an engine in this process, and clients of a running service.

    python examples/typed_program.py                       # the engine only
    python examples/typed_program.py http://127.0.0.1:8425 # the same query on a service

It is checked with `mypy --strict`, and run, by the tests.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import xscl
from xscl.client import AsyncClient, Client, Match

ORDERS = (
    ("o1", "<order><item>a12</item></order>"),
    ("o2", "<order><item>b7</item></order>"),
    ("o3", "<order><item>a12</item></order>"),
)
AGAIN = "orders//order[./item->a] FOLLOWED BY{a=b, 7 d} orders//order[./item->b]"
MISSPELT = AGAIN.replace("./item->a", "./itme->a")


def in_this_process() -> list[tuple[str, ...]]:
    """Return the documents of the matches of an engine."""
    with xscl.Engine(retention=xscl.Retention.of(history="30 d")) as engine:
        engine.subscribe("again", AGAIN)
        documents = [
            xscl.Document("orders", name, number, xml.encode())
            for number, (name, xml) in enumerate(ORDERS)
        ]
        pushed: xscl.PushResult = engine.push(documents)
        table = engine.matches("again").to_arrow()
        assert table.num_rows == len(pushed)
        first: xscl.Match = pushed[0]
        values: dict[str, list[str]] = {
            name: [node.value for node in nodes] for name, nodes in first.bindings.items()
        }
        assert values == {"a": ["a12"], "b": ["a12"]}
        why: xscl.Why = engine.why("again", "o1", "o2")
        assert not why.matched
        for line in engine.why(MISSPELT).lines():
            print(line)
        return [match.documents for match in pushed]


def over_http(address: str, token: str | None = None) -> list[tuple[str, ...]]:
    """Return the documents of the matches of a query that is tried on a service."""
    with Client(address, token) as client:
        client.create_stream("orders", live=False)
        for name, xml in ORDERS:
            client.push("orders", xml, id=name)
        for warning in client.check(MISSPELT).warnings:
            print(warning.line, warning.column, warning.message, warning.hint)
        try:
            client.subscribe("wrong", "orders//order->a JOIN{a=z, 1 d} orders//order->b")
        except xscl.QueryError as error:
            print(error.line, error.column, error.message)
        client.subscribe("ordered-again", AGAIN)
        found: Sequence[Match] = client.try_query(AGAIN).matches
        return [match.documents for match in found]


async def names_over_http(address: str, token: str | None = None) -> list[str]:
    """Return the names of the subscriptions of a service."""
    async with AsyncClient(address, token) as client:
        first, _ = await asyncio.gather(client.subscription("ordered-again"), client.check(AGAIN))
        assert first.reads == ("orders",)
        return [one.name async for one in client.subscriptions()]


if __name__ == "__main__":
    print(in_this_process())
    if len(sys.argv) > 1:
        print(over_http(*sys.argv[1:3]))
        print(asyncio.run(names_over_http(*sys.argv[1:3])))
