"""`time(x)` is the time of the document of x, in every predicate between documents."""

from __future__ import annotations

import pytest

import xscl
from xscl import QueryError
from xscl.planning.compile import compile_query
from xscl.time_format import UNITS

H = UNITS["h"]
NOON = 1_764_504_000_123_456
"""2025-11-30T12:00:00.123456Z"""
LASTED = 'time(q) - time(p) >= xs:dayTimeDuration("PT12H")'
HOURS = (1, 11, 12, 13, 48)
LATER = [12, 13, 48]


def orders() -> list[xscl.Document]:
    """Return a document, and others so many hours after it."""
    right = [xscl.Document("T", f"b{h}", NOON + h * H, b"<b><k>1</k></b>") for h in HOURS]
    first = b"<a><k>1</k><due>2025-12-01T00:00:00.123456Z</due></a>"
    return [xscl.Document("S", "a", NOON, first), *right]


def found(query: str) -> list[int]:
    """Return the hours of the second documents of the matches of a query."""
    with xscl.Engine() as engine:
        engine.subscribe("q", query)
        for document in orders():
            engine.push(document)
        engine.flush()
        matches = list(engine.matches("q"))
        for hours in HOURS:
            wanted = ("a", f"T/b{hours}")
            if "NEXT" not in query and "NOT F" not in query:
                assert engine.why("q", *wanted).matched == (wanted in [m.names for m in matches])
        return [int(match.documents[1][1:]) for match in matches if len(match.documents) > 1]


@pytest.mark.parametrize(
    ("query", "hours"),
    [
        (f"S//a->p FOLLOWED BY{{{LASTED}, 2 d}} T//b->q", LATER),
        (f"S//a[./k->p] FOLLOWED BY{{p = q AND {LASTED}, 2 d}} T//b[./k->q]", LATER),
        (f"S//a[./k->p] FOLLOWED BY{{p = q AND NOT {LASTED}, 2 d}} T//b[./k->q]", [1, 11]),
        (f"S//a[./k->p] JOIN{{p = q AND {LASTED}, 2 d}} T//b[./k->q]", LATER),
        (f"S//a[./k->p] NEXT{{p = q AND {LASTED}}} T//b[./k->q]", [12]),
        ("S//a[./due->p] FOLLOWED BY{time(q) >= xs:dateTime(p), 2 d} T//b->q", LATER),
        ("S//a[./due->p] FOLLOWED BY{q = '1' AND time(q) < p, 2 d} T//b[./k->q]", []),
        ('S//a->p JOIN{time(q) > xs:dateTime("2025-12-01T12:00:00Z"), 2 d} T//b->q', [48]),
        (f"S//a[./k->p] NOT FOLLOWED BY{{p = q AND {LASTED}, 2 d}} T//b[./k->q]", []),
        (f"S//a[./k->p] FOLLOWED BY{{p = q AND {LASTED}, 2 d}} T//b[./k->q] ELSE", LATER),
        (
            "S//a[./k->p] FOLD{p = q AND time($2.q) > time($1.p),"
            ' time($2.q) - time($1.p) <= xs:dayTimeDuration("PT12H")} T//b[./k->q]',
            [1, 11, 12],
        ),
    ],
)
def test_times_of_documents_are_compared_everywhere(query: str, hours: list[int]) -> None:
    assert found(query) == hours


def test_a_constructor_and_an_aggregate_have_times(engine: xscl.Engine) -> None:
    query = (
        'SELECT <r of="{time(p)}" n="{n}"/> FROM S//a[./k->p]'
        " FOLD{p = q, p = q, time($2.q) - time($1.p) AS n} T//b[./k->q]"
    )
    engine.subscribe("q", query)
    made = [match.xml() for match in engine.push(orders()[:2])] or [
        match.xml() for match in engine.flush()
    ]
    assert made == [b'<r of="1764504000.123456" n="3600"/>']


def test_the_time_of_a_result_is_that_of_each_document(engine: xscl.Engine) -> None:
    """The two documents of a pair have times of their own, also above its join."""
    inner = "(S//a[./k->p] FOLLOWED BY{p = q, 2 d} T//b[./k->q])"
    query = f"{inner} FOLLOWED BY{{q = r AND time(r) - time(q) = 3600 AND time(p) < time(q), 2 d}}"
    engine.subscribe("q", f"{query} T//b[./k->r]")
    engine.push(orders())
    assert [match.documents for match in engine.matches("q")] == [
        ("a", "b11", "b12"),
        ("a", "b12", "b13"),
    ]


def test_the_time_of_an_instant_is_its_own(engine: xscl.Engine) -> None:
    query = "S//a->p FOLLOWED BY{time(t) - time(p) < 3600, 1 d} AT '0 * * * *'->t"
    engine.subscribe("q", query)
    engine.push(orders()[0])
    engine.advance(NOON + 5 * H)
    assert len(list(engine.matches("q"))) == 1


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("S//a->p JOIN{time(p/k) = 3, 2 d} T//b->q", "time() takes a variable"),
        ("S//a->p JOIN{time('x') = 3, 2 d} T//b->q", "time() takes a variable"),
        ("S//a[time(.) > 3]", "time() in a block"),
        ("S//a->p FOLD{time(n) > 3, p = q, $.n + 1 AS n} T//b->q", "the aggregate 'n'"),
        ("S//a->p JOIN{time(p) = time(q)} T//b->q", "needs a window"),
    ],
)
def test_what_has_no_time_is_refused(query: str, message: str) -> None:
    with pytest.raises(QueryError) as refused:
        compile_query(query)
    assert message in str(refused.value)
    assert "hint: " in str(refused.value)


# -- Durations and what is no date -------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "doubtful"),
    [
        ("S//a->p FOLLOWED BY{q - p > xs:dayTimeDuration('PT12H'), 2 d} T//b->q", ["q", "p"]),
        ("S//a[./k->p] JOIN{q - p > xs:dayTimeDuration('PT12H'), 2 d} T//b[./k->q]", ["q", "p"]),
        ("S//a[./due->p] JOIN{time(q) - p > xs:dayTimeDuration('PT1H'), 2 d} T//b->q", []),
        ("S//a[./due->p] JOIN{q - p > xs:dayTimeDuration('PT1H'), 2 d} T//b[./k->q]", ["q"]),
        ("S//a->p JOIN{time(q) - time(p) > xs:dayTimeDuration('PT1H'), 2 d} T//b->q", []),
    ],
)
def test_a_duration_beside_what_is_no_date_is_warned_of(query: str, doubtful: list[str]) -> None:
    with xscl.Engine(retention=xscl.Retention.of(history="3000 d")) as engine:
        engine.push(orders())
        engine.subscribe("q", query)
        found = [one for one in engine.queries.unseen_names(query) if one.kind == "comparison"]
        assert [one.hint for one in found] == [
            f"time({name}) is the time of its document" for name in doubtful
        ]
        assert all(one.message in engine.explain("q") for one in found)
