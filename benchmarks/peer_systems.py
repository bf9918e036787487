"""The systems that `peers` compares on title joins across channels.

A side takes batches of items in, and commits them with their matches.  A match is (number of the
subscription, number of the earlier item, number of the later one).  With the input `rows` a side
gets rows that are ready for it; with `bytes` it reads the XML itself, with lxml.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

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

    def __init__(self, system: System, asked: Sequence[Channels], file: Path) -> None:
        self.system = system
        self.counted = min(SAMPLE, len(asked)) if system.each else len(asked)

    @abstractmethod
    def push(self, batch: Sequence[Item]) -> float:
        """Store a batch with its matches."""

    @abstractmethod
    def matches(self) -> list[Match]:
        """Return all matches so far."""

    def close(self) -> None:  # noqa: B027  # a side in memory has nothing to close
        """Close the database."""


@dataclass(frozen=True, slots=True)
class System:
    """A kind of side: where it stores, what it reads, and whether each subscription is a query."""

    kind: type[Side]
    storage: str = "memory"
    input: str = "rows"
    each: bool = False

    def __call__(self, asked: Sequence[Channels], file: Path) -> Side:
        """Return a side with subscriptions, whose database is a file unless it is in memory."""
        return self.kind(self, asked, file)


class Ours(Side):
    """An engine on a file, from bytes to committed matches."""

    def __init__(self, system: System, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(system, asked, file)
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


class Database(Side):
    """A database with one SQL query for all subscriptions, or with one for each."""

    def __init__(self, system: System, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(system, asked, file)
        self._asked = [(channel_url(one), channel_url(other)) for one, other in asked]
        self._scale = len(asked) / self.counted
        self._open(str(file) if system.storage == "file" else ":memory:")

    @abstractmethod
    def _open(self, name: str) -> None:
        """Open the database, and insert the subscriptions."""

    @abstractmethod
    def _ready(self, rows: list[Row]) -> Any:
        """Return rows in the form that the database inserts."""

    @abstractmethod
    def _store(self, ready: Any) -> None:
        """Insert rows in a transaction that is committed later."""

    @abstractmethod
    def _join(self, first: int) -> None:
        """Insert the matches of the items from a number on, the last batch."""

    def push(self, batch: Sequence[Item]) -> float:
        texts = [item.document().xml for item in batch]
        ready = self._ready([_row(item) for item in batch])
        began = perf_counter()
        if self.system.input == "bytes":
            ready = self._ready(_read(batch, texts))
        self._store(ready)
        stored = perf_counter()
        self._join(batch[0].number)
        joined = perf_counter()
        self._run("COMMIT")
        return stored - began + (joined - stored) * self._scale + perf_counter() - joined

    def matches(self) -> list[Match]:
        found: list[Match] = self._run("SELECT qid, earlier, later FROM matches").fetchall()
        return found

    def close(self) -> None:
        self._database.close()

    _database: Any
    _run: Callable[..., Any]


class DuckDB(Database):
    """A DuckDB database, which inserts columns."""

    def _open(self, name: str) -> None:
        self._database = duckdb.connect(name)
        self._run = self._database.execute
        for statement in _TABLES:
            self._run(statement)
        qids, ones, others = range(len(self._asked)), *zip(*self._asked, strict=True)
        self._insert("subs", pa.table([pa.array(c) for c in (qids, ones, others)], ["q", "a", "b"]))

    def _insert(self, table: str, rows: pa.Table) -> None:
        self._database.register("batch", rows)
        self._run(f"INSERT INTO {table} FROM batch")

    def _ready(self, rows: list[Row]) -> pa.Table:
        columns = [pa.array(column) for column in zip(*rows, strict=True)]
        return pa.table(columns, names=list(COLUMNS))

    def _store(self, ready: pa.Table) -> None:
        self._run("BEGIN")
        self._insert("items", ready)

    def _join(self, first: int) -> None:
        if not self.system.each:
            self._run(_DUCKDB)
            return
        for qid, pair in enumerate(self._asked[: self.counted]):
            self._run(_DUCKDB_EACH, (qid, *pair))


_PAIRS = "a.title = b.title AND a.ts < b.ts AND b.ts - a.ts <= " + str(DAY)
_DUCKDB = (
    f"INSERT INTO matches SELECT qid, a.number, b.number FROM batch b JOIN items a ON {_PAIRS}"
    " JOIN subs s ON s.one = a.channel AND s.other = b.channel"
)
_DUCKDB_EACH = (
    "INSERT INTO matches SELECT ?::BIGINT, a.number, b.number FROM batch b"
    f" JOIN items a ON {_PAIRS} WHERE a.channel = ? AND b.channel = ?"
)


class SQLite(Database):
    """A SQLite database with indexes, which inserts rows."""

    def _open(self, name: str) -> None:
        self._database = sqlite3.connect(name, isolation_level=None)
        self._run = self._database.execute
        for statement in (*_DURABLE, *_TABLES, *_INDEXES, "BEGIN"):
            self._run(statement)
        rows = ((qid, *pair) for qid, pair in enumerate(self._asked))
        self._database.executemany("INSERT INTO subs VALUES (?, ?, ?)", rows)
        self._run("COMMIT")

    def _ready(self, rows: list[Row]) -> list[Row]:
        return rows

    def _store(self, ready: list[Row]) -> None:
        self._run("BEGIN")
        self._database.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", ready)

    def _join(self, first: int) -> None:
        if not self.system.each:
            self._run(_SQLITE, (first,))
            return
        for qid, (one, other) in enumerate(self._asked[: self.counted]):
            self._run(_SQLITE_EACH, (qid, other, first, one))


_DURABLE = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL")  # as the others are
_INDEXES = (
    "CREATE INDEX by_title ON items (title)",
    "CREATE INDEX by_channel ON items (channel, number)",
    "CREATE INDEX by_number ON items (number)",
    "CREATE INDEX by_channels ON subs (one, other)",
)
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


class Dictionary(Side):
    """Python dicts of titles and of pairs of channels, which keep nothing if the process ends."""

    def __init__(self, system: System, asked: Sequence[Channels], file: Path) -> None:
        super().__init__(system, asked, file)
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
SIDES: dict[str, System] = {
    "xscl": System(Ours, "file", "bytes"),
    "DuckDB, one query": System(DuckDB),
    "DuckDB, one query" + FROM_BYTES: System(DuckDB, "file", "bytes"),
    "DuckDB, each": System(DuckDB, each=True),
    "SQLite, one query": System(SQLite),
    "SQLite, one query" + FROM_BYTES: System(SQLite, "file", "bytes"),
    "SQLite, each": System(SQLite, each=True),
    "SQLite, each" + FROM_BYTES: System(SQLite, "file", "bytes", each=True),
    "Python dict": System(Dictionary),
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
