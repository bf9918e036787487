"""Identity resolution: the item that an entry of a feed belongs to.

Candidate names of an entry within one feed, the best first:

    guid           its guid or atom:id
    guid+link      both
    link           its link, if it has no guid
    enclosure      the address of its first enclosure
    guid+place     guid and link, and a number, if entries of one answer share these
    hash           the hash of its content, if it has no guid

A new item is called by the first of these that no other item has, as far as the answer and what is
remembered of earlier ones tell.  The name stays, with the rule that gave it, whatever stands beside
the item later; entries with equal content are one item.

An entry is an item that is remembered, if this is sure: by its name and equal content; else by its
place among the entries that share its guid; else by all its names but the hash; else by the item's
own name, if nothing else in the answer and no other item may be meant by it.  If most entries of an
answer have unknown guids, but link and title of an item of the last answer, the publisher writes
guids otherwise: they are these items.  Ambiguous cases:

- a new item with another's guid (or link, if there are no guids) that comes while the other is not
  in the answer: it is taken for a new version of the other;
- entries that share guid and link are told apart by content and order: if all of more than three
  are edited at once, they are new items;
- entries without guid that share all their names: each is called by its hash, and an edit makes it
  a new item.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal, TypeAlias

from feeds.formats.entries import BLANKS, FeedEntry, plain
from feeds.formats.mend import allowed

IdentityRule: TypeAlias = Literal["guid", "guid+link", "guid+place", "link", "enclosure", "hash"]

LONGEST_IDENTITY = 1_000
"""A longer identity is replaced by its hash."""

MOST_COMPARED = 10_000
"""The most comparisons, for one answer, of entries with items that have their guid and link."""

UNANCHORED = 3
"""The most entries with one guid and link that are told apart if all of them have changed."""

LEAST_ALIKE = 3
"""The fewest entries with a new guid but a known link and title that show a change of guids."""


@dataclass(frozen=True, slots=True)
class CandidateNames:
    """The candidate names of an entry, distinct, the best first and the hash last.

    `first_name` and `all_names` are 64-bit hashes of the first name, and of all but the last;
    `alike` is that of link and title, None if one of them is missing.
    """

    called: dict[str, IdentityRule]
    content_hash: str
    first_name: int
    all_names: int
    alike: int | None

    @property
    def shared(self) -> str:
        """The name, guid or guid and link, to which entries that share it add a place; '' without a
        guid.
        """
        guids = [name for name, rule in self.called.items() if rule in ("guid", "guid+link")]
        return guids[-1] if guids else ""

    def rule_of(self, identity: str) -> IdentityRule:
        """Return the rule that made an identity; "guid+place" or "guid" if it is no name of this
        entry.
        """
        return self.called.get(identity) or ("guid+place" if _place(identity) else "guid")


@dataclass(frozen=True, slots=True)
class KnownItem:
    """A remembered item; the three numbers are those of its latest entry (`CandidateNames`), if
    known.

    `rule` made its identity.  `missing_since` is the time in microseconds of the first answer
    without the item; None if it is in the last answer.
    """

    rule: str | None = field(default=None, compare=False)
    missing_since: int | None = None
    first_name: int | None = None
    all_names: int | None = None
    alike: int | None = None


def names_of(entry: FeedEntry) -> CandidateNames:
    """Return the candidate names of the entry."""
    guid, link = _clean(entry.guid), _clean(entry.link)
    file = _clean(entry.enclosures[0].url) if entry.enclosures else ""
    content = _content_hash(entry)
    candidates: tuple[tuple[str, IdentityRule], ...] = (
        (guid, "guid"),
        (f"{guid} {link}" if guid and link else "", "guid+link"),
        ("" if guid else link, "link"),
        (file, "enclosure"),
        (f"sha256:{content}", "hash"),
    )
    called: dict[str, IdentityRule] = {}
    for name, rule in candidates:
        if name:
            called.setdefault(name if len(name) <= LONGEST_IDENTITY else content_id(name), rule)
    first = next(iter(called))
    return CandidateNames(
        called,
        content,
        _number(first),
        _number(f"{guid}\0{link}\0{file}"),
        _alike(link, _clean(entry.title)),
    )


def _alike(link: str, title: str) -> int | None:
    """Return a 64-bit hash of a link without its scheme, and a title; None if one is empty."""
    place = link.partition("://")[2].removeprefix("www.").rstrip("/")
    return _number(f"{place}\0{' '.join(title.split())}") if place and title else None


def identify(
    entries: Sequence[CandidateNames],
    known: Mapping[str, KnownItem],
    same: Callable[[int, str], bool],
) -> list[str]:
    """The identity of each entry of an answer, one of its names; `known` are items by identity.

    `same` takes the index of an entry and an identity, and returns True if the entry has the
    remembered content of that item.  The time is linear in entries and items together.
    """
    places: dict[str, int] = {}
    for at, names in enumerate(entries):
        places.setdefault(names.content_hash, at)
    answer = _Answer({at: entries[at] for at in places.values()}, known)
    sharing = _sharing(known)
    answer.find(_by_content(known, sharing, same))
    if known and answer.is_open():
        answer.find(answer.by_place(sharing))
        answer.find(answer.by_all_names())
        answer.find(answer.by_one_name())
        answer.find(answer.by_link_and_title())
    if answer.is_open():
        answer.call_the_rest()
    return [answer.found[places[names.content_hash]] for names in entries]


_Find: TypeAlias = Callable[[int, CandidateNames], Iterable[str]]


def _by_content(
    known: Mapping[str, KnownItem],
    sharing: Mapping[int, Sequence[str]],
    same: Callable[[int, str], bool],
) -> _Find:
    """Return a finder of the item with equal content, and a name or all names of the entry."""
    rest = {all_names: list(names) for all_names, names in sharing.items()}
    left = MOST_COMPARED

    def candidates(at: int, names: CandidateNames) -> Iterator[str]:
        nonlocal left
        yield from (name for name in names.called if name in known and same(at, name))
        others = rest.get(names.all_names, [])
        for name in others[: max(0, left)]:
            left -= 1
            if same(at, name):
                others.remove(name)
                yield name

    return candidates


def _sharing(known: Mapping[str, KnownItem]) -> dict[int, list[str]]:
    """Return the identities of items that share guid and link, by `all_names`.

    Items of the last answer come first, and among them those with the highest place.
    """
    groups = {item.all_names for item in known.values() if item.rule == "guid+place"}
    found: dict[int, list[str]] = {}
    for name, item in known.items():
        if item.all_names in groups and item.all_names is not None and item.rule != "hash":
            found.setdefault(item.all_names, []).append(name)
    for names in found.values():
        names.sort(key=lambda name: (known[name].missing_since is not None, -_place(name)))
    return found


def _between(
    group: Sequence[int], places: Mapping[int, int], free: Sequence[str], found: Container[int]
) -> dict[int, str]:
    """Return the free item of each entry without identity whose place fits between its neighbours'.

    `group` has the indexes of entries, the oldest first, `places` the places of those with an
    identity, by index.  `free` are identities, that with the highest place first.
    """
    above: list[float] = [inf]
    for at in reversed(group):
        above.append(min(above[-1], places.get(at, inf)))
    above.reverse()
    meant: dict[int, str] = {}
    below, rest = -1, list(free)
    for number, at in enumerate(group):
        below = max(below, places.get(at, -1))
        while rest and _place(rest[-1]) <= below:
            rest.pop()
        if at not in found and rest and _place(rest[-1]) < above[number]:
            meant[at] = rest.pop()
            below = _place(meant[at])
    return meant


@dataclass(frozen=True, slots=True)
class _Answer:
    """Entries of different content by index in the answer; `found` are identities so far."""

    entries: Mapping[int, CandidateNames]
    known: Mapping[str, KnownItem]
    found: dict[int, str] = field(default_factory=dict)

    def find(self, candidates: _Find) -> None:
        """Give each entry without identity its first candidate that is a known item's, if any."""
        taken = set(self.found.values())
        for at, names in self._open():
            for name in candidates(at, names):
                if name in self.known and name not in taken:
                    self.found[at] = name
                    taken.add(name)
                    break

    def by_place(self, sharing: Mapping[int, Sequence[str]]) -> _Find:
        """Return a finder of the item whose place is between those of the neighbouring entries.

        Feeds begin with the newest entry, and the newest has the highest place.
        """
        meant: dict[int, str] = {}
        groups: dict[int, list[int]] = {}
        for at in sorted(self.entries, reverse=True):
            groups.setdefault(self.entries[at].all_names, []).append(at)
        taken = set(self.found.values())
        for all_names in groups.keys() & sharing.keys():
            group, items = groups[all_names], sharing[all_names]
            places = {
                at: _place(self.found[at])
                for at in group
                if at in self.found and self.known[self.found[at]].rule != "hash"
            }
            if places or len(group) <= UNANCHORED:
                free = [
                    name
                    for name in items
                    if name not in taken and self.known[name].missing_since is None
                ]
                meant |= _between(group, places, free, self.found)
        return lambda at, names: (meant[at],) if at in meant else ()

    def by_link_and_title(self) -> _Find:
        """Return a finder by link and title in the last answer, if most guids are unknown."""
        items: dict[int, list[str]] = {}
        taken = set(self.found.values())
        for name, item in self.known.items():
            if item.alike is not None and item.missing_since is None and name not in taken:
                items.setdefault(item.alike, []).append(name)
        entries = Counter(names.alike for names in self.entries.values())
        meant = {
            at: items[names.alike][0]
            for at, names in self._open()
            if names.alike is not None
            and names.shared
            and entries[names.alike] == 1
            and len(items.get(names.alike, ())) == 1
        }
        wholesale = len(meant) >= LEAST_ALIKE and 2 * len(meant) > len(self.entries)
        return lambda at, names: (meant[at],) if wholesale and at in meant else ()

    def by_all_names(self) -> _Find:
        """Return a finder by `all_names`, if only one item and one open entry have these."""
        items = Counter(item.all_names for item in self.known.values())
        only = {
            item.all_names: name
            for name, item in self.known.items()
            if items[item.all_names] == 1 and item.rule != "hash"
        }
        entries = Counter(names.all_names for _, names in self._open())

        def candidates(at: int, names: CandidateNames) -> Iterable[str]:
            name = only.get(names.all_names)
            return (name,) if name is not None and entries[names.all_names] == 1 else ()

        return candidates

    def by_one_name(self) -> _Find:
        """Return a finder by a name that is unique among items and entries."""
        entries = Counter(name for _, names in self._open() for name in names.called)
        shared = self._firsts()
        renamed = {
            item.first_name: name
            for name, item in self.known.items()
            if item.rule == "guid" and item.first_name not in (None, _number(name))
        }

        def candidates(at: int, names: CandidateNames) -> Iterable[str]:
            first, *_ = names.called
            for name in reversed(names.called):
                if entries[name] > 1 or (name == first and shared[names.first_name] > 1):
                    continue
                if name in self.known and self.known[name].first_name in (None, names.first_name):
                    yield name
                if name == first and names.first_name in renamed:
                    yield renamed[names.first_name]

        return candidates

    def call_the_rest(self) -> None:
        """Give each entry without identity, a new item, the first of its names that is free."""
        entries = Counter(name for names in self.entries.values() for name in names.called)
        firsts = self._firsts()
        highest: dict[str, int] = {}
        for name, item in self.known.items():
            if item.rule == "guid+place":
                shared = name.rpartition(_PLACE)[0]
                highest[shared] = max(_place(name), highest.get(shared, 0))
        for at, names in reversed(self._open()):
            *others, last = names.called
            free = [name for name in others if entries[name] == 1 and name not in self.known]
            if firsts[names.first_name]:
                free = [name for name in free if name != others[0]]
            if not free and names.shared:
                highest[names.shared] = highest.get(names.shared, 0) + 1
                last = f"{names.shared}{_PLACE}{highest[names.shared]}"
            self.found[at] = free[0] if free else last

    def is_open(self) -> bool:
        """Return True if an entry has no identity yet."""
        return len(self.found) < len(self.entries)

    def _open(self) -> list[tuple[int, CandidateNames]]:
        """The entries without identity."""
        return [(at, names) for at, names in self.entries.items() if at not in self.found]

    def _firsts(self) -> Counter[int | None]:
        """Return the number of known items by `first_name`."""
        return Counter(item.first_name for item in self.known.values())


# --- names ---

_PLACE = " #"


def _place(name: str) -> int:
    """The number at the end of a name that tells entries with one guid apart, or 0."""
    digits = name.rpartition(_PLACE)[2] if _PLACE in name else ""
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else 0


def _clean(text: str | None) -> str:
    return allowed(text).strip() if text else ""


def _number(name: str) -> int:
    """Return a 64-bit hash of a name, a signed number."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def content_id(text: str) -> str:
    """A name of fixed length for a text that is too long to be one."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _content_hash(entry: FeedEntry) -> str:
    """The hexadecimal SHA-256 over what the publisher wrote, without dates and layout."""
    texts = [
        ("guid", entry.guid),
        ("item_url", entry.link),
        ("title", plain(entry.title or "")),
        ("description", (entry.description or "").strip(BLANKS)),
        ("content", (entry.content or "").strip(BLANKS)),
        *[("author", plain(name)) for name in entry.authors],
        *[("category", plain(each.term)) for each in entry.categories],
    ]
    written = [f"{name}\0{len(value)}\0{value}" for name, value in texts if value]
    written += (f"enclosure\0{each.url}\0{each.type}\0" for each in entry.enclosures)
    return hashlib.sha256("".join(written).encode("utf-8", "surrogatepass")).hexdigest()
