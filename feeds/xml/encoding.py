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
from encodings.aliases import aliases

from feeds.errors import MalformedDocument

DECLARATION = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[^>]{0,200}?\sencoding\s*=\s*(["'])([^"'>]{0,60})\1"""
)
"""The start of an XML declaration up to its encoding, which is group 2."""

_ENCODING_OF_TEXT = re.compile(
    r"""(\ufeff?<\?xml[^>]{0,200}?)\s+encoding\s*=\s*["'][^"'>]{0,60}["']"""
)

# --- labels ---

_MEANT = {
    **{
        f"cp{page}": f"cp{page}" for page in (437, 850, 852, 866, 874, 932, 949, *range(1250, 1259))
    },
    **{f"iso8859_{part}": f"iso8859-{part}" for part in range(2, 17) if part != 12},
    **{"utf_8": "utf-8", "koi8_r": "koi8-r", "koi8_u": "koi8-u", "euc_jp": "euc_jp"},
    **{"mac_roman": "mac-roman", "mac_cyrillic": "mac-cyrillic"},
    **{"ascii": "cp1252", "latin_1": "cp1252", "iso8859_9": "cp1254"},
    **{"iso8859_11": "cp874", "tis_620": "cp874"},
    **{"big5": "big5hkscs", "cp950": "big5hkscs", "big5hkscs": "big5hkscs"},
    **{"gb2312": "gb18030", "gbk": "gb18030", "cp936": "gb18030", "gb18030": "gb18030"},
    **{"iso2022_jp": "iso2022_jp_ext", "shift_jis": "cp932", "euc_kr": "cp949"},
}
"""From a codec of Python in which markup is ASCII to the codec that its labels mean."""

_LABELS = {
    "utf_8": "unicode-1-1-utf-8 unicode11utf8 unicode20utf8",
    "iso8859_6": "csiso88596e csiso88596i",
    "iso8859_7": "sun_eu_greek",
    "iso8859_8": "csiso88598e csiso88598i logical visual",
    "iso8859_15": "csisolatin9",
    "cp874": "dos-874",
    "koi8_r": "koi koi8",
    "koi8_u": "koi8-ru",
    "mac_roman": "csmacintosh mac",
    "mac_cyrillic": "x-mac-ukrainian",
    "gb2312": "csgb2312 gb_2312-80",
    "big5": "cn-big5 x-x-big5",
    "euc_jp": "cseucpkdfmtjapanese",
    "cp932": "windows-31j",
    "cp949": "cseuckr csksc56011987 iso-ir-149 ks_c_5601-1989",
}
"""Labels of the Encoding Standard that Python does not have among its aliases."""


def _squeezed(label: str) -> str:
    """Return a label without case, punctuation, prefixes and suffixes that make no difference."""
    label = re.sub(r"^x-|-[ei]$|:\d{4}$|[\W_]", "", label.strip().lower())
    return label.replace("windows", "cp")


_CODECS = {
    _squeezed(label): _MEANT[codec]
    for label, codec in (
        *((codec, codec) for codec in _MEANT),
        *aliases.items(),
        *((label, codec) for codec, labels in _LABELS.items() for label in labels.split()),
    )
    if codec in _MEANT
}
_EAST_ASIAN = frozenset({"gb18030", "big5hkscs", "euc_jp", "iso2022_jp_ext", "cp932", "cp949"})
"""Codecs of which parsers lack some characters, and read some others differently."""


def codec_of(label: str) -> str | None:
    """Return the codec for a label of an encoding in which markup is ASCII; None for others."""
    return _CODECS.get(_squeezed(label))


_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE | re.ASCII)


def charset_of(content_type: str | None) -> str | None:
    """Return the charset that a Content-Type names, in small letters; None without one."""
    named = _CHARSET.search(content_type or "")
    return named[1].lower() if named else None


# --- decoding ---


def decode(data: bytes, codec: str, *, strict: bool = False) -> str:
    """Return text as browsers read it; invalid bytes become U+FFFD, or raise if `strict`."""
    text = data.decode(codec, _STRICT if strict else _LENIENT)
    return text.translate(_JIS) if codec in ("euc_jp", "iso2022_jp_ext") else text


_STRICT, _LENIENT = "feeds.strict", "feeds.lenient"
_JIS = str.maketrans("\u301c\u2016\u2212\xa2\xa3\xac", "\uff5e\u2225\uff0d\uffe0\uffe1\uffe2")
"""From what Python's codecs read for six characters of JIS X 0208 to what browsers read."""


def _larger(error: UnicodeError) -> tuple[str, int]:
    """Return a character that Python's codec lacks, and the offset after it; or raise the error."""
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
    """Return True for UTF-8, also if it is damaged.

    Of the characters beyond ASCII one must be valid if UTF-8 is `declared`, as text of other
    encodings has hardly any that are valid; otherwise half of them.
    """
    if data.isascii():
        return True
    text = data.decode("utf-8", "replace")
    bad = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    good = len(text) - len(data.translate(None, _NOT_ASCII)) - bad
    return not bad or (good > 0 if declared else good >= bad)


_NOT_ASCII = bytes(range(0x80, 0x100))


def read_text(data: bytes, charset: str | None = None) -> str:
    """Return the text of a file from the web; `charset` is that of HTTP.  It raises nothing.

    The encoding is what the first bytes show, else the declared one, else UTF-8 if the bytes are
    that (`is_utf8`), else `charset`, else Windows-1252.  HTTP comes late, as servers have a default
    and publishers do not; but if HTTP says UTF-8 and the bytes are UTF-8, no declaration counts.
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

_WIDE = re.compile(
    rb"(?P<utf_32>\0\0\xfe\xff|\xff\xfe\0\0)|(?P<utf_16>\xfe\xff|\xff\xfe)"
    rb"|(?P<utf_32_be>\0\0\0[<\s])|(?P<utf_32_le>[<\s]\0\0\0)"
    rb"|(?P<utf_16_be>\0[<\s]\0[^\0])|(?P<utf_16_le>[<\s]\0[^\0]\0)"
)
"""Byte order marks, and two characters that markup can begin with."""


def as_ascii_compatible(xml: bytes) -> bytes:
    """Return the document in an encoding in which markup is ASCII: mostly the given bytes.

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
    found = _WIDE.match(xml)
    return found and str(found.lastgroup).replace("_", "-")


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
    """Return the document as UTF-8, read by a charset that comes with it (RFC 7303, 3).

    Without one, or with a byte order mark, which has precedence, it stays as it is.  Raises
    `MalformedDocument` (`xml_encoding`).
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
