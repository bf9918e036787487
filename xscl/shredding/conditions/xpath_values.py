"""Values of XPath: atomization, casts, comparisons and arithmetic, with bounded work.

An item is a `Node`, a text (`str`; `Untyped` if it has no type, as the text of a node), a number
(`int`, `BoundedDecimal` or `float`: xs:integer, xs:decimal, xs:double), a truth value, or a time or
duration of elementpath's data types.  xs:float is xs:double.

Beside a number a text is read as a number: a decimal in decimal form, else a double, NaN if it is
none.  Numbers have one order (`cep_core.decimals`).  Two values
without a type are ordered as `cep_core.algebra.untyped` says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, localcontext
from functools import lru_cache, partial
from operator import add, mul, sub
from types import MappingProxyType
from typing import Any, TypeAlias

from elementpath.datatypes import (
    AbstractDateTime,
    Date10,
    DateTime10,
    DayTimeDuration,
    Duration,
    Time,
    YearMonthDuration,
)

from cep_core.algebra import (
    CONTEXT,
    DIGITS_BEFORE,
    WHITE_SPACE,
    BoundedDecimal,
    DecimalOrDouble,
    comparands,
    compared_number,
    decimal_of,
    number_of,
    operand_of,
)
from cep_core.algebra.function_bounds import LONGEST as LONGEST_TEXT
from cep_core.algebra.function_bounds import Budget
from xscl.language.lowering import divided, modulo
from xscl.shredding.conditions.xpath_nodes import Node, Tree
from xscl.shredding.nodes import COMPARISONS

Items: TypeAlias = "list[Any]"

STEPS = 200_000
"""Steps of one expression in one document: nodes visited, items and pairs of items handled."""
DIGITS = 4_000
"""The most characters of a whole or decimal number."""
_EXACT = 2**53
"""From this number on not every whole number is a double."""
CHARACTERS = 100
"""Characters that are read or written in one step."""


class Failure(Exception):
    """An expression has no value: the error says why."""


class OverBudget(Failure):
    """An expression has done all the work that it may do in one document."""


ERRORS = (
    *(Failure, ValueError, TypeError, ArithmeticError, LookupError, AttributeError),
    RecursionError,
)
"""The errors of an evaluation: the expression has no value then."""


class Untyped(str):
    """A text without a type, such as the value of a node."""

    __slots__ = ()


class Work:
    """A document under evaluation by one expression, and the steps that are left to it."""

    __slots__ = ("functions", "left", "one_sided", "tree")

    def __init__(self, tree: Tree, left: int = STEPS) -> None:
        self.tree = tree
        self.left = left
        self.one_sided = False  # True after `<` or the like between a number and a text
        self.functions = Budget()  # of the functions that conditions share with predicates

    def spend(self, steps: int) -> None:
        """Count steps; raises OverBudget."""
        self.left -= steps
        if self.left < 0:
            raise OverBudget(f"over {STEPS:,} steps in one document")

    def text(self, item: Any) -> str:
        """Return the string value of an item."""
        if isinstance(item, Node):
            found = item.text()
            if item.is_inner and self.tree.nodes:
                self.spend(item.last - int(item.at))
            if len(found) >= CHARACTERS:
                self.spend(len(found) // CHARACTERS)
            return found
        return item if isinstance(item, str) else text_of(item)

    def atom(self, item: Any) -> Any:
        """Return the typed value of an item."""
        if not isinstance(item, Node):
            return item
        text = self.text(item)
        return text if item.kind in ("comment", "instruction") else Untyped(text)

    def made(self, length: int) -> None:
        """Count the characters of a text before a function makes it; raises Failure if too long.

        `length` is the number of its characters.
        """
        if length > LONGEST_TEXT:
            raise Failure(f"a text of over {LONGEST_TEXT:,} characters")
        self.spend(length // CHARACTERS)


# -- Texts ---------------------------------------------------------------------------------


def text_of(value: Any) -> str:
    """Return the text of a value that is no node."""
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _text_of_double(value)
        case _:
            return str(value)


def _text_of_double(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "INF" if value > 0 else "-INF"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    if 1e-6 <= abs(value) < 1e6:
        return str(BoundedDecimal(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "the value is finite"
    first, *rest = map(str, digits)
    mantissa = f"{first}.{''.join(rest) or '0'}"
    return f"{'-' if sign else ''}{mantissa}E{exponent + len(digits) - 1}"


# -- Numbers -------------------------------------------------------------------------------


def is_number(value: Any) -> bool:
    """Return True for a number, which a truth value is not."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def number(value: Any) -> Any:
    """Return a value as the number that it is, or that its text is in arithmetic."""
    if isinstance(value, str):
        found = operand_of(value)
        return math.nan if found is None else found
    if is_number(value):
        return value
    raise Failure(f"{kind_of(value)} is no number")


def double(value: Any) -> float:
    """Return a value as xs:double; NaN of a text or time that is no number."""
    if isinstance(value, str):
        found = number_of(value)
        return math.nan if found is None else found
    return float(value) if isinstance(value, int | float | Decimal) else math.nan


def _compared(value: Any) -> Any:
    """Return the number by which a value is compared with a number; NaN of a text that is none."""
    if isinstance(value, int) and not -_EXACT < value < _EXACT:
        return decimal(value)
    if not isinstance(value, str):
        return number(value)
    found = compared_number(value)
    return math.nan if found is None else found


def decimal(value: Any) -> Any:
    """Return a number as a decimal.

    A float stays as it is; a number that is too large for a decimal becomes a float.
    """
    if isinstance(value, float):
        return value
    try:
        return BoundedDecimal(value)
    except ValueError:
        return float(value)


def rounded(value: Any, places: int, *, even: bool) -> Any:
    """Return a number rounded to decimal places: a half up, or with `even` to the even digit."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return value
    exact = Decimal(value)
    with localcontext(CONTEXT):
        if even:
            found = _rounded_exactly(exact, places, ROUND_HALF_EVEN)
        else:
            low = _rounded_exactly(exact, places, ROUND_FLOOR)
            step = Decimal(1).scaleb(-places)
            found = low if (exact - low) * 2 < step else low + step
    if isinstance(value, float):
        return math.copysign(float(found), value)
    return int(found) if isinstance(value, int) else decimal(found)


def _rounded_exactly(value: Decimal, places: int, mode: str) -> Decimal:
    return value.scaleb(places).to_integral_value(mode).scaleb(-places)


def arithmetic(sign: str, one: Any, other: Any) -> Any:
    """Return the result of an operator of arithmetic, `sign`, on two atomic values."""
    if isinstance(one, str):
        one = number(one)
    if isinstance(other, str):
        other = number(other)
    if not (is_number(one) and is_number(other)):
        return _of_times(sign, one, other)
    if type(one) is type(other) is int and sign in _OF_INTEGERS:
        found = _OPERATORS[sign](one, other)
        return found if -_LARGEST < found < _LARGEST else float(found)
    left, right = decimal(one), decimal(other)
    if isinstance(left, float) or isinstance(right, float) or not (right or sign == "idiv"):
        left, right = float(left), float(right)
    found = _OPERATORS[sign](left, right)
    if isinstance(one, int) and isinstance(other, int) and sign != "div":
        return found if isinstance(found, float) else int(found)
    return found


def _whole_quotient(one: DecimalOrDouble, other: DecimalOrDouble) -> int:
    if isinstance(one, BoundedDecimal) and isinstance(other, BoundedDecimal):
        return int(CONTEXT.divide_int(one, other))
    if not other or not math.isfinite(one) or math.isnan(other):
        raise Failure("idiv has no result")
    return int(one / other)


_LARGEST = 10**DIGITS_BEFORE
_OF_INTEGERS = frozenset("+-*")
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {
        **{"+": add, "-": sub, "*": mul},
        **{"div": divided, "mod": modulo, "idiv": _whole_quotient},
    }
)


# -- Times ---------------------------------------------------------------------------------


def duration(span: timedelta) -> DayTimeDuration:
    """Return a difference of times, `span`, as a value of xs:dayTimeDuration."""
    return DayTimeDuration(Decimal(span // timedelta(microseconds=1)) / 1_000_000)


def _of_times(sign: str, one: Any, other: Any) -> Any:
    """Return the result of `+`, `-`, `*` or `div` with times and durations."""
    moment = isinstance(one, AbstractDateTime), isinstance(other, AbstractDateTime)
    length = isinstance(one, Duration), isinstance(other, Duration)
    match sign:
        case "-" if all(moment) and type(one) is type(other):
            return duration(instant(one) - instant(other))
        case "+" if moment[0] and length[1]:
            return one + other
        case "+" if length[0] and moment[1]:
            return other + one
        case "-" if moment[0] and length[1]:
            return one - other
        case "+" | "-" if all(length) and type(one) is type(other):
            return one + other if sign == "+" else one - other
        case "*" if length[0] and is_number(other):
            return one * other
        case "*" if length[1] and is_number(one):
            return other * one
        case "div" if length[0] and is_number(other):
            return one / other
        case "div" if all(length) and type(one) is type(other):
            sizes = (
                (one.months, other.months)
                if isinstance(one, YearMonthDuration)
                else (one.seconds, other.seconds)
            )
            return decimal(CONTEXT.divide(Decimal(sizes[0]), Decimal(sizes[1])))
        case _:
            raise Failure(f"{sign} of {kind_of(one)} and {kind_of(other)}")


def instant(value: AbstractDateTime) -> timedelta:
    """Return a time as its distance from the year 1 in UTC, which it is in without a zone."""
    return value.todelta()


# -- Casts ---------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+")
_TIMES: Mapping[str, Any] = MappingProxyType(
    {
        "date": Date10,
        "dateTime": DateTime10,
        "time": Time,
        "duration": Duration,
        "dayTimeDuration": DayTimeDuration,
        "yearMonthDuration": YearMonthDuration,
    }
)
_LONGEST_TIME = 60
_TIME = re.compile(r"-?[0-9P]")


@lru_cache(maxsize=4096)
def _time(kind: str, text: str) -> Any:
    text = text.strip(WHITE_SPACE)
    with suppress(*ERRORS):
        if _TIME.match(text) and len(text) <= _LONGEST_TIME and text.isascii():
            return _TIMES[kind].fromstring(text)
    raise Failure(f"{text[:40]!r} is no xs:{kind}")


_KINDS: tuple[tuple[type, str], ...] = (
    *((Untyped, "untypedAtomic"), (str, "string"), (bool, "boolean"), (int, "integer")),
    *((Decimal, "decimal"), (float, "double"), (DateTime10, "dateTime"), (Date10, "date")),
)
"""The names of types; a type stands before those that it extends."""


def kind_of(value: Any) -> str:
    """Return the name of the type of an item."""
    if isinstance(value, Node):
        return f"{value.kind}()"
    name = type(value).__name__
    of_time = f"{name[0].lower()}{name[1:]}"
    return f"xs:{next((known for kind, known in _KINDS if isinstance(value, kind)), of_time)}"


def _integer(text: str) -> int | None:
    return int(text) if len(text) <= DIGITS and _INTEGER.fullmatch(text) else None


def _decimal(text: str) -> BoundedDecimal | None:
    return decimal_of(text) if len(text) <= DIGITS else None


_PLAIN: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], Any]]] = MappingProxyType(
    {
        "boolean": (
            {"true": True, "1": True, "false": False, "0": False}.get,
            lambda number: bool(number) and number == number,
        ),
        "integer": (_integer, lambda n: int(n) if math.isfinite(n) else None),
        "decimal": (_decimal, lambda n: BoundedDecimal(n) if math.isfinite(n) else None),
        **dict.fromkeys(("double", "float"), (number_of, float)),
    }
)
"""By type, the function from a text without white space around it, and that from a number or truth
value; both return None for what is no value of the type."""


def cast(kind: str, value: Any) -> Any:
    """Return an atomic value cast to the type `kind` of XML Schema; raises one of ERRORS."""
    if kind == "string":
        return text_of(value)
    if kind == "untypedAtomic":
        return Untyped(text_of(value))
    if kind not in _PLAIN:
        return _time(kind, str(value)) if isinstance(value, str) else _of_time(kind, value)
    of_text, of_number = _PLAIN[kind]
    shown, found = kind_of(value), None
    if isinstance(value, str):
        text = value.strip(WHITE_SPACE)
        shown, found = repr(text[:40]), of_text(text)
    elif isinstance(value, int | float | Decimal):
        shown, found = text_of(value), of_number(value)
    if found is None:
        raise Failure(f"{shown} is no xs:{kind}")
    return found


def _of_time(kind: str, value: Any) -> Any:
    """Return a time or duration cast to the type `kind`."""
    made = _TIMES[kind]
    if type(value) is made:
        return value
    if isinstance(value, Duration) and issubclass(made, Duration):
        return made.make(value)
    if isinstance(value, DateTime10) and made in (Date10, Time):
        text = str(value)
        day, _, clock = text.partition("T")
        zone = "" if value.tzinfo is None else str(value.tzinfo)
        return made.fromstring(clock if made is Time else day + zone)
    if type(value) is Date10 and made is DateTime10:
        zone = "" if value.tzinfo is None else str(value.tzinfo)
        return made.fromstring(f"{str(value).removesuffix(zone)}T00:00:00{zone}")
    raise Failure(f"{kind_of(value)} is no xs:{kind}")


# -- Comparisons ---------------------------------------------------------------------------


def compare(sign: str, one: Any, other: Any, work: Work | None = None) -> bool:
    """Return True if a comparison holds for two atomic values; raises one of ERRORS."""
    if type(one) is type(other) is int:
        return bool(COMPARISONS[sign](one, other))
    if isinstance(one, str) and isinstance(other, str):
        if sign not in ("=", "!=") and isinstance(one, Untyped) and isinstance(other, Untyped):
            pair = comparands(one, other)
            if pair is None and work is not None:
                work.one_sided = True
            return pair is not None and COMPARISONS[sign](*pair)
        return bool(COMPARISONS[sign](str(one), str(other)))
    if is_number(one) or is_number(other):
        one, other = _compared(one), _compared(other)
        return bool(COMPARISONS[sign](one, other))
    if isinstance(one, Untyped):
        one = cast(_type_beside(other), one)
    elif isinstance(other, Untyped):
        other = cast(_type_beside(one), other)
    if isinstance(one, bool) and isinstance(other, bool):
        return bool(COMPARISONS[sign](one, other))
    if isinstance(one, Duration) and isinstance(other, Duration):
        return _compare_durations(sign, one, other)
    if isinstance(one, AbstractDateTime) and type(one) is type(other):
        return bool(COMPARISONS[sign](instant(one), instant(other)))
    raise Failure(f"{kind_of(one)} is not compared with {kind_of(other)}")


def _type_beside(value: Any) -> str:
    return kind_of(value).removeprefix("xs:")


def _compare_durations(sign: str, one: Duration, other: Duration) -> bool:
    if sign in ("=", "!="):
        equal = (one.months, one.seconds) == (other.months, other.seconds)
        return equal == (sign == "=")
    if type(one) is not type(other) or type(one) is Duration:
        raise Failure(f"{kind_of(one)} has no order with {kind_of(other)}")
    sizes = (one.months, one.seconds), (other.months, other.seconds)
    return bool(COMPARISONS[sign](*sizes))


def key_of(value: Any) -> Any:
    """Return the key of an atomic value: equal values have equal keys."""
    if isinstance(value, str):
        return "text", str(value)
    if is_number(value):
        if isinstance(value, float) and math.isnan(value):
            return "number", "NaN"
        return "number", value
    if isinstance(value, Duration):
        return "duration", value.months, value.seconds
    if isinstance(value, AbstractDateTime):
        return type(value).__name__, instant(value)
    return "truth", value


def some(work: Work, sign: str, ones: Items, others: Items) -> bool:
    """Return True if the comparison `sign` holds for some item of `ones` and one of `others`.

    If it holds for none, but comparing some pair has failed, that error is raised.
    """
    if not ones or not others:
        return False
    if len(ones) == len(others) == 1:
        work.spend(1)
        return compare(sign, work.atom(ones[0]), work.atom(others[0]), work)
    if sign == "=" and len(ones) * len(others) > 16:
        left, right = _texts(work, ones), _texts(work, others)
        if left is not None and right is not None:
            work.spend(len(left) + len(right))
            return not set(left).isdisjoint(right)
    return any_holds(_comparisons(work, sign, ones, others))


def _comparisons(work: Work, sign: str, ones: Items, others: Items) -> Iterator[Callable[[], bool]]:
    right_values = [work.atom(item) for item in others]
    for item in ones:
        value = work.atom(item)
        work.spend(len(right_values))
        for other in right_values:
            yield partial(compare, sign, value, other, work)


def _texts(work: Work, items: Items) -> list[str] | None:
    """Return the texts of a sequence of nodes and texts; None if it has other items."""
    if all(isinstance(item, Node | str) for item in items):
        return [work.text(item) for item in items]
    return None


def any_holds(tests: Iterable[Callable[[], bool]]) -> bool:
    """Return True if some test holds; raises the error of one if none does."""
    failed: Exception | None = None
    for test in tests:
        try:
            if test():
                return True
        except OverBudget:
            raise
        except ERRORS as error:
            failed = error
    if failed is not None:
        raise failed
    return False


def truth(items: Items) -> bool:
    """Return the effective truth value of a sequence, as XPath defines it."""
    if not items:
        return False
    first = items[0]
    if isinstance(first, Node):
        return True
    if len(items) > 1:
        raise Failure("several values have no truth value")
    if isinstance(first, str):
        return bool(first)
    if isinstance(first, float):
        return not (first == 0 or math.isnan(first))
    if isinstance(first, int | Decimal):
        return bool(first)
    raise Failure(f"{kind_of(first)} has no truth value")
