"""Every field is as feedparser reads it, or better: over our own feeds, and real ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.corpus import Corpus
from tests.feeds.against_feedparser import FIELDS, differences, feeds_in

KNOWN = {
    ("club-tags-rss20.xml", "summary"): "libxml2 drops a bare `<` when it recovers",
    ("observatory-atom10.xml", "link"): "a tag: id is no address of an article",
}

KNOWN_REAL = {
    ("InvalidDateFormat.xml", "feed"): "the answer was cut off",
    ("ep1_v4a.xml", "feed"): "one item is inside another",
    ("ep2_v4a.xml", "feed"): "one item is inside another",
    ("v4.xml", "feed"): "one item is inside another",
    ("v5.xml", "feed"): "one item is inside another",
    ("v6.xml", "feed"): "one item is inside another",
    ("atom_0.3.xml", "link"): "the link, not the id",
    ("resources__atom_0.3.xml", "link"): "the link, not the id",
    ("atom_0.3_DC_Sy.xml", "link"): "the link, not the id",
    ("atom_0.3_DC_Sy.xml", "author"): "Atom before Dublin Core",
    ("atom_0.3_DC_Sy.xml", "summary"): "Atom before Dublin Core",
    ("atom_0.3_DC_Sy.xml", "updated"): "Atom before Dublin Core",
    ("rss_1.0_DC_Sy.xml", "content"): "content:encoded before dc:description",
    ("rss_1.0_DC_multi.xml", "content"): "content:encoded before dc:description",
    ("rss_1.0_DC_multi.xml", "summary"): "RSS before Dublin Core",
    ("rss_1.0_DC_multi.xml", "rights"): "the first of several",
    ("rsr.xml", "author"): "RSS before iTunes",
    ("atp.rss", "author"): "RSS before iTunes",
    ("rss_0.92_alt.xml", "lengths"): "a length is a number",
    ("OneFootTsunami.atom", "link"): "an empty href is no address of an article",
}
"""What differs in real feeds, by file and field, and why."""


def test_each_field_is_as_feedparser_reads_it_or_better(corpus: Corpus) -> None:
    equal: Counter[str] = Counter()
    found = [
        one
        for file in feeds_in([corpus.folder("real-feeds")])
        for one in differences(file.name, file.read_bytes(), equal)
    ]
    known = KNOWN_REAL if corpus.is_real else KNOWN
    assert {(one.file, one.field) for one in found if not one.reason} == known.keys()
    if corpus.is_real:
        assert equal.keys() == FIELDS.keys()


@pytest.mark.slow
def test_snapshots_have_what_feedparser_finds(corpus: Corpus) -> None:
    """The first and the last snapshot of each feed; those between have the same items."""
    equal: Counter[str] = Counter()
    found = []
    for folder in sorted(corpus.folder("rss-sync-open").iterdir()):
        files = sorted(folder.glob("*.xml"))
        for file in {*files[:1], *files[-1:]}:
            found += [*differences(str(file), file.read_bytes(), equal)]
    # feedparser loses the beginning of a word in angle brackets when it resolves links.
    known = {("linuxgithub", "summary"), ("linuxgithub", "content")} if corpus.is_real else set()
    assert {(Path(one.file).parent.name, one.field) for one in found if not one.reason} == known
    assert equal["title"] > 0
