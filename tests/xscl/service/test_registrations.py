"""Registrations are moved by an export, also by one that release 0.2 wrote (C18)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.xscl.commandline import answered, called, failed
from tests.xscl.service.conftest import eventually, ok, serving
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.service.registrations import RegistrationsError, export, read_export, register
from xscl.store.queries.owned_rows import StoredRow
from xscl.store.queries.rows import rows_of
from xscl.store.queries.tables import named
from xscl.store.store import Store

FORMER = Path(__file__).parents[2] / "data" / "release_0_2" / "registrations.json"
"""An export by release 0.2: subscriptions of three users in all languages, streams, feeds with
headers and a secret address, endpoints, a secret address of matches, tags, a saved question."""

ALICE = "xscl_458c4209_figwJ5PWu4ioflWqjD969TMw9vq8xAKHsp8eLhWoSdU"
"""A token of the user alice, as the store knows it."""

ADDRESS = "mo1Fah6xZ3g49o_c3rXDhFjSZeZXv0rQSKz5w0abza0"
"""The secret address of alice's subscription `dear`."""

COMPARED = {
    "account": ("number", "name", "quota", "created"),
    "token": ("id", "account", "label", "hash", "created", "expires", "session", "parent"),
    "owned_stream": ("account", "name"),
    "stream": ("name", "lateness", "live", "attributes"),
    "subscription": ("number", "name", "query", "updates", "language", "publish", "reads"),
    "subscription_tag": ("subscription", "tag"),
    "saved_statement": ("account", "name", "statement", "saved"),
    "feed": ("key", "url", "stream", "tags", "every", "added", "title", "site_url", "gone"),
    "endpoint": ("id", "subscription", "kind", "config", "state", "created"),
    "secret_address": ("hash", "id", "subscription", "label", "created"),
}


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A copy of the export, which a test may change."""
    return Path(shutil.copy(FORMER, tmp_path / "exported.json"))


@pytest.fixture
def new(tmp_path: Path) -> DataDirectory:
    """A data directory that has nothing yet."""
    return DataDirectory(tmp_path / "new")


def imported(file: Path, home: DataDirectory) -> str:
    """Import a file without a complaint; return what is said."""
    done = called("import", str(file), "--data", str(home.path))
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def home(tmp_path: Path) -> DataDirectory:
    """A data directory with what the export has."""
    made = DataDirectory(tmp_path / "the data")
    register(made, read_export(FORMER.read_bytes()))
    return made


def registered(home: DataDirectory) -> dict[str, list[StoredRow]]:
    with closing(Store(home.database)) as store:
        return {
            table: list(rows_of(store, table, *names, order=named(names)))
            for table, names in COMPARED.items()
        }


def secrets(home: DataDirectory) -> dict[str, Any]:
    """Return the secrets of a data directory."""
    read: dict[str, dict[str, Any]] = json.loads((home.path / "secrets.json").read_text())
    return read


# -- Release 0.2 ---------------------------------------------------------------------------


def test_c18_an_export_of_0_2_has_all_that_users_have_set_up(
    exported: Path, new: DataDirectory
) -> None:
    assert imported(exported, new).endswith("4 feeds, 13 subscriptions, 3 endpoints\n")
    wanted, found = read_export(exported.read_bytes()).rows, registered(new)
    for table, rows in found.items():
        names = [name for name in COMPARED[table] if name in wanted[table][0]]
        expected = [{name: row[name] for name in names} for row in wanted[table]]
        assert [{name: row[name] for name in names} for row in rows] == [
            {**row, "url": SHOWN.get(row["url"], row["url"])} if "url" in row else row
            for row in expected
        ]
    hidden = {row["key"]: row["headers"] for row in wanted["feed"] if row["headers"]}
    kept = secrets(new)
    assert {key: one["headers"] for key, one in kept.items() if "headers" in one} == hidden
    assert {one["url"] for one in kept.values() if "url" in one} >= set(SHOWN)
    is_served(new)


SHOWN = {
    "http://127.0.0.1:8931/secret.rss?token=hunter2": "http://127.0.0.1:8931/secret.rss?token=***"
}
"""A secret address of a feed, as the table of feeds has it."""


def is_served(home: DataDirectory) -> None:
    """Use what was moved: tokens, streams, queries of several languages, addresses, endpoints."""
    with serving(home) as running, running.client() as operator, running.client(ALICE) as alice:
        listed = ok(alice.get("/v1/subscriptions"))["items"]
        assert [one["name"] for one in listed] == ["again", "dear", "out"]
        assert "_1." not in str(listed)
        (feed,) = ok(alice.get("/v1/feeds"))["items"]
        given = [feed[name] for name in ("stream", "tags", "headers")]
        assert given == ["own", ["mine"], ["Authorization"]]
        for text in ("<o>k</o>", "<p>k</p>"):
            ok(alice.post("/v1/documents/orders", content=text))
        for price in (9, 11, 12):
            tick = f"<t><name>a</name><price>{price}</price></t>"
            ok(operator.post("/v1/documents/ticks", content=tick))
        for name, client in (("dear", alice), ("rises", operator), ("climb", operator)):
            eventually(partial(found, client, f"/v1/subscriptions/{name}/matches"))
        assert len(ok(alice.get("/v1/subscriptions/dear/endpoints"))) == 1
        assert operator.get(f"/f/{ADDRESS}.atom").status_code == 200


def found(client: httpx.Client, path: str) -> Any:
    return ok(client.get(path))["matches"]


# -- Exports -------------------------------------------------------------------------------


def test_an_export_has_what_was_imported(home: DataDirectory, tmp_path: Path) -> None:
    other = DataDirectory(tmp_path / "second")
    export(home, tmp_path / "again.json")
    register(other, read_export((tmp_path / "again.json").read_bytes()))
    assert registered(other) == registered(home)
    assert secrets(other) == secrets(home)
    assert (tmp_path / "again.json").stat().st_mode & 0o777 == 0o600


def test_a_backup_is_exported(home: DataDirectory, new: DataDirectory, tmp_path: Path) -> None:
    """Secrets are in no backup; those of a data directory complete it."""
    backup, file = tmp_path / "backup.xscl", tmp_path / "exported.json"
    answered("backup", str(backup), "--data", str(home.path))
    exporting = ("export", str(file), "--backup", str(backup), "--data")
    done = called(*exporting, str(tmp_path / "none"))
    assert done.exit_code == 0
    assert done.stderr.count("is left out: its address is secret") == 1
    lost = [line.split()[1] for line in done.stderr.splitlines() if "has lost its headers" in line]
    names = ("alice", "news", "paid")
    assert sorted(lost) == [f"http://127.0.0.1:8931/{name}.rss" for name in names]
    answered("import", str(file), "--data", str(new.path))
    expected = registered(home)
    expected["feed"] = [row for row in expected["feed"] if "***" not in row["url"]]
    assert registered(new) == expected
    file.unlink()
    done = called(*exporting, str(home.path))
    assert (done.exit_code, done.stderr) == (0, "")
    whole = DataDirectory(tmp_path / "whole")
    imported(file, whole)
    assert registered(whole) == registered(home)
    assert secrets(whole) == secrets(home)
    assert not list(tmp_path.glob(".*"))


def test_an_export_replaces_no_file_and_takes_no_service(
    home: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("xscl.cli.connection.STARTING", 0.1)
    given = ("export", "exported.json", "--data", str(home.path))
    with home.hold("serve"):
        assert "is in use by process" in failed(1, *given)
    answered(*given)
    told = "xscl: exported.json is there already\nhint: name another file\n"
    assert failed(2, *given) == told
    told = failed(2, "import", "exported.json", "--url", "http://127.0.0.1:9")
    assert "is imported into a data directory" in told


# -- Imports -------------------------------------------------------------------------------


def test_an_import_adds_what_is_not_there(exported: Path, new: DataDirectory) -> None:
    answered("subscribe", "mine", "S//a->x", "--data", str(new.path))
    for answer in ("13 subscriptions, 3 endpoints", "0 subscriptions, 0 endpoints"):
        told = imported(exported, new)
        assert told.startswith("new: ")
        assert told.endswith(f"{answer}\n")
    with Engine(new.database) as engine:
        assert len(engine.subscriptions) == 14


def test_titles_of_feeds_are_made_printable(exported: Path, new: DataDirectory) -> None:
    read = json.loads(exported.read_bytes())
    title, site = "\n  All\tPosts\u202e\n", "https://a.test/\n"
    read["feed"][0] |= {"title": title, "site_url": site}
    exported.write_text(json.dumps(read))
    imported(exported, new)
    feed = next(row for row in registered(new)["feed"] if row["key"] == read["feed"][0]["key"])
    assert (feed["title"], feed["site_url"]) == ("AllPosts", "https://a.test/")


def test_a_subscription_that_is_refused_does_not_stop_the_others(
    exported: Path, new: DataDirectory
) -> None:
    answered("subscribe", "made", "S//other->x", "--data", str(new.path))
    exported.write_text(exported.read_text().replace("EVENT SEQ(", "EVENT SEK("))
    done = called("import", str(exported), "--json", "--data", str(new.path))
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert set(answer["refused"]) == {"made", "climb"}
    assert "subscription 'climb': " in done.stderr
    assert answer["subscriptions"] == 11


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        read = json.loads(content)
        change(read)
        return json.dumps(read).encode()

    return changed


def with_values(table: str, **values: object) -> Callable[[bytes], bytes]:
    """Give the first row of a table other values."""
    return damaged(lambda read: read[table][0].update(values))


WRONG: tuple[tuple[list[tuple[str, str]], list[object]], ...] = (
    (
        [("token", "account"), ("stream", "lateness"), ("endpoint", "created")],
        [1.5, 1 << 63, 1 << 100, "x", [], {"a": 1}],
    ),
    (
        [("subscription", "query"), ("account", "quota"), ("token", "parent")],
        [1, 1.5, True, [], "\ud800"],
    ),
)
"""Columns of numbers and of texts, and values that they cannot have."""

FOREIGN: list[dict[str, Any]] = [
    {"kind": "telegram"},
    {"kind": "webhook", "config": "{"},
    {"kind": "webhook", "config": '{"address": "https://a.example"}'},
    {"kind": "webhook", "config": '{"url": 5}'},
    {"kind": "file", "config": '{"name": "../a"}'},
    {"kind": "mail", "config": '{"to": "a@b.example\\nBcc: c@d.example"}'},
    {"state": "odd"},
    {"secrets": []},
]
"""What no service can load of an endpoint."""

DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda content: content[: len(content) // 2],
    damaged(lambda read: read.pop("feed")),
    damaged(lambda read: read["token"][0].pop("hash")),
    with_values("token", hash="no hexadecimal digits"),
    damaged(lambda read: read.update(endpoint=[1])),
    lambda whole: whole[:-1] + b', "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    *(
        with_values(table, **{column: value})
        for columns, values in WRONG
        for table, column in columns
        for value in values
    ),
    damaged(lambda read: read.update(format="xscl registrations 2")),
    *(with_values("endpoint", **values) for values in FOREIGN),
    *(with_values(table, name="n" * 20_000) for table in ("account", "subscription")),
    *(with_values(table, name=17) for table in ("saved_statement", "account")),
    with_values("token", label="a\nb"),
    with_values("subscription_tag", tag="t" * 20_000),
    with_values("feed", stream="s" * 20_000),
]


def test_a_damaged_export_changes_nothing(exported: Path, new: DataDirectory) -> None:
    whole = exported.read_bytes()
    for spoil in DAMAGE:
        exported.write_bytes(spoil(whole))
        told = failed(1, "import", str(exported), "--data", str(new.path))
        assert "the file " in told
        assert len(told) < 1_000
        with pytest.raises(RegistrationsError):
            read_export(exported.read_bytes())
    assert not new.path.exists()
