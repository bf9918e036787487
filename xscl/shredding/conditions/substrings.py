"""Search for a changing set of words in a text: incremental Aho-Corasick automata.

An automaton is built for all its words at once, so one new word would rebuild all.
Words are therefore spread over automata of growing sizes, each at least eight times
that of the next (Bentley and Saxe 1980).  A word is built into a few of them in its
life, a text is read by a few, and the newest words, not yet in any, are searched one
by one.  After as many texts as words all become one automaton, so that a text is read
once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from operator import itemgetter

import ahocorasick

RECENT = 32  # words that are looked for one by one
GROWTH = 8

_WORD = itemgetter(1)  # of what an automaton finds


class SubstringIndex:
    """A set of words, none of them empty."""

    __slots__ = ("_built", "_live", "_read", "_recent")

    def __init__(self) -> None:
        self._live: set[str] = set()
        self._recent: list[str] = []
        self._built: list[ahocorasick.Automaton] = []  # the largest first
        self._read = 0  # texts, since there was one automaton, more than once each

    def __len__(self) -> int:
        return len(self._live)

    def add(self, word: str) -> None:
        if word not in self._live:
            self._live.add(word)
            self._recent.append(word)

    def remove(self, word: str) -> None:
        """Remove a word; it stays in its automaton until half of the words there are removed."""
        self._live.remove(word)
        if sum(map(len, self._built)) + len(self._recent) > 2 * len(self._live) + RECENT:
            self._recent = list(self._live)
            self._built.clear()

    def within(self, text: str) -> set[str]:
        """Return the words that occur in a text."""
        if len(self._recent) > RECENT:
            self._build(GROWTH)
        elif self._recent or len(self._built) > 1:
            self._read += 1
            if self._read > len(self._live):
                self._build(math.inf)
                self._read = 0
        found = {word for word in self._recent if word in text} if self._recent else set()
        for automaton in self._built:
            found.update(map(_WORD, automaton.iter(text)))
        known = sum(map(len, self._built)) + len(self._recent)
        return found if known == len(self._live) else found & self._live

    def _build(self, growth: float) -> None:
        """Merge the newest words, and automata less than so many times as large, into one."""
        words: list[Iterable[str]] = [self._recent]
        size = len(self._recent)
        while self._built and len(self._built[-1]) < growth * size:
            smaller = self._built.pop()
            size += len(smaller)
            words.append(smaller.keys())
        automaton = ahocorasick.Automaton()
        for word in chain.from_iterable(words):
            if word in self._live:
                automaton.add_word(word, word)
        self._recent = []
        if len(automaton):
            automaton.make_automaton()
            self._built.append(automaton)
