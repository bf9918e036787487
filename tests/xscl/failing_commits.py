"""Commits that fail, with something that happens beside them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw
import pytest

from xscl.engine.facade import Engine
from xscl.engine.state import EngineState
from xscl.store.store_errors import StoreUnavailable

POINTS = "xscl.store.database.reached"
"""What is called at the points of a commit, before it and after it."""


def full_disk() -> Exception:
    """Return the error of a database whose disk is full."""
    return apsw.FullError("database or disk is full")


@contextmanager
def failing_commit(beside: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Make the next commit fail, after calling `beside` just before it; the state is reloaded."""
    failed: list[str] = []

    def fail(point: str) -> None:
        if point == "before_commit" and not failed:
            failed.append(point)
            beside()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(POINTS, fail)
        yield
    assert failed


@contextmanager
def unread_after_commit(engine: Engine) -> Iterator[None]:
    """Make the next commit fail, and the state that is loaded again unreadable in the block.

    Until then the state in memory is that of the change that has failed.
    """

    def fail(point: str) -> None:
        if point == "before_commit":
            raise apsw.IOError("disk I/O error")

    def unread(*_: object) -> EngineState:
        raise StoreUnavailable(None, "planted")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(POINTS, fail)
        patched.setattr("xscl.engine.transactions.EngineState", unread)
        yield
    with engine.transactions.committed():
        pass  # the state is loaded
