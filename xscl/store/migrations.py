"""Migrations of a store of an earlier release to this release.

A store records its version in `state.meta`.  `STEPS` lead from each version to the next, all in
one transaction: a store is of the old version or of the new one.  Before the first step the
database is copied, since an earlier release cannot read what this one writes.

A step is a function of `run`, which executes one statement and returns its rows.  It must not use
the program's current definitions of tables: these keep changing, and a past version does not.

The schema starts at 1.  Development versions before the first release wrote versions 1 to 9, with
other tables.  They are refused (decision 047), so the first step leads to version 10.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Rows: TypeAlias = list[tuple[Any, ...]]
Run: TypeAlias = Callable[..., Rows]
Step: TypeAlias = Callable[[Run], None]

FIRST = 1
"""The version of the first release."""

LAST_TABLE = "state", "cut"
"""The table that the schema got last; stores of version 1 without it are of development."""

DEVELOPMENT = range(2, 10)
"""Further versions that development versions wrote; no step leads to one."""


def _times_of_arrival(run: Run) -> None:
    """Add the time at which a document arrived: in earlier stores the clock after its arrival."""
    run("ALTER TABLE state.document ADD COLUMN arrived BIGINT")
    run("UPDATE state.document SET arrived = greatest(clock, ts)")


def _versions_of_subscriptions(run: Run) -> None:
    """Give subscriptions a key, a version and bounds, and a table to the earlier versions."""
    run("ALTER TABLE state.subscription ADD COLUMN key VARCHAR")
    run("ALTER TABLE state.subscription ADD COLUMN version INTEGER")
    run("ALTER TABLE state.subscription ADD COLUMN after BIGINT")
    run("ALTER TABLE state.subscription ADD COLUMN until BIGINT")
    run("UPDATE state.subscription SET key = name, version = 1, after = 0")
    run("CREATE TABLE state.retired AS FROM state.subscription LIMIT 0")


def _histories(run: Run) -> None:
    """Add the columns of subscriptions that begin with kept documents."""
    for table in ("subscription", "retired"):
        run(f"ALTER TABLE state.{table} ADD COLUMN bound_to BIGINT")
        run(f"ALTER TABLE state.{table} ADD COLUMN backfilled BIGINT")
        run(f"UPDATE state.{table} SET backfilled = -1")


def _links_and_titles_of_items(run: Run) -> None:
    """Give the items of feeds a number for link and title; a store without feeds has no table."""
    if _has(run, "feed_item"):
        run("ALTER TABLE state.feed_item ADD COLUMN alike UBIGINT")


def _stars(run: Run) -> None:
    """Add the starred matches of users."""
    run(
        "CREATE TABLE state.star(account INTEGER, match VARCHAR, subscription VARCHAR,"
        " starred BIGINT, view VARCHAR)"
    )


def _leases_of_hubs(run: Run) -> None:
    """Give feeds their hubs, and a table to the leases there; a store may have no feeds."""
    if _has(run, "feed"):
        run("ALTER TABLE state.feed ADD COLUMN hub VARCHAR")
        run("ALTER TABLE state.feed ADD COLUMN topic VARCHAR")
        run(
            "CREATE TABLE state.feed_lease(key VARCHAR PRIMARY KEY, hub VARCHAR, topic VARCHAR,"
            " callback VARCHAR, asked BIGINT, due BIGINT, confirmed BIGINT, until BIGINT,"
            " failures INTEGER, denied BOOLEAN, note VARCHAR, deliveries BIGINT, delivered BIGINT,"
            " missed BIGINT)"
        )


def _joins_without_an_index(run: Run) -> None:
    """Note the number from which on an index of texts chooses the candidates of subscriptions."""
    for key, value in run("SELECT 'indexed_from', max(number) + 1 FROM state.subscription"):
        if value is not None:
            run("INSERT INTO state.meta VALUES (?, ?)", [key, value])


def _has(run: Run, table: str) -> bool:
    tables = (
        "SELECT table_name FROM duckdb_tables()"
        " WHERE database_name = current_database() AND schema_name = 'state'"
    )
    return (table,) in run(tables)


def _backfills(run: Run) -> None:
    """Give backfills that are not complete a table; note which shared matches are not of them."""
    for table in ("subscription", "retired"):
        run(f"ALTER TABLE state.{table} ADD COLUMN live BIGINT[]")
        run(f"UPDATE state.{table} SET live = []")
    run(
        "CREATE TABLE state.backfill(subscription INTEGER, key VARCHAR, doc BIGINT, clock BIGINT,"
        " most BIGINT, acknowledged BOOLEAN)"
    )


def _tags_and_histories_of_feeds(run: Run) -> None:
    """Add the tags of subscriptions, the saved statements of users, and the last polls of feeds."""
    run("CREATE TABLE state.subscription_tag(subscription VARCHAR, tag VARCHAR)")
    run(
        "CREATE TABLE state.saved_statement(account INTEGER, name VARCHAR, statement VARCHAR,"
        " saved BIGINT)"
    )
    if _has(run, "feed"):
        run(
            "CREATE TABLE state.feed_poll(key VARCHAR, polled BIGINT, outcome VARCHAR,"
            " seconds FLOAT, items INTEGER, note VARCHAR)"
        )


def _journal(run: Run) -> None:
    """Note the last record of the journal whose rows the database has."""
    run("ALTER TABLE mark.store ADD COLUMN journal BIGINT")
    run("UPDATE mark.store SET journal = 0")


def _names_of_documents(run: Run) -> None:
    """Name documents by stream, id and version; what users sent had their numbers in ids, too."""
    owner = r"regexp_extract({0}, '^_[0-9]+\.')"
    for table, id, stream in (("document", "given", "streams[1]"), ("rejected", "id", "stream")):
        prefix = owner.format(id)
        run(
            f"UPDATE state.{table} SET {id} = {id}[len({prefix}) + 1:]"
            f" WHERE {prefix} <> '' AND {prefix} = {owner.format(stream)}"
        )
    run(
        "UPDATE state.document SET id = named.name FROM (SELECT doc,"
        " CASE WHEN stream = 'S' AND NOT contains(given, '/') THEN '' ELSE stream || '/' END"
        " || given || CASE WHEN number = 1 AND NOT regexp_full_match(given, '(?s).*@[0-9]+')"
        " THEN '' ELSE '@' || number END AS name FROM (SELECT doc, given, streams[1] AS stream,"
        " row_number() OVER (PARTITION BY streams[1], given ORDER BY doc) AS number"
        " FROM state.document)) AS named WHERE named.doc = document.doc"
    )
    run("UPDATE state.cut SET id = d.id FROM state.document d WHERE d.doc = cut.doc")


def _joins_in_one_table(run: Run) -> None:
    """Put the rows of all templates into one table."""
    run(
        "CREATE TABLE state.r_t(template INTEGER, qid INTEGER, pairs INTEGER[], op TINYINT,"
        " wl BIGINT, keep BIGINT, apart BOOLEAN)"
    )
    for (number,) in run("SELECT id FROM state.template ORDER BY id"):
        ((pairs,),) = run(
            "SELECT string_agg(column_name ORDER BY column_index) FROM duckdb_columns()"
            " WHERE database_name = current_database() AND schema_name = 'state'"
            " AND table_name = ? AND regexp_full_match(column_name, 'p[0-9]+')",
            [f"t_{number}"],
        )
        run(
            "INSERT INTO state.r_t (template, qid, pairs, op, wl, keep, apart)"
            f" SELECT {number}, qid, [{pairs}], op, wl, keep, apart FROM state.t_{number}"
        )
        run(f"DROP TABLE state.t_{number}")


def _names_of_headers(run: Run) -> None:
    """Give feeds the names of their headers, which the next poll of each notes."""
    if _has(run, "feed"):
        run("ALTER TABLE state.feed ADD COLUMN header_names VARCHAR[]")


def _tables_of_feeds(run: Run) -> None:
    """Give stores without feeds the tables of these."""
    for table in (
        "feed(key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,"
        " added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,"
        " unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,"
        " next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN,"
        " domain VARCHAR, site_url VARCHAR, format VARCHAR, quality VARCHAR, note VARCHAR,"
        " failing_since BIGINT, code VARCHAR, moved_to VARCHAR, moved_polls INTEGER, hub VARCHAR,"
        " topic VARCHAR, header_names VARCHAR[])",
        "feed_item(key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, rule VARCHAR,"
        " skipped INTEGER, missing_since BIGINT, first_name UBIGINT, all_names UBIGINT,"
        " time_from VARCHAR, clipped BOOLEAN, written VARCHAR, alike UBIGINT,"
        " PRIMARY KEY (key, identity))",
        "feed_spool(segment BIGINT, announced INTEGER)",
        "feed_lease(key VARCHAR PRIMARY KEY, hub VARCHAR, topic VARCHAR, callback VARCHAR,"
        " asked BIGINT, due BIGINT, confirmed BIGINT, until BIGINT, failures INTEGER,"
        " denied BOOLEAN, note VARCHAR, deliveries BIGINT, delivered BIGINT, missed BIGINT)",
        "feed_poll(key VARCHAR, polled BIGINT, outcome VARCHAR, seconds FLOAT, items INTEGER,"
        " note VARCHAR)",
    ):
        run(f"CREATE TABLE IF NOT EXISTS state.{table}")


STEPS: Mapping[int, Step] = {
    10: _times_of_arrival,
    11: _versions_of_subscriptions,
    12: _histories,
    13: _links_and_titles_of_items,
    14: _stars,
    15: _leases_of_hubs,
    16: _joins_without_an_index,
    17: _backfills,
    18: _tags_and_histories_of_feeds,
    19: _journal,
    20: _names_of_documents,
    21: _joins_in_one_table,
    22: _names_of_headers,
    23: _tables_of_feeds,
}
"""The steps by the version that each leads to, in ascending order."""


def current_version() -> int:
    """Return the version that this release writes."""
    return max(STEPS, default=FIRST)


def is_readable(version: int) -> bool:
    """Return True if this release reads stores of a version."""
    return version == FIRST or version in STEPS


def migrate(run: Run, found: int) -> None:
    """Take the steps from a version to the current one; the caller has begun a transaction."""
    for version, step in STEPS.items():
        if version > found:
            step(run)
    run("UPDATE state.meta SET value = ? WHERE key = 'version'", [current_version()])
