"""A query that is refused is a 4xx with its place over HTTP, and a caret on the command line."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import httpx
import pytest

import xscl
from tests.xscl.commandline import called
from tests.xscl.engine.test_refused_queries import QUERIES, documents, refuse
from tests.xscl.engine.test_refused_queries import REFUSED as REFUSED_NOW
from tests.xscl.service.conftest import ok, serving
from xscl.ingestion.data_directory import DataDirectory

REFUSED = {
    "what reads more": ("xscl", 'S//item[doc("file:///etc/hosts")//title = title]'),
    "nested brackets": ("xscl", "S//a" + "[./b" * 101 + "]" * 101),
    "a type": ("cel", "SELECT n + s AS m FROM E"),
    "a negated attribute": ("sase", "EVENT SEQ(E a, !(F f), E b) WHERE w = 1"),
    "many operators": ("eql", "SELECT * FROM " + ";".join(f"E e{i}" for i in range(300))),
}


@pytest.mark.parametrize(("language", "text"), REFUSED.values(), ids=list(REFUSED))
def test_over_http(operator: httpx.Client, language: str, text: str) -> None:
    for name, kinds in (("E", {"n": "int", "s": "str"}), ("F", {"w": "int"})):
        operator.put(f"/v1/streams/{name}", json={"attributes": kinds})
    answer = operator.put("/v1/subscriptions/refused", json={"query": text, "language": language})
    assert answer.status_code == 422, answer.text
    problem = answer.json()
    assert problem["code"].startswith("query")
    assert problem["line"] == 1
    assert 1 <= problem["column"] <= len(text) + 1
    assert ok(operator.get("/v1/health"))


@pytest.mark.parametrize(("language", "text"), REFUSED.values(), ids=list(REFUSED))
def test_on_the_command_line(tmp_path: Path, language: str, text: str) -> None:
    with xscl.Engine(DataDirectory(tmp_path).database) as engine:
        engine.stream("E", attributes={"n": int, "s": str})
        engine.stream("F", attributes={"w": int})
    data = ("--data", str(tmp_path))
    answer = called("subscribe", "refused", text, "--language", language, *data)
    assert answer.exit_code == 2, answer.output
    assert "line 1, column" in answer.stderr
    assert "^" in answer.stderr
    assert "Traceback" not in answer.output


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
        assert {name for name, one in shown.items() if one["refused"]} == REFUSED_NOW
        assert "format-integer() is refused" in shown["one"]["refused"]
        assert ok(client.get("/v1/subscriptions/one"))["refused"] == shown["one"]["refused"]
        explained = ok(client.get("/v1/subscriptions/join/explain"))["text"]
        assert "this release refuses it" in explained
        page = client.get("/subscriptions")
        assert page.text.count('state-failing">refused') == len(REFUSED_NOW)
        for name in ("one", "publisher", "over time"):
            page = client.get(f"/subscriptions/{name}")
            assert page.status_code == 200
            assert "format-integer() is refused" in page.text
            assert client.get(f"/v1/subscriptions/{name}/feed.atom").status_code == 200
            ok(client.get(f"/v1/subscriptions/{name}/matches"))
        assert client.get("/").status_code == 200
        assert ok(client.get("/v1/status"))["service"]["refused"] == len(REFUSED_NOW)
        assert len(ok(client.get("/v1/matches"))["matches"]) > 5
        ok(client.patch("/v1/subscriptions/one", json={"query": "S//r[./k->k]"}))
        assert ok(client.get("/v1/subscriptions/one"))["refused"] is None
        assert client.delete("/v1/subscriptions/join").status_code == 204
    target = tmp_path / "export.json"
    assert called("export", str(target), "--data", str(home.path)).exit_code == 0
    assert "format-integer" in target.read_text()
