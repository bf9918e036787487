"""An item is one item, whatever stands beside it in this answer or another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from feeds.formats.parse import parse_feed
from tests.examples import examples
from tests.xscl.polling.scripted import HOUR, placed, reply, serving
from xscl.polling.feed import Feed
from xscl.polling.new_items import ItemVersion, new_items

FEED = Feed("http://a.example/", key="k", stream="s", tags=(), every=60, added=0, polls=1)


@dataclass(frozen=True)
class Logical:
    """One item of a publisher: `key` is in its content and never changes."""

    key: str
    guid: str = ""
    link: str = ""
    file: str = ""
    edit: int = 0

    @property
    def xml(self) -> str:
        guid = f"<guid>{self.guid}</guid>" if self.guid else ""
        link = f"<link>http://a.example/{self.link}</link>" if self.link else ""
        file = f'<enclosure url="http://a.example/{self.file}"/>' if self.file else ""
        return f"<item>{guid}{link}{file}<title>{self.key} {self.edit}</title></item>"


def body(items: list[Logical]) -> bytes:
    inner = "".join(item.xml for item in items)
    return f'<rss version="2.0"><channel><title>S</title>{inner}</channel></rss>'.encode()


def come(answers: list[list[Logical]]) -> list[tuple[str, str]]:
    """The documents that answers bring: key of the item and id, in their order."""
    seen: dict[str, ItemVersion] = {}
    found = []
    for now, answer in enumerate(answers):
        new = new_items(FEED, parse_feed(body(answer), seen_at=now).items, seen, now)
        seen |= dict(new.items)
        for document in new.documents:
            title = document.xml.decode().partition("<title>")[2]
            found.append((title.split()[0], document.id))
    return found


A, B, C = (Logical(key, "g1", key) for key in "ABC")


@st.composite
def histories(draw: st.DrawFn, *, edits: bool) -> list[list[Logical]]:
    """Answers in which guids, links and files are shared, and an item may be there twice.

    An item comes first beside all that came before it and could be taken for it: else nobody
    could tell it from a new version of one of these.  With edits no two items share all names.
    """
    number = draw(st.integers(2, 7))
    few = st.sampled_from(("", "x", "y"))
    logical = [
        Logical(f"i{at}", draw(few), f"l{at}" if edits else draw(few), "" if edits else draw(few))
        for at in range(number)
    ]
    if edits:
        logical = [replace(one, guid=one.guid or "x") for one in logical]
    answers, present = [], 0
    for _ in range(draw(st.integers(2, 8))):
        coming = draw(st.integers(0, 2))
        shown = set(draw(st.sets(st.sampled_from(logical[:present])))) if present else set()
        if coming and present < number:
            shown = set(logical[: present + coming])
            present = min(number, present + coming)
        if edits:
            for at in range(present):
                if logical[at] in shown and draw(st.booleans()):
                    shown.remove(logical[at])
                    logical[at] = replace(logical[at], edit=logical[at].edit + 1)
                    shown.add(logical[at])
        listed = sorted(shown, key=lambda one: one.key)
        again = draw(st.lists(st.sampled_from(listed), max_size=1)) if listed else []
        answers.append(draw(st.permutations([*listed, *again])))
    return answers


@examples(60)
@given(histories(edits=False))
def test_each_item_comes_once_whatever_it_shares_with_others(answers: list[list[Logical]]) -> None:
    found = come(answers)
    shown = {item.key for answer in answers for item in answer}
    assert sorted(key for key, _ in found) == sorted(shown)
    assert len({name for _, name in found}) == len(shown)


@examples(60)
@given(histories(edits=True))
def test_edits_are_versions_of_their_items(answers: list[list[Logical]]) -> None:
    found = come(answers)
    pairs = set(found)
    assert len({key for key, _ in pairs}) == len(pairs) == len({name for _, name in pairs})
    shown = [(item.key, item.edit) for answer in answers for item in answer]
    assert len(found) == len(set(shown))


def test_f8_an_item_is_new_alone_if_several_had_its_link() -> None:
    a, b, c = (Logical(key, link="site") for key in "ABC")
    found = come([[a], [a, b], [b], [c], [c, a, b]])
    assert [key for key, _ in found] == ["A", "B", "C"]
    assert len({name for _, name in found}) == 3


def test_f8_what_is_known_of_names_outlives_a_restart(tmp_path: Path) -> None:
    with serving() as server:
        answers = [[A], [replace(A, edit=1), B], [C], [B], [replace(A, edit=1), C]]
        server.says("/f", *(reply(body(answer)) for answer in answers))
        for number in range(len(answers)):
            with placed(tmp_path, server) as place:
                if not number:
                    place.follow(server.url("/f"))
                place.clock.now += HOUR * number
                place.poll()
                titles = sorted(place.titles(next(iter(place.feeds))))
                identities = {one.id.partition("#")[2] for one in place.documents()}
        assert titles == ["A 0", "A 1", "B 0", "C 0"]
        assert len(identities) == 3
