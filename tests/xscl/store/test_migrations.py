"""A store of an earlier release is migrated when it is opened; one of a development version not."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import duckdb
import pytest

import xscl
from tests.examples import usually
from tests.xscl.commandline import called, json_rows
from xscl.engine import transactions
from xscl.errors import StoreError
from xscl.planning.compile import compile_query
from xscl.polling.feed_admission import FeedRequest
from xscl.polling.feed_repository import FeedRepository
from xscl.polling.hub_lease import HubLease
from xscl.store import migrations
from xscl.store.commit_watermark import read_watermark
from xscl.store.migrations import DEVELOPMENT, FIRST, Run, Step
from xscl.store.store import Store
from xscl.store.store_errors import StoreWentBack, WrongVersion

CURRENT = migrations.current_version()
NEXT = CURRENT + 1
"""The version that the first planted step leads to."""

_STEPS = migrations.STEPS
Plant = Callable[..., None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Give the release further steps."""

    def planted(*steps: Step) -> None:
        further = dict(enumerate(steps, NEXT))
        monkeypatch.setattr(migrations, "STEPS", {**_STEPS, **further})

    return planted


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of this release, with two documents."""
    path = tmp_path / "state.duckdb"
    with xscl.Engine(path) as engine:
        engine.subscribe("q", "S//a->x FOLLOWED BY{x=y, 10 s} S//a->y")
        for number in (1, 2):
            engine.push(document(number), source=("direct", number))
    return path


def document(number: int) -> xscl.Document:
    return xscl.Document("S", f"d{number}", number, b"<a>k</a>")


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS store (READ_ONLY); USE store")
        names = connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'state'"
        ).fetchall()
        return {
            name: connection.execute(f"SELECT * FROM state.{name} ORDER BY ALL").fetchall()
            for (name,) in names
        }


def rename(run: Run) -> None:
    run("ALTER TABLE state.ledger RENAME TO offsets")


def rename_back(run: Run) -> None:
    run("ALTER TABLE state.offsets RENAME TO ledger")
    run("UPDATE state.ledger SET batch_id = batch_id + 10")


def fail(run: Run) -> None:
    run("DROP TABLE state.ledger")
    run("SELECT * FROM state.nowhere")


# -- Steps ---------------------------------------------------------------------------------


def test_steps_are_taken_in_order_and_once(old: Path, plant: Plant) -> None:
    plant(rename, rename_back)
    for _ in range(2):
        with xscl.Engine(old) as engine, closing(engine.host.connect()) as store:
            assert store.meta("version") == NEXT + 1
            assert engine.consumed("direct") == 12
            assert len(engine.matches()) == 1


def test_a_store_of_a_version_between_takes_the_later_steps(old: Path, plant: Plant) -> None:
    plant(rename)
    with closing(Store(old)) as store:
        assert store.fetch("SELECT batch_id FROM state.offsets")
    plant(rename, rename_back)
    with xscl.Engine(old) as engine:
        assert engine.consumed("direct") == 12


def test_a_copy_is_kept_and_said(old: Path, plant: Plant, caplog: pytest.LogCaptureFixture) -> None:
    before = rows(old)
    plant(rename, rename_back)
    xscl.Engine(old).close()
    kept = old.with_name(f"{old.name}.v{CURRENT}")
    assert rows(kept) == before
    assert kept.stat().st_mode & 0o777 == 0o600
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "xscl.store.store")
    assert record.getMessage() == (
        f"the store {old} is of version {NEXT + 1} now; what it was, version {CURRENT}, "
        f"is kept in {kept}"
    )
    caplog.clear()
    xscl.Engine(old).close()
    assert not caplog.records
    kept.replace(old)
    with pytest.raises(StoreWentBack, match="the last 1 are missing"):
        xscl.Engine(old)


def test_the_command_line_says_it(old: Path, plant: Plant) -> None:
    plant(rename, rename_back)
    checked = called("doctor", "--json", "--data", str(old.parent))
    (found,) = [one for one in json_rows(checked.stdout) if one["what"] == "store"]
    assert found["sign"] == "warn"
    assert f"migrates it to version {NEXT + 1}" in found["hint"]
    done = called("subscriptions", "--data", str(old.parent))
    assert done.exit_code == 0
    assert f"xscl: the store {old} is of version {NEXT + 1} now" in done.stderr


@pytest.mark.parametrize("steps", usually([(fail,), (rename, rename_back, fail)], (fail,)))
def test_all_steps_or_none(
    old: Path, plant: Plant, monkeypatch: pytest.MonkeyPatch, steps: tuple[Step, ...]
) -> None:
    before, counted = rows(old), read_watermark(old)
    plant(*steps)
    with pytest.raises(StoreError, match="nowhere"):
        xscl.Engine(old)
    assert rows(old) == before
    monkeypatch.undo()
    with xscl.Engine(old) as engine:
        assert engine.consumed("direct") == 2
        assert read_watermark(old) == counted


def test_no_step_leads_to_a_version_of_development() -> None:
    first = DEVELOPMENT.stop
    assert list(migrations.STEPS) == list(range(first, first + len(migrations.STEPS)))
    assert migrations.current_version() == max(migrations.STEPS, default=FIRST)


def take_back(store: Store) -> None:
    """Make a store of this release one of version 1."""
    store.fetch("ALTER TABLE state.document DROP COLUMN arrived")
    for column in ("key", "version", "after", "until", "bound_to", "backfilled", "live"):
        store.fetch(f"ALTER TABLE state.subscription DROP COLUMN {column}")
    store.fetch("DROP TABLE state.retired")
    store.fetch("DROP TABLE state.star")
    without_tags(store)
    for table in ("feed", "feed_item", "feed_lease", "feed_spool"):
        store.fetch(f"DROP TABLE state.{table}")
    store.fetch("DROP TABLE state.backfill")
    store.set_meta(version=FIRST)


def without_tags(store: Store) -> None:
    """Make a store of this release one of version 17, but for that number."""
    with_tables_of_templates(store)
    store.fetch("ALTER TABLE mark.store DROP COLUMN journal")
    for table in ("subscription_tag", "saved_statement"):
        store.fetch(f"DROP TABLE state.{table}")
    store.fetch("DROP TABLE state.feed_poll")


def with_tables_of_templates(store: Store) -> None:
    """Make a store of this release one of version 20, but for that number."""
    counted = "SELECT template, max(len(pairs)) FROM state.r_t GROUP BY template"
    for number, places in store.fetch(counted):
        pairs = ", ".join(f"pairs[{at + 1}] AS p{at}" for at in range(places))
        store.fetch(
            f"CREATE TABLE state.t_{number} AS SELECT qid, {pairs}, op, wl, keep, apart"
            f" FROM state.r_t WHERE template = {number}"
        )
    store.fetch("DROP TABLE state.r_t")
    store.fetch("ALTER TABLE state.feed DROP COLUMN header_names")


def without_backfills(store: Store) -> None:
    """Make a store of this release one of version 16, but for that number."""
    without_tags(store)
    store.fetch("DROP TABLE state.backfill")
    for table in ("subscription", "retired"):
        store.fetch(f"ALTER TABLE state.{table} DROP COLUMN live")


def test_documents_of_version_1_have_arrived_at_the_clock_after_them(old: Path) -> None:
    with closing(Store(old)) as store, store.transaction():
        take_back(store)
        store.fetch("UPDATE state.document SET clock = 7 WHERE id = 'd2'")
    with xscl.Engine(old) as engine, closing(engine.host.connect()) as store:
        assert store.fetch("SELECT id, arrived FROM state.document ORDER BY id") == [
            ("d1", 1),
            ("d2", 7),
        ]
        engine.push(document(3), source=("direct", 3))
        assert len(engine.matches()) == 3


def test_subscriptions_of_version_1_can_be_edited(old: Path) -> None:
    with closing(Store(old)) as store, store.transaction():
        take_back(store)
    with xscl.Engine(old) as engine:
        (before,) = engine.matches("q")
        (one,) = engine.subscriptions
        assert (one.key, one.version, one.is_paused) == ("q", 1, False)
        engine.edit("q", "SELECT <r>{x}</r> FROM " + one.query)
        engine.push(document(3), source=("direct", 3))
    with xscl.Engine(old) as engine:
        assert [match.version for match in engine.matches("q")] == [1, 2, 2]
        assert engine.matches("q")[0] == before


def test_feeds_of_version_14_have_hubs_and_leases(old: Path) -> None:
    with xscl.Engine(old) as engine, FeedRepository(engine) as feeds:
        feed = feeds.add(FeedRequest("http://a.example/feed"))
        columns = [name for name, *_ in feeds.store.fetch("DESCRIBE state.feed_lease")]
        history = feeds.store.fetch("DESCRIBE state.feed_poll")
    with closing(Store(old)) as store, store.transaction():
        store.fetch("DROP TABLE state.feed_lease")
        for column in ("hub", "topic"):
            store.fetch(f"ALTER TABLE state.feed DROP COLUMN {column}")
        without_backfills(store)
        store.set_meta(version=14)
    with xscl.Engine(old) as engine, FeedRepository(engine) as feeds:
        assert list(feeds) == [feed]
        assert feeds.leases() == {}
        assert [name for name, *_ in feeds.store.fetch("DESCRIBE state.feed_lease")] == columns
        assert feeds.store.fetch("DESCRIBE state.feed_poll") == history
        assert columns == [one.name for one in dataclasses.fields(HubLease)]
        hub = dataclasses.replace(feed, hub="http://hub.example/", topic=feed.url)
        feeds.record([hub])
        assert list(feeds) == [hub]


def test_documents_of_version_19_are_named_by_stream_id_and_version(old: Path) -> None:
    """Their names were `id@n`, counted over all streams, and ids had the numbers of users."""
    given = [  # name, id, streams
        ("17", "17", ["orders"]),
        ("17@2", "17", ["invoices"]),
        ("17@3", "17", ["orders"]),
        ("_7.17", "_7.17", ["_7.orders"]),
        ("_7.17", "_7.17", ["orders"]),
        ("17@4", "17", ["S", "orders"]),
        ("a@2", "a@2", ["S"]),
        ("old/d", "old/d", ["S"]),
    ]
    with closing(Store(old)) as store, store.transaction():
        store.fetch("DELETE FROM state.document")
        for number, one in enumerate(given, 1):
            store.fetch(
                "INSERT INTO state.document(doc, id, given, streams, version, ts)"
                " VALUES (?, ?, ?, ?, 1, 1)",
                [number, *one],
            )
        store.fetch("INSERT INTO state.cut VALUES (1, 3, '17@3')")
        with_tables_of_templates(store)
        store.set_meta(version=19)
    with xscl.Engine(old) as engine, closing(engine.host.connect()) as store:
        names = [name for (name,) in store.fetch("SELECT id FROM state.document ORDER BY doc")]
        assert store.fetch("SELECT id FROM state.cut") == [("orders/17@2",)]
        ids = [id for (id,) in store.fetch("SELECT given FROM state.document ORDER BY doc")]
    assert names == [
        *("orders/17", "invoices/17", "orders/17@2", "_7.orders/17", "orders/_7.17"),
        *("17", "a@2@1", "S/old/d"),
    ]
    assert ids == ["17", "17", "17", "17", "_7.17", "17", "a@2", "old/d"]


# -- Development versions ------------------------------------------------------------------


def marked(path: Path, version: int) -> dict[str, list[tuple[object, ...]]]:
    """Make a store say that it is of another version, and return its rows."""
    with closing(Store(path)) as store, store.transaction():
        store.set_meta(version=version)
    return rows(path)


@pytest.mark.parametrize("version", usually(list(DEVELOPMENT), 2, 9))
def test_a_store_of_a_development_version_is_refused(old: Path, plant: Plant, version: int) -> None:
    before = marked(old, version)
    plant(rename)
    with pytest.raises(WrongVersion) as refused:
        xscl.Engine(old)
    assert refused.value.message == (
        f"the store {old} was written by a development version (schema {version})"
    )
    assert rows(old) == before
    checked = called("doctor", "--json", "--data", str(old.parent))
    (found,) = [one for one in json_rows(checked.stdout) if one["what"] == "store"]
    assert (found["sign"], found["hint"]) == ("bad", refused.value.hint)


def test_version_1_of_a_development_version_is_refused(old: Path) -> None:
    with closing(Store(old)) as store, store.transaction():
        store.fetch("DROP TABLE state.cut")
        store.set_meta(version=FIRST)
    before = rows(old)
    with pytest.raises(WrongVersion, match=r"by a development version \(schema 1\)") as refused:
        xscl.Engine(old)
    assert rows(old) == before
    checked = called("doctor", "--json", "--data", str(old.parent))
    (found,) = [one for one in json_rows(checked.stdout) if one["what"] == "store"]
    assert (found["sign"], found["hint"]) == ("bad", refused.value.hint)


def test_a_store_of_the_driver_of_a_cluster_is_refused_as_it_is(old: Path, plant: Plant) -> None:
    with closing(Store(old)) as store, store.transaction():
        store.set_meta(cluster_cells=4)
    before = rows(old)
    plant(rename)
    with pytest.raises(StoreError, match="belongs to the driver of a cluster") as refused:
        xscl.Engine(old)
    assert refused.value.hint is not None
    assert "export subscriptions and feeds with version 0.2" in refused.value.hint
    assert rows(old) == before


def test_joins_by_texts_of_version_15_keep_their_join_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They test every pair within the window; what is edited uses an index."""
    path = tmp_path / "state.duckdb"
    query = "S//a->x JOIN{contains(x, y), 10 s} S//a->y"
    with monkeypatch.context() as patch:
        patch.setattr(transactions, "compile_query", partial(compile_query, indexed=False))
        with xscl.Engine(path) as engine:
            engine.subscribe("q", query)
            assert engine.push(document(1)).matches == ()
    with closing(Store(path)) as store, store.transaction():
        without_backfills(store)
        store.set_meta(version=15)
    with xscl.Engine(path) as engine:
        assert len(engine.push(document(2)).matches) == 2
        engine.subscribe("new", query)
        assert len(engine.push(document(3)).matches) == 4
    with xscl.Engine(path) as engine:
        found = engine.push(document(4)).matches
        assert [match.subscription for match in found].count("q") == 6
        assert [match.subscription for match in found].count("new") == 2
