"""Read marks and the order of items, which the service keeps for each user."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from unittest.mock import patch

import httpx
import pytest

from tests.xscl.service.conftest import Running, code, eventually, filling, ok, serving
from tests.xscl.web.shown import parsed
from xscl import Document, Engine, Retention
from xscl.ingestion.data_directory import DataDirectory
from xscl.service import marks as marks_of_users
from xscl.service.accounts import THE_OPERATOR, Account, Quota
from xscl.store.queries import browsing
from xscl.store.queries.browsing import DocumentPlace, documents_seen
from xscl.store.queries.owned_rows import read_marks
from xscl.store.queries.rows import delete_rows
from xscl.store.store import Store

DAYS = ("05", "01", "09", "03")


def fill(client: httpx.Client) -> list[str]:
    """Send documents whose dates are in another order than their arrival; return their names."""
    for day in DAYS:
        sent = {"id": day, "time": f"2026-03-{day}"}
        ok(client.post("/v1/documents/S", params=sent, content=f"<a>{day}</a>".encode()))
    eventually(lambda: len(listed(client)) == len(DAYS))
    return listed(client)


def listed(client: httpx.Client, **asked: str) -> list[str]:
    """Return the ids of all documents, page by page."""
    found, before = list[str](), dict[str, str | int]()
    while True:
        page = ok(client.get("/v1/documents", params={"limit": 2, **asked, **before}))
        found += [one["id"] for one in page["items"]]
        if page["next"] is None:
            return found
        before = {"before": page["next"]}


def shown(client: httpx.Client) -> dict[str, bool]:
    """Return the items of the page in its order, with whether they are marked as read."""
    rows = parsed(client.get("/items").text).xpath("//li[@data-key]")
    return {row.get("data-key"): "is-read" in row.get("class") for row in rows}


def marked(client: httpx.Client) -> list[str]:
    return [one["item"] for one in ok(client.get("/v1/reading/marks"))["items"]]


def test_items_are_listed_by_arrival_or_by_their_own_dates(
    running: Running, operator: httpx.Client
) -> None:
    assert fill(operator) == ["03", "09", "01", "05"]
    assert listed(operator, order="date") == ["09", "05", "03", "01"]
    assert listed(operator, order="date", text="0", stream="S") == ["09", "05", "03", "01"]
    assert code(operator.get("/v1/documents", params={"order": "size"}))[0] == 422
    for before in "7", "7.", "7.1.2", "x", "9" * 30:
        wrong = operator.get("/v1/documents", params={"order": "date", "before": before})
        assert code(wrong) == (422, "invalid_request")
    assert [name[-2:] for name in shown(operator)] == ["09", "05", "03", "01"], (
        "what a new feed held already is not on top"
    )
    answer = operator.post("/items/order", data={"order": "arrival", "back": "/items?q=0"})
    assert answer.headers["location"] == "/items?q=0"
    assert [name[-2:] for name in shown(operator)] == ["03", "09", "01", "05"]
    operator.post("/items/order", data={"order": "date"})
    other = parsed(operator.get("/items?before=3").text).xpath("//li[@data-key]")
    assert len(other) == len(DAYS), "a link of the other order leads to the first items"
    assert ok(operator.get("/v1/reading")) == {"order": "date"}
    with running.user("ann") as ann:
        assert ok(ann.get("/v1/reading")) == {"order": "date"}
        ok(ann.put("/v1/reading", json={"order": "arrival"}))
    assert ok(operator.get("/v1/reading")) == {"order": "date"}, "another user's is his own"
    ok(operator.put("/v1/reading", json={"order": "arrival"}))
    assert [name[-2:] for name in shown(operator)] == ["03", "09", "01", "05"]


def test_marks_are_of_each_user_and_outlive_the_service(place: DataDirectory) -> None:
    with serving(place) as running, running.client() as operator:
        fill(operator)
        name = next(iter(shown(operator)))
        assert operator.post("/read", data={"item": name}).status_code == 204
        with running.user("ann") as ann:
            assert marked(ann) == []
            mine = {"items": ["a", "b"], "read": True}
            assert ann.post("/v1/reading/marks", json=mine).status_code == 204
            assert ann.post("/read", data={"item": "a", "read": "false"}).status_code == 204
            assert marked(ann) == ["b"]
            assert not any(shown(ann).values())
    with serving(place) as running, running.client() as operator:
        assert shown(operator)[name]
        assert marked(operator) == [name]
        assert [one["id"] for one in ok(operator.get("/v1/documents"))["items"] if one["read"]] == [
            name[-2:]
        ]
        first = ok(operator.get("/v1/reading/marks", params={"limit": 1}))
        assert (first["items"][0]["item"], first["next"]) == (name, None)


def test_a_match_is_marked_as_read(operator: httpx.Client) -> None:
    ok(operator.put("/v1/subscriptions/echo", json={"query": "T//a->x"}))
    ok(operator.post("/v1/documents/T", content=b"<a/>"))
    found = eventually(lambda: ok(operator.get("/v1/subscriptions/echo/matches"))["matches"])
    operator.post("/read", data={"item": found[0]["id"]})
    page = parsed(operator.get("/?subscription=echo").text)
    (card,) = page.xpath(f"//article[@data-key='{found[0]['id']}']/@class")
    assert card == "match is-read"


@patch.object(marks_of_users, "MOST_MARKS", 3)
def test_the_oldest_marks_beyond_the_bound_are_forgotten(place: DataDirectory) -> None:
    ann = Account(7, "ann", Quota())
    with filling(place) as engine, closing(engine.connect()) as store:
        for item in "abcd":
            marks_of_users.mark_read(store, ann, [item], read=True)
        marks_of_users.mark_read(store, ann, ["b"], read=True)  # again, so it is the newest
        marks_of_users.mark_read(store, ann, ["e"], read=True)
        kept = [row["item"] for row in read_marks(store, ann.number, limit=9)]
        assert kept == ["b", "d", "e"]


# -- Documents by stream and text, as far as a user sees them ------------------------------


ALICE, BOB = Account(7, "alice"), Account(8, "bob")


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """Documents of the operator and of two users."""
    with Engine(retention=Retention.of(history="30 d")) as engine:
        engine.push(
            [
                Document("news", "n1", 1, b"<i><t>Ham &amp; eggs</t></i>"),
                Document(("news", "_7.own"), "both", 2, "<i>Äpfel</i>".encode()),
                Document("_7.own", "_7.mine", 3, b"<i>hers</i>"),
                Document("_8.own", "_8.his", 4, b"<i>his</i>"),
                Document("news", "latin", 5, b"<?xml version='1.0' encoding='latin1'?><i>\xe9</i>"),
            ]
        )
        yield engine.state.store


def ids(store: Store, who: Account, **asked: object) -> list[str]:
    found = documents_seen(store, who.number, **{"limit": 10, **asked})  # type: ignore[arg-type]  # as asked
    return [one.id for one in found]


def test_text_is_found_in_any_capitals_and_escaped(store: Store) -> None:
    assert ids(store, BOB, text="ham & EGGS") == ["n1"]
    assert ids(store, BOB, text="äpfel") == ["both"]
    assert ids(store, BOB, text="LAT") == ["latin"]


def test_pages_go_back_in_the_order_of_arrival(store: Store) -> None:
    first = documents_seen(store, ALICE.number, limit=2)
    rest = documents_seen(store, ALICE.number, before=DocumentPlace(first[-1].number), limit=10)
    assert [one.id for one in (*first, *rest)] == ids(store, ALICE)


def test_a_list_by_dates_goes_on_behind_a_document_that_is_gone(store: Store) -> None:
    whole = documents_seen(store, ALICE.number, limit=10, by_date=True)
    place = DocumentPlace(whole[1].number, whole[1].ts)
    with store.transaction():
        delete_rows(store, "document", doc=place.number)
    rest = documents_seen(store, ALICE.number, before=place, limit=10, by_date=True)
    assert rest == whole[2:]
    assert rest


@patch.object(browsing, "SEARCHED", 3)
def test_only_the_newest_documents_are_searched(store: Store) -> None:
    assert ids(store, THE_OPERATOR, text="ham") == []
    assert ids(store, THE_OPERATOR, text="lat") == ["latin"]
    assert len(ids(store, THE_OPERATOR)) == 3
