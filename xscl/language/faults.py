"""Query errors at a place of the text, and syntax errors in human words."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from xscl.errors import NotSupported, QueryError, near_miss
from xscl.language.syntax import Span

KEYWORDS = (
    *("SELECT", "DISTINCT", "FROM", "PUBLISH", "NAMESPACE", "JOIN", "FOLLOWED", "BY"),
    *("SYMMETRIC", "LONGEST"),
    *("NEXT", "FOLD", "NOT", "ELSE", "AS", "AND", "OR", "INF", "TO", "LEFT", "RIGHT", "AT", "ZONE"),
)
_WORDS = {
    "NAME": "a name",
    "STRING": "a quoted string",
    "NUMBER": "a number",
    "COMPARE": "a comparison",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "BRACKET": "'['",
    "RSQB": "']'",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "SLASH": "'/'",
    "DOUBLE_SLASH": "'//'",
    "ARROW": "'->'",
    "STAR": "'*'",
    "DOT": "'.'",
    "AT": "'@'",
    "CONSTRUCTOR": "an element",
    "$END": "the end of the query",
}
_OPERATORS = {
    "AXIS",
    "XPATH_STEP",
    "UNION",
    "INSTANTS",
    "VBAR",
    "COLON",
    "PLUS",
    "MINUS",
    "DIV",
    "MOD",
    "DECORATED",
    "BRACED",
    "EQUAL",
    *("SYMMETRIC", "LONGEST"),  # words in front of JOIN and FOLD
}
_QUOTES = "\u201c\u201d\u201e\u2018\u2019\u201a\u00ab\u00bb"
_OUTSIDE = (
    ("..", "the parent axis cannot stand here", "use it in a block"),
    ("::", "an axis by name cannot stand here", "use it in a block"),
    ("&&", "conditions are joined by words", "write and"),
    ("||", "conditions are joined by words", "write or"),
    ("<>", "inequality has another sign", "write !="),
    ("=~", "expressions are matched by a function", 'write matches(path, "expression")'),
    ('\\"', "a backslash hides no quote", "put the text in the other quotes: 'say \"x\"'"),
    ("$", "variables are written without a '$'", "bind with -> and use the bare name"),
    ("|", "a union cannot stand here", "write a block for each path, or S//a | S//b"),
    ("→", "a variable is bound with two signs", "write ->"),
    ("==", "equality has one sign", "write ="),
    ("!", "negation is a function", "write not(...), and != for unequal"),
    ("~", "similarity is no comparison", "compare with =, contains() or matches()"),
    *((quote, "this is no quote of XSCL", "write ' or \"") for quote in _QUOTES),
)
_SIDE = (
    "of JOIN ... ELSE the side comes last: ELSE LEFT, ELSE RIGHT; FOLLOWED BY waits from its first"
    " document on, so it has no sides: write JOIN{x = y, 0 s TO 3 d} ... ELSE RIGHT"
)
_WORDS_OUTSIDE = {
    "WHERE": "conditions on a document stand in [ ], comparisons between documents in { }",
    "WITHIN": "the window stands last between the braces: {x = y, 3 d}",
    "ELSE": "ELSE belongs to FOLLOWED BY and JOIN, not to SYMMETRIC JOIN",
    "LEFT": _SIDE,
    "RIGHT": _SIDE,
    "CONTAINS": 'write contains(path, "text")',
    "STARTS-WITH": 'write starts-with(path, "text")',
    "ENDS-WITH": 'write ends-with(path, "text")',
    "MATCHES": 'write matches(path, "expression")',
    "LIKE": 'write contains(path, "text"), or matches(path, "expression")',
    "IN": 'write path = ("a", "b")',
    "EQ": "write =",
    "NE": "write !=",
}
_CALENDAR = re.compile(r"\bAT(?:\s*|'[^'\s]*\s*)\Z", re.IGNORECASE)
_CALENDAR_HINT = "a calendar stands in place of a block, with a space: AT '0 9 * * MON'->t"
_LENGTH = re.compile(r"[\d.]+\s*(?:ms|s|min|h|d|w)\b|INF\b", re.IGNORECASE)
_WIDEST = 14  # words or names that a message lists: more are no help


class SyntaxFault(QueryError):
    """Raised for a text that the grammar refuses, and that may be XPath."""


def fault(source: str, span: Span, message: str, hint: str | None = None) -> QueryError:
    """Return a QueryError with a message at the begin of a span of the text `source`."""
    return QueryError.at(span.start, message, source, hint)


def unsupported(source: str, span: Span, what: str, hint: str | None = None) -> NotSupported:
    """Return the error for a construct, named by `what`, that parses and cannot be run yet."""
    return NotSupported.at(span.start, f"{what} is not yet supported", source, hint)


def unbound(
    source: str, span: Span, name: str, known: Iterable[str], where: str = ""
) -> QueryError:
    """Return the error for an unbound variable; its hint is a similar name, or those `known`.

    `where` ends the message: it says where the variable is not bound.
    """
    names = list(known)
    hint = near_miss(name.rpartition(".")[2], names)
    if hint is None and names:
        hint = f"bound here: {', '.join(names[:_WIDEST])}{', ...' if names[_WIDEST:] else ''}"
    return fault(source, span, f"the variable {name!r} is not bound{where}", hint)


def syntax_fault(source: str, error: UnexpectedInput) -> QueryError:
    """Return an error of lark in words: the place, the found and the expected words, a hint."""
    offset = error.pos_in_stream if error.pos_in_stream is not None else len(source)
    at_end = isinstance(error, UnexpectedToken) and error.token.type == "$END"
    offset = len(source.rstrip()) if at_end else max(0, min(offset, len(source)))
    span = Span(offset, offset)
    if source[max(0, offset - 2) : offset] in ('\\"', "\\'"):
        advice = "put the text in the other quotes, or write the quote twice"
        return fault(source, Span(offset - 2), "a backslash hides no quote", advice)
    for text, message, advice in _OUTSIDE:
        if source.startswith(text, offset) or source.startswith(text, max(0, offset - 1)):
            return fault(source, span, message, advice)
    if source[:offset].strip() == "" and source.startswith("/", offset):
        named = source[offset + 1 : offset + 2].isupper() and "/" in source[offset + 1 :]
        example = source[offset + 1 :].split()[0] if named else "feeds//item/title"
        return fault(source, span, "no stream is named", f"begin with a stream, e.g. {example}")
    names = _names(error)
    expected = _expected(names)
    found = "the query ends" if at_end else f"found {_found(source, offset)!r}"
    message = f"{found} where {expected} is expected"
    hint = None if at_end else _hint(source, offset, names)
    return fault(source, span, message, hint)


def _names(error: UnexpectedInput) -> set[str]:
    if isinstance(error, UnexpectedToken):
        return set(error.accepts or error.expected)
    return set(error.allowed or ()) if isinstance(error, UnexpectedCharacters) else set()


def _expected(names: set[str]) -> str:
    if names == {"EQUAL"}:
        return "'='"
    shown = sorted(_WORDS.get(n, n) for n in names - _OPERATORS)
    if not 0 < len(shown) <= _WIDEST:
        return "something else"
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _found(source: str, offset: int) -> str:
    rest = source[offset : offset + 20].split()
    return rest[0] if rest else source[offset : offset + 1]


def _hint(source: str, offset: int, names: set[str]) -> str | None:
    word = _found(source, offset).upper()
    if _CALENDAR.search(source[:offset]) and (word[:1] in ("'", '"', "*") or word[:1].isdigit()):
        return _CALENDAR_HINT
    if word in _WORDS_OUTSIDE:
        return _WORDS_OUTSIDE[word]
    if "COMMA" in names and _LENGTH.match(source, offset):
        return "a comma stands before the window: {x = y, 3 d}"
    near = _keyword_hint(source, offset)
    if near is not None:
        return near
    if "RBRACE" in names and source.startswith(",", offset):
        return "the window stands last between the braces; NEXT takes none"
    if "RBRACE" in names and "}" not in source[offset:]:
        return "a '{' before this is still open"
    return None


def _keyword_hint(source: str, offset: int) -> str | None:
    word = _found(source, offset).strip("{}[](),").upper()
    before = source[:offset].split()[-1:] or [""]
    for candidate in (word, before[0].strip("{}[](),").upper()):
        close = difflib.get_close_matches(candidate, KEYWORDS, n=1, cutoff=0.75)
        if close and close[0] != candidate:
            return f"did you mean {'FOLLOWED BY' if close[0] == 'FOLLOWED' else close[0]}?"
    return None


# -- Declarations of namespaces ------------------------------------------------------------
# The grammar refuses a text at the first token that does not fit, perhaps far behind the mistake.
# So a wrong declaration would be reported as a prefix that is not declared.

_DECLARED = re.compile(r"\s*NAMESPACE\s+([\w.-]+)\s*=\s*(\"[^\"]*\"|'[^']*')", re.IGNORECASE)
_SIGN = re.compile(r"\s*([,;]|and\b)\s*(?=NAMESPACE\b|[\w.-]+\s*=|[^\W\d][\w.-]*\s*/)", re.I)
_WITHOUT_WORD = re.compile(r"\s*()[\w.-]+\s*=\s*[\"']")
_UNFINISHED = re.compile(r"\s*()NAMESPACE\s*(?:[=\"']|[\w.:-]+\s*[:=]|[\w.-]+\s+[\"'])", re.I)
_FOREIGN = re.compile(
    r"\s*()(?:declare\s+(?:default\s+\w+\s+)?namespace\b|@?prefix\s+[\w.-]*:|xmlns[\w:.-]*\s*=)",
    re.I,
)
_EACH = 'write one after the other: NAMESPACE o = "..." NAMESPACE i = "..."'
_FORM = 'write NAMESPACE o = "http://..." before the query'


def broken_declaration(text: str) -> QueryError | None:
    """Return the error of a wrong declaration of a namespace, the first one; None without one."""
    at, declared = 0, False
    while (found := _DECLARED.match(text, at)) is not None:
        at, declared = found.end(), True
    if (found := _UNFINISHED.match(text, at)) is not None:
        return _fault(text, found, "this declares no namespace", _FORM)
    if declared:
        if (found := _SIGN.match(text, at)) is not None:
            return _fault(text, found, "no sign stands between declarations of namespaces", _EACH)
        if (found := _WITHOUT_WORD.match(text, at)) is not None:
            return _fault(text, found, "the word NAMESPACE begins each declaration", _EACH)
    if (found := _FOREIGN.match(text, at)) is not None:
        return _fault(text, found, "a namespace is declared by the word NAMESPACE", _FORM)
    return None


def _fault(text: str, found: re.Match[str], message: str, hint: str) -> QueryError:
    return fault(text, Span(found.start(1)), message, hint)
