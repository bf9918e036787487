"""A user's data: exported as a whole, and erased so that nothing of it is left."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import httpx
import pytest

from feeds.documents import Document
from feeds.spool import Spool
from tests.xscl.commandline import called
from tests.xscl.service.conftest import eventually, ok, serving
from tests.xscl.stored_tables import stored_tables
from tests.xscl.web.test_stars import star_newest
from xscl.engine.facade import Engine
from xscl.service.accounts import Accounts
from xscl.service.user_data import ErasureWaits, UserData
from xscl.store.data_directory import DataDirectory


def test_a_user_is_exported_and_erased(place: DataDirectory) -> None:
    with serving(place) as running, running.client() as operator:
        token = ok(operator.post("/v1/tokens", json={"user": "alice", "label": "laptop"}))["token"]
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=operator.base_url, headers=headers) as alice:
            ok(alice.put("/v1/streams/orders", json={"live": True}))
            for name in ("kept", "gone"):
                ok(
                    alice.put(
                        f"/v1/subscriptions/{name}",
                        json={"query": "orders//a->x", "tags": ["alice"]},
                    )
                )
            hook = {"kind": "file", "name": "alice"}
            alice.post("/v1/subscriptions/kept/endpoints", json=hook)
            made = ok(alice.post("/v1/addresses", json={}))
            ok(alice.post("/v1/documents/orders?id=secret-order", content=b"<a>private</a>"))
            eventually(lambda: ok(alice.get("/v1/matches"))["matches"])
            star_newest(alice)
            ok(alice.put("/v1/sql/saved/alice", json={"query": "SELECT 'private'"}))
            assert alice.delete("/v1/subscriptions/gone").status_code == 204
            exported = alice.get("/v1/me/data")
            rows = [json.loads(line) for line in exported.text.splitlines()]
            kinds = {row["kind"] for row in rows}
            assert kinds >= {
                *("user", "token", "stream", "subscription", "document", "match"),
                *("secret_address", "star", "statement"),
            }
            assert [row["subscription"] for row in rows if row["kind"] == "match"] == [
                "kept",
                "gone",
            ]
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
    files = [path.read_bytes() for path in place.spool.iterdir() if path.is_file()]
    for word in (b"alice", b"secret-order", b"private", b"_1."):
        assert not [image for image in files if word in image], word
    with Engine(place.database) as engine, closing(engine.host.connect()) as store:
        for table, rows in stored_tables(store).items():
            text = json.dumps(rows.to_pylist(), default=repr)
            for own in ("alice", "secret-order", "private", "_1."):
                assert own not in text, (table, own)
        assert store.fetch("SELECT number FROM state.account") == [(2,)]


def test_documents_that_wait_are_erased_before_they_are_consumed(place: DataDirectory) -> None:
    """Without a service, nobody consumes them until then."""
    place.create()
    with Engine(place.database) as engine, closing(engine.host.connect()) as store:
        Accounts(store).make("alice")
    waiting = [
        Document("_1.orders", "secret-order", 1, b"<a>private</a>"),
        Document("S", "public", 2, b"<a>known</a>"),
    ]
    with Spool(place.spool) as spool:
        spool.append(waiting, 3)
    data = ("--data", str(place.path))
    assert called("user", "erase", "alice", "--yes", *data).exit_code == 0
    assert called("serve", "--once", "--no-spark", *data).exit_code == 0
    assert not [path for path in place.spool.iterdir() if b"private" in path.read_bytes()]
    with Engine(place.database) as engine:
        assert engine.sql("SELECT id FROM documents").to_pylist() == [{"id": "public"}]
        rejected = engine.sql("SELECT reason, beginning FROM rejected").to_pylist()
    assert rejected == [{"reason": "no_stream", "beginning": "<erased/>"}]


def test_an_erasure_waits_for_what_was_read_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.service.user_data._PATIENCE", 0.1)
    nothing: Any = None
    with Engine() as engine:
        data = UserData(engine, nothing, nothing, nothing, nothing)
        data._await(0)
        with pytest.raises(ErasureWaits, match=r"not consumed after 0\.1 s"):
            data._await(1)
