"""Declarations of namespaces: several of them, and the place of what is wrong with one."""

from __future__ import annotations

import pytest

from xscl import Document, Engine
from xscl.errors import QueryError
from xscl.language.parser import parse

TWO = 'NAMESPACE o = "urn:o" NAMESPACE i = "urn:i" '
EACH = 'write one after the other: NAMESPACE o = "..." NAMESPACE i = "..."'
FORM = 'write NAMESPACE o = "http://..." before the query'


def test_two_namespaces_of_one_query() -> None:
    query = f"{TWO}S//o:a->x[./o:k->t] FOLLOWED BY{{t = u, 1 d}} S//i:b->y[./i:k->u]"
    with Engine() as engine:
        engine.subscribe("q", query)
        engine.push(Document("S", "a", 1, b'<a xmlns="urn:o"><k>1</k></a>'))
        engine.push(Document("S", "b", 2, b'<p:b xmlns:p="urn:i"><p:k>1</p:k></p:b>'))
        engine.push(Document("S", "c", 3, b"<b><k>1</k></b>"))
        assert len(engine.matches("q")) == 1


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ('NAMESPACE o = "urn:o", i = "urn:i" S//o:a/i:b', ", i", EACH),
        ('NAMESPACE o = "urn:o",\n  NAMESPACE i = "urn:i"\nS//i:a', ",\n", EACH),
        ('NAMESPACE o = "urn:o", S//o:a', ", S", EACH),
        ('NAMESPACE o = "urn:o"; NAMESPACE i = "urn:i" S//o:a', "; N", EACH),
        ("NAMESPACE o = 'urn:o' and i = 'urn:i' S//i:a", "and", EACH),
        ('namespace o = "urn:o" i = "urn:i" S//i:a', "i = ", EACH),
        ('NAMESPACE "urn:o" S//o:a', "NAME", FORM),
        ('NAMESPACE o "urn:o" S//o:a', "NAME", FORM),
        ('NAMESPACE o: "urn:o" S//o:a', "NAME", FORM),
        ("NAMESPACE o = urn:o S//o:a", "NAME", FORM),
        ('NAMESPACE xmlns:o = "urn:o" S//o:a', "NAME", FORM),
        (f'{TWO}NAMESPACE = "urn:x" S//o:a', 'NAMESPACE = "urn:x"', FORM),
        ("declare namespace o = 'urn:o'; S//o:a", "declare", FORM),
        ("PREFIX o: <urn:o> S//o:a", "PREFIX", FORM),
        ('xmlns:o="urn:o" S//o:a', "xmlns", FORM),
    ],
)
def test_a_wrong_declaration_is_refused_at_its_place(text: str, place: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    before = text[: text.index(place)]
    assert caught.value.line == before.count("\n") + 1
    assert caught.value.column == len(before) - (before.rfind("\n") + 1) + 1
    assert caught.value.hint == hint


def test_a_prefix_is_declared_once() -> None:
    with pytest.raises(QueryError, match="the prefix 'o' is declared twice") as caught:
        parse('NAMESPACE o = "urn:o" NAMESPACE o = "urn:i" S//o:a')
    assert caught.value.column == 33
    parse('NAMESPACE o = "urn:o" NAMESPACE o = "urn:o" S//o:a')


@pytest.mark.parametrize(
    "text",
    [
        "NAMESPACE//a[./b/following-sibling::c]->x",
        "prefix //a[./b/following-sibling::c]->x",
        "and//a[./b/following-sibling::c]->x",
        f"{TWO}xmlns//o:a[./i:b/following-sibling::c]->x",
        f"{TWO}declare//o:a->x JOIN{{x = y, 1 d}} S//i:b->y",
    ],
)
def test_a_stream_may_be_called_like_a_word_of_declarations(text: str) -> None:
    parse(text)


def test_a_prefix_that_is_not_declared_is_named_where_it_stands() -> None:
    with pytest.raises(QueryError, match="the prefix 'z' is not declared") as caught:
        parse(f"{TWO}S//o:a/z:b")
    assert caught.value.column == len(TWO) + 8
