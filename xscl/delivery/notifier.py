"""Callbacks for new results, registered by the id of a result stream (`qid`).

The consumer's thread calls them after each push.  A callback signals its owner and must not
block.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

Callback: TypeAlias = Callable[[], None]


class Notifier:
    """Callbacks by result stream; thread-safe.  The key None is that of all streams."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._callbacks: dict[int | None, dict[object, Callback]] = {}

    def register(self, callback: Callback, qid: int | None = None) -> Callable[[], None]:
        """Register a callback for new results of one stream, or of all.

        Returns its unregister function.
        """
        key = object()
        with self._mutex:
            callbacks = self._callbacks.setdefault(qid, {})
            callbacks[key] = callback

        def unregister() -> None:
            with self._mutex:
                callbacks.pop(key, None)
                if not callbacks and self._callbacks.get(qid) is callbacks:
                    del self._callbacks[qid]

        return unregister

    def notify(self, qids: Iterable[int] | None = None) -> None:
        """Call the callbacks of streams and those for all streams; with None every callback."""
        with self._mutex:
            keys = list(self._callbacks) if qids is None else (*qids, None)
            found = [one for key in keys for one in self._callbacks.get(key, {}).values()]
        for callback in found:
            callback()
