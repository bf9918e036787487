"""Names: their syntax, predeclared namespace prefixes, and the stream of all feed items."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

from feeds.formats.namespaces import WELL_KNOWN, XML
from xscl.errors import XsclError

_NEVER = (
    r"\0-&(-,\-/:-@\[-^`{-\xb6\xb8-\xbf\xd7\xf7\u037e\u2000-\u200b\u200e-\u203e\u2041-\u206f"
    r"\u2190-\u2bff\u2ff0-\u3000\ud800-\uf8ff\ufdd0-\ufdef\ufffe\uffff\U000f0000-\U0010ffff"
)
_NOT_FIRST = rf"'.0-9\xb7\u0300-\u036f\u203f\u2040{_NEVER}"
NAME = f"[^{_NOT_FIRST}](?:[^{_NEVER}]|-(?!>))*"
"""The pattern of a name of a stream: an NCName that may contain quotes, as in the grammar.

The brackets contain what a name lacks: Python takes 6 ms longer for what it may have."""
OUTSIDE = f"(?!-)[{_NEVER}]"
"""The pattern of a character that no name has."""
LONGEST_NAME = 500
"""Characters of the name of a subscription."""
LONGEST_STREAM = 200
"""Characters of the name of a stream."""
LONGEST_LABEL = 200
"""Characters of the label of a token or an address."""
PREFIX = 20
"""Characters that the prefix of an owner (`_7.`) may add to a name."""

UNITLESS = r"(?i)[0-9.]\s*(?:\}|TO\b)|--"
"""A pattern in each text that has a window without a unit; it may be in other texts, too."""

_COMMON = ("atom", "content", "dc", "georss", "itunes", "media", "xhtml")
PREDECLARED = {**{prefix: WELL_KNOWN[prefix] for prefix in _COMMON}, "xml": XML}
PREFIXES = {uri: prefix for prefix, uri in PREDECLARED.items()}


def with_prefixes(text: str, prefixes: Mapping[str, str]) -> str:
    """Return a printed text with declared prefixes for namespaces: `s:order` for `Q{uri}order`."""
    for prefix, uri in prefixes.items():
        text = text.replace(f"Q{{{uri}}}", f"{prefix}:")
    return text


_OWNER = re.compile(r"_\d+\.")


def owner_prefix(name: str) -> str:
    """Return the part of a name that denotes its owner, such as `_7.`; "" if it has none."""
    found = _OWNER.match(name)
    return "" if found is None else found[0]


def owner_name(name: str) -> str:
    """Return the name that an owner gave to an object: without the owner's prefix."""
    return name.removeprefix(owner_prefix(name))


def owner_number(name: str) -> int:
    """Return the account number of the owner of an object, 0 for the operator."""
    return int(owner_prefix(name)[1:-1] or 0)


def in_short(name: str) -> str:
    """Return a name in quotes for a message, at most its first 100 characters."""
    return repr(name if len(name) <= 100 else f"{name[:100]}…")


_JOINERS = "\u200c\u200d"  # of zero width; words of some scripts, and emoji, contain them


def is_plain(name: str) -> bool:
    """Return True for a text without control characters, line ends and invisible characters."""
    return not any(map(_is_control, name))


def _is_control(character: str) -> bool:
    """Return True for a control character, a line end, a surrogate, or an invisible character."""
    kind = unicodedata.category(character)
    return kind in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS


class WrongLabel(XsclError):
    """A label that is too long, or that cannot be printed."""

    code = "label"


def refuse_label(label: str) -> None:
    """Raise WrongLabel for a text that is too long for a label, or that cannot be printed."""
    if len(label) > LONGEST_LABEL or not label.isprintable():
        raise WrongLabel(
            f"{in_short(label)} cannot be a label",
            hint=f"at most {LONGEST_LABEL} printable characters",
        )


EVERYTHING = "feeds"
"""The stream that all items of feeds belong to."""
