"""Words of the languages where a name must stand: attributes and streams are called as data are."""

from __future__ import annotations

from typing import Any

import pytest

import cep_core
from tests.cep_core.engines import engine_of, engine_with, values_found

WORDS = (
    *("SEQ", "any", "next", "event", "within", "where", "return", "publish", "as", "until"),
    *("select", "from", "filter", "prev", "all", "contains", "occurs", "and", "or", "not", "null"),
    *("true", "fold", "join", "union", "group", "by", "window", "at", "instant", "dur", "case"),
    *("time", "count", "sum", "greedy", "strict", "in", "is", "like", "between", "end"),
)
LITERALS = ("true", "null", "not", "dur")  # what they are wherever a value may stand


def found(language: str, query: str, **streams: dict[str, type]) -> list[Any]:
    """Return the results over two events of each stream, whose values are their places."""
    given = [
        cep_core.Event(name, tuple(range(len(schema))), time)
        for time in (1, 2)
        for name, schema in streams.items()
    ]
    return values_found(engine_with(streams), query, given, language)


T: dict[str, type] = dict.fromkeys(("k", *WORDS), int)


@pytest.mark.parametrize("word", WORDS)
def test_an_attribute_may_be_called_like_a_word(word: str) -> None:
    place = list(T).index(word)
    for language, query in (
        ("sase", f"EVENT SEQ(T a, T b) WHERE a.{word} < b.{word} + 1 RETURN b.{word} AS x"),
        ("sase", f"EVENT SEQ(T a, T b) WHERE [{word}, k] RETURN a.{word} AS x"),
        ("sase", f"EVENT SEQ(T a, T+ b[]) WHERE b[i].{word} >= b[1].{word} RETURN b[last].{word}"),
        ("sase", f"EVENT SEQ(T a, T+ b[]) WHERE SUM(b[].{word}) >= 0 RETURN MAX(b[].{word}) AS x"),
        ("eql", f"SELECT B.{word} FROM T A ; T B WHERE A.{word} = B.{word}"),
        ("eql", f"SELECT A.{word} FROM T A ; T B{{1,2}} WHERE PREV(B.{word}) >= 0, A.{word} >= 0"),
        ("eql", f"SELECT ALL(A.{word}) AS x FROM T A{{2}} WHERE MAX(A[].{word}) >= 0"),
        ("cel", f"SELECT k AS x FROM FILTER{{$1.{word} = {place}}} T"),
        ("cel", f"SELECT k_1 AS x FROM T NEXT{{$1.{word} = $2.{word}}} T"),
    ):
        rows = found(language, query, T=T)
        expected: tuple[Any, ...] = (place,) if language != "cel" else (0,)
        expected = ((place, place),) if "ALL(" in query else expected
        assert rows[-1:] == [expected], query


@pytest.mark.parametrize("word", [word for word in WORDS if word not in (*LITERALS, "filter")])
def test_a_word_alone_is_an_attribute_where_a_value_stands(word: str) -> None:
    place = list(T).index(word)
    for language, query in (
        ("sase", f"EVENT T WHERE {word} = {place} AND k < 1 RETURN {word}"),
        ("eql", f"SELECT {word} FROM T WHERE {word} = {place}"),
        ("cel", f"SELECT {word} FROM FILTER{{{word} = {place}}} T"),
        ("cel", f"SELECT {word}, COUNT(k) AS n FROM T GROUP BY {word} WINDOW 1 h"),
    ):
        rows = found(language, query, T=T)
        assert [row[0] for row in rows[:1]] == [place], query


@pytest.mark.parametrize(
    "stream", ["any", "seq", "all", "within", "where", "event", "prev", "next_"]
)
def test_a_stream_may_be_called_like_a_word_that_cel_does_not_have(stream: str) -> None:
    schema: dict[str, type] = {"k": int}
    streams = {stream: schema}
    sase = f"EVENT SEQ({stream} a, {stream} b) RETURN a.k"
    eql = f"SELECT A.k FROM {stream} A ; {stream} B"
    assert found("sase", sase, **streams) == found("eql", eql, **streams) == [(0,)]
    assert found("cel", f"SELECT k FROM {stream}", **streams) == [(0,), (0,)]


@pytest.mark.parametrize(
    "text",
    ["SELECT A. FROM T A", "EVENT T WHERE k > WITHIN 5 s", "SELECT k FROM FILTER{k > AND} T"],
)
def test_a_word_is_no_attribute_where_none_is_called_so(text: str) -> None:
    language = {"S": "eql" if "A." in text else "cel", "E": "sase"}[text[0]]
    with pytest.raises(cep_core.QueryError, match="is expected here"):
        found(language, text, T={"k": int})


KINDS = ("a", "b", "b", "c")


def groups(language: str, query: str) -> list[Any]:
    events = [cep_core.Event("T", (kind, time), time) for time, kind in enumerate(KINDS, 1)]
    return values_found(engine_of(["T"], {"k": str, "n": int}), query, events, language)


BC = "b.k = 'b' AND c.k = 'c'"


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("any (T b, next T c)", [(1, 2, 4), (1, 3, 4)]),
        ("any(T b, next T c)", [(1, 2, 4), (1, 3, 4)]),
        ("next (T b, next T c)", [(1, 2, 4)]),
        ("ANY (next T b, next T c)", [(1, 2, 4)]),  # b has a mark of its own
        ("any ((T b, next T c))", [(1, 2, 4), (1, 3, 4)]),
        ("any (ANY(T) b, next T c)", [(1, 2, 4), (1, 3, 4)]),
        ("ANY(T) b, next T c", [(1, 2, 4), (1, 3, 4)]),
    ],
)
def test_any_before_a_group_is_a_mark(group: str, expected: list[Any]) -> None:
    query = f"EVENT SEQ(T a, {group}) WHERE a.k = 'a' AND {BC} RETURN a.n, b.n AS b, c.n AS c"
    assert sorted(groups("sase", query)) == expected


@pytest.mark.parametrize("text", ["EVENT ANY(", "EVENT SEQ(T a, ANY(T", "EVENT SEQ(T a, any (T b"])
def test_an_any_that_does_not_end(text: str) -> None:
    with pytest.raises(cep_core.QueryError, match="is expected here"):
        groups("sase", text)


@pytest.mark.parametrize(
    ("quantifier", "expected"),
    [
        ("{1}", [(1, 2, (2,)), (1, 3, (3,))]),
        ("{1,1}", [(1, 2, (2,)), (1, 3, (3,))]),
        ("{0,1}", [(0, None, None), (1, 2, (2,)), (1, 3, (3,))]),
        ("?", [(0, None, None), (1, 2, (2,)), (1, 3, (3,))]),
    ],
)
def test_a_run_of_one_event(quantifier: str, expected: list[Any]) -> None:
    """Brackets behind the name say that it is a run, however short."""
    items = "COUNT(b[]) AS n, b[last].n AS last, LIST(b[].n) AS all"
    query = f"EVENT SEQ(T a, any T{quantifier} b[]) WHERE a.k = 'a' AND b[i].k = 'b'"
    assert sorted(groups("sase", f"{query} RETURN {items}")) == expected
