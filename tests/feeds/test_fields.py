"""Each field of an item: hand-made entries, and the leaves that they must have."""

from __future__ import annotations

import base64

import pytest
from lxml import etree

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


@pytest.mark.parametrize("label", ["iso-8859-1", "latin1", "windows-1252"])
def test_windows_1252_that_is_labelled_latin_1(label: str) -> None:
    body = f'<?xml version="1.0" encoding="{label}"?>' + RSS % "<title>“caf\xe9” … 5 €</title>"
    assert leaves(body, "cp1252")["title"] == "“caf\xe9” … 5 €"


def test_numbers_of_control_characters_mean_those_of_windows_1252() -> None:
    assert leaves(RSS % "<title>it&#146;s</title>")["title"] == "it\u2019s"
