"""Every message of SASE as the user sees it."""

# ruff: noqa: E501 - the messages are shown as they are

from __future__ import annotations

import textwrap

import pytest

import cep_core
from cep_core.errors import QueryError

GOLDEN = """\
EVENT SEQ(A{3,1} a, B b)
    line 1, column 12: there is no repetition {3,1}
      EVENT SEQ(A{3,1} a, B b)
                 ^^^^^
      hint: the second number is the larger one, and at least 1
EVENT SEQ(A a, B b) AFTER MATCH SKIP
    line 1, column 33: this is no policy after a match
      EVENT SEQ(A a, B b) AFTER MATCH SKIP
                                      ^^^^
      hint: policies are SKIP TO NEXT, SKIP PAST LAST, FIRST ONLY, RESTART, NEWEST, SKIP TO FIRST x, SKIP TO LAST x
EVENT SEQ(A a, B b) AFTER MATCH SKIP TO LAST c
    line 1, column 46: there is no component c that occurs
      EVENT SEQ(A a, B b) AFTER MATCH SKIP TO LAST c
                                                   ^
      hint: components are a, b
EVENT SEQ(A a, (B b AND C+ c[]))
    line 1, column 21: AND joins single components
      EVENT SEQ(A a, (B b AND C+ c[]))
                          ^^^
      hint: write groups before or after it
EVENT SEQ(A a, B b UNTIL C c)
    line 1, column 20: UNTIL ends a run
      EVENT SEQ(A a, B b UNTIL C c)
                         ^^^^^
      hint: write + after the type
EVENT (A a, B b)+ UNTIL C c
    line 1, column 19: UNTIL does not end a group
      EVENT (A a, B b)+ UNTIL C c
                        ^^^^^
      hint: write it behind the run of one component
EVENT SEQ(A a, next (B b AND C c))
    line 1, column 16: what AND joins has no mark: its events come in any order
      EVENT SEQ(A a, next (B b AND C c))
                     ^^^^
EVENT SEQ(A a, next !B b, C c)
    line 1, column 21: what is negated has no mark
      EVENT SEQ(A a, next !B b, C c)
                          ^
EVENT SEQ(A a, (!B b | !C c))
    line 1, column 28: one of the alternatives has to occur
      EVENT SEQ(A a, (!B b | !C c))
                                 ^
EVENT (A? a, B* b){2}
    line 1, column 7: what is repeated has to take some event
      EVENT (A? a, B* b){2}
            ^
EVENT SEQ(A{1,2000} a)
    line 1, column 7: the pattern has more than 1000 states
      EVENT SEQ(A{1,2000} a)
            ^^^
      hint: use smaller numbers of repetitions
EVENT SEQ(A a, (!B b | C c))
    line 1, column 7: what is negated at the start or end of a pattern needs a window
      EVENT SEQ(A a, (!B b | C c))
            ^^^
      hint: add WITHIN and a duration
EVENT SEQ(A a, partition B b)
    line 1, column 7: the mark partition needs an equivalence test over all components
      EVENT SEQ(A a, partition B b)
            ^^^
      hint: add one to the condition, such as [id]
EVENT SEQ(A a, !B b, !C c, D d) WHERE b.id = c.w AFTER MATCH RESTART
    line 1, column 39: a condition reads b and c, which do not occur
      EVENT SEQ(A a, !B b, !C c, D d) WHERE b.id = c.w AFTER MATCH RESTART
                                            ^^^^^^^^^^
      hint: each of them has conditions of its own
EVENT SEQ(A a, B? b) NONSTRICT AFTER MATCH RESTART
    line 1, column 7: RESTART follows one first event, and of simultaneous ones there is no first
      EVENT SEQ(A a, B? b) NONSTRICT AFTER MATCH RESTART
            ^^^
      hint: leave out NONSTRICT
EVENT SEQ(A a, B+ b[]) RETURN LIST(b[]) AS x
    line 1, column 31: LIST takes an attribute of b[]
      EVENT SEQ(A a, B+ b[]) RETURN LIST(b[]) AS x
                                    ^^^^^^^^^
      hint: write LIST(b[].attribute)
SELECT * FROM A
    line 1, column 1: EVENT is expected here, not 'SELECT'
      SELECT * FROM A
      ^^^^^^
EVENT
    line 1, column 6: an event type is expected here, not the end
      EVENT
           ^
EVENT SEQ(A a, B b
    line 1, column 19: ')' or a comma is expected here, not the end
      EVENT SEQ(A a, B b
                        ^
EVENT SEQ(A a, b
    line 1, column 16: there is no event type b
      EVENT SEQ(A a, b
                     ^
      hint: did you mean B?
EVENT SEQ(A a, Bb b)
    line 1, column 16: there is no event type Bb
      EVENT SEQ(A a, Bb b)
                     ^^
      hint: did you mean B?
EVENT SEQ(A a, B a)
    line 1, column 18: two components are called a
      EVENT SEQ(A a, B a)
                       ^
      hint: give each a variable of its own
EVENT !A
    line 1, column 7: SEQ (a negation needs a sequence) is expected here, not '!'
      EVENT !A
            ^
EVENT SEQ(!A a, !B b) WITHIN 5
    line 1, column 14: some component has to occur
      EVENT SEQ(!A a, !B b) WITHIN 5
                   ^
EVENT SEQ(A a, !B b)
    line 1, column 7: what is negated at the start or end of a pattern needs a window
      EVENT SEQ(A a, !B b)
            ^^^
      hint: add WITHIN and a duration
EVENT SEQ(!B b, A a)
    line 1, column 7: what is negated at the start or end of a pattern needs a window
      EVENT SEQ(!B b, A a)
            ^^^
      hint: add WITHIN and a duration
EVENT SEQ(A a, !B+ b[], C c)
    line 1, column 16: what is negated occurs not even once, so + says nothing
      EVENT SEQ(A a, !B+ b[], C c)
                     ^
EVENT SEQ(A a, B b[], C c)
    line 1, column 19: b[] is a run, and its type is not repeated
      EVENT SEQ(A a, B b[], C c)
                        ^^
      hint: write + after the type
EVENT SEQ(A a, ANY(B, B) b)
    line 1, column 16: ANY names B twice
      EVENT SEQ(A a, ANY(B, B) b)
                     ^^^
EVENT SEQ(A a, ANY(B, D) b)
    line 1, column 26: id has another type in D
      EVENT SEQ(A a, ANY(B, D) b)
                               ^
      hint: ANY needs one type for each attribute; use a query for each
EVENT SEQ(A a, B b) WHERE a.idd = b.id
    line 1, column 27: there is no attribute idd
      EVENT SEQ(A a, B b) WHERE a.idd = b.id
                                ^^^^^
      hint: did you mean id?
EVENT SEQ(A a, B b) WHERE [idd]
    line 1, column 28: there is no attribute idd
      EVENT SEQ(A a, B b) WHERE [idd]
                                 ^^^
      hint: did you mean id?
EVENT SEQ(A a, B b) WHERE x.id = 1
    line 1, column 27: there is no variable x
      EVENT SEQ(A a, B b) WHERE x.id = 1
                                ^
      hint: there are a, b
EVENT SEQ(A a, B b) WHERE id = 1
    line 1, column 27: several components have an attribute id
      EVENT SEQ(A a, B b) WHERE id = 1
                                ^^
      hint: write a.id or b.id
EVENT SEQ(A a, B b) WHERE a.id = 'x'
    line 1, column 27: cannot compare int with str
      EVENT SEQ(A a, B b) WHERE a.id = 'x'
                                ^^^^^^^^^^
EVENT SEQ(A a, B b) WHERE a.id + 1
    line 1, column 27: a condition is expected here, not a value of type int
      EVENT SEQ(A a, B b) WHERE a.id + 1
                                ^^^^^^^^
EVENT SEQ(A a, B b) WHERE a.id = 1 b
    line 1, column 36: the end of the query or WHERE, WITHIN, AFTER MATCH, RETURN, PUBLISH in this order is expected here, not 'b'
      EVENT SEQ(A a, B b) WHERE a.id = 1 b
                                         ^
EVENT SEQ(A a, B b) WHERE a = 1
    line 1, column 27: a is a variable, not an attribute
      EVENT SEQ(A a, B b) WHERE a = 1
                                ^
      hint: write a.attribute
EVENT SEQ(A a, B b) WHERE a.
    line 1, column 29: an attribute is expected here, not the end
      EVENT SEQ(A a, B b) WHERE a.
                                  ^
EVENT SEQ(A a, B b) WHERE $1.id = 1
    line 1, column 27: $1. has no meaning in SASE
      EVENT SEQ(A a, B b) WHERE $1.id = 1
                                ^^^^^
      hint: write the variable before the attribute, such as x.id
EVENT SEQ(A a, B b) WHERE DUR < 5
    line 1, column 27: DUR has no meaning in a pattern
      EVENT SEQ(A a, B b) WHERE DUR < 5
                                ^^^^^^^
      hint: WITHIN bounds its duration
EVENT SEQ(A a, B b) WHERE [id = b.id]
    line 1, column 33: an equivalence test compares with a constant
      EVENT SEQ(A a, B b) WHERE [id = b.id]
                                      ^^^^
EVENT SEQ(A a, B b) WHERE [id
    line 1, column 30: ']' or a comma is expected here, not the end
      EVENT SEQ(A a, B b) WHERE [id
                                   ^
EVENT SEQ(A a, B b) WHERE a[1].id = 1
    line 1, column 27: a is one event, not a run
      EVENT SEQ(A a, B b) WHERE a[1].id = 1
                                ^^^^^^^
      hint: write a.id, or + after its type
EVENT SEQ(A a, B+ b[], C c) WHERE b.id = a.id
    line 1, column 35: b is a run
      EVENT SEQ(A a, B+ b[], C c) WHERE b.id = a.id
                                        ^^^^
      hint: write one of b[i].id, b[i-1].id, b[1].id, b[last].id, or an aggregate such as MAX(b[].id)
EVENT SEQ(A a, B+ b[], C c) WHERE b[0].id = a.id
    line 1, column 35: b has no event [0] by name
      EVENT SEQ(A a, B+ b[], C c) WHERE b[0].id = a.id
                                        ^^^^^^^
      hint: write one of b[i].id, b[i-1].id, b[1].id, b[last].id, or an aggregate such as MAX(b[].id)
EVENT (A a, B b){2} WHERE b[i].id > a[i-1].id
    line 1, column 27: a condition on b reads the event before a[i]
      EVENT (A a, B b){2} WHERE b[i].id > a[i-1].id
                                ^^^^^^^^^^^^^^^^^^^
      hint: only the event before b[i] is known then
EVENT SEQ(A a, B+ b[], C c) WHERE b[i].id = c.w
    line 1, column 35: a condition on each row of a run reads only what comes before it
      EVENT SEQ(A a, B+ b[], C c) WHERE b[i].id = c.w
                                        ^^^^^^^^^^^^^
      hint: compare a whole run, such as b[last].x or MAX(b[].x), with what comes later
EVENT SEQ(A a, B+ b[], C c) WHERE b[i].id > MAX(b[].id)
    line 1, column 35: a condition on each row of a run reads only what comes before it
      EVENT SEQ(A a, B+ b[], C c) WHERE b[i].id > MAX(b[].id)
                                        ^^^^^^^^^^^^^^^^^^^^^
      hint: compare a whole run, such as b[last].x or MAX(b[].x), with what comes later
EVENT SEQ(A a, B+ b[], C c) WHERE SUM(b[i].id) > 1
    line 1, column 35: SUM takes a whole run, such as b[], or what is before, [..i-1]
      EVENT SEQ(A a, B+ b[], C c) WHERE SUM(b[i].id) > 1
                                        ^^^^^^^^^^^^
EVENT SEQ(A a, B+ b[], C c) WHERE SUM(a.id) > 1
    line 1, column 35: SUM takes a whole run, such as b[] of a component B+ b[], or what is before, [..i-1]
      EVENT SEQ(A a, B+ b[], C c) WHERE SUM(a.id) > 1
                                        ^^^^^^^^^
EVENT SEQ(A a, B+ b[], C c) WHERE SUM(b[]) > 1
    line 1, column 35: SUM takes an attribute of b[]
      EVENT SEQ(A a, B+ b[], C c) WHERE SUM(b[]) > 1
                                        ^^^^^^^^
      hint: write SUM(b[].attribute)
EVENT SEQ(A a, B+ b[], C c) WHERE SUM(b[].s) > 1
    line 1, column 35: SUM takes numbers, not str
      EVENT SEQ(A a, B+ b[], C c) WHERE SUM(b[].s) > 1
                                        ^^^^^^^^^^
EVENT SEQ(A a, B+ b[], C c) WHERE COUNT(id) > 1
    line 1, column 41: there is no variable id
      EVENT SEQ(A a, B+ b[], C c) WHERE COUNT(id) > 1
                                              ^^
      hint: there are a, b, c
EVENT SEQ(A a, B+ b[], C c) RETURN b[i].id
    line 1, column 36: a result has many b[i].id
      EVENT SEQ(A a, B+ b[], C c) RETURN b[i].id
                                         ^^^^^^^
      hint: write b[1], b[last] or an aggregate
EVENT SEQ(A a, B+ b[], C c) RETURN AVG(b[..i-1].id) AS x
    line 1, column 36: a result has many AVG(b[..i-1].id)
      EVENT SEQ(A a, B+ b[], C c) RETURN AVG(b[..i-1].id) AS x
                                         ^^^^^^^^^^^^^^^^
      hint: write b[1], b[last] or an aggregate
EVENT SEQ(A a, B+ b[], !C c) WHERE b[i].id = c.w WITHIN 5
    line 1, column 36: a condition on what is negated reads b[i].id
      EVENT SEQ(A a, B+ b[], !C c) WHERE b[i].id = c.w WITHIN 5
                                         ^^^^^^^^^^^^^
      hint: write b[1], b[last] or an aggregate
EVENT SEQ(A a, !B b, !C c, A d) WHERE b.id = c.w WITHIN 5
    line 1, column 39: a condition reads b and c, which do not occur
      EVENT SEQ(A a, !B b, !C c, A d) WHERE b.id = c.w WITHIN 5
                                            ^^^^^^^^^^
      hint: each of them has conditions of its own
EVENT SEQ(A a, !B b, A d) RETURN b.id
    line 1, column 34: b is negated, so a result has no event of it
      EVENT SEQ(A a, !B b, A d) RETURN b.id
                                       ^^^^
EVENT SEQ(A a, B b) WITHIN
    line 1, column 27: a duration, such as 12 hours, is expected here, not the end
      EVENT SEQ(A a, B b) WITHIN
                                ^
EVENT SEQ(A a, B b) WITHIN 1.5
    line 1, column 28: a duration, such as 12 hours, is expected here, not '1.5'
      EVENT SEQ(A a, B b) WITHIN 1.5
                                 ^^^
EVENT SEQ(A a, B b) WITHIN 5 RETURN
    line 1, column 36: a value is expected here, not the end
      EVENT SEQ(A a, B b) WITHIN 5 RETURN
                                         ^
EVENT SEQ(A a, B b) WITHIN 5 RETURN a.id + 1
    line 1, column 45: AS name (an expression needs one) is expected here, not the end
      EVENT SEQ(A a, B b) WITHIN 5 RETURN a.id + 1
                                                  ^
EVENT SEQ(A a, B b) WITHIN 5 RETURN a.id, b.id
    line 1, column 43: the result would have the attribute id twice
      EVENT SEQ(A a, B b) WITHIN 5 RETURN a.id, b.id
                                                ^^^^
      hint: rename one of them with AS
EVENT SEQ(A a, B b) WITHIN 5 PUBLISH
    line 1, column 37: the name of a stream is expected here, not the end
      EVENT SEQ(A a, B b) WITHIN 5 PUBLISH
                                          ^
EVENT SEQ(A a, B b) WITHIN 5 PUBLISH A
    line 1, column 38: the query publishes A and reads it
      EVENT SEQ(A a, B b) WITHIN 5 PUBLISH A
                                           ^
EVENT SEQ(A a, B b) WITHIN 5 WHERE a.id = 1
    line 1, column 30: the end of the query or WHERE, WITHIN, AFTER MATCH, RETURN, PUBLISH in this order is expected here, not 'WHERE'
      EVENT SEQ(A a, B b) WITHIN 5 WHERE a.id = 1
                                   ^^^^^
EVENT SEQ(A a, B b) WHERE skip_till_next_match(a) {a.id = 1}
    line 1, column 47: a strategy names the components that have to occur, in order
      EVENT SEQ(A a, B b) WHERE skip_till_next_match(a) {a.id = 1}
                                                    ^^^
      hint: write (a, b)
EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) a.id = 1
    line 1, column 54: '{' is expected here, not 'a'
      EVENT SEQ(A a, B b) WHERE skip_till_next_match(a, b) a.id = 1
                                                           ^
EVENT SEQ(A a, B b) WHERE partition_contiguity(a, b) {a.id = b.id}
    line 1, column 27: partition_contiguity needs an equivalence test over all components
      EVENT SEQ(A a, B b) WHERE partition_contiguity(a, b) {a.id = b.id}
                                ^^^^^^^^^^^^^^^^^^^^
      hint: add one to the condition, such as [id]
EVENT SEQ(A a, C c) WHERE partition_contiguity(a, c) {[id]}
    line 1, column 27: partition_contiguity needs an equivalence test over all components
      EVENT SEQ(A a, C c) WHERE partition_contiguity(a, c) {[id]}
                                ^^^^^^^^^^^^^^^^^^^^
      hint: add one to the condition, such as [id]
EVENT SEQ(A a, B b) WHERE a.s = 'x
    line 1, column 33: this string does not end
      EVENT SEQ(A a, B b) WHERE a.s = 'x
                                      ^
EVENT SEQ(A a, B b) WHERE a.s # 'x'
    line 1, column 31: '#' is not part of the language
      EVENT SEQ(A a, B b) WHERE a.s # 'x'
                                    ^
EVENT SEQ(A a, B b) WHERE a.id = NULL.id
    line 1, column 34: a comparison with NULL never holds
      EVENT SEQ(A a, B b) WHERE a.id = NULL.id
                                       ^^^^
      hint: write IS NULL
EVENT SEQ(A a, B b) WHERE a.id < b
    line 1, column 34: b is a variable, not an attribute
      EVENT SEQ(A a, B b) WHERE a.id < b
                                       ^
      hint: write b.attribute
EVENT SEQ(A a, !(C c), B b) WHERE w = 1
    line 1, column 35: w is an attribute of c, which is negated: it is read by the variable only
      EVENT SEQ(A a, !(C c), B b) WHERE w = 1
                                        ^
      hint: write c.w
EVENT SEQ(A a, !(C c), !(C d), B b) WHERE a.id = 1 AND w = 1
    line 1, column 56: w is an attribute of c and d, which are negated: it is read by the variable only
      EVENT SEQ(A a, !(C c), !(C d), B b) WHERE a.id = 1 AND w = 1
                                                             ^
      hint: write c.w or d.w
EVENT SEQ(A a, B b) WHERE [id] AND a.id
    line 1, column 36: a condition is expected here, not a value of type int
      EVENT SEQ(A a, B b) WHERE [id] AND a.id
                                         ^^^^
EVENT SEQ(A a, B b) WHERE a.s - 1 > 3
    line 1, column 27: a number is expected here, not a value of type str
      EVENT SEQ(A a, B b) WHERE a.s - 1 > 3
                                ^^^
EVENT SEQ(A a, B b) RETURN a.id, -b.s AS m
    line 1, column 35: a number is expected here, not a value of type str
      EVENT SEQ(A a, B b) RETURN a.id, -b.s AS m
                                        ^^^
EVENT SEQ(A a, !(C c), B b) WHERE NOT c.w WITHIN 5
    line 1, column 39: a condition is expected here, not a value of type int
      EVENT SEQ(A a, !(C c), B b) WHERE NOT c.w WITHIN 5
                                            ^^^
EVENT A WHERE abs(s) = 1
    line 1, column 19: abs takes a value of type float here, not str
      EVENT A WHERE abs(s) = 1
                        ^
EVENT A a -> B b
    line 1, column 11: the end of the query or WHERE, WITHIN, AFTER MATCH, RETURN, PUBLISH in this order is expected here, not '-'
      EVENT A a -> B b
                ^
      hint: one event after another is SEQ(a, b) in SASE, a ; b in EQL, a NEXT b in CEL
EVENT SEQ(A a, NOT B b) WITHIN 5
    line 1, column 16: NOT stands in conditions only
      EVENT SEQ(A a, NOT B b) WITHIN 5
                     ^^^
      hint: an event that does not occur is !(B b) in SASE, !s B in EQL
EVENT SEQ(A a, B b) WHERE a.id => 3
    line 1, column 33: a value is expected here, not '>'
      EVENT SEQ(A a, B b) WHERE a.id => 3
                                      ^
      hint: at least is >=
EVENT SEQ(A a, B b) WHERE skip_till_next(a, b) {[id]}
    line 1, column 27: there is no strategy skip_till_next
      EVENT SEQ(A a, B b) WHERE skip_till_next(a, b) {[id]}
                                ^^^^^^^^^^^^^^
      hint: strategies are skip_till_any_match, skip_till_next_match, strict_contiguity, partition_contiguity
EVENT SEQ(A a, B b) WHERE skip_till_next {[id]}
    line 1, column 27: there is no strategy skip_till_next
      EVENT SEQ(A a, B b) WHERE skip_till_next {[id]}
                                ^^^^^^^^^^^^^^
      hint: strategies are skip_till_any_match, skip_till_next_match, strict_contiguity, partition_contiguity
"""


def cases() -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in GOLDEN.splitlines():
        if line.startswith("    "):
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
        else:
            found.append((line, ""))
    return [(text, textwrap.dedent(message).rstrip("\n")) for text, message in found]


def engine() -> cep_core.Engine:
    core = cep_core.Engine(ticks_per_second=2)
    core.stream("A", {"id": int, "s": str})
    core.stream("B", {"id": int, "s": str})
    core.stream("C", {"w": int})
    core.stream("D", {"id": str})
    return core


@pytest.mark.parametrize(("text", "message"), cases(), ids=[text for text, _ in cases()])
def test_message(text: str, message: str) -> None:
    core = engine()
    with pytest.raises(QueryError) as caught:
        core.register("q", text, "sase")
    assert str(caught.value) == message
    assert core.stats()["operators"] == core.stats()["queries"] == 0


def test_the_place_of_an_error_in_a_later_line() -> None:
    with pytest.raises(QueryError) as caught:
        engine().register("q", "EVENT SEQ(A a,\n  B b)\nWHERE a.id = b.idd /* 1 */\n", "sase")
    assert (caught.value.line, caught.value.column) == (3, 14)
    assert caught.value.hint == "did you mean id?"


def test_a_window_of_nothing_is_refused_at_its_place() -> None:
    """Also where queries of that shape are known, and where nothing has to lie in it."""
    core = engine()
    core.register("known", "EVENT SEQ(A a, B b) WITHIN 1 s", "sase")
    core.register("single", "EVENT A x WITHIN 1", "sase")
    for text in (
        "EVENT SEQ(A a, B b)\n  WITHIN 0 s",
        "EVENT A x\n  WITHIN 0",
        "EVENT A\n  WITHIN 0.0 s",
    ):
        with pytest.raises(QueryError) as caught:
            core.register("q", text, "sase")
        duration = text.partition("WITHIN ")[2]
        assert str(caught.value) == (
            "line 2, column 10: a window has at least 1 tick, not 0\n"
            f"    WITHIN {duration}\n"
            f"           {'^' * len(duration)}\n"
            "  hint: leave WITHIN out if there is no window"
        )
    with pytest.raises(QueryError, match="line 1, column 36: a window has"):
        core.register("q", "EVENT A WITHIN /* at */ /* once */ 0", "sase")
    assert core.stats()["queries"] == 2


@pytest.mark.parametrize(
    "deep",
    [
        "EVENT SEQ(A a, B b) WHERE " + "(" * 5000 + "TRUE" + ")" * 5000,
        "EVENT SEQ(A a, B b) WHERE " + "NOT " * 5000 + "TRUE",
        "EVENT SEQ(A a, B b) WHERE [id = " + "- " * 5000 + "1]",
    ],
)
def test_what_is_nested_too_deeply_is_refused(deep: str) -> None:
    with pytest.raises(QueryError, match="more than 100 operators and parentheses"):
        engine().register("q", deep, "sase")
