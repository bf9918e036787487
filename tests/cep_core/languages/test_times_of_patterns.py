"""Absences with a time of their own, EVERY, the longest run, aggregates of expressions: edges."""

from __future__ import annotations

import re

import pytest

from cep_core import Engine, Event
from tests.cep_core.engines import engine_of

SILENCE = "SEQ(A a, !(B z) FOR 5 s)"
CASES = [
    # at the end: up to and with a.t1 + 5, when the match comes
    (SILENCE, "A1@1 B1@6 A2@10 B2@16", "A2@15"),
    (SILENCE, "B1@1 A1@1 A2@2", "A1@6 A2@7"),
    # between: the next event is later, and one before then blocks nothing
    ("SEQ(A a, !(B z) FOR 5 s, next C c)", "A1@1 C1@5 C2@6 C3@7 C4@8", "A1C3@7"),
    ("SEQ(A a, !(B z) FOR 5 s, next C c)", "A1@1 B1@6 C1@9 A2@10 B2@16 C2@17", "A2C2@17"),
    ("SEQ(A a, !(B z) FOR 5 s, C c) NONSTRICT", "A1@1 C1@5 C2@6", "A1C2@6"),
    # before the first event
    ("SEQ(!(B z) FOR 3 s, C c)", "B1@1 C1@4 C2@5", "C2@5"),
    ("SEQ(!(B z) FOR 3 s, !(A y) FOR 1 s, C c)", "B1@1 C1@4 A1@5 C2@6 C3@7", "C3@7"),
    # one after the other, and both from the same event
    ("SEQ(P p, !(A z) FOR 2 s, !(B y) FOR 3 s)", "P1@1 B1@3 A1@4 P2@10 B2@15", "P1@6"),
    ("SEQ(P p, (!(A z) FOR 2 s AND !(B y) FOR 4 s))", "P1@1 A1@4 P2@10 B1@14", "P1@5"),
    ("SEQ(P p, (!(B y) FOR 4 s AND !(A z) FOR 2 s), C c)", "P1@1 A1@4 C1@5 C2@6", "P1C2@6"),
    # an absence without a time begins when the silence is over
    ("SEQ(P p, !(A z) FOR 2 s, !(B y), next C c)", "P1@1 B1@2 C1@4 P2@5 B2@8 C2@9", "P1C1@4"),
    # under AND: from what comes before all of it
    ("SEQ(P p, (!(A z) FOR 2 s AND B b))", "P1@1 B1@2 P2@10 A1@11 B2@14", "P1B1@3 P1B2@14"),
    ("SEQ(P p, (!(A z) FOR 2 s AND B b), C c)", "P1@1 B1@2 C1@3 C2@4", "P1B1C2@4"),
    ("SEQ((!(A z) FOR 2 s AND B b AND C c))", "A1@1 B1@3 C1@4 B2@6 C2@8", "B2C1@6 B2C2@8"),
    # of alternatives the first that is certain
    ("SEQ(P p, (!(A z) FOR 2 s OR !(B y) FOR 4 s))", "P1@1 P2@10 A1@11 P3@20 A2@21 B1@24",
     "P1@3 P2@14"),
    ("SEQ(P p, (!(A z) FOR 2 s OR B b)) AFTER MATCH SKIP TO NEXT", "P1@1 B1@2 P2@10 B2@15",
     "P1B1@2 P2@12"),
    # the window bounds events
    ("SEQ(A a, !(B z) FOR 5 s, C c) WITHIN 7 s", "A1@1 C1@7 C2@8", "A1C1@7"),
    ("SEQ(A a, C c, !(B z) FOR 5 s) WITHIN 3 s", "A1@1 C1@3 A2@9 C2@13", "A1C1@8"),
    # the longest run: until its window is over, or a mark or UNTIL has ended it
    ("SEQ(A a, next B+ longest next b[]) WITHIN 5 s", "A1@1 B1@2 B2@4 B3@6", "A1B1B2@5"),
    ("SEQ(A a, next B+ longest next b[]) WITHIN <= 5 s", "A1@1 B1@2 B2@4 B3@6", "A1B1B2B3@6"),
    ("SEQ(A a, strict B+ longest strict b[])", "A1@1 B1@2 B2@4 A2@6 B3@7", "A1B1B2@6"),
    ("SEQ(A a, next B+ longest next b[] UNTIL C c)", "A1@1 B1@2 B2@4 C1@6 B3@7", "A1B1B2@6"),
    ("SEQ(A a, next B{1,2} longest next b[])  WITHIN 9 s", "A1@1 B1@2 B2@4 B3@6", "A1B1B2@4"),
    ("SEQ(A a, next B* longest next b[]) WITHIN 5 s", "A1@1 A2@7 B1@8", "A1@5 A2B1@11"),
    ("SEQ(A a, next B+ longest next b[], !(C c)) WITHIN 5 s", "A1@1 B1@2 A2@7 B2@8 C1@9", "A1B1@5"),
    # EVERY: the next time begins after the last one, which is forgotten
    ("SEQ(A a, every (next B b, next C c))", "A1@1 B1@2 B2@3 C1@4 C2@5 B3@6 B4@7 C3@8",
     "A1B1C1@4 A1B3C3@8"),
    ("SEQ(A a, every next B b)", "A1@1 B1@2 B2@3", "A1B1@2 A1B2@3"),
    ("SEQ(A a, every (next B b, next C c)) WHERE b.v < c.v", "A1@1 B2@2 C3@3 B4@4 C5@5",
     "A1B2C3@3 A1B4C5@5"),
    ("SEQ(A a, every (!(P p), next B b, next C c))", "A1@1 P1@2 B1@3 C1@4 B2@5 C2@6", "A1B2C2@6"),
    ("SEQ(A a, every (!(P p), next B b, next C c))",
     "A1@1 B1@2 C1@3 P1@4 B2@5 C2@6 B3@7 C3@8", "A1B1C1@3 A1B3C3@8"),
    ("SEQ(A a, every (next B+ strict b[], next C c))", "A1@1 B1@2 C1@3 B2@4 C2@5",
     "A1C1B1@3 A1C2B2@5"),
    ("SEQ(A a, every (next B b, !(P p), next C c))", "A1@1 B1@2 P1@3 C1@4 B2@5 C2@6", "A1B2C2@6"),
    ("SEQ(A a, every (next B b, next C c), next P p)", "A1@1 B1@2 C1@3 B2@4 C2@5 P1@6",
     "A1B1C1P1@6 A1B2C2P1@6"),
    ("SEQ(A a, every (B b AND C c))", "A1@1 C1@2 B1@3 B2@4 C2@5",
     "A1B1C1@3 A1B1C2@5 A1B2C1@4 A1B2C2@5"),
]  # fmt: skip


def found(text: str, events: str, restored: bool) -> set[str]:
    """Return the matches as their events and times; an event is its type, value and time."""
    core = engine_of("ABCP", {"v": int})
    names = re.findall(r"(?<!!\()(?<!UNTIL )\b[ABCP] ([abcp])\b(?!\[)", text)
    items = [f"{one}.v AS {one}" for one in names] + ["LIST(b[].v) AS b"] * ("b[]" in text)
    core.register("q", f"EVENT {text} RETURN {', '.join(items)}", "sase")
    matches = []
    for word in events.split():
        label, _, time = word.partition("@")
        matches += core.push([Event(label[0], (int(label[1:]),), int(time))])
        if restored:
            core = Engine.restore(core.snapshot())
    matches += core.advance(100)
    assert core.stats()["waiting"] == 0
    shown = [*names, *["b"] * ("b[]" in text)]
    return {
        "".join(
            f"{name.upper()}{one}"
            for name, value in zip(shown, match.event.values, strict=True)
            for one in (value if isinstance(value, tuple) else (value,))
            if one is not None
        )
        + f"@{match.event.t1}"
        for match in matches
    }


@pytest.mark.parametrize("restored", [False, True])
@pytest.mark.parametrize(("text", "events", "matches"), CASES)
def test_what_a_pattern_finds_and_when(
    text: str, events: str, matches: str, restored: bool
) -> None:
    assert found(text, events, restored) == set(matches.split())


def test_queries_share_runs_whatever_the_times_of_their_absences() -> None:
    core = engine_of("ABC", {"v": int})
    for time in (2, 4):
        text = f"EVENT SEQ(A a, !(B z) FOR {time}, next C c) WHERE c.v > {time - 3} RETURN c.v"
        core.register(str(time), text, "sase")
        core.register(f"{time} alone", f"EVENT SEQ(A a, !(B z) FOR {time}) RETURN a.v", "sase")
    assert [len(mop.operators) for mop in core.plan.mops if mop.kind == "pattern_match"] == [2, 2]
    events = [Event("A", (1,), 0), Event("C", (1,), 3), Event("B", (1,), 4), Event("C", (2,), 5)]
    matches = [
        (one.query, one.event.values, one.event.t1) for one in core.push(events) + core.close()
    ]
    assert sorted(matches) == [("2", (1,), 3), ("2 alone", (1,), 2)]


def test_aggregates_of_expressions() -> None:
    core = engine_of("AB", {"price": float, "qty": int})
    items = "SUM(a[].price * a[].qty) AS s, AVG(a[].qty + 1) AS m, COUNT(a[].price * 2) AS n"
    more = (
        "SUM(CASE WHEN a[].qty > 1 THEN 1 ELSE 0 END) AS c, LIST(-a[].qty) AS l, SUM(a[].qty) AS q"
    )
    core.register("sase", f"EVENT SEQ(A{{3}} strict a[], B b) RETURN {items}, {more}", "sase")
    core.register("eql", f"SELECT {items} FROM A a{{3}} strict ; B b", "eql")
    before = "COALESCE(SUM(a[..i-1].price * 2), 0) + a[i].price < 9"
    core.register("before", f"EVENT A+ a[] WHERE {before} RETURN COUNT(a[]) AS n", "sase")
    rows = [(2.0, 3), (None, 1), (1.0, 5)]
    events = [Event("A", row, at) for at, row in enumerate(rows)]
    matches = core.push([*events, Event("B", (None, None), 9)]) + core.close()
    values = {one.query: one.event.values for one in matches}
    assert values["sase"] == (11.0, 4.0, 2, 2, (-3, -1, -5), 9)
    assert values["eql"] == (11.0, 4.0, 2)
    assert sorted(one.event.values for one in matches if one.query == "before") == [
        (1,),
        (1,),
        (2,),
    ]
