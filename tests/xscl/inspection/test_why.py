"""`why` by hand: every kind of failure, each as the user sees it."""

from __future__ import annotations

import random

import pytest

from tests.examples import MORE
from xscl import Document, Engine
from xscl.errors import DocumentError, TooLong
from xscl.inspection.reasons import Edge, Why
from xscl.inspection.why import NONE
from xscl.time_format import choose_zone

H = 3_600_000_000
BOOK = "S//book->b[./title->t]"
BLOG = "S//blog->c[./title->u]"
PAIR = f"{BOOK} FOLLOWED BY{{t=u, 3 h}} {BLOG}"
KEEPER = "S//*->k JOIN{k=n} T//none->n"
"""Keeps all documents of the stream S: what it waits for never comes."""


def book(name: str, hour: int, inner: str = "<title>Feeds</title>") -> Document:
    return Document("S", name, hour * H, f"<book>{inner}</book>".encode())


def blog(name: str, hour: int, inner: str = "<title>Feeds</title>") -> Document:
    return Document("S", name, hour * H, f"<blog>{inner}</blog>".encode())


def ask(query: str, documents: list[Document], *names: str, lateness: int = 0) -> Why:
    """Return why the query, subscribed before the documents came, matches some of them."""
    with Engine() as engine:
        engine.stream("S", lateness=lateness)
        engine.subscribe("keeper", KEEPER)
        engine.subscribe("q", query)
        engine.push(documents)
        engine.flush()
        found = engine.why("q", *names)
        delivered = {m.documents for m in engine.matches("q")}
    asked = tuple(name for name in names if name != NONE)
    assert found.matched == any(asked[: len(one)] == one for one in delivered)
    return found


def failures(answer: Why) -> list[tuple[str, str, str | None]]:
    return [(edge.kind, edge.text, edge.nearest) for edge in answer.edges if not edge.holds]


def only_failure(answer: Why) -> tuple[str, str, str | None]:
    (found,) = failures(answer)
    return found


# -- The answer ----------------------------------------------------------------------------


def test_a_match_says_what_holds() -> None:
    answer = ask(PAIR, [book("d1", 1), blog("d2", 3)], "d1", "d2")
    assert list(answer.lines()) == [
        "q matches d1, d2",
        "  holds  registration  the subscription sees d1, d2",
        f"  holds  pattern       d1 matches {BOOK}",
        f"  holds  pattern       d2 matches {BLOG}",
        "  holds  order         d1 is before d2: by 2 h",
        "  holds  time          d1 and d2 are at most 3 h apart: they are 2 h apart",
        "  holds  value         t = u: 'Feeds' and 'Feeds'",
    ]


def test_an_answer_for_programs() -> None:
    answer = ask("S//blog->b", [book("d1", 1)], "d1")
    near = "there is no //blog; the root is book"
    assert answer.edges[1:] == (Edge("pattern", "d1 matches S//blog->b", False, near),)
    assert answer.as_dict() == {
        "query": "q",
        "documents": ["d1"],
        "matched": False,
        "edges": [
            {
                "kind": "registration",
                "text": "the subscription sees d1",
                "holds": True,
                "nearest": None,
                "pending": False,
            },
            {
                "kind": "pattern",
                "text": "d1 matches S//blog->b",
                "holds": False,
                "nearest": near,
                "pending": False,
            },
        ],
    }


# -- Patterns ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "near"),
    [
        ("S//blog", "there is no //blog; the root is book"),
        ("S/title", "there is no /title; the root is book"),
        ("S//book/author", "S//book matches, but there is no /author in it"),
        ("S//book->b[./title->t]/note", "S//book[./title->t] matches, but there is no /note in it"),
        ("S//book[./author/name]", "S//book matches, but there is no /author in it"),
        ("S//book[./title/name]", "S//book/title matches, but there is no /name in it"),
        (
            "S//book[./title = 'feeds']",
            "S//book matches, but not with [./title = \"feeds\"]: 'Feeds' and 'feeds',"
            " equal but for case",
        ),
        (
            "S//book[./year > 2000]",
            "S//book matches, but not with [./year > 2000]: '1998' and '2000'",
        ),
        ("S//book[contains(./author, 'x')]", "S//book matches, but there is no /author in it"),
        ("S//book[not(./title)]", "S//book matches, but not with [not(./title)]"),
        ("S//book/*[. = '1998'][. = 'Feeds']", "no node of S//book/* meets all conditions at once"),
    ],
)
def test_a_pattern_fails_with_the_longest_prefix_that_matches(block: str, near: str) -> None:
    document = book("d1", 1, "<title>Feeds</title><year>1998</year>")
    kind, text, told = only_failure(ask(block, [document], "d1"))
    assert (kind, told) == ("pattern", near)
    assert text.startswith("d1 matches S/")


def test_paths_that_match_in_different_places() -> None:
    document = Document("S", "d1", 0, b"<r><a><b/></a><a><c/></a></r>")
    answer = ask("S//a[./b->x][./c->y]", [document], "d1")
    assert only_failure(answer)[2] == "no node of S//a meets all conditions at once"
    two = Document("S", "d1", 0, b"<r><a><b/></a><a><b><c/></b></a><a/></r>")
    assert ask("S//a[./b->x]/b/c->y", [two], "d1").matched


def test_a_document_of_another_stream(engine: Engine) -> None:
    engine.subscribe("keeper", KEEPER)
    engine.push(book("d1", 1))
    answer = engine.why("T//book->b", "d1")
    assert only_failure(answer) == ("pattern", "d1 matches T//book->b", "d1 belongs to S")


# -- Values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "right", "text", "near"),
    [
        ("t=u", "<title>feeds</title>", "t = u", "'Feeds' and 'feeds', equal but for case"),
        (
            "t=u",
            "<title> Feeds</title>",
            "t = u",
            "'Feeds' and ' Feeds', equal but for white space",
        ),
        (
            "t=u",
            "<title>FEEDS </title>",
            "t = u",
            "'Feeds' and 'FEEDS ', equal but for case and white space",
        ),
        (
            "t=u",
            "<title>x</title><title>Feds</title><title>Streams</title>",
            "t = u",
            "'Feeds' and 'Feds'",
        ),
        ("t!=u", "<title>Feeds</title>", "t != u", "'Feeds' and 'Feeds'"),
        ("t > u", "<title>Zoo</title>", "t > u", "'Feeds' and 'Zoo'"),
        ("contains(u, t)", "<title>Fee</title>", "contains(u, t)", "'Fee' and 'Feeds'"),
        ("t = c/nix", "<title>a</title>", "t = c/nix", "c/nix has no value"),
        ("b/year < c/year", "<title/><year>7</year>", "b/year < c/year", "'8' and '7'"),
        ("b/year + 1 < c/year", "<title/><year>7</year>", "(b/year + 1) < c/year", "'9' and '7'"),
        (
            "number(b/year) > number(u)",
            "<title>many</title>",
            "number(b/year) > number(u)",
            "number(u) has no value",
        ),
        (
            "lower-case(t)=u",
            "<title>Feeds</title>",
            "lower-case(t) = u",
            "'feeds' and 'Feeds', equal but for case",
        ),
        ("not(t=u)", "<title>Feeds</title>", "not(t = u)", "'Feeds' and 'Feeds'"),
        (
            "(t=u or t=c/note)",
            "<title>x</title><note>feeds</note>",
            "t = u or t = c/note",
            "t = u: 'Feeds' and 'x'; t = c/note: 'Feeds' and 'feeds', equal but for case",
        ),
    ],
)
def test_a_comparison_fails_with_the_values_that_come_nearest(
    predicate: str, right: str, text: str, near: str
) -> None:
    query = f"{BOOK} FOLLOWED BY{{{predicate}, 3 h}} {BLOG}"
    documents = [book("d1", 1, "<title>Feeds</title><year>8</year>"), blog("d2", 2, right)]
    assert only_failure(ask(query, documents, "d1", "d2")) == ("value", text, near)


def test_long_values_are_cut() -> None:
    documents = [book("d1", 1, f"<title>{'a' * 70}</title>"), blog("d2", 2)]
    near = only_failure(ask(PAIR, documents, "d1", "d2"))[2]
    assert near == f"'{'a' * 59}\N{HORIZONTAL ELLIPSIS}' and 'Feeds'"


# -- Several records in a document -----------------------------------------------------------

ORDERS = "S//order->o[./id->n][./total->t]"
INVOICES = "S//bill->i[./id->m][./sum->a]"


def records(name: str, hour: int, element: str, amount: str, rows: str) -> Document:
    """Return a document of a record for each word of `rows`, as in `A:1 B:2`."""
    pairs = (row.split(":") for row in rows.split())
    inner = "".join(
        f"<{element}><id>{id}</id><{amount}>{number}</{amount}></{element}>" for id, number in pairs
    )
    return Document("S", name, hour * H, f"<all>{inner}</all>".encode())


def values(answer: Why) -> dict[str, tuple[bool, str | None]]:
    return {edge.text: (edge.holds, edge.nearest) for edge in answer.edges if edge.kind == "value"}


@pytest.mark.parametrize(
    ("predicate", "orders", "bills", "expected"),
    [
        (
            *("n = m AND t != a", "A:1 B:2", "A:1 B:3"),
            {"n = m": (True, "'B' and 'B'"), "t != a": (True, "'2' and '3'")},
        ),
        (
            *("t != a AND n = m", "A:1 B:2", "A:1 B:3"),
            {"n = m": (True, "'B' and 'B'"), "t != a": (True, "'2' and '3'")},
        ),
        (
            *("n = m AND t != a", "A:1 B:2", "B:2 C:3"),
            {
                "n = m": (True, "'B' and 'B'"),
                "t != a": (False, "'2' and '2' where the others hold"),
            },
        ),
        (
            *("n = m AND number(t) = number(a)", "A:10 B:20 C:30", "A:90 B:21 C:10"),
            {
                "n = m": (True, "'B' and 'B'"),
                "number(t) = number(a)": (False, "'20' and '21' where the others hold"),
            },
        ),
        (
            *("n = m AND t = a", "A:left B:right", "A:lift B:wrong C:left"),
            {
                "n = m": (True, "'A' and 'A'"),
                "t = a": (False, "'left' and 'lift' where the others hold"),
            },
        ),
        (
            *("n = m AND t = a", "A:1 B:2", "C:1 D:4"),
            {"n = m": (False, "'A' and 'C'"), "t = a": (True, "'1' and '1'")},
        ),
    ],
)
def test_all_values_are_those_of_one_choice_of_records(
    predicate: str, orders: str, bills: str, expected: dict[str, tuple[bool, str]]
) -> None:
    documents = [records("d1", 1, "order", "total", orders), records("d2", 2, "bill", "sum", bills)]
    answer = ask(f"{ORDERS} FOLLOWED BY{{{predicate}, 3 h}} {INVOICES}", documents, "d1", "d2")
    assert values(answer) == expected


def test_all_values_of_several_joins_are_those_of_one_choice() -> None:
    query = (
        f"({ORDERS} FOLLOWED BY{{n = m, 9 h}} {INVOICES})"
        " FOLLOWED BY{p = m AND q != a AND q != t, 9 h} S//pay->y[./id->p][./paid->q]"
    )
    documents = [
        records("d1", 1, "order", "total", "A:1 B:2 C:3"),
        records("d2", 2, "bill", "sum", "A:1 B:3 C:3"),
        records("d3", 3, "pay", "paid", "A:1 B:4 C:3"),
    ]
    answer = ask(query, documents, "d1", "d2", "d3")
    shown = [near for _, near in values(answer).values()]
    assert shown == ["'B' and 'B'", "'B' and 'B'", "'4' and '3'", "'4' and '2'"]


def test_the_values_are_those_of_a_match() -> None:
    """The oracle is the match of the same two documents, by its bindings."""
    random_rows = random.Random(52)
    for _ in range(20 * MORE):
        drawn = [
            " ".join(f"{random_rows.choice('ABC')}:{random_rows.randrange(3)}" for _ in range(4))
            for _ in range(2)
        ]
        with Engine() as engine:
            engine.subscribe("q", f"{ORDERS} FOLLOWED BY{{n = m AND t != a, 3 h}} {INVOICES}")
            engine.push(
                [
                    records("d1", 1, "order", "total", drawn[0]),
                    records("d2", 2, "bill", "sum", drawn[1]),
                ]
            )
            found = {
                tuple(match.bindings[name][0].value for name in "nmta")
                for match in engine.matches("q")
            }
            answer = engine.why("q", "d1", "d2")
        assert answer.matched == bool(found)
        if found:
            shown = (near.split("'")[1::2] for _, near in values(answer).values() if near)
            assert tuple(value for pair in shown for value in pair) in found


CROSSED = (
    "S//all->x[./order/id->n][./order/total->t]"
    " FOLLOWED BY{{{}, 3 h}} S//all->y[./bill/id->m][./bill/sum->a]"
)


@pytest.mark.parametrize(
    ("predicate", "is_bounded"),
    [
        ("n = m AND t != a", True),
        ("t != a AND n = m", True),
        ("concat(n, t) = concat(m, a)", True),
        ("concat(n, t) = concat(m, m) AND concat(t, n) = concat(a, a)", True),
        ("concat(n, t) = concat(m, '-', a) OR n = a", False),
        ("number(n) + number(t) > number(m) + number(a) + 1000", False),
    ],
)
def test_the_choices_that_are_tried_are_bounded(
    predicate: str, is_bounded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An equality looks its partners up; else 24 records of 4 variables are 330,000 choices."""
    monkeypatch.setattr("xscl.inspection.why.values.CHOICES_MADE", 10_000)
    rows = " ".join(f"{n}:{n}" for n in range(24))
    with Engine() as engine:
        engine.subscribe("q", CROSSED.format(predicate))
        engine.push([records("d1", 1, "order", "total", rows)])
        rows = rows if is_bounded else rows.replace(":", ":-")
        engine.push([records("d2", 2, "bill", "sum", rows)])
        if is_bounded:
            assert engine.why("q", "d1", "d2").matched == bool(list(engine.matches("q")))
            return
        with pytest.raises(TooLong, match="over 10,000 choices"):
            engine.why("q", "d1", "d2")
        assert engine.why("q").closest is None


RECORDS = f"{ORDERS} FOLLOWED BY{{{{{{}}, 3 h}}}} {INVOICES}"


@pytest.mark.parametrize(
    ("query", "near"),
    [
        (RECORDS.format("n = m AND t > a"), "'0' and '60'"),
        (RECORDS.format("t > a AND n = m"), "'0' and '60'"),
        (CROSSED.format("n = m AND t = a"), "'0' and '60'"),
        (CROSSED.format("n = m AND n = concat(m, '') AND a = t"), "'60' and '0'"),
    ],
)
def test_the_condition_that_fails_is_found_among_many_records(
    query: str, near: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equalities are tested first, and their partners looked up below the nodes that are chosen."""
    monkeypatch.setattr("xscl.inspection.why.values.CHOICES_MADE", 9_000)
    monkeypatch.setattr("xscl.inspection.why.values.CHOICES_ALONE", 1_000)
    rows = [" ".join(f"{n}:{n + more}" for n in range(60)) for more in (0, 60)]
    documents = [
        records("d1", 1, "order", "total", rows[0]),
        records("d2", 2, "bill", "sum", rows[1]),
    ]
    assert (only_failure(ask(query, documents, "d1", "d2"))[2] or "").startswith(near)


def test_an_equality_looks_up_the_operand_whose_nodes_are_not_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xscl.inspection.why.values.CHOICES_MADE", 3_000)
    rows = " ".join(f"{n}:{n}" for n in range(60))
    documents = [
        records("d1", 1, "order", "total", rows),
        records("d2", 2, "bill", "sum", rows),
        records("d3", 3, "pay", "paid", rows.replace("0:0", "0:1")),
    ]
    query = f"({ORDERS} FOLLOWED BY{{n = m, 3 h}} {INVOICES}) FOLLOWED BY{{q = a AND p = n, 3 h}}"
    assert ask(f"{query} S//pay->y[./id->p][./paid->q]", documents, "d1", "d2", "d3").matched


def test_an_answer_to_some_records_is_none_to_the_others() -> None:
    query = f"{ORDERS} NOT FOLLOWED BY{{n = m, 3 h}} {INVOICES}"
    documents = [
        records("d1", 1, "order", "total", "A:1 B:2"),
        records("d2", 2, "bill", "sum", "A:1"),
    ]
    answer = ask(query, [*documents, blog("d3", 9)], "d1", "d2")
    near = "it is not so that it answers all: it answers some nodes of d1, and not all"
    assert answer.matched
    assert Edge("order", "d2 does not answer d1", True, near) in answer.edges


@pytest.mark.parametrize(
    ("rows", "near", "pending"),
    [
        ("A:1", "d1 is answered by d2", False),
        ("A:1 B:2", "d1 is answered by d2, and not all of its nodes: it is decided when", True),
    ],
)
def test_records_without_an_answer_may_still_get_one(rows: str, near: str, pending: bool) -> None:
    query = f"{ORDERS} NOT FOLLOWED BY{{n = m, 3 h}} {INVOICES}"
    documents = [
        records("d1", 1, "order", "total", rows),
        records("d2", 2, "bill", "sum", "A:1"),
    ]
    with Engine() as engine:
        engine.subscribe("q", query)
        engine.push(documents)
        last = engine.why("q", "d1").edges[-1]
    assert (last.holds, last.pending) == (False, pending)
    assert (last.nearest or "").startswith(near)


# -- Order, window, and operators over time ------------------------------------------------

JOINED = PAIR.replace("FOLLOWED BY", "JOIN")
NEXT = f"{BOOK} NEXT{{t=u}} {BLOG}"
FOUR = [book("d1", 1), blog("d2", 2), blog("d3", 3), blog("d4", 4, "<title>x</title>")]
LATE = [book("d1", 1), blog("d9", 5, "<x/>"), blog("d2", 3)]
ABSENT = f"{BOOK} NOT FOLLOWED BY{{t=u, 3 h}} {BLOG}"
ANSWERED = [book("d1", 1), blog("d2", 3), blog("d3", 5)]
ITSELF = "S//book->b JOIN{b=c, 1 h} S//book->c"
VERSIONS = [book("d1", 1), book("d1", 1, "<title>Feeds</title><!-- 2 -->")]
FAR = "time", "d1 and d2 are at most 3 h apart", "they are 4 h apart, 1 h too much"
AMONG_ALL = "the query finds {} among all kept documents"


@pytest.mark.parametrize(
    ("query", "documents", "asked", "failure"),
    [
        (PAIR, [book("d1", 1), blog("d2", 5)], "d1 d2", FAR),
        (JOINED, [book("d1", 1), blog("d2", 5)], "d1 d2", FAR),
        (JOINED, [blog("d2", 1), book("d1", 5)], "d1 d2", FAR),
        (JOINED, [blog("d2", 2), book("d1", 2)], "d1 d2", None),
        (
            *(ITSELF, VERSIONS, "d1 d1"),
            ("order", "d1 and d1 are different documents", "d1 and d1 are the same"),
        ),
        (NEXT, FOUR, "d1 d2", None),
        (NEXT, FOUR, "d1 d3", ("order", AMONG_ALL.format("d1, d3"), "d1 was taken by d2")),
        (NEXT, FOUR, "d1 d4", ("value", "t = u", "'Feeds' and 'x'")),
        (
            *(NEXT, LATE, "d1 d2"),
            (
                *("time", "d2 came in time for an operator over time"),
                "it came 2 h too late, with a lateness of 0 s",
            ),
        ),
        (ABSENT, ANSWERED, "d1", ("order", AMONG_ALL.format("d1"), "d1 is answered by d2")),
        (
            *(ABSENT, ANSWERED, "d1 d2"),
            ("order", "d2 does not answer d1", "it does; t = u: 'Feeds' and 'Feeds'"),
        ),
    ],
)
def test_what_is_not_in_order_or_in_time(
    query: str, documents: list[Document], asked: str, failure: tuple[str, str, str] | None
) -> None:
    assert failures(ask(query, documents, *asked.split())) == ([failure] if failure else [])


def test_what_came_within_the_lateness_is_in_time() -> None:
    assert ask(NEXT, LATE, "d1", "d2", lateness=2 * H).matched


def test_a_document_does_not_match_with_its_versions(engine: Engine) -> None:
    engine.subscribe("keeper", KEEPER, updates=True)
    engine.subscribe("q", ITSELF, updates=True)
    engine.push(VERSIONS)
    assert only_failure(engine.why("q", "d1", "d1@2")) == (
        "order",
        "d1 and d1@2 are different documents",
        "d1 and d1@2 are versions of the same",
    )


def test_fold_says_what_of_its_predicate_holds() -> None:
    query = (
        "S//p->a[./k->k][./v->v] FOLD{$1.k = $2.k AND $2.v > $.v, $2.v > $.v,"
        " $.n + 1 AS n} S//p->b[./k->k][./v->v]"
    )
    rows = [(1, "x", 1), (2, "x", 2), (3, "y", 3), (4, "x", 1)]
    documents = [
        Document("S", f"d{n}", n * H, f"<p><k>{k}</k><v>{v}</v></p>".encode()) for n, k, v in rows
    ]
    assert ask(query, documents, "d1", "d2").matched
    kind, text, near = only_failure(ask(query, documents, "d1", "d3"))
    assert (kind, near) == ("value", "'x' and 'y'")
    assert "k" in text
    assert only_failure(ask(query, documents, "d1", "d4"))[1] == (
        "the query finds d1, d4 among all kept documents"
    )


@pytest.mark.parametrize(
    ("document", "near"),
    [
        (
            blog("d2", 5),
            "it is not so that d1 and d2 are at most 3 h apart: they are 4 h apart, 1 h too much",
        ),
        (blog("d2", 2, "<title>x</title>"), "it is not so that t = u: 'Feeds' and 'x'"),
        (blog("d2", 1), "it is not so that d1 is before d2: both are at the same time"),
    ],
)
def test_what_does_not_answer(document: Document, near: str) -> None:
    answer = ask(ABSENT, [book("d1", 1), document], "d1", "d2")
    assert answer.matched
    assert Edge("order", "d2 does not answer d1", True, near) in answer.edges


def test_else() -> None:
    query = f"{BOOK} FOLLOWED BY{{t=u, 3 h}} {BLOG} ELSE"
    documents = [book("d1", 1), blog("d2", 3), book("d3", 4, "<title>x</title>")]
    assert ask(query, documents, "d1", "d2").matched
    alone = ask(query, documents, "d3", NONE)
    assert alone.matched
    assert next(alone.lines()) == "q matches d3 alone"
    assert ask(query, documents, "d3").matched
    assert only_failure(ask(query, documents, "d1", NONE))[2] == "d1 is answered by d2"
    silent = f"({query}) NOT FOLLOWED BY{{u = v, 3 h}} S//blog->e[./title->v]"
    assert ask(silent, [*documents, book("d9", 20)], "d3", NONE).matched


def test_else_of_a_side_that_else_leaves_without_a_document() -> None:
    query = f"({BOOK} JOIN{{t=u, 3 h}} {BLOG} ELSE) JOIN{{t=v, 3 h}} S//note->e[./title->v] ELSE"
    documents = [blog("d1", 1, "<title>x</title>"), book("d2", 2), blog("d3", 3), book("d9", 20)]
    assert ask(query, documents, NONE, "d1", NONE).matched
    assert ask(query, documents, "d2", "d3", NONE).matched
    assert only_failure(ask(query, documents, NONE, "d3", NONE))[0] == "order"


def test_an_absence_that_is_not_decided_yet_does_not_fail(engine: Engine) -> None:
    """It says what time it waits for: the clock of documents, unless all streams are live."""
    query = "S//a NOT FOLLOWED BY{1 h} T//b"
    engine.stream("S", lateness="30 min", live=True)
    engine.subscribe("q", query)
    engine.push(Document("S", "d1", H, b"<a/>"))
    near = (
        "it is decided when time passes 1970-01-01T02:30:00Z; time is at 1970-01-01T01:00:00Z, and "
    )
    stuck = f"{near}only a later document advances it, as 'T' is not live"
    choose_zone("Europe/Berlin")
    assert "01T03:30:00+01:00; time is at 1970-01-01T02:00:00+01:00" in str(
        list(engine.why("q", "d1").lines())
    )
    assert near in str(engine.why("q", "d1").as_dict())
    choose_zone("UTC")
    assert list(engine.why("q", "d1").lines()) == [
        "q does not match d1 yet",
        "  holds  registration  the subscription sees d1",
        "  holds  pattern       d1 matches S//a",
        "  waits  order         the query finds d1 among all kept documents: "
        f"{stuck}; by the wall clock it has passed",
    ]
    engine.stream("T", live=True)
    (edge,) = (one for one in engine.why("q", "d1").edges if not one.holds)
    assert edge.pending
    assert edge.nearest == f"{near}a later document or the wall clock of a service advances it"
    engine.advance(5 * H // 2 + 1)
    assert engine.why("q", "d1").matched


# -- What cannot be asked ------------------------------------------------------------------


def test_a_text_that_is_not_kept_can_be_given(engine: Engine) -> None:
    engine.subscribe("q", PAIR)
    engine.push([book("d1", 1), Document("R", "d2", 2 * H, b"<other/>")])
    with pytest.raises(DocumentError, match="the text of 'R/d2' is not kept any more"):
        engine.why("q", "d1", "d2")
    answer = engine.why("q", "d1", "d2", read={"R/d2": b"<other/>"}.__getitem__)
    assert failures(answer)[0][2] == "R/d2 belongs to R"
