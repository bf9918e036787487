"""Expressions in text: OR, AND, NOT, comparisons, arithmetic, functions, names, literals.

Read by precedence, loosest first.  Comparisons may be chained: `a <= b <= c` is both.  Tests are
SQL's: `x IS [NOT] NULL`, `x [NOT] IN (a, b)`, `x [NOT] LIKE 'a%'`, `x [NOT] BETWEEN a AND b`.
So are the values `CASE WHEN c THEN x ELSE y END` and `COALESCE(x, y)`.  Their words remain names
where a name may stand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

from cep_core.algebra import expressions as ex
from cep_core.errors import AlgebraError, Extent, UnknownName
from cep_core.languages.reader import TokenReader, parameter
from cep_core.languages.tokens import LanguageToken

_POWERS = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}
_POINTS = "a number has digits before and after its point; attributes have no point before them"
CONSTANTS = {"TRUE": True, "FALSE": False, "NULL": None}


class NameScope(Protocol):
    """The resolution of names of attributes to expressions, such as columns."""

    def resolve(self, decorator: str | None, name: str, span: Extent) -> ex.Expression:
        """Return the value that a name denotes; the decorator is "1", "2", "" (for $.) or None."""


# None: no value of the language's own is next
Own: TypeAlias = Callable[[TokenReader], ex.Expression | None]


def is_attribute(scope: NameScope, token: LanguageToken) -> bool:
    """Return True if a token names an attribute in a scope, even if it is a keyword elsewhere."""
    try:
        scope.resolve(None, token.text, token.span)
    except AlgebraError:
        return False
    return True


def formula(reader: TokenReader, scope: NameScope, own: Own | None = None) -> ex.Expression:
    """Read an expression; ``own`` reads values of one language, and returns None at others."""
    return _Formula(reader, scope, own).disjunction()


def arguments(reader: TokenReader, scope: NameScope, own: Own | None = None) -> list[ex.Expression]:
    """Read expressions (`formula`) between commas; the closing parenthesis is not consumed."""
    return _Formula(reader, scope, own).arguments()


class _Formula:
    def __init__(self, reader: TokenReader, scope: NameScope, own: Own | None) -> None:
        self._reader = reader
        self._scope = scope
        self._own = own

    def disjunction(self) -> ex.Expression:
        items = self._beside("OR", self._conjunction)
        return items[0] if len(items) == 1 else ex.Or(tuple(items), span=items[0].span)

    def _conjunction(self) -> ex.Expression:
        items = self._beside("AND", self._negation)
        return items[0] if len(items) == 1 else ex.And(tuple(items), span=items[0].span)

    def _beside(self, between: str, read: Callable[[], ex.Expression]) -> list[ex.Expression]:
        """Return the expressions that ``read`` reads one by one, with `between` between them.

        Each begins at the same `depth` of the reader; afterwards that is the largest depth reached.
        """
        reader = self._reader
        before = deepest = reader.depth
        items = [read()]
        while (reader.token.word or reader.token.text) == between:
            reader.next()
            deepest, reader.depth = max(deepest, reader.depth), before
            items.append(read())
        reader.depth = max(deepest, reader.depth)
        return items

    def _negation(self) -> ex.Expression:
        token = self._reader.token
        if self._reader.take_word("NOT"):
            self._reader.deeper()
            return ex.Not(self._negation(), span=token.span)
        left = self._arithmetic(1)
        return self._test(left) if self._is_test() else self._compared(left)

    def _compared(self, left: ex.Expression) -> ex.Expression:
        """Read the comparisons behind an operand; without any, return the operand."""
        reader = self._reader
        found: list[ex.Expression] = []
        while reader.tokens[reader.at].text in ex.COMPARISONS:
            sign = reader.next()
            right = self._arithmetic(1)
            operator = cast(ex.ComparisonOperator, sign.text)
            self._require_values(sign, left, right)
            found.append(ex.Compare(operator, left, right, span=_between(left, right)))
            left = right
        if not found:
            return left
        return found[0] if len(found) == 1 else ex.And(tuple(found), span=found[0].span)

    def _require_values(self, sign: LanguageToken, *operands: ex.Expression) -> None:
        """Raise QueryError if NULL is compared: no comparison with it holds."""
        for operand in operands:
            if operand == _NULL:
                negated = "NOT " if sign.text == "!=" else ""
                message = "a comparison with NULL never holds"
                hint = f"write IS {negated}NULL"
                raise self._reader.fault(message, operand.span or sign.span, hint)

    def _is_test(self) -> bool:
        """Return True if IS, IN, LIKE or BETWEEN is next, with NOT or without."""
        tokens, at = self._reader.tokens, self._reader.at
        word = tokens[at].word
        return word in _TESTS or (word == "NOT" and tokens[at + 1].word in _TESTS[1:])

    def _test(self, left: ex.Expression) -> ex.Expression:
        """Read IS [NOT] NULL, or [NOT] IN, LIKE, BETWEEN, which are false for a null."""
        reader = self._reader
        negated = reader.take_word("NOT")
        word = reader.next()
        reader.deeper()
        match word.word:
            case "IS":
                negated = reader.take_word("NOT")
                end = reader.expect_word("NULL", "NULL or NOT NULL")
                made: ex.Expression = ex.IsNull(left, span=_until(left, end))
                return ex.Not(made, span=made.span) if negated else made
            case "IN":
                reader.expect_sign("(", " and the values")
                values = reader.listed(lambda: self._arithmetic(1))
                span: Extent | None = _until(left, reader.expect_sign(")", " or a comma"))
                self._require_values(word, *values)
                sign: ex.ComparisonOperator = "!=" if negated else "="
                items = tuple([ex.Compare(sign, left, value, span=span) for value in values])
                return (
                    items[0] if not items[1:] else (ex.And if negated else ex.Or)(items, span=span)
                )
            case "BETWEEN":
                least = self._arithmetic(1)
                reader.expect_word("AND", "AND and the greatest value")
                most = self._arithmetic(1)
                self._require_values(word, least, most)
                span = _between(left, most)
                below: ex.ComparisonOperator = "<" if negated else ">="
                above: ex.ComparisonOperator = ">" if negated else "<="
                ends = (
                    ex.Compare(below, left, least, span=span),
                    ex.Compare(above, left, most, span=span),
                )
                return (ex.Or if negated else ex.And)(ends, span=span)
            case _:
                pattern = self._arithmetic(1)
                self._require_values(word, pattern)
                call = ex.Call("like", (left, pattern), span=_between(left, pattern))
                return ex.Compare("=", call, ex.FALSE, span=call.span) if negated else call

    def _arithmetic(self, least: int) -> ex.Expression:
        """Read operators that bind at least as tightly as ``least``: 1 for sums, 2 for products."""
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
            operator = cast(ex.ArithmeticOperator, text)
            left = ex.Arithmetic(operator, left, right, span=_between(left, right))

    def _signed(self) -> ex.Expression:
        reader = self._reader
        token = reader.tokens[reader.at]
        if token.text != "-":
            return self._atom()
        reader.next()
        reader.deeper()
        return ex.Negative(self._signed(), span=token.span)

    def _atom(self) -> ex.Expression:
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
            name = reader.nested(name)
            span = Extent(token.start, name.end)
            return self._scope.resolve(token.text[1:-1], name.text, span)
        if reader.take_sign("("):
            reader.deeper()
            inner = self.disjunction()
            reader.expect_sign(")")
            return inner
        if reader.is_sign("."):
            message = "this point belongs to nothing"
            raise reader.fault(message, token.span, _POINTS)
        if token.kind != "name":
            raise reader.expected("a value")
        if token.word in _NOT_NAMES and not is_attribute(self._scope, token):
            raise reader.expected("a value")
        reader.next()
        if token.word == "CASE" and reader.is_word("WHEN"):
            return self._case(token)
        if reader.is_sign("("):
            return self._call(token)
        word = token.word
        if word in CONSTANTS:
            return ex.Constant(CONSTANTS[word], span=token.span)
        if word == "DUR":
            return ex.Duration(span=token.span)
        return self._attribute(token, reader.nested(token))

    def _attribute(self, first: LanguageToken, token: LanguageToken) -> ex.Expression:
        """Return the attribute that a token names; ``first`` is its part before the point.

        If `x.y` is unknown, the hint of the error has other ways to write y.
        """
        try:
            return self._scope.resolve(None, token.text, token.span)
        except AlgebraError as error:
            last = token.text[len(first.text) + 1 :]
            if last and error.kind is UnknownName:
                error.message = f"there is no attribute {first.text}.{last}"
                ways = self._ways(last, token.span)
                error.hint = f"write {' or '.join(ways)}" if ways else error.hint
            raise

    def _ways(self, name: str, span: Extent) -> list[str]:
        """Return the known spellings of attribute x of a stream: x_1 and x, or $1.x and $2.x."""

        def is_known(decorator: str | None, name: str) -> bool:
            try:
                self._scope.resolve(decorator, name, span)
            except AlgebraError:
                return False
            return True

        plain = [one for one in (f"{name}_1", name) if is_known(None, one)]
        return plain or [f"${side}.{name}" for side in "12" if is_known(side, name)]

    def _case(self, start: LanguageToken) -> ex.Expression:
        """Read WHEN condition THEN value .. [ELSE value] END behind CASE, the token ``start``."""
        reader = self._reader
        reader.deeper()
        items: list[ex.Expression] = []
        while reader.take_word("WHEN"):
            reader.require_few(len(items) + 2)
            items.append(self.disjunction())
            reader.expect_word("THEN", "THEN and a value")
            items.append(self.disjunction())
        items.append(self.disjunction() if reader.take_word("ELSE") else _NULL)
        end = reader.expect_word("END", "WHEN, ELSE or END")
        return ex.Case(tuple(items), span=Extent(start.start, end.end))

    def _call(self, name: LanguageToken) -> ex.Expression:
        reader = self._reader
        reader.expect_sign("(")
        reader.deeper()
        arguments = self.arguments()
        end = reader.expect_sign(")")
        if name.word == "COALESCE" and arguments:
            return ex.Coalesce(tuple(arguments), span=Extent(name.start, end.end))
        return ex.Call(name.text, tuple(arguments), span=Extent(name.start, end.end))

    def arguments(self) -> list[ex.Expression]:
        """Read what stands between the parentheses of a call."""
        if self._reader.is_sign(")"):
            return []
        return self._beside(",", self.disjunction)


_NULL = ex.Constant(None)
_TESTS = ("IS", "IN", "LIKE", "BETWEEN")
_NOT_NAMES = ("AND", "OR", "AS", "FROM", "SELECT", "PUBLISH", "NEXT", "FOLD", "JOIN", "UNION")


def _until(left: ex.Expression, end: LanguageToken) -> Extent:
    return Extent(left.span.start if left.span else end.start, end.end)


def _between(left: ex.Expression, right: ex.Expression) -> Extent | None:
    if left.span is None or right.span is None:
        return None
    return Extent(left.span.start, right.span.end)
