"""Each surface shows the names of documents, and each name leads to its document."""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.examples import usually
from tests.xscl.service.conftest import code, eventually, ok

PAIRS = "orders//n->x JOIN{x=y, 30 d} invoices//n->y"
SENT = [  # stream, id, content; each content is a version
    ("invoices", "17", "1"),
    ("orders", "17", "1"),
    ("orders", "17", "2"),
    ("orders", "a/b?c=1&d #%41@3", "1"),
    ("invoices", "orders/17", "1"),
    ("orders", "/abs/x.xml", "1"),
    ("in.voices", "17", "1"),
]
NAMES = [
    *("invoices/17", "orders/17", "orders/17@2", "orders/a/b?c=1&d #%41@3@1"),
    *("invoices/orders/17", "orders//abs/x.xml", "in.voices/17"),
]


def text(stream: str, content: str) -> str:
    root = stream.rstrip("s").replace(".", "-")
    return f"<{root}><n>k</n><c>{content}</c></{root}>"


@pytest.fixture(scope="module", params=usually(["operator", "alice"], "alice"))
def owner(request: pytest.FixtureRequest) -> httpx.Client:
    """A client whose streams have the documents, and who has subscriptions to them."""
    client: httpx.Client = request.getfixturevalue(request.param)
    for stream in ("orders", "invoices", "in.voices"):
        ok(client.put(f"/v1/streams/{stream}", json={"live": True}))
    body = {"query": PAIRS, "updates": True, "history": False}
    ok(client.put("/v1/subscriptions/pairs", json=body))
    ok(client.put("/v1/subscriptions/rest", json={"query": "in.voices//n->x", "history": False}))
    for stream, id, content in SENT:
        address = f"/v1/documents/{stream}"
        ok(client.post(address, params={"id": id}, content=text(stream, content)))
    eventually(lambda: len(matches(client)) == 8)
    return client


def matches(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ok(client.get("/v1/subscriptions/pairs/matches"))["matches"]
    return found


def test_a_match_says_what_its_documents_are(owner: httpx.Client) -> None:
    found = matches(owner)
    (first,) = (one for one in found if one["documents"] == ["17", "17"])
    assert list(first["sources"][0])[:5] == ["document", "stream", "id", "version", "root"]
    assert [list(one.values())[:5] for one in first["sources"]] == [
        ["orders/17", "orders", "17", 1, "order"],
        ["invoices/17", "invoices", "17", 1, "invoice"],
    ]
    (second,) = (one for one in found if one["documents"] == ["17@2", "17"])
    assert [one["version"] for one in second["sources"]] == [2, 1]
    assert [one["document"] for one in second["sources"]] == ["orders/17@2", "invoices/17"]
    bound = {one["document"] for of in second["bindings"].values() for one in of}
    assert bound == {"orders/17@2", "invoices/17"}
    assert "_" not in str([[*source.values()] for one in found for source in one["sources"]])
    tried = ok(owner.post("/v1/try", json={"query": PAIRS}))["matches"]
    (same,) = (one for one in tried if one["documents"] == ["17", "17"])
    assert same["sources"] == first["sources"]


@pytest.mark.parametrize(("sent", "name"), list(zip(SENT, NAMES, strict=True)), ids=NAMES)
def test_a_name_leads_to_its_document(
    owner: httpx.Client, sent: tuple[str, str, str], name: str
) -> None:
    stream, id, content = sent
    for safe in ("/", ""):
        found = ok(owner.get(f"/v1/documents/{quote(name, safe=safe)}/witness"))
        assert found["document"] == name
        assert [node["text"] for node in found["nodes"]] == ["", "k", content]
    page = owner.get("/document", params={"id": name})
    assert page.status_code == 200
    assert html.escape(name) in page.text
    (listed,) = (one for one in listing(owner) if one["document"] == name)
    assert (listed["streams"], listed["id"]) == ([stream], id)
    query = {"query": f"{stream}//n->x", "documents": [name]}
    answer = ok(owner.post("/v1/why", json=query))
    assert answer["matched"]
    assert name in answer["edges"][0]["text"]


def listing(owner: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ok(owner.get("/v1/documents", params={"limit": 100}))["items"]
    return found


def test_an_id_of_several_streams_is_an_error_that_lists_them(owner: httpx.Client) -> None:
    ok(owner.put("/v1/streams/other", json={"live": True}))
    asked = {"query": "other//n->x", "documents": ["17"]}
    for answer in (owner.get("/v1/documents/17/witness"), owner.post("/v1/why", json=asked)):
        assert code(answer) == (422, "ambiguous_document")
        assert "in.voices/17, invoices/17, orders/17" in answer.json()["detail"]
    page = owner.get("/document", params={"id": "17"})
    assert page.status_code == 422
    assert "in.voices/17, invoices/17, orders/17" in page.text
    assert code(owner.get("/v1/documents/18/witness")) == (422, "unknown_document")
    assert owner.get("/document", params={"id": "18"}).status_code == 404
    assert ok(owner.get("/v1/documents/17@2/witness"))["document"] == "orders/17@2"
