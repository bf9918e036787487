"""A split at known tags reads a document as the parser does, or leaves it to the parser."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.errors import MalformedDocument
from feeds.xml.xmlparse import parse
from tests.examples import examples
from xscl.shredding.automaton.structure import skeleton
from xscl.shredding.batch import known_markup
from xscl.shredding.batch.known_markup import MarkupCache
from xscl.shredding.nodes import string_value

PLAIN = "<a><b>{}</b>{}<c/><b>{}<d>x</d></b></a>"


def known(*shapes: str) -> MarkupCache:
    """A cache that has seen documents twice."""
    markups = MarkupCache()
    for shape in shapes:
        for _ in range(2):
            try:
                markups.read(shape.encode())
            except MalformedDocument:
                continue
    return markups


def same(markups: MarkupCache, xml: bytes) -> bool:
    """Return True if a document was split; raises AssertionError unless it is read as parsed."""
    try:
        root = parse(xml)
    except MalformedDocument:
        with pytest.raises(MalformedDocument):
            markups.read(xml)
        return False
    found = markups.read(xml)
    nodes = list(root.iter())
    if not found._spans:
        assert [node.tag for node in found.root.iter()] == [node.tag for node in nodes]
        return False
    assert found.skeleton == skeleton(nodes)
    assert [found.text(place) for place in range(len(nodes))] == list(map(string_value, nodes))
    assert [node.tag for node in found.nodes] == [node.tag for node in nodes]
    return True


def test_the_third_document_of_a_sequence_of_tags_is_split() -> None:
    markups = MarkupCache()
    split = [bool(markups.read(PLAIN.format(n, n, n).encode())._spans) for n in range(4)]
    assert split == [False, False, True, True]


@pytest.mark.parametrize(
    "text", ["", " ", "x > y", "Zürich", "\t\n", "]>", "\x7f", "\u2028", "𝄞", "\ufffd"]
)
def test_plain_character_data_is_split(text: str) -> None:
    xml = PLAIN.format(text, text, text)
    assert same(known(PLAIN), xml.encode())
    assert same(known(PLAIN), f"{xml}\n".encode())


@pytest.mark.parametrize(
    "xml",
    [
        *(PLAIN.format("", text, "") for text in ("&amp;", "\r", "]]>", "\0", "\x1b", "\ufffe")),
        *(PLAIN.format(text, "", "") for text in ("&#10;", "<![CDATA[x]]>", "<!-- <b> -->", "<b")),
        *(PLAIN.format("", "", text) for text in ("<?b c?>", "&lt;", "<")),
        *(wrapped.format(PLAIN) for wrapped in ("x{}", "{}x", " {}", "{}\u00a0", "{}<", "{}{{}}")),
        f"<?xml version='1.0' encoding='latin-1'?>{PLAIN}",
        f"<!DOCTYPE a>{PLAIN}",
        f"\ufeff{PLAIN}",
        PLAIN.replace("<a>", '<a x="1">'),
        PLAIN.replace("<a>", "<a >"),
        PLAIN.replace("</d>", ""),
    ],
)
def test_all_else_is_left_to_the_parser(xml: str) -> None:
    assert not same(known(PLAIN, xml), xml.encode("utf-8", "surrogatepass"))


def test_other_encodings_are_left_to_the_parser() -> None:
    markups = known(PLAIN)
    for encoding in ("utf-16", "utf-16-le", "latin-1"):
        assert not same(markups, PLAIN.format("ä", "", "").encode(encoding))
    assert not same(markups, PLAIN.format("\ud800", "", "").encode("utf-8", "surrogatepass"))


def test_long_documents_are_left_to_the_parser() -> None:
    xml = PLAIN.format("x" * known_markup.LONGEST, "", "")
    assert not same(known(PLAIN), xml.encode())


def test_known_markup_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_markup, "MOST", 3)
    markups = known(*(f"<{name}/>" for name in string.ascii_lowercase))
    assert len(markups._known) <= 3
    assert len(markups._seen) <= 3


SHAPES = (
    *("<a><b>{}</b></a>", "<a>{}<b/>{}</a>", "<a><b>{}</b>{}<b>{}</b></a>", "<a:b>{}</a:b>"),
    *("<a b='{}'/>", "<a>{}<!--{}--></a>", "<a>{}</b>", '<a b=">">{}</a>', "<a><b>{}</a></b>"),
)
TEXTS = st.text(st.sampled_from("<>&;\"'/=!?[]- \t\r\nab\0é\ufffe"), max_size=5)


@examples(150)
@given(st.lists(st.tuples(st.sampled_from(SHAPES), TEXTS, TEXTS, TEXTS), max_size=8))
def test_documents_are_read_as_parsed(documents: list[tuple[str, str, str, str]]) -> None:
    markups = known(*(shape.format("", "", "") for shape in SHAPES))
    for shape, *texts in documents:
        same(markups, shape.format(*texts).encode())
