"""Decimals: exact numbers of at most 20 digits before the point and 18 after it.

A text is in *decimal form* if it says such a number by digits, perhaps with a sign and a point:
`12`, `-0.50`, `.5`; zeros before and behind do not count.  Sums, differences and products of
decimals are decimals.  A product or a quotient of more than 18 digits after the point is rounded to
these, half to even.  A result beyond 20 digits before the point is a double (`float`), and so is
what a decimal makes with a double.

All numbers have one order, in which a double is the decimal that it prints as (0.1 is 0.1).  Among
doubles alone and among whole numbers alone it is their usual order, so a decimal can be looked up
in sorted doubles and whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from math import inf
from operator import add, mod, mul, sub, truediv
from typing import Any, TypeAlias

DIGITS_BEFORE, DIGITS_AFTER = 20, 18
_FORM = re.compile(r"[+-]?(?=\.?[0-9])0*[0-9]{0,20}(?:\.[0-9]{0,18}0*)?")
_LIMIT = Decimal(10**DIGITS_BEFORE)
_LOWEST = _LIMIT.copy_negate()
_UNIT = Decimal(1).scaleb(-DIGITS_AFTER)
_ZERO = Decimal(0).quantize(_UNIT)
# A product of two decimals is exact in 76 digits.  A quotient below 10 ** 20 has 58 digits or more
# after its point.  So it rounds right: it is midway between decimals, or 10 ** -57 from any midway.
CONTEXT = Context(prec=80, rounding=ROUND_HALF_EVEN, Emin=-9_999, Emax=9_999)
"""The context of exact arithmetic on decimals; the context of the thread is not used."""


class BoundedDecimal(Decimal):
    """A decimal, which is a multiple of 10 ** -18 below 10 ** 20 in size.

    The constructor takes a number or a text and rounds it.  It raises ValueError beyond the bound
    and for NaN.
    """

    __slots__ = ()

    def __new__(cls, value: Decimal | float | str) -> BoundedDecimal:
        """Return the decimal that is nearest to a number, or to that in a text."""
        exact = Decimal(_exact(value) if isinstance(value, float) else value)
        made = _bounded(exact) if exact.is_finite() else None
        if made is None:
            raise ValueError(f"a decimal has at most {DIGITS_BEFORE} digits before its point")
        return made

    def __str__(self) -> str:
        """Return the digits without an exponent, and without zeros at the end behind the point."""
        text = f"{self:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    def __repr__(self) -> str:
        """Return the call of `Decimal` that makes an equal value."""
        return f"Decimal('{self!s}')"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the constructor and its argument."""
        return BoundedDecimal, (str(self),)

    # -- Arithmetic ------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return _computed(CONTEXT.add, add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _computed(CONTEXT.add, add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _computed(CONTEXT.subtract, sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _computed(CONTEXT.subtract, sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return _computed(CONTEXT.multiply, mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _computed(CONTEXT.multiply, mul, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _computed(CONTEXT.divide, truediv, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _computed(CONTEXT.divide, truediv, other, self)

    def __mod__(self, other: Any) -> Any:
        return _computed(_modulo, mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _computed(_modulo, mod, other, self)

    def __neg__(self) -> BoundedDecimal:
        return BoundedDecimal(self.copy_negate())

    def __abs__(self) -> BoundedDecimal:
        return BoundedDecimal(self.copy_abs())

    # -- The order -------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        return _holds(super().__eq__, other)

    def __ne__(self, other: object) -> bool:
        return not _holds(super().__eq__, other)

    def __lt__(self, other: Any) -> bool:
        return _holds(super().__lt__, other)

    def __le__(self, other: Any) -> bool:
        return _holds(super().__le__, other)

    def __gt__(self, other: Any) -> bool:
        return _holds(super().__gt__, other)

    def __ge__(self, other: Any) -> bool:
        return _holds(super().__ge__, other)

    def __hash__(self) -> int:
        """Return a hash that an equal `int` or double has, too.

        A decimal has that of the double that prints as it does, if there is one.
        """
        double = float(self)
        if not double.is_integer() and _exact(double) == self:
            return hash(double)
        return super().__hash__()


BoundedDecimal.__name__ = "decimal"  # as definitions and messages call the type
DecimalOrDouble: TypeAlias = BoundedDecimal | float


def _exact(value: float) -> Decimal:
    """Return the decimal that a double prints as (`text_of`): a whole one is the whole number."""
    return Decimal(int(value)) if value.is_integer() else Decimal(repr(value))


def _holds(compares: Callable[[Any], bool], other: object) -> bool:
    """Return the result of a comparison with a number; False for NaN, for which Decimal raises."""
    if isinstance(other, float):
        return other == other and compares(_exact(other))
    return compares(other)


def _bounded(exact: Decimal) -> BoundedDecimal | None:
    """Return the nearest decimal of a number, None if it is beyond the bound."""
    if not _LOWEST < exact < _LIMIT:
        return None
    rounded = exact.quantize(_UNIT, None, CONTEXT)
    if not _LOWEST < rounded < _LIMIT:
        return None
    return Decimal.__new__(BoundedDecimal, rounded or _ZERO)


def _computed(
    exact: Callable[[Any, Any], Decimal],
    double: Callable[[float, float], float],
    one: Any,
    other: Any,
) -> Any:
    """Return the result of an operator on a decimal and another number.

    ``exact`` computes it; ``double`` does beside a double, and for a result beyond the bound.
    Raises ZeroDivisionError for a division by zero.
    """
    if isinstance(one, float) or isinstance(other, float):
        return double(float(one), float(other))
    if not (isinstance(one, Decimal | int) and isinstance(other, Decimal | int)):
        return NotImplemented
    try:
        made = _bounded(exact(one, other))
    except InvalidOperation:  # 0 / 0, a remainder by 0 or of an int of too many digits
        made = None
    return double(_double(one), _double(other)) if made is None else made


def _double(value: Decimal | int) -> float:
    return quotient(value, 1) if isinstance(value, int) else float(value)


def _modulo(one: Decimal, other: Decimal) -> Decimal:
    """Return the remainder that has the sign of the divisor, as of Python's other numbers."""
    rest = CONTEXT.remainder(one, other)
    return CONTEXT.add(rest, other) if rest and (rest < 0) != (other < 0) else rest


def remainder(one: BoundedDecimal, other: BoundedDecimal) -> BoundedDecimal:
    """Return the remainder that has the sign of the dividend, as of XPath's mod."""
    return BoundedDecimal(CONTEXT.remainder(one, other))


def units_of(value: BoundedDecimal) -> int:
    """Return a decimal as a number of units, each 10 ** -18."""
    return int(CONTEXT.scaleb(value, DIGITS_AFTER))


def of_units(units: int, count: int = 1) -> DecimalOrDouble:
    """Return units (10 ** -18) divided by a count: a rounded decimal, or a double if too large."""
    made = _bounded(Decimal(round(Fraction(units, count))).scaleb(-DIGITS_AFTER, CONTEXT))
    return quotient(units, count * 10**DIGITS_AFTER) if made is None else made


def quotient(dividend: int, divisor: int) -> float:
    """Return the correctly rounded double of a quotient, an infinity beyond all doubles."""
    try:
        return dividend / divisor
    except OverflowError:
        return inf if dividend > 0 else -inf


def is_decimal(value: Decimal | int) -> bool:
    """Return True if a `BoundedDecimal` has exactly the value of a number."""
    try:
        return BoundedDecimal(value) == value
    except ValueError:
        return False


def decimal_of(text: str) -> BoundedDecimal | None:
    """Return the decimal that a text is, in decimal form and without white space; else None."""
    return BoundedDecimal(text) if _FORM.fullmatch(text) else None
