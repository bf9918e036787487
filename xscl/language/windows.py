"""Windows as people write them: with a unit."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from xscl.errors import QueryError
from xscl.language.constants import Shape, marks, split
from xscl.language.parser import parse
from xscl.language.syntax import (
    Block,
    Expression,
    Fold,
    FollowedBy,
    Join,
    Next,
    Query,
    Window,
)


def refuse_bare_windows(text: str) -> None:
    """Raise QueryError for a window without a unit: 10 what?

    Bare numbers are ticks, which are right in a library and a trap for people.  Each shape of
    queries is parsed once.
    """
    cut = split(text)
    if cut is None or not _has_units(cut[0]):
        _refuse(text)


@lru_cache(maxsize=1_000)
def _has_units(shape: Shape) -> bool:
    try:
        _refuse(shape.text(marks(shape, first=True)))
    except QueryError:
        return False
    return True


def _refuse(text: str) -> None:
    for window in _windows(parse(text).expression):
        if window.ticks and window.unit is None:
            raise QueryError.at(
                window.span.start,
                f"the window {window.ticks} has no unit",
                text,
                hint=f"write '{window.ticks} s' or '{window.ticks} min'; "
                "the units are ms, s, min, h, d, w",
            )


def _windows(expression: Expression) -> Iterator[Window]:
    match expression:
        case Block():
            return
        case Query():
            yield from _windows(expression.expression)
        case Join() | FollowedBy():
            yield expression.window
            yield from _windows(expression.left)
            yield from _windows(expression.right)
        case Next() | Fold():
            yield from _windows(expression.left)
            yield from _windows(expression.right)
