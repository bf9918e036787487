"""The pattern behind FROM with quantifiers, marks, AND, absences: what makes it one, its operands.

Components, quantifiers and marks are read as those of SASE; between them is `;`, and the name of an
event stands before its quantifier.
"""

from __future__ import annotations

from typing import ClassVar, get_args

from cep_core.algebra.pattern_tree import Mark, Pace, Tree
from cep_core.languages.cel.cel import Catalog
from cep_core.languages.reader import TokenReader
from cep_core.languages.sase.components import ComponentReader, Pattern
from cep_core.languages.tokens import Token

_SIGNS = ("?", "*", "!")
_MARKS = tuple(mark.upper() for mark in get_args(Mark))
_MANNERS = (*_MARKS, *(pace.upper() for pace in get_args(Pace)))
_BEFORE = (";", "|", "(")
_REFUSED = {
    "\\": "write what may not be between two events as a part of its own: A ; !u Z ; B",
    "@": "write it in a query of its own with PUBLISH, and read the stream that it makes",
}


class OperandReader(ComponentReader):
    """Reads the pattern of a query, whose parts are separated by `;`."""

    separator: ClassVar[str] = ";"
    names_first: ClassVar[bool] = True
    article: ClassVar[str] = "a"
    noun: ClassVar[str] = "stream"

    def pattern(self) -> Pattern:
        """Read sequences, with | between them."""
        return self._whole(self._alternatives())

    def _component(self, mark: Mark | None) -> Tree:
        found = ComponentReader._component(self, mark)
        token = self.reader.token
        if token.kind == "sign" and token.text in _REFUSED:
            message = f"a pattern with quantifiers, marks, AND, ! or a policy has no {token.text}"
            raise self.reader.fault(message, token.span, _REFUSED[token.text])
        return found


def is_pattern(reader: TokenReader, catalog: Catalog) -> bool:
    """Return True if a construct of patterns is behind FROM, which was read, or a clause of them.

    The operators of NEXT CEP compute all other queries.
    """
    inside = True  # before WHERE
    tokens = [reader.tokens[reader.at - 1], *reader.tokens[reader.at :]]
    for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
        inside = inside and token.word not in ("WHERE", "PUBLISH")
        if inside and _is_construct(before, token, after, reader, catalog):
            return True
        within = token.word == "WITHIN" and before.word != "OCCURS"
        if within or (token.word == "AFTER" and after.word == "MATCH"):
            return True
    return False


def _is_construct(
    before: Token, token: Token, after: Token, reader: TokenReader, catalog: Catalog
) -> bool:
    """Return True at a quantifier but +, a mark, a pace, AND, ANY, an absence or NONSTRICT."""
    if token.kind == "sign":
        return token.text in _SIGNS
    if token.kind == "verbatim":
        return token.text.startswith("{")
    named = after.kind == "calendar" or (after.kind == "name" and after.word not in reader.keywords)
    match token.word:
        case "AND" | "OR":
            return True
        case "ANY" if after.text == "(":
            return True
        case "UNTIL":
            return named
        case "NONSTRICT":
            return before.text not in _BEFORE and before.word != "FROM" and not named
        case _:
            pass
    if before.text == "+":
        return token.word in _MANNERS
    opens = before.text in _BEFORE or before.word == "FROM"
    marks = token.word in _MARKS and (named or after.text == "(")
    return opens and marks and catalog.schema(token.text) is None
