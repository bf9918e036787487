"""Numbers by definition: a decimal is a fraction, a double is a float.

A decimal is a multiple of 10 ** -18 below 10 ** 20 in size.  A text of digits that says one is one;
any other number is a double.  Doubles are where the decimals that they print as are.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

Number: TypeAlias = "Fraction | float"
SPACES = r"[ \t\r\n]*"
NUMBER = re.compile(rf"{SPACES}[-+]?(\d+(\.\d*)?|\.\d+)([Ee][-+]?\d+)?{SPACES}", re.ASCII)
NAMED = re.compile(rf"{SPACES}([-+]?INF|NaN){SPACES}")
PLAIN = re.compile(rf"{SPACES}[-+]?(\d+(\.\d*)?|\.\d+){SPACES}", re.ASCII)
PARTS, MOST = 10**18, 10**20


def is_number(value: str) -> bool:
    """Return true if a text has the form of an xs:double, NaN included."""
    return bool(NUMBER.fullmatch(value) or NAMED.fullmatch(value))


def number(value: str) -> float:
    """Return XPath's number(): NaN for all that is no xs:double."""
    return float(value) if is_number(value) else math.nan


def decimal(value: str) -> Fraction | None:
    """Return the decimal that a text is; None if it is none."""
    found = Fraction(Decimal(value.strip())) if PLAIN.fullmatch(value) else None
    if found is None or abs(found) >= MOST or (found * PARTS).denominator != 1:
        return None
    return found


def operand(value: str) -> Number:
    """Return the number that a text is in arithmetic, NaN of none."""
    found = decimal(value)
    return number(value) if found is None else found


def placed(value: Number) -> Number:
    """Return a number that has the place of a value among all numbers."""
    if isinstance(value, Fraction) or not math.isfinite(value):
        return value
    return Fraction(value) if value.is_integer() else Fraction(Decimal(repr(value)))


def computed(sign: str, a: Number, b: Number) -> Number:
    """Return the result of an operator, of doubles where it is no decimal."""
    if isinstance(a, Fraction) and isinstance(b, Fraction) and (b or sign in "+-*"):
        exact = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "div": lambda: a / b}
        found = exact[sign]() if sign in exact else a - b * int(a / b)
        found = Fraction(round(found * PARTS), PARTS)
        if abs(found) < MOST:
            return found
    return _of_doubles(sign, float(a), float(b))


def _of_doubles(sign: str, a: float, b: float) -> float:
    match sign:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "mod":
            return math.nan if math.isinf(a) or b == 0 else math.fmod(a, b)
        case _ if b == 0 or math.isnan(b):
            unsigned = math.nan if a == 0 or math.isnan(a) or math.isnan(b) else math.inf
            return unsigned * math.copysign(1, a) * math.copysign(1, b)
        case _:
            return a / b


def text_of(value: Number) -> str | None:
    """Return a number as XPath's string(), without an exponent; None of NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "INF" if value > 0 else "-INF"
    exact = placed(value)
    places = 0
    while (exact * 10**places).denominator != 1:
        places += 1
    digits = f"{abs(int(exact * 10**places)):0{places + 1}}"
    whole, part = (digits[:-places], f".{digits[-places:]}") if places else (digits, "")
    return f"{'-' if exact < 0 else ''}{whole}{part}"
