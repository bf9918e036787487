"""A database that was invalidated is opened again; the owners of other connections follow."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import pytest

from xscl.errors import StoreError
from xscl.store.atomic_files import rewrite
from xscl.store.journal import Journal
from xscl.store.store import Store
from xscl.store.store_errors import StoreClosed, StoreUnavailable

LOST = OSError("a write has failed")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "state.duckdb")) as made:
        yield made


def write(store: Store, **values: int) -> None:
    with store.transaction():
        store.set_meta(**values)


def open_again(store: Store) -> None:
    store.lose(LOST)
    store.reopen()


def within(block: Callable[[], AbstractContextManager[None]], work: Callable[[], None]) -> None:
    with block():
        work()


def test_nothing_is_read_or_written_until_it_is_open_again(store: Store) -> None:
    lost: list[bool] = []
    store.when_lost(lambda: lost.append(store.is_lost))
    with closing(store.connect_again()) as beside:
        write(beside, before=1)
        for _ in range(2):
            store.lose(LOST)
        assert lost == [True]
        for one in (store, beside):
            with pytest.raises(StoreUnavailable, match="is being opened again"):
                one.meta("before")
        with pytest.raises(StoreUnavailable):
            store.connect_again()
        store.reopen()
        for one in (store, beside):
            assert one.meta("before") == 1
        write(beside, after=2)
        assert store.meta("after") == 2
        store.close()
        with pytest.raises(StoreClosed):
            beside.meta("after")


def test_a_transaction_never_continues_on_another_connection(store: Store) -> None:
    with closing(store.connect_again()) as beside:

        def change() -> None:
            beside.set_meta(first=1)
            open_again(store)
            beside.set_meta(second=1)

        def read() -> None:
            assert beside.meta("first") == 0
            open_again(store)

        for block, work in ((beside.transaction, change), (beside.reading, read)):
            with pytest.raises(StoreUnavailable):
                within(block, work)
        assert (beside.meta("first"), beside.meta("second")) == (0, 0)
        write(beside, first=3)
    assert store.meta("first") == 3


def test_the_number_of_commits_goes_on(store: Store) -> None:
    write(store, one=1)
    seen = store.seen()
    open_again(store)
    assert store.seen() == seen
    write(store, two=2)
    assert store.seen().commits == seen.commits + 1


def test_a_file_is_written_over_itself(tmp_path: Path) -> None:
    path = tmp_path / "file"
    image = bytes(range(256)) * 9_000
    path.write_bytes(image)
    for size in (None, 12_288, 1 << 30):
        rewrite(path, size)
        assert path.read_bytes() == image
    rewrite(tmp_path / "absent")
    assert not (tmp_path / "absent").exists()


def test_nothing_is_taken_while_its_journal_cannot_be_closed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is taken would be in memory only."""

    def fails(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    store.lose(LOST)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "close", fails)
        with pytest.raises((StoreError, OSError), match="No space left"):
            store.reopen()
    with pytest.raises(StoreUnavailable):
        write(store, taken=1)
    store.reopen()
    assert store.meta("taken") == 0
