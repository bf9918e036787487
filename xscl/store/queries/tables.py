"""The tables of the durable store: their columns, with the types that users see, and their keys.

SQLite has no lists and booleans.  A list is stored as the text of JSON, a boolean as 0 or 1.
`encoded` and `decoder` convert values, `stored_column` and `column_of` whole columns.

Rows of the large relations (`RELATIONS`) are not rows of SQLite (`xscl.store.chunks`).  The numbers
that are the key of a table ascend: a new row has a larger number than all before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from templates.model.join_graph import INFINITE
from templates.storage import RELATIONS as JOINED
from templates.storage import sql_schema

EARLIEST = -(INFINITE >> 1)
"""The clock before the first document; all times are nearer to the epoch."""
LEVELS = 64
"""Ranks from one arrival to the next: how deep published streams can be nested."""
VERSION = 28
"""The version of these tables."""
APPLICATION = 0x7873636C
"""The application id of a file of SQLite that is a store: `xscl`."""

ColumnValues: TypeAlias = Sequence[object] | npt.NDArray[Any]

_KINDS = {"VARCHAR": "TEXT", "BLOB": "BLOB", "FLOAT": "REAL"}
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_text_of = lru_cache(1_000)(_encoder.encode)  # for lists of numbers or texts: many are equal
_SHORT = 100  # most items of a list whose text is remembered
_CHANGE = re.compile(
    r"\b(INSERT|REPLACE|UPDATE|DELETE)\s+(?:OR\s+\w+\s+)?(?:INTO\s+|FROM\s+)?state\.(\w+)",
    re.IGNORECASE,
)
_REPLACES = re.compile(r"\bOR\s+REPLACE\b|\bON\s+CONFLICT\b", re.IGNORECASE)
_SUBSCRIPTION = """
    name VARCHAR, query VARCHAR, template INTEGER, qid INTEGER, outputs VARCHAR[],
    places INTEGER[], since BIGINT, is_distinct BOOLEAN, updates BOOLEAN, publish VARCHAR,
    reads VARCHAR[], ordered BOOLEAN, language VARCHAR, columns VARCHAR[], events VARCHAR,
    key VARCHAR, version INTEGER, after BIGINT, until BIGINT, bound_to BIGINT, backfilled BIGINT,
    live BIGINT[], stories BOOLEAN"""

_TABLES = {
    "meta": "key VARCHAR PRIMARY KEY, value BIGINT",
    "progress": """one BIGINT PRIMARY KEY, commits BIGINT, position BIGINT, told BIGINT,
        clock BIGINT, next_doc BIGINT, segment BIGINT, texts_from BIGINT, matches_from BIGINT,
        documents_from BIGINT, documents_forgotten BIGINT, text_bytes BIGINT""",
    "stream": "name VARCHAR PRIMARY KEY, lateness BIGINT, live BOOLEAN, attributes VARCHAR",
    "document": """doc BIGINT PRIMARY KEY, id VARCHAR, given VARCHAR, version INTEGER,
        streams VARCHAR[], ts BIGINT, clock BIGINT, rank BIGINT, base BIGINT, first BIGINT,
        hash BLOB, history BOOLEAN, origin VARCHAR, arrived BIGINT""",
    "text": "doc BIGINT PRIMARY KEY, xml BLOB",
    "composite": """doc BIGINT PRIMARY KEY, docs BIGINT[], nodes INTEGER[], vals VARCHAR[],
        start BIGINT, ts BIGINT, clock BIGINT, rank BIGINT, first BIGINT, version INTEGER,
        bases BIGINT[]""",
    "composite_stream": "number INTEGER, definition VARCHAR",
    "subscription": f"number INTEGER PRIMARY KEY, {_SUBSCRIPTION}",
    "retired": f"number INTEGER, {_SUBSCRIPTION}",
    "backfill": """subscription INTEGER, key VARCHAR, doc BIGINT, clock BIGINT, most BIGINT,
        acknowledged BOOLEAN""",
    "core": "number BIGINT PRIMARY KEY, entry BLOB",
    "late": "doc BIGINT, missed VARCHAR, watermark BIGINT, lateness BIGINT",
    "cut": "qid INTEGER, doc BIGINT, id VARCHAR",
    "ledger": "query_id VARCHAR, batch_id BIGINT",
    "rejected": """stream VARCHAR, id VARCHAR, reason VARCHAR, line INTEGER, column INTEGER,
        message VARCHAR, sha256 VARCHAR, beginning BLOB, clock BIGINT""",
    "account": "number INTEGER PRIMARY KEY, name VARCHAR, quota VARCHAR, created BIGINT",
    "token": """id VARCHAR PRIMARY KEY, account INTEGER, label VARCHAR, hash BLOB, created BIGINT,
        expires BIGINT, session BOOLEAN, parent VARCHAR""",
    "owned_stream": "account INTEGER, name VARCHAR",
    "endpoint": """id VARCHAR PRIMARY KEY, subscription VARCHAR, kind VARCHAR, config VARCHAR,
        state VARCHAR, position BIGINT, failures INTEGER, next_try BIGINT, note VARCHAR,
        created BIGINT""",
    "dead_letter": """endpoint VARCHAR, message VARCHAR, position BIGINT, last BIGINT, died BIGINT,
        attempts INTEGER, reason VARCHAR, next_try BIGINT""",
    "secret_address": """hash BLOB, id VARCHAR, subscription VARCHAR, label VARCHAR,
        created BIGINT""",
    "star": """account INTEGER, match VARCHAR, subscription VARCHAR, starred BIGINT,
        view VARCHAR""",
    "story": """id VARCHAR PRIMARY KEY, key VARCHAR, founder BIGINT, began BIGINT, last BIGINT,
        root VARCHAR, merged BIGINT""",
    "story_document": """key VARCHAR, doc BIGINT, story VARCHAR, position BIGINT,
        match BIGINT""",
    "read_mark": "account INTEGER, item VARCHAR, read BIGINT",
    "preference": "account INTEGER, name VARCHAR, value VARCHAR",
    "subscription_tag": "subscription VARCHAR, tag VARCHAR",
    "saved_statement": "account INTEGER, name VARCHAR, statement VARCHAR, saved BIGINT",
    "variable": "id INTEGER PRIMARY KEY, definition VARCHAR",
    "pair": "id INTEGER PRIMARY KEY, var1 INTEGER, var2 INTEGER",
    "template": "id INTEGER PRIMARY KEY, graph VARCHAR",
    "r_t": """template INTEGER, qid INTEGER PRIMARY KEY, pairs INTEGER[], op TINYINT, lower BIGINT,
        wl BIGINT,
        keep BIGINT, lead TINYINT""",
    "feed": """key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,
        added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,
        unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,
        next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN,
        domain VARCHAR, site_url VARCHAR, format VARCHAR, quality VARCHAR, note VARCHAR,
        failing_since BIGINT, code VARCHAR, moved_to VARCHAR, moved_polls INTEGER, hub VARCHAR,
        topic VARCHAR, header_names VARCHAR[], given_title VARCHAR,
        last_item BIGINT""",
    "feed_item": """key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, rule VARCHAR,
        skipped INTEGER, missing_since BIGINT, first_name BIGINT, all_names BIGINT,
        time_from VARCHAR, clipped BOOLEAN, written VARCHAR, alike BIGINT""",
    "feed_spool": "segment BIGINT, announced INTEGER",
    "feed_lease": """key VARCHAR PRIMARY KEY, hub VARCHAR, topic VARCHAR, callback VARCHAR,
        asked BIGINT, due BIGINT, confirmed BIGINT, until BIGINT, failures INTEGER,
        denied BOOLEAN, note VARCHAR, deliveries BIGINT, delivered BIGINT""",
    "feed_poll": """key VARCHAR, polled BIGINT, outcome VARCHAR, seconds FLOAT, items INTEGER,
        note VARCHAR""",
    "chunk": """id BIGINT PRIMARY KEY, relation VARCHAR, first BIGINT, last BIGINT, rows BIGINT,
        size BIGINT, crc BIGINT, data BLOB""",
}

ASCENDING = ("document",)
"""Tables in which the number of a removed row is never given to another row."""

_INDEXES = (
    *("chunk(relation, last, first)", "late(doc)", "cut(qid)", "retired(key)", "feed_poll(key)"),
    *("token(account)", "owned_stream(account)", "endpoint(subscription)", "dead_letter(endpoint)"),
    *("secret_address(hash)", "star(account, match)", "subscription_tag(subscription)"),
    *("saved_statement(account, name)", "subscription(name)", "account(name)"),
    *("feed(gone, next_poll, key, domain)", "feed(url)"),
    *("story(key, last)", "story(root)", "story_document(story)", "story_document(key, position)"),
)
_UNIQUE = (
    *("feed_item(key, identity)", "ledger(query_id, batch_id)", "story_document(key, doc)"),
    *("read_mark(account, item)", "preference(account, name)"),
)


class ChunkedRelation(NamedTuple):
    """A large relation: its columns, and the one by which its rows are found and dropped."""

    schema: pa.Schema
    order: str | None


def _columns(text: str) -> dict[str, str]:
    """Return the type and constraint of each column, by name, from a list in SQL."""
    return dict((one.split(maxsplit=1)) for one in text.split(","))


TABLES: Mapping[str, pa.Schema] = {name: sql_schema(text) for name, text in _TABLES.items()}
"""The columns of the tables of rows, as users see them."""

RELATIONS: Mapping[str, ChunkedRelation] = {
    "binding": ChunkedRelation(JOINED["binding"], "doc"),
    "times": ChunkedRelation(JOINED["times"], "doc"),
    "value": ChunkedRelation(JOINED["value"], None),
    "result": ChunkedRelation(
        sql_schema("position BIGINT, qid INTEGER, doc1 BIGINT, doc2 BIGINT, nodes INTEGER[]"),
        "position",
    ),
}
"""R_bin, R_docTS, the string values of R_doc, and the results."""


def schema_of(name: str) -> pa.Schema:
    """Return the columns of a table or a relation."""
    return TABLES[name] if name in TABLES else RELATIONS[name].schema


def named(columns: Iterable[str]) -> str:
    """Return SQL for a list of columns, quoted."""
    return ", ".join(f'"{name}"' for name in columns)


def create_statements() -> str:
    """Return the SQL that makes the tables, empty except for the row of `progress`."""
    made = []
    for table, text in _TABLES.items():
        columns = [f'"{name}" {_kind(kind)}' for name, kind in _columns(text).items()]
        made.append(f"CREATE TABLE state.{table} ({', '.join(columns)}) STRICT")
    for unique, indexes in (("", _INDEXES), ("UNIQUE ", _UNIQUE)):
        for index in indexes:
            table, _, names = index.partition("(")
            made.append(f"CREATE {unique}INDEX state.{table}_{names[:-1].replace(', ', '_')}")
            made[-1] += f" ON {index}"
    made.append(
        "INSERT INTO state.progress (one, commits, position, told, clock, next_doc, segment,"
        " texts_from, matches_from, documents_from, documents_forgotten, text_bytes)"
        f" VALUES (1, 0, 0, -1, {EARLIEST}, 1, 0, 0, 0, 0, 0, 0)"
    )
    return ";\n".join((*made, f"PRAGMA state.user_version = {VERSION}"))


def _kind(kind: str) -> str:
    """Return the type in SQLite for one of `_TABLES`, with its constraint."""
    word, _, constraint = kind.partition(" ")
    return f"{'TEXT' if word.endswith('[]') else _KINDS.get(word, 'INTEGER')} {constraint}"


# -- Values --------------------------------------------------------------------------------


def encoded(value: Any) -> Any:
    """Return a value as SQLite stores it."""
    match value:
        case [list() | tuple(), *_]:
            return _encoder.encode(value)
        case list() | tuple():
            return (_text_of if len(value) <= _SHORT else _encoder.encode)(tuple(value))
        case _:
            return value


@lru_cache(4_096)
def _items_of(text: str) -> tuple[Any, ...]:
    """Return the items of a stored list; most lists are short, and many are equal."""
    return tuple(json.loads(text))


def _list_of(text: str) -> list[Any]:
    return list(_items_of(text))


def decoder(kind: pa.DataType | None) -> Callable[[Any], Any] | None:
    """Return the function that decodes stored values of a type; None if they need no decoding."""
    if kind is None:
        return None
    if pa.types.is_list(kind):
        return _list_of
    return bool if pa.types.is_boolean(kind) else None


def values_of(stored: Sequence[Any], kind: pa.DataType | None) -> Sequence[Any]:
    """Return the values of a column from the stored ones; lists as tuples."""
    decode = decoder(kind)
    if decode is None:
        return stored
    decode = _items_of if decode is _list_of else decode
    return [None if one is None else decode(one) for one in stored]


def stored_column(values: ColumnValues, kind: pa.DataType) -> Sequence[object]:
    """Return a column of Python values or of NumPy as SQLite stores it."""
    if isinstance(values, np.ndarray):
        listed: list[object] = values.tolist()
        values = listed
    return [*map(encoded, values)] if pa.types.is_list(kind) else values


def column_of(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    """Return stored values as a column of a type; with None pyarrow infers the type."""
    if kind is None:
        return pa.array(values)
    if pa.types.is_list(kind):
        if 2 * len(set(values)) < len(values):  # equal ones are parsed once, in a tenth of the time
            texts = pa.array(values, pa.string()).dictionary_encode()
            return column_of(texts.dictionary.to_pylist(), kind).take(texts.indices)
        read = json.loads(f"[{','.join('null' if value is None else value for value in values)}]")
        return pa.array(read, kind)
    if kind == pa.bool_():
        return pa.array(values, pa.int8()).cast(kind)
    return pa.array(values, kind)


# -- Statements ----------------------------------------------------------------------------


@lru_cache
def insertion(table: str, columns: tuple[str, ...], *, replace: bool = False) -> str:
    """Return SQL that appends a row of parameters, or replaces the row of the same key."""
    places = ", ".join("?" * len(columns))
    verb = "INSERT OR REPLACE" if replace else "INSERT"
    return f"{verb} INTO state.{table} ({named(columns)}) VALUES ({places})"


@lru_cache(1_000)
def changes_of(sql: str) -> tuple[tuple[str, str], ...]:
    """Return (table, INSERT, UPDATE or DELETE) for a statement; a replacement is an UPDATE."""
    replaces = "UPDATE" if _REPLACES.search(sql) else ""
    return tuple((table.lower(), replaces or verb.upper()) for verb, table in _CHANGE.findall(sql))


class Shape(NamedTuple):
    """The columns of an answer; `types` has None for a computed column.

    `decoders` has, with their indexes, the decoders of the columns that need one.
    """

    names: tuple[str, ...]
    types: tuple[pa.DataType | None, ...]
    decoders: tuple[tuple[int, Callable[[Any], Any]], ...]

    @classmethod
    def of(cls, described: Sequence[tuple[str | None, ...]]) -> Shape:
        types = tuple(_type_of(table, column) for *_, table, column in described)
        found = ((place, decoder(kind)) for place, kind in enumerate(types))
        decoders = tuple((place, decode) for place, decode in found if decode is not None)
        return cls(tuple(str(one[0]) for one in described), types, decoders)

    def decoded(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows with their stored values decoded."""
        return [self._decoded(row) for row in rows] if self.decoders else rows

    def _decoded(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for place, decode in self.decoders:
            if values[place] is not None:
                values[place] = decode(values[place])
        return tuple(values)


def _type_of(table: str | None, column: str | None) -> pa.DataType | None:
    """Return the type of a stored column, None for one that is computed."""
    schema = TABLES.get(table or "")
    return schema.field(column).type if schema and column in schema.names else None
