"""An engine on a disk that fails: `python -m tests.simulation.losses DIRECTORY`, with the recorder.

For each N, the Nth change to a file and some after it fail, with ENOSPC or EIO.  What has failed
is done again until it succeeds, in the same process.  Then the store has each document and match
of the model once, on every connection, and so has what a loss of power leaves after each failure.
"""

from __future__ import annotations

import argparse
import errno
import itertools
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import xscl
from feeds.documents import Document
from tests.simulation import disk
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.store import database

QUERY = "S//a[./k->x] FOLLOWED BY{x=y, 30 d} S//a[./k->y]"
BATCHES = 4
PATIENCE = 60.0


def persist(work: Callable[[], object]) -> int:
    """Repeat some work until it succeeds; return how often it has failed."""
    until, failures = time.monotonic() + PATIENCE, 0
    while True:
        try:
            work()
            return failures
        except xscl.NameTaken:  # what was reported as failed is there
            return failures
        except (xscl.XsclError, OSError):
            failures += 1
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def batch(number: int) -> list[Document]:
    """Return the documents of a batch: two, one of which joins those of all other batches.

    A commit writes several pages of the log, so that any of them may fail.
    """
    text = "".join(f"{number} {at} " for at in range(1_000))
    return [
        Document("S", f"{number}-{key}", number + 1, f"<a><k>{key}</k>{text}</a>".encode())
        for key in ("all", f"k{number}")
    ]


def differences(engine: xscl.Engine, batches: int) -> list[str]:
    """Return in what an engine differs from the model."""
    if engine.subscription("pairs") is None:
        return ["the subscription is not there"]
    every = [document for number in range(batches) for document in batch(number)]
    kept = "SELECT d.id, t.xml FROM state.document d JOIN state.text t USING (doc)"
    texts = Counter((name, bytes(xml)) for name, xml in engine.transactions.store.fetch(kept))
    if texts != Counter((document.id, document.xml) for document in every):
        return [f"the texts of {sorted(name for name, _ in texts)} are not those of the documents"]
    pairs = Counter(
        (f"{one}-all", f"{other}-all") for other in range(batches) for one in range(other)
    )
    found = {
        "matches": Counter(match.documents for match in engine.matches()),
        "page": Counter(match.documents for match in engine.matches_of("pairs").matches),
    }
    return [f"{name} differ: {dict(those)}" for name, those in found.items() if those != pairs]


def lose(root: Path, code: int, after: int, count: int) -> tuple[int, list[str]]:
    """Make `count` changes fail after some; return the number of failures and the violations."""
    under = root / "under" / "data"
    path, recorded = under / "state.sqlite", disk.Disk(under, root / "log")
    under.mkdir()
    left = [(under, BATCHES)]  # the directories of stores, with so many batches
    failures = 0

    def try_on(work: Callable[[], object], batches: int) -> None:
        nonlocal failures
        if failed := persist(work):
            failures += failed
            left.append((root / f"crashed{len(left)}", batches))
            recorded.crash(left[-1][0], random.Random(f"{code} {after} {count}"))

    with xscl.Engine(path) as engine, closing(engine.connect()) as beside:

        def write() -> None:
            with beside.transaction():
                beside.set_meta(beside=1)

        engine.subscribe("pairs", QUERY)
        engine.push(batch(0), source=BatchKey(SPOOL, 0, 0))
        beside.progress("position")
        disk.fail(code, after, count)
        for number in range(1, BATCHES):
            key = BatchKey(SPOOL, number, number)
            try_on(partial(engine.push, batch(number), source=key), number + 1)
        try_on(partial(engine.subscribe, "other", QUERY), BATCHES)
        try_on(write, BATCHES)
        disk.fail(0, 0, 0)
        wrong = differences(engine, BATCHES)
        if beside.meta("beside") != 1:
            wrong.append("what was written on another connection is not there")
    for directory, batches in left:
        try:
            with xscl.Engine(directory / path.name) as engine:
                wrong += [f"{directory.name}: {one}" for one in differences(engine, batches)]
        except xscl.StoreError as error:
            wrong.append(f"{directory.name}: {error}")
        shutil.rmtree(directory)
    return failures, wrong


def main() -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 20])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--checkpoints", action="store_true")
    asked = parser.parse_args()
    if asked.checkpoints:
        vars(database)["CHECKPOINT"] = 1
    failed, found = 0, list[str]()
    for code, count in itertools.product((errno.ENOSPC, errno.EIO), asked.counts):
        for after in range(0, 10_000, asked.every):
            failures, wrong = lose(asked.directory, code, after, count)
            failed += bool(failures)
            found += [f"{errno.errorcode[code]} {count} after {after}: {one}" for one in wrong]
            if not failures and after:
                break
    print(*found, f"{failed} with failures", sep="\n", flush=True)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
