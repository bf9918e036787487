"""One history in which each edge of an operator's definition decides, by every way of joining.

The properties draw such histories now and then; here every run has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import combinations, permutations
from pathlib import Path
from typing import TypeAlias

import pytest

import xscl
from templates.state import value_joins
from tests.examples import MORE
from tests.joining import in_database
from tests.oracle import queries as lang
from tests.oracle.evaluation import replay
from tests.oracle.queries import Comparison, Decorated, FollowedBy, Join, Var
from tests.oracle.steps import Block, Compare, Exists, Step
from tests.oracle.steps import Path as PatternPath
from tests.xscl.engine.player import pushed

WINDOW, LATE = 3, 2
Found: TypeAlias = tuple[tuple[str, ...], int, int]
"""The documents of a match by block, its begin and its end."""


def block(name: str, *, least: int | None = None, stream: str = "S") -> Block:
    """Return a pattern that binds `b` and `c` below an `a`, where some `c` may have a bound."""
    bound = [Exists(Step("child", tag, f"{name}{tag}")) for tag in "bc"]
    limit = [] if least is None else [Compare(PatternPath(Step("child", "c")), ">=", least)]
    return Block(stream, Step("descendant", "a", name, (*bound, *limit)))


def compared(tag: str, operator: str = "=") -> lang.Formula:
    """Return a comparison of the children of one name."""
    return Comparison(operator, Var(f"x{tag}"), Var(f"y{tag}"))  # type: ignore[arg-type]


def fold(*, longest: bool = False) -> lang.Fold:
    """Return runs of rising `c` with one `b`."""
    left, right = (
        Block("S", Step("child", "a", None, (Exists(Step("child", "b", b)), rising)))
        for b, rising in (("g", Exists(Step("child", "c", "k_1"))), ("h", RISING))
    )
    same, more = (
        Comparison("=", Decorated(2, "h"), Decorated(1, "g")),
        Comparison(">", Decorated(2, "k"), Decorated(0, "k")),
    )
    return lang.Fold(left, right, same, more, (), longest)


RISING = Exists(Step("child", "c", "k"))
X, Y = block("x"), block("y")
SAME = compared("b")
JOINS: dict[str, lang.Expression] = {
    "followed by": FollowedBy(X, Y, SAME, WINDOW),
    "followed by, between bounds": FollowedBy(X, Y, SAME, 4, lower=2),
    "followed by, from a bound on": FollowedBy(X, Y, SAME, None, lower=3),
    "join": Join(X, Y, SAME, WINDOW),
    "join, between bounds": Join(X, Y, SAME, WINDOW, lower=-1),
    "join, before": Join(X, Y, SAME, -1, lower=-3),
    "symmetric join": Join(X, Y, SAME, WINDOW, symmetric=True),
    "symmetric, between bounds": Join(X, Y, SAME, WINDOW, lower=1, symmetric=True),
    "join of two streams": Join(X, block("y", stream="R"), SAME, WINDOW),
    "without end": FollowedBy(X, Y, SAME),
    "two equalities": FollowedBy(X, Y, lang.And((SAME, compared("c"))), WINDOW),
    "an inequality": Join(X, Y, lang.And((SAME, compared("c", "!="))), WINDOW),
    "a condition": Join(X, block("y", least=2), SAME, WINDOW),
}
ABSENCES: dict[str, lang.Expression] = {
    "not": FollowedBy(X, Y, SAME, WINDOW, negated=True),
    "not, between bounds": FollowedBy(X, Y, SAME, 4, negated=True, lower=2),
}
OVER_TIME: dict[str, lang.Expression] = {
    "else": FollowedBy(X, Y, SAME, WINDOW, otherwise=True),
    "else, between bounds": FollowedBy(X, Y, SAME, 4, otherwise=True, lower=2),
    "outer": Join(X, Y, SAME, 1, otherwise="both"),
    "outer, between bounds": Join(X, Y, SAME, 2, lower=-1, otherwise="both"),
    "left": Join(X, block("y", stream="R"), SAME, 2, lower=1, otherwise="left"),
    "right": Join(X, block("y", least=2), SAME, -1, lower=-3, otherwise="right"),
    "next": lang.Next(X, Y, SAME),
    "fold": fold(),
    "longest fold": fold(longest=True),
}
QUERIES = JOINS | ABSENCES | OVER_TIME
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
    lang.Doc(streams, f"d{number}", time, f"<a><b>{b}</b><c>{c}</c></a>".encode())
    for number, (time, b, c) in enumerate(ARRIVED, start=1)
    for streams in (("S", "R") if number % 4 == 0 else ("S",),)
]
LATENESS = {"S": LATE, "R": LATE}
EVENTS: tuple[lang.Event, ...] = (
    *(lang.Subscribe(lang.Subscription(name, lang.Query(one))) for name, one in QUERIES.items()),
    *map(lang.Push, DOCUMENTS),
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
def expected() -> dict[str, Counter[Found]]:
    """The matches of the oracle, by subscription."""
    found: dict[str, Counter[Found]] = {name: Counter() for name in QUERIES}
    for (name, documents, _), rows in replay(EVENTS, LATENESS).items():
        found[name][documents, rows[0].t0, rows[0].t1] += 1
    assert all(found.values())
    return found


def subscribed(path: Path | None, names: Sequence[str], **kept: xscl.Retention) -> xscl.Engine:
    """Return an engine, which has some of the queries unless it has been opened before."""
    engine = xscl.Engine(path, **kept)  # type: ignore[arg-type]  # no other argument
    if not engine.subscriptions:
        for stream, lateness in LATENESS.items():
            engine.stream(stream, lateness=lateness)
        engine.subscribe_many((name, lang.Query(QUERIES[name]).text()) for name in names)
    return engine


def found_in(engine: xscl.Engine, names: Sequence[str]) -> dict[str, Counter[Found]]:
    """Return the matches of an engine, by subscription."""
    return {
        name: Counter((one.by_block, one.t0, one.t1) for one in engine.matches(name))
        for name in names
    }


@pytest.mark.parametrize("size", [1, len(DOCUMENTS)], ids=["one by one", "one batch"])
@pytest.mark.parametrize("way", WAYS)
def test_every_way_of_joining_keeps_every_edge(
    expected: dict[str, Counter[Found]], way: str, size: int
) -> None:
    """All queries at once, and joins alone: then what no other query needs is not even made."""
    for names in [tuple(QUERIES), *((name,) for name in JOINS if size > 1)]:
        with WAYS[way](), subscribed(None, names) as engine:
            for first in range(0, len(DOCUMENTS), size):
                engine.push([pushed(one) for one in DOCUMENTS[first:][:size]])
            engine.flush()
            assert found_in(engine, names) == {name: expected[name] for name in names}


def test_a_restart_after_each_document_keeps_every_edge(
    expected: dict[str, Counter[Found]], tmp_path: Path
) -> None:
    for one in DOCUMENTS:
        with subscribed(tmp_path / "state.sqlite", [*QUERIES]) as engine:
            engine.push(pushed(one))
    with subscribed(tmp_path / "state.sqlite", [*QUERIES]) as engine:
        engine.flush()
        assert found_in(engine, [*QUERIES]) == expected


@pytest.mark.parametrize("reopened", [False, True])
def test_a_document_joins_later_ones_that_came_before(reopened: bool, tmp_path: Path) -> None:
    """In any order of arrival, before and after 1970, and with a restart after each document."""
    for number, times in enumerate(permutations((-5, -3, 0))):
        path, found = tmp_path / f"{number}.sqlite", set[tuple[str, ...]]()
        with xscl.Engine(path) as engine:
            engine.subscribe("q", "S//a->x FOLLOWED BY{x = y, 9} S//a->y")
            for time in () if reopened else times:
                found.update(match.documents for match in engine.push(row("kept", time)))
        for time in times if reopened else ():
            with xscl.Engine(path) as engine:
                found.update(match.documents for match in engine.push(row("kept", time)))
        assert found == {*combinations(("kept at -5", "kept at -3", "kept at 0"), 2)}


@pytest.mark.parametrize("name", QUERIES)
def test_why_agrees_at_every_edge(expected: dict[str, Counter[Found]], name: str) -> None:
    """A side that is absent is written as `-`; the pair of a symmetric join has no order."""
    ids = [one.id for one in DOCUMENTS]
    pairs = [(one, other) for one in ids for other in ids if name not in ABSENCES]
    query = QUERIES[name]
    if isinstance(query, FollowedBy) and (query.negated or query.otherwise):
        pairs += [(one, "-") for one in ids]
    elif isinstance(query, Join):
        pairs += [(one, "-") for one in ids if query.otherwise in ("both", "left")]
        pairs += [("-", one) for one in ids if query.otherwise in ("both", "right")]
    matched = {documents for documents, _, _ in expected[name]}

    def is_match(pair: tuple[str, str]) -> bool:
        given = tuple("" if one == "-" else one for one in pair)
        given = given[:1] if name in ABSENCES else given
        return given in matched or (name.startswith("symmetric") and given[::-1] in matched)

    pairs = sorted((one for one in pairs if one[0] != one[1]), key=is_match)
    others = sum(not is_match(one) for one in pairs)
    with subscribed(None, [name], retention=xscl.Retention.of(history="1 d")) as engine:
        engine.push([pushed(one) for one in DOCUMENTS])
        engine.flush()
        for pair in pairs[: others : 1 if MORE > 1 else 3] + pairs[others:]:
            assert engine.why(name, *pair).matched == is_match(pair), pair


@pytest.mark.parametrize("reopened", [False, True])
def test_eviction_keeps_what_a_later_document_may_meet(path: Path, reopened: bool) -> None:
    """Many rows have left their windows when one row is at the end of its own.

    Two equal values have made the engine load its join state into memory.
    """
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
