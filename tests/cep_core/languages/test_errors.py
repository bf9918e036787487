"""Every message of CEL as the user sees it."""

# ruff: noqa: E501 - the messages are shown as they are

from __future__ import annotations

import textwrap

import pytest

import cep_core
from cep_core.errors import QueryError

GOLDEN = """\
SELECT * FROM Stok
    line 1, column 15: there is no stream Stok
      SELECT * FROM Stok
                    ^^^^
      hint: did you mean Stock?
SELECT Nme FROM Stock
    line 1, column 8: there is no attribute Nme
      SELECT Nme FROM Stock
             ^^^
      hint: did you mean Name?
SELECT Name) FROM Stock
    line 1, column 12: a comma or FROM is expected here, not ')'
      SELECT Name) FROM Stock
                 ^
SELECT (Price FROM Stock
    line 1, column 15: ')' is expected here, not 'FROM'
      SELECT (Price FROM Stock
                    ^^^^
SELECT Name FROM FILTER{Name = 5}(Stock)
    line 1, column 25: cannot compare str with int
      SELECT Name FROM FILTER{Name = 5}(Stock)
                              ^^^^^^^^
SELECT Name FROM Stock NEXT{Name = 'IBM'} Stock
    line 1, column 29: both streams have an attribute Name
      SELECT Name FROM Stock NEXT{Name = 'IBM'} Stock
                                  ^^^^
      hint: write $1.Name or $2.Name
SELECT * FROM Stock FOLD{Name = 'IBM', TRUE} Stock
    line 1, column 26: both streams have an attribute Name
      SELECT * FROM Stock FOLD{Name = 'IBM', TRUE} Stock
                               ^^^^
      hint: write $1.Name or $2.Name or $.Name
SELECT * FROM Stock NEXT{$.Name = $2.Name} Stock
    line 1, column 26: $. names the last iteration of a FOLD; here there are $1. and $2.
      SELECT * FROM Stock NEXT{$.Name = $2.Name} Stock
                               ^^^^^^
SELECT $1.Name FROM Stock
    line 1, column 8: decorators belong into the predicates of FILTER, NEXT, FOLD and JOIN
      SELECT $1.Name FROM Stock
             ^^^^^^^
      hint: here it is called Name
SELECT * FROM FILTER{$2.Price > 1}(Stock)
    line 1, column 22: there is one stream here, so $2. names nothing
      SELECT * FROM FILTER{$2.Price > 1}(Stock)
                           ^^^^^^^^
SELECT AVG(Price) FROM Stock
    line 1, column 8: AVG needs to know over which events
      SELECT AVG(Price) FROM Stock
             ^^^
      hint: add WINDOW and a duration, or AT INSTANT, after the stream
SELECT AVG(Price) FROM Stock WINDOW 0 s
    line 1, column 37: a window has at least 1 tick, not 0
      SELECT AVG(Price) FROM Stock WINDOW 0 s
                                          ^^^
      hint: AT INSTANT aggregates rows that end together
SELECT Name, AVG(Price) FROM Stock WINDOW 5 s
    line 1, column 8: Name is neither grouped nor inside an aggregate
      SELECT Name, AVG(Price) FROM Stock WINDOW 5 s
             ^^^^
      hint: add GROUP BY Name
SELECT SUM(Name) FROM Stock WINDOW 5 s
    line 1, column 12: SUM takes numbers, not str
      SELECT SUM(Name) FROM Stock WINDOW 5 s
                 ^^^^
SELECT Name FROM Stock WINDOW 5 s
    line 1, column 8: Name is neither grouped nor inside an aggregate
      SELECT Name FROM Stock WINDOW 5 s
             ^^^^
      hint: add GROUP BY Name
SELECT AVG(Price) FROM Stock GROUP BY Name
    line 1, column 43: WINDOW or AT INSTANT (GROUP BY needs one) is expected here, not the end
      SELECT AVG(Price) FROM Stock GROUP BY Name
                                                ^
SELECT Name FROM FILTER{Price > }(Stock)
    line 1, column 33: a value is expected here, not '}'
      SELECT Name FROM FILTER{Price > }(Stock)
                                      ^
SELECT Name FROM FILTER{Price > 5 (Stock)
    line 1, column 42: '}' is expected here, not the end
      SELECT Name FROM FILTER{Price > 5 (Stock)
                                               ^
SELECT Name FROM FILTER{Price > 5 6}(Stock)
    line 1, column 35: AND, OR, a comma or '}' is expected here, not '6'
      SELECT Name FROM FILTER{Price > 5 6}(Stock)
                                        ^
SELEC Name FROM Stock
    line 1, column 1: SELECT or FROM is expected here, not 'SELEC'
      SELEC Name FROM Stock
      ^^^^^
SELECT Name FROM Stock WHERE Price > 5
    line 1, column 24: the end of the query, NEXT, FOLD, JOIN, UNION or PUBLISH is expected here, not 'WHERE'
      SELECT Name FROM Stock WHERE Price > 5
                             ^^^^^
      hint: conditions stand before a stream, FILTER{v > 1} s, or between two, NEXT{n = 1}
SELECT Price + 1 FROM Stock
    line 1, column 18: AS name (an expression needs one) is expected here, not 'FROM'
      SELECT Price + 1 FROM Stock
                       ^^^^
SELECT *, 1 AS Price FROM Stock
    line 1, column 11: the result would have the attribute Price twice
      SELECT *, 1 AS Price FROM Stock
                ^^^^^^^^^^^
      hint: rename one of them with AS
SELECT * FROM Stock FOLD{$1.Name = $2.Name} Stock
    line 1, column 21: FOLD has at least two parts
      SELECT * FROM Stock FOLD{$1.Name = $2.Name} Stock
                          ^^^^
      hint: FOLD{which event is next, how long it goes on, aggregates}
SELECT * FROM Stock FOLD{TRUE, TRUE, $.cnt + 1} Stock
    line 1, column 47: an aggregate of FOLD ends with AS and a name
      SELECT * FROM Stock FOLD{TRUE, TRUE, $.cnt + 1} Stock
                                                    ^
SELECT * FROM (SELECT *, 1 AS cnt FROM Stock) FOLD{TRUE, TRUE, $.cnt / 2 AS cnt} Stock
    line 1, column 64: cnt begins as int and would become float
      SELECT * FROM (SELECT *, 1 AS cnt FROM Stock) FOLD{TRUE, TRUE, $.cnt / 2 AS cnt} Stock
                                                                     ^^^^^^^^^
      hint: start it with a value of type float
SELECT * FROM (SELECT Name FROM Stock) FOLD{TRUE, TRUE} Stock
    line 1, column 40: FOLD needs each attribute of its second stream in its first, which lacks Price float
      SELECT * FROM (SELECT Name FROM Stock) FOLD{TRUE, TRUE} Stock
                                             ^^^^
      hint: the first stream has (Name str); add or drop attributes with SELECT
SELECT * FROM (SELECT Name FROM Stock) UNION Stock
    line 1, column 40: UNION needs the same attributes on both sides, not (Name str) and (Name str, Price float)
      SELECT * FROM (SELECT Name FROM Stock) UNION Stock
                                             ^^^^^
      hint: rename or drop attributes with SELECT
SELECT * FROM Stock NEXT (SELECT Name AS Name_1, Name, Price FROM Stock)
    line 1, column 21: the result would have the attribute Name_1 twice
      SELECT * FROM Stock NEXT (SELECT Name AS Name_1, Name, Price FROM Stock)
                          ^^^^
      hint: rename one of them with AS
SELECT * FROM Stock JOIN{$1.Name = $2.Name} Stock
    line 1, column 43: JOIN{predicate, window} has 2 parts, not 1
      SELECT * FROM Stock JOIN{$1.Name = $2.Name} Stock
                                                ^
SELECT * FROM Stock JOIN{TRUE, Price} Stock
    line 1, column 32: a window, such as 5 s, is expected here, not 'Price'
      SELECT * FROM Stock JOIN{TRUE, Price} Stock
                                     ^^^^^
SELECT * FROM FILTER{contain(Name, 'I')}(Stock)
    line 1, column 22: there is no function contain
      SELECT * FROM FILTER{contain(Name, 'I')}(Stock)
                           ^^^^^^^^^^^^^^^^^^
      hint: did you mean contains?
SELECT * FROM FILTER{contains(Name)}(Stock)
    line 1, column 22: contains takes 2 arguments, not 1
      SELECT * FROM FILTER{contains(Name)}(Stock)
                           ^^^^^^^^^^^^^^
SELECT * FROM FILTER{Price + 1}(Stock)
    line 1, column 22: a condition is expected here, not a value of type float
      SELECT * FROM FILTER{Price + 1}(Stock)
                           ^^^^^^^^^
SELECT * FROM Stock PUBLISH Stock
    line 1, column 29: the query publishes Stock and reads it
      SELECT * FROM Stock PUBLISH Stock
                                  ^^^^^
SELECT * FROM FILTER{DUR < 0.5 ms}(Stock)
    line 1, column 28: 0.5 ms is no whole number of ticks
      SELECT * FROM FILTER{DUR < 0.5 ms}(Stock)
                                 ^^^^^^
      hint: a tick is 1 s
SELECT * FROM FILTER{Name='IBM}(Stock)
    line 1, column 27: this string does not end
      SELECT * FROM FILTER{Name='IBM}(Stock)
                                ^
SELECT * FROM FILTER{Name # 'IBM'}(Stock)
    line 1, column 27: '#' is not part of the language
      SELECT * FROM FILTER{Name # 'IBM'}(Stock)
                                ^
SELECT * FROM SELECT * FROM Stock
    line 1, column 15: a stream, FILTER or '(' is expected here, not 'SELECT'
      SELECT * FROM SELECT * FROM Stock
                    ^^^^^^
      hint: a sub-query stands in parentheses
SELECT MAX(Price) AS m, MIN(Price) AS m FROM Stock AT INSTANT
    line 1, column 25: the result would have the attribute m twice
      SELECT MAX(Price) AS m, MIN(Price) AS m FROM Stock AT INSTANT
                              ^^^^^^^^^^^^^^^^
      hint: rename one of them with AS
SELECT * FROM FILTER{AVG(Price) > 1}(Stock)
    line 1, column 22: AVG needs to know over which events
      SELECT * FROM FILTER{AVG(Price) > 1}(Stock)
                           ^^^
      hint: compute it in a sub-query: (SELECT ... FROM ... WINDOW 5 s)
SELECT * FROM FILTER{Price > .5}(Stock)
    line 1, column 30: this point belongs to nothing
      SELECT * FROM FILTER{Price > .5}(Stock)
                                   ^
      hint: a number has digits before and after its point; attributes have no point before them
SELECT * FROM FILTER{DUR < 1e99999999 s}(Stock)
    line 1, column 28: this number is too long
      SELECT * FROM FILTER{DUR < 1e99999999 s}(Stock)
                                 ^^^^^^^^^^^^
SELECT * FROM FILTER{Price < 1e999}(Stock)
    line 1, column 30: this number is too large
      SELECT * FROM FILTER{Price < 1e999}(Stock)
                                   ^^^^^
SELECT * FROM Stock FILTER Price > 1
    line 1, column 21: the end of the query, NEXT, FOLD, JOIN, UNION or PUBLISH is expected here, not 'FILTER'
      SELECT * FROM Stock FILTER Price > 1
                          ^^^^^^
      hint: conditions stand before a stream, FILTER{v > 1} s, or between two, NEXT{n = 1}
SELECT * FROM Stock -> Stock
    line 1, column 21: the end of the query, NEXT, FOLD, JOIN, UNION or PUBLISH is expected here, not '-'
      SELECT * FROM Stock -> Stock
                          ^
      hint: one event after another is SEQ(a, b) in SASE, a ; b in EQL, a NEXT b in CEL
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
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("Stock", {"Name": str, "Price": float})
    return core


@pytest.mark.parametrize(("text", "message"), cases(), ids=[text for text, _ in cases()])
def test_message(text: str, message: str) -> None:
    core = engine()
    with pytest.raises(QueryError) as caught:
        core.register("q", text)
    assert str(caught.value) == message
    assert core.stats()["operators"] == core.stats()["queries"] == 0


def test_the_place_of_an_error_in_a_later_line() -> None:
    with pytest.raises(QueryError) as caught:
        engine().register("q", "SELECT *\nFROM FILTER{Price > 1\n  AND Nmae = 'IBM'}\n(Stock)")
    assert (caught.value.line, caught.value.column) == (3, 7)
    assert caught.value.hint == "did you mean Name?"


@pytest.mark.parametrize(
    "deep",
    [
        "SELECT * FROM " + "(" * 5000 + "Stock" + ")" * 5000,
        "SELECT * FROM FILTER{" + "NOT " * 5000 + "TRUE}(Stock)",
        "SELECT * FROM FILTER{" + "(" * 5000 + "TRUE" + ")" * 5000 + "}(Stock)",
        "SELECT * FROM FILTER{Price > " + "- " * 5000 + "1}(Stock)",
        "SELECT * FROM " + "FILTER{TRUE} " * 5000 + "Stock",
    ],
)
def test_nesting_is_limited(deep: str) -> None:
    with pytest.raises(QueryError, match="more than 100 operators"):
        engine().register("q", deep)


def test_length_is_limited() -> None:
    with pytest.raises(QueryError, match="at most 100000 characters"):
        engine().register("q", "SELECT * FROM Stock" + " " * 100_000)
    with pytest.raises(QueryError, match="this number is too long"):
        engine().register("q", f"SELECT * FROM FILTER{{Price > {'9' * 500}}}(Stock)")


def test_a_wide_condition_is_no_problem_and_a_deep_one_is_refused() -> None:
    core = engine()
    chain = "SELECT Name FROM FILTER{" + " AND ".join(["Price > 1"] * 2000) + "}(Stock)"
    core.register("wide", chain)
    sums = "SELECT Price" + " + 1" * 5000 + " AS x FROM Stock"
    with pytest.raises(QueryError, match="more than 100 operators"):
        core.register("long", sums)
    unions = "SELECT * FROM Stock" + " UNION Stock" * 5000
    with pytest.raises(QueryError, match="more than 100 operators"):
        core.register("unions", unions)
    assert len(core.push([cep_core.Event("Stock", ("IBM", 2.0), 1)])) == 1


@pytest.mark.parametrize(
    "deep",
    [
        "x" + " + 1" * 99 + " = 3",
        "1" + " + x" * 99 + " = 3",
        "NOT " * 99 + "x = 1",
        "- " * 99 + "x = 1",
        "abs(" * 40 + "x" + ")" * 40 + " = 1",
        "x = 1 AND (" * 99 + "x = 1" + ")" * 99,
        "x = 1 OR NOT (" * 49 + "x = 1" + ")" * 49,
        "(x = 1 OR x = 2) AND " * 40 + "x = 1",
        "COALESCE(" * 39 + "x" + ")" * 39 + " = 1",
        "CASE WHEN " * 29 + "x = 1" + " THEN x = 1 ELSE TRUE END = TRUE" * 29,
    ],
)
def test_the_deepest_conditions_run(deep: str) -> None:
    core = cep_core.Engine(ticks_per_second=1)
    core.stream("S", {"x": int})
    core.register("q", f"SELECT * FROM FILTER{{{deep}}}(S)")
    core.push([cep_core.Event("S", (1,), 1), cep_core.Event("S", (None,), 1)])
    assert core.stats()["events"] == 2


@pytest.mark.parametrize(
    "item", ["(Price = {})", "contains(Name, '{}')", "Price > -{}", "NOT Price = {}"]
)
def test_alternatives_beside_one_another_are_not_deep(item: str) -> None:
    core = engine()
    alternatives = " OR ".join(item.format(number) for number in range(500))
    core.register("wide", f"SELECT Name FROM FILTER{{{alternatives}}}(Stock)")
    assert len(core.push([cep_core.Event("Stock", ("IBM 7", 7.0), 1)])) == 1


@pytest.mark.parametrize("end", ["PUBLISH Dear;", "publish Dear ;\n", "PUBLISH Dear\n"])
def test_a_semicolon_after_publish(end: str) -> None:
    core = engine()
    core.register("q", f"SELECT * FROM Stock {end}")
    core.register("reader", "SELECT Name FROM Dear")


def test_any_name_can_be_published() -> None:
    core = engine()
    core.register("q", "SELECT * FROM Stock PUBLISH Übersicht")
    core.register("reader", "SELECT Name FROM Übersicht")


def test_a_letter_that_folds_to_a_unit_is_none() -> None:
    with pytest.raises(QueryError, match="is expected here, not '\u017f'"):
        engine().register("q", "SELECT * FROM FILTER{DUR < 5 \u017f}(Stock)")
