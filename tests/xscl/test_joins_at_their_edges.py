"""One history in which each edge of a join's definition decides, by every way of joining.

The properties draw such histories now and then; here every run has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest

import xscl
from templates.state import value_joins
from tests.joining import in_database
from tests.oracle.evaluation import matches
from tests.oracle.queries import (
    And,
    Comparison,
    Doc,
    Event,
    Expression,
    FollowedBy,
    Formula,
    Join,
    Push,
    Query,
    Subscribe,
    Subscription,
    Var,
)
from tests.oracle.steps import Block, Compare, Exists, Step
from tests.oracle.steps import Path as PatternPath
from tests.xscl.engine.player import pushed

WINDOW, LATE = 3, 2


def block(name: str, *, least: int | None = None, stream: str = "S") -> Block:
    """Return a pattern that binds `b` and `c` below an `a`, where some `c` may have a bound."""
    bound = [Exists(Step("child", tag, f"{name}{tag}")) for tag in "bc"]
    limit = [] if least is None else [Compare(PatternPath(Step("child", "c")), ">=", least)]
    return Block(stream, Step("descendant", "a", name, (*bound, *limit)))


def compared(tag: str, operator: str = "=") -> Formula:
    """Return a comparison of the children of one name."""
    assert operator in ("=", "!=")
    return Comparison(operator, Var(f"x{tag}"), Var(f"y{tag}"))  # type: ignore[arg-type]


X, Y = block("x"), block("y")
QUERIES: dict[str, Expression] = {
    "followed by": FollowedBy(X, Y, compared("b"), WINDOW),
    "join": Join(X, Y, compared("b"), WINDOW),
    "symmetric join": Join(X, Y, compared("b"), WINDOW, symmetric=True),
    "symmetric, between bounds": Join(X, Y, compared("b"), WINDOW, lower=1, symmetric=True),
    "join of two streams": Join(X, block("y", stream="R"), compared("b"), WINDOW),
    "without end": FollowedBy(X, Y, compared("b")),
    "two equalities": FollowedBy(X, Y, And((compared("b"), compared("c"))), WINDOW),
    "an inequality": Join(X, Y, And((compared("b"), compared("c", "!="))), WINDOW),
    "a condition": Join(X, block("y", least=2), compared("b"), WINDOW),
}
ARRIVED = (  # time, `b`, `c`
    (0, "u", 1),
    (3, "u", 1),  # at the end of the window of the first
    (3, "u", 2),  # at the same time
    (4, "u", 1),  # beyond the window of the first
    (4, "v", 2),  # another value
    (5, "z", 1),  # raises the clock to the end of what the first one waits for,
    (2, "u", 2),  # so that this one meets it
    (6, "z", 1),
    (1, "u", 3),  # and this one does not
    (9, "v", 3),
)
DOCUMENTS = [
    Doc(streams, f"d{number}", time, f"<a><b>{b}</b><c>{c}</c></a>".encode())
    for number, (time, b, c) in enumerate(ARRIVED, start=1)
    for streams in (("S", "R") if number % 4 == 0 else ("S",),)
]
LATENESS = {"S": LATE, "R": LATE}
EVENTS: tuple[Event, ...] = (
    *(Subscribe(Subscription(name, Query(one))) for name, one in QUERIES.items()),
    *map(Push, DOCUMENTS),
)


@contextmanager
def in_parts() -> Iterator[None]:
    """Make R_vj of the driving value joins, one document at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(value_joins, "FEW", 0)
        patch.setattr(value_joins, "PART", 1)
        yield


WAYS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "in memory": nullcontext,
    "in the database": in_database,
    "in parts": in_parts,
}


@pytest.fixture(scope="module")
def expected() -> dict[str, Counter[tuple[str, ...]]]:
    """The matches of the oracle, by subscription."""
    found: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in QUERIES}
    for name, documents, _ in matches(EVENTS, LATENESS):
        found[name][documents] += 1
    assert all(found.values())
    return found


@pytest.mark.parametrize("size", [1, len(DOCUMENTS)], ids=["one by one", "one batch"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_joining_keeps_every_edge(
    expected: dict[str, Counter[tuple[str, ...]]], way: str, size: int
) -> None:
    """All queries at once, and each alone: then what no other query needs is not even made."""
    alone = [(name,) for name in QUERIES if size > 1]
    for names in [tuple(QUERIES), *alone]:
        found = {name: Counter[tuple[str, ...]]() for name in names}
        with WAYS[way](), xscl.Engine() as engine:
            for stream, lateness in LATENESS.items():
                engine.stream(stream, lateness=lateness)
            engine.subscribe_many((name, Query(QUERIES[name]).text()) for name in names)
            for first in range(0, len(DOCUMENTS), size):
                for match in engine.push([pushed(one) for one in DOCUMENTS[first:][:size]]):
                    found[match.subscription][tuple(match.documents)] += 1
        assert found == {name: expected[name] for name in names}


@pytest.mark.parametrize("reopened", [False, True])
def test_eviction_keeps_what_a_later_document_may_meet(reopened: bool, tmp_path: Path) -> None:
    """Many rows have left their windows when one row is at the end of its own.

    Two equal values have made the engine load its join state into memory.
    """
    path = tmp_path / "state.sqlite"
    old = [row(f"old {number}", 0) for number in range(20)]
    with xscl.Engine(path) as engine:
        engine.subscribe("q", "S//a->x JOIN{x = y, 10} S//a->y")
        for pushed_together in (old, [row("kept", 4)], [row("kept", 5)]):
            engine.push(pushed_together)
        engine.push(row("later", 15))
        assert engine.sql("SELECT count(*) AS n FROM state.times").to_pylist() == [{"n": 2}]
        if not reopened:
            assert len(engine.push(row("kept", 15))) == 2
            return
    with xscl.Engine(path) as engine:
        assert len(engine.push(row("kept", 15))) == 2


def row(value: str, time: int) -> xscl.Document:
    return xscl.Document("S", f"{value} at {time}", time, f"<a>{value}</a>".encode())
