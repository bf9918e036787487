"""Identity resolution: the item that an entry of a feed belongs to.

Candidate names of an entry within one feed, the best first:

    guid           its guid or atom:id
    guid+link      both
    link           its link, if it has no guid
    enclosure      the address of its first enclosure
    hash           the hash of its content

A new item is called by the first of these that no other item has, as far as the answer and what is
remembered of earlier ones tell.  The name stays, with the rule that gave it, whatever stands beside
the item later; entries with equal content are one item.

An entry is an item that is remembered, if this is sure: by its name and equal content; else by all
its names but the hash; else by the item's own name, if nothing else in the answer and no other item
may be meant by it.  Ambiguous cases:

- a new item with another's guid (or link, if there are no guids) that comes while the other is not
  in the answer: it is taken for a new version of the other;
- items that share all their names: each is called by its hash, and an edit makes it a new item.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from feeds.formats.entries import FeedEntry
from feeds.formats.ladder import FORBIDDEN

Rule: TypeAlias = Literal["guid", "guid+link", "link", "enclosure", "hash"]

LONGEST_IDENTITY = 1_000
"""A longer identity is replaced by its hash."""


@dataclass(frozen=True, slots=True)
class CandidateNames:
    """The candidate names of an entry, distinct, the best first and the hash last.

    `first_name` and `all_names` are 64 bits that stand for the first, and for all but the hash.
    """

    called: dict[str, Rule]
    content_hash: str
    first_name: int
    all_names: int


class KnownItem(Protocol):
    """A remembered item; the two numbers are those of its latest entry, if known."""

    @property
    def rule(self) -> str | None: ...
    @property
    def first_name(self) -> int | None: ...
    @property
    def all_names(self) -> int | None: ...


def names_of(entry: FeedEntry) -> CandidateNames:
    """Return the candidate names of the entry."""
    guid, link = _clean(entry.guid), _clean(entry.link)
    file = _clean(entry.enclosures[0].url) if entry.enclosures else ""
    content = content_hash(entry)
    candidates: tuple[tuple[str, Rule], ...] = (
        (guid, "guid"),
        (f"{guid} {link}" if guid and link else "", "guid+link"),
        ("" if guid else link, "link"),
        (file, "enclosure"),
        (f"sha256:{content}", "hash"),
    )
    called: dict[str, Rule] = {}
    for name, rule in candidates:
        if name:
            called.setdefault(_short(name), rule)
    first = next(iter(called))
    return CandidateNames(called, content, _number(first), _number(f"{guid}\0{link}\0{file}"))


def identify(
    entries: Sequence[CandidateNames],
    known: Mapping[str, KnownItem],
    same: Callable[[int, str], bool],
) -> list[str]:
    """The identity of each entry of an answer, one of its names; `known` are items by identity.

    `same` tells whether the entry at a place has the content that is remembered of an item.  Takes
    time in proportion to entries and items together.
    """
    places: dict[str, int] = {}
    for at, names in enumerate(entries):
        places.setdefault(names.content_hash, at)
    answer = _Answer({at: entries[at] for at in places.values()}, known)
    answer.find(lambda at, names: (n for n in names.called if n in known and same(at, n)))
    if known and answer.is_open():
        answer.find(answer.by_all_names())
        answer.find(answer.by_one_name())
    if answer.is_open():
        answer.call_the_rest()
    return [answer.found[places[names.content_hash]] for names in entries]


_Find: TypeAlias = Callable[[int, CandidateNames], Iterable[str]]


@dataclass(frozen=True, slots=True)
class _Answer:
    """Entries by their places, of different content; `found` are the identities of some."""

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

    def by_all_names(self) -> _Find:
        """Return a finder of the only item that has all names of the only entry that has them."""
        items = Counter(item.all_names for item in self.known.values())
        only = {
            item.all_names: name
            for name, item in self.known.items()
            if items[item.all_names] == 1 and item.rule != "hash"
        }
        entries = Counter(names.all_names for _, names in self._open())

        def candidates(at: int, names: CandidateNames) -> Iterable[str]:
            name = only.get(names.all_names)
            return (name,) if name in names.called and entries[names.all_names] == 1 else ()

        return candidates

    def by_one_name(self) -> _Find:
        """Return a finder by a name that is unique among items and entries."""
        entries = Counter(name for _, names in self._open() for name in names.called)
        shared = self._firsts()

        def candidates(at: int, names: CandidateNames) -> Iterable[str]:
            first, *_ = names.called
            for name in reversed(names.called):
                if entries[name] > 1 or (name == first and shared[names.first_name] > 1):
                    continue
                if name in self.known and self.known[name].first_name in (None, names.first_name):
                    yield name

        return candidates

    def call_the_rest(self) -> None:
        """Call each entry that is a new item by its first name that is free."""
        entries = Counter(name for names in self.entries.values() for name in names.called)
        firsts = self._firsts()
        for at, names in self._open():
            *others, last = names.called
            free = [name for name in others if entries[name] == 1 and name not in self.known]
            if firsts[names.first_name]:
                free = [name for name in free if name != others[0]]
            self.found[at] = free[0] if free else last

    def is_open(self) -> bool:
        """Return True if an entry has no identity yet."""
        return len(self.found) < len(self.entries)

    def _open(self) -> list[tuple[int, CandidateNames]]:
        """The entries without identity."""
        return [(at, names) for at, names in self.entries.items() if at not in self.found]

    def _firsts(self) -> Counter[int | None]:
        """Return the number of known items with the same first name."""
        return Counter(item.first_name for item in self.known.values())


# --- names ---


def _clean(text: str | None) -> str:
    return FORBIDDEN.sub("", text or "").strip()


def _short(identity: str) -> str:
    return identity if len(identity) <= LONGEST_IDENTITY else content_id(identity)


def _number(name: str) -> int:
    """64 bits that stand for a name."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def content_id(text: str) -> str:
    """A name of fixed length for a text that is too long to be one."""
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def content_hash(entry: FeedEntry) -> str:
    """The hexadecimal SHA-256 over what the publisher wrote, without dates."""
    digest = hashlib.sha256()
    for name, value in _texts(entry):
        digest.update(f"{name}\0{len(value)}\0{value}".encode("utf-8", "surrogatepass"))
    for enclosure in entry.enclosures:
        written = f"enclosure\0{enclosure.url}\0{enclosure.type}\0"
        digest.update(written.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _texts(entry: FeedEntry) -> Iterator[tuple[str, str]]:
    single = (
        ("guid", entry.guid),
        ("item_url", entry.link),
        ("title", entry.title),
        ("description", entry.description),
        ("content", entry.content),
    )
    yield from ((name, value) for name, value in single if value)
    yield from (("author", name) for name in entry.authors)
    yield from (("category", name) for name in entry.categories)
