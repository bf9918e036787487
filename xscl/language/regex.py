"""Regular expressions of XPath on RE2, which takes time linear in the text.

The syntax is that of XPath 3.1 (Functions and Operators, section 5.6): XML Schema's with anchors,
reluctant quantifiers and groups without capture.  Its classes are by Unicode, `.` is neither of the
line ends, and `$` is the end of the text.  Back-references and class subtraction are refused: no
automaton of bounded size has them.

A *factor* is a literal text that each match contains.  An index finds the expressions that may
match a text by their factors (`xscl.shredding.conditions.constants`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from cep_core.algebra.function_bounds import current_budget, expect_length

FLAGS = "smixq"
LONGEST = 1_000
"""Characters of an expression."""
LARGEST = 1 << 18
"""Bytes of a compiled expression, and of the states that a search makes."""
_LATER_NAMES = (
    r"\x{200C}\x{200D}\x{2070}-\x{218F}\x{2C00}-\x{2FEF}\x{3001}-\x{D7FF}\x{F900}-\x{FDCF}"
    r"\x{FDF0}-\x{FFFD}\x{10000}-\x{EFFFF}"
)
"""Characters of names from U+2000 on, as XML 1.0 has them."""
_ESCAPES = {
    "d": r"\p{Nd}",
    "D": r"\P{Nd}",
    "s": r" \t\n\r",
    "i": r":A-Z_a-z\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{2FF}\x{370}-\x{37D}\x{37F}-\x{1FFF}"
    + _LATER_NAMES,
    "c": r":\-.0-9A-Z_a-z\x{B7}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{37D}\x{37F}-\x{1FFF}"
    + r"\x{203F}-\x{2040}"
    + _LATER_NAMES,
}
_OUTSIDE = {
    "S": r"[^ \t\n\r]",
    "w": r"[^\p{P}\p{Z}\p{C}]",
    "W": r"[\p{P}\p{Z}\p{C}]",
    "I": f"[^{_ESCAPES['i']}]",
    "C": f"[^{_ESCAPES['c']}]",
}
_INSIDE = {"w": r"\p{L}\p{M}\p{N}\p{S}", "W": r"\p{P}\p{Z}\p{C}", "S": r"\x21-\x{10FFFF}\x00-\x08"}
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
_CASED = re.compile(r"\\[pP]\{(L[ult]|Mn?)\}")
"""Categories with a letter whose other case is not in them; with the flag i RE2 would add that."""
_LITERAL = r"\|.-^?*+{}()[]$"
_SIGNS = "\\|.^?*+{}()[]$"
"""Characters that stand for themselves behind a `\\` only."""


class WrongExpression(ValueError):
    """An expression that XPath or RE2 does not know: the reason, and the mistake's offset `at`."""

    def __init__(self, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint


class RegularExpression(NamedTuple):
    """A compiled expression: whether it matches somewhere in a text, and its factor, casefolded.

    Case folding maps characters one by one, so the folded text of a match contains the factor.

    `compiled` is RE2's object.
    """

    compiled: Any
    factor: str

    def within(self, text: str) -> bool:
        """Return True if the expression matches a part of a text."""
        return self.within_bytes(text.encode())

    def within_bytes(self, text: bytes) -> bool:
        """Return True if the expression matches a part of a text in UTF-8.

        A search in bytes takes 1.7 µs, one in a `str` 5.0: re2 counts the characters before and in
        the match then.
        """
        return self.compiled.search(text) is not None


@lru_cache(maxsize=20_000)
def expression(pattern: str, flags: str = "") -> RegularExpression:
    """Return a compiled expression; raises WrongExpression."""
    import re2  # C++: loaded with the first expression

    unknown = [flag for flag in flags if flag not in FLAGS]
    if unknown:
        raise WrongExpression(f"unknown flag {unknown[0]!r}", 0, "flags are s, m, i, x and q")
    if len(pattern) > LONGEST:
        raise WrongExpression(f"over {LONGEST:,} characters", 0, "use several conditions")
    options = re2.Options()
    options.max_mem = LARGEST
    options.log_errors = False
    options.case_sensitive = "i" not in flags
    options.never_capture = False
    read = _Translation(pattern, flags)
    text = read.text()
    modes = "".join(flag for flag in "sm" if flag in flags)
    try:
        compiled = re2.compile(f"(?{modes}){text}" if modes else text, options)
    except re2.error as error:
        raise WrongExpression(_reason(error), 0, "RE2 does not take it") from None
    return RegularExpression(compiled, read.factor)


def _reason(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)


def replacer(pattern: str, replacement: str, flags: str = "") -> Callable[[str], str]:
    """Return the function that replaces each match, as fn:replace does; raises WrongExpression.

    The function raises BeyondBounds.
    """
    found = expression(pattern, flags).compiled
    if found.search("") is not None:
        raise WrongExpression("the expression matches the empty text", 0)
    parts = [
        part.encode() if isinstance(part, str) else part
        for part in _replacement(replacement, found.groups)
    ]

    def replaced(text: str) -> str:
        data = text.encode()
        made: list[bytes] = []
        size, end = 0, 0
        for match in _matches(found, pattern, data):
            start, after = match.span()
            new = [part if isinstance(part, bytes) else match[part] or b"" for part in parts]
            made += (data[end:start], *new)
            size += start - end + sum(map(len, new))
            expect_length(size, len(data))
            end = after
        expect_length(size + len(data) - end, len(data))
        return b"".join((*made, data[end:])).decode()

    return replaced


_LOOKS_FAR = re.compile(r"[*+{].*[^?)]", re.DOTALL)
"""An expression that may read far beyond a match: it repeats something before its end."""
_FAR = 2_048
"""Bytes of a text that count as a step for each match of an expression that looks far."""


def _matches(compiled: Any, pattern: str, data: bytes) -> Iterator[Any]:
    """Yield the matches in a text in UTF-8; raises BeyondBounds.

    RE2 finds one match in linear time.  All matches take quadratic time if each search reads to the
    end of the text, as that of `a(.*b)?` does.
    """
    budget = current_budget()
    steps = 1 + (len(data) // _FAR if _LOOKS_FAR.search(pattern) else 0)
    for match in compiled.finditer(data):
        budget.spend(steps)
        yield match


_SPECIAL = frozenset("\\.^$|?*+()[]{}")


def pieces(text: str, pattern: str, flags: str = "") -> list[str]:
    """Return the parts of a text between matches, as fn:tokenize does."""
    if not text:
        return []
    if pattern and not flags and _SPECIAL.isdisjoint(pattern):
        current_budget().spend(text.count(pattern))
        return text.split(pattern)
    data = text.encode()
    places = [
        match.span() for match in _matches(expression(pattern, flags).compiled, pattern, data)
    ]
    starts = [0, *(end for _, end in places)]
    ends = [*(start for start, _ in places), len(data)]
    return [data[start:end].decode() for start, end in zip(starts, ends, strict=True)]


_PART = re.compile(r"\\([\\$])|\$([0-9])|([\\$])|[^\\$]+")


def _replacement(text: str, groups: int) -> Iterator[str | int]:
    """Yield the parts of a replacement in order: texts, and for `$n` the number n of a group.

    A group above `groups` is the empty text.  Raises WrongExpression for a single `$` or backslash.
    """
    for found in _PART.finditer(text):
        escaped, group, single = found.groups()
        if single:
            message = f"a single {single} in the replacement"
            raise WrongExpression(message, found.start(), "write \\\\ or \\$")
        if group:
            yield int(group) if int(group) <= groups else ""
        else:
            yield escaped or found[0]


_PIECE = re.compile(r"\(\?:|\\[pP]\{[^}]*\}|\\.|.", re.DOTALL)
_QUANTIFIER = re.compile(r"(?:[?*+]|\{\d+(?:,\d*)?\})\??", re.ASCII)
_SPACES = " \t\n\r"


class _Translation:
    """Translates one expression of XPath to RE2's syntax, from left to right."""

    def __init__(self, pattern: str, flags: str) -> None:
        self._pattern = pattern
        self._quoted = "q" in flags
        self._spaced = "x" in flags and not self._quoted
        self._any = "s" in flags
        self._folded = "i" in flags
        self._at = 0
        self._run = ""  # literal characters so far that every match contains, side by side
        self._depth = 0
        self.factor = ""

    def text(self) -> str:
        """Translate the expression and return it in RE2's syntax; sets `factor`."""
        if self._quoted:
            self.factor = self._pattern.casefold()
            return "".join(map(_escaped, self._pattern))
        out: list[str] = []
        alternatives = False
        while self._at < len(self._pattern):
            piece = self._next("")
            alternatives |= piece == "|" and not self._depth
            out.append(self._translated(piece))
        self._cut()
        if self._depth:
            raise WrongExpression("a '(' is not closed", len(self._pattern))
        if alternatives:
            self.factor = ""
        return "".join(out)

    def _next(self, otherwise: str) -> str:
        """Read a character, escape or begin of a group; raise `otherwise` if there is none."""
        found = _PIECE.match(self._pattern, self._at)
        if found is None:
            raise WrongExpression(otherwise, self._at)
        self._at = found.end()
        return found[0]

    def _cut(self) -> None:
        """End the current run of literal characters; `factor` is the longest run so far."""
        if len(self._run) > len(self.factor):
            self.factor = self._run
        self._run = ""

    def _translated(self, piece: str) -> str:
        literal = self._literal(piece)
        if literal is not None:
            quantifier = self._quantifier()
            if quantifier:
                self._cut()
            elif not self._depth:
                self._run += literal.casefold()
            return _escaped(literal) + quantifier
        if self._spaced and piece in _SPACES:
            return ""
        self._cut()
        start = self._at - len(piece)
        match piece:
            case "(" | "(?:":
                if piece == "(" and self._pattern.startswith("?", self._at):
                    raise WrongExpression("'(?' is only (?:...) in XPath", start)
                self._depth += 1
                return piece
            case ")":
                if not self._depth:
                    raise WrongExpression("a ')' without its '('", start)
                self._depth -= 1
                return ")" + self._quantifier()
            case "|" | "^" | "$":
                return piece
            case "[":
                return self._class() + self._quantifier()
            case ".":
                return ("." if self._any else r"[^\n\r]") + self._quantifier()
            case "*" | "+" | "?" | "{" | "}" | "]":
                raise WrongExpression(f"{piece!r} stands where a character is expected", start)
            case _:
                members = self._members(piece, _OUTSIDE)
                if piece[1] in _ESCAPES:
                    members = f"[{members}]"
                # A class of an escape distinguishes upper and lower case even with the flag i.
                members = f"(?-i:{members})" if self._folded else members
                return members + self._quantifier()

    def _literal(self, piece: str) -> str | None:
        """Return the character that a piece stands for; None if it is no character."""
        if len(piece) == 1:
            spaced = self._spaced and piece in _SPACES
            return None if spaced or piece in _SIGNS else piece
        return _CONTROLS.get(piece[1:], piece[1] if piece[1:] in [*_LITERAL] else None)

    def _members(self, escape: str, others: Mapping[str, str]) -> str:
        """Return the class of characters that an escape stands for, in RE2's syntax.

        `others` maps the letters of escapes to classes, and takes precedence over `_ESCAPES`.
        Raises WrongExpression for an escape that is in neither, and for a back-reference.
        """
        sign = escape[1:2]
        if not sign:
            raise WrongExpression("a '\\' ends the expression", self._at)
        if sign in "pP":
            if len(escape) == 2:
                raise WrongExpression(f"{escape} needs a category in braces", self._at)
            if escape[3:].startswith("Is"):
                hint = "name a category, such as \\p{L}, or a range"
                at = self._at - len(escape) + 2
                raise WrongExpression(f"the block {escape[3:-1]} is not supported", at, hint)
            return escape
        found = others.get(sign) or _ESCAPES.get(sign)
        if found is None and sign.isdigit():
            hint = "RE2 compares no part of a text with another"
            raise WrongExpression(f"the back-reference {escape} is not supported", self._at, hint)
        if found is None:
            raise WrongExpression(f"unknown escape {escape}", self._at)
        return found

    def _class(self) -> str:
        """Read a class behind its `[`; return it in RE2's syntax."""
        start = self._at - 1
        out = ["["]
        if self._pattern.startswith("^", self._at):
            self._at += 1
            out.append("^")
        while True:
            piece = self._next("a '[' is not closed")
            if piece == "]" and len(out) > 1 and out != ["[", "^"]:
                return "".join((*out, "]"))
            if piece == "-" and self._pattern.startswith("[", self._at):
                hint = "write the ranges that remain"
                raise WrongExpression("a class without another is not supported", start, hint)
            if piece in ("[", "]"):
                raise WrongExpression(f"a '{piece}' in a class needs a '\\'", self._at - 1)
            if not (self._spaced and piece in _SPACES):
                out.append(self._member(piece))

    def _member(self, piece: str) -> str:
        """Return `piece`, which is a member of a class, in RE2's syntax."""
        if piece == "-":
            before, after = self._pattern[self._at - 2], self._pattern[self._at : self._at + 1]
            return r"\-" if before in "[^" or after == "]" else "-"
        if not piece.startswith("\\"):
            return "".join(map(_escaped, piece))
        literal = self._literal(piece)
        if literal is not None:
            return _escaped(literal)
        if self._folded and _CASED.fullmatch(piece):
            hint = "write it outside of the brackets"
            raise WrongExpression(f"{piece} in a class with the flag i", self._at, hint)
        return self._members(piece, _INSIDE)

    def _quantifier(self) -> str:
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
            return found[0]
        if self._pattern.startswith("{", self._at):
            raise WrongExpression("a '{' needs a number and a '}'", self._at)
        return ""


def _escaped(sign: str) -> str:
    """Return a literal character as RE2 spells it."""
    if sign in "\n\r\t" or sign == "\0":
        return f"\\x{{{ord(sign):X}}}"
    return f"\\{sign}" if sign in _LITERAL or sign == "-" else sign
