"""The tokens of an event language, and a query's shape: its text without the literals.

Queries that differ in literals only have one shape.  A hundred thousand of them are parsed,
compiled and planned once; so splitting a text must cost microseconds, and does not tokenise.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, cast

from cep_core.decimals import BoundedDecimal, DecimalOrDouble, decimal_of
from cep_core.errors import Extent, QueryError

UNITS = {
    **dict.fromkeys(("us", "usec", "usecs", "microsecond", "microseconds"), Fraction(1, 1_000_000)),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), Fraction(1, 1_000)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Fraction(3_600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86_400)),
    **dict.fromkeys(("w", "wk", "wks", "week", "weeks"), Fraction(604_800)),
}
_NUMBER = r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
_UNIT = rf"(?:\s*(?P<unit>(?a:{'|'.join(sorted(UNITS, key=len, reverse=True))}))\b)?"
_QUOTED = r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\u2018[^\u2019]*\u2019|\u201c[^\u201d]*\u201d"
_STRING = rf"(?P<string>{_QUOTED})"
_CALENDAR = rf"(?P<calendar>(?<![\w$.])AT\s*(?:{_QUOTED})(?:\s*\bZONE\s*(?:{_QUOTED}))?)"
_LITERAL = rf"{_STRING}|(?<![\w$]){_NUMBER}{_UNIT}"
_COMMENT = r"--[^\n]*|/\*.*?\*/"
_STRINGS = re.compile(_STRING)
_QUOTES = re.compile(_QUOTED)
_WINDOW = re.compile(r"(?:\b(?:WITHIN|WINDOW|FOR)|@)\s*\Z", re.IGNORECASE)
_PUBLISH = re.compile(r"\bPUBLISH\s+([^\W\d]\w*)(?:\s*;)?\Z", re.IGNORECASE)  # of a stripped text
_TYPOGRAPHIC = "\u2018\u201c"  # opening quotes
_SAME = {"≤": "<=", "≥": ">=", "≠": "!=", "<>": "!=", "==": "="}
_WORDS = {"∧": "AND", "∨": "OR", "¬": "NOT"}
_MARKS = {"string": "\0s", "unit": "\0d"}  # of literals in a shape
_NUMBERS: Mapping[type, str] = {int: "\0i", float: "\0f", BoundedDecimal: "\0x"}
_LONGEST = 100_000  # characters of a query
MOST_REPLACING = 32
"""Calls of replace and tokenize in a query, at most: each matches a regular expression."""
_PIECE = re.compile(r"--|/\*|['\"\u2018\u201c]|\b(?:replace|tokenize)\s*\(", re.IGNORECASE)
_CLOSING = {
    **{"--": "\n", "/*": "*/", "'": "'", '"': '"'},
    **{"\u2018": "\u2019", "\u201c": "\u201d"},
}
_LONGEST_NUMBER = 400
_LONGEST_EXPONENT = 4  # 1e99999999 s would be computed for minutes


class Lexis(NamedTuple):
    """The lexical rules of a language: patterns of its literals and of its tokens (see `lexis`)."""

    literal: re.Pattern[str]
    token: re.Pattern[str]


def lexis(signs: str = "", verbatim: str = "(?!)") -> Lexis:
    """Return the lexis of a language with ``signs`` beside those that all have.

    ``verbatim`` is a pattern of pieces that are one token whatever is inside, so that numbers in
    them belong to the shape; so are calendars, such as AT '0 9 * * MON' ZONE 'Europe/Berlin'.
    """
    return Lexis(
        re.compile(
            rf"(?P<verbatim>{verbatim})|(?P<comment>{_COMMENT})|{_CALENDAR}|{_LITERAL}",
            re.IGNORECASE | re.DOTALL,
        ),
        re.compile(
            rf"\s+|(?:{_COMMENT})|(?P<verbatim>{verbatim})|{_CALENDAR}|{_STRING}"
            rf"|{_NUMBER}{_UNIT}"
            r"|(?P<decorator>\$[12]?\.)|(?P<name>[^\W\d]\w*)"
            rf"|(?P<sign><=|>=|<>|!=|==|[-+*/%=<>≤≥≠(){{}},;{re.escape(signs)}])|(?P<other>.)",
            re.IGNORECASE | re.DOTALL,
        ),
    )


COMMON = lexis()


class LanguageToken(NamedTuple):
    """A piece of text: a literal, name, decorator, sign, calendar, verbatim, or the end.

    ``word`` is a name in upper case (of keywords), "" right behind a point, where every word is a
    name.  ``literal`` is the number of a literal in the text, ``value`` its value.
    """

    kind: str
    text: str
    start: int
    end: int
    word: str = ""
    literal: int = -1
    value: Any = None

    @property
    def span(self) -> Extent:
        """The span of the token."""
        return Extent(self.start, self.end)

    def quoted(self) -> list[tuple[str, int]]:
        """Return the strings in a calendar, each with the offset in the query of its text."""
        found = _QUOTES.finditer(self.text)
        return [(_string(one[0]), self.start + one.start() + 1) for one in found]


def split(
    text: str, ticks_per_second: int, lexis: Lexis = COMMON
) -> tuple[str, tuple[Any, ...], str | None]:
    """Return the shape of a query, the values of its literals, and the name behind its PUBLISH.

    Without PUBLISH the name is None.  A window of no ticks is part of the shape, so that other
    texts do not share it.  It is refused when a text is read, with its place in that text.
    """
    admit(text)
    bare = _without_comments(text, lexis) if "--" in text or "/*" in text else text
    published = _PUBLISH.search(bare.rstrip()) if "publish" in bare.lower() else None
    body = bare[: published.start()] if published else bare
    shape: list[str] = []
    values: list[Any] = []
    # the end of the last literal, and the last text between literals that is not blank
    end, before = 0, ""
    for found in lexis.literal.finditer(body):
        kind, between = cast(str, found.lastgroup), body[end : found.start()]
        shape.append(between)
        end = found.end()
        if between.strip():
            before = between
        if kind in ("verbatim", "calendar"):
            # The reader marks a literal by \0, so a calendar with \0 is refused.
            shape.append(found[0].replace("\0", "?"))
        else:
            value = _value(found, kind, text, ticks_per_second)
            values.append(value)
            shape.append(_MARKS.get(kind) or _NUMBERS[type(value)])
            if kind != "string" and not value and _WINDOW.search(before):
                shape.append("0")
        before = ""
    shape.append(body[end:])
    joined = "".join(shape)
    # else a \0 of the text could pass for a literal, in the shape of another text
    if joined.count("\0") != len(values):
        place = _STRINGS.sub(lambda string: " " * len(string[0]), text).index("\0")
        raise _unexpected("\0", text, Extent(place, place + 1))
    return " ".join(joined.split()), tuple(values), published[1] if published else None


def _without_comments(text: str, lexis: Lexis) -> str:
    """Return a text with spaces for its comments: every character stays at its place."""
    return lexis.literal.sub(
        lambda found: " " * len(found[0]) if found.lastgroup == "comment" else found[0], text
    )


@lru_cache(maxsize=256)
def admit(text: str) -> None:
    """Raise for a text that is over a limit, in one pass over it, before anything else reads it.

    A string or a comment that does not end would make each later regular expression look for its
    end again and again.
    """
    if len(text) > _LONGEST:
        raise QueryError(f"a query has at most {_LONGEST} characters", text[:100], Extent(0, 1))
    at, calls = 0, 0
    while (found := _PIECE.search(text, at)) is not None:
        at = found.end()
        closing = _CLOSING.get(found[0])
        if closing is None:
            calls += 1
            if calls > MOST_REPLACING:
                message = f"over {MOST_REPLACING} calls of replace and tokenize"
                raise QueryError(message, text, Extent(*found.span()), hint="write several queries")
            continue
        end = text.find(closing, at)
        if end < 0 and closing == "\n":
            return
        if end < 0 and closing == "*/":
            message = "this comment does not end"
            raise QueryError(message, text, Extent(*found.span()), hint="it ends with */")
        if end < 0:
            raise _unexpected(found[0], text, Extent(*found.span()))
        at = end + len(closing)


def tokens(text: str, ticks_per_second: int, lexis: Lexis = COMMON) -> list[LanguageToken]:
    """Return the tokens of a text and one for its end; literals are numbered as by `split`."""
    admit(text)
    made: list[LanguageToken] = []
    literals = 0
    for found in lexis.token.finditer(text):
        kind = found.lastgroup
        if kind is None:
            continue
        start, end = found.span()
        written = found[0]
        if kind == "name":
            behind = text[start - 1 : start] == "."
            made.append(LanguageToken(kind, written, start, end, "" if behind else written.upper()))
        elif kind == "sign" and written in _WORDS:
            made.append(LanguageToken("name", written, start, end, _WORDS[written]))
        elif kind == "sign":
            made.append(LanguageToken(kind, _SAME.get(written, written), start, end))
        elif kind in ("decorator", "verbatim", "calendar"):
            made.append(LanguageToken(kind, written, start, end))
        elif kind == "other":
            raise _unexpected(written, text, Extent(start, end))
        else:
            value = _value(found, kind, text, ticks_per_second)
            made.append(LanguageToken("literal", written, start, end, "", literals, value))
            literals += 1
    made.append(LanguageToken("end", "", len(text), len(text)))
    return made


def _value(found: re.Match[str], kind: str, text: str, ticks_per_second: int) -> Any:
    if kind == "string":
        return _string(found[0])
    if kind == "unit":
        return _duration(found, text, ticks_per_second)
    return _number(found[0], found, text)


def _string(quoted: str) -> str:
    quote = quoted[0]
    if quote in _TYPOGRAPHIC:
        return quoted[1:-1]
    return quoted[1:-1].replace(quote * 2, quote)


def _number(number: str, found: re.Match[str], text: str) -> int | DecimalOrDouble:
    if number.isdigit() and len(number) <= _LONGEST_NUMBER:
        return int(number)
    exact = decimal_of(number) if len(number) <= _LONGEST_NUMBER else None
    if exact is not None:
        return exact
    exponent = number.lower().partition("e")[2]
    if len(number) > _LONGEST_NUMBER or len(exponent) > _LONGEST_EXPONENT:
        raise QueryError("this number is too long", text, Extent(*found.span()))
    value = float(number)
    if math.isinf(value):
        raise QueryError("this number is too large", text, Extent(*found.span()))
    return value


def _duration(found: re.Match[str], text: str, ticks_per_second: int) -> int:
    number, unit = found["number"], found["unit"]
    _number(number, found, text)
    ticks = Fraction(number) * UNITS[unit.lower()] * ticks_per_second
    if ticks.denominator != 1:
        tick = f"a tick is 1/{ticks_per_second} s" if ticks_per_second > 1 else "a tick is 1 s"
        message = f"{found[0]} is no whole number of ticks"
        raise QueryError(message, text, Extent(*found.span()), hint=tick)
    return ticks.numerator


def _unexpected(sign: str, text: str, span: Extent) -> QueryError:
    if sign in f"'\"{_TYPOGRAPHIC}":
        return QueryError("this string does not end", text, span)
    if sign == "$":
        hint = "decorators are $1. (first stream), $2. (second) and $. (last iteration)"
        return QueryError("an attribute follows $1. $2. or $.", text, span, hint=hint)
    return QueryError(f"{sign!r} is not part of the language", text, span)
