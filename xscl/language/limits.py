"""Limits of a query's size, which are checked before it is parsed.

One pass over the tokens counts them, follows how deep they are nested, and
counts the steps of each path, so that a hostile text costs some milliseconds.
"""

from __future__ import annotations

import re
from functools import lru_cache

from xscl.errors import QueryError, TooComplex

MAX_LENGTH = 65_536
"""Characters of a query."""
MAX_TOKENS = 10_000
MAX_STEPS = 64
"""Steps of one path."""
MAX_DEPTH = 100
"""Levels of nesting: as deep as recursive functions on the tree go without trouble."""
MAX_OPERATORS = 100
"""Operators of one chain of joins or one arithmetic expression: its tree leans to the left."""

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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
"""Calls of functions that take a text apart by a regular expression."""
_REPLACING = frozenset({"replace", "tokenize"})
_RESTARTS = frozenset({"and", "or"})
_OPERATORS = frozenset({"not", "div", "mod", "join", "followed", "next", "fold"})


@lru_cache(maxsize=256)
def admit(text: str) -> None:
    """Raise for a text that is over a limit, or that holds what no text should.

    Whatever reads the text of a query in XSCL calls it first.
    """
    if len(text) > MAX_LENGTH:
        message = f"{len(text):,} characters, and {MAX_LENGTH:,} are allowed"
        raise _too_complex(text[:200], 0, message)
    found = _FORBIDDEN.search(text)
    if found is not None:
        message = f"the character U+{ord(found[0]):04X} cannot stand in a query"
        raise QueryError.at(found.start(), message, text)
    # Nearly all texts are such: registrations would take half as long again.
    if not has_few_signs(text):
        _scan(text)


def has_few_signs(text: str) -> bool:
    """Return True if a text is within the limits, judged by some of its characters alone.

    An operator is a sign, or a word of at least three letters with something before the next one.
    Within the bound of operators no text has a word that is too long, or too many tokens.
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
    """Return which limit is exceeded, if one is."""
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
