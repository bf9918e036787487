"""Every message of CEL, SASE and EQL as the user sees it."""

from __future__ import annotations

import pytest

import cep_core
from cep_core.errors import QueryError
from tests.cep_core.engines import engine_of
from tests.golden import messages

STREAMS: dict[str, dict[str, dict[str, type]]] = {
    "cel": {"Stock": {"Name": str, "Price": float}},
    "sase": {
        "A": {"id": int, "s": str},
        "B": {"id": int, "s": str},
        "C": {"w": int},
        "D": {"id": str},
    },
    "eql": {"t": {"acc": str, "amount": float}, "u": {"acc": str, "n": int}},
}
MESSAGES = [
    pytest.param(language, *case, id=case[0])
    for language in STREAMS
    for case in messages(f"{language}_errors")
]


def engine(language: str = "cel") -> cep_core.Engine:
    core = cep_core.Engine(ticks_per_second=2 if language == "sase" else 1)
    for name, attributes in STREAMS[language].items():
        core.stream(name, attributes)
    return core


@pytest.mark.parametrize(("language", "text", "message"), MESSAGES)
def test_message(language: str, text: str, message: str) -> None:
    core = engine(language)
    with pytest.raises(QueryError) as caught:
        core.register("q", text, language)
    assert "\n".join(line.rstrip() for line in str(caught.value).splitlines()) == message
    assert core.stats()["operators"] == core.stats()["queries"] == 0


@pytest.mark.parametrize(
    ("language", "text", "place", "hint"),
    [
        (
            "cel",
            "SELECT *\nFROM FILTER{Price > 1\n  AND Nmae = 'IBM'}\n(Stock)",
            (3, 7),
            "did you mean Name?",
        ),
        (
            "sase",
            "EVENT SEQ(A a,\n  B b)\nWHERE a.id = b.idd /* 1 */\n",
            (3, 14),
            "did you mean id?",
        ),
    ],
)
def test_the_place_of_an_error_in_a_later_line(
    language: str, text: str, place: tuple[int, int], hint: str
) -> None:
    with pytest.raises(QueryError) as caught:
        engine(language).register("q", text, language)
    assert ((caught.value.line, caught.value.column), caught.value.hint) == (place, hint)


def test_a_window_of_nothing_is_refused_at_its_place() -> None:
    """Also where queries of that shape are known, and where nothing has to lie in it."""
    core = engine("sase")
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
    ("language", "deep"),
    [
        ("cel", "SELECT * FROM " + "(" * 5000 + "Stock" + ")" * 5000),
        ("cel", "SELECT * FROM FILTER{" + "NOT " * 5000 + "TRUE}(Stock)"),
        ("cel", "SELECT * FROM FILTER{" + "(" * 5000 + "TRUE" + ")" * 5000 + "}(Stock)"),
        ("cel", "SELECT * FROM FILTER{Price > " + "- " * 5000 + "1}(Stock)"),
        ("cel", "SELECT * FROM " + "FILTER{TRUE} " * 5000 + "Stock"),
        ("sase", "EVENT SEQ(A a, B b) WHERE " + "(" * 5000 + "TRUE" + ")" * 5000),
        ("sase", "EVENT SEQ(A a, B b) WHERE " + "NOT " * 5000 + "TRUE"),
        ("sase", "EVENT SEQ(A a, B b) WHERE [id = " + "- " * 5000 + "1]"),
    ],
)
def test_nesting_is_limited(language: str, deep: str) -> None:
    with pytest.raises(QueryError, match="more than 100 operators and parentheses"):
        engine(language).register("q", deep, language)


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
    core = engine_of(["S"], {"x": int})
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


@pytest.mark.parametrize(
    "end", ["PUBLISH Dear;", "publish Dear ;\n", "PUBLISH Dear\n", "PUBLISH Übersicht"]
)
def test_what_is_published_is_read(end: str) -> None:
    core = engine()
    core.register("q", f"SELECT * FROM Stock {end}")
    core.register("reader", f"SELECT Name FROM {end.split()[1].rstrip(';')}")


def test_a_letter_that_folds_to_a_unit_is_none() -> None:
    with pytest.raises(QueryError, match="is expected here, not '\u017f'"):
        engine().register("q", "SELECT * FROM FILTER{DUR < 5 \u017f}(Stock)")
