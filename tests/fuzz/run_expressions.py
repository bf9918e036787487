"""Register and evaluate drawn queries, and measure each: `python -m tests.fuzz.run_expressions`.

It prints one line of JSON: the number of queries, of accepted ones, the largest figures, and what
is over a limit.  It runs in a process of its own, whose time and memory the caller limits.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from random import Random
from typing import Any

from tests.fuzz.expressions import DOCUMENTS, Case, case
from xscl import Document, Engine
from xscl.errors import XsclError

RENEWED = 20
"""Queries that an engine takes at most, one after the other."""
CPU, MEMORY, DOCUMENT_CPU = 0.5, 100_000_000, 1.0
"""Limits of a query in seconds and bytes; of a document against it in seconds."""


def peak() -> int:
    """Return the largest resident size so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


class Measures:
    """The largest figures, and what is over its limit."""

    def __init__(self) -> None:
        self.accepted = 0
        self.largest: dict[str, tuple[float, str]] = {}
        self.wrong: list[tuple[str, str]] = []

    def note(self, what: str, value: float, limit: float, of: str) -> None:
        if value > self.largest.get(what, (0.0, ""))[0]:
            self.largest[what] = value, of[:300]
        if value > limit:
            self.wrong.append((f"{what} {value:.3f}", of[:3_000]))


def run(seed: int, count: int, *, pushes: bool = True) -> dict[str, Any]:
    """Try queries; each accepted one gets the documents in an engine that is used again."""
    logging.disable(logging.CRITICAL)
    random, found = Random(seed), Measures()
    engine = _engine()
    for number in range(count):
        drawn = case(random)
        accepted = _registered(engine, drawn, found)
        if accepted and pushes:
            _pushed(engine, drawn, number, found)
        if accepted and number % RENEWED:
            engine.unsubscribe("q", purge=True)
        elif accepted:
            engine.close()
            engine = _engine()
    engine.close()
    return {
        "seed": seed,
        "queries": count,
        "accepted": found.accepted,
        "largest": found.largest,
        "wrong": found.wrong,
    }


def _engine() -> Engine:
    engine = Engine()
    engine.stream("S", attributes={"k": str, "n": int, "f": float})
    return engine


def _registered(engine: Engine, drawn: Case, found: Measures) -> bool:
    """Register a query, and measure it; return whether it was taken."""
    before, began = peak(), time.process_time()
    try:
        engine.subscribe("q", drawn.text, language=drawn.language)
    except XsclError:
        accepted = False
    except Exception as error:
        found.wrong.append((f"{type(error).__name__}: {error}"[:300], drawn.text[:3_000]))
        accepted = False
    else:
        accepted = True
    found.accepted += accepted
    found.note("query cpu", time.process_time() - began, CPU, drawn.text)
    found.note("query bytes", peak() - before, MEMORY, drawn.text)
    return accepted


def _pushed(engine: Engine, drawn: Case, number: int, found: Measures) -> None:
    """Push the documents one by one, and read the matches."""
    for at, text in enumerate(DOCUMENTS):
        before, began = peak(), time.process_time()
        document = Document(
            "S", f"{number}-{at}", number * 10_000_000 + at * 1_000_000, text.encode()
        )
        try:
            pushed = engine.push([document])
            found.note("document cpu", time.process_time() - began, DOCUMENT_CPU, drawn.text)
            began = time.process_time()
            for match in list(pushed.matches)[:20]:
                match.xml()
                list(match.bindings)
            found.note("reading cpu", time.process_time() - began, 20 * CPU, drawn.text)
        except Exception as error:
            found.wrong.append((f"push: {type(error).__name__}: {error}"[:300], drawn.text[:3_000]))
            return
        found.note("document bytes", peak() - before, 3 * MEMORY, drawn.text)


if __name__ == "__main__":
    seed, count = map(int, sys.argv[1:3])
    print(json.dumps(run(seed, count)), flush=True)
