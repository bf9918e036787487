"""The journal: what survives of it, and what its records write."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.store.journal import Journal, Record, journal_path, read_journal, records_of
from xscl.store.tail import Appends

STORE = "0123456789abcdef"
RECORDS = [Record(number, 7, bytes([number]) * (40 * number)) for number in range(1, 5)]


def written(path: Path, records: list[Record]) -> list[int]:
    """Append records to a new journal; return the size after each."""
    journal = Journal(path, STORE, 0)
    sizes = []
    for record in records:
        journal.append(record)
        sizes.append(journal.size)
    journal.close()
    return sizes


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state.duckdb"


def test_a_journal_cut_at_any_byte_keeps_the_whole_records(database: Path) -> None:
    sizes = written(database, RECORDS)
    image = journal_path(database).read_bytes()
    assert len(image) == sizes[-1]
    for end in range(len(image) + 1):
        whole = sum(size <= end for size in sizes)
        found = [record for record, _ in records_of(image[:end], STORE)]
        assert found == RECORDS[:whole]
    assert read_journal(database, STORE, 0) == RECORDS


def test_a_changed_byte_ends_the_journal_before_its_record(database: Path) -> None:
    sizes = written(database, RECORDS)
    image = bytearray(journal_path(database).read_bytes())
    for at in range(0, len(image), 3):
        image[at] ^= 0x40
        whole = sum(size <= at for size in sizes)
        assert [record for record, _ in records_of(bytes(image), STORE)] == RECORDS[:whole]
        image[at] ^= 0x40


def test_what_a_crash_has_torn_is_removed_before_the_next_record(database: Path) -> None:
    sizes = written(database, RECORDS[:3])
    os.truncate(journal_path(database), sizes[2] - 1)
    journal = Journal(database, STORE, 3)
    assert journal.size == sizes[1]
    journal.append(RECORDS[2])
    journal.close()
    assert read_journal(database, STORE, 0) == RECORDS[:3]


def test_records_are_of_one_store_and_follow_one_another(database: Path) -> None:
    written(database, [RECORDS[0], RECORDS[1], RECORDS[3]])
    assert read_journal(database, "another", 0) == []
    assert read_journal(database, STORE, 0) == RECORDS[:2]
    assert read_journal(database, STORE, 1) == RECORDS[1:2]
    assert read_journal(database, STORE, 2) == []
    journal_path(database).unlink()
    written(database, RECORDS[2:])
    assert read_journal(database, STORE, 1) == [], "the second record is missing"


def test_an_empty_journal_is_removed(database: Path) -> None:
    journal = Journal(database, STORE, 0)
    journal.append(RECORDS[0])
    journal.clear()
    journal.close()
    assert not journal_path(database).exists()


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_failed_append_leaves_nothing(
    database: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    journal = Journal(database, STORE, 0)
    journal.append(RECORDS[0])
    before, times = journal_path(database).read_bytes(), iter([True])
    real = getattr(os, call)

    def fail(*arguments: Any) -> Any:
        if next(times, False):
            if call == "pwrite":
                real(arguments[0], arguments[1][:9], arguments[2])
            raise OSError(errno.ENOSPC, "no space")
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="no space"):
            journal.append(RECORDS[1])
    assert not journal.is_broken
    assert journal_path(database).read_bytes() == before
    journal.append(RECORDS[1])
    journal.close()
    assert read_journal(database, STORE, 0) == RECORDS[:2]


def test_a_journal_is_broken_if_a_failed_append_cannot_be_removed(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(database, STORE, 0)
    journal.append(RECORDS[0])

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="broken"):
            journal.append(RECORDS[1])
    assert journal.is_broken
    journal.close()


def test_a_record_is_synchronised_after_it_was_written(
    database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    real = os.fdatasync

    def synchronise(descriptor: int) -> None:
        sizes.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", synchronise)
    assert written(database, RECORDS) == sizes


# -- What a transaction appends ------------------------------------------------------------


class Kept:
    """A database of numbered entries, as lists."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.progress: dict[str, int] = {}

    def append(self, table: str, rows: pa.Table) -> None:
        self.rows += rows["number"].to_pylist()

    def remove(self, table: str, numbers: Any) -> None:
        self.rows = [number for number in self.rows if number not in set(numbers)]

    def set_progress(self, **values: int) -> None:
        self.progress.update(values)


@given(st.lists(st.tuples(st.integers(0, 4), st.sets(st.integers(0, 12))), max_size=8))
def test_many_records_at_once_write_what_they_write_one_by_one(
    drawn: list[tuple[int, set[int]]],
) -> None:
    """Numbers are used once; a removal may name any earlier one."""
    payloads, following = [], 0
    for rows, gone in drawn:
        appends = Appends()
        appends.remove("state.core", sorted(number for number in gone if number < following))
        numbers = list(range(following, following + rows))
        appends.insert("state.core", pa.table({"number": pa.array(numbers, pa.int64())}))
        appends.set_progress(position=following)
        following += rows
        payloads.append(appends.encode())
    singly, at_once = Kept(), Kept()
    for payload in payloads:
        Appends.of([payload]).write(singly)
    Appends.of(payloads).write(at_once)
    assert at_once.rows == singly.rows
    assert at_once.progress == singly.progress
