"""Callbacks for new results, registered by the id of a result stream (`qid`).

The consumer's thread calls them after each push.  A callback only wakes its owner and never blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

Ring: TypeAlias = Callable[[], None]


class Bells:
    """Bells at streams of results, from any thread."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._at: dict[int, dict[object, Ring]] = {}
        self._everywhere: dict[object, Ring] = {}

    def hang(self, ring: Ring, qid: int | None = None) -> Callable[[], None]:
        """Have a bell ring for the results of one stream, or of all; return what takes it away."""
        key = object()
        with self._mutex:
            bells = self._everywhere if qid is None else self._at.setdefault(qid, {})
            bells[key] = ring

        def take_away() -> None:
            with self._mutex:
                bells.pop(key, None)
                if qid is not None and not bells and self._at.get(qid) is bells:
                    del self._at[qid]

        return take_away

    def ring(self, qids: Iterable[int]) -> None:
        """Ring at some streams of results."""
        with self._mutex:
            found = [ring for qid in qids for ring in self._at.get(qid, {}).values()]
            found += self._everywhere.values()
        for ring in found:
            ring()

    def ring_all(self) -> None:
        """Ring everywhere."""
        with self._mutex:
            found = [ring for bells in self._at.values() for ring in bells.values()]
            found += self._everywhere.values()
        for ring in found:
            ring()
