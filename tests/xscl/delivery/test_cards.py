"""Matches as they are shown: which values carry which number."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import xscl
from xscl.delivery.cards import Card, CardValue, link, shown
from xscl.subscriptions.match import Match
from xscl.web.gallery import all_found


def values(card: Card) -> list[CardValue]:
    """Return all values of a card."""
    told = [card.title, card.origin, card.text, *card.categories, *card.values]
    return [value for value in told if value is not None]


def joined(match: Match) -> list[list[tuple[str, int]]]:
    """Return the numbered nodes, document by document."""
    return [
        [(value.text, value.joined) for value in values(card) if value.joined]
        for card in shown(match, "x").cards
    ]


def of_case(slug: str) -> Sequence[Match]:
    return all_found()[slug]


def matches(query: str, *documents: str) -> Sequence[Match]:
    """Return the matches of a query over documents of a stream S, one a second."""
    engine = xscl.Engine()
    engine.subscribe("x", query)
    second = 1_000_000
    engine.push(
        [
            xscl.Document("S", f"d{number}", number * second, text.encode())
            for number, text in enumerate(documents, 1)
        ]
    )
    engine.flush()
    return engine.matches()


CHAIN = "S//a[./k->x] FOLLOWED BY{x = y, 1 h} S//b[./k->y] FOLLOWED BY{y = z, 1 h} S//c[./k->z]"
FUNCTION = "S//a->p FOLLOWED BY{lower-case(p/k) = q/@k, 1 h} S//b->q"


@pytest.mark.parametrize(
    ("query", "documents", "numbered"),
    [
        (CHAIN, [f"<{name}><k>7</k></{name}>" for name in "abc"], [[("7", 1)]] * 3),
        (
            FUNCTION,
            ["<a><n>no</n><k>SEA</k></a>", '<b k="sea"><n>no</n></b>'],
            [[("SEA", 1)], [("sea", 1)]],
        ),
    ],
)
def test_what_is_compared_has_one_number_on_all_sides(
    query: str, documents: list[str], numbered: list[list[tuple[str, int]]]
) -> None:
    (match,) = matches(query, *documents)
    assert joined(match) == numbered


def test_only_what_is_equal_is_marked_as_equal() -> None:
    (match,) = matches(
        "S//a[./k->x][./v->v] FOLLOWED BY{x = y AND w > v + 1, 1 h} S//b[./k->y][./v->w]",
        "<a><k>k</k><v>1</v></a>",
        "<b><k>k</k><v>3</v></b>",
    )
    assert joined(match) == [[("k", 1), ("1", 2)], [("k", 1), ("3", 2)]]
    cards = shown(match, "x").cards
    assert [[value.differs for value in values(card) if value.joined] for card in cards] == [
        [False, True],
        [False, True],
    ]


def test_a_document_that_is_no_item_is_headed_by_its_stream_and_root() -> None:
    (match,) = of_case("advisory-then-release")
    origins = [card.origin for card in shown(match, "x").cards]
    assert origins == [
        CardValue("root", "advisories/a-1 · advisory"),
        CardValue("root", "releases/r-241 · release"),
    ]


def test_an_item_is_shown_as_one() -> None:
    (match,) = of_case("same-story")
    first, again = shown(match, "x").cards
    assert (first.origin, again.origin) == (
        CardValue("from", "harbour-post.example", 2, differs=True),
        CardValue("from", "port-times.example", 2, differs=True),
    )
    assert first.url == "https://harbour-post.example/ferry"
    assert first.text == CardValue("description", "Timetables follow next week.")
    assert first.values == ()


def test_the_text_of_an_item_is_shown_without_its_html() -> None:
    item = (
        "<item><channel_url>https://a.example/f</channel_url><title>T</title><k>7</k><description>"
        "&lt;p&gt;Ham &amp;amp; eggs&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;</description>"
        "</item>"
    )
    (match,) = matches("S//item[./k->x] FOLLOWED BY{x = y, 1 h} S//item[./k->y]", item, item)
    assert shown(match, "x").cards[0].text == CardValue("description", "Ham & eggs")
    compared_ = "S//item[./description->x] FOLLOWED BY{x = y, 1 h} S//item[./description->y]"
    (match,) = matches(compared_, item, item)
    text = shown(match, "x").cards[0].text
    assert text is not None
    assert text.text.startswith("<p>Ham")


def test_a_constructed_output_is_shown() -> None:
    outputs = [shown(match, "x").output for match in of_case("orders-and-invoices")]
    assert outputs == [
        '<disagree order="71" ordered="184.00" invoiced="214.00"/>',
        '<disagree order="74" ordered="99.00" invoiced="102.00"/>',
    ]


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "java\nscript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "/relative",
        "//host/x",
        "http://",
        "https://[broken",
        "ftp://host/x",
    ],
)
def test_w9_an_address_that_is_not_by_http_is_no_link(address: str) -> None:
    assert link(address) is None


def test_an_address_by_http_is_a_link() -> None:
    assert link(" https://example.org/a?b=c ") == "https://example.org/a?b=c"
