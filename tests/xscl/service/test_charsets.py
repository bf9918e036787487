"""The charset of Content-Type is that of the body, wherever bytes are taken (RFC 7303, 3)."""

from __future__ import annotations

import httpx
import pytest

from tests.xscl.service.conftest import Running, code, eventually, ok


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("iso-8859-1", "<a>café</a>".encode("latin-1")),
        ("utf-8", "<?xml version='1.0' encoding='iso-8859-1'?><a>café</a>".encode()),
    ],
)
def test_documents_are_in_the_charset_of_their_type(
    operator: httpx.Client, charset: str, body: bytes
) -> None:
    kind = {"Content-Type": f"application/xml; charset={charset}"}
    sent = operator.post("/v1/documents/coded", content=body, headers=kind)
    assert sent.status_code == 202, sent.text
    attempt = {"query": "coded//a->x[. = 'caf\u00e9']", "documents": [sent.json()["id"]]}
    eventually(lambda: ok(operator.post("/v1/try", json={"query": attempt["query"]}))["total"] > 0)


@pytest.mark.parametrize(
    ("charset", "body"),
    [
        ("utf-8", b"<?xml version='1.0' encoding='iso-8859-1'?><a>caf\xe9</a>"),
        ("klingon", b"<a/>"),
        ("shift_jis", b"<a>\x81</a>"),
    ],
)
def test_a_wrong_charset_is_refused_with_the_place(
    operator: httpx.Client, charset: str, body: bytes
) -> None:
    kind = {"Content-Type": f"text/xml; charset={charset}"}
    refused = operator.post("/v1/documents/coded", content=body, headers=kind)
    assert code(refused) == (422, "xml_encoding")
    assert "line 1" in refused.text or refused.json().get("line") == 1


def test_lists_are_in_the_charset_of_their_type(operator: httpx.Client, running: Running) -> None:
    opml = (
        '<opml version="2.0"><body><outline text="Grüße" xmlUrl="https://coded.example/f"/>'
        "</body></opml>"
    )
    kind = {"Content-Type": "text/x-opml; charset=iso-8859-1"}
    (line,) = ok(operator.post("/v1/feeds:import", content=opml.encode("latin-1"), headers=kind))
    assert line["title"] == "Grüße"
    rows = "name,query\ncoded,\"S//a[. = 'café']->x\"\n".encode("latin-1")
    kind = {"Content-Type": "text/csv; charset=ISO-8859-1"}
    ok(operator.post("/v1/subscriptions:import", content=rows, headers=kind))
    assert "café" in ok(operator.get("/v1/subscriptions/coded"))["query"]
    refused = operator.post(
        "/v1/subscriptions:import", content=rows, headers={"Content-Type": "text/csv"}
    )
    assert code(refused)[1] == "encoding"
    operator.delete("/v1/subscriptions/coded")
    for feed in ok(operator.get("/v1/feeds"))["items"]:
        operator.delete(f"/v1/feeds/{feed['key']}")
