"""Which encoding a document is in, before any parser looks at it.

Everything that is checked on the raw bytes (is there a DOCTYPE? how many tags
at most?) supposes that the characters of markup are their ASCII bytes.  That
holds for UTF-8 and the usual national encodings.  UTF-16, UTF-32 and the
encodings of East Asia are decoded here; encodings in which markup can hide
behind other bytes (UTF-7, EBCDIC, and whatever else a parser may know) are refused.

Labels mean what the Encoding Standard (https://encoding.spec.whatwg.org) says:
of a family of encodings the largest, which browsers read and publishers mean.
"""

from __future__ import annotations

import codecs
import re
from contextlib import suppress

from feeds.errors import MalformedDocument

DECLARATION = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[^>]{0,200}?\sencoding\s*=\s*(["'])([^"'>]{0,60})\1"""
)
"""The start of an XML declaration up to its encoding, which is group 2."""

_ENCODING_OF_TEXT = re.compile(
    r"""(\ufeff?<\?xml[^>]{0,200}?)\s+encoding\s*=\s*["'][^"'>]{0,60}["']"""
)

# --- labels ---

_LABELS = {
    "utf-8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8",
    "cp1252": "ansi_x3.4-1968 ascii cp819 csisolatin1 ibm819 iso-ir-100 us-ascii",
    "iso8859-2": "csisolatin2 iso-ir-101",
    "iso8859-3": "csisolatin3 iso-ir-109",
    "iso8859-4": "csisolatin4 iso-ir-110",
    "iso8859-5": "csisolatincyrillic cyrillic iso-ir-144",
    "iso8859-6": "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-ir-127",
    "iso8859-7": "csisolatingreek ecma-118 elot_928 greek greek8 iso-ir-126 sun_eu_greek",
    "iso8859-8": "csiso88598e csiso88598i csisolatinhebrew hebrew iso-ir-138 logical visual",
    "cp1254": "csisolatin5 iso-ir-148",
    "iso8859-10": "csisolatin6 iso-ir-157",
    "iso8859-15": "csisolatin9",
    "cp874": "dos-874 tis-620",
    "cp866": "866 csibm866 ibm866",
    "koi8-r": "cskoi8r koi koi8 koi8-r koi8_r",
    "koi8-u": "koi8-ru koi8-u",
    "mac-roman": "csmacintosh mac macintosh x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "chinese csgb2312 csiso58gb231280 euc-cn gb-2312 gb2312 gb_2312 gb_2312-80 gb18030 "
    "gbk iso-ir-58 x-gbk",
    "big5hkscs": "big5 big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc_jp": "cseucpkdfmtjapanese euc-jp x-euc-jp",
    "iso2022_jp_ext": "csiso2022jp iso-2022-jp",
    "cp932": "csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis",
    "cp949": "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 "
    "ksc_5601",
}
_CODECS = {label: codec for codec, labels in _LABELS.items() for label in labels.split()}
_NUMBERED = re.compile(
    r"iso[-_]?8859[-_]?(?P<iso>\d{1,2})(?:-[ei]|:\d{4})?|(?:latin-?|l)(?P<latin>\d{1,2})"
    r"|(?:windows-?|x-cp-?|cp-?)(?P<page>\d{3,4})"
)
_ISO = frozenset({*range(1, 17)} - {12})
_OF_LATIN = {1: 1, 2: 2, 3: 3, 4: 4, 5: 9, 6: 10, 7: 13, 8: 14, 9: 15, 10: 16}
_PAGES = frozenset({437, 850, 852, 866, 874, 932, 936, 949, 950, *range(1250, 1259)})
_LARGER = {
    **{"iso8859-1": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874"},
    **{"cp936": "gb18030", "cp950": "big5hkscs"},
}
_EAST_ASIAN = frozenset({"gb18030", "big5hkscs", "euc_jp", "iso2022_jp_ext", "cp932", "cp949"})
"""Codecs of which parsers know only smaller ones, and in which they read some characters
otherwise."""


def codec_of(label: str) -> str | None:
    """Return Python's codec for a label of an encoding in which markup is ASCII, if it is one."""
    label = label.strip().lower()
    numbered = _NUMBERED.fullmatch(label)
    if numbered is None:
        return _CODECS.get(label)
    if numbered["page"]:
        page = int(numbered["page"])
        codec = f"cp{page}" if page in _PAGES else ""
    else:
        part = int(numbered["iso"] or 0) or _OF_LATIN.get(int(numbered["latin"] or 0), 0)
        codec = f"iso8859-{part}" if part in _ISO else ""
    return _LARGER.get(codec, codec) or None


_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)


def charset_of(content_type: str | None) -> str | None:
    """Return the charset that a Content-Type names, in small letters."""
    named = _CHARSET.search(content_type or "")
    return named[1].lower() if named else None


# --- decoding ---


def decode(data: bytes, codec: str, *, strict: bool = False) -> str:
    """The text, as browsers read it; what is no character is U+FFFD, or an error if `strict`."""
    text = data.decode(codec, _STRICT if strict else _LENIENT)
    return text.translate(_JIS) if codec in ("euc_jp", "iso2022_jp_ext") else text


_STRICT, _LENIENT = "feeds.strict", "feeds.lenient"
_JIS = str.maketrans("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2")
"""From what Python's codecs read for six characters of JIS X 0208 to what browsers read."""


def _larger(error: UnicodeError) -> tuple[str, int]:
    """The character that Python's codec lacks; raises the error if there is none."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    at = error.start
    one, two = (*error.object[at : at + 2], 0)[:2]
    if error.encoding == "charmap" and one < 0xA0:
        return chr(one), at + 1
    if error.encoding == "gb18030" and one == 0x80:
        return "\u20ac", at + 1
    if error.encoding == "euc_jp" and 0xA1 <= one <= 0xFE and 0xA1 <= two <= 0xFE:
        row, cell = one - 0xA1, two - 0xA1 + 94 * ((one - 0xA1) % 2)
        lead, trail = 0x81 + row // 2, 0x40 + cell
        moved = bytes((lead + 0x40 * (lead > 0x9F), trail + (trail >= 0x7F)))
        with suppress(UnicodeDecodeError):
            return moved.decode("cp932"), at + 2
    raise error


def _larger_or_replaced(error: UnicodeError) -> tuple[str, int]:
    try:
        return _larger(error)
    except UnicodeDecodeError as bad:
        return "\ufffd", bad.end


codecs.register_error(_STRICT, _larger)
codecs.register_error(_LENIENT, _larger_or_replaced)


def is_utf8(data: bytes, *, declared: bool = False) -> bool:
    """Return True for UTF-8, also for damaged UTF-8.

    In declared UTF-8 one character is proof: no damage makes the others those of another encoding.
    In a text that declares nothing there are as many characters as sequences that are none.
    """
    if data.isascii():
        return True
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    good = len(text) - len(data.translate(None, _NOT_ASCII)) - bad
    return not bad or (good > 0 if declared else good >= bad)


_NOT_ASCII = bytes(range(0x80, 0x100))


def read_text(data: bytes, charset: str | None = None) -> str:
    """The text of a file from the web; `charset` is what HTTP says.  Nothing fails.

    Its encoding is what its first bytes show, what it declares, UTF-8 if it is that (`is_utf8`),
    what HTTP says, and else Windows-1252.  HTTP comes last, for servers have a default and
    publishers do not; but if HTTP says UTF-8 and it is that, the document's word does not count.
    """
    wide = wide_encoding(data)
    if wide is not None:
        return data.decode(wide, "replace")
    if data.startswith(codecs.BOM_UTF8) or is_utf8_all_the_same(data, charset):
        return data.decode("utf-8", "replace")
    codec, named = declared_codec(data), codec_of(charset or "")
    if codec is None or codec == "utf-8":
        if is_utf8(data, declared="utf-8" in (codec, named)):
            codec = "utf-8"
        else:
            codec = "cp1252" if named is None or named == "utf-8" else named
    return decode(data, codec)


def is_utf8_all_the_same(data: bytes, charset: str | None) -> bool:
    """Return True if HTTP and the bytes say UTF-8 while the document declares another encoding."""
    if data.isascii() or codec_of(charset or "") != "utf-8":
        return False
    return declared_codec(data) not in (None, "utf-8") and is_utf8(data)


def declared_codec(data: bytes) -> str | None:
    """Return the codec that an XML declaration names, if it is one in which markup is ASCII."""
    declared = DECLARATION.match(data)
    return codec_of(declared[2].decode("latin-1")) if declared else None


# --- documents ---

_WIDE = (
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (b"\0\0\0<", "utf-32-be"),
    (b"<\0\0\0", "utf-32-le"),
    (b"\0<", "utf-16-be"),
    (b"<\0", "utf-16-le"),
)


def as_ascii_compatible(xml: bytes) -> bytes:
    """The document in an encoding in which markup is ASCII; mostly the very same object.

    Raises `MalformedDocument` (`xml_encoding`).
    """
    if xml.startswith(b"<?xml"):
        declared = DECLARATION.match(xml)
        codec = declared_codec(xml)
        if declared and codec is None:
            _refuse(declared[2].decode("latin-1"))
        if codec in _EAST_ASIAN:
            return _narrow(xml, codec)
        if not xml.startswith(b"<?xml\0"):
            return xml
    wide = wide_encoding(xml)
    return _narrow(xml, wide) if wide else xml


def wide_encoding(xml: bytes) -> str | None:
    """The encoding of two or four bytes a character that the first bytes show, if any."""
    if xml.startswith((b"\0", b"\xff", b"\xfe", b"<\0")):
        return next((name for mark, name in _WIDE if xml.startswith(mark)), None)
    return None


def without_declared_encoding(text: str) -> str:
    """The text of a document without byte order mark and declared encoding, for UTF-8."""
    declared = _ENCODING_OF_TEXT.match(text)
    if declared:
        text = declared[1] + text[declared.end() :]
    return text.removeprefix("\ufeff")


def encoded(text: str) -> bytes:
    """The document in a text, as UTF-8; it declares no other encoding."""
    data = text.encode()
    return data if declared_codec(data) == "utf-8" else without_declared_encoding(text).encode()


def as_utf8(xml: bytes, charset: str | None) -> bytes:
    """The document as UTF-8 if a charset comes with it, which is authoritative (RFC 7303, 3).

    A byte order mark is, before it.  Raises `MalformedDocument` (`xml_encoding`).
    """
    if not charset or xml.startswith(codecs.BOM_UTF8) or wide_encoding(xml):
        return xml
    codec = codec_of(charset) or _WIDE_LABELS.get(charset.strip().lower())
    if codec is None:
        _refuse(charset)
    if codec == "utf-8" and not DECLARATION.match(xml):
        return xml
    return _narrow(xml, codec)


_WIDE_LABELS = {
    **dict.fromkeys(("utf-16", "utf-16le", "ucs-2", "unicode", "unicodefeff"), "utf-16-le"),
    **dict.fromkeys(("csunicode", "iso-10646-ucs-2"), "utf-16-le"),
    **dict.fromkeys(("utf-16be", "unicodefffe"), "utf-16-be"),
}


def _narrow(xml: bytes, encoding: str | None) -> bytes:
    assert encoding is not None
    try:
        text = decode(xml, encoding, strict=True)
    except UnicodeDecodeError as error:
        message = f"the document is not valid {encoding.upper()} ({error.reason})"
        before = xml[: error.start].decode(encoding, "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise MalformedDocument("xml_encoding", message, line, column) from None
    return without_declared_encoding(text).encode("utf-8", "replace")


def _refuse(name: str) -> None:
    message = f"the encoding {name[:60]!r} is not read here: use UTF-8"
    raise MalformedDocument("xml_encoding", message, 1, 1)
