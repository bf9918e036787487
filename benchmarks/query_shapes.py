"""Queries of many shapes: different paths, branches, operators and windows, and constants.

A *skeleton* is a query without its constants.  Queries use the skeletons in turns,
each with constants of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Literal, TypeAlias

from feeds.documents import Document

Kind: TypeAlias = Literal["joins", "over time"]
ELEMENTS = ("item", "entry", "article", "report", "offer", "event")
LEAVES = ("title", "author", "topic", "place", "code", "source", "series", "language")
CONDITIONS = (
    '[./channel="{word}"]',
    '[contains(./description, "{word}")]',
    "[./price < {number}]",
    '[./channel="{word}"][./price > {number}]',
    '[./channel="{word}" and starts-with(./description, "{other}")]',
)
WINDOWS = ("1 h", "2 h", "6 h", "12 h", "1 d", "2 d", "7 d", "30 d")
OPERATORS: dict[Kind, tuple[str, ...]] = {
    "joins": ("FOLLOWED BY", "JOIN"),
    "over time": ("NEXT", "NOT FOLLOWED BY"),
}
WORDS = tuple("".join(letters) for letters in permutations("abcdefgh", 4))
HOUR = 3_600_000_000  # in ticks


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A query without its constants: earlier block, operator, window, later block."""

    earlier: str
    later: str
    condition: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    operator: str
    window: str

    def query(self, word: str, other: str, number: int) -> str:
        """Return the query with its constants."""
        condition = self.condition.format(word=word, other=other, number=number)
        left = "".join(f"[./{leaf}->v{i}]" for i, leaf in enumerate(self.left))
        right = "".join(f"[./{leaf}->w{i}]" for i, leaf in enumerate(self.right))
        equal = " AND ".join(f"v{i} = w{i}" for i, _ in enumerate(self.left))
        window = "" if self.operator == "NEXT" else f", {self.window}"
        return (
            f"S//{self.earlier}->v{condition}{left}"
            f" {self.operator}{{{equal}{window}}} S//{self.later}->w{right}"
        )


def skeletons(kind: Kind, count: int, seed: int) -> list[Skeleton]:
    """Return different skeletons."""
    source = random.Random(f"{kind} {seed}")
    found: dict[Skeleton, None] = {}
    while len(found) < count:
        size = source.choices((1, 2, 3, 4), (5, 4, 2, 1))[0]
        left = tuple(source.sample(LEAVES, size))
        same = source.random() < 0.7
        found.setdefault(
            Skeleton(
                source.choice(ELEMENTS),
                source.choice(ELEMENTS),
                source.choice(CONDITIONS),
                left,
                left if same else tuple(source.sample(LEAVES, size)),
                source.choice(OPERATORS[kind]),
                source.choice(WINDOWS),
            )
        )
    return list(found)


class Queries:
    """An endless supply of named queries, the skeletons in turns, seeded."""

    def __init__(self, kind: Kind, shapes: int, seed: int) -> None:
        self.skeletons = skeletons(kind, shapes, seed)
        self._source = random.Random(seed)
        self._all = self._endless()

    def take(self, count: int) -> list[tuple[str, str]]:
        """Return the next queries, each with its name."""
        return list(islice(self._all, count))

    def _endless(self) -> Iterator[tuple[str, str]]:
        number = 0
        while True:
            for skeleton in self.skeletons:
                word, other = self._source.choice(WORDS), self._source.choice(WORDS)
                constants = word, other, self._source.randrange(1, 10_000)
                yield f"s{number}", skeleton.query(*constants)
                number += 1


def documents(count: int, seed: int) -> list[Document]:
    """Return documents, one a minute, that often satisfy conditions and often have equal values."""
    source = random.Random(seed)
    found = []
    for number in range(count):
        element = source.choice(ELEMENTS)
        leaves = "".join(f"<{leaf}>{source.choice('ab')}</{leaf}>" for leaf in LEAVES)
        rest = (
            f"<channel>{source.choice(WORDS)}</channel><price>{source.randrange(1, 10_000)}</price>"
            f"<description>{' '.join(source.choices(WORDS, k=20))}</description>"
        )
        text = f"<{element}>{leaves}{rest}</{element}>"
        found.append(Document("S", f"d{number}", number * HOUR // 60, text.encode()))
    return found
