"""Rules of hashes and identities: what an earlier release remembers is neither new nor changed."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from feeds.formats.items import FeedItem
from feeds.formats.parse import parse_feed
from tests.corpus import OWN
from xscl.polling.feed import Feed
from xscl.polling.new_items import ItemVersion, item_hash, new_items

SEEN = 1_790_000_000_000_000
FEED = Feed("_7.example.org-0123456789", "http://example.org/f", "s", (), 60, 0, polls=1)


def remembered(rule: int) -> dict[str, dict[str, ItemVersion]]:
    """The items of our feeds by file and identity, as the last release with a rule wrote them."""
    found: dict[str, dict[str, ItemVersion]] = {}
    with (OWN / "remembered" / f"rule-{rule}.tsv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            found.setdefault(row["file"], {})[row["identity"]] = ItemVersion(
                bytes.fromhex(row["hash"]),
                versions=1,
                rule=row["rule"],
                first_name=int(row["first_name"]),
                all_names=int(row["all_names"]),
            )
    return found


REMEMBERED = remembered(1)
BY_RULE_2 = remembered(2)


def items(file: str, *, seen_at: int = SEEN + 60) -> tuple[FeedItem, ...]:
    body = (OWN / (file if "/" in file else f"feeds/{file}")).read_bytes()
    return parse_feed(body, url="http://example.org/f", seen_at=seen_at).items


@pytest.mark.parametrize(
    ("file", "seen"), [*REMEMBERED.items(), *BY_RULE_2.items()], ids=lambda one: str(one)[:30]
)
def test_what_a_release_before_remembers_is_neither_new_nor_changed(
    file: str, seen: dict[str, ItemVersion]
) -> None:
    first = new_items(FEED, items(file), seen, 2)
    rewritten = dict(first.items)
    assert first.documents == ()
    assert rewritten.keys() == seen.keys()
    assert {len(row.hash) for row in rewritten.values()} == {17}
    assert {n: replace(r, hash=seen[n].hash, alike=None) for n, r in rewritten.items()} == {
        name: replace(row, first_name=rewritten[name].first_name) for name, row in seen.items()
    }
    assert new_items(FEED, items(file), rewritten, 3).items == ()


def test_there_are_items_of_every_rule_of_identity() -> None:
    rules = {row.rule for rows in REMEMBERED.values() for row in rows.values()}
    assert rules == {"guid", "link", "enclosure", "hash"}


def test_what_has_changed_since_the_release_before_is_a_new_version() -> None:
    file = "town-rss20.xml"
    first, *_ = items(file)
    seen = REMEMBERED[file] | {
        first.identity: replace(REMEMBERED[file][first.identity], hash=bytes(16))
    }
    found = new_items(FEED, items(file), seen, 2)
    assert [document.id for document in found.documents] == [f"{FEED.key}#{first.identity}"]
    assert dict(found.items)[first.identity].versions == 2


def test_a_document_has_the_key_of_its_feed_and_the_hash_of_its_item() -> None:
    found = new_items(FEED, items("town-rss20.xml"), {}, 1)
    memory = dict(found.items)
    for document in found.documents:
        assert document.xml.count(b"<feed>example.org-0123456789</feed>") == 1
        assert item_hash(document.xml) == memory[document.id.partition("#")[2]].hash


def test_a_document_of_rule_1_in_the_spool_has_the_hash_of_rule_1() -> None:
    """Segments that the release before appended, and was killed before it recorded them."""
    file = "harbour-rss091.xml"
    for item in items(file):
        document = item.content_by_rule_1().replace(b"</item>", b"<seen_at>x</seen_at></item>")
        assert item_hash(document) == REMEMBERED[file][item.identity].hash


def feed_of(title: str, description: str = "d", more: str = "") -> bytes:
    item = f"<item>{more}<title>{title}</title><description>{description}</description></item>"
    return f"<rss><channel>{item}</channel></rss>".encode()


@pytest.mark.parametrize("more", ["<guid>1</guid>", ""])
def test_layout_is_no_new_version_and_no_new_item(more: str) -> None:
    """White space at the ends of texts, more of it between words, and beside tags of HTML."""
    plain = feed_of("Ferry stops", "&lt;p>It is &lt;b>late&lt;/b>.&lt;/p>", more)
    laid_out = feed_of(
        "\n   Ferry\n   stops\n", "\n  &lt;p>It is &lt;b>late&lt;/b>.&lt;/p>\n", more
    )
    first = new_items(FEED, parse_feed(plain, seen_at=SEEN).items, {}, 1)
    again = new_items(FEED, parse_feed(laid_out, seen_at=SEEN).items, dict(first.items), 2)
    assert len(first.documents) == 1
    assert (again.documents, again.items) == ((), ())


@pytest.mark.parametrize("title", ["Ferry stop", "Ferrystops", "Ferry stops."])
def test_another_word_is_a_new_version(title: str) -> None:
    bodies = (feed_of(each, more="<guid>1</guid>") for each in ("Ferry stops", title))
    one, other = (parse_feed(body, seen_at=SEEN).items for body in bodies)
    seen = dict(new_items(FEED, one, {}, 1).items)
    assert len(new_items(FEED, other, seen, 2).documents) == 1


def test_indented_markup_is_no_new_version() -> None:
    body = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>1</id><content type="xhtml">'
        '<div xmlns="http://www.w3.org/1999/xhtml"><p>a</p><p>b</p></div></content></entry></feed>'
    )
    indented = body.replace("><p", ">\n   <p").replace("</p></", "</p>\n  </")
    one, other = (parse_feed(each.encode(), seen_at=SEEN).items for each in (body, indented))
    seen = dict(new_items(FEED, one, {}, 1).items)
    assert new_items(FEED, other, seen, 2).documents == ()
