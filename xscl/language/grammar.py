"""Reading by the grammar: lark's trees of XSCL, and the lexemes of XPath inside of them.

The grammar reads a bracket of a block, and a step that is no test of a name, as one token.  Its
lexer finds the end of such a token by `LEXEME`, as every reader of XPath here does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import NamedTuple

from lark import Lark, TextSlice, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.lexer import BasicLexer, ContextualLexer

from xscl.language.faults import SyntaxFault, fault, syntax_fault
from xscl.language.syntax import Span

_NAME = r"[^\W\d](?:[\w.'·]|-(?!>))*"  # a quote may follow the name of a variable
LEXEME = re.compile(
    rf"""(?P<space>\s+)
    | (?P<comment>\(:(?:[^:]|:(?!\)))*:\)|--[^\n]*)
    | (?P<string>"(?:[^"]|"")*"|'(?:[^']|'')*')
    | (?P<braced>Q\{{[^{{}}]*\}}(?:{_NAME}|\*))
    | (?P<prefixed>(?P<prefix>{_NAME}):(?!:)(?P<local>{_NAME}|\*))
    | (?P<name>{_NAME})
    | (?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+)
    | (?P<sign>::|->|//|!=|<=|>=|<<|>>|\|\||=>|:=|.)""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_BRACKETED = frozenset(("BRACKET", "XPATH_STEP"))


class Unbalanced(ValueError):
    """Text whose brackets do not match, at a place; `opened` is that of the outermost one."""

    def __init__(self, message: str, at: int, opened: int) -> None:
        super().__init__(message)
        self.at = at
        self.opened = opened


class Lexeme(NamedTuple):
    """A word, sign, string or number of a text, or a whole bracket."""

    text: str
    span: Span


def closing(text: str, at: int, end: int) -> int:
    """Return the place behind the bracket that closes the one at a place; raises Unbalanced."""
    pending = [_CLOSES[text[at]]]  # also where `(:` stands, which is a comment elsewhere
    for lexeme in LEXEME.finditer(text, at + 1, end):
        sign, place = lexeme[0], lexeme.start()
        if sign in _CLOSES:
            pending.append(_CLOSES[sign])
        elif sign in _CLOSES.values():
            if sign != (wanted := pending.pop()):
                raise Unbalanced(f"found {sign!r} where {wanted!r} is expected", place, at)
            if not pending:
                return lexeme.end()
    raise Unbalanced(f"the query ends where {pending[-1]!r} is expected", end, at)


def lexemes(text: str, span: Span, whole: str = "([{") -> Iterator[Lexeme]:
    """Yield the lexemes in a span of a text; a bracket of one of these signs is one lexeme."""
    at = span.start
    while (found := LEXEME.match(text, at, span.end)) is not None:
        start = at
        at = closing(text, at, span.end) if found[0] in tuple(whole) else found.end()
        if found.lastgroup not in ("space", "comment"):
            yield Lexeme(text[start:at], Span(start, at))


class _BracketLexer(BasicLexer):
    """A lexer whose brackets and steps of XPath reach to the bracket that closes them."""

    def match(self, text: TextSlice[str], pos: int) -> tuple[str, str] | None:
        """Return the token at a place, and its type."""
        found: tuple[str, str] | None = self.scanner.match(text, pos)
        if found is None or found[1] not in _BRACKETED or found[0][-1] not in _CLOSES:
            return found
        try:
            return text.text[pos : closing(text.text, pos + len(found[0]) - 1, text.end)], found[1]
        except Unbalanced:
            if found[1] == "XPATH_STEP":
                return None
            raise


class _BlockLexer(ContextualLexer):
    BasicLexer = _BracketLexer


@cache
def _lark() -> Lark:
    lark = Lark(
        resources.files(__package__).joinpath("xscl.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        start=[
            "start",
            "block_start",
            "bracket_start",
            "condition_start",
            "path_start",
            "formula_start",
        ],
        maybe_placeholders=False,
        _plugins={"ContextualLexer": _BlockLexer},
    )
    # Its names are tokens, which compare in Python: reading takes a third longer with them.
    for rule in lark.rules:
        rule.origin.name = sys.intern(str(rule.origin.name))
    states = lark.parser.parser.parser.parse_table.states
    for state, actions in states.items():
        states[state] = {sys.intern(str(name)): action for name, action in actions.items()}
    return lark


def read(
    source: str, start: str, span: Span | None = None, shown: str | None = None
) -> Tree[Token]:
    """Return lark's tree of a text, or of a span of it; raises QueryError.

    `shown` is the text with placeholders for what the grammar does not read; all places are the
    same.
    """
    at, end = (0, len(source)) if span is None else (span.start, span.end)
    try:
        return _lark().parse(TextSlice(shown or source, at, end), start=start)
    except Unbalanced as error:
        # An error of the grammar in the bracket says more.
        read(source, "bracket_start", Span(error.opened + 1, end))
        raise SyntaxFault.at(error.at, str(error), source) from None
    except UnexpectedInput as error:
        offset = error.pos_in_stream
        quote = source[offset : offset + 1] if offset is not None else ""
        if offset is not None and quote in ("'", '"') and quote not in source[offset + 1 : end]:
            message, hint = "this string is not closed", "end it with the same quote"
            raise fault(source, Span(offset), message, hint) from None
        wrong = syntax_fault(source[:end], error)
        message = wrong.message
        if start == "condition_start":
            message = message.replace("of the query", "of the condition")
        if end < len(source):
            message = message.replace("the query ends", f"found {source[end]!r}", 1)
        raise SyntaxFault(message, source, wrong.line, wrong.column, wrong.hint) from None
