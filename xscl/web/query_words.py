"""The words of XSCL for the query editor, as a module that its scripts import.

The words are those of the parser's tables; `static/query_words.js` is generated from them.
"""

from __future__ import annotations

import json

from xscl.language.faults import KEYWORDS
from xscl.language.functions import OPERANDS, TESTS

NAME = "query_words.js"
_OF_PREDICATES = ("AND", "OR", "INF")
_OF_CALENDARS = ("AT", "ZONE")  # before a quote; a stream may be called so, too
_OF_WINDOWS = ("TO",)  # before a bound; an element may be called so, too
_OF_SIDES = ("LEFT", "RIGHT")  # behind ELSE; an element may be called so, too
_OF_ARITHMETIC = ("DIV", "MOD")


def query_words() -> bytes:
    """Return the source of the module, which exports each list of words as a constant."""
    beside = (*_OF_PREDICATES, *_OF_CALENDARS, *_OF_WINDOWS, *_OF_SIDES)
    tables = {
        "KEYWORDS": [word for word in KEYWORDS if word not in beside],
        "PREDICATE_WORDS": _OF_PREDICATES,
        "CALENDAR_WORDS": _OF_CALENDARS,
        "WINDOW_WORDS": _OF_WINDOWS,
        "SIDE_WORDS": _OF_SIDES,
        "ARITHMETIC_WORDS": _OF_ARITHMETIC,
        "FUNCTIONS": [*TESTS, *OPERANDS],
    }
    lines = (f"export const {name} = {json.dumps(words)};\n" for name, words in tables.items())
    return "".join(lines).encode()
