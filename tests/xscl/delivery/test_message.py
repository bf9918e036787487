"""The bounds of one message: its number of matches, and its length."""

from __future__ import annotations

import json

import pytest

import xscl
from xscl.delivery.message import CUT, LARGEST, TOGETHER, message_of, messages_of

EACH = "S//item//a->x FOLLOWED BY{x=y, 1 d} S//item//a->y"


def matches(items: int, text: str = "hi") -> list[xscl.Match]:
    with xscl.Engine() as engine:
        engine.subscribe("pairs", EACH)
        for number in range(2):
            xml = f"<item>{f'<a>{text}</a>' * items}</item>".encode()
            engine.push([xscl.Document("S", f"d{number}", number, xml)])
        found = list(engine.matches())
        assert all(match.xml() for match in found)
        return found


def test_matches_of_the_same_documents_are_messages_of_a_hundred() -> None:
    found = matches(16)
    sizes = [len(one.matches) for one in messages_of(found)]
    assert sum(sizes) == len(found) == 256
    assert sizes == [TOGETHER, TOGETHER, 56]


@pytest.mark.parametrize("size", [10, LARGEST])
def test_texts_of_a_large_message_are_cut(size: int) -> None:
    (one,) = messages_of(matches(1, "x" * size))
    data = json.loads(one.json())["data"]
    (value,) = {
        node["value"]
        for match in data["matches"]
        for nodes in match["bindings"].values()
        for node in nodes
    }
    assert data.get("cut", False) is (size > 10)
    assert len(value) == size if size == 10 else len(value) <= CUT
    assert len(one.json()) < LARGEST


BOOK = "<book><author>Danny</author><author>Andrew</author><title>RSS\n and Atom</title></book>"


def test_the_texts_of_an_element_are_told_apart() -> None:
    query = "S//book->b[./title->t] JOIN{t=u, 1 d} S//post->p[./title->u]"
    with xscl.Engine() as engine:
        engine.subscribe("q", query)
        post = f"<post><title>RSS\n and Atom</title><body>{'x' * 2 * CUT}</body><empty/></post>"
        (match,) = engine.push(
            [xscl.Document("S", "1", 1, BOOK.encode()), xscl.Document("S", "2", 2, post.encode())]
        )
        one, other, *lines, body, last = list(message_of([match]).lines())
    assert (one, other) == ("RSS and Atom (book 1)", "RSS and Atom (post 2)")
    assert lines == [
        "b",
        "  author: Danny, Andrew",
        "  title: RSS and Atom",
        "t = RSS and Atom",
        "p",
        "  title: RSS and Atom",
    ]
    assert body == f"  body: {'x' * (CUT - 1)}\N{HORIZONTAL ELLIPSIS}"
    assert last == "u = RSS and Atom"


def test_text_beside_elements_is_one_text() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("q", "S//p->p")
        (match,) = engine.push(xscl.Document("S", "1", 1, b"<p>so <b>it</b> goes</p>"))
        # a document without a title is called by its root element and its name
        assert list(message_of([match]).lines()) == ["p 1", "p = so it goes"]
