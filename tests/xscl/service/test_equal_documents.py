"""Documents that differ in how they are written only, and those that are nearly right."""

from __future__ import annotations

import httpx
import pytest

from tests.xscl.service.conftest import eventually

SAME = {
    "comment": "<a><t>a<!-- no text -->b</t></a>",
    "cdata": "<a><t><![CDATA[a]]><![CDATA[b]]></t></a>",
    "instruction": "<a><t>a<?skip this?>b</t></a>",
    "reference": "<a><t>&#97;&#x62;</t></a>",
    "declared": '<?xml version="1.0" encoding="utf-8"?>\n<a><t>ab</t></a>',
    "attributes": '<a y="2" x="1"><t>ab</t></a>',
    "prefix": '<a xmlns:p="urn:p"><t>ab</t><p:u/></a>',
}
PREFIXES = {
    "first": '<p:a xmlns:p="urn:p"><p:t>ab</p:t></p:a>',
    "second": '<q:a xmlns:q="urn:p"><q:t>ab</q:t></q:a>',
    "default": '<a xmlns="urn:p"><t>ab</t></a>',
}


def send(client: httpx.Client, stream: str, documents: dict[str, str]) -> None:
    for at, (name, text) in enumerate(documents.items()):
        address = f"/v1/documents/{stream}?id={stream}-{name}&time={at + 1}000000"
        assert client.post(address, content=text).status_code == 202


def values(client: httpx.Client, stream: str) -> list[tuple[str, str]]:
    """The values of the second variable, by document, as SQL has them."""
    question = (
        "SELECT docid, strVal FROM R_doc WHERE strVal IS NOT NULL"
        f" AND starts_with(docid, '{stream}/') ORDER BY docid"
    )
    rows = client.post("/v1/sql", json={"query": question}).json()["rows"]
    return [(name, value) for name, value in rows]


@pytest.mark.parametrize(
    ("stream", "documents", "query"),
    [
        ("plain", SAME, "plain//t->x JOIN{x=y, 1 d} plain//t->y"),
        ("named", PREFIXES, "NAMESPACE n = 'urn:p' named//n:t->x JOIN{x=y, 1 d} named//n:t->y"),
    ],
)
def test_x16_equal_documents_join_however_they_are_written(
    operator: httpx.Client, stream: str, documents: dict[str, str], query: str
) -> None:
    made = operator.put(f"/v1/subscriptions/{stream}", json={"query": query})
    assert made.status_code == 201, made.text
    send(operator, stream, documents)
    ids = sorted(f"{stream}/{stream}-{name}" for name in documents)
    eventually(lambda: [name for name, _ in values(operator, stream)] == ids)
    assert {value for _, value in values(operator, stream)} == {"ab"}
    question = f"SELECT count(*) FROM matches WHERE subscription = '{stream}'"
    pairs = len(ids) * (len(ids) - 1)

    def matched() -> int:
        return int(operator.post("/v1/sql", json={"query": question}).json()["rows"][0][0])

    eventually(lambda: matched() == pairs)
