"""The memory of one more object of a kind, measured in a process of its own.

`python -m benchmarks.kept_bytes THING COUNT` prints a JSON object.  COUNT
objects are added to warm up, then COUNT again.  The answer has the growth of the
process (resident memory, released as far as the allocators do), the engine's own
counts, and the database's part, which it may also drop.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import apsw
import pyarrow as pa

from benchmarks.feed_items import BETWEEN, SECOND, START, items, wishes
from feeds.documents import Document
from xscl.engine.facade import Engine
from xscl.store.queries.documents import bytes_of_texts

SEED = 2009
BATCH = 500
JOIN = "feed//item->a[./title->t] FOLLOWED BY{t = u, INF} feed//item->b[./title->u]"
NEXT = "feed//item->a[./item_url->t] NEXT{t = u} feed//item->b[./description->u]"  # never

Sizes: TypeAlias = dict[str, int]
Bring: TypeAlias = Callable[[Engine, int, int], None]


def equal_subscriptions(engine: Engine, first: int, count: int) -> None:
    """Register equal subscriptions."""
    engine.subscribe_many((f"s{n}", JOIN) for n in range(first, first + count))


def distinct_subscriptions(engine: Engine, first: int, count: int) -> None:
    """Register distinct subscriptions: each has its own constants."""
    asked = wishes("b", first + count, SEED)[first:]
    engine.subscribe_many((f"s{n}", wish.query("INF")) for n, wish in enumerate(asked, first))


def joined_documents(engine: Engine, first: int, count: int) -> None:
    """Push feed items whose witnesses are kept without a window, for joins of all leaves."""
    if not engine.subscriptions:
        asked = wishes("a", 100, SEED)
        engine.subscribe_many((f"s{n}", wish.query("INF")) for n, wish in enumerate(asked))
    _push(engine, first, count)


def instances(engine: Engine, first: int, count: int) -> None:
    """Push feed items each of which is an instance of one temporal operator."""
    if not engine.subscriptions:
        engine.subscribe("next", NEXT)
    _push(engine, first, count)


THINGS: Mapping[str, Bring] = {
    "subscription, equal": equal_subscriptions,
    "subscription, distinct": distinct_subscriptions,
    "document": joined_documents,
    "instance": instances,
}


def _push(engine: Engine, first: int, count: int) -> None:
    for at in range(first, first + count, BATCH):
        engine.push(documents(at, min(BATCH, first + count - at)))


def documents(first: int, count: int) -> list[Document]:
    """Return some of an endless stream of feed items; parts do not refer to one another."""
    found = []
    for item in items(count, SEED + first):
        number = first + item.number
        ts = int((START + number * BETWEEN) * SECOND)
        text = item.document().xml.replace(b"example/", b"example/%d/" % first)
        text = text.replace(b"minute ", b"minute %d " % first)
        found.append(Document("feed", f"i{number}", ts, text))
    return found


def sizes(engine: Engine) -> Sizes:
    """Return counts and bytes of an engine's state."""
    kept = engine.state.processor.state.memory
    store = engine.transactions.store

    def number(query: str) -> int:
        ((found,),) = store.fetch(query)
        return int(found)

    tables = ("document", "text", "subscription")
    return {
        **{name: store.scan(name).num_rows for name in ("binding", "times", "value", "result")},
        **{name: number(f"SELECT count(*) FROM state.{name}") for name in tables},
        "text_bytes": bytes_of_texts(store),
        "core_bytes": number("SELECT coalesce(sum(length(entry)), 0) FROM state.core"),
        "database_bytes": apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)[0],
        "kept_rows": len(kept),
        "kept_bytes": kept.nbytes,
        "instances": engine.state.dataflow.core.stats()["instances"],
    }


def resident() -> int:
    """Return the resident bytes of this process, after releasing free memory."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def measure(thing: str, count: int) -> Sizes:
    """Return the memory of `count` more objects; `rss_bytes` is the process's growth."""
    with (
        TemporaryDirectory() as folder,
        Engine(Path(folder, "state.sqlite"), owns_process=True) as engine,
    ):
        found = []
        for first in (0, count):
            THINGS[thing](engine, first, count)
            counted = sizes(engine)
            found.append({**counted, "rss_bytes": resident()})
        before, after = found
        return {name: after[name] - before[name] for name in after}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
