"""Secrets of feeds: in a file of their own, found again after kills, shown nowhere."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.simulation.scheduler import Killed
from tests.xscl.commandline import called
from tests.xscl.polling.scripted import Server, placed, reply, rss
from xscl.engine.facade import Engine
from xscl.errors import StoreError
from xscl.polling.credentials import Credentials
from xscl.polling.feed import Feed, FeedsError
from xscl.polling.feed_repository import FeedRepository, FeedRequest

URL = "https://ann:pwqvxz@a.example/f?token=t0kenqvxz&page=1"
ADDRESS = "https://a.example/f?token=t0kenqvxz&page=1"
SECRET = ("X-Key", "s3cretqvxz")


@contextmanager
def opened(directory: Path) -> Iterator[FeedRepository]:
    with Engine(directory / "state.db") as engine, FeedRepository(engine) as feeds:
        yield feeds


def listed(directory: Path) -> list[Feed]:
    with opened(directory) as feeds:
        return list(feeds)


def added(directory: Path) -> Feed:
    with opened(directory) as feeds:
        return feeds.add(FeedRequest(URL, stream="s", headers=(SECRET,)))


# -- The file ------------------------------------------------------------------------------


def test_a_feed_comes_back_with_its_secrets_from_a_file_of_the_owner(tmp_path: Path) -> None:
    feed = added(tmp_path)
    assert (feed.url, feed.headers[0], feed.given_for) == (ADDRESS, SECRET, ADDRESS)
    assert listed(tmp_path) == [feed]
    file = tmp_path / "secrets.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.glob("*.tmp")] == []


def test_what_the_disk_has_no_room_for_is_an_error_of_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept = Credentials(tmp_path / "secrets.json")
    full = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    monkeypatch.setattr("xscl.polling.credentials.write_durably", full)
    with pytest.raises(StoreError, match="cannot be written: No space left on device"):
        kept.change({"f": {"url": "https://f.example/?token=secret"}})
    assert kept.of("f") == {}


def test_what_is_changed_and_removed_goes_from_the_file_too(tmp_path: Path) -> None:
    feed = added(tmp_path)
    with opened(tmp_path) as feeds:
        feeds.edit(replace(feed, headers=()))
        assert "s3cret" not in (tmp_path / "secrets.json").read_text()
        assert feeds[feed.key].url == ADDRESS
        other = feeds.add(FeedRequest(ADDRESS.replace("t0ken", "other"), stream="o"))
        assert feeds.is_followed(ADDRESS, besides=other)
        assert not feeds.is_followed(other.url, besides=other)
        feeds.remove(feeds[feed.key])
        feeds.remove(other)
    assert json.loads((tmp_path / "secrets.json").read_text()) == {}


@pytest.mark.parametrize("text", ["", "[]", '{"k": 1}', '{"k": {'])
def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    added(tmp_path)
    file = tmp_path / "secrets.json"
    file.write_text(text)
    with pytest.raises(FeedsError, match=r"secrets\.json is damaged"):
        listed(tmp_path)
    assert file.read_text() == text


# -- Kills ---------------------------------------------------------------------------------


def test_a_kill_between_file_and_row_leaves_an_orphan_or_the_old_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = added(tmp_path)
    moved = "https://a.example/g?token=newqvxz"
    changes = [replace(feed, url=moved), replace(feed, url="https://a.example/plain", headers=())]
    for changed in changes:
        with opened(tmp_path) as feeds, monkeypatch.context() as patched:
            patched.setattr(feeds.store, "transaction", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                feeds.record([changed])
            with pytest.raises(Killed):
                feeds.add(FeedRequest("https://b.example/?key=orphan"))
        assert [each.url for each in listed(tmp_path)] == [ADDRESS]
        with opened(tmp_path) as feeds:
            feeds.record([feed])
            feeds.edit(feed)
    with opened(tmp_path) as feeds:
        feeds.record(changes[:1])
        assert [each.url for each in feeds] == [moved]
        feeds.record(changes[1:2])
        assert [each.url for each in feeds] == ["https://a.example/plain"]


def test_a_feed_whose_secret_address_is_lost_is_not_asked_but_says_so(
    tmp_path: Path, server: Server
) -> None:
    url = server.url("/f?token=t0kenqvxz")
    server.says("/f?token=t0kenqvxz", reply(rss("one")))
    with placed(tmp_path, server) as place:
        place.follow(url)
        assert [polled.new for polled in place.poll()] == [1]
    (tmp_path / "secrets.json").unlink()
    with placed(tmp_path, server) as place:
        (polled,) = place.poll()
        assert (polled.feed.code, polled.feed.url) == ("feed_secret", server.url("/f?token=***"))
        assert len(server.asked) == 1
        place.feeds.remove(polled.feed)
        assert place.follow(url).key == polled.feed.key
        assert [polled.new for polled in place.poll()] == [0]


# -- Shown nowhere -------------------------------------------------------------------------


def everything(engine: Engine) -> str:
    """All that SQL can reach, and what it says of tables."""
    catalogs = ("tables", "columns", "settings", "views", "databases")
    asked = [f"duckdb_{what}()" for what in catalogs]
    names = engine.sql(
        "SELECT schema_name || '.' || table_name AS name FROM duckdb_tables()"
        " WHERE schema_name = 'state' UNION"
        " SELECT CASE schema_name WHEN 'state' THEN 'state.' ELSE '' END || view_name"
        " FROM duckdb_views() WHERE NOT internal AND NOT starts_with(view_name, 'kept_')"
    ).to_pylist()
    asked += [f"query_table('{row['name']}')" for row in names if "." not in row["name"]]
    asked += [row["name"] for row in names]
    return "".join(str(engine.sql(f"SELECT * FROM {each}").to_pylist()) for each in asked)


def test_no_sql_shows_a_secret(tmp_path: Path, server: Server) -> None:
    server.says("/f?token=t0kenqvxz", reply(rss("one"), 'ETag: "1"'))
    with placed(tmp_path, server) as place:
        url = f"http://ann:pwqvxz@127.0.0.1:{server.port}/f?token=t0kenqvxz"
        feed = place.follow(url, headers=(SECRET,))
        for _ in range(2):
            (polled,) = place.poll()
            assert polled.feed.error is None
        asked = server.asked[-1]
        assert asked == ("/f?token=t0kenqvxz", asked[1])
        assert (asked[1]["x-key"], asked[1]["if-none-match"]) == ("s3cretqvxz", '"1"')
        shown = everything(place.engine)
        assert feed.key in shown
        assert "qvxz" not in shown
        assert b"qvxz" not in b"".join(document.xml for document in place.documents())


def test_no_command_shows_a_secret(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"))
    said = ""

    def run(*arguments: str) -> None:
        nonlocal said
        done = called(*arguments, *data)
        assert done.exception is None or isinstance(done.exception, SystemExit)
        said += done.output

    header = f"{SECRET[0]}: {SECRET[1]}"
    run("feeds", "add", URL, "--keep", "--header", header)
    run("feeds", "add", URL)
    for json_ in ((), ("--json",)):
        run("feeds", "list", *json_)
        run("feeds", "show", URL, *json_)
        run("status", *json_)
    run("feeds", "show", "https://ann:pwqvxz@x.example/?token=t0kenqvxz")
    run("feeds", "poll", "--all")
    run("feeds", "export")
    run("sql", "SELECT * FROM state.feed")
    run("sql", "SELECT * FROM state.feed_secret")
    run("sql", "SELECT * FROM query_table('state.feed_secret')")
    assert "is followed already" in said
    assert "there is no relation 'feed_secret'" in said
    assert "qvxz" not in said
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    rest = [path.read_bytes() for path in files if "secrets" not in path.name]
    assert len(rest) >= 2
    assert all(b"qvxz" not in text for text in rest)
