"""Documents that differ in how they are written only are equal, and join."""

from __future__ import annotations

import pytest

from xscl import Document, Engine

PLAIN = (
    "<a><t>ab</t></a>",
    "<a><t>a<!-- no text -->b</t></a>",
    "<a><t><![CDATA[a]]><![CDATA[b]]></t></a>",
    "<a><t>a<?skip this?>b</t></a>",
    "<a><t>&#97;&#x62;</t></a>",
    '<?xml version="1.0" encoding="utf-8"?>\n<a><t>ab</t></a>',
    '<a y="2" x="1"><t>ab</t></a>',
    '<a xmlns:p="urn:p"><t>ab</t><p:u/></a>',
)
NAMED = (
    '<p:a xmlns:p="urn:p"><p:t>ab</p:t></p:a>',
    '<q:a xmlns:q="urn:p"><q:t>ab</q:t></q:a>',
    '<a xmlns="urn:p"><t>ab</t></a>',
)


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        (PLAIN, "S//t->x JOIN{x=y, 1 d} S//t->y"),
        (NAMED, "NAMESPACE n = 'urn:p' S//n:t->x JOIN{x=y, 1 d} S//n:t->y"),
    ],
    ids=["plain", "named"],
)
def test_x16_equal_documents_join_however_they_are_written(
    engine: Engine, texts: tuple[str, ...], query: str
) -> None:
    engine.subscribe("q", query)
    engine.push([Document("S", f"d{at}", at, text.encode()) for at, text in enumerate(texts, 1)])
    values = engine.sql("SELECT strVal FROM R_doc WHERE strVal IS NOT NULL").to_pylist()
    assert [row["strVal"] for row in values] == ["ab"] * len(texts)
    assert len(engine.matches("q")) == len(texts) * (len(texts) - 1)
