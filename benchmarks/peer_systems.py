"""The systems that `peers` compares on title joins across channels.

A side takes batches of items in, and commits them with their matches.  A match is (number of the
subscription, number of the earlier item, number of the later one).  With the input `rows` a side
gets rows that are ready for it; with `bytes` it reads the XML itself, with lxml.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TypeAlias

import duckdb
import pyarrow as pa
from lxml import etree

from benchmarks.feed_items import CHANNEL, DAY, Item, channel_url
from xscl.engine.facade import Engine

Channels: TypeAlias = tuple[int, int]  # of the earlier and of the later item
Match: TypeAlias = tuple[int, int, int]
Row: TypeAlias = tuple[int, int, str, str, str, str]

COLUMNS = ("number", "ts", "url", "channel", "title", "description")
TITLE = 2
_STORED = ("item_url", "channel_url", "title", "description")
_TABLES = (
    "CREATE TABLE items (number BIGINT, ts BIGINT, url VARCHAR, channel VARCHAR, title VARCHAR,"
    " description VARCHAR)",
    "CREATE TABLE subs (qid BIGINT, one VARCHAR, other VARCHAR)",
    "CREATE TABLE matches (qid BIGINT, earlier BIGINT, later BIGINT)",
)
SAMPLE = 100
"""Subscriptions that are evaluated of those with a query each; the time of theirs is scaled."""


class Side(ABC):
    """One system: `push` returns the seconds of a batch, for all subscriptions.

    `counted` is the number of subscriptions whose matches are found.
    """

    storage = "memory"
    input = "rows"

    def __init__(self, asked: Sequence[Channels], file: Path) -> None:
        self.counted = len(asked)

    @abstractmethod
    def push(self, batch: Sequence[Item]) -> float:
        """Store a batch with its matches."""

    @abstractmethod
    def matches(self) -> list[Match]:
        """Return all matches so far."""

    def close(self) -> None:  # noqa: B027  # a side in memory has nothing to close
        """Close the database."""


class Ours(Side):
    """An engine on a file, from bytes to committed matches."""

    storage = "file"
    input = "bytes"

    def __init__(self, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(asked, file)
        self._engine = Engine(file, owns_process=True)
        self._engine.subscribe_many((f"s{n}", query(*pair)) for n, pair in enumerate(asked))
        self._found: list[Match] = []

    def push(self, batch: Sequence[Item]) -> float:
        documents = [item.document() for item in batch]
        began = perf_counter()
        matches = self._engine.push(documents).matches
        spent = perf_counter() - began
        for match in matches:
            earlier, later = match.documents
            self._found.append((int(match.subscription[1:]), int(earlier[1:]), int(later[1:])))
        return spent

    def matches(self) -> list[Match]:
        return self._found

    def close(self) -> None:
        self._engine.close()


class Table(Side):
    """A DuckDB database with one SQL query for all subscriptions, or with one for each."""

    each = False

    def __init__(self, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(asked, file)
        self._database = duckdb.connect(str(file) if self.storage == "file" else ":memory:")
        for statement in _TABLES:
            self._database.execute(statement)
        self._asked = [(channel_url(one), channel_url(other)) for one, other in asked]
        qids, ones, others = range(len(asked)), *zip(*self._asked, strict=True)
        self._insert("subs", pa.table([pa.array(c) for c in (qids, ones, others)], ["q", "a", "b"]))
        if self.each:
            self.counted = min(SAMPLE, len(asked))
        self._scale = len(asked) / self.counted

    def _insert(self, table: str, rows: pa.Table) -> None:
        self._database.register("given", rows)
        self._database.execute(f"INSERT INTO {table} FROM given")
        self._database.unregister("given")

    def push(self, batch: Sequence[Item]) -> float:
        texts = [item.document().xml for item in batch]
        ready = _columns([_row(item) for item in batch])
        began = perf_counter()
        if self.input == "bytes":
            ready = _columns(_read(batch, texts))
        self._database.execute("BEGIN")
        self._insert("items", ready)
        self._database.register("batch", ready)
        spent = perf_counter() - began
        began = perf_counter()
        if self.each:
            for qid, pair in enumerate(self._asked[: self.counted]):
                self._database.execute(_DUCKDB_EACH, (qid, *pair))
        else:
            self._database.execute(_DUCKDB)
        joined = perf_counter() - began
        self._database.unregister("batch")
        began = perf_counter()
        self._database.execute("COMMIT")
        return spent + joined * self._scale + perf_counter() - began

    def matches(self) -> list[Match]:
        return self._database.execute("FROM matches").fetchall()

    def close(self) -> None:
        self._database.close()


_PAIRS = "a.title = b.title AND a.ts < b.ts AND b.ts - a.ts <= " + str(DAY)
_DUCKDB = (
    f"INSERT INTO matches SELECT qid, a.number, b.number FROM batch b JOIN items a ON {_PAIRS}"
    " JOIN subs s ON s.one = a.channel AND s.other = b.channel"
)
_DUCKDB_EACH = (
    "INSERT INTO matches SELECT ?::BIGINT, a.number, b.number FROM batch b"
    f" JOIN items a ON {_PAIRS} WHERE a.channel = ? AND b.channel = ?"
)


class TableFromBytes(Table):
    """The same on a file, from bytes."""

    storage = "file"
    input = "bytes"


class TableEach(Table):
    """One DuckDB query for each subscription."""

    each = True


class IndexedTable(Side):
    """A SQLite database with one SQL query for all subscriptions, or with one for each."""

    each = False

    def __init__(self, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(asked, file)
        name = str(file) if self.storage == "file" else ":memory:"
        self._database = sqlite3.connect(name, isolation_level=None)
        run = self._database.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")  # as durable as the others
        for statement in _TABLES:
            run(statement)
        run("CREATE INDEX by_title ON items (title)")
        run("CREATE INDEX by_channel ON items (channel, number)")
        run("CREATE INDEX by_number ON items (number)")
        run("CREATE INDEX by_channels ON subs (one, other)")
        self._asked = [(channel_url(one), channel_url(other)) for one, other in asked]
        rows = ((qid, *pair) for qid, pair in enumerate(self._asked))
        run("BEGIN")
        self._database.executemany("INSERT INTO subs VALUES (?, ?, ?)", rows)
        run("COMMIT")
        if self.each:
            self.counted = min(SAMPLE, len(asked))
        self._scale = len(asked) / self.counted

    def push(self, batch: Sequence[Item]) -> float:
        texts = [item.document().xml for item in batch]
        ready = [_row(item) for item in batch]
        run, first = self._database.execute, batch[0].number
        began = perf_counter()
        if self.input == "bytes":
            ready = _read(batch, texts)
        run("BEGIN")
        self._database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", ready)
        spent = perf_counter() - began
        began = perf_counter()
        if self.each:
            for qid, (one, other) in enumerate(self._asked[: self.counted]):
                run(_SQLITE_EACH, (qid, other, first, one))
        else:
            run(_SQLITE, (first,))
        joined = perf_counter() - began
        began = perf_counter()
        run("COMMIT")
        return spent + joined * self._scale + perf_counter() - began

    def matches(self) -> list[Match]:
        return self._database.execute("SELECT qid, earlier, later FROM matches").fetchall()

    def close(self) -> None:
        self._database.close()


# CROSS JOIN keeps the order: the new items first, then what has their titles.
_SQLITE = (
    "INSERT INTO matches SELECT qid, a.number, b.number FROM items b"
    f" CROSS JOIN items a ON {_PAIRS} CROSS JOIN subs s ON s.one = a.channel AND"
    " s.other = b.channel WHERE b.number >= ?"
)
_SQLITE_EACH = (
    "INSERT INTO matches SELECT ?, a.number, b.number FROM items b"
    f" CROSS JOIN items a ON {_PAIRS} WHERE b.channel = ? AND b.number >= ? AND a.channel = ?"
)


class IndexedTableFromBytes(IndexedTable):
    """The same on a file, from bytes."""

    storage = "file"
    input = "bytes"


class IndexedTableEach(IndexedTable):
    """One SQLite query for each subscription."""

    each = True


class IndexedTableEachFromBytes(IndexedTableEach):
    """The same on a file, from bytes."""

    storage = "file"
    input = "bytes"


class Dictionary(Side):
    """Python dicts of titles and of pairs of channels, which keep nothing if the process ends."""

    def __init__(self, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(asked, file)
        self._asked: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for qid, (one, other) in enumerate(asked):
            self._asked[channel_url(one), channel_url(other)].append(qid)
        self._kept: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self._found: list[Match] = []

    def push(self, batch: Sequence[Item]) -> float:
        rows = [_row(item) for item in batch]
        began = perf_counter()
        for number, ts, _, channel, title, _ in rows:
            kept = self._kept[title]
            for earlier, then, home in kept:
                if 0 < ts - then <= DAY:
                    for qid in self._asked.get((home, channel), ()):
                        self._found.append((qid, earlier, number))
            kept.append((number, ts, channel))
        return perf_counter() - began

    def matches(self) -> list[Match]:
        return self._found


FROM_BYTES = ", from bytes"
SIDES: dict[str, type[Side]] = {
    "xscl": Ours,
    "DuckDB, one query": Table,
    "DuckDB, one query" + FROM_BYTES: TableFromBytes,
    "DuckDB, each": TableEach,
    "SQLite, one query": IndexedTable,
    "SQLite, one query" + FROM_BYTES: IndexedTableFromBytes,
    "SQLite, each": IndexedTableEach,
    "SQLite, each" + FROM_BYTES: IndexedTableEachFromBytes,
    "Python dict": Dictionary,
}


def query(one: int, other: int) -> str:
    """Return the subscription to titles of one channel that another one repeats within a day."""
    first, second = (
        f'item->{v}[./channel_url="{channel_url(n)}"]'
        for v, n in zip("ab", (one, other), strict=True)
    )
    return f"feed//{first}[./title->t] FOLLOWED BY{{t=u, 1 d}} feed//{second}[./title->u]"


def _row(item: Item) -> Row:
    """Return an item as a row of `COLUMNS`."""
    values = item.values
    return item.number, item.ts, values[0], values[CHANNEL], values[TITLE], values[4]


def _read(batch: Sequence[Item], texts: Sequence[bytes]) -> list[Row]:
    """Return the rows of items from their XML."""
    rows = []
    for item, text in zip(batch, texts, strict=True):
        find = etree.fromstring(text).findtext
        url, channel, title, description = (find(name) or "" for name in _STORED)
        rows.append((item.number, item.ts, url, channel, title, description))
    return rows


def _columns(rows: Sequence[Row]) -> pa.Table:
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=list(COLUMNS))
