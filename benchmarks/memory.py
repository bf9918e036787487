"""`memory`: the memory of a subscription, document, witness row and instance; a day of state.

The first part measures the growth of resident memory in processes of their own (`kept_bytes`),
beside the engine's own counts.  The database's blocks are part of both.  It caches what it has
read as long as there is room, so `bytes` excludes them and `database_bytes` lists them.

The second part is 24 hours of feed items in virtual time, with windows of half
an hour to two hours: joins, NOT FOLLOWED BY, and NEXT, which waits for the next
item of a channel and so has at most one instance for each.  The state is
counted every hour; it may grow until the windows have passed, not after.
Eviction waits until an eighth of the state has expired, so the counts vary by
that.  At the end there are two items, each after three hours without any.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.catalog import STATE
from benchmarks.feed_items import BETWEEN, SECOND, START, items
from benchmarks.harness import Options, Row, Value, module_profile
from benchmarks.kept_bytes import Sizes, resident, sizes
from feeds.documents import Document
from xscl import Retention
from xscl.engine.facade import Engine

NAME = "memory"
SEED = 2009
HOUR = 3_600 * SECOND
THINGS = {
    "subscription, equal": "subscription",
    "subscription, distinct": "subscription",
    "document": "document",
    "witness row": "kept_rows",
    "instance": "instances",
}
"""What is measured, and the count of the engine that says how many more there are."""
BROUGHT_AS = {"witness row": "document"}
OWN_COUNTS = {
    "document": {
        "join_state_bytes": "kept_bytes",
        "witness_rows": "kept_rows",
        "text_bytes": "text_bytes",
    },
    "witness row": {"join_state_bytes": "kept_bytes"},
    "instance": {"snapshot_bytes": "core_bytes"},
}
QUICK_COUNT, COUNT = 3_000, 50_000
QUERIES = {
    "titles": "feed//item->a[./title->t] FOLLOWED BY{t = u, 1 h} feed//item->b[./title->u]",
    "texts": "feed//item->a[./description->t] JOIN{t = u, 30 min} feed//item->b[./title->u]",
    "urls": "feed//item->a[./item_url->t] FOLLOWED BY{t = u, 2 h} feed//item->b[./item_url->u]",
    "silence": "feed//item->a[./title->t] NOT FOLLOWED BY{t = u, 1 h} feed//item->b[./title->u]",
    "next": "feed//item->a[./channel_url->t] NEXT{t = u} feed//item->b[./channel_url->u]",
}
RETENTION = Retention.of(history=0, matches="1 h", identities="1 h")


@dataclass(frozen=True, slots=True)
class Day:
    """Hours of feed items, `faster` than the feeds of the paper, in batches."""

    hours: int = 24
    faster: int = 4
    batch: int = 20


QUICK_DAY, DAY = Day(), Day(faster=40, batch=100)


def run(options: Options) -> Iterator[Row]:
    """Yield bytes for each thing, then the state after each hour of a day."""
    count = QUICK_COUNT if options.quick else COUNT
    for thing in THINGS:
        yield each(thing, count)
    day = QUICK_DAY if options.quick else DAY
    yield from _day(day)
    if options.profile:
        yield module_profile(NAME, {"variant": "24 h"}, lambda: list(hours(day)))


# -- One more ----------------------------------------------------------------------------------


def each(thing: str, count: int) -> Row:
    """Return the bytes of one more object of a kind."""
    command = [sys.executable, "-m", "benchmarks.kept_bytes"]
    command += [BROUGHT_AS.get(thing, thing), str(count)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return _each(thing, json.loads(answer.stdout))


def _each(thing: str, grown: Sizes) -> Row:
    more = grown[THINGS[thing]]
    rest = grown["rss_bytes"] - grown["database_bytes"]
    figures: dict[str, Value] = {
        "count": more,
        "bytes": rest / more,
        "rss_bytes": grown["rss_bytes"] / more,
        "database_bytes": grown["database_bytes"] / more,
    }
    for name, counted in OWN_COUNTS.get(thing, {}).items():
        figures[name] = grown[counted] / more
    return Row(NAME, {"variant": thing, "storage": "file"}, figures)


# -- A day -------------------------------------------------------------------------------------


def _day(day: Day) -> Iterator[Row]:
    series: list[Sizes] = []
    for hour, counted in enumerate(hours(day), 1):
        series.append(counted)
        parameters: dict[str, Value] = {"variant": "24 h", "hour": hour, "faster": day.faster}
        if hour > day.hours:
            parameters["after"] = "6 h with two items"
        figures: dict[str, Value] = {name: counted[name] for name in STATE}
        figures["join_state_bytes"] = counted["kept_bytes"]
        figures["database_bytes"] = counted["database_bytes"]
        figures["rss_bytes"] = resident()
        yield Row(NAME, parameters, figures)
    growth = {name: largest_late_to_early(series[: day.hours], name) for name in STATE}
    yield Row(NAME, {"variant": "24 h", "ratio_of": "last quarter to second"}, dict(growth))


def hours(day: Day) -> Iterator[Sizes]:
    """Yield the state at the end of each hour, and after six more hours with two items."""
    with (
        TemporaryDirectory() as folder,
        Engine(Path(folder, "state.sqlite"), owns_process=True) as engine,
    ):
        engine.retain(RETENTION)
        engine.subscribe_many(QUERIES.items())
        *pushed, one, other = _documents(day)
        begin = START * SECOND
        for hour in range(1, day.hours + 1):
            due = [d for d in pushed if (d.timestamp - begin) // HOUR == hour - 1]
            for at in range(0, len(due), day.batch):
                engine.push(due[at : at + day.batch])
            yield sizes(engine)
        engine.push(one)
        engine.push(other)
        yield sizes(engine)


def _documents(day: Day) -> list[Document]:
    """Return the items of a day, and two that come late after it."""
    begin = START * SECOND
    count = int(day.hours * 3_600 / BETWEEN * day.faster)
    found = []
    for item in items(count + 2, SEED):
        ts = begin + (item.ts - begin) // day.faster
        found.append(replace(item.document(), timestamp=ts))
    *rest, one, other = found
    ends = (begin + (day.hours + hours) * HOUR for hours in (3, 6))
    return [*rest, *(replace(d, timestamp=ts) for d, ts in zip((one, other), ends, strict=True))]


def largest_late_to_early(series: Sequence[Sizes], name: str) -> float:
    """Return the maximum of a count in the last quarter of a series, by that of the second."""
    quarter = len(series) // 4
    late = max(counted[name] for counted in series[-quarter:])
    early = max(counted[name] for counted in series[quarter : 2 * quarter])
    return late / max(early, 1)
