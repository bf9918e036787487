r"""The worked examples of NEXT CEP (Schultz-Møller, Migliavacca and Pietzuch, DEBS 2009).

Figures 1 and 4 are pictures that the text describes: Figure 1's events lie one after the other as
the text has them, and Figure 4's rates are chosen so that the tree and the cost in its caption
follow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import pytest

import cep_core
from cep_core.algebra import Chain, Choice, One
from cep_core.algebra.pattern_tree import PatternTree
from cep_core.events import Event
from cep_core.rewrite.cost import (
    Estimate,
    estimate,
    followed,
    of_source,
    optimal_next,
    optimal_union,
    united,
)
from tests.cep_core.engines import engine_of, engine_with, rows_found, values_found

HOUR = 3_600
FRAUD = """
SELECT * FROM ( t S1 ; t S2 ; t L )
WHERE FILTER(S1.acc = S2.acc), FILTER(S2.acc = L.acc),
      S1.amount < 100 AND S2.amount < 100 AND
      L.amount > 250 AND (S1, L) OCCURS WITHIN 12 hours
"""
LARGE = """
SELECT * FROM ( t T1; t T2; t T3 )
WHERE FILTER(T1.acc = T2.acc), FILTER(T2.acc = T3.acc),
      T1.amount > 1000 AND T2.amount > 1000
      AND T3.amount > 1000
"""
CURRENCIES = """
SELECT * FROM t T1+; t T2
WHERE ALL(T1.currency) <> T2.currency
"""
Found = list[tuple[int, int, tuple[Any, ...]]]


def run(query: str, events: Sequence[Event], **streams: Mapping[str, type]) -> Found:
    """The matches of a query: when they begin and end, and their values."""
    found = rows_found(engine_with(streams), query, events, "eql")
    return [(event.t0, event.t1 or 0, event.values) for event in found]


def ids(query: str, events: str, intervals: Sequence[tuple[int, int]] = ()) -> list[str]:
    """The matches of a query over streams E1, E2, E3 and Z, as the ids of their events.

    Events are written stream:id, one a tick.
    """
    made = []
    for place, word in enumerate(events.split()):
        stream, name = word.split(":")
        t0, t1 = intervals[place] if intervals else (place, place)
        made.append(Event(stream, (name,), t0, t1))
    streams = {name: {"id": str} for name in ("E1", "E2", "E3", "E4", "Z")}
    return ["".join(values) for _, _, values in run(query, made, **streams)]


# -- section 3.2 ---------------------------------------------------------------------------

FIGURE_1 = "E1:a E2:b E2:c E2:d E3:e"


def test_figure_1_has_three_pairs_and_one_triple() -> None:
    assert ids("SELECT * FROM E2 ; E3", FIGURE_1) == ["be", "ce", "de"]
    assert ids("SELECT * FROM E1 ; (E2 ; E3)", FIGURE_1) == ["abe"]
    assert ids("SELECT * FROM (E1 ; E2) ; E3", FIGURE_1) == ["abe"]


def test_events_that_end_together_are_all_successors() -> None:
    """Differs from section 3.2, where of [4, 6] and [5, 6] the one that began first is taken."""
    events, times = "E1:a E2:b E2:c", [(1, 1), (5, 6), (4, 6)]
    assert sorted(ids("SELECT * FROM E1 ; E2", events, times)) == ["ab", "ac"]


@pytest.mark.parametrize("rates", [None, (1, 1, 100), (1, 100, 1), (100, 1, 1), (100, 100, 1)])
@pytest.mark.parametrize("query", ["(A S1 ; B S2) ; C L", "A S1 ; (B S2 ; C L)"])
def test_parentheses_say_nothing(query: str, rates: tuple[int, ...] | None) -> None:
    r"""FILTER(S2.x = L.x): the first S2 and an L that fits it.

    Differs from section 3.2, where A ; (B ; C) takes the first pair that fits.
    """
    core = cep_core.Engine(ticks_per_second=1)
    for name, rate in zip("ABC", rates or (None, None, None), strict=True):
        core.stream(name, {"x": int}, rate=rate)
    text = f"SELECT * FROM {query} WHERE FILTER(S2.x = L.x)"
    numbers = [("A", 0), ("B", 1), ("B", 2), ("C", 2), ("C", 1)]
    events = [Event(stream, (x,), time) for time, (stream, x) in enumerate(numbers)]
    assert values_found(core, text, events, "eql") == [(0, 1, 1)]
    assert "NEXT FIRST" not in core.explain("q")


def test_a_sequence_without_filters_is_put_in_other_parentheses() -> None:
    core = cep_core.Engine(ticks_per_second=1)
    for name, rate in (("A", 128.0), ("B", 1.0), ("C", 64.0)):
        core.stream(name, {"x": int}, rate=rate)
    core.register("q", "SELECT * FROM (A S1 ; B S2) ; C L", language="eql")
    assert "NEXT FIRST" in core.explain("q")
    events = [Event(stream, (x,), x) for x, stream in enumerate("ABABC")]
    found = [event.values for _, event in [*core.push(events), *core.close()]]
    assert sorted(found) == [(0, 1, 4), (2, 3, 4)]


# -- sections 1.1 and 3.4 ------------------------------------------------------------------

TRANSACTION = {"acc": str, "amount": float, "currency": str}


def pay(account: str, amount: float, hour: float, currency: str = "EUR") -> Event:
    return Event("t", (account, amount, currency), round(hour * HOUR))


def amounts(found: Found) -> list[tuple[Any, ...]]:
    return [tuple(v for v in values if not isinstance(v, str)) for _, _, values in found]


def test_small_purchases_before_a_large_one() -> None:
    events = [
        *(pay("a", 10, 0), pay("b", 20, 1), pay("a", 30, 2), pay("b", 900, 3), pay("a", 300, 4)),
        *(pay("c", 10, 5), pay("c", 10, 6), pay("c", 300, 17)),
        *(pay("d", 10, 20), pay("d", 10, 21), pay("d", 300, 32.5)),
    ]
    assert amounts(run(FRAUD, events, t=TRANSACTION)) == [(10, 30, 300), (10, 10, 300)]


def test_a_large_one_after_exactly_twelve_hours_is_within_them() -> None:
    events = [pay("c", 10, 0), pay("c", 10, 1), pay("c", 300, 12)]
    assert len(run(FRAUD, events, t=TRANSACTION)) == 1
    events[-1] = events[-1]._replace(t0=12 * HOUR + 1)
    assert run(FRAUD, events, t=TRANSACTION) == []


def test_a_transaction_of_another_size_ends_the_detection_that_of_another_card_does_not() -> None:
    events = [
        *(pay("a", 10, 0), pay("b", 500, 1), pay("a", 150, 2), pay("a", 20, 3), pay("a", 300, 4))
    ]
    assert run(FRAUD, events, t=TRANSACTION) == []


def test_three_consecutive_large_transactions_of_an_account() -> None:
    events = [
        *(pay("a", 2_000, 0), pay("b", 5_000, 1), pay("a", 3_000, 2), pay("b", 10, 3)),
        *(pay("a", 4_000, 4), pay("b", 6_000, 5), pay("b", 7_000, 6), pay("a", 500, 7)),
        pay("b", 8_000, 8),
    ]
    assert amounts(run(LARGE, events, t=TRANSACTION)) == [
        (2_000, 3_000, 4_000),
        (6_000, 7_000, 8_000),
    ]


def test_discarded_instances_take_no_memory() -> None:
    """The query of section 3.4: Cayuga's sequence would keep an instance for each transaction."""
    core = engine_of(["t"], TRANSACTION)
    core.register("large", LARGE, language="eql")
    kept = []
    for second in range(400):
        core.push([Event("t", ("a", 2_000.0 if second % 2 else 10.0, "EUR"), second)])
        kept.append(core.stats()["instances"])
    assert max(kept) <= 3
    assert kept[-1] <= 3


def test_a_currency_that_was_not_used_before() -> None:
    events = [pay("a", 1, n, currency) for n, currency in enumerate(("EUR", "USD", "EUR", "GBP"))]
    found = run(CURRENCIES, events, t=TRANSACTION)
    assert sorted((t0 // HOUR, values[2], values[-1]) for t0, _, values in found) == [
        (0, ("EUR",), "USD"),
        (0, ("EUR", "USD", "EUR"), "GBP"),
        (1, ("USD",), "EUR"),
        (1, ("USD", "EUR"), "GBP"),
        (2, ("EUR",), "GBP"),
    ]


# -- the exception -------------------------------------------------------------------------


@pytest.mark.parametrize("query", [r"(E1 ; E2) \ Z", r"E1 ; (E2 \ Z)"])
@pytest.mark.parametrize(
    ("events", "times", "found"),
    [
        ("Z:z E1:a E2:b", (0, 1, 2), ["ab"]),  # before
        ("E1:a Z:z E2:b", (0, 0, 2), ["ab"]),  # with what waits
        ("E1:a Z:z E2:b", (0, 1, 2), []),  # between
        ("E1:a Z:z E2:b", (0, 2, 2), ["ab"]),  # with what completes it: not between
        ("E1:a E2:b Z:z", (0, 1, 2), ["ab"]),  # after
        ("E1:a Z:z E1:c E2:b", (0, 1, 2, 3), ["cb"]),  # only what waits is ended
    ],
)
def test_an_exception_ends_what_waits(
    query: str, events: str, times: tuple[int, ...], found: list[str]
) -> None:
    named = f"SELECT E1.id, E2.id FROM {query}"
    assert ids(named, events, [(time, time) for time in times]) == found


def test_an_exception_counts_from_the_last_next() -> None:
    r"""X;(Y\Z) is (X;Y)\Z also for a composite X: Z between its parts ends nothing."""
    for query in (r"(E1 ; E2) ; (E3 \ Z)", r"(E1 ; E2 ; E3) \ Z"):
        selected = f"SELECT E1.id, E2.id, E3.id FROM {query}"
        assert ids(selected, "E1:a Z:z E2:b E3:c") == ["abc"]
        assert ids(selected, "E1:a E2:b Z:z E3:c") == []


def test_timers_fire_by_the_clock_when_nothing_comes() -> None:
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("E1", {"id": str})
    core.stream("Z", {"id": str})
    core.register("q", r"SELECT * FROM (E1 @ 1 min) \ Z", language="eql")
    core.push([Event("E1", ("a",), 10), Event("Z", ("z",), 15), Event("E1", ("b",), 20)])
    assert core.advance(to=80) == []
    found = core.advance(to=81)
    assert [(event.values, event.t0, event.t1) for _, event in found] == [(("b",), 80, 80)]


# -- section 4 -----------------------------------------------------------------------------


def test_table_1() -> None:
    one, two = of_source(4.0), of_source(2.0)
    assert one == Estimate(4, 0.25, 1, 4, 0)
    assert united(one, two) == Estimate(6, 1 / 6, 1, 6, 6)
    # 4 + (0.5 / 0.25) * 1 * 1 * 2 + 0: two E1 wait for each E2
    assert followed(one, two) == Estimate(4, 0.75, 2, 2, 8)
    # 2 + (0.25 / 0.5) * 1 * 1 * 4 + (4 - 2) * 1: every second E2 comes for nothing
    assert followed(two, one) == Estimate(2, 0.75, 0.5, 2, 6)


RATES = {"A": 128.0, "B": 1.0, "C": 64.0}


def test_bursts_grow_in_left_deep_sequences() -> None:
    a, b, c = map(One, range(3))
    left, right = Chain((Chain((a, b)), c)), Chain((a, Chain((b, c))))
    costs = [estimate(one, [*RATES.values()]) for one in (left, right)]
    # A;B: 128 + 128 waiting; a burst of 128 in each 1 + 1/128 s, which then waits for C
    burst = 128 * Fraction(1, 64) * 64 / (1 + Fraction(1, 128))
    assert costs[0] is not None
    assert costs[0].cost == pytest.approx(float(256 + 128 + burst + 63))
    # B;C: 1 + 1 waiting and 63 Cs in vain; then a burst of 1/64 meets the As of 1 + 1/64 s
    waiting = (1 + Fraction(1, 64)) * 128 * Fraction(1, 64)
    assert costs[1] is not None
    assert costs[1].cost == pytest.approx(float(65 + 128 + waiting))
    estimates = [of_source(rate) for rate in RATES.values()]
    operands: list[PatternTree] = [a, b, c]
    assert optimal_next(operands, estimates, lambda x, y: Chain((x, y))) == right


def _union(rates: Mapping[str, float]) -> str:
    return optimal_union(
        [(rate, name) for name, rate in rates.items()], lambda left, right: f"({left}|{right})"
    )


def test_the_most_frequent_alternative_stays_at_the_top() -> None:
    """E1|(E2|E3) is optimal if E1 is more frequent than the others (section 4.3)."""
    assert _union({"E2": 5.0, "E1": 10.0, "E3": 4.0}) == "((E3|E2)|E1)"


def test_figure_4() -> None:
    """(E1|(E4|(E2|E3))) with a cost of 3600 events a second."""
    rates = {"E1": 1000.0, "E2": 300.0, "E3": 300.0, "E4": 400.0}
    assert _union(rates) == "(E1|(E4|(E2|E3)))"
    e1, e2, e3, e4 = map(One, range(4))
    tree: PatternTree = Choice((e1, Choice((e4, Choice((e2, e3))))))
    found = estimate(tree, [*rates.values()])
    assert found is not None
    assert found.cost == 3600


def test_figure_6() -> None:
    """The sub-sequences of length 2, then the two forms of the first of length 3."""
    names = ["E1", "E2", "E3", "E4", "E5"]
    made: list[str] = []

    def join(left: str, right: str) -> str:
        made.append(f"({left};{right})")
        return made[-1]

    best = optimal_next(names, [of_source(rate) for rate in (5.0, 1.0, 4.0, 2.0, 3.0)], join, 1)
    assert made[:4] == ["(E1;E2)", "(E2;E3)", "(E3;E4)", "(E4;E5)"]
    assert made[4:6] == ["(E1;(E2;E3))", "((E1;E2);E3)"]  # k = 0, k = 1
    assert best.replace("(", "").replace(")", "") == "E1;E2;E3;E4;E5"


def test_the_exception_moves_above_the_next() -> None:
    """E1;(E2\\E3) is (E1;E2)\\E3 (section 4.3)."""
    core = engine_of(("E1", "E2", "E3"), {"id": str}, rate=1.0)
    for name, query in (("one", r"E1 ; (E2 \ E3)"), ("other", r"(E1 ; E2) \ E3")):
        core.register(name, f"SELECT * FROM {query}", language="eql")
    assert core.stats()["mops"] == 1
