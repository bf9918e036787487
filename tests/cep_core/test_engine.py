"""The engine in time: clock, lateness, registration, what is refused and what is reported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import cep_core
from cep_core import algebra as al
from cep_core.algebra.expressions import (
    TRUE,
    And,
    Column,
    Compare,
    Constant,
    Duration,
    Expression,
    Or,
)
from cep_core.dataflow.channels import slots_of
from cep_core.errors import (
    AlgebraError,
    CepError,
    NameTaken,
    QueryError,
    SnapshotError,
    StreamInUse,
    UnknownQuery,
)
from cep_core.events import Event, Match, Schema
from cep_core.operators.cayuga import join
from cep_core.state.snapshot import VERSION
from tests.cep_core.absences import absence, alternative
from tests.cep_core.engines import engine_of

STOCK = Schema(("Name", "Price"), (str, float))
STREAM = al.stream("Stock", STOCK)
SAME_NAME = Compare("=", Column(1, 0), Column(2, 0))


def engine(lateness: int = 0, **options: Any) -> cep_core.Engine:
    core = cep_core.Engine(ticks_per_second=1, **options)
    core.stream("Stock", STOCK, lateness=lateness)
    return core


def quote(name: str, price: float, t1: int, t0: int | None = None) -> Event:
    return Event("Stock", (name, price), t1 if t0 is None else t0, t1)


def named(name: str) -> Expression:
    return Compare("=", Column(2, 0), Constant(name))


def found(matches: Sequence[Match]) -> list[tuple[Any, ...]]:
    return [(m.query, m.event.t0, m.event.t1, *m.event.values) for m in matches]


PAIRS = al.sequence(STREAM, STREAM, SAME_NAME)


# -- time ----------------------------------------------------------------------------------


def test_a_late_row_is_reported_with_those_that_missed_it_and_still_selected() -> None:
    core = engine(lateness=5)
    core.register("all", STREAM)
    core.register("pairs", PAIRS)
    core.push([quote("IBM", 1.0, 20)])
    out = core.push([quote("IBM", 2.0, 14)])  # 14 < 20 - 5
    assert found(out) == [("all", 14, 14, "IBM", 2.0)]
    (late,) = core.late
    assert late.row[3:] == ("IBM", 2.0)
    assert late.reason == "it ended at 14, when everything before 15 was closed"
    assert late.missed == ("sequence#1",)
    assert core.stats()["late"] == 1
    core.push([quote("IBM", 3.0, 15)])  # just in time
    assert core.stats()["late"] == 1
    assert found(core.close()) == [("pairs", 15, 20, "IBM", 3.0, "IBM", 1.0)]


def test_dead_instances_are_dropped_by_the_watermark() -> None:
    soon = Compare("<=", Duration(), Constant(10))
    core = engine()
    core.register(
        "soon", al.sequence(al.select(STREAM, named("A")), al.select(STREAM, named("B")), soon)
    )
    core.push([quote("A", float(t), t) for t in range(20)])
    assert core.stats()["instances"] > 10
    core.advance(1_000)
    assert core.stats()["instances"] == 0


def test_what_every_disjunct_asks_for_is_indexed_and_bounds_instances() -> None:
    """The longest of their bounds, the equalities that all have."""
    soon, later = (Compare("<=", Duration(), Constant(time)) for time in (10, 30))
    cheap = Compare("<", Column(1, 1), Constant(5.0))
    same_price = Compare("=", Column(1, 1), Column(2, 1))
    either = Or((And((SAME_NAME, soon, same_price)), And((cheap, later, SAME_NAME))))
    core = engine()
    core.register("either", al.sequence(STREAM, al.select(STREAM, named("B")), either))
    line = "AI-index on dynamic equality; instances are dropped after 30 ticks"
    assert line in core.explain("either")
    kept = []
    for time in range(200):
        core.push([quote("A", float(time % 7), time)])
        kept.append(core.stats()["instances"])
    assert max(kept[:60]) > 30
    assert max(kept[60:]) <= max(kept[:60])
    out = core.push([quote("B", 4.0, 200), quote("B", 6.0, 201), quote("B", 1.0, 231)])
    assert [one[1:3] for one in found([*out, *core.close()])] == [(200, 201)]


# -- absence -------------------------------------------------------------------------------


def test_an_absence_in_words() -> None:
    core = engine()
    core.register("silent", absence(STREAM, STREAM, SAME_NAME, Constant(3)))
    core.register("answered", alternative(STREAM, STREAM, SAME_NAME, Constant(3)))
    assert core.explain("silent").splitlines()[1:] == [
        "  absence#1.0  NOT FOLLOWED BY{$1.Name = $2.Name, 3 s}",
        "      reads Stock, Stock; used by this query only",
        "      AI-index on dynamic equality; instances leave after 3 ticks",
        "  output  silent(Name str, Price float)",
        "  NOT FOLLOWED BY: no b with a.t1 < b.t0 and b.t1 - a.t1 <= T (one result for each a, at"
        " a.t1 + T; a b at exactly that time is an answer)",
    ]
    lines = core.explain("answered").splitlines()
    assert lines[1] == "  absence#2.0  FOLLOWED BY{$1.Name = $2.Name, 3 s} ELSE"
    assert [line.split(":")[0].strip() for line in lines[-2:]] == ["FOLLOWED BY", "ELSE"]
    with pytest.raises(AlgebraError, match="OuterJoin is not part of an automaton"):
        core.export("silent")
    with pytest.raises(CepError, match="a window has at least 1 tick, not 0"):
        core.register("never", absence(STREAM, STREAM, TRUE, Constant(0)))


# -- what is refused, what is reported -----------------------------------------------------


YEAR_9999 = 253_402_300_800


@pytest.mark.parametrize(
    ("ticks_per_second", "farthest"),
    [
        (1, YEAR_9999 - 1),
        (1_000, YEAR_9999 * 1_000 - 1),
        (1_000_000, YEAR_9999 * 1_000_000 - 1),
        (1_000_000_000, (1 << 62) - 1),  # no nanosecond after 2116 has a number
    ],
)
@pytest.mark.parametrize("others", [1, 100], ids=["one by one", "by columns"])
def test_an_absurd_time_is_rejected_and_makes_nothing_late(
    ticks_per_second: int, farthest: int, others: int
) -> None:
    core = cep_core.Engine(ticks_per_second=ticks_per_second)
    core.stream("Stock", STOCK)
    core.register("next", "SELECT * FROM Stock NEXT{$1.Name = $2.Name} Stock")
    beyond = [
        Event("Stock", ("IBM", 1.0), *times)
        for times in (
            (farthest + 1,),
            (-farthest - 1,),
            (1, farthest + 1),
            (-farthest - 1, 1),
            ((1 << 62) - 1 + (farthest == (1 << 62) - 1),),
            (10**30,),
        )
    ]
    usual = [quote("IBM", float(at), at) for at in range(1, others + 1)]
    for event in beyond:
        core.push([event, *usual] if event is beyond[0] else [event])
    assert [one.event for one in core.rejected] == beyond
    assert all("is out of range: times of events are at most" in o.reason for o in core.rejected)
    core.push([quote("IBM", 0.0, others + 1), quote("IBM", 0.0, others + 2)])
    assert core.stats()["late"] == 0
    assert core.stats()["matches"] >= others
    core.push([Event("Stock", ("IBM", 1.0), farthest)])
    assert core.stats()["rejected"] == len(beyond)


def test_errors_of_registration() -> None:
    core = engine()
    core.register("all", STREAM)
    with pytest.raises(NameTaken, match="there is a query all already"):
        core.register("all", STREAM)
    with pytest.raises(NameTaken, match="there is a stream Stock already"):
        core.stream("Stock", {"Name": str})
    with pytest.raises(UnknownQuery, match="did you mean all"):
        core.unregister("al")
    core.unregister("all")
    with pytest.raises(NameTaken, match="there is a stream Stock already"):
        core.register("p", STREAM, publish="Stock")
    assert core.stats()["operators"] == 0
    assert core.plan.lanes == {}


def test_a_stream_that_is_adopted() -> None:
    core = engine()
    core.register("dear", al.select(STREAM, Compare(">", Column(2, 1), Constant(1.0))))
    root = core.query("dear").root
    assert root is not None
    core.adopt("Dear", STREAM.schema, 0, root)
    with pytest.raises(NameTaken, match="there is a stream Dear already"):
        core.adopt("Dear", STREAM.schema, 0, root)
    core.register("reads", "SELECT Price FROM Dear")
    out = core.push([Event("Stock", ("IBM", 2.0), 1), Event("Dear", ("IBM", 3.0), 2)])
    assert [(m.query, m.event.values) for m in out] == [
        *(("dear", ("IBM", 2.0)), ("reads", (2.0,)))
    ]
    assert [one.reason for one in core.rejected] == [
        "Dear is an adopted stream: nobody pushes events to it"
    ]
    with pytest.raises(SnapshotError, match="cannot have the adopted streams Dear"):
        core.snapshot()
    with pytest.raises(StreamInUse, match="reads reads the stream Dear"):
        core.disown("Dear")
    core.unregister("reads")
    core.disown("Dear")
    assert cep_core.Engine.restore(core.snapshot()).queries == ("dear",)
    with pytest.raises(QueryError, match="there is no stream Dear"):
        core.register("reads", "SELECT Price FROM Dear")


def test_a_stream_that_others_read_stays() -> None:
    core = engine()
    core.register(
        "dear", al.select(STREAM, Compare(">", Column(2, 1), Constant(9))), publish="Dear"
    )
    core.register("again", al.stream("Dear", STOCK))
    with pytest.raises(StreamInUse, match="dear publishes Dear, which again reads"):
        core.unregister("dear")
    out = core.push([quote("IBM", 10.0, 1)])
    assert [(m.query, m.event.stream) for m in out] == [("dear", "Dear"), ("again", "again")]
    core.unregister("again")
    core.unregister("dear")
    with pytest.raises(QueryError, match="there is no stream Dear"):
        core.register("again", "SELECT * FROM Dear")


def test_an_interrupt_leaves_the_rest_of_a_batch_untaken() -> None:
    """Only accepted events are counted."""

    def odd(value: int) -> bool:
        if value == 3:
            raise KeyboardInterrupt
        return value % 2 == 1

    core = cep_core.Engine(1, functions={"odd": cep_core.Function(odd, (int,), bool)})
    core.stream("S", {"v": int})
    core.register("q", "SELECT odd(v) AS o FROM S")
    with pytest.raises(KeyboardInterrupt):
        core.push([Event("S", (number,), number) for number in range(6)])
    assert core.counts["events"] == core.clock.arrivals == 4
    assert core.clock.now == 2
    assert len(core.push([])) == 3


# -- snapshots, functions ------------------------------------------------------------------


class Money:
    """An attribute type of a user's."""

    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and self.cents == other.cents

    def __hash__(self) -> int:
        return hash(self.cents)


MONEY = cep_core.AttributeType(Money, lambda m: str(m.cents), lambda text: Money(int(text)))


def test_values_of_own_types_survive_a_snapshot() -> None:
    core = cep_core.Engine(1, types=[MONEY])
    core.stream("Paid", {"what": Money, "count": int})
    paid = al.stream("Paid", Schema(("what", "count"), (Money, int)))
    core.register("twice", al.sequence(paid, paid, SAME_NAME))
    core.push([Event("Paid", (Money(5), 1 << 80), 1)])
    again = cep_core.Engine.restore(core.snapshot(), types=[MONEY])
    again.push([Event("Paid", (Money(5), 2), 2)])
    assert found(again.close()) == [("twice", 1, 2, Money(5), 1 << 80, Money(5), 2)]
    with pytest.raises(SnapshotError, match="values of type Money"):
        cep_core.Engine.restore(core.snapshot())


def test_snapshots_that_cannot_be_read() -> None:
    with pytest.raises(SnapshotError, match="no snapshot"):
        cep_core.Engine.restore(b"\x00\x01")
    data = engine().snapshot()
    assert b"cep_core%c" % VERSION in data
    with pytest.raises(SnapshotError, match="has version 99"):
        cep_core.Engine.restore(data.replace(b"cep_core%c" % VERSION, b"cep_core\x63"))
    half = cep_core.Function(lambda x: x / 2, (float,), float)
    with pytest.raises(SnapshotError, match="needs half"):
        cep_core.Engine.restore(engine(functions={"half": half}).snapshot())


def test_a_function_that_raises_or_gets_null_makes_its_atom_false() -> None:
    def picky(value: float) -> bool:
        if value < 0:
            raise ValueError(value)
        return True

    core = engine(functions={"picky": cep_core.Function(picky, (float,), bool)})
    core.register("picked", "SELECT * FROM FILTER{picky(Price)}(Stock)")
    core.register("left", "SELECT * FROM FILTER{NOT picky(Price)}(Stock)")
    prices = [1.0, -1.0, None]
    out = core.push([Event("Stock", ("A", price), t) for t, price in enumerate(prices)])
    assert [(m.query, m.event.values[1]) for m in out] == [
        ("picked", 1.0),
        ("left", -1.0),
        ("left", None),
    ]


def test_a_pair_that_many_queries_take_is_not_searched_for_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0

    class Slots(list[int]):
        def __contains__(self, slot: object) -> bool:
            nonlocal searched
            searched += 1
            return super().__contains__(slot)

    monkeypatch.setattr(join, "slots_of", lambda members: Slots(slots_of(members)))
    core = engine_of("AB", {"v": int})
    for at in range(30):
        right = f"(SELECT v AS w FROM FILTER{{v > {at}}}(B))"
        core.register(f"q{at}", f"SELECT * FROM FILTER{{v > {at}}}(A) JOIN{{v = w, 1 day}} {right}")
    assert len(core.push([Event("A", (99,), 1), Event("B", (99,), 2)])) == 30
    assert not searched
