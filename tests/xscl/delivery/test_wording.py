"""The readable text of a match."""

from __future__ import annotations

import xscl
from xscl.delivery.message import message_of
from xscl.delivery.wording import CUT

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
