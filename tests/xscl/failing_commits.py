"""Commits that fail, with something that happens beside them, and databases that stay lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import apsw
import duckdb
import pytest

import xscl
from tests.waiting import eventually
from xscl.errors import StoreError
from xscl.store.commits import Commits
from xscl.store.journal import Record
from xscl.store.opening import IS_SQLITE
from xscl.store.store import Store

BEFORE = "xscl.store.sqlite_database.reached" if IS_SQLITE else "xscl.store.store.reached"
AFTER = "xscl.store.sqlite_database.reached" if IS_SQLITE else "xscl.store.commits.reached"
"""What is called at the points of a commit, before it and after it."""


def full_disk() -> Exception:
    """Return the error of a database whose disk is full."""
    if IS_SQLITE:
        return apsw.FullError("database or disk is full")
    return duckdb.IOException('Could not write file "wal": No space left on device')


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
        patched.setattr(BEFORE, fail)
        yield
    assert failed


@contextmanager
def lost_in_commit(engine: xscl.Engine) -> Iterator[None]:
    """Make the next commit invalidate the database, which is reopened only after the block.

    Until then the state in memory is that of the change that has failed.
    """
    if IS_SQLITE:
        pytest.skip("no error of SQLite makes a database unusable")

    def fail(point: str) -> None:
        if point == "before_commit":
            raise duckdb.FatalException("FATAL Error: fsync failed!")

    def stay_lost(_: Store) -> None:
        raise StoreError("the disk fails")

    store = engine.host.transactions.store
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("xscl.store.store.reached", fail)
        patched.setattr(Store, "reopen", stay_lost)
        yield
        assert store.is_lost
    eventually(lambda: not store.is_lost)
    with engine.host.transactions.committed():
        pass  # the state is loaded, too


@contextmanager
def in_doubt(
    number: int = 1, afterwards: Callable[[], object] = lambda: None
) -> Iterator[Callable[[], bool]]:
    """Make one commit of DuckDB take effect, call a function and raise.

    Yields a function that returns whether that commit was reached.
    """
    real, passed = Commits.commit, 0

    def commit(
        self: Commits,
        count: Callable[[], int],
        commit: Callable[[], object],
        records: Sequence[Record],
    ) -> None:
        def failing() -> None:
            nonlocal passed
            commit()
            passed += 1
            if passed == number:
                afterwards()
                raise duckdb.IOException("No space left on device")

        real(self, count, failing, records)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Commits, "commit", commit)
        yield lambda: passed >= number
