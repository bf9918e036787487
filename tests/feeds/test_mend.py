"""Each repair mends its own damage, and nothing is mended that must not be."""

from __future__ import annotations

from contextlib import suppress

import pytest

from feeds.errors import MalformedDocument
from feeds.formats.mend import tree_of


@pytest.mark.parametrize(
    ("body", "quality", "text"),
    [
        (b"<r>ok</r>", "strict", "ok"),
        (b"\xef\xbb\xbf<r>bom</r>", "strict", "bom"),
        ("<r>\u20ac</r>".encode("utf-16"), "strict", "\u20ac"),
        (b"\r\n <?xml version='1.0'?><r>a</r>", "mended", "a"),
        (b"Warning: mysql\n<r>a</r>\0\0 junk", "mended", "a"),
        (b"<!-- cached --><?xml version='1.0'?><r>a</r>", "mended", "a"),
        (b"<r>caf\xe9 \x93q\x94</r>", "mended", "caf\xe9 \u201cq\u201d"),
        (b"<?xml version='1.0' encoding='utf-8'?><r>\xe9</r>", "mended", "\xe9"),
        (b"<?xml version='1.0' encoding='utf-16'?><r>a</r>", "mended", "a"),
        (b"<?xml version='1.0' encoding='none'?><r>\xc3\xa9</r>", "mended", "\xe9"),
        (b"<r>a\x08b&#8;c&#x1F;&#65;</r>", "mended", "abcA"),
        (b"<r>a&nbsp;b&eacute;&amp;&#65;</r>", "mended", "a\xa0b\xe9&A"),
        (b"<r>a]]>b <![CDATA[c]]><i/>]]]></r>", "mended", "a]]>b c]]]>"),
        (b"<r>a & b &c=d &foo; R&D</r>", "mended", "a & b &c=d &foo; R&D"),
        (b"<r>&hellip;<![CDATA[a & b &nbsp;]]></r>", "mended", "\u2026a & b &nbsp;"),
        (b'<!DOCTYPE r PUBLIC "x" "http://127.0.0.1:1/x"><r>a&nbsp;b</r>', "mended", "a\xa0b"),
        (b"<r>a<x:y/></r>", "mended", "a"),
        (b"<r>a<b>c</i></b></r>", "recovered", "ac"),
    ],
)
def test_repairs(body: bytes, quality: str, text: str) -> None:
    found = tree_of(body)
    assert found.quality == quality
    assert found.root.xpath("string()") == text


@pytest.mark.parametrize(
    ("body", "charset", "quality", "text"),
    [
        (
            "<?xml version='1.0' encoding='latin1'?><a>\u00eb</a>".encode(),
            "utf-8",
            "mended",
            "\u00eb",
        ),
        (
            "<?xml version='1.0' encoding='latin1'?><a>\u00eb</a>".encode(),
            None,
            "strict",
            "\u00c3\u00ab",
        ),
        (b"<?xml version='1.0' encoding='latin1'?><a>\xeb</a>", "utf-8", "strict", "\u00eb"),
        (b"<?xml version='1.0' encoding='latin1'?><a>e</a>", "utf-8", "strict", "e"),
    ],
)
def test_http_is_believed_if_it_says_utf8_and_the_bytes_agree(
    body: bytes, charset: str | None, quality: str, text: str
) -> None:
    parsed = tree_of(body, charset)
    assert (parsed.quality, parsed.root.text) == (quality, text)


def test_a_charset_that_hides_markup_is_not_used() -> None:
    assert tree_of(b"<r>\xe9+ADw-b/+AD4-</r>", "utf-7").root.text == "\xe9+ADw-b/+AD4-"


def test_forgotten_prefixes_get_the_namespace_that_was_meant() -> None:
    meant = "http://purl.org/rss/1.0/modules/content/"
    body = b"<rss><a xmlns:content='%s'><content:b/></a><content:encoded/><odd:y/></rss>"
    found = tree_of(body % meant.encode())
    assert found.quality == "mended"
    assert found.root[1].tag == f"{{{meant}}}encoded", "it is declared elsewhere only"
    assert found.root[2].tag == "{urn:undeclared:odd}y"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'<!DOCTYPE r [<!ENTITY a "b">]><r>&a;</r>', "xml_entities"),
        (b'\n<?xml version="1.0"?><!DOCTYPE r [<!ENTITY a "b">]><r>&a; & </r>', "xml_entities"),
        (b"<r>" * 300 + b"&" + b"</r>" * 300, "xml_depth"),
        (b"<r><item>whole</item><item>cut o", "xml_syntax"),
        (b"<r><b>cut</i>", "xml_syntax"),
        (b"<feed><id>1</id><feedburner:origLink>a</feedburner:origLink><id>cu", "xml_syntax"),
        (b"<r>&nbsp;<item>whole</item><it", "xml_syntax"),
        (b"just text", "xml_syntax"),
        (b"", "xml_syntax"),
    ],
)
def test_not_mended(body: bytes, code: str) -> None:
    with pytest.raises(MalformedDocument) as caught:
        tree_of(body)
    assert caught.value.reason_code == code


def test_the_error_is_that_of_the_strict_parse() -> None:
    with pytest.raises(MalformedDocument) as caught:
        tree_of(b"\n\n<?xml version='1.0'?><r>")
    assert (caught.value.line, caught.value.column) == (3, 6)


@pytest.mark.parametrize(
    "piece",
    [b" ", b"<![CDATA[", b"<!--", b"<?", b"<!--x-->", b" xmlns='", b"<b:", b"&a", b"&#1", b"\xff"],
)
def test_hostile_repetition_takes_linear_time(piece: bytes) -> None:
    """Of a megabyte; a quadratic repair would not end."""
    with suppress(MalformedDocument):
        tree_of(b"<r>" + piece * (1_000_000 // len(piece)) + b"</r>\x08")


@pytest.mark.parametrize(
    "piece",
    [
        b"a",
        b"a.",
        b"a:",
        b"\xff",
        b"1",
        b" ",
        b"=",
        b"a='",
        b"a='\" ",
        b"a=\"' ",
        b"a='b' c",
        b"' a =",
    ],
)
@pytest.mark.parametrize("end", [b"", b"'"])
def test_hostile_repetition_in_a_tag_takes_linear_time(piece: bytes, end: bytes) -> None:
    with suppress(MalformedDocument):
        tree_of(b"<r><b " + piece * (1_000_000 // len(piece)) + end + b"></r>")
