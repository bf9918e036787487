"""Every message of EQL as the user sees it."""

from __future__ import annotations

import textwrap

import pytest

import cep_core
from cep_core.errors import QueryError

GOLDEN = r"""\
SELECT * FROM t A{3,2}
    line 1, column 18: there is no repetition {3,2}
      SELECT * FROM t A{3,2}
                       ^^^^^
      hint: the second number is the larger one, and at least 1
SELECT * FROM t A \ u Z
    line 1, column 23: nothing comes before what \ ends
      SELECT * FROM t A \ u Z
                            ^
      hint: \ ends what waits: (t A ; t B) \ u Z
SELECT * FROM (t A ; (u B AND t C)) \ t Z
    line 1, column 37: \ does not end what AND joins
      SELECT * FROM (t A ; (u B AND t C)) \ t Z
                                          ^
      hint: write !z into it: (a A AND b B AND !z Z)
SELECT * FROM (t A @ 5 s)+
    line 1, column 26: what is repeated has no @, and behind \ one event
      SELECT * FROM (t A @ 5 s)+
                               ^
      hint: publish it in a query of its own, and read the stream
SELECT * FROM t A ; !u Z @ 5 s ; u B
    line 1, column 26: what does not occur has no @
      SELECT * FROM t A ; !u Z @ 5 s ; u B
                               ^
SELECT * FROM tt A{2}
    line 1, column 15: there is no stream tt
      SELECT * FROM tt A{2}
                    ^^
      hint: did you mean t?
SELECT * FROM t A{2} ; ;
    line 1, column 25: a stream is expected here, not the end
      SELECT * FROM t A{2} ; ;
                              ^
SELECT * FROM t{2} A
    line 1, column 20: ; | \ @ AND, a quantifier, a clause or the end is expected here, not 'A'
      SELECT * FROM t{2} A
                         ^
      hint: an alias stands right behind its stream: t A{2}
SELECT PREV(A.acc) AS p FROM t A{2}
    line 1, column 8: PREV belongs into conditions
      SELECT PREV(A.acc) AS p FROM t A{2}
             ^^^^^^^^^^^
      hint: select id.f
SELECT ALL(A.acc) AS p FROM t A ; !u Z ; u B
    line 1, column 8: ALL takes the attribute of a run, such as A.f
      SELECT ALL(A.acc) AS p FROM t A ; !u Z ; u B
             ^^^^^^^^^^
      hint: write + after the alias
SELECT Z.acc FROM t A ; !u Z ; u B
    line 1, column 8: Z is negated, so a result has no event of it
      SELECT Z.acc FROM t A ; !u Z ; u B
             ^^^^^
SELECT * FROM t A? ; u B WHERE (A, Z) OCCURS WITHIN 5 s
    line 1, column 36: there is no variable Z
      SELECT * FROM t A? ; u B WHERE (A, Z) OCCURS WITHIN 5 s
                                         ^
      hint: there are A, B
SELECT * FROM t A ; !u B
    line 1, column 15: what is negated at the start or end of a pattern needs a window
      SELECT * FROM t A ; !u B
                    ^
      hint: add WITHIN and a duration
SELECT * FROM tt A
    line 1, column 15: there is no stream tt
      SELECT * FROM tt A
                    ^^
      hint: did you mean t?
SELECT * FROM t A ; t A
    line 1, column 23: two components are called A
      SELECT * FROM t A ; t A
                            ^
      hint: give each a variable of its own
SELECT * FROM t A @ 0 s
    line 1, column 21: a window has at least 1 tick, not 0
      SELECT * FROM t A @ 0 s
                          ^^^
      hint: leave @ out for the moment itself
SELECT * FROM t A | u A
    line 1, column 23: there are two A in the pattern
      SELECT * FROM t A | u A
                            ^
      hint: alternatives of one alias have the same attributes
SELECT * FROM t A ; u B WHERE A.amout > 3
    line 1, column 31: A has no attribute amout
      SELECT * FROM t A ; u B WHERE A.amout > 3
                                    ^^^^^^^
      hint: did you mean amount?
SELECT * FROM t A ; u B WHERE C.amount > 3
    line 1, column 31: there is no variable C
      SELECT * FROM t A ; u B WHERE C.amount > 3
                                    ^
      hint: there are A, B
SELECT * FROM t A ; u B WHERE acc = 'a'
    line 1, column 31: several components have an attribute acc
      SELECT * FROM t A ; u B WHERE acc = 'a'
                                    ^^^
      hint: write A.acc or B.acc
SELECT * FROM t A ; u B WHERE amout > 3
    line 1, column 31: there is no attribute amout
      SELECT * FROM t A ; u B WHERE amout > 3
                                    ^^^^^
      hint: did you mean amount?
SELECT * FROM t A ; u B WHERE A > 3
    line 1, column 31: A is a variable, not an attribute
      SELECT * FROM t A ; u B WHERE A > 3
                                    ^
      hint: write A.attribute
SELECT * FROM t A ; u B WHERE A.amount = 'a'
    line 1, column 31: cannot compare float with str
      SELECT * FROM t A ; u B WHERE A.amount = 'a'
                                    ^^^^^^^^^^^^^^
SELECT * FROM t A ; u B WHERE A.amount CONTAINS 'a'
    line 1, column 31: contains takes a value of type str here, not float
      SELECT * FROM t A ; u B WHERE A.amount CONTAINS 'a'
                                    ^^^^^^^^
SELECT * FROM t A ; u B WHERE A.acc CONTAINS 3
    line 1, column 46: a string is expected here, not '3'
      SELECT * FROM t A ; u B WHERE A.acc CONTAINS 3
                                                   ^
SELECT * FROM t A ; u B WHERE (A, B) OCCURS WITHIN 3.5
    line 1, column 52: a duration, such as 5 min, is expected here, not '3.5'
      SELECT * FROM t A ; u B WHERE (A, B) OCCURS WITHIN 3.5
                                                         ^^^
SELECT * FROM t A ; u B WHERE (A, C) OCCURS WITHIN 3 s
    line 1, column 35: there is no variable C
      SELECT * FROM t A ; u B WHERE (A, C) OCCURS WITHIN 3 s
                                        ^
      hint: there are A, B
SELECT * FROM t A ; u B WHERE (A, B) OCCURS 3 s
    line 1, column 45: WITHIN and a duration is expected here, not '3 s'
      SELECT * FROM t A ; u B WHERE (A, B) OCCURS 3 s
                                                  ^^^
SELECT * FROM t A ; u B WHERE (A, B) WITHIN 3 s
    line 1, column 38: OCCURS WITHIN and a duration is expected here, not 'WITHIN'
      SELECT * FROM t A ; u B WHERE (A, B) WITHIN 3 s
                                           ^^^^^^
SELECT * FROM t A ; u B WHERE FILTER A.acc = B.acc
    line 1, column 38: '(' after FILTER is expected here, not 'A'
      SELECT * FROM t A ; u B WHERE FILTER A.acc = B.acc
                                           ^
SELECT * FROM t A ; u B WHERE FILTER(A.acc = B.acc
    line 1, column 51: ')' is expected here, not the end
      SELECT * FROM t A ; u B WHERE FILTER(A.acc = B.acc
                                                        ^
SELECT * FROM t A ; u B WHERE A.acc
    line 1, column 31: a condition is expected here, not a value of type str
      SELECT * FROM t A ; u B WHERE A.acc
                                    ^^^^^
SELECT * FROM t A ; u B WHERE $1.acc = 'a'
    line 1, column 31: EQL has no decorators: write id.f
      SELECT * FROM t A ; u B WHERE $1.acc = 'a'
                                    ^^^^^^
      hint: ids are A, B
SELECT * FROM t A ; u B WHERE A.acc = B.acc PUBLISH
    line 1, column 52: the name of a stream is expected here, not the end
      SELECT * FROM t A ; u B WHERE A.acc = B.acc PUBLISH
                                                         ^
SELECT * FROM t A u B
    line 1, column 19: ; | \ @ AND, a quantifier, a clause or the end is expected here, not 'u'
      SELECT * FROM t A u B
                        ^
      hint: an alias stands right behind its stream: t A{2}
SELECT * FROM t A ; ;
    line 1, column 22: a stream is expected here, not the end
      SELECT * FROM t A ; ;
                           ^
SELECT * FROM (t A ; u B
    line 1, column 25: ')', ;, | or AND is expected here, not the end
      SELECT * FROM (t A ; u B
                              ^
SELECT * FROM (t A)++
    line 1, column 21: ; | \ @ AND, a quantifier, a clause or the end is expected here, not '+'
      SELECT * FROM (t A)++
                          ^
SELECT * FROM t A @ x
    line 1, column 21: a duration, such as 5 min, is expected here, not 'x'
      SELECT * FROM t A @ x
                          ^
SELECT *, A.acc FROM t A
    line 1, column 8: an attribute (* stands alone) is expected here, not '*'
      SELECT *, A.acc FROM t A
             ^
SELECT A.acc, B.acc AS A_acc FROM t A ; u B
    line 1, column 15: the result would have the attribute A_acc twice
      SELECT A.acc, B.acc AS A_acc FROM t A ; u B
                    ^^^^^^^^^^^^^^
      hint: rename one of them with AS
SELECT A.amount + 1 FROM t A
    line 1, column 21: AS name (an expression needs one) is expected here, not 'FROM'
      SELECT A.amount + 1 FROM t A
                          ^^^^
SELECT PREV(A.acc) FROM t A+
    line 1, column 8: PREV belongs into conditions
      SELECT PREV(A.acc) FROM t A+
             ^^^^^^^^^^^
      hint: select id.f
SELECT ALL(A.amount) + 1 AS x FROM t A+
    line 1, column 8: cannot add tuple and int
      SELECT ALL(A.amount) + 1 AS x FROM t A+
             ^^^^^^^^^^^^^^^^^
SELECT A.acc, Z.acc FROM (t A ; u B) \ t Z
    line 1, column 15: Z is negated, so a result has no event of it
      SELECT A.acc, Z.acc FROM (t A ; u B) \ t Z
                    ^^^^^
SELECT * FROM (t A ; u B) \ t Z WHERE Z.acc = B.acc
    line 1, column 39: B has not occurred yet when this ends the match
      SELECT * FROM (t A ; u B) \ t Z WHERE Z.acc = B.acc
                                            ^^^^^^^^^^^^^
      hint: compare with what stands before the last ;
SELECT * FROM ((t A ; u B) \ t Z) ; t C WHERE Z.acc = C.acc
    line 1, column 47: C has not occurred yet when this ends the match
      SELECT * FROM ((t A ; u B) \ t Z) ; t C WHERE Z.acc = C.acc
                                                    ^^^^^^^^^^^^^
      hint: compare with what stands before the last ;
SELECT A.acc
    line 1, column 13: FROM is expected here, not the end
      SELECT A.acc
                  ^
SELECT A.acc) FROM t A
    line 1, column 13: a comma or FROM is expected here, not ')'
      SELECT A.acc) FROM t A
                  ^
SELECT (A.acc FROM t A
    line 1, column 15: ')' is expected here, not 'FROM'
      SELECT (A.acc FROM t A
                    ^^^^
SELEC A.acc FROM t A
    line 1, column 1: SELECT is expected here, not 'SELEC'
      SELEC A.acc FROM t A
      ^^^^^
SELECT A. FROM t A
    line 1, column 11: an attribute of A is expected here, not 'FROM'
      SELECT A. FROM t A
                ^^^^
SELECT * FROM t A WHERE A.acc = 'a
    line 1, column 33: this string does not end
      SELECT * FROM t A WHERE A.acc = 'a
                                      ^
SELECT * FROM t A WHERE A.amount > 1e999
    line 1, column 36: this number is too large
      SELECT * FROM t A WHERE A.amount > 1e999
                                         ^^^^^
SELECT * FROM t A WHERE PREV(A) > 3
    line 1, column 31: '.' and an attribute of A is expected here, not ')'
      SELECT * FROM t A WHERE PREV(A) > 3
                                    ^
SELECT * FROM t A WHERE FILTER(A.amount)
    line 1, column 32: a condition is expected here, not a value of type float
      SELECT * FROM t A WHERE FILTER(A.amount)
                                     ^^^^^^^^
SELECT * FROM t A WHERE lenght(A.acc) > 3
    line 1, column 25: there is no function lenght
      SELECT * FROM t A WHERE lenght(A.acc) > 3
                              ^^^^^^^^^^^^^
      hint: did you mean length?
SELECT * FROM t WHERE
    line 1, column 22: a value is expected here, not the end
      SELECT * FROM t WHERE
                           ^
SELECT a.n FROM t where ; u B
    line 1, column 25: a value is expected here, not ';'
      SELECT a.n FROM t where ; u B
                              ^
      hint: where begins the conditions: as a name take another word
SELECT A.acc FROM t A -> u B
    line 1, column 23: ; | \ @ AND, a quantifier, a clause or the end is expected here, not '-'
      SELECT A.acc FROM t A -> u B
                            ^
      hint: one event after another is SEQ(a, b) in SASE, a ; b in EQL, a NEXT b in CEL
SELECT A.acc FROM t A ; not u B
    line 1, column 25: not stands in conditions only
      SELECT A.acc FROM t A ; not u B
                              ^^^
      hint: an event that does not occur is !(B b) in SASE, !s B in EQL
"""


def cases() -> list[tuple[str, str]]:
    """Return the queries with their messages."""
    found: list[tuple[str, list[str]]] = []
    for line in GOLDEN.splitlines()[1:]:
        if line.startswith("    "):
            found[-1][1].append(line)
        else:
            found.append((line, []))
    return [(query, textwrap.dedent("\n".join(lines))) for query, lines in found]


@pytest.mark.parametrize(("query", "message"), cases())
def test_message(query: str, message: str) -> None:
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("t", {"acc": str, "amount": float})
    core.stream("u", {"acc": str, "n": int})
    with pytest.raises(QueryError) as caught:
        core.register("q", query, language="eql")
    assert "\n".join(line.rstrip() for line in str(caught.value).splitlines()) == message
