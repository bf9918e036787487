"""The oracle on joins of two blocks: windows by hand, nodes, libxml2 as an opinion on patterns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.examples import examples
from tests.oracle.evaluation import evaluate
from tests.oracle.patterns import embeddings
from tests.oracle.queries import And as AllOf
from tests.oracle.queries import (
    Case,
    Comparison,
    Doc,
    FollowedBy,
    Join,
    Query,
    Subscription,
    Var,
    blocks,
)
from tests.oracle.steps import (
    NAMESPACES,
    Block,
    Condition,
    Exists,
    Step,
)
from tests.oracle.trees import read
from tests.strategies.joins import cases, queries


def _child(name: str, variable: str | None = None, *conditions: Condition) -> Exists:
    return Exists(Step("child", name, variable, conditions))


def _top(name: str, variable: str | None, *conditions: Condition, stream: str = "S") -> Block:
    return Block(stream, Step("descendant", name, variable, conditions))


def _join(left: str, right: str) -> Comparison:
    return Comparison("=", Var(left), Var(right))


X, Y = _top("k", "x"), _top("k", "y")
SAME = _join("x", "y")


def _doc(name: str, timestamp: int, xml: str = "<k>u</k>") -> Doc:
    return Doc(("S",), name, timestamp, xml.encode())


def _pairs(query: Query, *documents: Doc) -> set[tuple[str, ...]]:
    found = evaluate([Subscription("Q", query)], documents)
    return {tuple(name.rpartition("/")[2] for name in match[1]) for match in found}


@pytest.mark.parametrize(
    ("operator", "window", "first", "second", "expected"),
    [
        (Join, 3, 0, 3, {("d1", "d2"), ("d2", "d1")}),
        (Join, 3, 0, 4, set()),
        (Join, 0, 5, 5, {("d1", "d2"), ("d2", "d1")}),
        (Join, 0, 5, 6, set()),
        (FollowedBy, 3, 0, 3, {("d1", "d2")}),
        (FollowedBy, 3, 0, 4, set()),
        (FollowedBy, 3, 5, 5, set()),
        (FollowedBy, None, 0, 10**15, {("d1", "d2")}),
        (Join, (-1, 3), 0, 3, {("d1", "d2")}),
        (Join, (-1, 3), 0, 1, {("d1", "d2"), ("d2", "d1")}),
        (Join, (2, None), 0, 1, set()),
        (Join, (2, None), 0, 9, {("d1", "d2")}),
        (Join, (-3, -2), 0, 2, {("d2", "d1")}),
        (FollowedBy, (2, 3), 0, 1, set()),
        (FollowedBy, (2, 3), 0, 2, {("d1", "d2")}),
        (FollowedBy, (2, 3), 0, 4, set()),
    ],
)
def test_windows(
    operator: type[Join] | type[FollowedBy],
    window: int | tuple[int, int | None] | None,
    first: int,
    second: int,
    expected: set[tuple[str, str]],
) -> None:
    lower, upper = window if isinstance(window, tuple) else (None, window)
    query = Query(operator(X, Y, SAME, upper, lower=lower))
    assert _pairs(query, _doc("d1", first), _doc("d2", second)) == expected


def test_equal_patterns_bind_different_nodes() -> None:
    left = _top("book", None, _child("author", "p"), _child("author", "q"))
    right = _top("pair", None, _child("c", "c"), _child("d", "d"))
    query = Query(Join(left, right, AllOf((_join("p", "c"), _join("q", "d")))))
    one = _doc("d1", 1, "<book><author>u</author><author>v</author></book>")
    other = _doc("d2", 1, "<pair><c>u</c><d>v</d></pair>")
    (match,) = evaluate([Subscription("Q", query)], [one, other])
    assert match[2] == (("c", "d2", 1), ("d", "d2", 2), ("p", "d1", 1), ("q", "d1", 2))


def test_contracted_steps_must_hold_for_the_same_node() -> None:
    inner = Exists(Step("descendant", "c", "x2"))
    left = _top("a", "x1", Exists(Step("descendant", "b", None, (inner,))))
    query = Query(Join(left, Y, AllOf((_join("x1", "y"), _join("x2", "y")))))
    documents = [_doc("d1", 1, "<a><b><a><c>u</c></a></b></a>"), _doc("d2", 1)]
    (match,) = evaluate([Subscription("Q", query)], documents)
    assert match[2] == (("x1", "d1", 0), ("x2", "d1", 3), ("y", "d2", 0))


# -- Patterns against libxml2 ----------------------------------------------------------------


def _xpath(block: Block) -> str:
    """Return the pattern in plain XPath 1.0: without variables and `*:name`."""
    text = re.sub(r"->[a-z0-9']+", "", block.step.text())
    return re.sub(r"\*:([a-z]+)", r"*[local-name()='\1']", text)


def _libxml2(xml: bytes, expression: str) -> list[int]:
    """Return the numbers of the nodes that libxml2 finds, numbered here once more.

    An empty CDATA section is taken out: XPath has no empty text nodes, libxml2 makes one of it.
    """
    root = etree.fromstring(xml.replace(b"<![CDATA[]]>", b""))
    order = [(e, k) for e in root.iter(etree.Element) for k in (None, *e.attrib)]
    numbers: dict[object, int] = {key: position for position, key in enumerate(order)}
    found = etree.XPath(expression, namespaces=NAMESPACES)(root.getroottree())
    assert isinstance(found, list)
    return sorted(
        numbers[(element, None)] for element in found if isinstance(element, etree._Element)
    )


@examples(30)
@given(case=cases(), data=st.data())
def test_patterns_select_what_libxml2_selects(case: Case, data: st.DataObject) -> None:
    query = data.draw(queries(case.documents))
    for block in blocks(query):
        for doc in case.documents:
            found = {last.number for last, _ in embeddings(read(doc.xml), block.step)}
            assert sorted(found) == _libxml2(doc.xml, _xpath(block))
