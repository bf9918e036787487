"""Registrations are moved by an export, also from a store that the engine refuses (C18)."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shlex
import tarfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from tests.examples import usually
from tests.xscl.commandline import called
from tests.xscl.development import ADDRESS, ALICE, development_store
from tests.xscl.service.conftest import eventually, ok, serving
from xscl.engine.facade import Engine
from xscl.service.accounts import Accounts
from xscl.service.registrations import (
    RegistrationsError,
    export,
    read_export,
    register,
)
from xscl.store.commit_watermark import CommitPoint, write_watermark
from xscl.store.data_directory import DataDirectory
from xscl.store.manifest import MANIFEST
from xscl.store.migrations import DEVELOPMENT, current_version
from xscl.store.store import Store
from xscl.store.store_errors import DATABASE, StoreDamaged, StoreWentBack, WrongVersion
from xscl.store.stored_tables import StoredRow, read_tables

LAST = DEVELOPMENT.stop - 1
COMPARED = {
    "account": ("number", "name", "quota", "created"),
    "token": ("id", "account", "label", "hash", "created", "expires", "session", "parent"),
    "owned_stream": ("account", "name"),
    "stream": ("name", "lateness", "live", "attributes"),
    "subscription": ("number", "name", "query", "updates", "language", "publish", "reads"),
    "feed": ("key", "url", "stream", "tags", "every", "added", "title", "site_url", "gone"),
    "endpoint": ("id", "subscription", "kind", "config", "state", "created"),
    "secret_address": ("hash", "id", "subscription", "label", "created"),
}


@pytest.fixture
def old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataDirectory:
    """A data directory of the development version, in a directory of work of its own."""
    monkeypatch.chdir(tmp_path)
    home = DataDirectory(tmp_path / "an old one")
    development_store(home)
    return home


@pytest.fixture
def exported(old: DataDirectory, tmp_path: Path) -> Path:
    """An export of it."""
    export(old, tmp_path / "exported.json")
    return tmp_path / "exported.json"


def printed(text: str) -> list[list[str]]:
    """Return the commands that a hint names, as words."""
    return [shlex.split(one)[1:] for one in re.findall(r"xscl (?:export|import) [^;]+", text)]


def registered(home: DataDirectory) -> dict[str, list[StoredRow]]:
    return read_tables(home.database, COMPARED)


def secrets(home: DataDirectory) -> dict[str, Any]:
    """Return the secrets of a data directory, without those that the next poll finds."""
    read: dict[str, dict[str, Any]] = json.loads((home.path / "secrets.json").read_text())
    return {key: {n: v for n, v in one.items() if n != "validated_by"} for key, one in read.items()}


# -- Development versions ------------------------------------------------------------------


def test_c18_the_printed_commands_move_what_a_development_version_has(old: DataDirectory) -> None:
    before = {path: path.read_bytes() for path in old.path.iterdir()}
    refused = called("serve", "--once", "--no-spark", "--data", str(old.path))
    assert refused.exit_code == 1
    assert f"{old.database} was written by a development version (schema {LAST})" in refused.stderr
    for command in printed(refused.stderr):
        done = called(*command)
        assert (done.exit_code, done.stderr) == (0, ""), command
    new = DataDirectory(Path(command[-1]))
    assert registered(new) == registered(old)
    assert secrets(new) == secrets(old)
    assert all(
        path.read_bytes() == bytes for path, bytes in before.items() if "lock" not in path.name
    )
    is_served(new)


def is_served(home: DataDirectory) -> None:
    """Use what was moved: tokens, streams, queries of several languages, addresses, endpoints."""
    with serving(home) as running, running.client() as operator, running.client(ALICE) as alice:
        listed = ok(alice.get("/v1/subscriptions"))["items"]
        assert [one["name"] for one in listed] == ["again", "dear", "out"]
        assert "_1." not in str(listed)
        (feed,) = ok(alice.get("/v1/feeds"))["items"]
        assert (feed["stream"], feed["tags"], feed["headers"]) == (
            "own",
            ["mine"],
            ["Authorization"],
        )
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


def test_c18_a_backup_of_a_development_version_is_exported(
    old: DataDirectory, tmp_path: Path
) -> None:
    """Secrets are in no backup; those of a data directory complete it."""
    backup = tmp_path / "backup.tar"
    made_by_development(old, backup)
    refused = called("restore", str(backup), "--data", "elsewhere")
    assert refused.exit_code == 1
    assert f"{backup} was made by a development version (schema {LAST})" in refused.stderr
    (exporting, importing) = printed(refused.stderr)
    done = called(*exporting)
    assert done.exit_code == 0
    assert done.stderr.count("is left out: its address is secret") == 1
    assert called(*importing).exit_code == 0
    new = registered(DataDirectory(Path(importing[-1])))
    expected = registered(old)
    expected["feed"] = [row for row in expected["feed"] if "***" not in row["url"]]
    assert new == expected
    Path(exporting[1]).unlink()
    done = called(*exporting, "--data", str(old.path))
    assert (done.exit_code, done.stderr) == (0, "")
    assert called(*importing[:-1], "whole").exit_code == 0
    whole = DataDirectory(tmp_path / "whole")
    assert registered(whole) == registered(old)
    assert secrets(whole) == secrets(old)
    assert not list(tmp_path.glob(".*"))


def made_by_development(home: DataDirectory, target: Path) -> None:
    """Write the backup that the development version would write of its store."""
    image = home.database.read_bytes()
    part = {"name": DATABASE, "size": len(image), "sha256": hashlib.sha256(image).hexdigest()}
    made = {"xscl": "unknown", "version": LAST, "store": "6e260f222587498a", "commits": 61}
    manifest = {"format": 1, **made, "position": 6, "made": "2026-11-23", "parts": [part]}
    with tarfile.open(target, "w") as archive:
        for name, content in ((DATABASE, image), (MANIFEST, json.dumps(manifest).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.mark.parametrize("version", usually(list(DEVELOPMENT), 2))
def test_tables_and_columns_that_a_version_lacks(
    old: DataDirectory, tmp_path: Path, version: int
) -> None:
    """Version 2 counts no commits, has headers in a table, and no users nor languages."""
    marked(old, version)
    if version == 2:
        with duckdb.connect() as connection:
            connection.execute(f"ATTACH '{old.database}' AS store; USE store")
            connection.execute(
                "DROP SCHEMA mark CASCADE; DROP TABLE state.account; DROP TABLE state.token;"
                "DROP TABLE state.endpoint; DROP TABLE state.owned_stream;"
                "DROP TABLE state.secret_address;"
                "DELETE FROM state.subscription WHERE language <> 'xscl';"
                "ALTER TABLE state.subscription DROP language;"
                "ALTER TABLE state.feed DROP site_url;"
                "CREATE TABLE state.feed_secret(key VARCHAR, headers VARCHAR, given_for VARCHAR);"
                'INSERT INTO state.feed_secret SELECT key, \'[["X-Old", "1"]]\', url'
                " FROM state.feed WHERE stream = 'news'"
            )
    if version == 2:
        for name in ("state.duckdb.mark", "secrets.json"):
            (old.path / name).unlink()
    found = export(old, tmp_path / "exported.json")
    new, refused = register(DataDirectory(tmp_path / "new"), found)
    assert not refused
    assert new["subscriptions"] == (10 if version == 2 else 13)
    headers = {row["stream"]: tuple(map(tuple, row["headers"])) for row in found.rows["feed"]}
    assert headers["news"] == ((("X-Old", "1"),) if version == 2 else (("X-Token", "abc, def"),))


def marked(home: DataDirectory, version: int) -> None:
    """Make a store say that it is of another version."""
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{home.database}' AS store; USE store")
        connection.execute("UPDATE state.meta SET value = ? WHERE key = 'version'", [version])


# -- Exports -------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_store_of_this_release_is_exported_too(exported: Path, tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path / "first"), DataDirectory(tmp_path / "second")
    register(first, read_export(exported.read_bytes()))
    export(first, tmp_path / "again.json")
    register(second, read_export((tmp_path / "again.json").read_bytes()))
    assert registered(second) == registered(first)
    assert secrets(second) == secrets(first)
    assert (tmp_path / "again.json").stat().st_mode & 0o777 == 0o600


def test_all_that_is_only_in_the_log_is_exported(tmp_path: Path, old: DataDirectory) -> None:
    killed = DataDirectory(tmp_path / "killed")
    development_store(killed, log=True)
    assert killed.database.stat().st_size < old.database.stat().st_size
    assert export(killed, tmp_path / "k.json").rows == export(old, tmp_path / "o.json").rows


def of_a_later_release(home: DataDirectory) -> None:
    marked(home, current_version() + 1)


def gone_backwards(home: DataDirectory) -> None:
    write_watermark(home.database, CommitPoint("6e260f222587498a", 999))


def test_what_cannot_be_exported(old: DataDirectory, tmp_path: Path) -> None:
    spoil: list[tuple[Callable[[], object], type[Exception]]] = [
        (lambda: gone_backwards(old), StoreWentBack),
        (lambda: of_a_later_release(old), WrongVersion),
        (lambda: old.database.write_bytes(b"no database " * 1_000), StoreDamaged),
        (lambda: old.database.unlink(), StoreDamaged),
    ]
    for damage, error in spoil:
        damage()
        with pytest.raises(error):
            export(old, tmp_path / "exported.json")
    assert not list(tmp_path.glob("*.json*"))


def test_an_export_replaces_no_file_and_takes_no_service(
    old: DataDirectory, tmp_path: Path
) -> None:
    given = ("export", "exported.json", "--data", str(old.path))
    with old.hold("serve"):
        done = called(*given)
        assert (done.exit_code, "is in use by process" in done.stderr) == (1, True)
    assert called(*given).exit_code == 0
    done = called(*given)
    assert (done.exit_code, done.stderr) == (
        2,
        "xscl: exported.json is there already\nhint: name another file\n",
    )
    done = called("import", "exported.json", "--url", "http://127.0.0.1:9")
    assert done.exit_code == 2
    assert "is imported into a data directory" in done.stderr


# -- Imports -------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_import_adds_what_is_not_there(exported: Path, tmp_path: Path) -> None:
    new = DataDirectory(tmp_path / "new")
    assert called("subscribe", "mine", "S//a->x", "--data", str(new.path)).exit_code == 0
    for answer in ("13 subscriptions, 3 endpoints", "0 subscriptions, 0 endpoints"):
        done = called("import", str(exported), "--data", str(new.path))
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.startswith("new: ")
        assert done.stdout.endswith(f"{answer}\n")
    with Engine(new.database) as engine:
        assert len(engine.subscriptions) == 14


def test_a_subscription_that_is_refused_does_not_stop_the_others(
    exported: Path, tmp_path: Path
) -> None:
    new = DataDirectory(tmp_path / "new")
    assert called("subscribe", "made", "S//other->x", "--data", str(new.path)).exit_code == 0
    content = exported.read_text().replace("EVENT SEQ(", "EVENT SEK(")
    exported.write_text(content)
    done = called("import", str(exported), "--json", "--data", str(new.path))
    assert done.exit_code == 1
    answer = json.loads(done.stdout)
    assert set(answer["refused"]) == {"made", "climb"}
    assert "subscription 'climb': " in done.stderr
    assert answer["subscriptions"] == 11


def test_users_with_other_numbers_are_refused(exported: Path, tmp_path: Path) -> None:
    new = DataDirectory(tmp_path / "new")
    new.create()
    with closing(Store(new.database)) as store:
        Accounts(store).make("bob")
    done = called("import", str(exported), "--data", str(new.path))
    assert done.exit_code == 1
    assert "the user 'alice' has another number in the export than here" in done.stderr
    assert registered(new)["subscription"] == []


def damaged(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(content: bytes) -> bytes:
        read = json.loads(content)
        change(read)
        return json.dumps(read).encode()

    return changed


DAMAGE: list[Callable[[bytes], bytes]] = [
    lambda content: content[: len(content) // 2],
    damaged(lambda read: read.pop("feed")),
    damaged(lambda read: read["token"][0].pop("hash")),
    damaged(lambda read: read["token"][0].update(hash="no hexadecimal digits")),
    damaged(lambda read: read.update(endpoint=[1])),
    damaged(lambda read: read.update(format="xscl registrations 2")),
]


def test_a_damaged_export_changes_nothing(exported: Path, tmp_path: Path) -> None:
    whole = exported.read_bytes()
    for spoil in DAMAGE:
        exported.write_bytes(spoil(whole))
        done = called("import", str(exported), "--data", str(tmp_path / "new"))
        assert done.exit_code == 1
        assert "the file " in done.stderr
        with pytest.raises(RegistrationsError):
            read_export(exported.read_bytes())
    assert not (tmp_path / "new").exists()
