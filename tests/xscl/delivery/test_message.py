"""The bounds of one message: its number of matches, and its length."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import pytest

import xscl
from feeds.documents import Document
from xscl.delivery.cards import Card, CardValue, shown
from xscl.delivery.channels.mail import mail_of
from xscl.delivery.endpoint import Ntfy, Slack
from xscl.delivery.message import CUT, LARGEST, TOGETHER, message_of, messages_of
from xscl.delivery.message_reader import following, latest
from xscl.engine.match_log import Page
from xscl.subscriptions.match import Match
from xscl.time_format import UNITS
from xscl.web.gallery import all_found

EACH = "S//item//a->x FOLLOWED BY{x=y, 1 d} S//item//a->y"


def matches(query: str, *documents: str) -> Sequence[Match]:
    """Return the matches of a query over documents of a stream S, one a second."""
    engine = xscl.Engine()
    engine.subscribe("x", query)
    for number, text in enumerate(documents, 1):
        engine.push(xscl.Document("S", f"d{number}", number * 1_000_000, text.encode()))
    engine.flush()
    return engine.matches()


def test_matches_of_the_same_documents_are_messages_of_a_hundred() -> None:
    found = matches(EACH, *2 * [f"<item>{'<a>hi</a>' * 16}</item>"])
    sizes = [len(one.matches) for one in messages_of(found)]
    assert sum(sizes) == len(found) == 256
    assert sizes == [TOGETHER, TOGETHER, 56]


PRICES = "S//a[./k->k][./p->p]"


@pytest.mark.parametrize(
    ("query", "repeated"),
    [
        ("S//a->x[./k->k] JOIN{-1 h TO 2 h} S//a->y[./k->m] ELSE", True),
        (f"{PRICES} LONGEST FOLD{{$2.k = $.k, $2.p > $.p}} {PRICES}", True),
        ("S//a->x JOIN{90 min} AT '0 * * * *'->t", True),
        ("S//a[./k->k] FOLLOWED BY{k = m, 3 h} S//a[./k->m]", False),
        ("AT '0 1 * * *'->t NOT FOLLOWED BY{1 min} S//b", False),
    ],
)
def test_readers_have_the_messages_that_were_sent_one_by_one(query: str, repeated: bool) -> None:
    """Matches of the same documents that end at several times are several messages for all."""
    rows = ((1, "12", 1), (2, "12", 2), (3, "1", 0), (4, "2", 0), (7, "3", 0))
    with xscl.Engine() as engine:
        engine.subscribe("q", query)
        sent: list[str] = []
        after = 0
        for minute in range(0, 720, 15):
            for hour, keys, price in rows:
                if hour * 60 == minute:
                    leaves = "".join(f"<k>{key}</k>" for key in keys)
                    xml = f"<a>{leaves}<p>{price}</p></a>".encode()
                    engine.push(Document("S", f"d{hour}", minute * UNITS["min"], xml))
            engine.advance(minute * UNITS["min"] + 1)
            page = following(engine.log, "q", after)
            sent += [one.id for one in page.messages]
            after = page.end
        read = latest(partial(engine.log.page, "q", newest_first=True), 50)
        assert [group[0].id for group in read.groups] == sent[::-1]
        assert [one.id for one in following(engine.log, "q", 0).messages] == sent
        names = [group[0].names for group in read.groups]
        assert (len(set(names)) < len(names)) == repeated


def test_subscriptions_of_one_query_have_whole_messages_whatever_their_versions() -> None:
    with xscl.Engine() as engine:
        query = "S//a[./k->k] FOLLOWED BY{k = m, 3 h} S//b[./k->m]"
        engine.subscribe("p", "S//z")
        engine.subscribe("q", query)
        engine.edit("p", query)
        for hour, root in enumerate("ab", 1):
            xml = f"<{root}><k>1</k><k>2</k></{root}>".encode()
            engine.push(Document("S", root, hour * UNITS["h"], xml))
        engine.flush()

        def read(before: int | None, limit: int) -> Page:
            place = None if before is None else (before, 0)
            return engine.log.page_of_all(
                lambda _: True, before=place, limit=limit, newest_first=True
            )

        shown = [[one.subscription for one in group] for group in latest(read, 50).groups]
    assert sorted(shown) == [["p", "p"], ["q", "q"]]


@pytest.mark.parametrize("size", [10, LARGEST])
def test_texts_of_a_large_message_are_cut(size: int) -> None:
    (one,) = messages_of(matches(EACH, *2 * [f"<item><a>{'x' * size}</a></item>"]))
    data = json.loads(one.json())["data"]
    (value,) = {
        node["value"]
        for match in data["matches"]
        for nodes in match["bindings"].values()
        for node in nodes
    }
    assert data.get("cut", False) is (size > 10)
    assert len(value) == size if size == 10 else len(value) <= CUT
    assert len(one.json()) < LARGEST


def test_the_texts_of_an_element_are_told_apart() -> None:
    (match,) = matches(
        "S//book->b[./title->t] JOIN{t=u, 1 d} S//post->p[./title->u]",
        "<book><author>Danny</author><author>Andrew</author><title>RSS\n and Atom</title></book>",
        f"<post><title>RSS\n and Atom</title><body>{'x' * 2 * CUT}</body><empty/></post>",
    )
    assert list(message_of([match]).lines()) == [
        "RSS and Atom (book d1)",
        "RSS and Atom (post d2)",
        "b",
        "  author: Danny, Andrew",
        "  title: RSS and Atom",
        "t = RSS and Atom",
        "p",
        "  title: RSS and Atom",
        f"  body: {'x' * (CUT - 1)}\N{HORIZONTAL ELLIPSIS}",
        "u = RSS and Atom",
    ]


def test_text_beside_elements_is_one_text() -> None:
    (match,) = matches("S//p->p", "<p>so <b>it</b> goes</p>")
    # a document without a title is called by its root element and its name
    assert list(message_of([match]).lines()) == ["p d1", "p = so it goes"]


# -- Matches as they are shown -------------------------------------------------------------


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


CHAIN = "S//a[./k->x] FOLLOWED BY{x = y, 1 h} S//b[./k->y] FOLLOWED BY{y = z, 1 h} S//c[./k->z]"
FUNCTION = "S//a->p FOLLOWED BY{lower-case(p/k) = q/@k, 1 h} S//b->q"


def test_what_is_compared_has_one_number_on_all_sides() -> None:
    (match,) = matches(CHAIN, *(f"<{name}><k>7</k></{name}>" for name in "abc"))
    assert joined(match) == [[("7", 1)]] * 3
    documents = ("<a><n>no</n><k>SEA</k></a>", '<b k="sea"><n>no</n></b>')
    (match,) = matches(FUNCTION, *documents)
    assert joined(match) == [[("SEA", 1)], [("sea", 1)]]


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
    (match,) = all_found()["advisory-then-release"]
    origins = [card.origin for card in shown(match, "x").cards]
    assert origins == [
        CardValue("root", "advisories/a-1 · advisory"),
        CardValue("root", "releases/r-241 · release"),
    ]


def test_an_item_is_shown_as_one() -> None:
    (match,) = all_found()["same-story"]
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
    outputs = [shown(match, "x").output for match in all_found()["orders-and-invoices"]]
    assert outputs == [
        '<disagree order="71" ordered="184.00" invoiced="214.00"/>',
        '<disagree order="74" ordered="99.00" invoiced="102.00"/>',
    ]


LINES = {
    "elements": "<line><sku>A-{0}</sku><qty>2</qty></line>",
    "attributes": '<line sku="A-{0}" qty="2"/>',
    "deep": "<line><what><sku>A-{0}</sku></what><qty>2</qty></line>",
}


def order(lines: int, kind: str) -> str:
    """Return an order with a key, some lines, and a total at its end."""
    written = "".join(LINES[kind].format(number) for number in range(lines))
    return f"<order><k>7</k><customer>Ann</customer>{written}<total>16.00</total></order>"


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("lines", [2, 3, 9, 60])
def test_a_repeated_element_is_one_value_and_the_number_of_those_left_out_is_shown(
    kind: str, lines: int
) -> None:
    query = "S//order[./k->x] FOLLOWED BY{x = y, 1 h} S//order[./k->y]"
    (match,) = matches(query, order(2, kind), order(lines, kind))
    values = shown(match, "x").cards[1].values
    names = [value.name for value in values]
    assert (names[:2], names[-1], values[-1].text) == (["customer", "line"], "total", "16.00")
    assert values[1].text == "sku A-0 \N{MIDDLE DOT} qty 2"
    assert [part.text for part in values[1].parts] == ["A-0", "2"]
    left_out = sum(
        int(value.text.split()[0]) for value in values if value.name == "\N{HORIZONTAL ELLIPSIS}"
    )
    assert names.count("line") + left_out == lines
    assert (left_out > 0) == (lines == 60)


@pytest.mark.parametrize("kind", LINES)
def test_what_is_compared_in_a_repeated_element_is_marked_and_never_left_out(kind: str) -> None:
    path = "./line/@sku" if kind == "attributes" else ".//sku"
    query = f"S//order[{path}->x] FOLLOWED BY{{x = y, 1 h}} S//sale[./sku->y]"
    (match,) = matches(query, order(60, kind), "<sale><sku>A-30</sku></sale>")
    values = shown(match, "x").cards[0].values
    marked = [leaf for value in values for leaf in value.leaves if leaf.joined]
    assert [leaf.text for leaf in marked] == ["A-30"]
    assert [value.name for value in values].count("\N{HORIZONTAL ELLIPSIS}") == 2


@pytest.mark.parametrize(
    ("first", "title"), [("", "A-3"), ("<day>Monday</day>", "Monday"), ("<line/>", "A-3")]
)
def test_a_list_of_records_is_headed_by_the_one_that_is_compared(first: str, title: str) -> None:
    lines = "".join(f"<line><sku>A-{n}</sku><qty>2</qty></line>" for n in range(5))
    query = "S//list/line[./sku->x] FOLLOWED BY{x = y, 1 h} S//sale[./sku->y]"
    sale = "<sale><sku>A-3</sku></sale>"
    (match,) = matches(query, f"<list>{first}{lines}</list>", sale)
    assert [card.title.text for card in shown(match, "x").cards] == [title, "A-3"]


@pytest.mark.parametrize("kind", LINES)
def test_messages_tell_a_repeated_element_in_a_line(kind: str) -> None:
    (match,) = matches("S//order->o", order(2, kind))
    text = message_of([match]).text
    assert text == (
        "o",
        "  k: 7",
        "  customer: Ann",
        "  line: sku A-0 \N{MIDDLE DOT} qty 2",
        "  line: sku A-1 \N{MIDDLE DOT} qty 2",
        "  total: 16.00",
    )
    (made,) = messages_of([match], html=True)
    assert "<dd>sku A-0 \N{MIDDLE DOT} qty 2</dd>" in made.html


# -- Texts for people name the missing document and show the output of SELECT --------------


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


@pytest.mark.parametrize("query", [SILENCE, ELSE])
def test_each_text_says_what_did_not_come_of_its_document(query: str) -> None:
    match, absence = found(query)["2"], "nothing of invoices that fits came within 1 h"
    (told,) = messages_of([match], html=True)
    slack = json.loads(Slack("").posted(told).body)["text"].splitlines()
    assert slack[1:3] == ["\N{BULLET} Two lamps (order orders/2)", absence]
    body, headers = Ntfy("").posted(told)
    assert body.decode().splitlines()[:2] == ["Two lamps (order orders/2)", absence]
    assert "nothing of invoices" in mail_of([told], "x@e.org", "y@e.org").as_string()
    assert told.title.endswith(f"Two lamps \N{EM DASH} {absence}")
    assert f"<strong>{absence.capitalize()}.</strong>" in told.html
    assert match.absence == told.as_dict()["data"]["matches"][0]["absence"] == absence
    assert shown(match, "late").absence == absence
    assert headers["Title"]


def test_what_came_is_no_absence() -> None:
    match = found(ELSE)["1"]
    assert (match.documents, match.absence) == (("1", "i"), "")
    (told,) = messages_of([match], html=True)
    assert "nothing of" not in told.html
    assert list(found(SILENCE)) == ["2"]


DAY = 24 * HOUR
SHELF, POST, ITEM_ = "A//book[./title->t]", "B//post[./title->u]", "C//item[./title->v]"
OUTER = f"{SHELF} JOIN{{t=u, -5 d TO 2 d}} {POST} ELSE"
EITHER = f"{SHELF} FOLLOWED BY{{t=u, 2 d}} {POST} ELSE"
COMPOSED = {
    OUTER: {
        ("a1", "b1"): "",
        ("a2",): "nothing of B that fits came from 5 d before to 2 d after",
        ("b2",): "nothing of A that fits came from 2 d before to 5 d after",
    },
    f"{OUTER} RIGHT": {
        ("a1", "b1"): "",
        ("b2",): "nothing of A that fits came from 2 d before to 5 d after",
    },
    f"{SHELF} JOIN{{t=u, 3 d}} {POST} ELSE": {
        ("a1", "b1"): "",
        ("a2",): "nothing of B that fits came within 3 d",
        ("b2",): "nothing of A that fits came within 3 d",
    },
    f"{SHELF} JOIN{{t=u, 12 h TO 2 d}} {POST} ELSE": {
        ("a1", "b1"): "",
        ("a2",): "nothing of B that fits came from 12 h to 2 d after",
        ("b2",): "nothing of A that fits came from 2 d to 12 h before",
    },
    f"{SHELF} JOIN{{t=u, 0 s TO 2 d}} {POST} ELSE RIGHT": {
        ("a1", "b1"): "",
        ("b2",): "nothing of A that fits came in the 2 d before",
    },
    f"({SHELF} NOT FOLLOWED BY{{t=u, 2 d}} {POST}) FOLLOWED BY{{t=v, 60 d}} {ITEM_}": {
        ("a2", "c2"): "nothing of B that fits came within 2 d",
    },
    f"({EITHER}) NEXT{{t=v}} {ITEM_}": {
        ("a1", "b1", "c1"): "",
        ("a2", "c2"): "nothing of B that fits came within 2 d",
    },
    f"({EITHER}) NOT FOLLOWED BY{{t=v, 6 d}} {ITEM_}": {
        ("a1", "b1"): "nothing of C that fits came within 6 d",
        ("a2",): "nothing of B that fits came within 2 d; nothing of C that fits came within 6 d",
    },
    f"({EITHER}) FOLLOWED BY{{t=v, 60 d}} {ITEM_} ELSE": {
        ("a1", "b1", "c1"): "",
        ("a2", "c2"): "nothing of B that fits came within 2 d",
    },
    f"{SHELF} NOT FOLLOWED BY{{t=u, 4 d}} ({POST} FOLLOWED BY{{u=v, 1 d}} {ITEM_})": {
        ("a1",): "nothing of B with C that fits came within 4 d",
        ("a2",): "nothing of B with C that fits came within 4 d",
    },
    f"{SHELF} FOLLOWED BY{{t=u, 4 d}} ({POST} NOT FOLLOWED BY{{u=v, 1 d}} {ITEM_}) ELSE": {
        ("a1", "b1"): "nothing of C that fits came within 1 d",
        ("a2",): "nothing of B that fits came within 4 d",
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
    told = message_of(matches("S//item->a", ITEM))
    assert told.text == ("a", "  category: sea", "  description: From noon")
    assert next(told.lines()) == "Ferry stops (News)"


@pytest.mark.parametrize("leaf", ["title", "feed", "channel_url", "seen_at", "id", "category"])
def test_a_leaf_of_an_item_is_told_where_title_and_address_do_not_tell_it(leaf: str) -> None:
    (match,) = matches(f"S//item[./{leaf}->x]", ITEM)
    assert message_of([match]).text == (("x = sea",) if leaf == "category" else ())
    (plain,) = matches("S//b[./title->x]", "<b><title>T</title></b>")
    assert message_of([plain]).text == ("x = T",)


@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("lines", [47, 48, 80])
def test_messages_say_how_many_lines_they_leave_out_and_show_the_total(
    kind: str, lines: int
) -> None:
    (match,) = matches("S//order->o", order(lines, kind))
    told = message_of([match]).text
    rows = [line for line in told if line.startswith("  line: ")]
    assert all(" qty 2" in row for row in rows)
    left_out = [line for line in told if line.startswith("  \N{HORIZONTAL ELLIPSIS}: ")]
    assert told[-1] == "  total: 16.00"
    assert len(rows) + sum(int(line.split()[1]) for line in left_out) == lines
    assert len(left_out) == (lines + 3 > 50)
