"""`why` by hand: every kind of failure, each as the user sees it."""

from __future__ import annotations

import pytest

from xscl import Document, Engine
from xscl.errors import DocumentError
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


def test_comparisons_that_hold_for_different_nodes() -> None:
    query = (
        "S//book->b/part->p[./name->t][./year->y]"
        " FOLLOWED BY{t=u AND y=z, 3 h} S//blog->c[./name->u][./year->z]"
    )
    part = "<part><name>{}</name><year>{}</year></part>"
    two = book("d1", 1, part.format("A", 1) + part.format("B", 2))
    answer = ask(query, [two, blog("d2", 2, "<name>A</name><year>2</year>")], "d1", "d2")
    assert [edge.holds for edge in answer.edges if edge.kind == "value"] == [True, True, False]
    assert only_failure(answer) == (
        "value",
        "t = u AND y = z",
        "each holds for some nodes, but no choice of nodes satisfies them together",
    )
    assert ask(query, [two, blog("d2", 2, "<name>B</name><year>2</year>")], "d1", "d2").matched


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
