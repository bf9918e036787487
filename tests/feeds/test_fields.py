"""Each field of an item: hand-made entries, and the leaves that they must have."""

from __future__ import annotations

import base64
import json
from urllib.parse import urljoin

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from feeds.formats.entries import link
from feeds.formats.parse import parse_feed

NAMES = (
    'xmlns:atom="http://www.w3.org/2005/Atom" xmlns:content="http://purl.org/rss/1.0/modules/content/"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"'
    ' xmlns:feedburner="http://rssnamespace.org/feedburner/ext/1.0"'
    ' xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"'
    ' xmlns:media="http://search.yahoo.com/mrss/"'
)
RSS = f'<rss version="2.0" {NAMES}><channel xml:base="/b/"><item>%s</item></channel></rss>'
ATOM = f'<feed xmlns="http://www.w3.org/2005/Atom" {NAMES} xml:base="/b/"><entry>%s</entry></feed>'
ATOM_03 = '<feed version="0.3" xmlns="http://purl.org/atom/ns#"><entry>%s</entry></feed>'
JSON = '{"version": "https://jsonfeed.org/version/1.1", "items": [{%s}]}'
TEXT_64 = base64.b64encode("Grüße".encode()).decode()


def leaves(body: str, encoding: str = "utf-8") -> dict[str, str]:
    """The leaves of the only item, repeated ones joined, with the attributes that they have."""
    feed = parse_feed(body.encode(encoding), url="http://example.org/f", seen_at=10**15)
    (item,) = feed.items
    found: dict[str, str] = {}
    for leaf in etree.fromstring(item.canonical):
        attributes = "".join(f" @{name}={leaf.get(name)}" for name in map(str, leaf.attrib))
        written = f"{leaf.text or ''}{attributes}"
        name = str(leaf.tag)
        found[name] = f"{found[name]} | {written}" if name in found else written
    return found


RSS_CASES: dict[str, tuple[str, dict[str, str]]] = {
    "title: HTML that was escaped twice": (
        "<title>AT&amp;amp;T &lt;em&gt;and&lt;/em&gt; &amp;#8220;us&amp;#8221;</title>",
        {"title": "AT&T and “us”", "raw_title": "AT&amp;T <em>and</em> &#8220;us&#8221;"},
    ),
    "title: text that only looks like HTML": (
        "<title>if a &lt; b &amp;&amp; c: &lt;vector&gt;&lt;/vector&gt; &amp;now;</title>",
        {"title": "if a < b && c: <vector></vector> &now;"},
    ),
    "title: of the media": ("<media:title>T</media:title>", {"title": "T"}),
    "title: RSS before media": (
        "<media:group><media:title>M</media:title></media:group><title>T</title>",
        {"title": "T"},
    ),
    "link: the article behind the redirector": (
        "<link>http://feeds.example/~r/1</link>"
        "<feedburner:origLink>http://example.org/1</feedburner:origLink>",
        {"item_url": "http://example.org/1", "feed_url": "http://feeds.example/~r/1"},
    ),
    "link: the same twice": (
        "<link>http://a/1</link><feedburner:origLink>http://a/1</feedburner:origLink>",
        {"item_url": "http://a/1", "feed_url": ""},
    ),
    "link: relative": ("<link>1</link>", {"item_url": "http://example.org/b/1"}),
    "author: its own": (
        "<dc:creator>Ann</dc:creator><itunes:author>Ben</itunes:author>",
        {"author": "Ann"},
    ),
    "author: of iTunes": ("<itunes:author>Ben</itunes:author>", {"author": "Ben"}),
    "author: of Atom": (
        "<atom:author><atom:name>Cy</atom:name><atom:uri>http://c/</atom:uri></atom:author>",
        {"author": "Cy"},
    ),
    "author: a person in elements, and again": (
        "<author><name>Ann</name><title>Dr</title></author><dc:creator>Ann</dc:creator>",
        {"author": "Ann"},
    ),
    "categories: in a list, and keywords": (
        "<categories><category>k</category></categories><itunes:keywords>a b, c</itunes:keywords>"
        "<media:group><media:keywords>d e</media:keywords></media:group>",
        {"category": "k | a b | c | d | e"},
    ),
    "dates: issued and modified": (
        "<dcterms:issued>2013-03-19</dcterms:issued><dcterms:modified>2013-03-20</dcterms:modified>",
        {"published": "2013-03-19T00:00:00Z", "updated": "2013-03-20T00:00:00Z"},
    ),
    "summary: of iTunes": (
        "<itunes:subtitle>short</itunes:subtitle><itunes:summary>long</itunes:summary>",
        {"description": "long"},
    ),
    "summary: of the media": (
        "<media:group><media:description>D</media:description></media:group>",
        {"description": "D"},
    ),
    "summary: relative links": (
        '<description>&lt;a class="x" href="1">a&lt;/a>&lt;img src=\'/2\'>'
        '&lt;a href="#n">&lt;a href="mailto:a@b">&lt;a href="http://c/"></description>',
        {
            "description": '<a class="x" href="http://example.org/b/1">a</a>'
            "<img src='http://example.org/2'>"
            '<a href="#n"><a href="mailto:a@b"><a href="http://c/">'
        },
    ),
    "content: of Atom": (
        '<atom:content type="html">&lt;p>c</atom:content>',
        {"content": "<p>c"},
    ),
    "content: XHTML": (
        '<body xmlns="http://www.w3.org/1999/xhtml"><p>c &amp; <a href="1">d</a></p></body>',
        {"content": '<p>c &amp; <a href="http://example.org/b/1">d</a></p>'},
    ),
    "categories: with their vocabulary": (
        '<category domain="http://v/">k</category><dc:subject>l</dc:subject>'
        '<media:category scheme="urn:s" label="L">m</media:category>'
        '<itunes:category text="n"/><category domain="http://v/">k</category>',
        {"category": "k @domain=http://v/ | l | n | m @domain=urn:s @label=L"},
    ),
    "enclosures: with their length": (
        '<enclosure url="a.mp3" length="12" type="audio/mpeg"/><enclosure url="c" length="0"/>'
        '<media:content url="http://example.org/b/a.mp3" fileSize="13"/>'
        '<media:group><media:content url="d.mp4" fileSize="14" type="video/mp4" duration="61"/>'
        "</media:group>",
        {
            "enclosure": " @url=http://example.org/b/a.mp3 @type=audio/mpeg @length=12"
            " |  @url=http://example.org/b/c"
            " |  @url=http://example.org/b/d.mp4 @type=video/mp4 @length=14",
            "duration": "61",
        },
    ),
    "media: a thumbnail in a content in a group": (
        '<media:group><media:content url="v.mp4"><media:thumbnail url="t.png"/></media:content>'
        '</media:group><itunes:image href="i.png"/>',
        {"image": "http://example.org/b/t.png"},
    ),
    "itunes: image and duration": (
        '<itunes:image href="i.png"/><itunes:duration>1:02:03</itunes:duration>',
        {"image": "http://example.org/b/i.png", "duration": "3723"},
    ),
    "itunes: no duration": (
        "<guid>1</guid><itunes:duration>an hour</itunes:duration>",
        {"duration": ""},
    ),
    "comments": ("<comments>/c</comments>", {"comments": "http://example.org/c"}),
    "comments: a program": ("<guid>1</guid><comments>javascript:x</comments>", {"comments": ""}),
    "source": ('<source url="/s">S</source>', {"source": "S @url=http://example.org/s"}),
    "rights": ("<dc:rights>R</dc:rights>", {"rights": "R"}),
    "rights: of the media": ("<media:copyright>R</media:copyright>", {"rights": "R"}),
}


@pytest.mark.parametrize("case", RSS_CASES)
def test_fields_of_rss(case: str) -> None:
    written, expected = RSS_CASES[case]
    found = leaves(RSS % written)
    assert {name: found.get(name, "") for name in expected} == expected
    assert "raw_title" in expected or "raw_title" not in found


ATOM_CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "title: HTML": (ATOM, '<title type="html">a &amp;amp; b</title>', {"title": "a & b"}),
    "title: XHTML": (
        ATOM,
        '<title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">a <b>b</b></div></title>',
        {"title": "a b"},
    ),
    "title: base64": (ATOM_03, f'<title mode="base64">{TEXT_64}</title>', {"title": "Grüße"}),
    "content: base64": (
        ATOM,
        f'<content type="application/x-text">{TEXT_64}</content>',
        {"content": "Grüße"},
    ),
    "content: no base64": (ATOM, '<content type="image/png">!!</content>', {"content": "!!"}),
    "content: text": (
        ATOM,
        f'<content type="text/plain">{TEXT_64}</content>',
        {"content": TEXT_64},
    ),
    "content: XHTML": (
        ATOM,
        '<content type="xhtml" xml:base="c/"><x:div xmlns:x="http://www.w3.org/1999/xhtml">'
        '1 &lt; 2<x:br/><x:img src="i"/></x:div></content>',
        {"content": '1 &lt; 2<br><img src="http://example.org/b/c/i">'},
    ),
    "categories": (
        ATOM,
        '<category term="k" scheme="urn:s" label="K"/><category label="only"/>',
        {"category": "k @domain=urn:s @label=K | only"},
    ),
    "source": (
        ATOM,
        '<source><title>S</title><link href="/s"/><link rel="self" href="/s.xml"/></source>',
        {"source": "S @url=http://example.org/s.xml"},
    ),
    "comments": (
        ATOM,
        '<link rel="replies" type="application/atom+xml" href="f"/>'
        '<link rel="replies" type="text/html" href="c"/>',
        {"comments": "http://example.org/b/c"},
    ),
    "enclosures": (
        ATOM,
        '<link rel="enclosure" href="a" length="7"/>',
        {"enclosure": " @url=http://example.org/b/a @length=7"},
    ),
    "rights": (ATOM, "<rights>R</rights>", {"rights": "R"}),
    "media of a video": (
        ATOM,
        '<title>T</title><media:group><media:thumbnail url="t.jpg"/>'
        "<media:description>D</media:description></media:group>",
        {"title": "T", "description": "D", "image": "http://example.org/b/t.jpg"},
    ),
    "JSON": (
        JSON,
        '"id": "1", "image": "i.png", "content_html": "<a href=\\"x\\">",'
        '"attachments": [{"url": "a", "size_in_bytes": 5, "duration_in_seconds": 61.5}]',
        {
            "content": '<a href="http://example.org/x">',
            "image": "http://example.org/i.png",
            "duration": "61",
            "enclosure": " @url=http://example.org/a @length=5",
        },
    ),
}


@pytest.mark.parametrize("case", ATOM_CASES)
def test_fields_of_atom_and_json(case: str) -> None:
    form, written, expected = ATOM_CASES[case]
    found = leaves(form % written)
    assert {name: found.get(name, "") for name in expected} == expected


TEXT = "Use &lt;em&gt; not &lt;i&gt;x&lt;/i&gt; &amp;amp; y"
AS_TEXT = "Use <em> not <i>x</i> &amp; y"


@pytest.mark.parametrize("kind", ["", ' type="text"', ' type="text/plain"', ' type="TEXT"'])
def test_titles_of_atom_are_text_unless_they_say_otherwise(kind: str) -> None:
    found = leaves(ATOM % f"<title{kind}>{TEXT}</title>")
    assert (found["title"], found.get("raw_title")) == (AS_TEXT, None)


def test_html_titles_and_those_of_rss_are_read_as_html() -> None:
    for body in (ATOM % f'<title type="html">{TEXT}</title>', RSS % f"<title>{TEXT}</title>"):
        assert leaves(body)["title"] == "Use not x & y"


def test_summary_and_content_that_are_text_say_so_if_they_look_like_html() -> None:
    body = f'<summary type="text">{TEXT}</summary><content type="text">a &lt; b</content>'
    found = leaves(ATOM % body)
    assert found["description"] == f"{AS_TEXT} @type=text"
    assert found["content"] == "a < b"
    assert leaves(ATOM % f'<summary type="html">{TEXT}</summary>')["description"] == AS_TEXT
    assert leaves(RSS % f"<description>{TEXT}</description>")["description"] == AS_TEXT


def test_texts_of_json_feed_are_text_and_html_is_html() -> None:
    def read(**item: str) -> dict[str, str]:
        feed = {"version": "https://jsonfeed.org/version/1.1", "items": [{"id": "1", **item}]}
        return leaves(json.dumps(feed))

    found = read(title=AS_TEXT, summary=AS_TEXT, content_text=AS_TEXT)
    assert (found["title"], found.get("raw_title")) == (AS_TEXT, None)
    assert found["description"] == found["content"] == f"{AS_TEXT} @type=text"
    assert read(content_html=AS_TEXT)["content"] == AS_TEXT


PLAIN_LEAVES = {
    "title": "<title>{}</title>",
    "author": "<author>{}</author>",
    "category": "<category>{}</category>",
    "rights": "<dc:rights>{}</dc:rights>",
    "source": "<source>{}</source>",
    "description": "<description>{}</description>",
    "content": "<content:encoded>{}</content:encoded>",
}


@pytest.mark.parametrize("leaf", PLAIN_LEAVES)
def test_layout_of_plain_leaves_is_left_out(leaf: str) -> None:
    laid_out = PLAIN_LEAVES[leaf].format("\n   Ferry stops\t\n")
    assert leaves(RSS % laid_out)[leaf] == "Ferry stops"
    written = PLAIN_LEAVES[leaf].format("Ferry\n   stops")
    is_html = leaf in ("description", "content")
    assert leaves(RSS % written)[leaf] == ("Ferry\n   stops" if is_html else "Ferry stops")


def test_layout_of_category_attributes_is_left_out() -> None:
    found = leaves(ATOM % '<category term=" a&#10;  b " label=" A  B "/>')
    assert found["category"] == "a b @label=A B"


@pytest.mark.parametrize(
    ("links", "url"),
    [
        (
            "<link rel='alternate' type='text/html' href='http://e.example/3'/>",
            "http://e.example/3",
        ),
        ("<link href='/3'/>", "http://example.org/3"),
        (
            "<link rel='self' href='/feed'/><link rel='alternate' href='/3'/>",
            "http://example.org/3",
        ),
        (
            "<link rel='alternate' href=''/><link rel='alternate' href='/3'/>",
            "http://example.org/3",
        ),
        ("<link>http://e.example/4</link><link href='/3'/>", "http://e.example/4"),
        ("<guid>http://e.example/5</guid><link href='/3'/>", "http://example.org/3"),
        ("<link rel='alternate' href='javascript:x'/>", ""),
    ],
)
def test_links_of_rss_with_an_address_in_an_attribute(links: str, url: str) -> None:
    assert leaves(RSS % f"<title>t</title>{links}").get("item_url", "") == url


BASES = ("http://h.example/a/b?c", "https://h.example/")
_PARTS = st.sampled_from(
    (
        *("http://", "https://", "HTTP://", "//", "h.example", "H-1.example", ":80", "u@h"),
        *("/", "/a", "/../b", "/./", "?", "?q=1&r", "#", "#f", ";", ";p", " ", "é", "%20"),
    )
)


@given(st.lists(_PARTS, min_size=1, max_size=8).map("".join), st.sampled_from(BASES))
def test_links_are_those_of_urljoin(reference: str, base: str) -> None:
    found = link(reference, base)
    try:
        expected = urljoin(base, reference.strip()) if reference.strip() else None
    except ValueError:
        expected = reference.strip()
    assert found == expected


@pytest.mark.parametrize("reference", [None, "", " \n", "java\nscript:x", "data:,x"])
def test_nothing_and_programs_are_no_links(reference: str | None) -> None:
    assert link(reference, BASES[0]) is None


def test_without_a_base_a_reference_stays() -> None:
    assert link("/a", "") == "/a"
    assert link("https://h.example/a", "") == "https://h.example/a"
