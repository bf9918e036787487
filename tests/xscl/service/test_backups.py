"""Backups of a service that goes on (C18)."""

from __future__ import annotations

import json
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from feeds.spool import Spool
from feeds.spool_files import Extract
from tests.examples import usually
from tests.waiting import PATIENCE, beside
from tests.xscl.commandline import answered, called, json_rows
from tests.xscl.delivery.receiver import Receiver, is_signed
from tests.xscl.service.conftest import Running, code, eventually, filling, ok, send_batch, serving
from xscl.delivery.endpoint import NO_ADDRESS, NO_SECRET, File, Mail, Webhook
from xscl.delivery.outbox.endpoints import NO_CODE, Endpoints
from xscl.engine.backup import Backup, back_up, read_backup, receive
from xscl.engine.disk_guard import LEAST
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.ingestion.pipeline import Consumer
from xscl.polling.credentials import NAME, secrets_in
from xscl.polling.feed_poller import PollSettings
from xscl.polling.feed_repository import FeedRepository, FeedRequest, HubLease
from xscl.service import backups
from xscl.service.accounts import Accounts
from xscl.service.restore import restore
from xscl.service.tokens import Tokens
from xscl.store.store import Store
from xscl.store.store_errors import BackupError

PAIR = "S//a->x FOLLOWED BY{x=y, 1 d} S//a->y"
TOGETHER = 5


def test_c18_a_backup_of_a_service_is_a_batch_boundary_and_opens(
    running: Running, operator: httpx.Client, tmp_path: Path
) -> None:
    """A restored store has all acknowledged documents and their matches."""
    ok(operator.put("/v1/subscriptions/pair", json={"query": PAIR}))
    stop, sent, made = threading.Event(), [0], []

    def keep_sending() -> None:
        with running.client() as client:
            while not stop.is_set():
                text = f"<a>{sent[0] % TOGETHER}</a>"
                ok(client.post(f"/v1/documents/S?id=d{sent[0]}", content=text))
                sent[0] += 1

    with beside(keep_sending, until=stop):
        eventually(lambda: ok(operator.get("/v1/subscriptions/pair/matches"))["matches"])
        for number in range(2):
            eventually(lambda before=sent[0]: sent[0] > before + 10)  # type: ignore[misc]  # mypy infers no type for the default
            target, acknowledged = tmp_path / f"{number}.xscl", sent[0]
            told = answered("backup", str(target), "--data", str(running.home.path))
            assert told.startswith(f"wrote {target}: ")
            made.append((target, acknowledged))
    assert not running.home.backups.exists()
    for target, acknowledged in made:
        assert target.stat().st_mode & 0o777 == 0o600
        home = DataDirectory(target.with_suffix(""))
        restore(target, home)
        with Engine(home.database) as engine, Spool(home.spool) as spool:
            before = known(engine)
            is_whole(engine, before)
            Consumer(spool, engine.ingest).run_once()
            after = known(engine)
            is_whole(engine, after)
            assert after >= max(before, acknowledged), "what was acknowledged is in it"
            assert before > 0


def known(engine: Engine) -> int:
    """Return the number of documents of an engine: a prefix of the sent ones."""
    found = engine.sql("SELECT id FROM documents").to_pydict()["id"]
    assert set(found) == {f"d{number}" for number in range(len(found))}
    return len(found)


def is_whole(engine: Engine, documents: int) -> None:
    """Compare the matches with those of so many documents."""
    equal = [(documents + TOGETHER - 1 - rest) // TOGETHER for rest in range(TOGETHER)]
    pairs = sum(count * (count - 1) // 2 for count in equal)
    assert engine.sql("SELECT count(*) AS n FROM matches").to_pylist() == [{"n": pairs}]


def test_backups_are_the_operators_and_one_at_a_time(
    running: Running, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running.user("carol") as carol:
        assert code(carol.post("/v1/backup")) == (403, "operator_only")
    entered, leave = threading.Event(), threading.Event()

    def slowly(store: Store, target: Path, spool: Path | None = None) -> Backup:
        entered.set()
        assert leave.wait(PATIENCE)
        return back_up(store, target, spool)

    monkeypatch.setattr(backups, "back_up", slowly)
    with beside(lambda: operator.post("/v1/backup"), until=leave) as (asked,):
        assert entered.wait(PATIENCE)
        busy = operator.post("/v1/backup")
    assert code(busy) == (429, "busy")
    assert "retry-after" in busy.headers
    assert asked.result().status_code == 200


def test_a_backup_needs_room(
    running: Running, operator: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is room for a document, but not for all that there is once more."""
    guard = running.service.disk
    disk = os.statvfs(running.home.path)
    guard.least = disk.f_bavail * disk.f_frsize - (8 << 20)
    try:
        waiting = [Extract("", running.home.spool, b"", 0, 16 << 20)]
        with monkeypatch.context() as patch:
            patch.setattr(Spool, "extracts", lambda *_: waiting)
            assert code(operator.post("/v1/backup")) == (503, "disk_full")
    finally:
        guard.least = LEAST
    assert not running.home.backups.exists()
    assert operator.post("/v1/backup").status_code == 200


def test_c18_a_backup_that_fails_midway_disturbs_nothing(
    running: Running, operator: httpx.Client
) -> None:
    """The disk takes all but the end of the file."""
    size = len(operator.post("/v1/backup").content)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size - 4096, before[1]))
    try:
        failed = operator.post("/v1/backup")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert code(failed) == (503, "backup")
    assert "cannot be written: File too large" in failed.json()["detail"]
    assert not running.home.backups.exists()
    assert operator.post("/v1/documents/S?id=after", content="<b/>").status_code == 202
    query = {"query": "SELECT id FROM documents WHERE id = 'after'"}
    eventually(lambda: ok(operator.post("/v1/sql", json=query))["rows"])
    assert len(operator.post("/v1/backup").content) > size - 4096


ODD = ["\ufeff", "\u200d", "\u0378", "🫩", "\xad", "\u202e", "\u2028", "·"]
"""Characters that are no mark, belong to nothing yet or cannot be printed."""


@pytest.mark.parametrize("rest", usually(["", "x", " x"], "x"))
def test_what_a_service_has_taken_can_be_restored(
    place: DataDirectory, tmp_path: Path, rest: str
) -> None:
    query = {"query": "S//a->x"}
    taken = 0
    with serving(place) as running, running.client() as operator:
        for name in (f"{odd}{rest}" for odd in ODD):
            at = quote(name, safe="")
            answers = (
                operator.put(f"/v1/streams/{at}", json={}),
                operator.post(f"/v1/documents/a{at}", content=b"<a/>"),
                operator.put(f"/v1/subscriptions/{at}", json=query),
                operator.put("/v1/subscriptions/q", json=query | {"tags": [name]}),
                operator.put(f"/v1/subscriptions/p{at}", json={"query": f"S//a->x PUBLISH {name}"}),
                operator.put(f"/v1/sql/saved/{at}", json={"query": "SELECT 1"}),
                operator.post("/v1/tokens", json={"user": name}),
                operator.post("/v1/tokens", json={"label": name}),
                operator.post("/v1/subscriptions/q/addresses", json={"label": name}),
            )
            assert all(one.status_code < 500 for one in answers)
            taken += sum(one.is_success for one in answers)
        target = tmp_path / "odd.xscl"
        target.write_bytes(operator.post("/v1/backup").content)
    assert taken > 6
    restored(target, "odd")


def test_a_broken_transfer_leaves_no_backup(tmp_path: Path) -> None:
    """Nor does it touch one that is there."""
    with Engine(tmp_path / "state.db") as engine:
        engine.backup(tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    with pytest.raises(BackupError, match="damaged"):
        receive([content[:-20_000]], tmp_path / "new")
    with pytest.raises(BackupError, match="damaged"):
        receive([b"nothing"], tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == content
    assert receive([content], tmp_path / "whole") == read_backup(tmp_path / "whole")
    assert sorted(path.name for path in tmp_path.glob("*new*")) == []


# -- What `xscl restore` says of secrets that no backup has, and what waits until the ------


QUERY = "S//a"


@pytest.fixture
def hook(receiver: Receiver, request: pytest.FixtureRequest) -> str:
    """An address of the receiver for a test."""
    return receiver.url(f"/{request.node.name}")


@pytest.fixture
def backup(place: DataDirectory, hook: str) -> Path:
    """A backup of a directory with all that has secrets, or lives beside the store."""
    target = place.path.with_name("backup.tar")
    with filling(place) as engine, FeedRepository(engine) as feeds:
        for name in ("plain", "keyed", "filed", "_1.mine"):
            engine.subscribe(name, QUERY)
        secrets = secrets_in(place.path / NAME)
        with closing(Endpoints(engine.connect(), secrets)) as endpoints:
            endpoints.add("plain", Webhook(hook), 0)
            endpoints.add("keyed", Webhook(f"{hook}?token=secret"), 0)
            endpoints.add("filed", File("matches.jsonl"), 0)
            endpoints.add("plain", Mail("me@example.org"), 0)
            endpoints.expect(
                endpoints.add("_1.mine", Mail("her@example.org"), 0, state="unconfirmed")[0].id
            )
            endpoints.add("_1.mine", Webhook(hook), 0)
        header = (("Authorization", "Basic abc"),)
        feeds.add(FeedRequest("http://a.example/feed", headers=header))
        feeds.add(FeedRequest("http://b.example/feed?token=secret"))
        leased = feeds.add(FeedRequest("http://c.example/feed"))
        lease = HubLease(leased.key, "http://hub.example/", leased.url, "0", 1, 2, until=3)
        with feeds.writing() as store:
            store.insert_rows("state.feed_lease", [asdict(lease)])
        with closing(engine.connect()) as store:
            accounts = Accounts(store)
            tokens = Tokens(store, accounts)
            for user in ("alice", "alice", "bob"):
                tokens.create(accounts.make(user), "laptop")
    answered("backup", str(target), "--data", str(place.path))
    return target


def restored(backup: Path, name: str) -> tuple[DataDirectory, str, dict[str, Any]]:
    """Restore twice, and return the last directory with what was printed, as text and as JSON."""
    told = called("restore", str(backup), "--data", str(backup.with_name(name)))
    assert (told.exit_code, told.stderr) == (0, "")
    home = DataDirectory(backup.with_name(f"{name} 2"))
    value = answered("restore", str(backup), "--json", "--data", str(home.path))
    return home, told.stdout, json.loads(value)["lacking"]


def test_a_restore_says_what_is_not_there(backup: Path, hook: str) -> None:
    home, told, lacking = restored(backup, "elsewhere")
    found = {(one["kind"], one["name"]): one for one in lacking["secrets"]}
    assert set(found) >= {("webhook", "plain"), ("webhook", "keyed"), ("webhook", "alice: mine")}
    assert found["webhook", "plain"]["note"] == NO_SECRET
    assert found["webhook", "plain"]["command"] == f"xscl rotate plain --data '{home.path}'"
    assert found["webhook", "keyed"]["note"] == f"{NO_SECRET}; {NO_ADDRESS}"
    assert "rotate keyed --webhook URL" in found["webhook", "keyed"]["command"]
    assert found["webhook", "alice: mine"]["command"] is None, "the operator has no command for it"
    assert found["mail", "alice: mine"]["note"] == NO_CODE
    feeds = sorted(one["note"] for one in lacking["secrets"] if one["kind"] == "feed")
    assert "the secret part of its address is not known any more" in feeds[0]
    assert "what it sends as Authorization is not known any more" in feeds[1]
    assert "xscl feeds edit a.example-" in feeds[1]
    assert (lacking["leases"], lacking["mails"]) == (1, 2)
    assert lacking["tokens"] == {"alice": 2, "bob": 1}
    assert lacking["apart"] == ["secrets.json", "xscl.toml", "files/matches.jsonl"]
    for line in (
        f"waits: webhook of 'plain' to {hook}: {NO_SECRET}: xscl rotate plain --data ",
        "2 mail endpoints: 'xscl serve' needs --smtp or XSCL_SMTP\n",
        "hubs: those of 1 feed will be asked again\n",
        "tokens: these remain valid, 'xscl token revoke' ends one: alice 2, bob 1\n",
        "not in a backup, copy it if there is one: secrets.json, xscl.toml, files/matches.jsonl\n",
    ):
        assert line in told
    assert "token=secret" not in told
    data = ("--data", str(home.path))
    missing = "secrets        5 secrets of endpoints and feeds missing"
    assert missing in answered("status", *data)
    doctor, lost = called("doctor", *data).stdout, "without a secret, which no backup has:"
    assert f"3 webhooks {lost} _1.mine, keyed, plain" in doctor
    assert f"2 feeds {lost} a.example-" in doctor
    rows = json_rows(answered("feeds", "list", "--json", *data))
    states = {one["key"][:9]: (one["state"], one["headers"]) for one in rows}
    assert states == {
        "a.example": ("failing", ["Authorization"]),
        "b.example": ("failing", []),
        "c.example": ("new", []),
    }


@pytest.fixture
def client(backup: Path, receiver: Receiver) -> Iterator[httpx.Client]:
    """The operator of a service on a restored directory, which may reach the receiver."""
    home, _, _ = restored(backup, "elsewhere")
    fetching = PollSettings((f"127.0.0.1:{receiver.port}",))
    with serving(home, fetching=fetching) as running, running.client() as client:
        yield client


def endpoint(client: httpx.Client, name: str) -> dict[str, Any]:
    """Return the webhook of a subscription."""
    listed = ok(client.get(f"/v1/subscriptions/{name}/endpoints"))
    (found,) = (one for one in listed if one["kind"] == "webhook")
    return dict(found)


def test_messages_wait_for_a_secret_and_are_delivered(
    client: httpx.Client, receiver: Receiver, hook: str
) -> None:
    path = hook.removeprefix(receiver.url(""))
    for name in ("plain", "keyed"):
        assert endpoint(client, name)["state"] == "incomplete"
        assert NO_SECRET in endpoint(client, name)["note"]
    page = client.get("/operator").text
    assert "incomplete" in page
    assert "rotate it" in page
    assert "Without secrets" in client.get("/status").text
    send_batch(client, "S", dict.fromkeys(("d0", "d1", "d2"), "<a/>"))
    eventually(lambda: len(ok(client.get("/v1/subscriptions/plain/matches"))["matches"]) == 3)
    eventually(lambda: endpoint(client, "plain")["position"] == 0)
    one = endpoint(client, "plain")
    again = client.patch(f"/v1/subscriptions/plain/endpoints/{one['id']}", json={"state": "active"})
    assert ok(again)["state"] == "incomplete", "it cannot be turned on without a secret"
    assert (one["failures"], one["next_try"], one["letters"]) == (0, None, 0)
    assert not receiver.at(path)

    secret = ok(client.post(f"/v1/subscriptions/plain/endpoints/{one['id']}:rotate"))["secret"]
    eventually(lambda: len(receiver.at(path)) == 3)
    assert all(is_signed(secret, got) for got in receiver.at(path))
    assert endpoint(client, "plain")["state"] == "active"

    keyed = f"/v1/subscriptions/keyed/endpoints/{endpoint(client, 'keyed')['id']}"
    ok(client.post(f"{keyed}:rotate"))
    found = endpoint(client, "keyed")
    assert (found["state"], found["note"]) == ("incomplete", NO_ADDRESS)
    ok(client.patch(keyed, json={"url": f"{hook}?token=new"}))
    eventually(lambda: len(receiver.at(f"{path}?token=new")) == 3)
    assert endpoint(client, "keyed")["state"] == "active"


@pytest.mark.parametrize("served", [False, True])
def test_the_command_that_rotates(
    backup: Path, receiver: Receiver, hook: str, served: bool
) -> None:
    home, _, _ = restored(backup, "elsewhere")
    data = ("--data", str(home.path))
    fetching = PollSettings((f"127.0.0.1:{receiver.port}",))
    with serving(home, fetching=fetching) if served else nullcontext():
        done = called("rotate", "keyed", *data)
        assert done.exit_code == 0
        assert done.stdout.startswith("whsec_")
        assert f"the webhook waits: {NO_ADDRESS} (--webhook URL)" in done.stderr
        url = ("--webhook", f"{hook}?token=new", "--json")
        told = json.loads(answered("rotate", "keyed", *url, *data))
        assert (told["rotated"], told["state"], told["note"]) == ("keyed", "active", "")
        assert told["secret"].startswith("whsec_")
        for wrong, said in (
            (("filed",), "'filed' has no such webhook\nhint: it posts nothing"),
            (("plain", "--endpoint", "ep_1"), "'plain' has no such webhook\nhint: --endpoint choo"),
            (("nothing",), "there is no subscription named 'nothing'"),
            (("keyed", "--webhook", "mailto:x"), "'mailto:x' is no address of a webhook"),
        ):
            done = called("rotate", *wrong, *data)
            assert done.exit_code != 0
            assert said in done.stderr
