"""Which encoding a document is in, before any parser looks at it.

Everything that is checked on the raw bytes (is there a DOCTYPE? how many tags
at most?) supposes that the characters of markup are their ASCII bytes.  That
holds for UTF-8 and the usual national encodings.  UTF-16 and UTF-32 are
decoded here; encodings in which markup can hide behind other bytes (UTF-7,
EBCDIC, and whatever else a parser may know) are refused.
"""

from __future__ import annotations

import codecs
import re

from feeds.errors import MalformedDocument

DECLARATION = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[^>]{0,200}?\sencoding\s*=\s*(["'])([^"'>]{0,60})\1"""
)
"""The start of an XML declaration up to its encoding, which is group 2."""

_ENCODING_OF_TEXT = re.compile(
    r"""(\ufeff?<\?xml[^>]{0,200}?)\s+encoding\s*=\s*["'][^"'>]{0,60}["']"""
)

_ASCII_COMPATIBLE = re.compile(
    r"utf-?8|(us-)?ascii|iso[-_]?8859[-_]\d{1,2}|iso_8859-1:1987|latin-?\d|l[1-9]"
    r"|(windows|cp|x-cp)-?(125\d|874|932|936|949|950)|cp-?(437|850|852|866)"
    r"|koi8-[ru]|gb[-_]?2312|gbk|gb18030|big5(-hkscs)?|shift[-_]jis|sjis|windows-31j"
    r"|euc-(jp|kr|cn|tw)|iso-2022-(jp|kr)|ks_c_5601-1987|tis-620|macintosh",
    re.IGNORECASE,
)

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
        if declared and not is_ascii_compatible(declared[2].decode("latin-1")):
            _refuse(declared[2].decode("latin-1"))
        if not xml.startswith(b"<?xml\0"):
            return xml
    wide = wide_encoding(xml)
    return _narrow(xml, wide) if wide else xml


def is_ascii_compatible(name: str) -> bool:
    """Return True if Python knows the encoding and if it encodes markup as ASCII."""
    return _ASCII_COMPATIBLE.fullmatch(name) is not None


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


def _narrow(xml: bytes, encoding: str) -> bytes:
    try:
        text = xml.decode(encoding)
    except UnicodeDecodeError as error:
        message = f"the document is not valid {encoding.upper()} ({error.reason})"
        before = xml[: error.start].decode(encoding, "replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise MalformedDocument("xml_encoding", message, line, column) from None
    return without_declared_encoding(text).encode("utf-8", "replace")


def _refuse(name: str) -> None:
    message = f"the encoding {name!r} is not read here: use UTF-8"
    raise MalformedDocument("xml_encoding", message, 1, 1)
