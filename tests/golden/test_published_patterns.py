"""Published examples of other systems, each as one query of SASE, EQL or CEL.

The sources are the documentation of Flink's CEP library (docs/libs/cep), the pattern chapter of
Esper's reference with the examples of its regression suite (suite/pattern), Siddhi's query guide
5 (pattern, sequence), and the papers.  Facts only: a pattern, events, and which match.  Where a
document gives no events, they are ours, and what matches follows from its text.

An event is `label`, `label=number` or `label=number:key`; its type is the first letter, and one
happens every second.  `.` is a second without one.  `o0` is the start of the other system's query,
where it counts from there.  A match is the labels of its events, in any order.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from cep_core import Engine, Event

ROOT = Path(__file__).parents[2]
ATTRIBUTES = {"kind": str, "label": str, "v": int, "k": str}


class Case(NamedTuple):
    """Their pattern, events, our query and its matches; without a query, why there is none.

    A query of SASE is given without EVENT and RETURN; components that begin with x are not shown.
    `one stream:` says that its types are kinds of the events of one stream.
    """

    theirs: str
    events: str
    ours: str
    found: str


PAIR = "a c b1 b2"
LOOP = "a b1 d1 b2 d2 b3 c"
TIMES = "c a1 a2 a3 a4 a5 d"
CONSECUTIVE = "c d a1 a2 a3 d a4 b"
ALL = "b1 b2 b3 c, b2 b3 c, b3 c"
NESTED = "one stream: SEQ(ABC f, strict BC g, strict C+ greedy strict t[], strict D d)"
RUN = "one stream: SEQ(next B+ greedy next b[], next C c)"


def times(theirs: str, ours: str, *runs: int) -> Case:
    """Return a case of `c`, a quantified `a` and `d`: the runs of `a` that match, by length."""
    found = [" ".join(["c", *[f"a{at}" for at in range(1, run + 1)], "d"]) for run in runs]
    return Case(theirs, TIMES, f"SEQ(C c, next {ours}, next D d)", ", ".join(found))


FLINK = (
    times("start.times(4)", "A{4} next a[]", 4),
    times("start.times(4).optional()", "(A{4} next a[])?", 0, 4),
    times("start.times(2, 4)", "A{2,4} next a[]", 2, 3, 4),
    times("start.times(2, 4).greedy()", "A{2,4} greedy next a[]", 4),
    times("start.times(2, 4).optional()", "(A{2,4} next a[])?", 0, 2, 3, 4),
    times("start.times(2, 4).optional().greedy()", "(A{2,4} greedy next a[])? greedy", 4),
    times("start.oneOrMore()", "A+ next a[]", 1, 2, 3, 4, 5),
    times("start.oneOrMore().greedy()", "A+ greedy next a[]", 5),
    times("start.oneOrMore().optional()", "A* next a[]", 0, 1, 2, 3, 4, 5),
    times("start.oneOrMore().optional().greedy()", "A* greedy next a[]", 5),
    times("start.timesOrMore(2)", "A{2,} next a[]", 2, 3, 4, 5),
    times("start.timesOrMore(2).greedy()", "A{2,} greedy next a[]", 5),
    times("start.timesOrMore(2).optional()", "(A{2,} next a[])?", 0, 2, 3, 4, 5),
    times("start.timesOrMore(2).optional().greedy()", "(A{2,} greedy next a[])? greedy", 5),
    Case(
        'begin("start").where(id == 42).next("middle").where(volume >= 10).followedBy("end")',
        "s1=42 m1=12 x e1 s2=42 x m2=12 e2",
        "one stream: SEQ(S s, strict M m, next E e) WHERE s.v = 42 AND m.v >= 10",
        "s1 m1 e1",
    ),
    Case(
        "where(IterativeCondition): sum of the prices so far and this one < 5",
        "a1=2 a2=2 a3=2",
        "A+ next a[] WHERE a[i].v < 5 AND SUM(a[..i-1].v) + a[i].v < 5",
        "a1, a1 a2, a2, a2 a3, a3",
    ),
    Case("where(...).or(...)", "a1=1 a2=5 a3=9", "A a WHERE a.v < 2 OR a.v > 8", "a1, a3"),
    Case("subtype(SubEvent.class)", "a1 b1", "A a", "a1"),
    Case("(a+ until b)", "a1 c a2 b a3", "A+ next a[] UNTIL B z", "a1, a1 a2, a2, a3"),
    Case("a b, next()", PAIR, "one stream: SEQ(A a, strict B b)", ""),
    Case("a b, followedBy()", PAIR, "SEQ(A a, next B b)", "a b1"),
    Case("a b, followedByAny()", PAIR, "SEQ(A a, B b)", "a b1, a b2"),
    Case(
        "a notNext(b) followedBy(c)",
        "a1 b1 c1 a2 d1 c2 a3 c3",
        "one stream: SEQ(A a, (strict ADE x, next C c | strict C d))",
        "a2 c2, a3 c3",
    ),
    Case(
        "a notFollowedBy(b) followedBy(c)",
        "a1 d1 b1 c1 a2 d2 c2",
        "SEQ(A a, !(B z), next C c)",
        "a2 c2",
    ),
    Case(
        'next("middle").notFollowedBy("end").within(Time.seconds(10))',
        "a1 b1 . . a2 . . . . . . . . . . .",
        "SEQ(A a, !(B z)) WITHIN 10",
        "a2",
    ),
    Case(
        "within(Time.seconds(10))",
        "a1 . . . . . . . . . . . b1 a2 b2",
        "SEQ(A a, next B b) WITHIN 10",
        "a2 b2",
    ),
    Case(
        "a b+ c, strict contiguity",
        LOOP,
        "one stream: SEQ(A a, B+ strict b[], strict C c)",
        "a b3 c",
    ),
    Case(
        "a b+ c, relaxed contiguity",
        LOOP,
        "SEQ(A a, B+ next b[], next C c)",
        "a b1 c, a b1 b2 c, a b1 b2 b3 c, a b2 c, a b2 b3 c, a b3 c",
    ),
    Case(
        "a b+ c, non-deterministic relaxed contiguity",
        LOOP,
        "SEQ(A a, B+ any b[], next C c)",
        "a b1 c, a b1 b2 c, a b1 b3 c, a b1 b2 b3 c, a b2 c, a b2 b3 c, a b3 c",
    ),
    Case(
        "oneOrMore().consecutive()",
        CONSECUTIVE,
        "one stream: SEQ(C c, next A+ strict a[], next B b)",
        "c a1 b, c a1 a2 b, c a1 a2 a3 b",
    ),
    Case(
        "oneOrMore()",
        CONSECUTIVE,
        "SEQ(C c, next A+ next a[], next B b)",
        "c a1 b, c a1 a2 b, c a1 a2 a3 b, c a1 a2 a3 a4 b",
    ),
    Case(
        "oneOrMore().allowCombinations()",
        CONSECUTIVE,
        "SEQ(C c, A+ any a[], next B b)",
        "c a1 b, c a1 a2 b, c a1 a3 b, c a1 a4 b, c a1 a2 a3 b, c a1 a2 a4 b, c a1 a3 a4 b,"
        " c a1 a2 a3 a4 b, c a2 b, c a2 a3 b, c a2 a4 b, c a2 a3 a4 b, c a3 b, c a3 a4 b, c a4 b",
    ),
    Case("begin(a followedBy b)", "a1 c b1", "SEQ((A a, next B b))", "a1 b1"),
    Case(
        "next(a followedBy b).times(3)",
        "c1 a1 b1 a2 b2 a3 b3 c2 d1 a4 b4 a5 b5 a6 b6",
        "one stream: SEQ(C c, strict (A a[], next B b[]){3} next)",
        "c1 a1 b1 a2 b2 a3 b3",
    ),
    Case(
        "followedBy(a followedBy b).oneOrMore()",
        "c1 a1 b1 d1 a2 b2",
        "SEQ(C c, next (A a[], next B b[])+ next)",
        "c1 a1 b1, c1 a1 b1 a2 b2",
    ),
    Case(
        "followedByAny(a followedBy b).optional()",
        "c1 a1 b1 a2 b2",
        "SEQ(C c, (A a, next B b)?)",
        "c1, c1 a1 b1, c1 a2 b2",
    ),
    Case("b+ c, noSkip()", "b1 b2 b3 c", RUN, ALL),
    Case("b+ c, skipToNext()", "b1 b2 b3 c", f"{RUN} AFTER MATCH SKIP TO NEXT", ALL),
    Case(
        "b+ c, skipPastLastEvent()",
        "b1 b2 b3 c",
        f"{RUN} AFTER MATCH SKIP PAST LAST",
        "b1 b2 b3 c",
    ),
    Case('b+ c, skipToFirst("b")', "b1 b2 b3 c", f"{RUN} AFTER MATCH SKIP TO FIRST b", ALL),
    Case(
        'b+ c, skipToLast("b")',
        "b1 b2 b3 c",
        f"{RUN} AFTER MATCH SKIP TO LAST b",
        "b1 b2 b3 c, b3 c",
    ),
    Case(
        "(a | b | c) (b | c) c+.greedy d, noSkip()",
        "a b c1 c2 c3 d",
        NESTED,
        "a b c1 c2 c3 d, b c1 c2 c3 d, c1 c2 c3 d",
    ),
    Case(
        '(a | b | c) (b | c) c+.greedy d, skipToFirst("c*")',
        "a b c1 c2 c3 d",
        f"{NESTED} AFTER MATCH SKIP TO FIRST t",
        "a b c1 c2 c3 d, c1 c2 c3 d",
    ),
    Case("a b+, noSkip()", "a b1 b2 b3", "SEQ(A a, next B+ next b[])", "a b1, a b1 b2, a b1 b2 b3"),
    Case(
        "a b+, skipToNext()",
        "a b1 b2 b3",
        "SEQ(A a, next B+ next b[]) AFTER MATCH SKIP TO NEXT",
        "a b1",
    ),
    Case("skipToFirst(...).throwExceptionOnMiss()", "", "", "a query has no exceptions"),
    Case("processTimedOutMatch()", "", "", "partial matches are no result"),
)

SET = "o0 a1 b1 c1 b2 a2 d1 e1 f1 d2 b3 g1 d3"
EVERY = "a1 b1 c1 b2 a2 d1 a3 b3 e1 a4 f1 b4"
FIRST = "AFTER MATCH FIRST ONLY"
EVER = "WITHIN 1 day"
ONCE = f"{EVER} {FIRST}"
PAIRS = "b1 d1, b2 d1, b1 d2, b2 d2, b3 d1, b3 d2, b1 d3, b2 d3, b3 d3"

ESPER = (
    Case("every (A -> B)", EVERY, "SEQ(A a, next B b) AFTER MATCH RESTART", "a1 b1, a2 b3, a4 b4"),
    Case("every A -> B", EVERY, "SEQ(A a, next B b)", "a1 b1, a2 b3, a3 b3, a4 b4"),
    Case("A -> every B", EVERY, f"SEQ(!(A z), A a, B b) {EVER}", "a1 b1, a1 b2, a1 b3, a1 b4"),
    Case(
        "every A -> every B",
        EVERY,
        "SEQ(A a, B b)",
        "a1 b1, a1 b2, a1 b3, a2 b3, a3 b3, a1 b4, a2 b4, a3 b4, a4 b4",
    ),
    Case(
        "every (A -> B -> C)",
        "a1 b1 a2 c1 a3 b2 c2",
        "SEQ(A a, next B b, next C c) AFTER MATCH RESTART",
        "a1 b1 c1, a3 b2 c2",
    ),
    Case(
        "every A -> B -> C",
        "a1 b1 a2 c1 a3 b2 c2",
        "SEQ(A a, next B b, next C c)",
        "a1 b1 c1, a2 b2 c2, a3 b2 c2",
    ),
    Case("every a=A -> b=B", "a1 a2 b1", "SEQ(A a, next B b)", "a1 b1, a2 b1"),
    Case("every a=A -> (b=B and not A)", "a1 a2 b1", "SEQ(A a, !(A z), next B b)", "a2 b1"),
    Case(
        "every A -> (B -> C) where timer:within(1 hour)",
        "a1 a2 b1 c1",
        "SEQ(A a, next B b, next C c) WITHIN 1 h",
        "a1 b1 c1, a2 b1 c1",
    ),
    Case(
        "every-distinct(s.sensor) s=Sample",
        "a1=1 a2=2 a3=1 a4=3",
        f"SEQ(!(A z), A a) WHERE z.v = a.v {EVER}",
        "a1, a2, a4",
    ),
    Case(
        "every-distinct(a.aprop) a=A -> b=B(bprop = a.aprop)",
        "a1=1 a2=1 b1=1 a3=2 b2=2",
        f"SEQ(!(A z), A a, next B b) WHERE z.v = a.v AND a.v = b.v {EVER}",
        "a1 b1, a3 b2",
    ),
    Case(
        "every-distinct(a.timestamp, 10 seconds) a=A",
        "",
        "",
        "what was reported of a key is not forgotten after a time of its own",
    ),
    Case("[5] A", "a1 a2 a3 a4 a5 a6", f"A{{5}} next a[] {FIRST}", "a1 a2 a3 a4 a5"),
    Case(
        "[5] (A or B)",
        "a1 b1 a2 b2 a3 b3",
        f"(A a[] | B b[]){{5}} next {FIRST}",
        "a1 a2 a3 b1 b2",
    ),
    Case("[5] A or B", "a1 a2 b1", f"(A{{5}} next a[] | B b) {FIRST}", "b1"),
    Case(
        "[2] (a=A -> b=B)",
        "a1 b1 a2 a3 b2",
        f"(A a[], next B b[]){{2}} next {FIRST}",
        "a1 b1 a2 b2",
    ),
    Case("every [2] a=A", "a1 a2 a3 a4", "A{2} next a[] AFTER MATCH RESTART", "a1 a2, a3 a4"),
    Case(
        "[2] A -> B(beta in (a[0].id, a[1].id))",
        "a1=1 a2=2 b1=3 b2=2",
        f"SEQ(A{{2}} next a[], next B b) WHERE b.v = a[1].v OR b.v = a[2].v {FIRST}",
        "a1 a2 b2",
    ),
    Case("A until D", SET, f"SEQ(A* greedy next a[], next D d) {FIRST}", "a1 a2 d1"),
    Case(
        "A(id='A2') until D",
        SET,
        f"SEQ(A* greedy next a[], next D d) WHERE a[i].label = 'a2' {FIRST}",
        "a2 d1",
    ),
    Case("B until A", SET, f"SEQ(B* greedy next b[], next A a) {FIRST}", "a1"),
    Case(
        "B until D(id='D3')",
        SET,
        f"SEQ(B* greedy next b[], next D d) WHERE d.label = 'd3' {FIRST}",
        "b1 b2 b3 d3",
    ),
    Case(
        "(A or B) until (G or D)",
        SET,
        f"SEQ((A a[] | B b[])* greedy next, next (G g | D d)) {FIRST}",
        "a1 a2 b1 b2 d1",
    ),
    Case(
        "A until G(id='GX')",
        SET,
        f"SEQ(A* greedy next a[], next G g) WHERE g.label = 'gx' {FIRST}",
        "",
    ),
    Case("[2] A", SET, f"A{{2}} next a[] {FIRST}", "a1 a2"),
    Case("[3] A", SET, f"A{{3}} next a[] {FIRST}", ""),
    Case("[3] B", SET, f"B{{3}} next b[] {FIRST}", "b1 b2 b3"),
    Case("[4] (A or B)", SET, f"(A a[] | B b[]){{4}} next {FIRST}", "a1 a2 b1 b2"),
    Case("[2] B until C", SET, f"SEQ(!(C z), B{{2}} next b[] UNTIL C u) {ONCE}", ""),
    Case("[2:2] B until G", SET, f"SEQ(!(G z), B{{2}} next b[] UNTIL G u) {ONCE}", "b1 b2"),
    Case("[:4] B until G", SET, f"SEQ(B{{0,4}} greedy next b[], next G g) {FIRST}", "b1 b2 b3 g1"),
    Case("[:2] B until G", SET, f"SEQ(B{{0,2}} greedy next b[], next G g) {FIRST}", "b1 b2 g1"),
    Case(
        "[1:] B until A",
        SET,
        f"SEQ(!(A z), B+ greedy next b[] UNTIL A u, next A a) {ONCE}",
        "",
    ),
    Case(
        "[2:] B until A(id='A2')",
        SET,
        f"SEQ(B{{2,}} greedy next b[], next A a) WHERE a.label = 'a2' {FIRST}",
        "b1 b2 a2",
    ),
    Case("[1:10] B until C", SET, f"SEQ(B{{1,10}} greedy next b[], next C c) {FIRST}", "b1 c1"),
    Case(
        "C -> [2] B -> D",
        SET,
        f"SEQ(C c, next B{{2}} next b[], next D d) {FIRST}",
        "c1 b2 b3 d3",
    ),
    Case("[3] D or [3] B", SET, f"(D{{3}} next d[] | B{{3}} next b[]) {FIRST}", "b1 b2 b3"),
    Case("[3] D or [4] B", SET, f"(D{{3}} next d[] | B{{4}} next b[]) {FIRST}", "d1 d2 d3"),
    Case("[2] D and [2] B", "", "", "AND joins single events, not runs"),
    Case(
        "D until timer:interval(7 sec)",
        SET,
        "SEQ(O x, next D* greedy next d[], !(D z)) WITHIN <= 7 AFTER MATCH FIRST ONLY",
        "d1",
    ),
    Case(
        "every (D until B)",
        SET,
        "SEQ(D* greedy next d[], next B b) AFTER MATCH RESTART",
        "b1, b2, d1 d2 b3",
    ),
    Case("B and D", SET, f"(B b AND D d) {FIRST}", "b1 d1"),
    Case("every (B and D)", SET, "(B b AND D d) AFTER MATCH RESTART", "b1 d1, b3 d2"),
    Case("every B and every D", SET, "(B b AND D d)", PAIRS),
    Case(
        "every B and D",
        SET,
        f"SEQ(!(D z), (B b, next D d | D e, B f)) {EVER}",
        "b1 d1, b2 d1, b3 d1",
    ),
    Case(
        "B and every D",
        SET,
        f"SEQ(!(B z), (D e, next B f | B b, D d)) {EVER}",
        "b1 d1, b1 d2, b1 d3",
    ),
    Case("A and D and B", SET, f"(A a AND D d AND B b) {FIRST}", "a1 d1 b1"),
    Case(
        "every (every B and D)",
        "",
        "",
        "every inside every reports a pair once for each of its restarts",
    ),
    Case("A or B", "b1 a1", f"(A a | B b) {FIRST}", "b1"),
    Case("every (A or B)", "b1 a1", "(A a | B b)", "b1, a1"),
    Case("B and not D", SET, f"SEQ(!(D z), B b) {ONCE}", "b1"),
    Case("every B and not D", SET, f"SEQ(!(D z), B b) {EVER}", "b1, b2"),
    Case("every B and not G", SET, f"SEQ(!(G z), B b) {EVER}", "b1, b2, b3"),
    Case("B and not A(id='A1')", SET, f"SEQ(!(A z), B b) WHERE z.label = 'a1' {ONCE}", ""),
    Case(
        "every (B and not B(id='B2'))",
        SET,
        "B b WHERE b.label != 'b2'",
        "b1, b3",
    ),
    Case("(B -> D) and not G", SET, f"SEQ(!(G z), B b, !(G y), next D d) {ONCE}", "b1 d1"),
    Case("(B -> D) and not A", SET, f"SEQ(!(A z), B b, !(A y), next D d) {ONCE}", ""),
    Case(
        "every a=A -> (timer:interval(30 seconds) and not M(symbol = a.name))",
        "a1:e" + " ." * 9 + " a2:f" + " ." * 9 + " m1:e" + " ." * 9 + " a3:g" + " ." * 10,
        "SEQ(A a, !(M z)) WHERE a.k = z.k WITHIN <= 30",
        "a2",
    ),
    Case("B -> D", SET, f"SEQ(B b, next D d) {FIRST}", "b1 d1"),
    Case("B -> every D", SET, f"SEQ(!(B z), B b, D d) {EVER}", "b1 d1, b1 d2, b1 d3"),
    Case("every B -> D", SET, "SEQ(B b, next D d)", "b1 d1, b2 d1, b3 d3"),
    Case(
        "every B -> every D",
        SET,
        "SEQ(B b, D d)",
        "b1 d1, b2 d1, b1 d2, b2 d2, b1 d3, b2 d3, b3 d3",
    ),
    Case(
        "every (A -> B -> A)",
        SET,
        "SEQ(A a, next B b, next A c) AFTER MATCH RESTART",
        "a1 b1 a2",
    ),
    Case("C -> D -> A", SET, f"SEQ(C c, next D d, next A a) {FIRST}", ""),
    Case("every (B -> every D)", "", "", "every inside every, as above"),
    Case("B -[10]> D", "", "", "the number of open matches has no bound of the query's own"),
    Case(
        "every a=R(zone=1) -> (b=R(mac=a.mac, zone!=1) and not R(mac=a.mac, zone=1))",
        "r1=1:a r2=2:a r3=1:b r4=1:b r5=2:b",
        "SEQ(R a, !(R z), next R b) WHERE [k] AND a.v = 1 AND z.v = 1 AND b.v != 1",
        "r1 r2, r4 r5",
    ),
    Case(
        "every a=A -> (timer:interval(10 seconds) and not (B(id=a.id) or C(id=a.id)))",
        "a1:1 . . . . . . . . . . a2:2 b1:2 . . . . . . . . . . a3:3 c1:3 . . . . . . . . . .",
        "SEQ(A a, !(ANY(B, C) z)) WHERE a.k = z.k WITHIN <= 10",
        "a1",
    ),
    Case(
        "B(id='B1') where timer:within(2 sec)",
        SET,
        "SEQ(O x, next B b) WHERE b.label = 'b1' WITHIN 2",
        "",
    ),
    Case(
        "B(id='B1') where timer:within(2001 msec)",
        SET,
        "SEQ(O x, next B b) WHERE b.label = 'b1' WITHIN <= 2",
        "b1",
    ),
    Case("(every B) where timer:within(4.001)", SET, "SEQ(O x, B b) WITHIN <= 4", "b1, b2"),
    Case("(every B) where timer:within(11.001)", SET, "SEQ(O x, B b) WITHIN <= 11", "b1, b2, b3"),
    Case(
        "B -> D where timer:within(4001 msec)",
        SET,
        f"SEQ(!(B z), B b, next D d) WHERE time(d) - time(b) <= 4 {EVER}",
        "b1 d1",
    ),
    Case(
        "B -> D where timer:within(4 sec)",
        SET,
        f"SEQ(!(B z), B b, next D d) WHERE time(d) - time(b) < 4 {EVER}",
        "",
    ),
    Case(
        "every B -> D where timer:within(4000 msec)",
        SET,
        "SEQ(B b, next D d) WITHIN 4",
        "b2 d1, b3 d3",
    ),
    Case(
        "every B -> (every D) where timer:within(2001 msec)",
        SET,
        "SEQ(B b, D d) WITHIN <= 2",
        "b2 d1, b3 d3",
    ),
    Case(
        "every (B -> D) where timer:within(6001 msec)",
        SET,
        "SEQ(B b, next D d) WITHIN <= 6 AFTER MATCH RESTART",
        "b1 d1, b3 d3",
    ),
    Case(
        "B where timer:within(2000 msec) or D where timer:within(6001 msec)",
        SET,
        "SEQ(O x, next (B b | D d)) WHERE time(b) - time(x) < 2 AND time(d) - time(x) <= 6"
        f" {EVER} {FIRST}",
        "d1",
    ),
    Case(
        "B where timer:within(2001 msec) and D where timer:within(6001 msec)",
        SET,
        "SEQ(O x, (B b AND D d)) WHERE time(b) - time(x) <= 2 AND time(d) - time(x) <= 6"
        f" {EVER} {FIRST}",
        "b1 d1",
    ),
    Case("(every B) where timer:withinmax(10 sec, 2)", "", "", "no policy counts matches"),
    Case(
        "(every a=A) while (a.value > 0)",
        "a1=1 a2=2 a3=0 a4=5",
        f"SEQ(!(A z), A a) WHERE z.v <= 0 AND a.v > 0 {EVER}",
        "a1, a2",
    ),
    Case("timer:interval(3 sec)", "o0 . . . .", "SELECT X.label FROM O X @ 3 s", "o0"),
    Case("A -> timer:interval(3 sec)", "a1 . . . .", "SELECT A.label FROM A A @ 3 s", "a1"),
    Case(
        "A -> every timer:at(*/1, *, *, *, *)",
        "a1" + " ." * 130,
        "SEQ(A a, AT '* * * * *' x)",
        "a1, a1",
    ),
    Case("timer:schedule(repetitions: 3, ...)", "", "", "calendars have no number of repetitions"),
    Case("@consume", "", "", "an event that one alternative takes is free for the others"),
    Case(
        "@SuppressOverlappingMatches every a=A -> b=B",
        "a1 a2 b1 a3 b2",
        "SEQ(A a, next B b) AFTER MATCH SKIP PAST LAST",
        "a1 b1, a3 b2",
    ),
    Case(
        "@DiscardPartialsOnMatch every a=A -> b=B",
        "a1 a2 b1 b2",
        "SEQ(A a, next B b) AFTER MATCH SKIP PAST LAST",
        "a1 b1",
    ),
)

COUNTED = "a1 b1 b2 b3 c1"


def absent(said: str, events: str, query: str, found: str) -> Case:
    """Return a row of Siddhi's table of events that do not occur, as a query of EQL."""
    return Case(said, events, f"SELECT {query}", found)


MOMENT = "(O X @ 2 s \\ A Z)"
AFTER_P = "(P P @ 2 s \\ A Z)"
BOTH = "(({} X @ 2 s \\ A Z \\ B Y) @ 2 s \\ B V)"
TWO = "the time of an absence is the window, so it cannot end before the other event comes"

SIDDHI = (
    Case(
        "every e1=T -> e2=T[e1.room == room and e1.temp + 5 <= temp] within 10 min",
        "t1=20:r t2=22:r t3=26:r t4=40:q",
        "SEQ(T a, next T b) WHERE a.k = b.k AND a.v + 5 <= b.v WITHIN <= 10 min",
        "t1 t3",
    ),
    Case(
        "e1=T -> e2=T[e1.temp + 5 <= temp]",
        "t1=20 t2=10 t3=26",
        f"SEQ(!(T z), T a, next T b) WHERE a.v + 5 <= b.v {ONCE}",
        "t1 t3",
    ),
    *(
        Case(
            f"A -> B<{theirs}> -> C",
            COUNTED,
            f"SEQ(A a, next B{ours} greedy next b[], next C c)",
            found,
        )
        for theirs, ours, found in (
            ("1:4", "{1,4}", "a1 b1 b2 b3 c1"),
            ("2:", "{2,}", "a1 b1 b2 b3 c1"),
            (":5", "{0,4}", "a1 b1 b2 b3 c1"),
            ("5", "{5}", ""),
        )
    ),
    *(
        Case(
            f"e1[{theirs}]",
            COUNTED,
            f"EVENT SEQ(A a, next B+ greedy next b[], next C c) RETURN b[{ours}].label",
            found,
        )
        for theirs, ours, found in (
            ("3", "3", "b3"),
            ("last", "last", "b3"),
            ("last - 1", "last-1", "b2"),
        )
    ),
    Case(
        "every e1=R -> e2=T[e1.room == room]<1:> -> e3=R[e1.room == room]",
        "r1:x t1:x t2:x t3:y r2:x",
        "EVENT SEQ(R a, next T+ greedy next b[], next R c) WHERE [k]"
        " RETURN a.label AS a, b[1].label AS b, b[last].label AS d, c.label AS c",
        "r1 t1 t2 r2",
    ),
    Case("A and B", "b1 a1", f"(A a AND B b) {FIRST}", "a1 b1"),
    Case("A or B", "b1 a1", f"(A a | B b) {FIRST}", "b1"),
    Case(
        "e1=on -> e2=key removed or e3=off, only with e2",
        "r1=1:x k1=0:x r2=1:y r3=0:y k2=0:y",
        "SEQ(R a, !(R z), next K b) WHERE [k] AND a.v = 1 AND z.v = 0",
        "r1 k1",
    ),
    Case(
        "e1=start -> not T[temp < 12] and e2=off",
        "r1=1:x t1=20:x r2=0:x r3=1:x t2=9:x r4=0:x",
        "SEQ(R a, !(T z), next R b) WHERE [k] AND a.v = 1 AND b.v = 0 AND z.v < 12",
        "r1 r2",
    ),
    Case(
        "e1=start -> not T[temp < 12] for 5 min",
        "r1=1:x t1=9:x r2=1:y" + " ." * 305,
        "SEQ(R a, !(T z)) WHERE [k] AND z.v < 12 WITHIN <= 5 min",
        "r2",
    ),
    absent("not A for 2 sec", "o0 b1 . a1", f"X.label FROM {MOMENT}", "o0"),
    Case("not A for 2 sec and B", "", "", TWO),
    absent(
        "not A for 2 sec and not B for 4 sec",
        "o0 . . a1 . .",
        f"X.label FROM {BOTH.format('O')}",
        "o0",
    ),
    absent(
        "not A for 2 sec or B",
        "o0 a1 . . b1",
        f"X.label, Y.label FROM {MOMENT} | (O W ; B Y)",
        "b1",
    ),
    absent(
        "not A for 2 sec or not B for 4 sec",
        "o0 a1 . . . .",
        f"X.label, Y.label FROM {MOMENT} | (O Y @ 4 s \\ B W)",
        "o0",
    ),
    absent("A -> not B for 2 sec", "a1 b1 a2 . . .", "A.label FROM A A @ 2 s \\ B Z", "a2"),
    Case("P -> not A for 2 sec and B", "", "", TWO),
    absent(
        "P -> not A for 2 sec and not B for 4 sec",
        "p1 b1 . . . p2 . . a1 . .",
        f"X.label FROM {BOTH.format('P')}",
        "p2",
    ),
    absent(
        "P -> not A for 2 sec or B",
        "p1 a1 . . b1",
        f"P.label, B.label FROM {AFTER_P} | (P Q ; B B)",
        "b1",
    ),
    absent(
        "P -> not A for 2 sec or not B for 4 sec",
        "p1 a1 . . . .",
        f"P.label, Q.label FROM {AFTER_P} | (P Q @ 4 s \\ B W)",
        "p1",
    ),
    absent("not A for 2 sec -> B", "o0 b1 . b2", f"Y.label FROM {MOMENT} ; B Y", "b2"),
    Case("not A for 2 sec and B -> P", "", "", TWO),
    absent(
        "not A for 2 sec and not B for 4 sec -> P",
        "o0 p1 . . . p2",
        f"P.label FROM {BOTH.format('O')} ; P P",
        "p2",
    ),
    absent(
        "not A for 2 sec or B -> P",
        "o0 a1 b1 p1",
        f"P.label FROM ({MOMENT} | (O W ; B Y)) ; P P",
        "p1",
    ),
    absent(
        "not A for 2 sec or not B for 4 sec -> P",
        "o0 a1 . . . p1",
        f"P.label FROM ({MOMENT} | (O Y @ 4 s \\ B W)) ; P P",
        "p1",
    ),
    Case("not A and B", "b1 a1 b2", f"SEQ(!(A z), B b) {ONCE}", "b1"),
    Case("A and not B", "a1 b1 a2", f"SEQ(!(B z), A a) {ONCE}", "a1"),
    Case(
        "every e1=T, e2=T[e1.temp + 1 < temp]",
        "t1=20 t2=22 t3=22 t4=25",
        "SEQ(T a, strict T b) WHERE a.v + 1 < b.v",
        "t1 t2, t3 t4",
    ),
    *(
        Case(
            f"A, B{sign}, C",
            events,
            f"SEQ(A a, strict B{sign} greedy strict b[], strict C c)",
            found,
        )
        for sign, events, found in (
            ("+", "a1 b1 b2 c1 a2 c2", "a1 b1 b2 c1"),
            ("*", "a1 b1 b2 c1 a2 c2", "a1 b1 b2 c1, a2 c2"),
        )
    ),
    Case(
        "A, B?, C",
        "a1 b1 c1 a2 c2 a3 b2 b3 c3",
        "SEQ(A a, strict B? greedy b, strict C c)",
        "a1 b1 c1, a2 c2",
    ),
    Case(
        "every e1=T, e2=T[e1.temp <= temp]+, e3=T[e2[last].temp > temp]",
        "t1=20 t2=22 t3=24 t4=19",
        "SEQ(T a, strict T+ greedy strict b[], strict T c) WHERE a.v <= b[i].v AND b[last].v > c.v",
        "t1 t2 t3 t4, t2 t3 t4",
    ),
    Case(
        "every e1=R, e2=T and e3=H",
        "r1 t1 h1 r2 h2 t2 r3 t3 r4 h3",
        "SEQ(R a, (strict T b, strict H c | strict H d, strict T e))",
        "r1 t1 h1, r2 h2 t2",
    ),
)

SASE_PLUS = (
    Case(
        "SEQ(Shelf a, ~(Register b), Exit c), skip till next match",
        "s1:t s2:u r1:u e1:t e2:u",
        "SEQ(S a, !(R z), E c) WHERE skip_till_next_match(a, c) {[k]} WITHIN 12 h",
        "s1 e1",
    ),
    Case(
        "SEQ(Alert a, Shipment+ b[]), skip till any match, b[i].from = b[i-1].to",
        "a1=1 s1=1 s2=2 s3=2 s4=4",
        "SEQ(A a, S+ b[]) WHERE skip_till_any_match(a, b[])"
        " {b[1].v = a.v AND b[i].v = b[i-1].v + 1} WITHIN 3 h",
        "a1 s1, a1 s1 s2, a1 s1 s3",
    ),
    Case(
        "SEQ(Stock+ a[], Stock b), a[1].volume > 1000, a[i].price > AVG(a[..i-1].price)",
        "s1=10:x s2=12:x s3=9:x s4=20:x",
        "SEQ(S+ a[], S b) WHERE skip_till_next_match(a[], b)"
        " {[k] AND a[1].v = 10 AND a[i].v > AVG(a[..i-1].v) AND b.v < 10} WITHIN 1 h",
        "s1 s2 s3",
    ),
)

ELSEWHERE = {
    "test_cayuga_examples": (
        *(
            "test_example_1_and_11",
            "test_example_2_and_12",
            "test_example_3_and_13_is_the_same_as_2",
        ),
        *("test_example_4_and_14", "test_example_5_and_15", "test_example_6_and_16"),
        *("test_example_7_and_17", "test_example_8_and_18", "test_example_9_state_by_state"),
        *("test_s1", "test_s2", "test_s3", "test_s4", "test_s5", "test_s6", "test_s7"),
    ),
    "test_sase_examples": (
        *("test_q1_is_a_selection", "test_an_overdose_is_the_sum_of_two_doses_within_four_hours"),
        "test_q2_reports_what_is_taken_out_without_being_checked_out",
        "test_misplaced_inventory_is_reported_when_the_window_ends",
    ),
    "test_next_cep": (
        *("test_small_purchases_before_a_large_one", "test_a_currency_that_was_not_used_before"),
        "test_three_consecutive_large_transactions_of_an_account",
    ),
}
"""Examples of the Cayuga, SASE and NEXT CEP papers that tests of their own run."""

SOURCES = {"Flink": FLINK, "Esper": ESPER, "Siddhi": SIDDHI, "SASE+": SASE_PLUS}
CASES = [(source, case) for source, cases in SOURCES.items() for case in cases]
_COMPONENT = re.compile(
    r"(?P<aside>!\(?\s*|UNTIL )?\b(?P<types>[A-Z]+)(?P<times>[?*+]|\{[\d,]*\})?"
    r"(?P<manner>(?: (?:greedy|reluctant|any|next|nearest|strict))*) (?P<name>[a-z])(?P<run>\[\])?"
    r"(?= UNTIL|[\s,)|]|$)"
)
_CLAUSES = re.compile(
    r"(?P<pattern>.*?)(?: WHERE (?P<where>.*?))?"
    r"(?P<clauses>(?: WITHIN [^)]*?)?(?: AFTER MATCH [^)]*)?)"
)


GUIDE = (ROOT / "docs/languages/coming-from.md").read_text("utf-8")
TABLES, _, _ = GUIDE.partition("## What cannot be said")
CELLS = [
    (language, code.replace("&#124;", "|"))
    for row in re.findall(r"^\|.+\|$", TABLES, re.MULTILINE)
    for language, cell in zip(("sase", "eql"), row.split("|")[2:], strict=False)
    for code in re.findall(r"`([^`]+)`|<code>(.+?)</code>", cell)
    for code in [code[0] or code[1]]
    if re.match(r"SEQ\(|\(|!|strict \(|[A-Z]\w*([?*+{]\S*)? [a-z]|AT ", code)
    and not re.match(r"WITHIN|.*OCCURS", code)
]


def in_sase(ours: str) -> str:
    """Return a query of SASE with EVENT and RETURN; over one stream, kinds are conditions."""
    _, one, text = ours.partition("one stream: ")
    found = _CLAUSES.fullmatch(text if one else ours)
    assert found is not None
    pattern, where = found["pattern"], [found["where"]] if found["where"] else []
    items = []
    for part in _COMPONENT.finditer(pattern):
        name, run = part["name"], bool(part["run"])
        if one:
            known = ", ".join(f"'{kind.lower()}'" for kind in part["types"])
            where.append(f"{name}{'[i]' * run}.kind IN ({known})")
        if not part["aside"] and name != "x":
            items.append(f"LIST({name}[].label) AS {name}" if run else f"{name}.label AS {name}")
    if one:
        pattern = _COMPONENT.sub(_over_one_stream, pattern)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    return f"EVENT {pattern}{condition}{found['clauses']} RETURN {', '.join(items)}"


def _over_one_stream(part: re.Match[str]) -> str:
    run = part["run"] or ""
    return f"{part['aside'] or ''}s{part['times'] or ''}{part['manner']} {part['name']}{run}"


def found_by(case: Case) -> list[list[str]]:
    """Return the matches of our query, as sorted labels."""
    one = "one stream: " in case.ours
    words = case.events.split()
    types = {word[0].upper() for word in words if word != "."} | set("ABCDEFGHKMOPRST")
    core = Engine(1)
    for name in ["s"] if one else sorted(types):
        core.stream(name, ATTRIBUTES)
    full = case.ours.startswith(("SELECT", "EVENT"))
    language = "eql" if case.ours.startswith("SELECT") else "sase"
    core.register("q", case.ours if full else in_sase(case.ours), language)
    events = []
    for at, word in enumerate(words):
        if word != ".":
            label, _, key = word.partition(":")
            label, _, number = label.partition("=")
            values = (label[0], label, int(number) if number else None, key or None)
            events.append(Event("s" if one else label[0].upper(), values, at))
    matches = [*core.push(events), *core.advance(len(words))]
    return sorted(
        sorted(
            label
            for value in event.values
            for label in (value if isinstance(value, tuple) else [value])
            if label is not None
        )
        for _, event in matches
    )


@pytest.mark.parametrize("source", SOURCES)
def test_one_query_finds_what_is_published(source: str) -> None:
    cases = [case for case in SOURCES[source] if case.ours]
    wanted = {
        (case.theirs, case.events): sorted(
            sorted(one.split()) for one in case.found.split(", ") if one
        )
        for case in cases
    }
    assert len(wanted) == len(cases)
    assert {(case.theirs, case.events): found_by(case) for case in cases} == wanted


def test_most_published_examples_are_one_query_and_the_guide_names_the_others() -> None:
    said = sum(bool(case.ours) for _, case in CASES) + sum(map(len, ELSEWHERE.values()))
    number = len(CASES) + sum(map(len, ELSEWHERE.values()))
    assert said >= 0.85 * number
    started = sum(bool(re.search(r"\bO [A-Za-z]", case.ours)) for _, case in CASES)
    assert f"has {number} published examples" in GUIDE
    assert f"{said} of them are one query" in GUIDE
    assert f"{started} begin with an event" in GUIDE
    for _, case in CASES:
        assert case.ours or (case.theirs in GUIDE and case.found in GUIDE), case


def test_examples_of_papers_have_tests_of_their_own() -> None:
    for module, names in ELSEWHERE.items():
        tree = ast.parse((ROOT / f"tests/golden/{module}.py").read_text("utf-8"))
        known = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert known.issuperset(names)


def test_the_patterns_of_the_guide_are_read() -> None:
    core = Engine(1)
    for name in (*"ABCDPs", "Start"):
        core.stream(name, ATTRIBUTES)
    for number, (language, code) in enumerate(CELLS):
        edge = " WITHIN 1 day" if language == "eql" and code.startswith("!") else ""
        head = "EVENT" if language == "sase" else "SELECT * FROM"
        core.register(str(number), f"{head} {code}{edge}", language)
    assert len(core.queries) > 70
