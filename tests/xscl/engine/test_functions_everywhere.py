"""The functions between documents, over time, in blocks and in constructors, in the engine."""

from __future__ import annotations

import pytest

import xscl
from xscl.errors import QueryError
from xscl.language.functions import DURATION, OPERANDS, TIME

A, B = "S//a->x[./t->t][./p->p]", "S//a->y[./t->u][./p->q]"


def test_functions_in_a_constructor(engine: xscl.Engine) -> None:
    query = (
        'SELECT <m a="{upper-case(t)} {string-length(u)}">{concat(t, "/", u)}|{tokenize(u, ",")}|'
        "{xs:dateTime(q) - xs:dateTime(p)}|{number(t)}</m>"
        f" FROM {A} FOLLOWED BY{{t = 'a' AND u = 'a,b', 9}} {B}"
    )
    engine.subscribe("q", query)
    for number, (title, day) in enumerate((("a", 1), ("a,b", 3))):
        text = f"<a><t>{title}</t><p>2026-01-0{day}T00:00:00Z</p></a>"
        found = engine.push(xscl.Document("S", str(number), number, text.encode()))
    (match,) = found
    assert match.xml() == b'<m a="A 3">a/a,b|a b|172800|</m>'


@pytest.mark.parametrize("name", sorted({*OPERANDS} - {TIME, DURATION}))
def test_a_function_of_no_value_has_none(engine: xscl.Engine, name: str) -> None:
    rest = {"substring": ", 2", "translate": ", 'a', 'b'", "replace": ", 'a', 'b'"}.get(name, "")
    if name in ("concat", "jaccard", "substring-before", "substring-after"):
        rest = ", 'a'"
    call = f"{name}(canonical-url(t){rest})"
    engine.subscribe("made", f"SELECT <m>{{{call}}}</m> FROM {A}")
    for sign in ("=", "<"):
        engine.subscribe(sign, f"{A} JOIN{{t = u AND {call} {sign} u, 9}} {B}")
    for number in range(2):
        found = engine.push(xscl.Document("S", str(number), number, b"<a><t>1</t><p/></a>"))
        assert [match.xml() for match in found] == [b"<m></m>"]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (f"{A} JOIN{{p - q > xs:dayTimeDuration('1 day'), 9}} {B}", "this is no duration"),
        (f"{A} NEXT{{tokenize(t, ',') = u}} {B}", "tokenize(), which has several values"),
        (f"{A} JOIN{{tokenize(t, '(') = u, 9}} {B}", "the regular expression"),
        (f"{A} JOIN{{compared-by(t, 'contains') = u, 9}} {B}", "unknown function compared-by()"),
        ("SELECT <m>{concat('a', 'b')}</m> FROM S//a->x", "only what reads a variable"),
        ("SELECT <m>{upper-case(z)}</m> FROM S//a->x", "the variable 'z' is not bound"),
    ],
)
def test_refusals(query: str, message: str) -> None:
    with xscl.Engine() as engine, pytest.raises(QueryError) as caught:
        engine.subscribe("q", query)
    assert message in str(caught.value)


@pytest.mark.parametrize(("condition", "holds"), [("2 - 1 >= 1", True), ("0 div .5 > 10", False)])
def test_a_condition_of_constants_alone_concerns_all_pairs(condition: str, holds: bool) -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", f"S//a->x[./k->z] JOIN{{{condition}, 1 d}} S//b->y")
        texts = [xscl.Document("S", f"d{n}", n, b"<a><k/><b/></a>") for n in range(3)]
        assert len(engine.push(texts)) == (6 if holds else 0)
