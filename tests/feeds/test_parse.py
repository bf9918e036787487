"""Feeds in every format, written for these tests; then what publishers really wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.errors import FeedError, MalformedDocument, NotAFeed
from feeds.formats.items import FeedItem
from feeds.formats.parse import MAX_ITEMS, ParsedFeed, parse_feed
from tests.corpus import Corpus, index

SEEN = 1_790_000_000_000_000
ATOM = "http://www.w3.org/2005/Atom"


def parsed(body: str | bytes, url: str = "http://example.org/feed") -> ParsedFeed:
    body = body.encode() if isinstance(body, str) else body
    return parse_feed(body, url=url, seen_at=SEEN, native=True)


def only(feed: ParsedFeed) -> FeedItem:
    (item,) = feed.items
    return item


def value(item: FeedItem, path: str) -> str:
    return str(etree.fromstring(item.canonical).xpath(f"string({path})"))


# --- one item in all formats ---

RSS_20 = """<?xml version="1.0"?>
<rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/"
     xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:atom="http://www.w3.org/2005/Atom"
     xmlns:dcterms="http://purl.org/dc/terms/">
<channel><title>News</title><link>http://example.org/</link>
<atom:link rel="self" href="http://example.org/feed"/><ttl>90</ttl>
<item><guid isPermaLink="false">urn:1</guid><link> /1 </link><title>A &lt;b&gt;</title>
<description>Short</description><content:encoded><![CDATA[<p>Long</p>]]></content:encoded>
<dc:creator>Ann</dc:creator><category>k</category><category>l</category>
<pubDate>Tue, 19 Mar 2013 10:00:00 GMT</pubDate><dcterms:modified>2013-03-20</dcterms:modified>
<enclosure url="/a.mp3" type="audio/mpeg" length="1"/></item></channel></rss>"""

RSS_10 = """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns="http://purl.org/rss/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"
  xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:dcterms="http://purl.org/dc/terms/"
  xmlns:atom="http://www.w3.org/2005/Atom">
<channel rdf:about="http://example.org/"><title>News</title><link>http://example.org/</link>
<atom:link rel="self" href="http://example.org/feed"/></channel>
<item rdf:about="urn:1"><title>A &lt;b&gt;</title><link>http://example.org/1</link>
<description>Short</description><content:encoded>&lt;p>Long&lt;/p></content:encoded>
<dc:creator>Ann</dc:creator><dc:subject>k</dc:subject><dc:subject>l</dc:subject>
<dc:date>2013-03-19T10:00:00Z</dc:date><dcterms:modified>2013-03-20</dcterms:modified>
<atom:link rel="enclosure" href="a.mp3" type="audio/mpeg" length="1"/></item></rdf:RDF>"""

ATOM_10 = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://example.org/sub/">
<title>News</title><id>urn:feed</id><link href="http://example.org/"/>
<link rel="self" href="http://example.org/feed"/><author><name>Ann</name></author>
<entry><id>urn:1</id><title type="html">A &lt;b&gt;</title><link rel="edit" href="http://no/"/>
<link href="../1"/><link rel="enclosure" href="../a.mp3" type="audio/mpeg" length="1"/>
<summary>Short</summary><content type="html">&lt;p&gt;Long&lt;/p&gt;</content>
<category term="k"/><category term="l"/>
<published>2013-03-19T11:00:00+01:00</published><updated>2013-03-20T00:00:00Z</updated>
</entry></feed>"""

ATOM_03 = """<feed version="0.3" xmlns="http://purl.org/atom/ns#"
  xmlns:dc="http://purl.org/dc/elements/1.1/"><title>News</title>
<link rel="alternate" type="text/html" href="http://example.org/"/>
<link rel="self" href="http://example.org/feed"/>
<entry><id>urn:1</id><title>A &lt;b&gt;</title><author><name>Ann</name></author>
<link rel="alternate" href="/1"/><link rel="enclosure" href="/a.mp3" type="audio/mpeg" length="1"/>
<summary>Short</summary><content mode="escaped">&lt;p&gt;Long&lt;/p&gt;</content>
<dc:subject>k</dc:subject><dc:subject>l</dc:subject>
<issued>2013-03-19T10:00Z</issued><modified>2013-03-20T00:00:00Z</modified></entry></feed>"""

JSON_11 = json.dumps(
    {
        "version": "https://jsonfeed.org/version/1.1",
        "title": "News",
        "home_page_url": "http://example.org/",
        "feed_url": "http://example.org/feed",
        "authors": [{"name": "Ann"}],
        "items": [
            {
                "id": "urn:1",
                "url": "/1",
                "title": "A <b>",
                "summary": "Short",
                "content_html": "<p>Long</p>",
                "tags": ["k", "l"],
                "date_published": "2013-03-19T10:00:00Z",
                "date_modified": "2013-03-20T00:00:00Z",
                "attachments": [{"url": "a.mp3", "mime_type": "audio/mpeg", "size_in_bytes": 1}],
            }
        ],
    }
)

FORMATS = {
    "rss20": RSS_20,
    "rss10": RSS_10,
    "atom10": ATOM_10,
    "atom03": ATOM_03,
    "json11": JSON_11,
}


@pytest.mark.parametrize("name", FORMATS)
def test_canonical_form_is_the_same_in_all_formats(name: str) -> None:
    feed = parsed(FORMATS[name])
    assert (feed.format, feed.title, feed.quality) == (name, "News", "strict")
    assert feed.name == "http://example.org/feed"
    assert only(feed).canonical.decode() == (
        "<item><id>urn:1</id><item_url>http://example.org/1</item_url>"
        "<channel_url>http://example.org/feed</channel_url><feed_title>News</feed_title>"
        "<title>A &lt;b&gt;</title><description>Short</description>"
        "<content>&lt;p&gt;Long&lt;/p&gt;</content>"
        "<author>Ann</author><category>k</category><category>l</category>"
        "<published>2013-03-19T10:00:00Z</published><updated>2013-03-20T00:00:00Z</updated>"
        "<seen_at>2026-09-21T14:13:20Z</seen_at>"
        '<enclosure url="http://example.org/a.mp3" type="audio/mpeg" length="1"/></item>'
    )


@pytest.mark.parametrize(
    ("name", "title", "channel", "others"),
    [
        ("rss20", "/rss/channel/item/title", "/rss/channel/title", "//ttl"),
        ("rss10", "/rdf:RDF/r:item/r:title", "/rdf:RDF/r:channel/r:title", "//r:channel/r:link"),
        ("atom10", "/a:feed/a:entry/a:title", "/a:feed/a:title", "/a:feed[@xml:base]/a:id"),
        ("json11", "/item/title", "/item/channel_url", "/item/id"),
    ],
)
def test_native_form_is_the_item_in_its_channel(
    name: str, title: str, channel: str, others: str
) -> None:
    body = FORMATS[name]
    if name != "json11":  # a second item, which must not be seen in the first one's document
        end = body.rindex("</item>") + 7 if "</item>" in body else body.rindex("</entry>") + 8
        start = max(body.rfind("<item"), body.rfind("<entry"))
        body = body[:end] + body[start:end].replace("urn:1", "urn:2") + body[end:]
    item = parsed(body).items[0]
    root = etree.fromstring(item.native)
    names = {
        "a": ATOM,
        "r": "http://purl.org/rss/1.0/",
        "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    }
    assert root.xpath(f"string({title})", namespaces=names) == "A <b>"
    assert root.xpath(f"count({channel})", namespaces=names) == 1
    assert root.xpath(f"count({others})", namespaces=names) == 1
    assert b"urn:2" not in item.native


def test_native_form_keeps_what_the_canonical_one_has_no_words_for() -> None:
    body = (
        '<rss version="2.0" xmlns:x="urn:x"><channel><x:header>h</x:header>'
        '<item><title>t</title><x:odd a="1">o<b/></x:odd></item></channel></rss>'
    )
    root = etree.fromstring(only(parsed(body)).native)
    assert root.findtext("channel/{urn:x}header") == "h"
    assert root.find("channel/item/{urn:x}odd[@a='1']/b") is not None


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('<rss version="0.91"><channel/></rss>', "rss091"),
        ('<rss version="0.92"><channel/></rss>', "rss092"),
        ("<rss><channel/></rss>", "rss20"),
        (
            '<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" '
            'xmlns="http://my.netscape.com/rdf/simple/0.9/"><channel/></r:RDF>',
            "rss090",
        ),
        ("<feed/>", "atom10"),
        ('{"version": "https://jsonfeed.org/version/1"}', "json10"),
    ],
)
def test_formats_and_empty_feeds(body: str, name: str) -> None:
    assert (parsed(body).format, parsed(body).items) == (name, ())


def rss(items: str, header: str = "") -> ParsedFeed:
    return parsed(f"<rss><channel><title>T</title>{header}{items}</channel></rss>")


@pytest.mark.parametrize(
    ("item", "url"),
    [
        ("<link>http://a/1</link>", "http://a/1"),
        ("<link>\n http://a/1 \n</link>", "http://a/1"),
        ("<link/><link>http://a/2</link>", "http://a/2"),
        ("<guid>http://a/3</guid>", "http://a/3"),
        ('<guid isPermaLink="false">http://a/3</guid>', ""),
        ("<guid>urn:3</guid>", ""),
        ("<link>4?x=1#y</link>", "http://example.org/4?x=1#y"),
        ("<link xml:base='http://b/'>4</link>", "http://example.org/4"),
        ("<link>JavaScript:alert(1)</link>", ""),
        ("<link>java\nscript:alert(1)</link>", ""),
        ("<link>java&#9;script:alert(1)</link>", ""),
        ("<link>data:text/html,x</link>", ""),
        ("<link>http://[half</link>", "http://[half"),
    ],
)
def test_f12_links(item: str, url: str) -> None:
    assert value(only(rss(f"<item>{item}<title>t</title></item>")), "item_url") == url


def test_xml_base_of_entries_and_links_nests() -> None:
    feed = parsed(
        f'<feed xmlns="{ATOM}" xml:base="/a/"><entry xml:base="b/"><id>1</id>'
        '<link xml:base="c/" href="d"/></entry></feed>'
    )
    assert value(only(feed), "item_url") == "http://example.org/a/b/c/d"


def test_without_an_address_relative_links_stay_relative() -> None:
    feed = parsed("<rss><channel><item><link>x</link></item></channel></rss>", url="file:a.xml")
    assert value(only(feed), "item_url") == "x"
    assert value(only(feed), "channel_url") == "file:a.xml"


def test_credentials_of_the_address_reach_no_item() -> None:
    body = "<rss><channel><item><link>x</link></item></channel></rss>"
    item = only(parsed(body, url="https://user:secret@example.org/feed"))
    assert value(item, "item_url") == "https://example.org/x"
    assert b"secret" not in item.canonical + item.native


def test_texts_are_string_values() -> None:
    """Comments and CDATA leave no trace, markup is HTML."""
    feed = parsed(
        f'<feed xmlns="{ATOM}"><entry><id>1</id><title> a<!-- x -->b<![CDATA[<c>]]>\n</title>'
        '<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">d <i>e</i></div></content>'
        "</entry></feed>"
    )
    assert value(only(feed), "title") == "ab<c>"
    assert value(only(feed), "content") == "d <i>e</i>"


def test_f8_two_feeds_with_the_same_guid_differ() -> None:
    item = "<item><guid>1</guid><title>t</title></item>"
    one = rss(item, "<link>http://a/</link>")
    two = rss(item, "<link>http://b/</link>")
    assert only(one).identity == only(two).identity
    assert (one.name, two.name) == ("http://a/ T", "http://b/ T")
    assert only(one).canonical != only(two).canonical


def test_f10_long_feeds_are_cut_and_say_so() -> None:
    feed = rss("<item><title>t</title></item>" * (MAX_ITEMS + 5))
    assert (len(feed.items), feed.omitted) == (MAX_ITEMS, 5)


def test_a_large_header_is_not_repeated_in_each_item() -> None:
    feed = rss("<item><title>t</title></item>", f"<image><url>{'x' * 100_000}</url></image>")
    root = etree.fromstring(only(feed).native)
    assert root.findtext("channel/title") == "T"
    assert root.find("channel/image") is None
    huge = rss("<item><title>t</title></item>", f"<link>{'x' * 100_000}</link>")
    assert len(only(huge).native) < 200
    assert len(only(huge).canonical) < 250


def test_many_namespaces_are_not_repeated_in_each_item() -> None:
    names = " ".join(f'xmlns:n{n}="urn:{n}{"x" * 100}"' for n in range(100))
    item = only(parsed(f"<rss {names}><channel><item><guid>1</guid></item></channel></rss>"))
    assert item.native == item.canonical


def test_a_namespace_that_is_no_uri_costs_nothing() -> None:
    body = '<rss xmlns:x="$http://x/"><channel><item><guid>1</guid></item></channel></rss>'
    assert etree.fromstring(only(parsed(body)).native).findtext("channel/item/guid") == "1"


def test_what_the_publisher_says_about_polling() -> None:
    header = (
        "<ttl>120</ttl><skipHours><hour>1</hour><hour>24</hour><hour>99</hour></skipHours>"
        "<skipDays><day>Sunday</day></skipDays>"
    )
    feed = rss("", header)
    assert (feed.ttl, sorted(feed.skip_hours), sorted(feed.skip_days)) == (7200, [0, 1], ["sun"])
    module = "http://purl.org/rss/1.0/modules/syndication/"
    period = f'<updatePeriod xmlns="{module}">daily</updatePeriod>'
    frequency = f'<updateFrequency xmlns="{module}">4</updateFrequency>'
    assert rss("", period + frequency).ttl == 6 * 3600
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom">{period}{frequency}</feed>'
    assert parse_feed(atom.encode(), seen_at=SEEN).ttl == 6 * 3600


def test_charset_of_the_content_type() -> None:
    body = "<rss><channel><title>\u0438</title></channel></rss>".encode("koi8-r")
    feed = parse_feed(body, content_type='text/xml; charset="KOI8-R"', seen_at=SEEN)
    assert (feed.title, feed.quality) == ("\u0438", "mended")


def test_what_only_feedparser_reads() -> None:
    body = (
        "<channel><title>CDF</title><item href='http://a/1'><title>t</title></item>"
        "<item href='http://a/2'><title>u</title></item></channel>"
    )
    feed = parsed(body)
    assert feed.quality == "feedparser"
    assert [value(item, "title") for item in feed.items] == ["t", "u"]
    assert all(item.native == item.canonical for item in feed.items)


@pytest.mark.parametrize(
    "damage",
    [
        "<\N{HORIZONTAL ELLIPSIS}>",
        "<don\N{RIGHT SINGLE QUOTATION MARK}t>",
        "<a\N{NO-BREAK SPACE}href='x'>",
        "<a href='x' \N{LEFT DOUBLE QUOTATION MARK}b=c>",
        "<a xmlns:p='http://q/' xmlns:r='http://q/' p:x='1' r:x='2'>",
        "<xmlns:a>",
    ],
)
def test_tags_that_xml_refuses_when_balanced_lose_no_item(damage: str) -> None:
    items = "".join(f"<item><title>{n}</title><link>http://a/{n}</link></item>" for n in "tu")
    feed = parsed(
        f"<rss><channel><title>T</title>{items}</channel></rss>".replace("t<", damage + "<")
    )
    assert (feed.quality, len(feed.items)) == ("feedparser", 2)


def test_feedparser_opens_neither_files_nor_addresses(tmp_path: Path) -> None:
    canary = tmp_path / "<channel >"
    canary.write_text("<rss><channel><title>CANARY</title></channel></rss>")
    with pytest.raises(FeedError):
        parsed(str(canary))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<html><body><p>Log in</p></body></html>", "the root element is html, which is no RSS"),
        ("<opml version='2.0'/>", "the root element is opml, which is no RSS and no Atom feed"),
        ("{}", 'the JSON text is no JSON Feed: it has no "version" of jsonfeed.org'),
    ],
)
def test_no_feed(body: str, message: str) -> None:
    with pytest.raises(NotAFeed) as caught:
        parsed(body)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "xml_syntax"),
        (b"{", "json_syntax"),
        (b'{"a": ' + b"[" * 200_000, "json_syntax"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "json_syntax"),
        (b'{"a": "' + b"x" * 10_000_000 + b'"}', "xml_size"),
        (b'<!DOCTYPE rss [<!ENTITY x "y">]><rss><channel>&x;</channel></rss>', "xml_entities"),
        (RSS_20[: RSS_20.index("<category>")].encode(), "xml_syntax"),
    ],
)
def test_malformed(body: bytes, code: str) -> None:
    with pytest.raises(MalformedDocument) as caught:
        parsed(body)
    assert caught.value.reason_code == code


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["id", "url", "title", "tags", "authors", "name", "attachments", "items"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(JSON, JSON)
def test_no_json_crashes(items: Any, authors: Any) -> None:
    feed = {"version": "https://jsonfeed.org/version/1.1", "items": items, "authors": authors}
    for item in parsed(json.dumps(feed)).items:
        assert etree.fromstring(item.canonical).tag == "item"


@given(st.data())
def test_no_damage_crashes(data: st.DataObject) -> None:
    body = FORMATS[data.draw(st.sampled_from(list(FORMATS)))].encode()
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(start + 40, len(body))))
    damage = data.draw(st.binary(max_size=12) | st.sampled_from([b"<", b"&", b"]]>", b"\0", b"{"]))
    try:
        items = parsed(body[:start] + damage + body[end:]).items
    except FeedError:
        return
    for item in items:
        assert etree.fromstring(item.canonical).tag == "item"
        assert etree.fromstring(item.native) is not None


# --- real feeds ---

DIFFERENT = {
    "feedjira/InvalidDateFormat.xml": "it ends before its root is closed: not read in part",
    # The index counts items that stand inside an sx:conflict of another item: rejected
    # versions of it (Simple Sharing Extensions), which are no entries of the channel.
    **dict.fromkeys(
        ["rome/ep1_v4a.xml", "rome/ep2_v4a.xml", "rome/v4.xml", "rome/v5.xml", "rome/v6.xml"],
        "one item is inside another",
    ),
}


def test_feeds_have_the_entries_that_the_index_counts(corpus: Corpus) -> None:
    feeds = corpus.folder("real-feeds")
    rows = index(feeds)
    differences = {}
    for row in rows:
        try:
            found = len(parsed((feeds / row["file"]).read_bytes()).items)
        except MalformedDocument:
            found = -1
        if found != int(row["entries"]):
            differences[row["file"]] = found - int(row["entries"])
    assert len(rows) == (184 if corpus.is_real else 12)
    known = DIFFERENT if corpus.is_real else {}
    assert differences == {name: -3 if "closed" in why else -1 for name, why in known.items()}


def test_feeds_have_the_format_and_the_damage_that_the_index_says(corpus: Corpus) -> None:
    feeds = corpus.folder("real-feeds")
    seen = set()
    for row in index(feeds):
        if row["file"] != "feedjira/InvalidDateFormat.xml":
            feed = parsed((feeds / row["file"]).read_bytes())
            assert feed.format == row["version"].rstrip("nu"), row["file"]
            assert (feed.quality == "strict") == (row["well_formed"] == "1"), row["file"]
            seen.add(feed.quality)
    assert seen >= {"strict", "mended", "recovered"}


def test_both_documents_of_items_say_what_the_feed_says(corpus: Corpus) -> None:
    feeds = corpus.folder("real-feeds")
    for file, row in ((feeds / row["file"], row) for row in index(feeds)):
        if row["well_formed"] != "1" or row["version"] not in ("rss20", "atom10"):
            continue
        root = etree.fromstring(file.read_bytes())
        rss = row["version"] == "rss20"
        path = "channel/item/title" if rss else f"{{{ATOM}}}entry/{{{ATOM}}}title"
        written = [" ".join(str(t.xpath("string()")).split()) for t in root.iterfind(path)]
        items = parsed(file.read_bytes()).items
        titles = [value(i, "/item/raw_title") or value(i, "/item/title") for i in items]
        assert [" ".join(t.split()) for t in titles if t] == [t for t in written if t], file
        native = [etree.fromstring(item.native).find(path) for item in items]
        said = [str(t.xpath("string()")) for t in native if t is not None]
        assert [" ".join(title.split()) for title in said] == written, file


def test_daily_snapshots_agree_on_their_items(corpus: Corpus) -> None:
    """FEEDS.tsv counts the unique items of each feed over all snapshots."""
    feeds = corpus.folder("rss-sync-open")
    lines = (feeds / "FEEDS.tsv").read_text("utf-8").splitlines()[1:]
    counted = {line.split("\t")[0]: [int(n) for n in line.split("\t")[1:4]] for line in lines}
    for name, (snapshots, occurrences, unique) in counted.items():
        files = sorted((feeds / name).glob("*.xml"))
        items = [item for file in files for item in parsed(file.read_bytes()).items]
        assert (len(files), len(items)) == (snapshots, occurrences), name
        assert len({item.identity for item in items}) == unique, name
        assert {item.rule for item in items} == {"guid"}, name
