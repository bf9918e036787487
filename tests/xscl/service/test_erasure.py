"""A user's data: exported as a whole, and erased so that nothing of it is left."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import answered, json_rows
from tests.xscl.service.conftest import Running, eventually, filling, ok, send_batch, serving
from tests.xscl.stored_tables import stored_tables
from tests.xscl.web.test_stars import star_newest
from xscl.engine.facade import Engine
from xscl.ingestion.data_directory import DataDirectory
from xscl.polling.feed_poller import PollSettings
from xscl.service import user_data
from xscl.service.accounts import Account, Accounts
from xscl.service.app import App
from xscl.store.queries.owned_rows import OWNED
from xscl.store.queries.tables import TABLES
from xscl.store.store import Store


def test_a_user_is_exported_and_erased(place: DataDirectory) -> None:
    with serving(place) as running, running.client() as operator:
        with running.user("alice") as alice:
            ok(alice.put("/v1/streams/orders", json={"live": True}))
            body = {"query": "orders//a->x", "tags": ["alice"]}
            for name in ("kept", "gone"):
                ok(alice.put(f"/v1/subscriptions/{name}", json=body))
            hook = {"kind": "file", "name": "alice"}
            alice.post("/v1/subscriptions/kept/endpoints", json=hook)
            made = ok(alice.post("/v1/addresses", json={}))
            ok(alice.post("/v1/documents/orders?id=secret-order", content=b"<a>private</a>"))
            eventually(lambda: ok(alice.get("/v1/matches"))["matches"])
            star_newest(alice)
            alice.post("/v1/reading/marks", json={"items": ["orders/secret-order"]})
            ok(alice.put("/v1/reading", json={"order": "date"}))
            ok(alice.put("/v1/sql/saved/alice", json={"query": "SELECT 'private'"}))
            assert alice.delete("/v1/subscriptions/gone").status_code == 204
            exported = alice.get("/v1/me/data")
            rows = json_rows(exported.text)
            assert {row["kind"] for row in rows} >= {
                *("account", "token", "owned_stream", "stream", "subscription", "retired"),
                *("subscription_tag", "secret_address", "star", "saved_statement"),
                *("read_mark", "preference", "document", "match"),
            }
            matches = [row["subscription"] for row in rows if row["kind"] == "match"]
            assert matches == ["kept", "gone"]
            assert "_1." not in exported.text
            assert operator.get("/v1/accounts/alice/data").text == exported.text
            assert alice.delete("/v1/accounts/alice").status_code == 403
            assert operator.delete("/v1/accounts/alice").status_code == 204
            assert alice.get("/v1/me").status_code == 401
            assert operator.get(made["atom"]).status_code == 404
        assert operator.get("/v1/accounts/alice/data").status_code == 404
        again = ok(operator.post("/v1/tokens", json={"user": "bob"}))
        assert again["user"] == "bob"
    assert Spool(place.spool, read_only=True).numbers(0)
    assert found_in(place, ("alice", "secret-order", "private", "_1.")) == set()
    with Engine(place.database) as engine, closing(engine.connect()) as store:
        assert store.fetch("SELECT number FROM state.account") == [(2,)]


def test_each_table_with_the_number_or_a_name_of_a_user_says_what_of_it_is_shown() -> None:
    of_users = {
        table
        for table, fields in TABLES.items()
        if table in ("account", "stream", "subscription", "retired", "feed", "story")
        or {"account", "subscription"} & set(fields.names)
    }
    assert of_users - {"backfill"} == set(OWNED)  # a backfill leaves with its subscription
    for table, owned in OWNED.items():
        assert {*owned.shown, *owned.exported, owned.number or owned.name} <= {*TABLES[table].names}


MINE = "S//a->x FOLLOWED BY{x = y, 9 d} S//a->y"


class Own(NamedTuple):
    """The things that a user has, each with a text that stands nowhere else."""

    user: str
    stream: str
    subscription: str
    past: str
    tag: str
    label: str
    hook: str
    constant: str
    pattern: str
    statement: str
    id: str
    text: str
    rejected: str
    waiting: str

    @classmethod
    def random(cls) -> Own:
        return cls(*(f"t{secrets.token_hex(8)}" for _ in cls._fields))


NOT_HAD = {
    *("feed", "feed_item", "feed_lease", "feed_poll", "feed_spool"),
    *("core", "composite", "composite_stream", "retired"),
    *("backfill", "cut", "late", "ledger", "dead_letter"),
}
"""Relations that `has_all` may leave empty: of feeds, of events, of edits, and of faults."""


def has_all(running: Running, operator: httpx.Client, own: Own) -> None:
    """Give a user all that a user may have."""
    made = ok(operator.post("/v1/tokens", json={"user": own.user, "label": own.label}))
    with running.client(made["token"]) as user:
        ok(user.put(f"/v1/streams/{own.stream}", json={"live": True}))
        queries = {
            own.subscription: f"{own.stream}//a->x FOLLOWED BY{{x=y, 9 d}} {own.stream}//a->y",
            own.past: f"{own.stream}//a[./{own.pattern}]->x",
            "gone": f"{own.stream}//a[./b = '{own.constant}']->x",
        }
        for name, query in queries.items():
            ok(user.put(f"/v1/subscriptions/{name}", json={"query": query, "tags": [own.tag]}))
        ok(user.patch(f"/v1/subscriptions/{own.subscription}", json={"stories": True}))
        edited = {"query": f"{own.stream}//a->x"}
        ok(user.patch(f"/v1/subscriptions/{own.past}", json=edited))
        hook = {"kind": "webhook", "url": f"https://127.0.0.1:9/{own.hook}"}
        ok(user.post(f"/v1/subscriptions/{own.past}/endpoints", json=hook))
        ok(user.post("/v1/addresses", json={}))
        texts = {f"{own.id}-{n}": f"<a>{own.text}<b>{n % 3}</b></a>" for n in range(30)}
        send_batch(user, own.stream, texts)
        eventually(lambda: len(ok(user.get("/v1/matches?limit=100"))["matches"]) > 30)
        star_newest(user)
        user.post("/v1/reading/marks", json={"items": [f"{own.stream}/{own.id}-1"]})
        ok(user.put("/v1/reading", json={"order": "date"}))
        user.post(f"/v1/documents/{own.stream}?id=wrong", content=f"<{own.rejected}>")
        statement = {"query": f"SELECT '{own.statement}'"}
        ok(user.put("/v1/sql/saved/one", json=statement))
        ok(user.post("/v1/sql", json=statement))
        assert user.delete("/v1/subscriptions/gone").status_code == 204


def found_in(place: DataDirectory, texts: Iterable[str]) -> set[tuple[str, str]]:
    """Return which of some texts stand where: in a raw file, a table or a document that waits."""
    files = [path for path in place.path.rglob("*") if path.is_file()]
    places = {str(path.relative_to(place.path)): path.read_bytes() for path in files}
    spool = Spool(place.spool, read_only=True)
    for number in spool.numbers(0):
        places[f"segment {number}"] = repr(list(spool.read(number))).encode()
    with closing(Store(place.database)) as store:
        for table, rows in stored_tables(store).items():
            places[f"state.{table}"] = repr(rows.to_pylist()).encode()
    return {
        (text, where) for text in texts for where, image in places.items() if text.encode() in image
    }


def test_no_byte_of_an_erased_user_is_left(place: DataDirectory) -> None:
    """Neither in a file as it is, nor in what its compressed parts say."""
    own = Own.random()
    fetching = PollSettings(("127.0.0.1:9",))  # where nobody listens
    with serving(place, fetching=fetching) as running, running.client() as operator:
        ok(operator.put("/v1/subscriptions/mine", json={"query": "S//a->x"}))
        has_all(running, operator, own)
    with Spool(place.spool) as spool:
        name = f"_1.{own.stream}"
        spool.append([Document(name, "x", 1, f"<a>{own.waiting}</a>".encode())], 1)
    with closing(Store(place.database)) as store:
        empty = {name for name, rows in stored_tables(store).items() if not rows.num_rows}
    assert empty <= NOT_HAD, "a new relation is filled by `has_all`, or it is not a user's"
    there = found_in(place, own)
    texts = {text for text, _ in there}
    assert [name for name, text in own._asdict().items() if text not in texts] == []
    assert {where for _, where in there} >= {place.database.name, "state.value", "state.text"}
    with serving(place) as running, running.client() as operator:
        assert operator.delete(f"/v1/accounts/{own.user}").status_code == 204
        for path in place.path.glob("state.sqlite*"):
            # of another process: closing the file here would drop the locks of the store
            image = subprocess.check_output(["cat", str(path)])
            assert not [text for text in own if text.encode() in image], path
        ok(operator.post("/v1/documents/S?id=later", content="<a>later</a>"))
        eventually(lambda: ok(operator.get("/v1/matches"))["matches"])
    assert found_in(place, own) == set()


def test_a_token_that_is_made_during_an_erasure_ends_with_it(
    place: DataDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[Callable[[], bool]] = []
    names = user_data._names

    def connecting(app: App, account: Account) -> list[str]:
        is_valid = app.accounts.tokens.watched(app.accounts.tokens.create(account)[1])
        assert is_valid()
        connections.append(is_valid)
        return names(app, account)

    with serving(place) as running, running.client() as operator:
        ok(operator.post("/v1/tokens", json={"user": "alice"}))
        monkeypatch.setattr(user_data, "_names", connecting)
        assert operator.delete("/v1/accounts/alice").status_code == 204
        assert [is_valid() for is_valid in connections] == [False]


@pytest.mark.slow  # Spark starts twice
@pytest.mark.spark
def test_executors_keep_nothing_of_an_erased_user(place: DataDirectory) -> None:
    """Their files of shuffles and states are compressed: all those from before are gone."""
    own = Own.random()
    fetching = PollSettings(("127.0.0.1:9",))  # where nobody listens
    with serving(place, fetching=fetching, spark=True) as running, running.client() as operator:
        ok(operator.put("/v1/subscriptions/mine", json={"query": MINE}))
        has_all(running, operator, own)
        before = files_of_executors(place)
        assert {path.name for path in before} >= {"offer", "newest", "metadata"}
        assert operator.delete(f"/v1/accounts/{own.user}").status_code == 204
        assert not files_of_executors(place)
        send_batch(operator, "S", dict.fromkeys(("later0", "later1"), "<a>later</a>"))
        eventually(lambda: ok(operator.get("/v1/matches"))["matches"])
    assert found_in(place, own) == set()


def files_of_executors(place: DataDirectory) -> set[Path]:
    """Return the files of executors, without those of the Java and the Python that they run."""
    lasting = {"python", "java", "spark.log", "spark.stderr", "log4j2.properties"}
    every = {path for path in place.spark.rglob("*") if path.is_file()}
    return {path for path in every if path.relative_to(place.spark).parts[0] not in lasting}


def make_alice(place: DataDirectory) -> None:
    with filling(place) as engine, closing(engine.connect()) as store:
        Accounts(store).make("alice")


def test_documents_that_wait_are_erased_before_they_are_consumed(place: DataDirectory) -> None:
    """Without a service, nobody consumes them until then."""
    make_alice(place)
    waiting = [
        Document("_1.orders", "secret-order", 1, b"<a>private</a>"),
        Document("S", "public", 2, b"<a>known</a>"),
    ]
    with Spool(place.spool) as spool:
        spool.append(waiting, 3)
    for command in ("user erase alice --yes", "serve --once --no-spark"):
        answered(*command.split(), "--data", str(place.path))
    assert not [path for path in place.spool.iterdir() if b"private" in path.read_bytes()]
    with Engine(place.database) as engine:
        assert engine.sql("SELECT id FROM documents").to_pylist() == [{"id": "public"}]
        rejected = engine.sql("SELECT reason, beginning FROM rejected").to_pylist()
    assert rejected == [{"reason": "no_stream", "beginning": "<erased/>"}]


@pytest.mark.parametrize("command", ["user erase alice --yes", "serve --once"])
def test_files_of_executors_that_were_killed_are_deleted(
    place: DataDirectory, command: str
) -> None:
    make_alice(place)
    for name in ("plan-1/current", "checkpoint/metadata", "local/blockmgr-1/0c/shuffle_0_0_0.data"):
        (place.spark / name).parent.mkdir(parents=True)
        (place.spark / name).touch()
    for name in ("documents.arrow", "offer", "offer.tmp", "spark.log"):
        (place.spark / name).touch()
    answered(*command.split(), "--data", str(place.path))
    assert [path.name for path in place.spark.iterdir()] == ["spark.log"]


def test_an_erasure_waits_for_what_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.service.user_data._PATIENCE", 0.1)
    with Engine() as engine:
        user_data._await(engine, 0)
        with pytest.raises(user_data.ErasureWaits, match=r"not consumed after 0\.1 s"):
            user_data._await(engine, 1)
