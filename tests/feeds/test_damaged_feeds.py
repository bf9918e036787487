"""Damaged markup: no item is lost that feedparser finds, and none is made of nothing."""

from __future__ import annotations

import io
import json

import feedparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.errors import FeedError, MalformedDocument
from feeds.formats.items import FeedItem
from feeds.formats.parse import ParsedFeed, parse_feed
from tests.corpus import OWN
from tests.examples import examples

SEEN = 1_790_000_000_000_000
URL = "http://feed.example/feed"
ATOM = "http://www.w3.org/2005/Atom"
NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def read(body: bytes | str) -> ParsedFeed:
    return parse_feed(
        body.encode() if isinstance(body, str) else body, url=URL, seen_at=SEEN, native=True
    )


def case(name: str) -> ParsedFeed:
    return read((OWN / "damaged" / name).read_bytes())


def leaf(item: FeedItem, name: str) -> str:
    return etree.fromstring(item.canonical).findtext(name) or ""


def titles(feed: ParsedFeed) -> list[str]:
    return [leaf(item, "title") for item in feed.items]


def by_feedparser(body: bytes) -> int:
    """The number of entries of which feedparser finds something."""
    try:
        found = feedparser.parse(io.BytesIO(body), sanitize_html=False, resolve_relative_uris=False)
    except Exception:  # of its own
        return 0
    names = ("id", "link", "title", "summary", "content", "published", "updated")
    return sum(any(dict.get(each, name) for name in names) for each in found.entries)


def rss(items: str) -> str:
    return f"<rss version='2.0'><channel><title>C</title>{items}</channel></rss>"


# --- items that were lost ---


def test_attributes_without_quotes_cost_no_item() -> None:
    feed = case("unquoted.rss")
    assert [(item.identity, leaf(item, "title")) for item in feed.items] == [("1", "A"), ("2", "B")]
    assert [leaf(item, "item_url") for item in feed.items] == ["", ""]


@pytest.mark.parametrize(
    ("damage", "content"),
    [
        ("a < b & c", "a < b & c"),
        ("<p>x<br>y", "<p>x<br>y</p>"),
        ("x</b> <i><b>y</i>", "x <i><b>y</b></i>"),
        ("<a class=c id='1' id='2' hidden>x</a>", '<a class="c" id="1">x</a>'),
        ('<a title="1 "2" <3>">x</a>', "<a title='1 \"2\" &lt;3&gt;'>x</a>"),
        ("x<!-- -- --><?y?></Description ><title>B</title>", "x"),
        ("<![CDATA[x", "<![CDATA[x"),
        ("<q:w e='&lt;'>x</Q:w>", '<w e="&lt;">x</w>'),
    ],
)
def test_damage_of_a_text(damage: str, content: str) -> None:
    assert leaf(beside(damage), "description") == content


SOUND = "<item><guid>{0}</guid><description>a &lt;i&gt;b&lt;/i&gt;</description></item>"


def beside(damage: str, field: str = "description") -> FeedItem:
    """Return an item with a damaged field; fails unless the items around it are as without it."""
    broken = f"<item><guid>2</guid><{field}>{damage}</{field}></item>"
    wholes = read(rss(SOUND.format(1) + SOUND.format(2) + SOUND.format(3))).items
    first, found, last = read(rss(SOUND.format(1) + broken + SOUND.format(3))).items
    assert (first.canonical, last.canonical) == (wholes[0].canonical, wholes[2].canonical)
    return found


def test_an_item_that_is_never_closed_costs_no_other() -> None:
    feed = read(
        rss("<item><guid>1</guid><title>A</title><item><guid>2</guid><title>B</title></item>")
    )
    assert titles(feed) == ["A", "B"]


def test_names_in_capitals_are_read() -> None:
    (item,) = case("uppercase.rss").items
    assert (item.identity, leaf(item, "title")) == ("http://e.example/1", "T")
    feed = read(
        "<RSS VERSION='2.0'><CHANNEL><TITLE>C</TITLE><ITEM><GUID ISPERMALINK='false'>http://a/1</GUID>"
        "<TITLE>T</TITLE><PUBDATE>2024-05-06</PUBDATE><ENCLOSURE URL='http://a/f.mp3'/></ITEM>"
        "</CHANNEL></RSS>"
    )
    (item,) = feed.items
    assert (feed.title, item.identity, leaf(item, "title")) == ("C", "http://a/1", "T")
    assert (leaf(item, "item_url"), leaf(item, "published")) == ("", "2024-05-06T00:00:00Z")
    assert b'<enclosure url="http://a/f.mp3"/>' in item.canonical


@pytest.mark.parametrize(
    "body",
    [
        f"<FEED xmlns='{ATOM}'><ENTRY><ID>1</ID><TITLE>T</TITLE><LINK HREF='http://a/1'/></ENTRY></FEED>",
        "<rss><channel><item><Guid>1</Guid><Title>T</Title><Link>http://a/1</Link></item></channel></rss>",
        "<rss><Channel><Item><guid>1</guid><title>T</title><link>http://a/1</link></Item></Channel></rss>",
        "<rdf:rdf xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
        "<item><guid>1</guid><title>T</title><link>http://a/1</link></item></rdf:rdf>",
    ],
)
def test_names_are_compared_without_case(body: str) -> None:
    (item,) = read(body).items
    assert (item.identity, leaf(item, "title"), leaf(item, "item_url")) == ("1", "T", "http://a/1")


@pytest.mark.parametrize(
    "name",
    [
        "https://www.w3.org/2005/Atom",
        "http://www.w3.org/2005/atom",
        "http://www.w3.org/2005/Atom/",
        " http://www.w3.org/2005/Atom ",
    ],
)
def test_atom_under_another_name_is_read_at_any_size(name: str) -> None:
    entry = "<entry><id>urn:{0}</id><title>T</title><content>{1}</content></entry>"
    entries = "".join(entry.format(number, "x" * 10_000) for number in range(101))
    feed = read(f"<feed xmlns='{name}'><title>F</title>{entries}</feed>")
    assert (feed.format, len(feed.items)) == ("atom10", 101)


def test_extensions_under_another_name_are_read() -> None:
    feed = read(
        '<rss xmlns:c="https://purl.org/rss/1.0/modules/content/"><channel><item><guid>1</guid>'
        "<c:encoded>x</c:encoded></item></channel></rss>"
    )
    assert leaf(feed.items[0], "content") == "x"


def test_items_beside_the_channel_are_read_with_those_inside() -> None:
    item = "<item><guid>{0}</guid><title>{0}</title></item>"
    inside, beside = item.format("in"), item.format("beside")
    assert titles(read(f"<rss><channel>{inside}</channel>{beside}</rss>")) == ["in", "beside"]
    assert titles(read(f"<rss><channel/>{beside}</rss>")) == ["beside"]
    wrapped = f"<rss><channel>{inside}<items>{beside}</items></channel></rss>"
    assert titles(read(wrapped)) == ["in", "beside"]


# --- items of nothing ---


@pytest.mark.parametrize(
    "body",
    [
        rss("<item/><item><guid> </guid><title/></item><item><guid>1</guid></item>"),
        rss("<item><x/></item><item><guid>1</guid></item>"),
        f"<feed xmlns='{ATOM}'><entry/><entry><id>1</id></entry></feed>",
        json.dumps({"version": "https://jsonfeed.org/version/1.1", "items": [{}, 7, {"id": "1"}]}),
    ],
)
def test_an_entry_of_which_nothing_is_known_is_no_item(body: str) -> None:
    assert [item.identity for item in read(body).items] == ["1"]


def test_an_entry_with_a_date_alone_is_an_item() -> None:
    assert len(read(rss("<item><pubDate>2024-05-06</pubDate></item>")).items) == 1


# --- what stays an error ---


def test_a_body_that_was_cut_off_is_no_shorter_feed() -> None:
    body = rss("<item><guid>1</guid></item><item><guid>2</guid></item>")
    with pytest.raises(MalformedDocument):
        read(body[: body.index("<guid>2")])


def test_damaged_markup_has_the_limits_of_documents() -> None:
    with pytest.raises(MalformedDocument) as caught:
        read(rss("<item><guid a=b>1</guid></item>" + "<a " * 200_001))
    assert caught.value.reason_code == "xml_elements"
    items = "<item><guid isPermaLink=false>{0}</guid><description>{1}</description></item>"
    feed = read(rss("".join(items.format(number, "x" * 20_000) for number in range(100))))
    assert len(feed.items) == 100  # 2 MB


# --- feedparser as an oracle ---


SMALL = [
    rss("<item><guid>1</guid><title>A</title></item><item><link>http://e/2</link></item>"),
    f"<feed xmlns='{ATOM}'><id>f</id><entry><id>1</id><title type='text'>A</title></entry>"
    "<entry><id>2</id><link href='http://e/2'/></entry></feed>",
    "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns='http://purl.org/rss/1.0/'>"
    "<channel><title>C</title></channel><item rdf:about='1'><title>A</title></item>"
    "<item rdf:about='2'><title>B</title></item></rdf:RDF>",
]
PIECES = [b"<", b">", b"&", b'"', b"'", b"=", b"</", b"<item>", b"</item>", b"</title>", b"<b>"]
PIECES += [b"<!--", b"-->", b"<![CDATA[", b"]]>", b" a=b", b" a", b"\xff", b"\x00", b"<?x", b"<p/>"]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A small feed with one or two places changed."""
    body = draw(st.sampled_from(SMALL)).encode()
    for _ in range(draw(st.integers(1, 2))):
        start = draw(st.integers(5, len(body)))
        end = draw(st.integers(start, min(start + 6, len(body))))
        body = body[:start] + draw(st.sampled_from(PIECES) | st.just(b"")) + body[end:]
    return body


TEXTS = [piece.decode("latin-1") for piece in PIECES if b"item>" not in piece]


@given(
    st.lists(st.sampled_from([*TEXTS, "a", " "]), max_size=6).map("".join),
    st.sampled_from(("guid", "title", "link", "description")),
)
@examples(200)
def test_damage_of_a_text_changes_no_other_item(damage: str, field: str) -> None:
    beside(damage, field)


@given(damaged())
@examples(1_000)
def test_damage_loses_no_item_that_feedparser_finds(body: bytes) -> None:
    try:
        items = read(body).items
    except FeedError:
        return
    assert NOTHING not in {item.identity for item in items}
    assert len(items) >= by_feedparser(body)


@pytest.mark.parametrize("body", [small.encode() for small in SMALL])
@pytest.mark.parametrize("damage", [*PIECES, b""])
def test_damage_of_the_root_loses_no_item_that_feedparser_finds(body: bytes, damage: bytes) -> None:
    """Even if the start tag of the root is none; a body that was cut off lacks its end tag."""
    for start in range(1, body.index(b">"), 7):
        for removed in (0, 3):
            broken = body[:start] + damage + body[start + removed :]
            if found := by_feedparser(broken):
                assert len(read(broken).items) >= found


# --- bounds ---


FEEDS = {
    "declared": '<?xml version="1.0"?>\n' + rss("<item><title>i</title></item>" * 2),
    "bare": rss("<item><title>i</title></item>" * 2),
    "atom": f'<feed xmlns="{ATOM}"><title>C</title>'
    + "<entry><title>i</title></entry>" * 2
    + "</feed>",
}
CONTROLS = [chr(code) for code in range(0x20) if chr(code) not in "\t\n\r"]


@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
def test_a_control_character_anywhere_costs_no_item(feed: str) -> None:
    for at in range(len(feed)):
        control = CONTROLS[at % len(CONTROLS)]
        for between in (control, "\0"):
            assert titles(read(feed[:at] + between + feed[at:])) == ["i", "i"], (at, between)


@pytest.mark.parametrize("before", ["", " ", "\n\n", "noise "])
@pytest.mark.parametrize("feed", FEEDS.values(), ids=FEEDS)
def test_wide_characters_are_seen_without_a_mark(feed: str, before: str) -> None:
    for encoding in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"):
        marks = ("", "\ufeff") if before != "noise " else ("\ufeff",)
        for mark in marks:
            assert titles(read((mark + before + feed).encode(encoding))) == ["i", "i"]


def test_very_many_tags_in_damaged_markup_take_linear_time() -> None:
    with pytest.raises(FeedError):
        read(b"<rss><channel>" + b"<item><a>" * 150_000 + b"</item></channel></rss>")
