"""Reading by the grammar: the limits of a text, lark's trees of XSCL, lexemes of XPath in them.

A text is admitted before anything else reads it: one pass over its tokens counts them, follows how
deep they are nested, and counts the steps of each path, so that a hostile text costs some
milliseconds.

The grammar reads a bracket of a block, and a step that is no test of a name, as one token.  Its
lexer finds the end of such a token by `LEXEME`, as every reader of XPath here does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

from lark import Lark, TextSlice, Token, Tree
from lark.exceptions import UnexpectedInput
from lark.lexer import BasicLexer, ContextualLexer

from xscl.errors import QueryError, TooComplex
from xscl.language.faults import SyntaxFault, fault, syntax_fault
from xscl.language.syntax import Span

MAX_LENGTH = 65_536
"""Characters of a query."""
MAX_TOKENS = 10_000
MAX_STEPS = 64
"""Steps of one path."""
MAX_DEPTH = 100
"""Levels of nesting: as deep as recursive functions on the tree go without trouble."""
MAX_OPERATORS = 100
"""Operators of one chain of joins or one arithmetic expression: its tree leans to the left."""

_FORBIDDEN = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_TOKEN = re.compile(
    r"""--[^\n]*                                   # a comment
    | (?P<other>"[^"]*"|'[^']*'|Q\{[^{}]*\})
    | (?P<word>[^\W\d](?:[\w.']|-(?!>))*)
    | (?P<close></|/>|[)\]}])
    | (?P<slash>//?)
    | (?P<open>[(\[{]|<(?=[^\W\d]))
    | (?P<path>->|[@:.])
    | (?P<star>\*)
    | (?P<sign>[-+])
    | (?P<digits>\d+)
    | (?P<rest>[^\s>])""",
    re.VERBOSE,
)
LONGEST_WORD = 1_000
"""Characters of a name or a number."""
MOST_REPLACING = 32
"""Calls of `replace` and `tokenize`, which look for all matches of a regular expression."""
_REPLACING = frozenset({"replace", "tokenize"})
_RESTARTS = frozenset({"and", "or"})
_OPERATORS = frozenset({"not", "div", "mod", "join", "followed", "next", "fold"})

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
    """Brackets that do not match at the offset `at`; the outermost one begins at `opened`."""

    def __init__(self, message: str, at: int, opened: int) -> None:
        super().__init__(message)
        self.at = at
        self.opened = opened


class Lexeme(NamedTuple):
    """A word, sign, string or number of a text, or a whole bracket."""

    text: str
    span: Span


def closing(text: str, at: int, end: int) -> int:
    """Return the offset behind the bracket that closes the one at `at`; raises Unbalanced."""
    pending = [_CLOSES[text[at]]]  # also that of `(:`, which begins a comment elsewhere
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
    """Yield the lexemes in a span of a text, without space and comments.

    A bracket that a sign of `whole` opens is one lexeme, with all inside of it.
    """
    at = span.start
    while (found := LEXEME.match(text, at, span.end)) is not None:
        start = at
        at = closing(text, at, span.end) if found[0] in tuple(whole) else found.end()
        if found.lastgroup not in ("space", "comment"):
            yield Lexeme(text[start:at], Span(start, at))


class _BracketLexer(BasicLexer):
    """A lexer whose tokens of brackets and of steps of XPath end at the closing bracket."""

    def match(self, text: TextSlice[str], pos: int) -> tuple[str, str] | None:
        """Return the token at an offset, and its type; None if none fits."""
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
    # Lark's names of rules and states are tokens, which Python compares slowly.
    # Reading takes a third longer with tokens than with strings.
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

    `start` is the rule to begin with.  `shown` is the text with placeholders of the same length for
    what the grammar does not read.
    """
    at, end = (0, len(source)) if span is None else (span.start, span.end)
    try:
        return _lark().parse(TextSlice(shown or source, at, end), start=start)
    except Unbalanced as error:
        # A syntax error inside of the bracket says more than the bracket; the next call raises it.
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


# -- Admission -----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def admit(text: str) -> None:
    """Raise QueryError for a text that is over a limit or holds a forbidden character.

    Every reader of a query's text calls it first.
    """
    if len(text) > MAX_LENGTH:
        message = f"{len(text):,} characters, and {MAX_LENGTH:,} are allowed"
        raise _too_complex(text[:200], 0, message)
    found = _FORBIDDEN.search(text)
    if found is not None:
        message = f"the character U+{ord(found[0]):04X} cannot stand in a query"
        raise QueryError.at(found.start(), message, text)
    # Nearly all texts pass this test.  With a scan of each, registrations take 1.5 times as long.
    if not has_few_signs(text):
        _scan(text)


def has_few_signs(text: str) -> bool:
    """Return True if counts of some characters prove that a text is within the limits.

    An operator is a sign, or a word of at least three letters with something before the next one.
    A text within the bound of operators is too short to have an overlong word or too many tokens.
    """
    operators = sum(map(text.count, "+-*")) + (len(text) + 1) // 4
    return (
        operators <= MAX_OPERATORS
        and text.count("/") <= MAX_STEPS
        and sum(map(text.count, "([{<")) <= MAX_DEPTH
        and sum(map(text.count, _REPLACING)) <= MOST_REPLACING
    )


def _scan(text: str) -> None:
    """Raise at the first token that is over a limit.

    Each open bracket has the steps of its current path and the operators of
    its current expression; two words in a row (`x AND y`) begin a new path.
    """
    steps, operators, tokens, before = [0], [0], 0, ""
    before_word, calls = "", 0
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind is None:
            continue
        tokens += 1
        if kind == "slash":
            steps[-1] += 1
        elif kind == "open":
            steps.append(0)
            operators.append(0)
        elif kind == "close" and len(steps) > 1:
            del steps[-1], operators[-1]
        elif kind == "word":
            word = token[0].lower()
            if before in ("word", "close"):
                steps[-1] = 0
            operators[-1] = 0 if word in _RESTARTS else operators[-1] + (word in _OPERATORS)
        elif kind == "sign":
            steps[-1] = 0
            operators[-1] += 1
        elif kind == "star":
            operators[-1] += 1
        elif kind in ("rest", "digits"):
            steps[-1] = operators[-1] = 0
        calls += kind == "open" and before_word in _REPLACING
        before_word = token[0] if kind == "word" else ""
        message = _excess(len(steps) - 1, steps[-1], operators[-1], tokens)
        if kind in ("word", "digits") and len(token[0]) > LONGEST_WORD:
            message = f"a name or number of over {LONGEST_WORD:,} characters"
        if calls > MOST_REPLACING:
            message = f"over {MOST_REPLACING} calls of replace() and tokenize()"
        if message is not None:
            raise _too_complex(text, token.start(), message)
        before = kind


def _excess(depth: int, steps: int, operators: int, tokens: int) -> str | None:
    """Return the exceeded limit in words; None if there is none."""
    if depth > MAX_DEPTH:
        return f"nested deeper than {MAX_DEPTH} levels"
    if steps > MAX_STEPS:
        return f"a path of over {MAX_STEPS} steps"
    if operators > MAX_OPERATORS:
        return f"over {MAX_OPERATORS} operators in a row"
    if tokens > MAX_TOKENS:
        return f"over {MAX_TOKENS:,} words and signs"
    return None


def _too_complex(text: str, offset: int, message: str) -> QueryError:
    return TooComplex.at(offset, f"the query is too complex: {message}", text)
