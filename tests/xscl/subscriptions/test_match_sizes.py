"""Every form of a match has a bound of bytes, which is checked before the work."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import closing

import pytest

import xscl.subscriptions.construct as construct
import xscl.subscriptions.match as match_module
import xscl.subscriptions.matches as match_tables
from xscl import Document, Engine
from xscl.delivery.message import LARGEST as MESSAGE
from xscl.delivery.message import LINES, messages_of, row_of
from xscl.subscriptions.match import Match

LONG = "x" * 500_000
MANY = f"SELECT <r>{'{k}' * 2_000}</r> FROM S//r[./k->k]"


def found(query: str, *texts: str, language: str = "xscl") -> Sequence[Match]:
    """Return the matches of a query over documents of a stream S."""
    with closing(Engine()) as engine:
        engine.stream("S", attributes={"k": str})
        engine.subscribe("q", query, language=language)
        documents = [Document("S", f"d{n}", n, text.encode()) for n, text in enumerate(texts)]
        matches = list(engine.push(documents).matches)
        for match in matches:
            match.xml()  # reads the documents
        return matches


def sizes(xml: bytes) -> tuple[int, int]:
    """Return the bytes and the limit that a document in place of a larger one names."""
    size, limit = re.fullmatch(rb'<too-large bytes="(\d+)" limit="(\d+)"/>', xml).groups()  # type: ignore[union-attr]
    return int(size), int(limit)


def test_a_document_that_would_be_too_large_is_not_made() -> None:
    (one,) = found(MANY, f"<r><k>{LONG}</k></r>")
    assert sizes(one.xml()) == (2_000 * (len(LONG) + 7) + 7, construct.LARGEST)
    assert row_of(one)["xml"] == one.xml().decode()
    with pytest.raises(construct.OutputTooLarge):
        one.output()


WAYS = {
    "elements": "{k}{k}",
    "texts": "{string(k)}{string(k)}",
    "an attribute": '<a b="{k}{k}"/>',
    "paths": "{r/k}{r/k}",
    "functions": "{lower-case(k)}{upper-case(k)}",
    "elements in one another": "<a>{k}</a><b><c>{k}</c></b>",
    "literal text": "yyy " * 749 + "yyyy",
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_makes_it_large(way: str) -> None:
    (one,) = found(
        f"SELECT <o>{WAYS[way]}</o> FROM S//r->r[./k->k]", f"<r><k>{'x' * 1_500}</k></r>"
    )
    whole = one.xml()
    assert 3_000 < len(whole) < 3_100
    size, limit = sizes(one.xml(2_999))
    assert limit == 2_999 < size <= len(whole) + 5
    assert one.xml(len(whole) + 5) == whole


def test_characters_that_are_escaped_count_as_they_are_written() -> None:
    (one,) = found(
        "SELECT <o>{string(k)}</o> FROM S//r[./k->k]", "<r><k>" + "&amp;" * 1_000 + "</k></r>"
    )
    assert len(one.xml()) > 5_000
    sizes(one.xml(4_000))


@pytest.mark.parametrize(
    "query",
    [
        "S//x->x",
        "SELECT * FROM S//x->x JOIN{x = y, 1 d} S//x->y",
        "S//r[./k->k] JOIN{k = l, 1 d} (SELECT <m>{l}{l}{l}</m> FROM S//r[./k->l])",
    ],
)
def test_copies_of_what_blocks_select_have_a_size(query: str) -> None:
    text = f"<r><x><x>{'x' * 2_000}</x></x><k>{'k' * 2_000}</k></r>"
    for one in found(query, text, text):
        assert len(one.xml()) > 2_000
        sizes(one.xml(1_900))


def test_what_is_too_large_is_not_published(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(construct, "LARGEST", 1_000)
    monkeypatch.setattr(match_module.Match.output, "__defaults__", (1_000,))
    engine.subscribe("p", "SELECT <o>{k}</o> FROM S//r[./k->k] PUBLISH P")
    engine.subscribe("q", "P//o->o")
    texts = [b"<r><k>small</k></r>", b"<r><k>" + b"x" * 2_000 + b"</k></r>"]
    pushed = engine.push([Document("S", f"d{n}", n, one) for n, one in enumerate(texts)])
    assert [one.subscription for one in pushed.matches].count("q") == 1
    assert [one.subscription for one in pushed.matches].count("p") == 2
    assert "a match of p is not published" in caplog.text


def test_values_of_a_match_have_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_module, "VALUES", 100)
    text = f"<r><t>1</t><k>{'k' * 200}</k><l>short</l></r>"
    (one,) = found("S//r[./t->t][./k->k][./l->l]", text)
    assert [node.value for nodes in one.bindings.values() for node in nodes] == [
        "1",
        "k" * 200,
        "…",
    ]


def test_values_of_all_matches_in_sql_have_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_tables, "LARGEST", 1_000)
    texts = [f"<r><k>{'k' * 300}{n}</k></r>" for n in range(9)]
    assert match_tables.values_table(found("S//r[./k->k]", *texts)).num_rows == 3


@pytest.mark.parametrize("shape", ["long", "wide", "deep names", "many matches"])
def test_a_message_has_its_bound_whatever_is_in_it(shape: str) -> None:
    match shape:
        case "long":
            query, text = MANY, f"<r><k>{LONG}</k></r>"
        case "wide":
            query = "SELECT DISTINCT * FROM S//r[./k->k]"
            text = f"<r>{'<k>some words</k>' * 20_000}</r>"
        case "deep names":
            name = "n" * 2_000
            query = "S//k->k"
            text = f"<{name}>" * 50 + "<k>k</k>" * 5 + f"</{name}>" * 50
        case _:
            query = "S//r->r[./k->k]"
            text = f"<r>{('<k>' + 'k' * 5_000 + '</k>') * 100}</r>"
    for message in messages_of(found(query, text)):
        body = message.json()
        assert len(body) <= MESSAGE
        assert json.loads(body)["data"]["matches"]
        assert len(message.text) <= LINES
