"""Lists of feeds in and out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.errors import FeedError
from feeds.formats import opml
from feeds.formats.opml import FeedOutline, read_list, write_opml
from tests.corpus import Corpus

NESTED = b"""<?xml version="1.0"?><opml version="2.0"><head><title>t</title></head><body>
<outline text="Tech &amp; Science">
  <outline text="Python"><outline type="rss" text="A" xmlUrl="http://a.example/" htmlUrl="http://h/"/></outline>
  <outline text="B" TITLE="Bee" xmlurl=" http://b.example/ " category="/News/Local,/daily"/>
</outline>
<outline text="C" type="rss" url="http://c.example/"/>
<outline text="no address"/>
<outline text="both" xmlUrl="http://d.example/"><outline xmlUrl="http://e.example/"/></outline>
</body></opml>"""


def test_folders_and_categories_are_tags() -> None:
    assert read_list(NESTED) == (
        FeedOutline("http://a.example/", "A", "http://h/", ("Tech & Science", "Python")),
        FeedOutline("http://b.example/", "Bee", "", ("Tech & Science", "News", "Local", "daily")),
        FeedOutline("http://c.example/", "C"),
        FeedOutline("", "no address"),
        FeedOutline("http://d.example/", "both"),
        FeedOutline("http://e.example/"),
    )


def test_a_plain_list_has_one_address_a_line() -> None:
    text = b"\xef\xbb\xbf# mine\nhttp://a.example/\n\n  https://b.example/ \nnot one\n"
    assert [o.url for o in read_list(text)] == [
        "http://a.example/",
        "https://b.example/",
        "not one",
    ]


def test_damaged_opml_is_mended() -> None:
    body = b"\n<opml><body><outline text='A & B&nbsp;C' xmlUrl='http://a/?x=1&y=2'/></body></opml>"
    assert read_list(body) == (FeedOutline("http://a/?x=1&y=2", "A & B C"),)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<rss version='2.0'/>", "not_a_list"),
        (b"nothing of the kind", "not_a_list"),
        (b"", "not_a_list"),
        (b"<opml><body>", "xml_syntax"),
        (b"<!DOCTYPE opml [<!ENTITY a 'b'>]><opml/>", "xml_entities"),
        (b"<opml><body>" + b"<outline text='a'>" * 300, "xml_depth"),
        (b"http://a/\n" * 1_000_001, "xml_size"),
        (b"\0\1\2", "xml_syntax"),
    ],
)
def test_what_is_no_list(body: bytes, code: str) -> None:
    with pytest.raises(FeedError) as caught:
        read_list(body)
    assert caught.value.reason_code == code


def test_a_list_that_is_too_long_is_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opml, "MAX_OUTLINES", 2)
    assert len(read_list(b"http://a/\nhttp://b/")) == 2
    with pytest.raises(FeedError, match="more than 2 feeds"):
        read_list(b"http://a/\nhttp://b/\nhttp://c/")


def test_what_is_written() -> None:
    written = write_opml([FeedOutline("http://a/?b&c", 'A "<b>"', "http://h/", ("t", "u"))], "mine")
    assert written.decode() == (
        "<?xml version='1.0' encoding='UTF-8'?>\n"
        '<opml version="2.0">\n  <head>\n    <title>mine</title>\n  </head>\n  <body>\n'
        '    <outline text="t" title="t">\n'
        '      <outline type="rss" text="A &quot;&lt;b&gt;&quot;" title="A &quot;&lt;b&gt;&quot;"'
        ' xmlUrl="http://a/?b&amp;c" htmlUrl="http://h/" category="/t,/u"/>\n'
        "    </outline>\n  </body>\n</opml>\n"
    )


WORDS = st.text("ab\u00eb<&\"' \x07", min_size=1, max_size=6)
TAGS = st.lists(st.text("abc-_.\u00eb", min_size=1, max_size=4), max_size=3, unique=True)


OPTIONS = st.tuples(st.sampled_from(["", "news", "\u00eb_2"]), st.sampled_from([0, 60, 86_400]))


@given(
    st.lists(
        st.tuples(st.integers(0, 99), WORDS, TAGS, OPTIONS), max_size=6, unique_by=lambda x: x[0]
    )
)
def test_what_is_written_reads_back_and_is_written_the_same(
    feeds: list[tuple[int, str, list[str], tuple[str, int]]],
) -> None:
    outlines = [
        FeedOutline(f"http://{n}.example/", title, "", tuple(tags), *own)
        for n, title, tags, own in feeds
    ]
    written = write_opml(outlines, "t")
    again = read_list(written)
    assert {(o.url, o.tags, o.stream, o.every) for o in again} == {
        (o.url, o.tags, o.stream, o.every) for o in outlines
    }
    assert write_opml(again, "t") == written


def test_lists_as_programs_write_them(corpus: Corpus) -> None:
    files = sorted(corpus.folder("opml").rglob("*.opml"))
    found = {file: read_list(file.read_bytes()) for file in files}
    assert len(files) > (100 if corpus.is_real else 1)
    assert sum(map(len, found.values())) > (1_500 if corpus.is_real else 7)
    for outlines in found.values():
        whole = [outline for outline in outlines if outline.url]
        assert len(whole) >= len(outlines) * (0.9 if corpus.is_real else 0.8)
        assert {o.url for o in read_list(write_opml(whole, "t"))} == {o.url for o in whole}
