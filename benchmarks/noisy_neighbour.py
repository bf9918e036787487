"""`noisy-neighbour`: what one user's residual condition costs the subscriptions of others.

Two engines have the same subscriptions over feed items: conditions on titles by the shared index.
One has also a residual that no index narrows, of each kind in turn.  Both receive the same items
in turns, so the ratio of their processor times holds on a busy machine.  The matches of the shared
subscriptions are compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import xscl
from benchmarks.feed_items import items
from benchmarks.harness import Options, Row, require_equal

NAME = "noisy-neighbour"
SEED = 80
BATCH = 50
QUICK_SIZES, SIZES = (1_000, 600), (20_000, 3_000)
RESIDUALS = {
    "absent names": "feed//item[published > seen_at or description = author]",
    "union": "feed//title/following-sibling::author | feed//author[2]",
    "mapped": "feed//item[title ! upper-case(.) = 'X']",
    "quantified": "feed//item[some $a in * satisfies upper-case($a) = 'X']",
    "alternatives": "feed//item[if (title) then description = 'x' else false()]",
    "cast": "feed//item[xs:dateTime(title) > xs:dateTime('2026-01-01T00:00:00Z')]",
    "pieces": "feed//item[tokenize(title, ' ')[1] = 'X']",
    "sequence": "feed//item[count(distinct-values(tokenize(title, ' '))) > 99]",
    "words": "feed//item[some $w in tokenize(title) satisfies string-length($w) > 99]",
    "compare": "feed//item[compare(title, description) = 9]",
    "all nodes": "feed//item[.//* = //*/@*]",
}


def run(options: Options) -> Iterator[Row]:
    """Yield the ratio for each kind of residual."""
    subscriptions, count = QUICK_SIZES if options.quick else SIZES
    for kind, residual in RESIDUALS.items():
        yield compared(kind, residual, subscriptions, count)


def compared(kind: str, residual: str, subscriptions: int, count: int) -> Row:
    """Return the cost of one residual beside shared subscriptions."""
    documents = [item.document() for item in items(count, SEED)]
    quiet = [
        (f"quiet-{number}", f'feed//item[contains(lower-case(title), "{word}")]')
        for number, word in enumerate(_words(subscriptions))
    ]
    with xscl.Engine(owns_process=True) as alone, xscl.Engine(owns_process=True) as beside:
        engines = {"alone": alone, "beside": beside}
        for engine in engines.values():
            engine.subscribe_many(quiet)
        beside.subscribe("noisy", residual)
        spent = dict.fromkeys(engines, 0.0)
        found: dict[str, list[tuple[str, tuple[str, ...]]]] = {name: [] for name in engines}
        for start in range(0, count, BATCH):
            for name, engine in engines.items():
                began = time.process_time()
                matches = engine.push(documents[start : start + BATCH]).matches
                if start >= count // 4:
                    spent[name] += time.process_time() - began
                found[name] += [
                    (match.subscription, match.documents)
                    for match in matches
                    if match.subscription != "noisy"
                ]
    matched = require_equal(found["beside"], found["alone"], kind)
    return Row(
        NAME,
        {"residual": kind, "subscriptions": subscriptions, "items": count},
        {
            "alone_ms_per_item": 1e3 * spent["alone"] / (count - count // 4),
            "ratio": spent["beside"] / spent["alone"],
            "matches": matched,
        },
    )


def _words(count: int) -> Iterator[str]:
    """Yield different words, most of which occur in no title."""
    for number in range(count):
        yield f"word{number}" if number % 10 else f"{number}a"
