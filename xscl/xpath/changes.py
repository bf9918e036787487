"""What has been asked of stage 1, for those who have a copy of the automaton elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from templates.relations import Pair


class Changes:
    """What has changed in what is asked for; at first that is all of it, which `whole` returns.

    Nothing is noted before somebody has looked.
    """

    def __init__(self, whole: Callable[[], Iterable[Pair]]) -> None:
        self._whole = whole
        self._new: dict[int, Pair] | None = None
        self._gone: dict[int, None] = {}

    def asked(self, pairs: Iterable[Pair]) -> None:
        """Pairs are asked for, perhaps anew."""
        if self._new is not None:
            self._new.update((pair.number, pair) for pair in pairs)

    def dropped(self, numbers: Iterable[int]) -> None:
        """Pairs are asked for no more."""
        if self._new is not None:
            for number in numbers:
                self._new.pop(number, None)
                self._gone[number] = None

    def forget(self) -> None:
        """Have all of it taken the next time."""
        self._new, self._gone = None, {}

    def take(self) -> tuple[tuple[int, ...], tuple[Pair, ...]]:
        """Return the pairs that have gone and those that are new since the last time.

        The former come first: a number may be given again.
        """
        new = self._whole() if self._new is None else self._new.values()
        taken = tuple(self._gone), tuple(new)
        self._new, self._gone = {}, {}
        return taken
