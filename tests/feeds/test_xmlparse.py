"""Documents from strangers: what is taken, what is refused, and with which words."""

from __future__ import annotations

import codecs
import pickle
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.errors import MalformedDocument
from feeds.xml import xmlparse
from feeds.xml.xmlparse import parse

ENTITY = b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'


def refusal(xml: bytes) -> MalformedDocument:
    with pytest.raises(MalformedDocument) as caught:
        parse(xml)
    return caught.value


def bomb(reference: bytes) -> bytes:
    """Ten levels of ten entities each, used in `reference`."""
    levels = b"".join(
        b'<!ENTITY e%d "%s">' % (level + 1, b"&e%d;" % level * 10) for level in range(9)
    )
    return b'<!DOCTYPE l [<!ENTITY e0 "lol">' + levels + b"]>" + reference


@pytest.mark.parametrize(
    ("xml", "shown"),
    [
        (
            b"<a><b></a>",
            "line 1, column 11: Opening and ending tag mismatch: b line 1 and a",
        ),
        (
            b"<a>\n x & y</a>",
            "line 2, column 5: xmlParseEntityRef: no name: a bare & is written &amp;",
        ),
        (
            b"<a>x&nbsp;y</a>",
            "line 1, column 11: Entity 'nbsp' not defined: "
            "write the character itself, or its number as in &#160;",
        ),
        (b"", "line 1, column 1: Document is empty"),
        (ENTITY, "line 1, column 14: entity declarations are refused: write the text itself"),
        (
            b"<a>caf\xe9 x</a>",
            "line 1, column 7: Invalid bytes in character encoding: "
            "declare the encoding, or send UTF-8",
        ),
        (
            "<a>\n\xe9</a>".encode("utf-16")[:-1],
            "line 2, column 5: the document is not valid UTF-16 (truncated data)",
        ),
        (b"<a>" * 257, "line 1, column 771: elements are nested more than 256 deep"),
        (
            b"<" + b"a" * 60_000 + b"/>",
            "line 1, column 60002: Name too long: NCName: the limit is 50,000 characters",
        ),
        (b" " * 10_000_001, "the document has 10,000,001 bytes; the limit is 10,000,000"),
    ],
)
def test_messages(xml: bytes, shown: str) -> None:
    assert str(refusal(xml)) == shown


LONG = b"x" * 11_000_000
REFUSED: dict[str, tuple[bytes, ...]] = {
    "xml_entities": (
        bomb(b"<l>&e9;</l>"),
        bomb(b"<l t='&e9;'/>"),
        b'<!DOCTYPE a [<!ENTITY b "' + b"x" * 60_000 + b'">]><a>' + b"&b;" * 2_000 + b"</a>",
        b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>',
        b'<!DOCTYPE a [<!ENTITY unused "c">]><a/>',
        b'<!DOCTYPE a [<!ENTITY % p "c">]><a/>',
        b'<!DOCTYPE a [<!-- it\'s [ ]> --><?p ]>?><!ENTITY b "c">]><a/>',
        b'<?xml version="1.0"?><!-- <!DOCTYPE x> -->\n<?p ?><!DOCTYPE a [<!ENTITY b "c">]><a/>',
        *(codecs.BOM_UTF8 + ENTITY, ENTITY.decode().encode("utf-16")),
        *(ENTITY.decode().encode("utf-16-be"), ENTITY.decode().encode("utf-32")),
    ),
    "xml_size": (
        *(b"<a>" + LONG + b"</a>", b"<a t='" + LONG + b"'/>", b"<a><![CDATA[" + LONG + b"]]></a>"),
        *(b"<a><!--" + LONG + b"--></a>", b"<a><?p " + LONG + b"?></a>"),
        *(b"<" + b"a" * 60_000 + b"/>", b"<a " + b"a" * 60_000 + b"=''/>"),
    ),
    "xml_chars": (
        *(b"<a>\0</a>", b"<a>&#0;</a>", b"<a>&#8;</a>", b"<a>&#xD800;</a>", b"<a>\x08</a>"),
        b"<?xml version='1.1'?><a>&#1;</a>",
    ),
    "xml_encoding": (
        *(b"<a>\xff</a>", b"<a>\xc0\x80</a>", "<a>\xe9</a>".encode("utf-16")[:-1]),
        b"<?xml version='1.0' encoding='none-such'?><a/>",
        b"<?xml version='1.0' encoding='UTF-7'?><a>+ADw-b/+AD4-</a>",
        b"<?xml version='1.0' encoding='utf-16'?><a/>",
        "<?xml version='1.0' encoding='cp037'?><a/>".encode("cp037"),
    ),
    "xml_syntax": (
        *(b"", b" \n ", b"<a/><b/>", b"<a/>junk", b"<a><b>x</b>", b"<a>text", b'{"a": 1}'),
        *(b"<!DOCTYPE html><html><br></html>", b"\x1f\x8b\x08\0\0\0", b"<a>&undefined;</a>"),
        *(
            b"<!DOCTYPE a><!DOCTYPE a><a/>",
            b"<!DOCTYPE a [",
            b"<!DOCTYPE a [" + b"<!--" * 2_000_000,
        ),
    ),
}
"""Documents that are refused, by the code of the reason."""


@pytest.mark.parametrize(
    ("code", "xml"), [(code, xml) for code, each in REFUSED.items() for xml in each], ids=count()
)
def test_x1_x2_x8_x13_x14_what_is_refused(code: str, xml: bytes) -> None:
    error = refusal(xml)
    assert error.reason_code == code
    assert code not in ("xml_chars", "xml_encoding") or min(error.line, error.column) >= 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("kind", ["b", "% b"])
def test_x3_x4_external_entities_are_not_opened(encoding: str, kind: str, tmp_path: Path) -> None:
    """libxml2 by itself opens the file of a parameter entity, whatever its options."""
    canary = tmp_path / "canary.dtd"
    canary.write_text('<!ENTITY c "CANARY">')
    use = "%b;" if kind == "% b" else ""
    xml = f'<!DOCTYPE a [<!ENTITY {kind} SYSTEM "{canary.as_uri()}">{use}]><a t="&c;">&c;</a>'
    error = refusal(xml.encode(encoding))
    assert error.reason_code == "xml_entities"
    assert "CANARY" not in str(error)


def test_x3_the_parser_itself_opens_nothing_either(tmp_path: Path) -> None:
    """The second wall, should a DOCTYPE ever reach the parser."""
    canary = tmp_path / "canary.dtd"
    canary.write_text('<!ENTITY c "CANARY">')
    xml = f'<!DOCTYPE a [<!ENTITY % b SYSTEM "{canary.as_uri()}">%b;]><a>&c;</a>'.encode()
    root = etree.fromstring(xml, xmlparse._parsers.strict)
    assert b"CANARY" not in etree.tostring(root)
    declarations: Any = root.getroottree().docinfo.internalDTD
    assert [entity.name for entity in declarations.iterentities()] == ["b"]


def test_x4_bare_doctype_is_accepted_and_not_fetched() -> None:
    root = parse(b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd">\n<a>\n<b/></a>')
    assert etree.tostring(root.getroottree()) == b"<a>\n<b/></a>"
    line: Any = root[0].sourceline
    assert line == 3


def test_x4_entities_of_an_external_dtd_are_undefined() -> None:
    """Left alone, the parser drops them from attributes without a word."""
    xml = b'<!DOCTYPE a SYSTEM "http://127.0.0.1:1/a.dtd"><a t="p&nbsp;q"/>'
    assert "'nbsp' not defined" in str(refusal(xml))


def test_x6_includes_and_stylesheets_are_plain_data() -> None:
    xml = (
        b'<?xml-stylesheet href="file:///etc/passwd"?><a xmlns:xi="http://www.w3.org/2001/XInclude">'
        b'<xi:include href="file:///etc/passwd" parse="text"/></a>'
    )
    assert etree.tostring(parse(xml)) == xml.partition(b"?>")[2]


def test_x7_depth_at_the_limit_and_beyond() -> None:
    assert parse(b"<a>" * 256 + b"</a>" * 256).tag == "a"
    assert refusal(b"<a>" * 257 + b"</a>" * 257).reason_code == "xml_depth"
    assert refusal(b"<a>" * 10_000 + b"</a>" * 10_000).reason_code == "xml_depth"


@pytest.mark.parametrize("before", [0, 1, 1_480, 1_499, 1_500, 1_501, 2_990, 4_503])
@pytest.mark.parametrize("attributes", [1_000, 1_001])
def test_attributes_are_counted_wherever_their_element_stands(before: int, attributes: int) -> None:
    element = "<b " + " ".join(f'x{n}=""' for n in range(attributes)) + "/>"
    xml = f"<a>{'=' * before}{element}{'=' * 2_000}</a>".encode()
    if attributes <= 1_000:
        assert len(parse(xml)[0].keys()) == attributes
        return
    with pytest.raises(MalformedDocument) as caught:
        parse(xml)
    assert (caught.value.reason_code, caught.value.column) == ("xml_elements", 4 + before)


NESTED = b"<r>" * 200 + b"%b" + b"</r>" * 200
LONG_NAME = b"<%b>%%b</%b>" % ((b"n" * 50_000,) * 2)


@pytest.mark.parametrize(
    ("xml", "code"),
    [
        (b"<r>" + b"<i/>" * 199_999 + b"</r>", None),
        (b"<r>" + b"<i/>" * 200_000 + b"</r>", "xml_elements"),
        pytest.param(
            b"<r><!--<-->" + b"<i>x</i>" * 300_000 + b"</r>", "xml_elements", marks=pytest.mark.slow
        ),
        (b"<r>" + b"<i a='' b=''/>" * 70_000 + b"</r>", "xml_elements"),
        (b"<r " + b" ".join(b"a%d=''" % n for n in range(1_001)) + b"/>", "xml_elements"),
        (b"<r " + b" ".join(b"a%d=''" % n for n in range(1_000)) + b"/>", None),
        (b"<r>" + b"<a>" * 250 + b"<b/>" * 7_800 + b"</a>" * 250 + b"</r>", None),
        (b"<r>" + b"<a>" * 250 + b"<b/>" * 8_000 + b"</a>" * 250 + b"</r>", "xml_depth"),
        (b"<r>" + b"<a>" * 100 + b"<b/>" * 40_000 + b"</a>" * 100 + b"</r>", "xml_depth"),
        (NESTED % (b"x" * 499_000), None),
        (NESTED % (b"x" * 501_000), "xml_depth"),
        (NESTED % (b"<!--x-->x" * 501_000), "xml_depth"),
        (b"<r>" + b"x" * 900_000 + NESTED.replace(b"%b", b"x" * 400_000) + b"</r>", None),
        (b"<r>" + LONG_NAME % (b"<i/>" * 1_990) + b"</r>", None),
        (b"<r>" + LONG_NAME % (b"<i/>" * 2_100) + b"</r>", "xml_depth"),
        (
            b"<r>" + LONG_NAME % (b"<i" + b" a%d=''" * 900 % (*range(900),) + b"/>") * 3 + b"</r>",
            "xml_depth",
        ),
        (b"<r xmlns='" + b"n" * 500_000 + b"'>" + b"<i/>" * 98 + b"</r>", None),
        (b"<r xmlns='" + b"n" * 500_000 + b"'>" + b"<i/>" * 100_000 + b"</r>", "xml_depth"),
        (
            b"<r xmlns:n='" + b"n" * 500_000 + b"'>" + b"<n:i n:a=''/>" * 90_000 + b"</r>",
            "xml_depth",
        ),
        (
            b"<r xmlns:n='" + b"n" * 40_000 + b"'>" + b"<i n:a=''/>" * 5_000 + b"</r>",
            "xml_depth",
        ),
        (b"<r xmlns=\"'" + b"n" * 500_000 + b'">' + b"<i/>" * 300 + b"</r>", "xml_depth"),
        (NESTED.replace(b"<r>", b"<r xmlns='%b'>" % (b"n" * 2_500), 1) % (b"<i/>" * 90), None),
        (
            NESTED.replace(b"<r>", b"<r xmlns='%b'>" % (b"n" * 2_500), 1) % (b"<i/>" * 500),
            "xml_depth",
        ),
        (b"<r><![CDATA[" + b"<i>=" * 300_000 + b"]]></r>", None),
        (b"<r>" + b"= " * 100_000 + b"</r>", None),
        (b"<r>" + b'&lt;a href="x">y&lt;/a>' * 2_000 + b"</r>", None),
        (b"<r a='>' b='/>'>" + b"&lt;a href='x'> y = z&lt;/a>" * 2_000 + b"</r>", None),
        (
            b"<r a='>' " + b" ".join(b'a%d=">=\'"' % n for n in range(1_000)) + b">x</r>",
            "xml_elements",
        ),
        (b"<r>x<!--" + b" a='1'" * 2_000 + b"--><?p" + b" a='1'" * 2_000 + b"?></r>", None),
    ],
)
def test_x9_elements_and_attributes(xml: bytes, code: str | None) -> None:
    if code is None:
        assert etree.QName(parse(xml)).localname == "r"
    else:
        assert refusal(xml).reason_code == code


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"]
)
def test_unicode_encodings(encoding: str) -> None:
    assert (
        parse("<?xml version='1.0'?><a>\xe9\u20ac\U0001f600</a>".encode(encoding)).text
        == "\xe9\u20ac\U0001f600"
    )


@pytest.mark.parametrize("encoding", ["ISO-8859-1", "windows-1251", "KOI8-R", "Shift_JIS", "GBK"])
def test_national_encodings(encoding: str) -> None:
    text = {"ISO-8859-1": "caf\xe9", "Shift_JIS": "\u65e5\u672c", "GBK": "\u4e2d"}.get(
        encoding, "\u0438"
    )
    xml = f"<?xml version='1.0' encoding='{encoding}'?><a>{text}</a>".encode(encoding)
    assert parse(xml).text == text


@pytest.mark.parametrize(
    ("xml", "written"),
    [
        (
            b"<a><![CDATA[<!DOCTYPE a [<!ENTITY b ''>]>]]></a>",
            b"<a>&lt;!DOCTYPE a [&lt;!ENTITY b ''&gt;]&gt;</a>",
        ),
        (b"<a><b xml:id='x'/><b xml:id='x'/></a>", b'<a><b xml:id="x"/><b xml:id="x"/></a>'),
        (b"<!DOCTYPE a [<!ATTLIST a x CDATA 'def'>]><a/>", b"<a/>"),
        (b"<?xml version='1.1'?><a/>", b"<a/>"),
    ],
)
def test_x17_what_is_accepted(xml: bytes, written: bytes) -> None:
    assert etree.tostring(parse(xml)) == written


def test_errors_travel_between_processes() -> None:
    error = refusal(b"<a>\n<b></a>")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.reason_code, copy.line) == (str(error), "xml_syntax", 2)


@given(st.binary(max_size=200) | st.text("<>&;!?[]ab\"'= x", max_size=60).map(str.encode))
def test_any_bytes_give_a_tree_or_malformed(xml: bytes) -> None:
    with suppress(MalformedDocument):
        root = parse(xml)
        assert etree.fromstring(etree.tostring(root)).tag == root.tag
