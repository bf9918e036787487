"""A month of real feeds, day by day through a server: every item once, edits as versions."""

from __future__ import annotations

import csv
import importlib.util
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.corpus import Corpus
from tests.xscl.polling.scripted import Place, Server, placed, reply, serving
from xscl.ingestion.pipeline import Consumer
from xscl.polling.feed import Feed, tag_name
from xscl.subscriptions.matches import Matches

SAME_NEWS = (
    "{}//item->a[./title->t][./item_url->l] JOIN{{t=u AND l=m, 60 d}}"
    " {}//item->b[./title->u][./item_url->m]"
)
"""Joins the two forms in which a publisher has the same news."""

FIRST = ("w3atom", "w3rss", "zenhabits", "1sttimemomdad", "courier-atom", "courier-rss")
"""The feeds to begin with, real ones and our own; the first two of each are forms of one."""


@dataclass
class Month:
    """The results of a replay: matches in order, items and versions by feed, all documents."""

    matches: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    listed: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    documents: list[tuple[str, bytes]] = field(default_factory=list)


def snapshots(corpus: Path, names: Iterable[str]) -> list[tuple[datetime, Path]]:
    """All snapshots of the feeds in the order in which they were taken."""
    files = (file for name in names for file in (corpus / name).glob("*.xml"))
    taken = ((datetime.strptime(file.stem, "%Y%m%dT%H%M%S"), file) for file in files)
    return sorted((time.replace(tzinfo=UTC), file) for time, file in taken)


Listen = Callable[[Matches], None]


def directly(place: Place, listen: Listen) -> Consumer:
    return Consumer(place.spool, place.engine.ingest, on_matches=listen)


def through_executors(place: Place, listen: Listen) -> Consumer:
    from tests.xscl.spark.bucket_executors import BucketExecutors

    executors = BucketExecutors(place.engine, place.spool.directory.parent / "spark", buckets=2)
    return Consumer(place.spool, place.engine.ingest, executors=executors, on_matches=listen)


def replay(
    directory: Path,
    server: Server,
    corpus: Path,
    names: Iterable[str],
    at_once: int,
    consuming: Callable[[Place, Listen], Consumer] = directly,
) -> Month:
    """Poll each snapshot at its time; the place is closed and opened after so many."""
    month, feeds, todo = Month(), dict[str, Feed](), snapshots(corpus, names)
    directory.mkdir()

    def listen(matches: Matches) -> None:
        month.matches += [(match.id, match.documents) for match in matches]

    for start in range(0, len(todo), at_once):
        with placed(directory, server) as place:
            if not feeds:
                for name in names:
                    url = server.url(f"/{name}")
                    feeds[name] = place.follow(url, stream=tag_name(name))
                place.engine.subscribe("same", SAME_NEWS.format(*map(tag_name, [*names][:2])))
            consumer = consuming(place, listen)
            for time, file in todo[start : start + at_once]:
                name = file.parent.name
                server.says(f"/{name}", reply(file.read_bytes(), f'ETag: "{file.stem}"'))
                place.clock.now = int(time.timestamp()) * 1_000_000
                place.poll(feeds[name])
                consumer.run_once()
            rows = {name: place.listed(feed) for name, feed in feeds.items()}
            month.listed = {n: (r["state"], r["items"], r["versions"]) for n, r in rows.items()}
            if start + at_once >= len(todo):
                month.documents = [(d.id.partition("-")[2], d.xml) for d in place.documents()]
    return month


@pytest.mark.parametrize(
    ("is_real", "feeds", "at_once"),
    [
        (False, 2, 5),
        pytest.param(True, 4, 9, marks=pytest.mark.slow),
        pytest.param(True, 8, 9, marks=pytest.mark.slow),
    ],
)
def test_a_month_in_one_run_and_with_restarts_is_the_same(
    tmp_path: Path, is_real: bool, feeds: int, at_once: int
) -> None:
    corpus = Corpus(is_real).folder("rss-sync-open")
    with (corpus / "FEEDS.tsv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t"))
    rows.sort(key=lambda row: [*FIRST, row["feed"]].index(row["feed"]))
    expected = {row["feed"]: row for row in rows[:feeds]}
    with serving() as server:
        whole = replay(tmp_path / "whole", server, corpus, expected, 1_000)
        cut = replay(tmp_path / "cut", server, corpus, expected, at_once)
        if importlib.util.find_spec("pyspark") is not None:
            through = (corpus, expected, at_once, through_executors)
            assert replay(tmp_path / "executors", server, *through) == whole
    assert cut == whole
    for name, row in expected.items():
        state, items, versions = whole.listed[name]
        assert (state, items) == ("ok", int(row["unique_items"])), name
        assert versions >= items + (int(row["edited_between_polls"]) > 0), name
    assert len(whole.documents) == sum(versions for _, _, versions in whole.listed.values())
    assert len({identity for identity, _ in whole.documents}) == sum(
        items for _, items, _ in whole.listed.values()
    )
    assert len(set(whole.matches)) == len(whole.matches) > (30 if is_real else 13)
    together = Counter(documents for _, documents in whole.matches)
    assert set(together.values()) == {1}
