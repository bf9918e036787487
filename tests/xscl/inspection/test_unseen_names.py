"""Names in queries that were never seen."""

from __future__ import annotations

import pytest

from xscl import Document, Engine, QueryError, Retention
from xscl.inspection.names_seen import NearName
from xscl.inspection.unseen_names import UnseenName

ITEM = (
    b"<item id='1' xmlns:d='http://purl.org/dc/elements/1.1/' xmlns:o='urn:other'>"
    b"<title>gale</title><d:creator>A</d:creator><o:extra/></item>"
)


@pytest.fixture(scope="module")
def engine() -> Engine:
    engine = Engine(retention=Retention.of(history="30 d"))
    engine.push(Document("news", f"n{number}", number, ITEM) for number in range(3))
    engine.stream("declared")
    return engine


def unseen(engine: Engine, query: str) -> list[tuple[str, int, str | None]]:
    found = engine.queries.unseen_names(query)
    return [(one.name, one.column, one.hint) for one in found]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("news//item[./title->t][./@id->i][./dc:creator->c]", []),
        ("news//*:extra", []),
        ("news//*[.//@*->x]", []),
        ("NAMESPACE o = 'urn:other' news//o:extra", []),
        ("declared//anything", []),
        ("news//item[./titel->t]", [("titel", 14, "did you mean title (3 documents)?")]),
        ("news//item[not(./titel)]", [("titel", 18, "did you mean title (3 documents)?")]),
        ("news//creator", [("creator", 7, "did you mean dc:creator (3 documents)?")]),
        ("news//extra", [("extra", 7, "did you mean *:extra (3 documents)?")]),
        ("news//item/id", [("id", 12, "did you mean @id (3 documents)?")]),
        ("nws//item", [("nws", 1, "did you mean news (3 documents)?")]),
        ("elsewhere//item", [("elsewhere", 1, None)]),
        ("feeds//item[./zzz]", []),
        (
            "news//item->a JOIN{a/titel=b/qqq, 1 d} news//item->b",
            [("titel", 22, "did you mean title (3 documents)?"), ("qqq", 30, None)],
        ),
    ],
)
def test_names_are_reported_where_they_stand(
    engine: Engine, query: str, names: list[tuple[str, int, str | None]]
) -> None:
    assert unseen(engine, query) == names


def test_an_invalid_query_is_an_error(engine: Engine) -> None:
    with pytest.raises(QueryError, match="not bound"):
        engine.queries.unseen_names("news//item->a JOIN{a=z, 1 d} news//item->b")


def test_nothing_is_unseen_before_anything_was_seen() -> None:
    with Engine() as engine:
        assert unseen(engine, "S//book[./title]") == []


def test_names_of_new_documents_are_seen_at_once() -> None:
    with Engine(retention=Retention.of(history="30 d")) as engine:
        engine.push(Document("S", "a", 1, b"<r/>"))
        assert [one for one, *_ in unseen(engine, "S//r[./new]")] == ["new"]
        engine.push(Document("S", "b", 2, b"<r><new/></r>"))
        assert unseen(engine, "S//r[./new]") == []


def test_another_users_streams_are_not_suggested(engine: Engine) -> None:
    engine.push(Document("_7.nws", "x", 9, b"<item/>"))
    hidden = engine.queries.unseen_names(
        "nws//item", lambda name: None if name.startswith("_7.") else name
    )
    (one,) = hidden
    assert [near.name for near in one.nearest] == ["news"]
    own = engine.queries.unseen_names("nws//item[./titel]", lambda n: n.removeprefix("_7."))
    message, hint = (
        "'titel' is not in the newest 1 document of 'nws'",
        "did you mean item (1 document)?",
    )
    assert own == (UnseenName("name", "titel", message, 1, 13, (NearName("item", 1),), hint),)
