"""Results of functions of large trees, remembered by the identity of the tree.

The hash of a frozen tree is computed from all its nodes each time, which costs as much as many
functions of it.  The parser returns one object for equal blocks, so identity is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
MOST = 2_000
"""Results of each function that are remembered, with their trees."""


class _Identity:
    """An argument that equals itself only; it keeps the object, so its address is not reused."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value


def by_identity(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that remembers results by the identity of its first argument.

    The others are compared by their values.  For any thread.
    """

    @lru_cache(maxsize=MOST)
    def remembered(first: _Identity, *others: object) -> T:
        return function(first.value, *others)  # type: ignore[arg-type, call-arg]  # as they were given

    @wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> T:
        assert not named, "arguments are given by their places"
        first, *others = given
        return remembered(_Identity(first), *others)

    return called
