"""Expressions in text: OR, AND, NOT, comparisons, arithmetic, functions, names, literals.

Read by precedence, loosest first.  Comparisons may be chained: `a <= b <= c` is both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
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
    Parameter,
)
from cep_core.errors import QueryError, Span
from cep_core.languages.tokens import Token

MOST = 100  # operators and parentheses that may be inside one another, in one expression
MOST_ITEMS = 1_000  # of a list, such as that of SELECT: several passes compare each with all
_OPERATORS: dict[str, Literal["+", "-", "*", "/", "%"]] = {
    "+": "+",
    "-": "-",
    "*": "*",
    "/": "/",
    "%": "%",
}
_POWERS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


class Scope(Protocol):
    """The resolution of names."""

    def resolve(self, decorator: str | None, name: str, span: Span) -> Expression:
        """Resolve a name; the decorator is "1", "2", "" (for $.) or None."""


class Aggregates(Protocol):
    """Calls that aggregate: their arguments have another scope."""

    @property
    def inside(self) -> Scope:
        """The scope of their arguments."""

    def takes(self, name: Token) -> bool:
        """Return True if a function is an aggregate."""

    def made(self, name: Token, arguments: list[Expression] | None) -> Expression:
        """Return the expression of the call; ``arguments`` is None for COUNT(*)."""


class TokenReader:
    """A position in a sequence of tokens; the last token stands for what comes after."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def is_word(self, *words: str) -> bool:
        """Return True if one of the keywords is next."""
        return self.tokens[self.at].word in words

    def is_sign(self, *signs: str) -> bool:
        """Return True if one of the signs is next."""
        token = self.tokens[self.at]
        return token.text in signs and token.kind == "sign"

    def next(self) -> Token:
        """Return the next token and go on."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def take_word(self, word: str) -> bool:
        """Consume a keyword if it is next; return True if so."""
        if self.tokens[self.at].word == word:
            self.at += 1
            return True
        return False

    def take_sign(self, sign: str) -> bool:
        """Consume a sign if it is next; return True if so."""
        token = self.tokens[self.at]
        if token.text == sign and token.kind == "sign":
            self.at += 1
            return True
        return False

    def expect_sign(self, sign: str, why: str = "") -> Token:
        """Consume a sign; raise QueryError if another token is next."""
        if not self.is_sign(sign):
            raise self.expected(f"{sign!r}{why}")
        return self.next()

    def expect_name(self, what: str, keywords: Collection[str]) -> Token:
        """Consume a name that is no keyword; raise QueryError if another token is next."""
        if self.token.kind != "name" or self.token.word in keywords:
            raise self.expected(what)
        return self.next()

    def expect_end(self, what: str) -> None:
        """Raise QueryError unless the tokens are at their end."""
        if self.token.kind != "end":
            raise self.expected(what)

    def expected(self, what: str, hint: str | None = None) -> QueryError:
        """Return the error for something else than expected."""
        shown = repr(self.token.text) if self.token.text else "the end"
        return self.fault(f"{what} is expected here, not {shown}", self.token.span, hint)

    def fault(self, message: str, span: Span, hint: str | None = None) -> QueryError:
        """Return an error at a place."""
        return QueryError(message, self.text, span, hint=hint)

    def require_ticks(self, token: Token, hint: str) -> None:
        """Raise QueryError if a window has no tick."""
        if not token.value:
            raise self.fault("a window has at least 1 tick, not 0", token.span, hint)

    def require_few(self, items: int) -> None:
        """Raise QueryError if a list has grown too long."""
        if items > MOST_ITEMS:
            raise self.fault(f"a list has at most {MOST_ITEMS} items", self.token.span)

    def deeper(self) -> None:
        """Count an operator or parenthesis: what is nested deeper than they are many is no more."""
        self.depth += 1
        if self.depth > MOST:
            message = f"there are more than {MOST} operators and parentheses inside one another"
            raise self.fault(message, self.token.span)


def formula(
    reader: TokenReader, scope: Scope, aggregates: Aggregates | None = None, own: Own | None = None
) -> Expression:
    """Read an expression."""
    return _Formula(reader, scope, aggregates, own).disjunction()


Own: TypeAlias = Callable[[TokenReader], Expression | None]  # reads what only one language has


class _Formula:
    def __init__(
        self,
        reader: TokenReader,
        scope: Scope,
        aggregates: Aggregates | None,
        own: Own | None = None,
    ) -> None:
        self._reader = reader
        self._scope = scope
        self._aggregates = aggregates
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
            left = Arithmetic(_OPERATORS[text], left, right, span=_between(left, right))

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
            return Parameter(token.literal, type(token.value), span=token.span)
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
        reader, aggregates = self._reader, self._aggregates
        reader.expect_sign("(")
        reader.deeper()
        if aggregates is None or not aggregates.takes(name):
            arguments = self._arguments()
            end = reader.expect_sign(")")
            return Call(name.text, tuple(arguments), span=Span(name.start, end.end))
        if name.word == "COUNT" and reader.take_sign("*"):
            made = aggregates.made(name, None)
        else:
            inner = _Formula(reader, aggregates.inside, None)
            made = aggregates.made(name, inner._arguments())
        reader.expect_sign(")")
        return made

    def _arguments(self) -> list[Expression]:
        if self._reader.is_sign(")"):
            return []
        return self._beside(self.disjunction, lambda: self._reader.take_sign(","))


_NOT_NAMES = ("AND", "OR", "AS", "FROM", "SELECT", "PUBLISH", "NEXT", "FOLD", "JOIN", "UNION")


def _between(left: Expression, right: Expression) -> Span | None:
    if left.span is None or right.span is None:
        return None
    return Span(left.span.start, right.span.end)
