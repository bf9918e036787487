"""CPU time of the engines of two checkouts, in turns: `python -m benchmarks.push_cost OTHER`.

Each checkout has an engine in a process of its own, with the same subscriptions and items, and its
environment in `.venv`.  A measurement is a run of actions in one of them, then in the other.
`read` asks for the newest page of matches after each push, on a
connection of its own, as the service does; `made` opens and closes an engine in memory; `register`
adds subscriptions one by one, `start` closes and opens the store.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from statistics import median

RUN = 64
"""Small pushes of a measurement: so many chunks are merged."""
MEASURES = {
    "push 1": RUN,
    "push 10": RUN,
    "push 1, read": RUN,
    "push 10, read": RUN,
    "push 10,000": 1,
    "made": 16,
    "register": 32,
    "start": 1,
}
"""What is measured, and the number of actions of a measurement."""
RUNS, UNCOUNTED = 8, 2
"""Measurements, and those at the beginning that do not count."""
SEED, KEPT = 103, 500
JOINS = 30
"""Subscriptions that join titles; the others have a constant that no item has."""


def serve(place: Path, subscriptions: int) -> None:
    """Measure what lines of the standard input say; answer with milliseconds of CPU."""
    import xscl
    from benchmarks.feed_items import items

    def opened() -> xscl.Engine:
        try:
            return xscl.Engine(place / "store", owns_process=True)
        except TypeError:  # of a release that always did
            return xscl.Engine(place / "store")

    count = KEPT + RUNS * (22 * RUN + 10_000)
    given = (item.document() for item in items(count, SEED))
    queries = _queries(subscriptions + RUNS * MEASURES["register"])
    engine = opened()
    engine.subscribe_many(islice(queries, subscriptions))
    engine.push(list(islice(given, KEPT)))

    def push(size: int, *, read: bool = False) -> Callable[[], None]:
        batches = [list(islice(given, size)) for _ in range(MEASURES[asked])]

        def act() -> None:
            engine.push(batches.pop())
            if read:
                engine.log.page_of_all(lambda _: True, newest_first=True)

        return act

    def start() -> None:
        nonlocal engine
        engine.close()
        engine = opened()

    prepared: dict[str, Callable[[], Callable[[], object]]] = {
        "push 1": lambda: push(1),
        "push 10": lambda: push(10),
        "push 1, read": lambda: push(1, read=True),
        "push 10, read": lambda: push(10, read=True),
        "push 10,000": lambda: push(10_000),
        "made": lambda: lambda: xscl.Engine().close(),
        "register": lambda: lambda: engine.subscribe(*next(queries)),
        "start": lambda: start,
    }
    for line in sys.stdin:
        asked = line.strip()
        action = prepared[asked]()
        began = time.process_time()
        for _ in range(MEASURES[asked]):
            action()
        print(1e3 * (time.process_time() - began) / MEASURES[asked], flush=True)
    engine.close()


def _queries(count: int) -> Iterator[tuple[str, str]]:
    for number in range(count):
        first = (
            f"[./channel_url->c{number}][./title->t]"
            if number < JOINS
            else f'[./title->t][contains(title, "w{number}a")]'
        )
        yield (
            f"s{number}",
            f"feed//item{first} FOLLOWED BY{{t=u, {number % JOINS + 1} d}} feed//item[./title->u]",
        )


def compared(
    trees: tuple[Path, Path], subscriptions: int, measures: Iterable[str]
) -> Iterator[tuple[str, list[float]]]:
    """Yield for each measure the median milliseconds of a run of each checkout."""
    with ExitStack() as stack:
        asks = [stack.enter_context(_served(tree, subscriptions)) for tree in trees]
        for measure in measures:
            spent = [[ask(measure) for ask in asks] for _ in range(RUNS)]
            yield measure, list(map(median, zip(*spent[UNCOUNTED:], strict=True)))


@contextmanager
def _served(tree: Path, subscriptions: int) -> Iterator[Callable[[str], float]]:
    """Start the process of a checkout; what is yielded measures in it."""
    with tempfile.TemporaryDirectory() as place:
        command = [
            tree / ".venv/bin/python",
            "-c",
            _START,
            Path(__file__).parent,
            place,
            subscriptions,
        ]
        with subprocess.Popen(
            list(map(str, command)),
            cwd=tree,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            given, answers = process.stdin, process.stdout
            assert given is not None
            assert answers is not None

            def ask(measure: str) -> float:
                print(measure, file=given, flush=True)
                return float(answers.readline())

            yield ask
            given.close()


# The other checkout may lack this module, so it is loaded from its file.
_START = (
    "import sys, runpy, pathlib; sys.path.insert(0, '');"
    " found = runpy.run_path(sys.argv[1] + '/push_cost.py');"
    " found['serve'](pathlib.Path(sys.argv[2]), int(sys.argv[3]))"
)


def main() -> None:
    """Print a line for each measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout to compare this one with")
    parser.add_argument("measures", nargs="*", help="what is measured; all, if none is said")
    parser.add_argument("--subscriptions", type=int, default=1_000)
    asked = parser.parse_args()
    trees = (asked.other.resolve(), Path(__file__).parents[1])
    for measure, (other, here) in compared(trees, asked.subscriptions, asked.measures or MEASURES):
        print(f"{measure:<14} {other:8.2f} ms : {here:8.2f} ms = {other / here:.2f}", flush=True)


if __name__ == "__main__":
    main()
