"""The checker: what was sent against what the store holds.

It reads the log, the number of items that the feed's server has shown, and a stopped store by SQL.
It computes the expected matches by brute force, from the definitions of the subscriptions
(`tests.kills.workload.SUBSCRIPTIONS`), over the documents in the store:

    pairs   documents with equal k, the second at most 8 ms later; each publishes its first document
    hits    what pairs has published
    next    each document with the next one that has its k
    gaps    each document that no other with its k follows within 3 ms
    news    a document and an item whose title is its f

`verdict` is a pure function; a fault is one line of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

from tests.kills.log import Batch, Sent
from tests.kills.workload import guid, known, title
from xscl.engine.facade import Engine

Finding: TypeAlias = tuple[str, tuple[str, ...]]
"""A subscription and the documents of one of its matches."""

_MS = 1_000


@dataclass(frozen=True, slots=True)
class Input:
    """The sent data: batches, and the last answer of the feed (-1: none) with the feed's key."""

    batches: tuple[Batch, ...]
    answers: int = -1
    feed: str = ""

    def item(self, number: int) -> str:
        """Return the id of an item's document."""
        return f"{self.feed}#{guid(number)}"


@dataclass(frozen=True, slots=True)
class Match:
    """A match as the store tells it."""

    id: str
    subscription: str
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The content of a store: ids and versions of documents, rejected documents, matches."""

    documents: tuple[tuple[str, int], ...]
    rejected: tuple[str, ...]
    matches: tuple[Match, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The faults, one a line."""

    lost: tuple[str, ...] = ()
    duplicate: tuple[str, ...] = ()
    half: tuple[str, ...] = ()
    unexplained: tuple[str, ...] = ()

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return len(self.lost), len(self.duplicate), len(self.half), len(self.unexplained)

    def __str__(self) -> str:
        lines = [
            f"{field.name}: {line}" for field in fields(self) for line in getattr(self, field.name)
        ]
        return "\n".join(lines) or "all is well"


def read(database: Path, *, flush: bool = True) -> Found:
    """Return the content of a stopped store; with `flush`, after the end of its input."""
    with Engine(database) as engine:
        if flush:
            engine.flush()
        documents = engine.sql("SELECT id, version FROM documents").to_pylist()
        rejected = engine.sql("SELECT id FROM rejected").to_pylist()
        matches = [Match(m.id, m.subscription, m.documents) for m in engine.matches()]
    return Found(
        tuple((row["id"], row["version"]) for row in documents),
        tuple(row["id"] for row in rejected),
        tuple(matches),
    )


def verdict(given: Input, found: Found, *, complete: bool) -> Verdict:
    """Return the faults; unless `complete`, sent data may be in transit."""
    published = {match.id for match in found.matches if match.subscription == "pairs"}
    return Verdict(
        lost=(
            *(_lost_input(given, found) if complete else ()),
            *_lost_matches(given, found),
            *(f"published document {id_}" for id_ in sorted(published - _present(found))),
        ),
        duplicate=tuple(_duplicates(found)),
        half=tuple(_halves(given, found)),
        unexplained=tuple(_unexplained(given, found, published)),
    )


# -- What was sent -------------------------------------------------------------------------


def _present(found: Found) -> set[str]:
    return {id_ for id_, _ in found.documents}


def _well_formed(document: Sent) -> bool:
    try:
        ElementTree.fromstring(document.xml)
    except ElementTree.ParseError:
        return False
    return True


def _sorted_out(batches: Iterable[Batch]) -> tuple[dict[str, Sent], set[str]]:
    """Return the documents that are well-formed by their ids, and the ids of those that are not."""
    sent = [document for batch in batches for document in batch.documents]
    well = {document.id: document for document in sent if _well_formed(document)}
    return well, {document.id for document in sent} - well.keys()


def _lost_input(given: Input, found: Found) -> Iterator[str]:
    well, malformed = _sorted_out(b for b in given.batches if b.acknowledged)
    items = {given.item(number) for number in _items(given.answers)}
    for id_ in sorted((well.keys() | items) - _present(found)):
        yield f"document {id_}"
    for id_ in sorted(malformed - set(found.rejected)):
        yield f"rejected document {id_}"


def _halves(given: Input, found: Found) -> Iterator[str]:
    taken = _present(found) | set(found.rejected)
    for batch in given.batches:
        missing = {document.id for document in batch.documents} - taken
        if 0 < len(missing) < len(batch.documents):
            yield f"batch {batch.number} lacks {', '.join(sorted(missing))}"
    items = {number for number in _items(given.answers) if given.item(number) in taken}
    if items not in [set(), *(set(_items(number)) for number in range(given.answers + 1))]:
        yield f"of the feed's items there are {sorted(items)}, which no answer had"


def _items(answer: int) -> range:
    """The items up to an answer of the feed."""
    return range(known(answer) if answer >= 0 else 0)


# -- What the store holds ------------------------------------------------------------------


def _duplicates(found: Found) -> Iterator[str]:
    for what, names in (
        ("document", [id_ for id_, _ in found.documents]),
        ("rejected document", list(found.rejected)),
        ("match id", [match.id for match in found.matches]),
        ("match", [f"{m.subscription} {' '.join(m.documents)}" for m in found.matches]),
    ):
        for name, times in Counter(names).items():
            if times > 1:
                yield f"{what} {name} is there {times} times"
    for id_, version in found.documents:
        if version > 1:
            yield f"document {id_} is version {version}, and nothing was sent in two versions"


def _unexplained(given: Input, found: Found, published: Collection[str]) -> Iterator[str]:
    well, malformed = _sorted_out(given.batches)
    items = {given.item(number) for number in _items(given.answers)}
    for id_ in sorted(_present(found) - well.keys() - items - set(published)):
        yield f"document {id_}"
    for id_ in sorted(set(found.rejected) - malformed):
        yield f"rejected document {id_}"
    for subscription, documents in sorted(_told(found) - _expected(given, found)):
        yield f"match {subscription} {' '.join(documents)}"


# -- Matches -------------------------------------------------------------------------------


def _lost_matches(given: Input, found: Found) -> Iterator[str]:
    for subscription, documents in sorted(_expected(given, found) - _told(found)):
        yield f"match {subscription} {' '.join(documents)}"


def _told(found: Found) -> set[Finding]:
    """The matches in the store; in the place of a published document what it was made from."""
    pairs = {match.id: match.documents for match in found.matches if match.subscription == "pairs"}
    return {
        (
            match.subscription,
            pairs.get(match.documents[0], match.documents)
            if match.subscription == "hits"
            else match.documents,
        )
        for match in found.matches
    }


def _expected(given: Input, found: Found) -> set[Finding]:
    """The matches among the documents in the store, by brute force."""
    present = _present(found)
    sent, _ = _sorted_out(given.batches)
    own = [document for id_, document in sent.items() if id_ in present]
    items = [n for n in _items(given.answers) if given.item(n) in present]
    return {*_over_time(own), *_news(own, [(given.item(n), title(n)) for n in items])}


def _over_time(documents: Iterable[Sent]) -> Iterator[Finding]:
    kinds: dict[str, list[Sent]] = {}
    for document in sorted(documents, key=lambda each: each.ts):
        kinds.setdefault(_leaf(document, "k"), []).append(document)
    for alike in kinds.values():
        for place, one in enumerate(alike):
            # no two have the same time, so within 8 ms there are at most eight
            later = [(each.ts - one.ts, each.id) for each in alike[place + 1 : place + 9]]
            for after, other in later:
                if after <= 8 * _MS:
                    yield "pairs", (one.id, other)
                    yield "hits", (one.id, other)
            if later:
                yield "next", (one.id, later[0][1])
            if not later or later[0][0] > 3 * _MS:
                yield "gaps", (one.id,)


def _news(documents: Iterable[Sent], items: Iterable[tuple[str, str]]) -> Iterator[Finding]:
    named = {_leaf(document, "f"): document.id for document in documents}
    for item, name in items:
        if name in named:
            yield "news", (named[name], item)


def _leaf(document: Sent, name: str) -> str:
    return ElementTree.fromstring(document.xml).findtext(name) or ""
