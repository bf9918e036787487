"""The functions of XSCL under names that CEL, SASE and EQL can write: with _ for - and :.

What the core has itself, on values with types, is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cep_core import Function
from cep_core.algebra.expressions import FUNCTIONS as TYPED
from xscl.language import functions
from xscl.language.functions import OPERANDS, matches, text_of

_TYPES: dict[functions.Kind, type] = {"value": str, "constant": str, "number": float}
_WHOLE = {"year-from-date", "month-from-date", "day-from-date", "hours-from-dateTime"}


def _called(one: functions.Function) -> Callable[..., Any]:
    """Return a function on strings as one of typed values; the last arguments have defaults."""

    def called(*given: Any) -> Any:
        left = one.missing(len(given)) or ()
        made = one.apply(*[text_of(value) for value in (*given, *left)])
        return int(made) if one.name in _WHOLE and isinstance(made, float) else made

    return called


def _typed(one: functions.Function) -> Function:
    value = float if one.result == "number" else tuple if one.several else str
    kind = int if one.name in _WHOLE else value
    arguments = tuple([_TYPES[argument] for argument in one.arguments])
    return Function(_called(one), arguments, kind, len(one.defaults))


MOST_JOINED = 16
"""Arguments of `concat`."""


def _concat(*texts: str) -> str:
    return "".join(texts)


EVENT_FUNCTIONS: dict[str, Function] = {
    **{
        written: _typed(one)
        for name, one in OPERANDS.items()
        if (written := name.replace("-", "_").replace(":", "_")) not in TYPED
    },
    "concat": Function(_concat, (str,) * MOST_JOINED, str, MOST_JOINED - 2),
    "matches": Function(matches, (str, str, str), bool, 1),
}
"""By name; `concat` takes more than two texts, `matches` is the predicate of XPath."""
