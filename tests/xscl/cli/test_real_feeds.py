"""Real feeds through `xscl run`: the matches are those that plain Python finds in the items."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from typer.testing import Result

from feeds.documents import Document
from feeds.files import files
from tests.corpus import Corpus
from tests.xscl.commandline import called
from xscl.cli.document_inputs import instant

AT = "2026-06-01"
"""When everything was seen: after all of the feeds were written."""

DAY = 86_400_000_000
SAME_TITLE = (
    "feeds//item->a[./title->t1][./channel_url->c1]"
    " JOIN{t1=t2 AND c1!=c2, 30 d}"
    " feeds//item->b[./title->t2][./channel_url->c2]"
)


@dataclass(frozen=True)
class Seen:
    """The parts of an item that the query reads."""

    id: str
    time: int
    title: str
    channel: str


def run(*arguments: str) -> Result:
    done = called("run", "--at", AT, "--json", *arguments)
    assert done.exit_code == 0, done.stderr
    return done


def pairs_found(done: Result) -> Counter[tuple[str, str]]:
    rows = map(json.loads, done.stdout.splitlines())
    return Counter((row["documents"][0], row["documents"][1]) for row in rows)


def seen(paths: Iterable[Path]) -> Iterator[Seen]:
    """The items of the files in the order of time and id, each id once: later ones are versions."""
    read = (each for path in paths for each in files.read(path, streams="feeds", at=instant(AT)))
    documents = [each for each in read if isinstance(each, Document)]
    known: set[str] = set()
    for document in sorted(documents, key=lambda d: (d.timestamp, d.id)):
        if document.id in known:
            continue
        known.add(document.id)
        item = ElementTree.fromstring(document.xml)
        title, channel = item.findtext("title"), item.findtext("channel_url")
        if item.tag == "item" and title is not None and channel is not None:
            yield Seen(document.id, document.timestamp, title, channel)


def pairs_expected(items: Iterable[Seen]) -> Counter[tuple[str, str]]:
    by_title: dict[str, list[Seen]] = {}
    for item in items:
        by_title.setdefault(item.title, []).append(item)
    return Counter(
        (one.id, two.id)
        for equal in by_title.values()
        for one in equal
        for two in equal
        if one.channel != two.channel and abs(one.time - two.time) <= 30 * DAY
    )


def test_same_title_in_two_feeds(corpus: Corpus) -> None:
    inputs = [corpus.folder(name) for name in ("real-feeds", "rss-sync-open")]
    done = run("-q", SAME_TITLE, *map(str, inputs))
    expected = pairs_expected(seen(inputs))
    assert pairs_found(done) == expected
    assert len(expected) > (100 if corpus.is_real else 28)
    feeds = {name.partition("#")[0] for pair in expected for name in pair}
    assert len(feeds) >= (6 if corpus.is_real else 3)  # not only the two forms of one feed


def test_snapshots_of_a_feed_are_one_feed(corpus: Corpus) -> None:
    """Two forms of the same news, day by day: every item meets its other form, once."""
    names = ("w3atom", "w3rss") if corpus.is_real else ("courier-atom", "courier-rss")
    inputs = [corpus.folder("rss-sync-open") / name for name in names]
    done = run("-q", SAME_TITLE, *map(str, inputs))
    found = pairs_found(done)
    assert found == pairs_expected(seen(inputs))
    assert set(found.values()) == {1}
    assert {(two, one) for one, two in found} == set(found)


def test_every_feed_is_read(corpus: Corpus) -> None:
    """All items of all feeds arrive; what is no feed is said to be none, file by file."""
    folder = corpus.folder("real-feeds")
    done = run("-q", "feeds//*->x", str(folder))
    read = {json.loads(line)["documents"][0] for line in done.stdout.splitlines()}
    documents = list(files.read(folder, streams="feeds", at=instant(AT)))
    assert read == {each.id for each in documents if isinstance(each, Document)}
    rejected = [each for each in documents if not isinstance(each, Document)]
    assert done.stderr.count("xscl: not read: ") == len(rejected)
    assert len(documents) - len(rejected) > (1_800 if corpus.is_real else 20)
    # Several of the real files are forms of one feed and share their items.
    assert len(read) > (1_400 if corpus.is_real else 20)
