"""CPU time of small pushes of two checkouts, in turns: `python -m benchmarks.push_cost OTHER`.

Each checkout has an engine in a process of its own, with the same subscriptions and items
(`benchmarks.small_pushes`), and its environment in `.venv`.  A measurement is a run of pushes in
one of them, then in the other.  `read` asks for the newest page of matches after each push, on a
connection of its own, as the service does; `made` opens and closes an engine in memory.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

MEASURES = ("push 1", "push 10", "push 1, read", "push 10, read", "made")
SUBSCRIPTIONS = 1_000
KEPT = 500
RUN, RUNS = 64, 8
"""Actions of a measurement (as many as bring a journal to its database, or small chunks together),
and measurements, of which the first two do not count."""


def serve(place: Path) -> None:
    """Measure what a line of the standard input says; answer with milliseconds of CPU."""
    import xscl
    from benchmarks import small_pushes
    from benchmarks.feed_items import items

    documents = [one.document() for one in items(2 * KEPT + 22 * RUN * RUNS, small_pushes.SEED)]
    given = iter(documents[KEPT:])
    try:
        made_of = xscl.Engine(place / "store", owns_process=True)
    except TypeError:  # of a release that always did
        made_of = xscl.Engine(place / "store")
    with made_of as engine:
        engine.subscribe_many(small_pushes._queries(SUBSCRIPTIONS))
        engine.push(documents[:KEPT])
        pages = engine.host.log.pages()

        def push(size: int, *, read: bool) -> None:
            engine.push([next(given) for _ in range(size)])
            if read:
                pages.of_all(lambda _: True, newest_first=True)

        def made() -> None:
            xscl.Engine().close()

        actions: dict[str, Callable[[], None]] = {
            "push 1": lambda: push(1, read=False),
            "push 10": lambda: push(10, read=False),
            "push 1, read": lambda: push(1, read=True),
            "push 10, read": lambda: push(10, read=True),
            "made": made,
        }
        for asked in sys.stdin:
            action = actions[asked.strip()]
            began = time.process_time()
            for _ in range(RUN):
                action()
            print(json.dumps(1e3 * (time.process_time() - began) / RUN), flush=True)


def compared(trees: tuple[Path, Path]) -> Iterator[tuple[str, list[float]]]:
    """Yield for each measure the median milliseconds of a run of each checkout."""
    with ExitStack() as stack:
        asks = [stack.enter_context(_served(tree)) for tree in trees]
        for measure in MEASURES:
            spent = [[ask(measure) for ask in asks] for _ in range(RUNS)]
            yield measure, list(map(median, zip(*spent[2:], strict=True)))


@contextmanager
def _served(tree: Path) -> Iterator[Callable[[str], float]]:
    """Start the process of a checkout; what is yielded measures in it."""
    with tempfile.TemporaryDirectory() as place:
        command = [tree / ".venv/bin/python", "-c", _START, Path(__file__).parent, place]
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
    " runpy.run_path(sys.argv[1] + '/push_cost.py')['serve'](pathlib.Path(sys.argv[2]))"
)


def main() -> None:
    """Print a line for each measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="a checkout to compare this one with")
    trees = (parser.parse_args().other.resolve(), Path(__file__).parents[1])
    for measure, (other, here) in compared(trees):
        print(f"{measure:<14} {other:7.2f} ms : {here:7.2f} ms = {other / here:.2f}", flush=True)


if __name__ == "__main__":
    main()
