"""Texts for people name the missing document and show the output of SELECT."""

from __future__ import annotations

import json

import pytest

import xscl
from feeds.documents import Document
from xscl.delivery.cards import shown
from xscl.delivery.channels.mail import mail_of
from xscl.delivery.endpoint import Ntfy, Slack
from xscl.delivery.message import Message, messages_of
from xscl.subscriptions.match import Match

HOUR = 3_600_000_000
ORDER = "<order><title>Two lamps</title><key>{}</key></order>"
ITEM = (
    "<item><id>a7f3</id><feed>example.org-781f</feed><channel_url>http://e.org/f</channel_url>"
    "<feed_title>News</feed_title><title>Ferry stops</title><category>sea</category>"
    "<description>&lt;p>From &lt;b>noon&lt;/b>&lt;/p></description><seen_at>2026</seen_at></item>"
)
SILENCE = "orders//order->o[./key->x] NOT FOLLOWED BY{x = y, 1 h} invoices//invoice[./key->y]"
ELSE = "orders//order->o[./key->x] FOLLOWED BY{x = y, 1 h} invoices//invoice[./key->y] ELSE"


def found(query: str) -> dict[str, Match]:
    """Return the matches of a query by their orders: 1 has an invoice, 2 has none."""
    with xscl.Engine() as engine:
        engine.subscribe("late", query)
        orders = [Document("orders", str(n), n, ORDER.format(n).encode()) for n in (1, 2)]
        invoice = Document("invoices", "i", 3, b"<invoice><key>1</key></invoice>")
        engine.push([*orders, invoice, Document("invoices", "j", 9 * HOUR, b"<invoice/>")])
        matches = {match.documents[0]: match for match in engine.matches("late")}
        for match in matches.values():
            _ = match.bindings, match.xml(), match.sources
        return matches


def message(match: Match) -> Message:
    (made,) = messages_of([match], html=True)
    return made


@pytest.mark.parametrize("query", [SILENCE, ELSE])
def test_each_text_says_what_did_not_come_of_its_document(query: str) -> None:
    matches = found(query)
    assert matches["2"].absence == "nothing of invoices came within 1 h"
    told = message(matches["2"])
    slack = json.loads(Slack("").posted(told).body)["text"].splitlines()
    assert slack[1:3] == [
        "\N{BULLET} Two lamps (order orders/2)",
        "nothing of invoices came within 1 h",
    ]
    body, headers = Ntfy("").posted(told)
    assert body.decode().splitlines()[:2] == [
        "Two lamps (order orders/2)",
        "nothing of invoices came within 1 h",
    ]
    assert "nothing of invoices" in mail_of([told], "x@e.org", "y@e.org").as_string()
    assert told.title.endswith("Two lamps \N{EM DASH} nothing of invoices came within 1 h")
    assert "<strong>Nothing of invoices came within 1 h.</strong>" in told.html
    assert told.as_dict()["data"]["matches"][0]["absence"] == matches["2"].absence
    assert shown(matches["2"], "late").absence == matches["2"].absence
    assert headers["Title"]


def test_what_came_is_no_absence() -> None:
    matches = found(ELSE)
    assert matches["1"].documents == ("1", "i")
    assert matches["1"].absence == ""
    assert "nothing of" not in message(matches["1"]).html
    assert list(found(SILENCE)) == ["2"]


DAY = 24 * HOUR
BOOK, POST, ITEM_ = "A//book[./title->t]", "B//post[./title->u]", "C//item[./title->v]"
OUTER = f"{BOOK} JOIN{{t=u, -5 d TO 2 d}} {POST} ELSE"
EITHER = f"{BOOK} FOLLOWED BY{{t=u, 2 d}} {POST} ELSE"
COMPOSED = {
    OUTER: {
        ("a1", "b1"): "",
        ("a2",): "nothing of B came from 5 d before to 2 d after",
        ("b2",): "nothing of A came from 2 d before to 5 d after",
    },
    f"{OUTER} RIGHT": {
        ("a1", "b1"): "",
        ("b2",): "nothing of A came from 2 d before to 5 d after",
    },
    f"{BOOK} JOIN{{t=u, 3 d}} {POST} ELSE": {
        ("a1", "b1"): "",
        ("a2",): "nothing of B came within 3 d",
        ("b2",): "nothing of A came within 3 d",
    },
    f"{BOOK} JOIN{{t=u, 12 h TO 2 d}} {POST} ELSE": {
        ("a1", "b1"): "",
        ("a2",): "nothing of B came from 12 h to 2 d after",
        ("b2",): "nothing of A came from 2 d to 12 h before",
    },
    f"{BOOK} JOIN{{t=u, 0 s TO 2 d}} {POST} ELSE RIGHT": {
        ("a1", "b1"): "",
        ("b2",): "nothing of A came in the 2 d before",
    },
    f"({BOOK} NOT FOLLOWED BY{{t=u, 2 d}} {POST}) FOLLOWED BY{{t=v, 60 d}} {ITEM_}": {
        ("a2", "c2"): "nothing of B came within 2 d",
    },
    f"({EITHER}) NEXT{{t=v}} {ITEM_}": {
        ("a1", "b1", "c1"): "",
        ("a2", "c2"): "nothing of B came within 2 d",
    },
    f"({EITHER}) NOT FOLLOWED BY{{t=v, 6 d}} {ITEM_}": {
        ("a1", "b1"): "nothing of C came within 6 d",
        ("a2",): "nothing of B came within 2 d; nothing of C came within 6 d",
    },
    f"({EITHER}) FOLLOWED BY{{t=v, 60 d}} {ITEM_} ELSE": {
        ("a1", "b1", "c1"): "",
        ("a2", "c2"): "nothing of B came within 2 d",
    },
    f"{BOOK} NOT FOLLOWED BY{{t=u, 4 d}} ({POST} FOLLOWED BY{{u=v, 1 d}} {ITEM_})": {
        ("a1",): "nothing of B with C came within 4 d",
        ("a2",): "nothing of B with C came within 4 d",
    },
    f"{BOOK} FOLLOWED BY{{t=u, 4 d}} ({POST} NOT FOLLOWED BY{{u=v, 1 d}} {ITEM_}) ELSE": {
        ("a1", "b1"): "nothing of C came within 1 d",
        ("a2",): "nothing of B came within 4 d",
    },
}


@pytest.mark.parametrize("query", COMPOSED)
def test_each_side_says_what_it_waited_for_and_when(query: str) -> None:
    rows = (
        *(("A", "a1", 10, "book", "x"), ("A", "a2", 11, "book", "y")),
        *(("B", "b1", 11, "post", "x"), ("B", "b2", 12, "post", "z")),
        *(("C", "c1", 50, "item", "x"), ("C", "c2", 50, "item", "y"), ("Z", "z", 400, "z", "")),
    )
    with xscl.Engine() as engine:
        engine.subscribe("q", query)
        for stream, id, day, name, title in rows:
            xml = f"<{name}><title>{title}</title></{name}>"
            engine.push([Document(stream, id, day * DAY, xml.encode())])
        assert {one.documents: one.absence for one in engine.matches("q")} == COMPOSED[query]


def test_a_text_of_an_item_has_no_ids_and_no_times_of_its_transport() -> None:
    with xscl.Engine() as engine:
        engine.subscribe("all", "S//item->a")
        engine.push([Document("S", "1", 1, ITEM.encode())])
        (match,) = engine.matches("all")
        told = message(match)
        assert told.text == ("a", "  category: sea", "  description: From noon")
        assert next(told.lines()) == "Ferry stops (News)"
