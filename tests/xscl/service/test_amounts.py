"""Amounts are exact in queries over documents and over events."""

from __future__ import annotations

from decimal import Decimal

import pytest

import cep_core
from xscl import Document, Engine
from xscl.subscriptions.match import EventMatch

ORDER = "<order><net>0.30</net><paid>0.20</paid><n>7</n></order>"
INVOICE = f"<invoice><open>0.10</open>{'<line>0.01</line>' * 1_000}<n>7</n></invoice>"
LEFT, RIGHT = "o//order[./net->a][./paid->b][./n->k]", "i//invoice[./open->c][./n->m]"
SELECT = 'SELECT <due of="{a - b}">{a * 3}</due> FROM'
QUERIES = {
    "difference": f"{SELECT} {LEFT} FOLLOWED BY{{k = m AND a - b = c, 3 d}} {RIGHT}",
    "join": f"{SELECT} {LEFT} FOLLOWED BY{{a - b = c, 3 d}} {RIGHT}",
    "literal": f"{SELECT} {LEFT} FOLLOWED BY{{k = m AND a - b = 0.10, 3 d}} {RIGHT}",
    "literals": f"{SELECT} {LEFT} FOLLOWED BY{{k = m AND 0.30 - 0.20 = 0.10, 3 d}} {RIGHT}",
    "cast": f"{SELECT} {LEFT} JOIN{{xs:decimal(a) - b = xs:decimal(c), 3 d}} {RIGHT}",
    "next": f"{SELECT} {LEFT} NEXT{{a - b = c}} {RIGHT}",
    "sum": f"{SELECT} {LEFT} FOLLOWED BY{{k = m, 3 d}} i//invoice[sum(line) = 10][./n->m]",
}
DUE = b'<due of="0.1">0.9</due>'


def test_in_the_library() -> None:
    with Engine() as engine:
        for name, query in QUERIES.items():
            engine.subscribe(name, query)
        engine.push([Document("o", "o1", 1, ORDER.encode())])
        engine.push([Document("i", "i1", 2, INVOICE.encode())])
        engine.flush()
        for name in QUERIES:
            (match,) = engine.matches(name)
            assert match.xml() == DUE, name


def test_a_run_of_a_thousand_amounts() -> None:
    query = (
        'SELECT <sum of="{total}" n="{n}"/> FROM o//begin->b FOLD{$.n < 1000,'
        " $.n < 1000, $.n + 1 AS n, $.total + $2.p AS total} i//p->p"
    )
    with Engine() as engine:
        engine.subscribe("sum", query)
        engine.push([Document("o", "o", 1, b"<begin/>")])
        engine.push([Document("i", f"i{n}", 2 + n, b"<p>0.01</p>") for n in range(1_000)])
        engine.flush()
        *_, last = engine.matches("sum")
        assert last.xml() == b'<sum of="10" n="1000"/>'


EVENTS = [cep_core.Event("S", (Decimal("0.01"), 1), n) for n in range(1_000)]


OVER_EVENTS = {
    "SELECT SUM(p) AS s, AVG(p) AS a FROM S WINDOW 2000": ("10", "0.01"),
    "SELECT p * 3 AS x FROM FILTER{p - 0.02 = -0.01} S": ("0.03",),
    "SELECT p AS x FROM FILTER{0.30 - 0.20 = 0.10} S": ("0.01",),
    "SELECT k * 0.1 AS x, xs_decimal('0.30') - 0.1 AS y FROM S": ("0.1", "0.2"),
    "EVENT SEQ(S a, S b) WHERE a.p + b.p = 0.02 WITHIN 2 RETURN a.p + b.p AS s": ("0.02",),
    "SELECT A.p + B.p AS s FROM S A ; S B WHERE FILTER(A.p * 2 = 0.02)": ("0.02",),
}


@pytest.mark.parametrize("query", OVER_EVENTS)
def test_events(query: str) -> None:
    language = "sase" if query.startswith("EVENT") else "eql" if " ; " in query else "cel"
    with Engine() as engine:
        engine.stream("S", attributes={"p": Decimal, "k": int})
        engine.subscribe("q", query, language=language)
        xml = [f"<s><p>{p}</p><k>{k}</k></s>" for _, (p, k), *_ in EVENTS]
        engine.push([Document("S", f"{n}", n, one.encode()) for n, one in enumerate(xml)])
        engine.flush()
        *_, match = engine.matches("q")
        assert isinstance(match, EventMatch)
        assert tuple(match.values.values()) == OVER_EVENTS[query]
