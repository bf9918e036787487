"""Queries of a store that this release refuses: the service runs and shows the reason."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import xscl
from tests.xscl.commandline import called
from tests.xscl.engine.test_refused_queries import QUERIES, REFUSED, documents, refuse
from tests.xscl.service.conftest import ok, serving
from xscl.ingestion.data_directory import DataDirectory


def test_a_stored_query_that_is_refused_now_is_shown_with_the_reason(tmp_path: Path) -> None:
    home = DataDirectory(tmp_path / "data")
    home.create()
    with closing(xscl.Engine(home.database)) as engine:
        engine.stream("S", attributes={"k": str})
        for name, query in QUERIES.items():
            engine.subscribe(name, query, language="cel" if name == "events" else "xscl")
        engine.push(documents(0))
    refuse(home.database)
    listed = called("subscriptions", "--data", str(home.path))
    assert "publisher has no matches: line 1" in listed.stdout
    assert "6 subscriptions without matches" in called("status", "--data", str(home.path)).stdout
    with serving(home) as running, running.client() as client:
        assert ok(client.get("/v1/health"))["status"] == "ok"
        shown = {one["name"]: one for one in ok(client.get("/v1/subscriptions"))["items"]}
        assert {name for name, one in shown.items() if one["refused"]} == REFUSED
        assert "format-integer() is refused" in shown["one"]["refused"]
        assert ok(client.get("/v1/subscriptions/one"))["refused"] == shown["one"]["refused"]
        explained = ok(client.get("/v1/subscriptions/join/explain"))["text"]
        assert "this release refuses it" in explained
        page = client.get("/subscriptions")
        assert page.text.count('state-failing">refused') == len(REFUSED)
        for name in ("one", "publisher", "over time"):
            page = client.get(f"/subscriptions/{name}")
            assert page.status_code == 200
            assert "format-integer() is refused" in page.text
            assert client.get(f"/v1/subscriptions/{name}/feed.atom").status_code == 200
            ok(client.get(f"/v1/subscriptions/{name}/matches"))
        assert client.get("/").status_code == 200
        assert ok(client.get("/v1/status"))["service"]["refused"] == len(REFUSED)
        assert len(ok(client.get("/v1/matches"))["matches"]) > 5
        ok(client.patch("/v1/subscriptions/one", json={"query": "S//r[./k->k]"}))
        assert ok(client.get("/v1/subscriptions/one"))["refused"] is None
        assert client.delete("/v1/subscriptions/join").status_code == 204
    target = tmp_path / "export.json"
    assert called("export", str(target), "--data", str(home.path)).exit_code == 0
    assert "format-integer" in target.read_text()
