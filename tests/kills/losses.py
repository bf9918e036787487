"""An engine on a disk that fails: `python -m tests.kills.losses DIRECTORY`, with the recorder.

For each N, the Nth change to a file and some after it fail, with ENOSPC or EIO.  What has failed
is done again until it succeeds, in the same process.  Then the store has each document and match
of the model once, on every connection, and so has what a loss of power leaves.  With `--power` no
change fails, and the power is cut behind each Nth change.
"""

from __future__ import annotations

import argparse
import errno
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import xscl
from feeds.documents import Document
from tests.simulation import disk
from xscl.documents.consumed_offsets import SPOOL, BatchKey
from xscl.ingestion.data_directory import DataDirectory
from xscl.store import database
from xscl.store.store import Store

QUERY = "S//a[./k->x] FOLLOWED BY{x=y, 30 d} S//a[./k->y]"
BATCHES = 4
PATIENCE = 60.0
ERRORS = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO}


@dataclass(frozen=True, slots=True)
class Fault:
    """`count` changes fail with an errno, the first one after `after` others."""

    name: str
    after: int
    count: int


def persist(work: Callable[[], object]) -> int:
    """Repeat some work until it succeeds; return how often it has failed."""
    until, failures = time.monotonic() + PATIENCE, 0
    while True:
        try:
            work()
            return failures
        except (xscl.StoreError, xscl.XsclError, OSError) as error:
            if isinstance(error, xscl.NameTaken):  # what was reported as failed is there
                return failures
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


def expected(batches: int) -> Counter[tuple[str, ...]]:
    """Return the documents of each match."""
    return Counter(
        (f"{one}-all", f"{other}-all") for other in range(batches) for one in range(other)
    )


def differences(engine: xscl.Engine, batches: int) -> list[str]:
    """Return in what an engine differs from the model."""
    if engine.subscription("pairs") is None:
        return ["the subscription is not there"]
    documents = Counter(engine.sql("SELECT id FROM documents")["id"].to_pylist())
    every = [document for number in range(batches) for document in batch(number)]
    wanted = Counter(document.id for document in every)
    kept = "SELECT d.id, t.xml FROM state.document d JOIN state.text t USING (doc)"
    texts = Counter((name, bytes(xml)) for name, xml in engine.host.transactions.store.fetch(kept))
    if texts != Counter((document.id, document.xml) for document in every):
        return [f"the texts of {sorted(name for name, _ in texts)} are not those of the documents"]
    matches = Counter(match.documents for match in engine.matches())
    page = Counter(match.documents for match in engine.matches_of("pairs").matches)
    found = {"documents": documents - wanted + (wanted - documents)}
    for name, those in (("matches", matches), ("page", page)):
        found[name] = (those - expected(batches)) + (expected(batches) - those)
    return [f"{name} differ: {dict(those)}" for name, those in found.items() if those]


def lose(place: Path, log: Path, fault: Fault) -> tuple[int, list[str]]:
    """Run an engine on a failing disk; return the number of failures and the violations."""
    path = DataDirectory(place / "data").database
    recorded = disk.Disk(path.parent, log)
    path.parent.mkdir(parents=True)
    crashed: list[tuple[Path, int]] = []  # what losses of power have left, with so many batches

    def persist_through_power_loss(work: Callable[[], object], batches: int) -> int:
        failures = persist(work)
        if failures:
            crashed.append((place.parent.parent / f"crashed{len(crashed)}", batches))
            recorded.crash(crashed[-1][0], random.Random(str(fault)))
        return failures

    with xscl.Engine(path) as engine:
        engine.subscribe("pairs", QUERY)
        engine.push(batch(0), source=BatchKey(SPOOL, 0, 0))
        with closing(engine.host.connect()) as beside:
            beside.progress("position")
            disk.fail(ERRORS[fault.name], fault.after, fault.count)
            failures = 0
            for number in range(1, BATCHES):
                push = partial(engine.push, batch(number), source=BatchKey(SPOOL, number, number))
                failures += persist_through_power_loss(push, number + 1)
            subscribe = partial(engine.subscribe, "other", QUERY)
            failures += persist_through_power_loss(subscribe, BATCHES)
            failures += persist_through_power_loss(lambda: _write(beside), BATCHES)
            disk.fail(0, 0, 0)
            wrong = differences(engine, BATCHES)
            if beside.meta("beside") != 1:
                wrong.append("what was written on another connection is not there")
    for directory, batches in [(path.parent, BATCHES), *crashed]:
        try:
            with xscl.Engine(directory / path.name) as engine:
                wrong += [f"{directory.name}: {one}" for one in differences(engine, batches)]
        except xscl.StoreError as error:
            wrong.append(f"{directory.name}: {error}")
    return failures, wrong


def lose_power(place: Path, log: Path, every: int) -> list[str]:
    """Cut the power behind each Nth change of pushes, and return the violations of what is left.

    Each batch that was pushed is there once, and of the one under way all or nothing.
    """
    path = DataDirectory(place / "data").database
    path.parent.mkdir(parents=True)
    pushed = []  # the sizes of the record, after each push
    with xscl.Engine(path) as engine:
        engine.subscribe("pairs", QUERY)
        begun = log.stat().st_size
        for number in range(3 * BATCHES):
            engine.push(batch(number), source=BatchKey(SPOOL, number, number))
            pushed.append(log.stat().st_size)
    draw, wrong = random.Random(7), list[str]()
    recorded = disk.Disk(place / "data", log, is_replayed=True)
    for size in [end for end in recorded.ends() if end >= begun][::every]:
        recorded.update(size)
        directory = place.parent.parent / f"crashed{size}"
        recorded.crash(directory, draw, is_scattered=draw.random() < 0.5)
        batches = sum(done <= size for done in pushed)
        try:
            with xscl.Engine(directory / path.name) as engine:
                of_both = (differences(engine, batches), differences(engine, batches + 1))
        except xscl.StoreError as error:
            wrong.append(f"{directory.name}: {error}")
        else:
            wrong += [f"{directory.name}: {one}" for one in min(of_both, key=len)]
        shutil.rmtree(directory)
    return wrong


def _write(store: Store) -> None:
    with store.transaction():
        store.set_meta(beside=1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 20])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--power", action="store_true", help="cut the power, and fail nothing")
    parser.add_argument("--plant", help="a defect of tests.simulation.planted")
    asked = parser.parse_args(arguments)
    if asked.plant:
        from tests.simulation.planted import DEFECTS  # imports a whole service

        DEFECTS[asked.plant]()
    if asked.power:
        wrong = lose_power(
            asked.directory / "under" / "place", asked.directory / "log", asked.every
        )
        print(*wrong, sep="\n", flush=True)
        return int(bool(wrong))
    if asked.checkpoints:
        vars(database)["CHECKPOINT"] = 1
    code, runs, failed = 0, 0, 0
    for name in ERRORS:
        for count in asked.counts:
            for after in range(0, 10_000, asked.every):
                fault = Fault(name, after, count)
                place = asked.directory / "under" / "place"
                failures, wrong = lose(place, asked.directory / "log", fault)
                shutil.rmtree(place)
                for left in asked.directory.glob("crashed*"):
                    shutil.rmtree(left)
                runs, failed = runs + 1, failed + bool(failures)
                for one in wrong:
                    code = 1
                    print(f"{fault}: {one}", flush=True)
                if not failures and after:
                    break
    print(f"{runs} runs, {failed} with failures", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
