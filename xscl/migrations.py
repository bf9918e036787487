"""How a store of an earlier release becomes one of this release.

A store says its version in `state.meta`.  `STEPS` lead from each version to
the next, in one transaction together: a store is of the old version or of the
new one.  Before the first step the database is copied, since an earlier
release does not read what this one has written.

A step is a function of `run`, which runs one statement and returns its rows.
It must not use what the rest of the program says of tables: that goes on
changing, and what a version was does not.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

Rows: TypeAlias = list[tuple[Any, ...]]
Run: TypeAlias = Callable[..., Rows]
Step: TypeAlias = Callable[[Run], None]

COUNTED = """
CREATE SCHEMA mark;
CREATE SEQUENCE mark.commits;
CREATE TABLE mark.store(id VARCHAR);
"""
"""What the file beside the store is compared with (`xscl.mark`), from version 3 on.

The count is a sequence, because transactions that run beside one another would
be in conflict over a row; it is taken right before the commit, in the order of
commits.  All of it is apart from `state`, which says what was pushed, not when.
"""


def _count_commits(run: Run) -> None:
    """Make what the mark is compared with."""
    run(COUNTED)
    run("INSERT INTO mark.store VALUES (?)", [secrets.token_hex(8)])


_COLUMNS = {
    "stream": {"attributes": "VARCHAR"},
    "subscription": {"language": "VARCHAR", "columns": "VARCHAR[]", "events": "VARCHAR"},
    "feed": {
        "domain": "VARCHAR",
        "site_url": "VARCHAR",
        "format": "VARCHAR",
        "quality": "VARCHAR",
        "note": "VARCHAR",
        "failing_since": "BIGINT",
        "code": "VARCHAR",
        "moved_to": "VARCHAR",
        "moved_polls": "INTEGER",
    },
    "feed_item": {"rule": "VARCHAR", "skipped": "INTEGER", "missing_since": "BIGINT"},
    "feed_spool": {"announced": "INTEGER"},
    "late": {"lateness": "BIGINT"},
}
"""What stores of version 2 lack, some of them or all."""


def _complete_columns(run: Run) -> None:
    """Add columns; the tables of feeds may not be there yet."""
    present = set(
        run("SELECT table_name, column_name FROM duckdb_columns() WHERE schema_name = 'state'")
    )
    tables = {table for table, _ in present}
    for table, columns in _COLUMNS.items():
        for name, kind in columns.items():
            if table in tables and (table, name) not in present:
                run(f"ALTER TABLE state.{table} ADD COLUMN {name} {kind}")
    run(
        "UPDATE state.subscription SET language = 'xscl', columns = [], events = ''"
        " WHERE language IS NULL"
    )


def _to_3(run: Run) -> None:
    _complete_columns(run)
    _count_commits(run)


_PROGRESS = {
    "position": 0,
    "told": -1,
    "clock": -1 << 61,
    "next_doc": 1,
    "segment": 0,
    "texts_from": 0,
    "matches_from": 0,
    "documents_from": 0,
    "documents_forgotten": 0,
    "text_bytes": -1,
}
"""The numbers of version 4, and what they are where version 3 has none."""


def _one_row_of_progress(run: Run) -> None:
    """Put the numbers that every push changes in one row, which is one cheap update."""
    columns = ", ".join(f"{name} BIGINT" for name in _PROGRESS)
    run(f"CREATE TABLE state.progress({columns})")
    values = ", ".join(
        f"coalesce(max(value) FILTER (key = '{name}'), {none})" for name, none in _PROGRESS.items()
    )
    run(f"INSERT INTO state.progress SELECT {values} FROM state.meta")
    listed = ", ".join(f"'{name}'" for name in _PROGRESS)
    run(f"CREATE TABLE state.kept_meta AS FROM state.meta WHERE key NOT IN ({listed})")
    run("DROP TABLE state.meta")
    run("ALTER TABLE state.kept_meta RENAME TO meta")


def _one_table_of_join_state(run: Run) -> None:
    """Put the times beside the bindings; nodes and their values are in the bindings anyway."""
    run(
        "CREATE TABLE state.kept_binding AS SELECT b.*, t.* EXCLUDE (doc)"
        " FROM state.binding b JOIN (SELECT DISTINCT * FROM state.times) t USING (doc)"
    )
    for table in ("binding", "times", "node"):
        run(f"DROP TABLE state.{table}")
    run("ALTER TABLE state.kept_binding RENAME TO binding")


def _to_4(run: Run) -> None:
    _one_row_of_progress(run)
    _one_table_of_join_state(run)


_SERVICE = """
CREATE TABLE state.account(number INTEGER, name VARCHAR, quota VARCHAR, created BIGINT);
CREATE TABLE state.token(
    id VARCHAR, account INTEGER, label VARCHAR, hash BLOB, created BIGINT, expires BIGINT,
    session BOOLEAN, parent VARCHAR);
CREATE TABLE state.owned_stream(account INTEGER, name VARCHAR);
CREATE TABLE state.endpoint(
    id VARCHAR, subscription VARCHAR, kind VARCHAR, config VARCHAR, state VARCHAR,
    position BIGINT, failures INTEGER, next_try BIGINT, note VARCHAR, created BIGINT);
CREATE TABLE state.dead_letter(
    endpoint VARCHAR, message VARCHAR, position BIGINT, last BIGINT, died BIGINT,
    attempts INTEGER, reason VARCHAR, next_try BIGINT);
CREATE TABLE state.secret_address(
    hash BLOB, id VARCHAR, subscription VARCHAR, label VARCHAR, created BIGINT);
"""
"""Who uses the service and what belongs to whom; where matches are delivered."""


def _to_5(run: Run) -> None:
    run(_SERVICE)


def _to_6(run: Run) -> None:
    """Change no table: endpoints may wait to be confirmed, which no release before knows."""


_ITEM_COLUMNS = {
    "first_name": "UBIGINT",
    "all_names": "UBIGINT",
    "time_from": "VARCHAR",
    "clipped": "BOOLEAN",
    "written": "VARCHAR",
}


def _to_7(run: Run) -> None:
    """Make room for what items are called and whence their times are; answers to come say it.

    From now on rows of R_T may not be written yet, which no release before makes again.
    """
    if run(
        "SELECT 1 FROM duckdb_tables() WHERE (schema_name, table_name) = ('state', 'feed_item')"
    ):
        for name, kind in _ITEM_COLUMNS.items():
            run(f"ALTER TABLE state.feed_item ADD COLUMN {name} {kind}")


def _to_8(run: Run) -> None:
    """Keep what operators over time keep in entries; the first one found is a whole snapshot."""
    run("CREATE TABLE state.entries(number BIGINT, entry BLOB)")
    run("INSERT INTO state.entries SELECT 0, snapshot FROM state.core")
    run("DROP TABLE state.core")
    run("ALTER TABLE state.entries RENAME TO core")


def _to_9(run: Run) -> None:
    """Keep the times of a document once, beside its bindings.

    Time passes on live streams since version 8, and those of feeds are.
    """
    if run("SELECT 1 FROM duckdb_tables() WHERE (schema_name, table_name) = ('state', 'feed')"):
        run(
            "UPDATE state.stream SET live = true WHERE name = 'feeds' OR name IN"
            " (SELECT stream FROM state.feed UNION ALL SELECT unnest(tags) FROM state.feed)"
        )
    run(
        "CREATE TABLE state.times AS"
        " SELECT DISTINCT doc, start, ts, clock, rank, base FROM state.binding"
    )
    run("CREATE TABLE state.kept_binding AS SELECT doc, pair, node1, node2, key FROM state.binding")
    run("DROP TABLE state.binding")
    run("ALTER TABLE state.kept_binding RENAME TO binding")


COUNTS_FROM = 3
"""The version since which stores count their commits."""

OLDEST = 2
STEPS: tuple[Step, ...] = (_to_3, _to_4, _to_5, _to_6, _to_7, _to_8, _to_9)
"""The first leads from `OLDEST` to the next version, and so on."""

VERSION = OLDEST + len(STEPS)
"""The version that this release writes."""


def migrate(run: Run, found: int, steps: Sequence[Step] = STEPS) -> None:
    """Take the steps from a version to the last one; the caller has begun a transaction."""
    for step in steps[found - OLDEST :]:
        step(run)
    run("UPDATE state.meta SET value = ? WHERE key = 'version'", [OLDEST + len(steps)])
