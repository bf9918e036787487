"""Expressions in text: OR, AND, NOT, comparisons, arithmetic, functions, names, literals.

Read by precedence, loosest first.  Comparisons may be chained: `a <= b <= c` is both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias, cast

from cep_core.algebra.expressions import (
    COMPARISONS,
    And,
    Arithmetic,
    Call,
    Compare,
    Comparison,
    Constant,
    Duration,
    Expression,
    Negative,
    Not,
    Or,
)
from cep_core.errors import Span
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.tokens import Token

Operator: TypeAlias = Literal["+", "-", "*", "/", "%"]
_POWERS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


class Scope(Protocol):
    """The resolution of names."""

    def resolve(self, decorator: str | None, name: str, span: Span) -> Expression:
        """Resolve a name; the decorator is "1", "2", "" (for $.) or None."""


Own: TypeAlias = Callable[[TokenReader], Expression | None]  # reads what only one language has


def formula(reader: TokenReader, scope: Scope, own: Own | None = None) -> Expression:
    """Read an expression; ``own`` returns None where nothing of its language stands."""
    return _Formula(reader, scope, own).disjunction()


def arguments(reader: TokenReader, scope: Scope) -> list[Expression]:
    """Read expressions between commas, up to a closing parenthesis that is not consumed."""
    return _Formula(reader, scope, None).arguments()


class _Formula:
    def __init__(self, reader: TokenReader, scope: Scope, own: Own | None) -> None:
        self._reader = reader
        self._scope = scope
        self._own = own

    def disjunction(self) -> Expression:
        items = self._beside(self._conjunction, lambda: self._reader.take_word("OR"))
        return items[0] if len(items) == 1 else Or(tuple(items), span=items[0].span)

    def _conjunction(self) -> Expression:
        items = self._beside(self._negation, lambda: self._reader.take_word("AND"))
        return items[0] if len(items) == 1 else And(tuple(items), span=items[0].span)

    def _beside(
        self, read: Callable[[], Expression], goes_on: Callable[[], bool]
    ) -> list[Expression]:
        """Read expressions that are beside one another, not nested: the deepest counts."""
        reader = self._reader
        before = deepest = reader.depth
        items = [read()]
        while goes_on():
            deepest, reader.depth = max(deepest, reader.depth), before
            items.append(read())
        reader.depth = max(deepest, reader.depth)
        return items

    def _negation(self) -> Expression:
        token = self._reader.token
        if not self._reader.take_word("NOT"):
            return self._comparison()
        span = token.span
        self._reader.deeper()
        item = self._negation()
        return Not(item, span=span)

    def _comparison(self) -> Expression:
        reader = self._reader
        left = self._arithmetic(1)
        found: list[Expression] = []
        while reader.tokens[reader.at].text in COMPARISONS:
            sign = reader.next()
            right = self._arithmetic(1)
            operator = cast(Comparison, sign.text)
            found.append(Compare(operator, left, right, span=_between(left, right)))
            left = right
        if not found:
            return left
        return found[0] if len(found) == 1 else And(tuple(found), span=found[0].span)

    def _arithmetic(self, least: int) -> Expression:
        """Read what binds at least so tightly: 1 for sums, 2 for products."""
        reader = self._reader
        left = self._signed()
        while True:
            text = reader.tokens[reader.at].text
            power = _POWERS.get(text, 0)
            if power < least:
                return left
            reader.next()
            reader.deeper()
            right = self._arithmetic(power + 1)
            operator = cast(Operator, text)
            left = Arithmetic(operator, left, right, span=_between(left, right))

    def _signed(self) -> Expression:
        reader = self._reader
        token = reader.tokens[reader.at]
        if token.text != "-":
            return self._atom()
        reader.next()
        reader.deeper()
        return Negative(self._signed(), span=token.span)

    def _atom(self) -> Expression:
        reader = self._reader
        found = None if self._own is None else self._own(reader)
        if found is not None:
            return found
        token = reader.token
        if token.kind == "literal":
            reader.next()
            return parameter(token)
        if token.kind == "decorator":
            reader.next()
            name = reader.token
            if name.kind != "name":
                raise reader.expected(f"an attribute after {token.text}")
            reader.next()
            span = Span(token.start, name.end)
            return self._scope.resolve(token.text[1:-1], name.text, span)
        if reader.take_sign("("):
            reader.deeper()
            inner = self.disjunction()
            reader.expect_sign(")")
            return inner
        if token.kind != "name" or token.word in _NOT_NAMES:
            raise reader.expected("a value")
        reader.next()
        if reader.is_sign("("):
            return self._call(token)
        word = token.word
        if word in _WORDS:
            return Constant(_WORDS[word], span=token.span)
        if word == "DUR":
            return Duration(span=token.span)
        return self._scope.resolve(None, token.text, token.span)

    def _call(self, name: Token) -> Expression:
        reader = self._reader
        reader.expect_sign("(")
        reader.deeper()
        arguments = self.arguments()
        end = reader.expect_sign(")")
        return Call(name.text, tuple(arguments), span=Span(name.start, end.end))

    def arguments(self) -> list[Expression]:
        """Read what stands between the parentheses of a call."""
        if self._reader.is_sign(")"):
            return []
        return self._beside(self.disjunction, lambda: self._reader.take_sign(","))


_NOT_NAMES = ("AND", "OR", "AS", "FROM", "SELECT", "PUBLISH", "NEXT", "FOLD", "JOIN", "UNION")


def _between(left: Expression, right: Expression) -> Span | None:
    if left.span is None or right.span is None:
        return None
    return Span(left.span.start, right.span.end)
