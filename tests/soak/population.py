"""Many subscriptions of a few shapes: joins of feed items, of documents, over time; events.

Their constants are words of the feeds' titles and items of orders.  All windows are a few hours of
the service's clock at most.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence

TAGS = tuple(f"tag{number}" for number in range(8))
ITEMS = 500
"""Items that orders are of."""

SAME_TITLE = (
    '{tag}//item->a[contains(./title, "{word}")][./title->t]'
    " FOLLOWED BY{{t = u, 1 h}} feeds//item->b[./title->u]"
)
OTHER_CHANNEL = (
    '{tag}//item->a[contains(./title, "{word}")][./title->t][./channel_url->c]'
    " FOLLOWED BY{{lower-case(t) = lower-case(u) AND c != d, 2 h}}"
    " feeds//item->b[./title->u][./channel_url->d]"
)
SAME_CHANNEL = (
    '{tag}//item->a[contains(./title, "{word}")][./channel_url->c]'
    ' FOLLOWED BY{{c = d, 30 min}} feeds//item->b[contains(./title, "{other}")][./channel_url->d]'
)
PAID = (
    'orders//order->a[./item="i{item}"][./key->x]'
    " FOLLOWED BY{{x = y, 30 min}} payments//payment->b[./key->y]"
)
UNPAID = (
    'orders//order[./item="i{item}"][./key->x]'
    " NOT FOLLOWED BY{{x = y, 20 min}} payments//payment[./key->y]"
)
CHANGED = (
    'orders//order[./item="i{item}"][./price->p] NEXT{{q != p}} orders//order'
    '[./item="i{item}"][./price->q]'
)
ONE = '{tag}//item->a[contains(./title, "{word}")][contains(./title, "{other}")]'

SHAPES = (
    (SAME_TITLE, 8_000),
    (OTHER_CHANNEL, 3_500),
    (SAME_CHANNEL, 3_000),
    (PAID, 3_500),
    (UNPAID, 300),
    (CHANGED, 200),
    (ONE, 1_200),
)
"""Shapes of queries in XSCL, and how many of 20,000 have each."""

EVENTS = (
    (
        "cel",
        "SELECT item, price FROM FILTER{{item = 'i{item}'}}(sales)"
        " NEXT{{$1.item = $2.item AND $1.price != $2.price}} sales",
    ),
    (
        "sase",
        "EVENT SEQ(sales x, sales y) WHERE [item = 'i{item}'] AND y.price > x.price"
        " WITHIN 10 minutes RETURN x.item, y.price",
    ),
    (
        "eql",
        "SELECT A.item, B.price FROM sales A ; sales B WHERE A.item = 'i{item}',"
        " FILTER(A.item = B.item), (A, B) OCCURS WITHIN 20 minutes",
    ),
)
"""Shapes of queries in languages of events: a hundred of each, over the stream `sales`."""


def population(count: int, words: Sequence[str], seed: int = 1) -> Iterator[tuple[str, str]]:
    """Yield names and queries in XSCL."""
    source = random.Random(seed)
    shapes, weights = zip(*SHAPES, strict=True)
    for number in range(count):
        shape = source.choices(shapes, weights)[0]
        query = shape.format(
            tag=source.choice(TAGS),
            word=source.choice(words),
            other=source.choice(words),
            item=source.randrange(ITEMS),
        )
        yield f"p{number:05}", query


def as_json_lines(rows: Iterator[tuple[str, str]]) -> str:
    """Return subscriptions as an import takes them."""
    return "".join(json.dumps({"name": name, "query": query}) + "\n" for name, query in rows)
