"""The items of a damaged feed apart, so that the damage of one changes no other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from feeds.errors import MalformedDocument
from feeds.xml.xmlparse import parse

MOST = 10_000
"""A damaged feed with more pieces is recovered as a whole."""

_HEAD = 1 << 16
_START = re.compile(rb"<!\[CDATA\[.*?\]\]>|<!--.*?-->|<(item|entry)(?=[\s>/])", re.DOTALL)
_DECLARED = re.compile(rb"\s(xmlns(?::[\w.-]+)?)\s*=\s*(\"[^\"<]*\"|'[^'<]*')")


@dataclass(frozen=True, slots=True)
class FeedPieces:
    """A feed with its sound items only, and with the others only; `order` tells which are sound."""

    sound: bytes
    damaged: bytes
    order: tuple[bool, ...]


def pieces(body: bytes) -> FeedPieces | None:
    """The feed in pieces, each from the start of an item to the next; None if there are none."""
    starts = [found.start() for found in _START.finditer(body) if found[1]]
    end = max(body.rfind(b"</item>"), body.rfind(b"</entry>"))
    if not starts or len(starts) > MOST or end < starts[-1]:
        return None
    end = body.index(b">", end) + 1
    head, tail = body[: starts[0]], body[end:]
    names = dict(_DECLARED.findall(head[:_HEAD]))
    start = b"<x " + b" ".join(b"%s=%s" % each for each in names.items()) + b">"
    each = [body[at:to] for at, to in zip(starts, [*starts[1:], end], strict=True)]
    order = tuple(_is_sound(start + piece + b"</x>") for piece in each)
    sound = b"".join(piece for piece, holds in zip(each, order, strict=True) if holds)
    damaged = b"".join(piece for piece, holds in zip(each, order, strict=True) if not holds)
    return FeedPieces(head + sound + tail, head + damaged + tail, order)


def _is_sound(xml: bytes) -> bool:
    try:
        parse(xml)
    except MalformedDocument:
        return False
    return True
