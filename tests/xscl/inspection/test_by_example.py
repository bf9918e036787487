"""Queries by example: what two documents share, and that the written query finds them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from tests.examples import examples
from xscl import Document, Engine
from xscl.inspection.by_example import (
    LEAVES,
    MOST,
    ExampleSide,
    SharedValue,
    differing,
    leaves,
    query_for,
    query_of,
    shared,
)
from xscl.shredding.nodes import DocumentTree, number_nodes


def tree(xml: str) -> DocumentTree:
    return number_nodes(etree.fromstring(xml))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """One engine for all queries: to make one takes longer than to ask it."""
    with Engine() as made:
        yield made


NUMBERS = count(1)


def stream() -> str:
    """Return a stream that nobody has used."""
    return f"S{next(NUMBERS)}"


def found(engine: Engine, name: str, query: str, *documents: str) -> int:
    """Return the number of matches of a query on documents of a stream, a second apart."""
    engine.subscribe(name, query)
    matches = engine.push(
        Document(name, f"{name}-{number}", number * 1_000_000, xml.encode())
        for number, xml in enumerate(documents, 1)
    )
    engine.unsubscribe(name)
    return len(matches)


def test_shared_values_have_the_same_names_first() -> None:
    left = tree("<i><t>sea</t><k u='7'>gale warning</k><n>7</n></i>")
    right = tree("<o><t>Sea</t><k>gale warning</k><m>sea</m></o>")
    assert shared(left, right) == [
        SharedValue(("i", "k"), ("o", "k"), "gale warning"),
        SharedValue(("i", "t"), ("o", "t"), "sea", is_exact=False),
        SharedValue(("i", "t"), ("o", "m"), "sea"),
    ]


@pytest.mark.parametrize("name", ["k", "k{}"])
def test_the_first_leaves_of_large_documents_are_compared(name: str) -> None:
    """Each leaf has the value of all others, so that all pairs would be a thousand million."""
    many = "".join(f"<{name}>v</{name}>".replace("{}", str(number)) for number in range(40_000))
    left, right = (tree(f"<i>{many}<t>{text}</t></i>") for text in "ab")
    found = shared(left, right)
    assert found[0] == SharedValue(path := ("i", name.format(0)), path, "v")
    assert len(found) <= MOST
    assert differing(left, right) == []
    assert len(list(leaves(left))) == LEAVES


def test_leaves_that_differ_occur_once_in_both() -> None:
    left = tree("<i><a>1</a><b>1</b><c>1</c><c>2</c></i>")
    right = tree("<i><a>2</a><b>1</b><c>3</c></i>")
    assert differing(left, right) == [("i", "a")]


def test_the_query_joins_what_was_chosen() -> None:
    pairs = [SharedValue(("i", "t"), ("o", "m"), "sea", is_exact=False)]
    written = query_of(ExampleSide("A", "i"), ExampleSide("B", "o"), pairs, window="3 d")
    assert written == (
        "A//i->i1[./t->t1]\n  FOLLOWED BY{lower-case(t1) = lower-case(m1), 3 d}\nB//o->o1[./m->m1]"
    )
    either = query_of(
        ExampleSide("A", "i"), ExampleSide("A", "i"), pairs, window="1 h", is_ordered=False
    )
    assert "JOIN{" in either


@pytest.mark.parametrize("value", ["sea", "it's", 'say "sea"', "both ' and \"", "word " * 40])
def test_the_query_for_a_value_finds_its_document(engine: Engine, value: str) -> None:
    element = etree.Element("i")
    etree.SubElement(element, "t").text = value
    xml = etree.tostring(element).decode()
    name = stream()
    query = query_for(ExampleSide(name, "i"), ("i", "t"), " ".join(value.split()))
    assert found(engine, name, query, xml) == 1


NAMES = st.sampled_from(["t", "k", "a-b", "div", "and", "é"])
VALUES = st.sampled_from(["sea", "Sea", "7", "x y"])
DOCUMENTS = st.lists(st.tuples(NAMES, VALUES, st.booleans()), min_size=1, max_size=5).map(
    lambda leaves: (
        "<i>"
        + "".join(
            f"<{name}>{value}</{name}>" if is_element else f"<e {name}='{value}'/>"
            for name, value, is_element in leaves
        )
        + "</i>"
    )
)


@examples(10)
@given(left=DOCUMENTS, right=DOCUMENTS)
def test_the_written_query_finds_the_two_documents(engine: Engine, left: str, right: str) -> None:
    pairs = shared(tree(left), tree(right))
    others = differing(tree(left), tree(right))
    if pairs or others:
        side = ExampleSide(stream(), "i")
        query = query_of(side, side, pairs, others, window="1 d")
        assert found(engine, side.stream, query, left, right) >= 1


def test_titles_that_share_most_words_are_nearly_the_same(engine: Engine) -> None:
    one, other = "Harbour bridge closed, ferries stop", "Ferries stop: the harbour bridge closed"
    texts = [
        f"<item><t>{title}</t><n>{number}</n></item>" for number, title in ((1, one), (2, other))
    ]
    (pair,) = shared(*map(tree, texts))
    assert pair == SharedValue(("item", "t"), ("item", "t"), one, is_exact=False, nearly=True)
    side = ExampleSide(name := stream(), "item")
    query = query_of(side, side, [pair], window="1 d")
    assert "jaccard(tokens(t1), tokens(t2)) > 0.6" in query
    assert found(engine, name, query, *texts, "<item><t>Harbour fair opens</t></item>") == 1
    for left, right in (("a b", "a b c"), ("a b c d", "a b e f"), ("a b c", "a b c")):
        nearly = shared(*(tree(f"<item><t>{text}</t></item>") for text in (left, right)))
        assert not any(each.nearly for each in nearly)
