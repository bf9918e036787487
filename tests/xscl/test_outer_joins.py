"""JOIN ... ELSE: pairs within a window, and the sides that have no partner there."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from tests.examples import usually
from xscl import QueryError
from xscl.language.sentence import sentence
from xscl.planning.compile import compile_query
from xscl.time_format import UNITS

H, D = UNITS["h"], UNITS["d"]
NOON = 1000 * D
ORDER, INVOICE = "o//order[./no->n]", "i//invoice[./order->m]"
BOUNDS = "-1 h TO 3 d"
KEPT = xscl.Retention.of(history="3000 d")


def query(side: str = "") -> str:
    """Return each order with its invoice, or alone; and each invoice without an order."""
    return f"{ORDER} JOIN{{n = m, {BOUNDS}}} {INVOICE} ELSE {side}".rstrip()


def order(number: int, hours: float) -> xscl.Document:
    text = f"<order><no>{number}</no></order>"
    return xscl.Document("o", f"o{number}", NOON + int(hours * H), text.encode())


def invoice(number: int, hours: float, name: str = "i") -> xscl.Document:
    text = f"<invoice><order>{number}</order></invoice>"
    return xscl.Document("i", f"{name}{number}", NOON + int(hours * H), text.encode())


EVENTS = [
    *(invoice(1, -1), order(1, 0)),  # at the lower bound
    *(invoice(2, -1.5), order(2, 0)),  # before it
    *(order(3, 0), invoice(3, 72)),  # at the upper bound
    *(order(4, 0), invoice(4, 72.5)),  # after it
    *(order(5, 0), invoice(5, 1), invoice(5, 2, "j")),  # two invoices
    order(6, 3),
    invoice(7, 4),
]
PAIRS = {("o1", "i1"), ("o3", "i3"), ("o5", "i5"), ("o5", "j5")}
ORDERS, INVOICES = {("o2",), ("o4",), ("o6",)}, {("i2",), ("i4",), ("i7",)}
EXPECTED = {"": PAIRS | ORDERS | INVOICES, "LEFT": PAIRS | ORDERS, "RIGHT": PAIRS | INVOICES}


def in_order() -> list[xscl.Document]:
    """Return all documents by time."""
    return sorted(EVENTS, key=lambda one: one.timestamp)


@pytest.mark.parametrize("side", EXPECTED)
def test_one_subscription_finds_pairs_and_what_has_no_partner(side: str) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", query(side))
        for document in in_order():
            engine.push(document)
        engine.flush()
        found = [match.documents for match in engine.matches("q")]
        assert len(found) == len(set(found))
        assert set(found) == EXPECTED[side]


def test_a_side_alone_is_certain_when_its_window_is_over() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", query())
        engine.push([order(1, 0), invoice(2, 0)])
        engine.advance(NOON + H)
        assert list(engine.matches("q")) == []
        engine.advance(NOON + H + 1)
        assert [one.documents for one in engine.matches("q")] == [("i2",)]
        engine.advance(NOON + 3 * D + 1)
        alone = {one.documents: (one.t0, one.t1) for one in engine.matches("q")}
        assert alone == {("i2",): (NOON, NOON + H), ("o1",): (NOON, NOON + 3 * D)}


def test_what_waits_is_kept_over_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store"
    for number, document in enumerate(in_order()):
        with xscl.Engine(path) as engine:
            if not number:
                engine.subscribe("q", query())
            engine.push(document)
    with xscl.Engine(path) as engine:
        engine.flush()
        assert {match.documents for match in engine.matches("q")} == EXPECTED[""]


def test_a_document_is_no_partner_of_itself() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", "o//order[./no->n] JOIN{n = m, 1 h} o//order[./no->m] ELSE")
        engine.push([order(1, 0), order(2, 0)])
        engine.flush()
        assert sorted(match.documents for match in engine.matches("q")) == [
            *[("o1",)] * 2,
            *[("o2",)] * 2,
        ]


def test_a_partner_that_is_too_late_is_none() -> None:
    with xscl.Engine() as engine:
        for stream in "oi":
            engine.stream(stream, lateness=2 * H)
        engine.subscribe("q", query())
        engine.push([order(1, 0), order(2, 0), order(9, 74)])
        engine.push([invoice(1, 72.9), invoice(2, 71)])  # the second one is late by 3 h
        engine.flush()
        found = {match.documents for match in engine.matches("q")}
        assert found == {("o1",), ("i1",), ("o2",), ("o9",)}


@pytest.mark.parametrize("side", usually(EXPECTED, ""))
def test_why_agrees(side: str) -> None:
    with xscl.Engine(retention=KEPT) as engine:
        engine.subscribe("q", query(side))
        engine.push(in_order())
        engine.flush()
        for left in ("-", *(f"o/o{n}" for n in range(1, 7))):
            for right in ("-", *(f"i/i{n}" for n in (1, 2, 3, 4, 5, 7))):
                if left == right or (side == "LEFT" and left == "-"):
                    continue
                if side == "RIGHT" and right == "-":
                    continue
                wanted = tuple(one[2:] for one in (left, right) if one != "-")
                answer = engine.why("q", left, right)
                assert answer.matched == (wanted in EXPECTED[side]), wanted


def test_its_surfaces_say_what_it_is() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", query())
        engine.push(in_order())
        explained = engine.explain("q")
    assert "JOIN ELSE: " in explained
    assert f"window {BOUNDS}" in explained
    assert "core: OuterJoin" in explained
    ends = {"": "or either comes alone.", "LEFT": "or the first comes alone."}
    for side, end in ends.items():
        assert sentence(query(side)).endswith(end)


def test_results_are_joined_and_published_again() -> None:
    """A side that is not there is bound to nothing, so it joins with nothing."""
    with xscl.Engine() as engine:
        text = f"SELECT <r><n>{{string(n)}}</n><m>{{string(m)}}</m></r> FROM {query()} PUBLISH r"
        engine.subscribe("q", text)
        engine.subscribe("above", f"({query()}) FOLLOWED BY{{m = x, 9 d}} x//x->x")
        engine.subscribe("read", "r//r->r")
        engine.push([*in_order(), xscl.Document("x", "x", NOON + 5 * D, b"<x>7</x>")])
        engine.flush()
        assert [match.documents for match in engine.matches("above")] == [("i7", "x")]
        shown = sorted(match.xml() for match in engine.matches("read"))
        assert len(shown) == len(EXPECTED[""])
        assert any(b"<r><n></n><m>7</m></r>" in one or b"<n/><m>7</m>" in one for one in shown)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{ORDER} JOIN{{n = m}} {INVOICE} ELSE", "JOIN ... ELSE needs a window"),
        (f"{ORDER} JOIN{{n = m, 1 h TO INF}} {INVOICE} ELSE", "JOIN ... ELSE needs a window"),
        (f"{ORDER} FOLLOWED BY{{n = m, 1 h}} {INVOICE} ELSE LEFT", "found 'LEFT'"),
        (
            f"{ORDER} FOLLOWED BY{{n = m, 1 h}} {INVOICE} ELSE RIGHT",
            "waits from its first document",
        ),
        (f"{ORDER} JOIN{{n = m, 1 h}} {INVOICE} LEFT", "found 'LEFT'"),
        ("o//o->o JOIN{o/no = m, 1 h} i//i->m ELSE", "a path on a variable"),
    ],
)
def test_what_is_no_outer_join_is_refused(text: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        compile_query(text)
    assert message in str(refused.value)
