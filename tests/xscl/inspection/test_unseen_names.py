"""Names in queries that were never seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from xscl import Document, Engine, QueryError, Retention
from xscl.inspection.reasons import SeenName
from xscl.inspection.vocabulary import QueryWarning

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
    assert own == (QueryWarning("name", "titel", message, 1, 13, (SeenName("item", 1),), hint),)


QUERY = "o//order[./total->t] JOIN{t != u, 3 d} i//invoice[./total->u]"


def warned(query: str, lefts: Sequence[str], rights: Sequence[str]) -> list[str]:
    """Return the comparisons that are doubtful with some totals on both sides."""
    with Engine(retention=Retention.of(history="30 d")) as engine:
        for stream, root, totals in (("o", "order", lefts), ("i", "invoice", rights)):
            engine.push(
                Document(
                    stream,
                    f"{stream}{n}",
                    n,
                    f"<{root} id='{n}'><total>{total}</total><no>{n}</no></{root}>".encode(),
                )
                for n, total in enumerate(totals)
            )
        found = engine.queries.unseen_names(query)
        explained = [
            line for line in engine.explain(query).splitlines() if "compares texts" in line
        ]
        doubtful = [one for one in found if one.kind == "comparison"]
        assert explained == [f"warning: {one.message}: {one.hint}" for one in doubtful]
        return [one.name for one in doubtful]


@pytest.mark.parametrize(
    ("lefts", "rights", "doubtful"),
    [
        (["9", "40"], ["40.00", "7.50"], True),
        (["9.00", "40.50"], ["40", "7"], True),
        (["12.50"], ["12.5"], True),
        (["007"], ["7"], True),
        (["1E3"], ["1000"], True),
        (["+1"], ["1"], True),
        (["9", "40"], ["100", "7"], False),
        (["9.99", "12.50"], ["7.20", "100.00"], False),
        (["9.5", "40"], ["12.25", "7"], False),
        (["00017", "00018"], ["12345", "00019"], False),
        (["9", "none"], ["40.00"], False),
        (["9"], ["forty"], False),
        ([], ["40.00"], False),
    ],
)
def test_numbers_that_are_written_differently_are_warned_of(
    lefts: list[str], rights: list[str], doubtful: bool
) -> None:
    assert warned(QUERY, lefts, rights) == (["t != u"] if doubtful else [])


@pytest.mark.parametrize(
    ("query", "doubtful"),
    [
        ("o//total->t FOLLOWED BY{t = u, 3 d} i//total->u", ["t = u"]),
        ("o//order->x JOIN{x/total = y/total, 3 d} i//*->y", ["x/total = y/total"]),
        ("o/order[./@id->n][.//total->t] JOIN{n = m AND t != u, 3 d} i//invoice[./no->m]"
         "[./total->u]", ["t != u"]),
        ("o//total->t FOLD{$1.t != $2.u, $.n < 3, $.n + 1 AS n} i//total->u", ["$1.t != $2.u"]),
        ("o//total->t NOT FOLLOWED BY{t = u OR NOT t != u, 3 d} i//total->u", ["t = u", "t != u"]),
        ("o//total->t JOIN{number(t) != number(u), 3 d} i//total->u", []),
        ("o//total->t JOIN{number(t) = u, 3 d} i//total->u", []),
        ("o//total->t JOIN{t > u, 3 d} i//total->u", []),
        ("o//total->t JOIN{string(t) = string(u), 3 d} i//total->u", []),
        ("o//other/total->t JOIN{t = u, 3 d} i//total->u", []),
        ("o/total->t JOIN{t = u, 3 d} i//total->u", []),
    ],
)  # fmt: skip
def test_the_values_are_those_of_the_variables(query: str, doubtful: list[str]) -> None:
    assert warned(query, ["40", "9"], ["40.00", "9.00"]) == doubtful


def test_the_warning_shows_two_values_and_offers_numbers() -> None:
    with Engine(retention=Retention.of(history="30 d")) as engine:
        engine.push([Document("o", "o1", 1, b"<order><total>40</total></order>")])
        engine.push([Document("i", "i1", 2, b"<invoice><total>40.00</total></invoice>")])
        (one,) = engine.queries.unseen_names(QUERY)
        assert one.message == "t != u compares texts, and values such as '40' and '40.00' were seen"
        assert one.hint == "compare numbers with number(t) != number(u)"
        assert (one.line, one.column) == (1, QUERY.index("t != u") + 1)
