"""A process that pushes documents, and subscribes with histories meanwhile; it is killed at times.

`python -m tests.kills.backfills STORE` goes on where the last one has ended.  It prints the name of
each subscription that it has acknowledged, and ends after the last document.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import xscl

DOCUMENTS, EVERY = 240, 20
"""Documents, and from one registration to the next."""
KINDS: Mapping[str, str] = {
    "pairs": "S//e->a[./k->x] FOLLOWED BY{x=y, 40 s} S//e->b[./k->y]",
    "next": "S//e->a[./k->x] NEXT{x=y} S//e->b[./k->y]",
    "not": "S//e->a[./k->x] NOT FOLLOWED BY{x=y, 3 s} S//e->b[./k->y]",
    "chain": "S//e->a[./k->x] JOIN{x=y, 9 s}"
    " (S//e->b[./k->y] FOLLOWED BY{y=z, 9 s} S//e->c[./k->z])",
}


def document(number: int) -> xscl.Document:
    """Return a document of the stream."""
    key = number * 7 % 5
    return xscl.Document("S", f"d{number}", 1_000_000 * number, f"<e><k>{key}</k></e>".encode())


def query_of(number: int) -> tuple[str, str]:
    """Return name and query of a registration."""
    kind = list(KINDS)[number % len(KINDS)]
    return f"{kind} {number}", KINDS[kind]


def main(path: Path) -> None:
    """Push all documents that are not there yet."""
    with xscl.Engine(path, retention=xscl.Retention(history=None)) as engine:
        catalog = engine.host.catalog

        def complete() -> None:
            catalog.backfills.serve(lambda: None, catalog.begin_without_past)

        reader = threading.Thread(target=complete)
        reader.start()
        try:
            last = engine.consumed("killed")
            for number in range(0 if last is None else last + 1, DOCUMENTS):
                name, query = query_of(number // EVERY)
                if number % EVERY == EVERY // 2 and engine.subscription(name) is None:
                    catalog.subscribe_from(name, query, since=1 << 60)
                if number % EVERY == EVERY // 2:
                    print(name, flush=True)
                engine.push(document(number), source=("killed", number))
            for number in list(engine.host.state.subscriptions.backfills):
                catalog.backfills.completion(number).result()
        finally:
            catalog.backfills.end()
            reader.join()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
