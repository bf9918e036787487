"""A store of an earlier release, opened: as if this one had made it."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

import xscl
from tests.examples import usually
from tests.xscl.commandline import called
from xscl import migrations, store
from xscl.errors import StoreError
from xscl.followed import Feeds
from xscl.mark import read_mark
from xscl.migrations import OLDEST, STEPS, VERSION
from xscl.store import Store
from xscl.storeerrors import StoreWentBack

VERSION_2 = (Path(__file__).parent / "version_2.sql").read_text("utf-8")
"""The tables of version 2, and what they held after `SUBSCRIPTIONS` and the first documents."""

FIRST_FEEDS = """
DROP TABLE state.feed; DROP TABLE state.feed_item; DROP TABLE state.feed_secret;
CREATE TABLE state.feed(
    key VARCHAR PRIMARY KEY, url VARCHAR, stream VARCHAR, tags VARCHAR[], every BIGINT,
    added BIGINT, title VARCHAR, etag VARCHAR, last_modified VARCHAR, validated_by VARCHAR,
    unchanged INTEGER, ttl BIGINT, skip_hours VARCHAR, skip_days VARCHAR, polled BIGINT,
    next_poll BIGINT, polls BIGINT, failures INTEGER, error VARCHAR, gone BOOLEAN);
CREATE TABLE state.feed_item(
    key VARCHAR, identity VARCHAR, hash BLOB, versions INTEGER, PRIMARY KEY (key, identity));
INSERT INTO state.feed VALUES ('k', 'http://u:pw@x.a.example:80/f', 's', ['t'], 60, 5, '', NULL,
    NULL, '', 0, NULL, '', '', NULL, 5, 1, 0, NULL, FALSE);
INSERT INTO state.feed_item VALUES ('k', 'one', 'x', 1);
"""
"""The feeds of the first release that had any, in a store of version 2."""

BEFORE_CEL = """
ALTER TABLE state.stream DROP COLUMN attributes;
DELETE FROM state.subscription WHERE language = 'cel' OR ordered;
DELETE FROM state.core;
ALTER TABLE state.subscription DROP COLUMN events;
ALTER TABLE state.subscription DROP COLUMN columns;
ALTER TABLE state.subscription DROP COLUMN language;
"""

SUBSCRIPTIONS = {
    "twice": "S//a[./k->x] FOLLOWED BY{x=y, 20} S//a[./k->y]",
    "join": "S//a[./k->x][./n->n] JOIN{x=y AND n=m, 1 h} S//a[./k->y][./n->m]",
    "next": "S//a[./k->x] NEXT{x=y} S//a[./k->y]",
    "none": "S//a[./k->x] NOT FOLLOWED BY{x=y, 6} S//b[./k->y]",
    "chain": "S//a[./k->x] FOLLOWED BY{x=y, 30} S//a[./k->y] FOLLOWED BY{y=z, 30} S//a[./k->z]",
    "made": "SELECT <p>{x}</p> FROM S//a[./k->x] FOLLOWED BY{x=y, 20} S//b[./k->y] PUBLISH P",
    "reads": "P//k->x JOIN{x=y, 100} S//a[./k->y]",
}


def document(number: int) -> xscl.Document:
    tag = "b" if number % 3 == 2 else "a"
    text = f"<{tag}><k>{'uv'[number % 2]}</k><n>{number % 5}</n></{tag}>"
    return xscl.Document("S", f"d{number}", number * 2, text.encode())


def prepared(engine: xscl.Engine) -> None:
    """Do what was done in the store of version 2."""
    engine.stream("S", lateness=3)
    engine.stream("T", attributes={"k": str})
    for name, query in SUBSCRIPTIONS.items():
        engine.subscribe(name, query)
    engine.subscribe("cel", "SELECT k FROM T NEXT{$1.k = $2.k} T", language="cel")
    for number in range(6):
        engine.push(document(number), source=("direct", number + 1))
    engine.push(xscl.Document("T", "t0", 11, b"<t><k>u</k></t>"))
    engine.push(xscl.Document("S", "bad", 11, b"<a"))
    engine.push(xscl.Document("S", "late", 1, b"<a><k>u</k><n>9</n></a>"))
    engine.push(xscl.Document("S", "d1", 12, b"<a><k>u</k><n>3</n></a>"))
    engine.unsubscribe("join")


def continued(engine: xscl.Engine) -> dict[str, object]:
    """Go on, and return everything that was found, before and after."""
    for number in range(6, 14):
        engine.push(document(number))
    engine.push(xscl.Document("T", "t1", 30, b"<t><k>u</k></t>"))
    engine.push(document(3))  # it is known
    engine.flush()
    tables = {
        name: engine.sql(f"SELECT * FROM {name} ORDER BY ALL").to_pylist()
        for name in ("documents", "rejected", "R_bin", "R_doc", "R_docTS", "subscriptions")
    }
    found = [(match.id, match.subscription, match.documents) for match in engine.matches()]
    return {"found": found, "consumed": engine.consumed("direct"), **tables}


def made(path: Path, *scripts: str) -> Path:
    """Make a store of version 2 as DuckDB has it."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS store; USE store")
        for script in scripts:
            connection.execute(script)
    return path


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return made(tmp_path / "state.duckdb", VERSION_2)


def columns(path: Path) -> list[tuple[object, ...]]:
    """All columns of a store with the tables of feeds."""
    with xscl.Engine(path) as engine, Feeds(engine), closing(engine.store()) as opened:
        return opened.fetch(
            "SELECT schema_name, table_name, column_name, column_index, data_type, is_nullable,"
            " column_default FROM duckdb_columns() WHERE schema_name IN ('state', 'mark')"
            " AND NOT regexp_matches(table_name, '^t_[0-9]+$') ORDER BY ALL"
        )


@pytest.mark.parametrize(
    "variant",
    usually(["", FIRST_FEEDS, BEFORE_CEL, FIRST_FEEDS + BEFORE_CEL], "", FIRST_FEEDS + BEFORE_CEL),
)
def test_it_has_the_columns_of_a_store_made_afresh(tmp_path: Path, variant: str) -> None:
    old = made(tmp_path / "old.duckdb", VERSION_2, variant)
    assert columns(old) == columns(tmp_path / "new.duckdb")


def test_everything_goes_on(old: Path, tmp_path: Path) -> None:
    with xscl.Engine() as engine:
        prepared(engine)
        never_stopped = continued(engine)
    with xscl.Engine(old) as engine:
        assert [one.language for one in engine.subscriptions] == ["xscl"] * 6 + ["cel"]
        found = continued(engine)
    assert found == never_stopped
    subscriptions = {match[1] for match in found["found"]}  # type: ignore[attr-defined]
    assert subscriptions == {*SUBSCRIPTIONS, "cel"} - {"join"}
    with xscl.Engine(old) as engine:
        assert [(m.id, m.subscription, m.documents) for m in engine.matches()] == found["found"]


def test_stores_from_before_cel_know_their_language(tmp_path: Path) -> None:
    old = made(tmp_path / "state.duckdb", VERSION_2, BEFORE_CEL)
    with xscl.Engine(old) as engine:
        assert {one.language for one in engine.subscriptions} == {"xscl"}
        engine.stream("U", attributes={"k": str})
        engine.subscribe("cel", "SELECT k FROM U NEXT{$1.k = $2.k} U", language="cel")
    with xscl.Engine(old) as engine:
        assert engine.subscriptions[-1].language == "cel"


def test_the_feeds_of_the_first_release(tmp_path: Path) -> None:
    old = made(tmp_path / "state.duckdb", VERSION_2, FIRST_FEEDS)
    with xscl.Engine(old) as engine, Feeds(engine) as feeds:
        (feed,) = feeds
        assert feed.url == "http://x.a.example:80/f"
        assert feed.headers == (("Authorization", "Basic dTpwdw=="),)
        assert (feed.state, feed.tags, feed.quality) == ("ok", ("t",), "")
        assert feeds.next_due(5, (), 9) == [feed]
        assert feeds.next_due(5, ("a.example",), 9) == []
        counted = feeds.counts()["k"]
        assert (counted.items, counted.versions) == (1, 1)


def test_the_feeds_of_version_2(old: Path) -> None:
    with xscl.Engine(old) as engine, Feeds(engine) as feeds:
        (feed,) = feeds
        assert (engine.is_live(feed.stream), engine.is_live("T")) == (True, False)
        assert feed.url == "https://x.example.org/feed.xml"
        assert feed.headers == (("Authorization", "Basic dTpwdw=="),)
        assert list(feeds.items(feed)) == ["one"]


def test_the_feeds_of_a_store_that_was_of_version_8_already(old: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{old}' AS store; USE store")
        migrations.migrate(
            lambda query, *values: connection.execute(query, *values).fetchall(),
            OLDEST,
            STEPS[: 8 - OLDEST],
        )
        connection.execute("SELECT nextval('mark.commits'); UPDATE state.stream SET live = false")
        feeds = connection.execute("SELECT stream FROM state.feed").fetchall()
        assert feeds
    with closing(Store(old, accept=True)) as opened:
        live = opened.fetch("SELECT name FROM state.stream WHERE live")
        assert {*feeds} <= {*live}
        assert ("T",) not in live


def test_times_are_kept_once_a_document(old: Path) -> None:
    with xscl.Engine(old) as engine, closing(engine.store()) as opened:
        bindings = opened.fetch("SELECT DISTINCT doc FROM state.binding ORDER BY ALL")
        assert len(bindings) > 5
        assert opened.fetch("SELECT doc FROM state.times ORDER BY ALL") == bindings
        ((wrong,),) = opened.fetch(
            "SELECT count(*) FROM state.times t JOIN state.document d USING (doc) WHERE"
            " (t.start, t.ts, t.clock, t.rank, t.base) <> (d.ts, d.ts, d.clock, d.rank, d.base)"
        )
        assert wrong == 0


# -- The old store is kept -----------------------------------------------------------------


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS store (READ_ONLY); USE store")
        names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        return {
            name: connection.execute(f"SELECT * FROM state.{name} ORDER BY ALL").fetchall()
            for (name,) in names
        }


def test_a_copy_is_kept_and_said(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = rows(old)
    xscl.Engine(old).close()
    kept = old.with_name(f"{old.name}.v{OLDEST}")
    assert rows(kept) == before
    assert kept.stat().st_mode & 0o777 == 0o600
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "xscl.store")
    assert record.getMessage() == (
        f"the store {old} is of version {VERSION} now; what it was, version {OLDEST}, "
        f"is kept in {kept}"
    )
    caplog.clear()
    xscl.Engine(old).close()
    assert not caplog.records


def test_the_command_line_says_it(old: Path) -> None:
    done = called("subscriptions", "--data", str(old.parent))
    assert done.exit_code == 0
    assert f"xscl: the store {old} is of version {VERSION} now" in done.stderr


def test_from_then_on_it_counts(old: Path) -> None:
    with xscl.Engine(old) as engine:
        seen = read_mark(old)
        assert seen is not None
        assert seen.commits == 1
        engine.push(document(20))
        assert getattr(read_mark(old), "commits", 0) == 2
    old.with_name(f"{old.name}.v{OLDEST}").replace(old)
    with pytest.raises(StoreWentBack, match=r"it has counted no commits, and .* held 2 commits"):
        xscl.Engine(old)


# -- When it fails -------------------------------------------------------------------------


def fail(run: migrations.Run) -> None:
    run("DROP TABLE state.ledger")
    run("SELECT * FROM state.nowhere")


@pytest.mark.parametrize("fails", usually([(fail,), (*STEPS, fail)], (*STEPS, fail)))
def test_all_steps_or_none(
    old: Path, monkeypatch: pytest.MonkeyPatch, fails: tuple[migrations.Step, ...]
) -> None:
    before = rows(old)
    with monkeypatch.context() as patch:
        patch.setattr(store, "migrate", lambda run, found: migrations.migrate(run, found, fails))
        with pytest.raises(StoreError, match="nowhere"):
            xscl.Engine(old)
    assert rows(old) == before
    with xscl.Engine(old) as engine:
        assert engine.consumed("direct") == 6


def test_the_steps_lead_to_the_version_that_is_written(tmp_path: Path) -> None:
    assert OLDEST + len(STEPS) == VERSION
    with closing(Store(tmp_path / "state.duckdb")) as made_afresh:
        assert made_afresh.meta("version") == VERSION
