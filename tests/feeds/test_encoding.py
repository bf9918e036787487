"""Encodings: labels as the Encoding Standard reads them, and damage that changes nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.errors import MalformedDocument
from feeds.formats.opml import read_list
from feeds.formats.parse import parse_feed
from feeds.xml.encoding import as_utf8, codec_of, decode, is_utf8, read_text
from feeds.xml.xmlparse import parse
from tests.corpus import OWN
from tests.examples import examples

SEEN = 1_790_000_000_000_000


def titles(body: bytes, content_type: str | None = None) -> list[str | None]:
    found = parse_feed(body, content_type=content_type, seen_at=SEEN).items
    return [etree.fromstring(item.canonical).findtext("title") for item in found]


def rss(*written: bytes, declared: str = "") -> bytes:
    head = f"<?xml version='1.0' encoding='{declared}'?>".encode() if declared else b""
    items = b"".join(
        b"<item><guid>g%d</guid><title>%s</title></item>" % (n, title)
        for n, title in enumerate(written)
    )
    return head + b"<rss><channel><title>C</title>" + items + b"</channel></rss>"


def test_a_bad_byte_changes_no_other_item_and_is_a_replacement_character() -> None:
    body = (OWN / "damaged" / "one-bad-byte.rss").read_bytes()
    assert titles(body) == ["\u041f\u0440\u0438\u0432\u0435\u0442", "x\ufffd"]


@pytest.mark.parametrize(
    ("declared", "content_type"),
    [
        ("utf-8", None),
        ("utf8", None),
        ("", None),
        ("", "text/xml; charset=utf-8"),
        ("", "text/xml; charset=iso-8859-1"),
        ("none", None),
        ("utf-16", None),
        ("iso-8859-1", "text/xml; charset=utf-8"),
    ],
)
def test_damaged_utf8_stays_utf8(declared: str, content_type: str | None) -> None:
    body = rss("Grüße, 東京".encode(), "cut \u00e9".encode()[:-1], declared=declared)
    assert titles(body, content_type) == ["Grüße, 東京", "cut \ufffd"]


@pytest.mark.parametrize(
    ("declared", "content_type", "title"),
    [
        ("", None, "\u00e9t\u00e9"),
        ("", "text/xml; charset=utf-8", "\u00e9t\u00e9"),
        ("utf-8", None, "\u00e9t\u00e9"),  # declared UTF-8 without one character of UTF-8
        ("", "text/xml; charset=iso-8859-5", "\u0449t\u0449"),
    ],
)
def test_what_is_no_utf8_at_all_is_windows_1252_or_what_http_says(
    declared: str, content_type: str | None, title: str
) -> None:
    assert titles(rss(b"\xe9t\xe9", declared=declared), content_type) == [title]


def test_quotes_beside_an_umlaut_do_not_make_latin_text_utf8() -> None:
    written = "Die »große Straße« führt über Österreichs Höhen: »Spaß«"
    assert written.encode("cp1252").decode("utf-8", "ignore") != "".join(
        each for each in written if each.isascii()
    )
    assert not is_utf8(written.encode("cp1252"))
    assert titles(rss(written.encode("cp1252"))) == [written]


@pytest.mark.parametrize(
    ("label", "codec", "text"),
    [
        ("GB2312", "gb18030", "朱镕基 囧 €"),
        ("gbk", "gb18030", "镕"),
        ("x-sjis", "cp932", "①㈱\uff5e"),
        ("Shift_JIS", "cp932", "髙橋 \uff0d ∥"),
        ("windows-31j", "cp932", "纊"),
        ("EUC-KR", "cp949", "똠방각하"),
        ("ks_c_5601-1987", "cp949", "펲시콜라"),
        ("Big5", "big5hkscs", "香港 冇 嘅"),
        ("iso-8859-9", "cp1254", "“İstanbul”"),
        ("TIS-620", "cp874", "ไทย…"),
        ("iso-8859-1", "cp1252", "“été” €"),
        ("latin1", "cp1252", "“été”"),
        ("us-ascii", "cp1252", "“é”"),
        ("x-cp1251", "cp1251", "Привет"),
        ("koi8", "koi8-r", "Привет"),
        ("x-mac-roman", "mac-roman", "été"),
        ("iso88592", "iso8859-2", "Žluťoučký"),
        ("csisolatin2", "iso8859-2", "kůň"),
    ],
)
def test_each_label_means_its_superset(label: str, codec: str, text: str) -> None:
    assert codec_of(label) == codec
    assert titles(rss(text.encode(codec), declared=label)) == [text]
    damaged = rss(text.encode(codec), b"x\xff", declared=label)
    assert titles(damaged)[0] == text


def test_euc_jp_has_the_rows_of_nec_and_ibm() -> None:
    assert decode(b"\xad\xa1\xad\xea\xfc\xe2", "euc_jp") == "①㈱髙"
    assert decode(b"\xa1\xc1\xa1\xdd", "euc_jp") == "\uff5e\uff0d"
    assert titles(rss(b"\xad\xa1\xb0\xa1", declared="euc-jp")) == ["①亜"]


@pytest.mark.parametrize("label", ["utf-7", "none", "ebcdic-us", "iso-8859-12", "cp1259", "cp37"])
def test_what_is_no_label_or_hides_markup_is_none(label: str) -> None:
    assert codec_of(label) is None


def test_marks_come_before_all_that_is_declared() -> None:
    text = "Grüße"
    for declared in ("utf-8", "iso-8859-1", "utf-16"):
        for codec in ("utf-16", "utf-8-sig"):
            body = rss(b"TITLE", declared=declared).decode().replace("TITLE", text).encode(codec)
            assert titles(body, "text/xml; charset=koi8-r") == [text]


def test_references_to_c1_controls_are_characters_of_windows_1252() -> None:
    assert titles(rss(b"it&#146;s &#x80;1", declared="utf-8")) == ["it\u2019s \u20ac1"]


def test_a_bad_byte_in_json_feed_costs_one_character() -> None:
    feed = {
        "version": "https://jsonfeed.org/version/1.1",
        "items": [{"id": "1", "title": "Grüße"}, {"id": "2", "title": "x?"}],
    }
    written = json.dumps(feed, ensure_ascii=False)
    assert titles(written.encode().replace(b"x?", b"x\xff")) == ["Grüße", "x\ufffd"]
    assert titles(written.encode("utf-16")) == ["Grüße", "x?"]
    assert titles(written.encode("utf-8-sig")) == ["Grüße", "x?"]


def test_a_bad_byte_in_a_list_of_feeds_costs_one_character() -> None:
    written = (
        '<opml version="2.0"><body><outline text="Grüße" xmlUrl="http://a.example/1"/>'
        '<outline text="x?" xmlUrl="http://a.example/2"/></body></opml>'
    )
    found = read_list(written.encode().replace(b"x?", b"x\xff"))
    assert [one.title for one in found] == ["Grüße", "x\ufffd"]


@pytest.mark.parametrize("label", ["gb2312", "shift_jis", "euc-jp", "big5", "euc-kr", "x-sjis"])
def test_documents_of_east_asia_are_read_by_the_same_labels(label: str) -> None:
    codec = codec_of(label)
    assert codec is not None
    head = f"<?xml version='1.0' encoding='{label}'?>".encode()
    text = "글" if codec == "cp949" else "東京"
    assert parse(head + b"<a>" + text.encode(codec) + b"</a>").text == text
    with pytest.raises(MalformedDocument) as caught:
        parse(head + b"<a>\n\x81\xff</a>")
    assert (caught.value.reason_code, caught.value.line) == ("xml_encoding", 2)


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("iso-8859-1", "<a>café</a>".encode("latin-1"), "café"),
        ("ISO-8859-1", b"<a>\x93q\x94</a>", "“q”"),
        ("koi8-r", "<?xml version='1.0' encoding='utf-8'?><a>да</a>".encode("koi8-r"), "да"),
        ("utf-8", "<?xml version='1.0' encoding='latin1'?><a>é</a>".encode(), "é"),
        ("gb2312", "<a>镕</a>".encode("gbk"), "镕"),
        ("utf-16le", "<a>é</a>".encode("utf-16-le"), "é"),
        ("utf-16be", "<a>é</a>".encode("utf-16-be"), "é"),
        ("utf-16", " <a>é</a>".encode("utf-16-le"), "é"),
        ("iso-8859-1", "<a>é</a>".encode("utf-8-sig"), "é"),  # a mark comes before it
        ("iso-8859-1", "<a>é</a>".encode("utf-16"), "é"),
        (None, "<a>é</a>".encode(), "é"),
    ],
)
def test_a_charset_beside_a_document_is_authoritative(
    charset: str | None, body: bytes, text: str
) -> None:
    assert parse(as_utf8(body, charset)).text == text


def test_a_charset_that_the_document_does_not_have_is_an_error_with_a_place() -> None:
    with pytest.raises(MalformedDocument) as caught:
        parse(as_utf8(b"<a>\n caf\xe9</a>", "utf-8"))
    assert caught.value.reason_code == "xml_encoding"
    with pytest.raises(MalformedDocument) as caught:
        as_utf8(b"<?xml version='1.0' encoding='latin1'?>\n<a>caf\xe9</a>", "utf-8")
    assert (caught.value.line, caught.value.column) == (2, 7)
    with pytest.raises(MalformedDocument, match="'klingon' is not read here"):
        as_utf8(b"<a/>", "klingon")


@given(st.lists(st.text(st.characters(min_codepoint=0xA0, max_codepoint=0x2FFF), min_size=1)))
@examples(100)
def test_damage_at_the_end_of_a_title_changes_no_other(texts: list[str]) -> None:
    sound = [f"é {text}".encode() for text in texts]
    for declared in ("utf-8", ""):
        whole = titles(rss(*sound, declared=declared))
        damaged = titles(rss(*sound, b"cut \xe2\x82", declared=declared))
        assert damaged[:-1] == whole or not texts


@given(st.binary(max_size=200), st.sampled_from([None, "utf-8", "koi8-r", "gb2312", "utf-7"]))
def test_any_bytes_have_a_text(data: bytes, charset: str | None) -> None:
    assert isinstance(read_text(data, charset), str)
