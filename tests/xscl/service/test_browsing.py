"""Documents by stream and text, as far as a user sees them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xscl import Document, Engine, Retention
from xscl.service import browsing
from xscl.service.accounts import THE_OPERATOR, Account
from xscl.service.browsing import DocumentPlace, browse
from xscl.store.queries.rows import delete_rows
from xscl.store.store import Store

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
                Document(
                    "news", "latin", 5, b"<?xml version='1.0' encoding='iso-8859-1'?><i>\xe9</i>"
                ),
            ]
        )
        yield engine.state.store


def ids(store: Store, who: Account, **asked: object) -> list[str]:
    return [one.id for one in browse(store, who, **{"limit": 10, **asked})]  # type: ignore[arg-type]  # as asked


def test_users_see_public_documents_and_their_own(store: Store) -> None:
    assert ids(store, THE_OPERATOR) == ["latin", "both", "n1"]
    assert ids(store, ALICE) == ["latin", "_7.mine", "both", "n1"]
    assert ids(store, BOB) == ["latin", "_8.his", "both", "n1"]
    assert ids(store, BOB, text="hers") == []
    assert ids(store, ALICE, stream="_7.own") == ["_7.mine", "both"]


def test_text_is_found_in_any_capitals_and_escaped(store: Store) -> None:
    assert ids(store, BOB, text="ham & EGGS") == ["n1"]
    assert ids(store, BOB, text="äpfel") == ["both"]
    assert ids(store, BOB, text="LAT") == ["latin"]


def test_pages_go_back_in_the_order_of_arrival(store: Store) -> None:
    first = browse(store, ALICE, limit=2)
    rest = browse(store, ALICE, before=DocumentPlace(first[-1].number), limit=10)
    assert [one.id for one in (*first, *rest)] == ids(store, ALICE)


def test_a_list_by_dates_goes_on_behind_a_document_that_is_gone(store: Store) -> None:
    whole = browse(store, ALICE, limit=10, by_date=True)
    place = DocumentPlace(whole[1].number, whole[1].ts)
    with store.transaction():
        delete_rows(store, "document", doc=place.number)
    rest = browse(store, ALICE, before=place, limit=10, by_date=True)
    assert rest == whole[2:]
    assert rest


def test_only_the_newest_documents_are_searched(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browsing, "SEARCHED", 3)
    assert ids(store, THE_OPERATOR, text="ham") == []
    assert ids(store, THE_OPERATOR, text="lat") == ["latin"]
    assert len(ids(store, THE_OPERATOR)) == 3
