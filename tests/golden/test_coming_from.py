"""Each example of the page for users of Flink, Esper and Siddhi, with events, in both languages.

The matches are those of the other system, by its documentation; where its pattern has no `every`,
they are those of each start, as the page says.  Events are written as in
`tests.golden.test_published_patterns`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from tests.golden.test_published_patterns import GUIDE, TABLES, found_by

EVERY = "a1 a2 b1 b2"
MANY = "a1 a2 a3 a4"
RUNS = "a1, a1 a2, a1 a2 a3, a2, a2 a3, a3"
KINDS = "(strict s x, next s c OR strict s d)"


class Example(NamedTuple):
    """An example in SASE and EQL ("" where the page has none), events, and what matches."""

    sase: str
    eql: str
    events: str
    found: str


FLINK = (
    Example("SEQ(A a, strict B b)", "A a ; strict B b", EVERY, "a2 b1"),
    Example("SEQ(A a, next B b)", "A a ; B b", EVERY, "a1 b1, a2 b1"),
    Example("SEQ(A a, B b)", "A a ; any B b", EVERY, "a1 b1, a1 b2, a2 b1, a2 b2"),
    Example("SEQ(A a, !(B z), next C c)", "A a ; !B z ; C c", "a1 c1 a2 b1 c2", "a1 c1"),
    Example(
        f"SEQ(s a, {KINDS}) WHERE a.kind = 'a' AND x.kind NOT IN ('b', 'c') AND c.kind = 'c'"
        " AND d.kind = 'c'",
        "s a ; (strict s x ; s c | strict s d) WHERE FILTER(a.kind = 'a'),"
        " FILTER(x.kind NOT IN ('b', 'c')), FILTER(c.kind = 'c'), FILTER(d.kind = 'c')",
        "a1 c1 a2 b1 c2 a3 d1 c3",
        "a1 c1, a3 c3 d1",
    ),
    Example("A+ next a[]", "A a{1,}", "a1 a2 b1 a3", RUNS),
    Example("SEQ(C c, A+ strict a[], B b)", "C c ; any A a+ strict ; any B b", "c1 a1 a2 b1 a3 b2",
            "a1 b1 c1, a1 a2 b1 c1, a2 b1 c1, a1 b2 c1, a1 a2 b2 c1, a2 b2 c1, a3 b2 c1"),
    Example("A+ any a[]", "A a+ any", "a1 a2 a3", f"{RUNS}, a1 a3"),
    Example("A{4} next a[]", "A a{4}", f"{MANY} a5", "a1 a2 a3 a4, a2 a3 a4 a5"),
    Example("A{2,4} next a[]", "A a{2,4}", MANY,
            "a1 a2, a1 a2 a3, a1 a2 a3 a4, a2 a3, a2 a3 a4, a3 a4"),
    Example("A{2,} next a[]", "A a{2,}", "a1 a2 a3", "a1 a2, a1 a2 a3, a2 a3"),
    Example("SEQ(C c, next (A{4} next a[])?, next D d)", "C c ; (A a{4})? ; D d", f"c1 {MANY} d1",
            "c1 d1, a1 a2 a3 a4 c1 d1"),
    Example("SEQ(C c, next A? a, next D d)", "C c ; A a? ; D d", "c1 a1 a2 d1", "c1 d1, a1 c1 d1"),
    Example("SEQ(C c, next A+ greedy next a[], next D d)", "C c ; A a+ greedy ; D d", "c1 a1 a2 d1",
            "a1 a2 c1 d1"),
    Example("A+ next a[] UNTIL C c", "A a+ UNTIL C c", "a1 a2 c1 a3", "a1, a1 a2, a2, a3"),
    Example("SEQ(C c, strict (A a[], next B b[]){3} next)", "C c ; strict (A a ; B b){3}",
            "c1 a1 b1 a2 b2 a3 b3 c2 b4 a4", "a1 a2 a3 b1 b2 b3 c1"),
    Example(
        "A+ next a[] WHERE COALESCE(SUM(a[..i-1].v), 0) + a[i].v < 5",
        "A a{1,} WHERE FILTER(COALESCE(SUM(a[..i-1].v), 0) + a[i].v < 5)",
        "a1=6 a2=2 a3=1 a4=9",
        "a2, a2 a3, a3",
    ),
    Example("SEQ(A a, next B b) WITHIN 10 s", "A a ; B b WITHIN 10 s",
            "a1 . . . . . . . . . b1", ""),
    Example("SEQ(A a, next B b) WITHIN 10 s", "A a ; B b WITHIN 10 s",
            "a1 a2 . . . . . . . . b1", "a2 b1"),
    Example("SEQ(A a, B b) AFTER MATCH SKIP TO NEXT", "A a ; any B b AFTER MATCH SKIP TO NEXT",
            EVERY, "a1 b1, a2 b1"),
    Example("SEQ(A a, B b) AFTER MATCH SKIP PAST LAST", "A a ; any B b AFTER MATCH SKIP PAST LAST",
            f"{EVERY} a3 b3", "a1 b1, a3 b3"),
    Example("SEQ(B+ greedy next b[], next C c) AFTER MATCH SKIP TO FIRST b",
            "B b+ greedy ; C c AFTER MATCH SKIP TO FIRST b", "b1 b2 b3 c1",
            "b1 b2 b3 c1, b2 b3 c1, b3 c1"),
    Example("SEQ(B+ greedy next b[], next C c) AFTER MATCH SKIP TO LAST b",
            "B b+ greedy ; C c AFTER MATCH SKIP TO LAST b", "b1 b2 b3 c1", "b1 b2 b3 c1, b3 c1"),
)  # fmt: skip
ESPER = (
    Example("SEQ(A a, next B b)", "A a ; B b", "a1 b1 a2 a3 b2 b3", "a1 b1, a2 b2, a3 b2"),
    Example("SEQ(A a, next B b) AFTER MATCH RESTART", "A a ; B b AFTER MATCH RESTART",
            "a1 a2 b1 b2 a3 b3", "a1 b1, a3 b3"),
    Example("SEQ(A a, B b)", "A a ; any B b", EVERY, "a1 b1, a1 b2, a2 b1, a2 b2"),
    Example("SEQ(!(A z), A a, B b) WITHIN 1 day", "!A z ; A a ; any B b WITHIN 1 day",
            EVERY, "a1 b1, a1 b2"),
    Example("SEQ(A a, !(A z), next B b)", "A a ; !A z ; B b", EVERY, "a2 b1"),
    Example("(A a AND B b)", "(A a AND B b)", "b1 a1", "a1 b1"),
    Example("(A a OR B b)", "(A a OR B b)", "b1 a1", "a1, b1"),
    Example("(A a OR B b)", "A a | B b", "b1 a1", "a1, b1"),
    Example("SEQ(!(D z), B b) WITHIN 1 day", "!D z ; B b WITHIN 1 day", "b1 b2 d1 b3", "b1, b2"),
    Example("A{5} next a[]", "A a{5}", f"{MANY} a5", f"{MANY} a5"),
    Example("(A a[], next B b[]){2} next", "(A a ; B b){2}", "a1 b1 a2 b2", "a1 a2 b1 b2"),
    Example("SEQ(A* greedy next a[] UNTIL D z, next D d)", "A a* greedy UNTIL D z ; D d",
            "a1 a2 d1 a3 d2", "a1 a2 d1, a2 d1, d1, a3 d2, d2"),
    Example("SEQ(A{3,} greedy next a[] UNTIL B z, next B b)", "A a{3,} greedy UNTIL B z ; B b",
            f"{MANY} b1 a5 b2", "a1 a2 a3 a4 b1, a2 a3 a4 b1"),
    Example("A a WHERE [k] AFTER MATCH FIRST ONLY",
            "!A z ; A a WHERE z.k = a.k WITHIN 1 day", "a1:x a2:y a3:x a4:z", "a1, a2, a4"),
    Example("SEQ(A a, next B b) WITHIN 5 s", "A a ; B b WITHIN 5 s", "a1 a2 . . . b1", "a2 b1"),
    Example("SEQ(A a, next B b) WHERE time(b) - time(a) < 5 s",
            "A a ; B b WHERE FILTER((a, b) OCCURS WITHIN 5 s)", "a1 . a2 . . . b1", "a2 b1"),
    Example("SEQ(!(A z), A a) WHERE z.v <= 0 AND a.v > 0 WITHIN 1 day",
            "!A z ; A a WHERE z.v <= 0, a.v > 0 WITHIN 1 day", "a1=2 a2=1 a3=0 a4=5", "a1, a2"),
    Example("", "A a @ 5 s", "a1 . a2 . b1", "a1, a2"),
    Example("SEQ(A a, !(B z) FOR 5 s)", "A a ; !B z FOR 5 s", "a1 . . . . . a2 b1", "a1"),
    Example("SEQ(A a, every (next B b, next C c))", "A a ; every (B b ; C c)",
            "b1 c1 a1 b2 b3 c2 a2 c3 b4 c4", "a1 b2 c2, a1 b4 c4, a2 b4 c4"),
    Example("SEQ(A a, next B b) AFTER MATCH SKIP PAST LAST",
            "A a ; B b AFTER MATCH SKIP PAST LAST", "a1 a2 b1 a3 b2", "a1 b1, a3 b2"),
)  # fmt: skip
BOTH = "one stream: SEQ(A a, next BC{2,4} reluctant next b[], nearest C c)"
SIDDHI = (
    Example("SEQ(A a, next B b)", "A a ; B b", "a1 a2 b1 b2", "a1 b1, a2 b1"),
    Example("SEQ(A a, next B{2,4} reluctant next b[], nearest C c)",
            "A a ; B b{2,4} reluctant ; nearest C c", "a1 b1 c1 b2 b3 b4 b5 c2 c3",
            "a1 b1 b2 b3 b4 c2"),
    Example(BOTH, "", "a1 b1 b2 b3 c1 c2", "a1 b1 b2 b3 c1"),
    Example(BOTH, "", "a1 b1 c1 c2 c3", "a1 b1 c1 c2"),
    Example("SEQ(A a, strict B+ reluctant strict b[], strict C c)",
            "A a ; strict B b+ reluctant strict ; strict C c", "a1 b1 b2 c1 a2 b3 a3 c2",
            "a1 b1 b2 c1"),
    Example("one stream: SEQ(A a, strict BC+ reluctant strict b[], strict C c)", "",
            "a1 b1 c1 c2", "a1 b1 c1"),
    Example("SEQ(A a, next B{3,} next b[]) WHERE b[3].v > b[last-1].v AND b[last].v > 0",
            "A a ; B b{3,} WHERE b[3].v > b[last-1].v AND b[last].v > 0", "a1 b1=1 b2=2 b3=3 b4=4",
            "a1 b1 b2 b3"),
    Example("(A a AND B b)", "(A a AND B b)", "b1 a1", "a1 b1"),
    Example("(A a OR B b)", "(A a OR B b)", "b1 a1", "a1, b1"),
    Example("SEQ(A a, (strict B b, strict C c OR strict C d, strict B e))",
            "A a ; (strict B b ; strict C c | strict C d ; strict B e)",
            "a1 b1 c1 a2 c2 b2 a3 b3 b4 c3", "a1 b1 c1, a2 b2 c2"),
    Example("SEQ(A a, !(B z) FOR 5 s)", "A a ; !B z FOR 5 s", "a1 . . . . . a2 b1", "a1"),
    Example("SEQ(A a, !(B z), next C c)", "A a ; !B z ; C c", "a1 c1 a2 b1 c2", "a1 c1"),
    Example("SEQ(P p, (!(A z) FOR 2 s AND !(B y) FOR 4 s))",
            "P p ; (!A z FOR 2 s AND !B y FOR 4 s)", "p1 . . . . . p2 a1 . . . . p3 . . b1",
            "p1"),
    Example("SEQ(P p, (!(A z) FOR 2 s AND B b))", "P p ; (!A z FOR 2 s AND B b)",
            "p1 . b1 . . . a1 . . p2 a2 b2", "b1 p1, b2 p1"),
    Example("SEQ(P p, (!(A z) FOR 2 s OR B b))", "P p ; (!A z FOR 2 s | B b)",
            "p1 . . p2 a1 b1", "p1, b1 p1, b1 p2"),
    Example("SEQ(Start s, !(A z) FOR 5 s, next B b)", "", "start b1 . . . . b2", "b2"),
    Example("", "Start s ; !A z FOR 5 s ; B b", "start b1 . . . . b2", "b2 start"),
    Example("SEQ(A a, next B b) WITHIN <= 10 min", "A a ; B b WITHIN <= 10 min",
            f"a1 a2{' .' * 599} b1", "a2 b1"),
)  # fmt: skip
EXAMPLES = (*FLINK, *ESPER, *SIDDHI)
OF_THE_STREAM = ("strict s x", "AT '0 9 * * MON' t", "AT '*/20 * * * * *' t")
"""With kinds of one stream; of a calendar."""


def found(language: str, text: str, events: str) -> list[list[str]]:
    """Return the matches as labels."""
    whole = {"sase": f"EVENT {text}" if "SEQ(s " in text else text, "eql": f"SELECT * FROM {text}"}
    return found_by(whole[language], events, later=100_000)


@pytest.mark.parametrize(
    "example", EXAMPLES, ids=lambda one: f"{one.sase or one.eql}: {one.events}"
)
def test_an_example_finds_what_the_other_system_finds(example: Example) -> None:
    expected = sorted(sorted(one.split()) for one in example.found.split(", ") if one)
    for language, text in (("sase", example.sase), ("eql", example.eql)):
        if text:
            assert found(language, text, example.events) == expected, text


def test_each_example_of_the_page_is_run() -> None:
    """Each piece of code in the columns of SASE and EQL is part of an example here."""
    for row in re.findall(r"^\| `.+\|$", TABLES, re.MULTILINE):
        for column, cell in enumerate(row.replace("&#124;", "/or/").split("|")[2:4]):
            texts = [(one.sase, one.eql)[column] for one in EXAMPLES]
            codes = re.findall(r"`([^`]+)`|<code>(.+?)</code>", cell)
            for code in (first or second for first, second in codes):
                plain = code.replace("/or/", "|")
                known = any(one in code for one in OF_THE_STREAM) or plain in (";", "|")
                assert known or any(plain in text for text in texts), code


def test_the_first_match_and_the_first_start_differ() -> None:
    """A pattern of Esper without `every` follows its first start, FIRST ONLY any start."""
    assert "follows its first start only" in GUIDE
    events = "n1:x n2:y n3:z n5:y n6:x"
    where = "WHERE b.k = a.k"
    first = f"SEQ(!(N z), N a, next N b) {where} WITHIN 1 day"
    assert found("sase", first, events) == [["n1", "n6"]]
    only = f"SEQ(N a, next N b) {where} AFTER MATCH FIRST ONLY"
    assert found("sase", only, events) == [["n2", "n5"]]
