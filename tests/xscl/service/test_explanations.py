"""Checks and diagnoses over HTTP: what an editor shows before saving, and under "0 matches"."""

from __future__ import annotations

import httpx
import pytest

from tests.xscl.service.conftest import code, eventually, ok

pytestmark = pytest.mark.slow

QUERY = "orders//order[./titel->t] JOIN{t=u, 2 d} orders//bill[./title->u]"


def test_a_query_is_checked_and_its_lack_of_matches_explained(
    alice: httpx.Client, bob: httpx.Client
) -> None:
    ok(alice.put("/v1/streams/orders", json={}))
    for number in range(2):
        body = f"<order><title>t{number}</title></order>"
        ok(alice.post(f"/v1/documents/orders?id=o{number}", content=body))
    eventually(lambda: ok(alice.get("/v1/streams/orders/elements"))["documents"] == 2)

    checked = ok(alice.post("/v1/check", json={"query": QUERY}))
    assert checked["error"] is None
    assert checked["sentence"].startswith("Tell me when")
    assert [(one["name"], one["line"], one["column"]) for one in checked["warnings"]] == [
        ("titel", 1, 17),
        ("bill", 1, 50),
    ]
    assert checked["warnings"][0] == {
        "kind": "name",
        "name": "titel",
        "message": "'titel' is not in the newest 2 documents of 'orders'",
        "hint": "did you mean title (2 documents)?",
        "line": 1,
        "column": 17,
        "nearest": [{"name": "title", "documents": 2}],
    }

    tried = ok(alice.post("/v1/try", json={"query": QUERY}))
    assert (tried["total"], tried["diagnosis"]["closest"]) == (0, None)
    block = tried["diagnosis"]["blocks"][0]
    assert block == {
        "block": "orders//order[./titel->t]",
        "stream": "orders",
        "kept": 2,
        "examined": 2,
        "matching": 0,
        "needed": True,
        "failing": "orders//order matches, but there is no /titel in it",
        "nearest": [{"name": "title", "documents": 2}],
    }

    ok(alice.put("/v1/subscriptions/typo", json={"query": "orders//order[./title = 'T1']"}))
    found = ok(alice.post("/v1/diagnose", json={"subscription": "typo"}))
    assert found["query"] == "typo"
    assert found["blocks"][0]["failing"].endswith("'t1' and 'T1', equal but for case")
    same = "orders//order[./title->t] JOIN{t=u, 1 d} orders//order[./title->u]"
    closest = ok(alice.post("/v1/diagnose", json={"query": same}))["closest"]
    assert sorted(closest["documents"]) == ["orders/o0", "orders/o1"]
    assert [edge["text"] for edge in closest["edges"] if not edge["holds"]] == ["t = u"]

    # Another user can name nothing of it.
    error = ok(bob.post("/v1/check", json={"query": QUERY}))["error"]
    assert (error["message"], error["column"]) == ("there is no stream 'orders'", 1)
    assert code(bob.post("/v1/diagnose", json={"query": QUERY}))[0] == 422
    assert code(bob.post("/v1/diagnose", json={"subscription": "typo"}))[0] == 404


def test_a_check_names_what_keeps_absences_from_being_reported(alice: httpx.Client) -> None:
    query = {"query": "mine//a NOT FOLLOWED BY{1 h} mine//b"}
    ok(alice.put("/v1/streams/mine", json={"live": False}))
    note = ok(alice.post("/v1/check", json=query))["absences"]
    assert note.startswith("an absence is reported only when a later document arrives: 'mine' is")
    ok(alice.put("/v1/streams/mine", json={"live": True}))
    assert ok(alice.post("/v1/check", json=query))["absences"] is None
    ok(alice.put("/v1/streams/mine", json={"live": False}))
    joined = {"query": "mine//a FOLLOWED BY{1 h} mine//b"}
    assert ok(alice.post("/v1/check", json=joined))["absences"] is None
