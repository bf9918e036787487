"""Search in a text for words of a changing set: anywhere, at an end, as regular expressions.

Words anywhere are found by incremental Aho-Corasick automata.

An automaton is built for all its words at once, so one new word would rebuild all.
Words are therefore spread over automata of growing sizes, each at least eight times
that of the next (Bentley and Saxe 1980).  A word is built into a few of them in its
life, a text is read by a few, and the newest words, not yet in any, are searched one
by one.  After as many texts as words all become one automaton, so that a text is read
once.

A regular expression can match only a text that contains its factor (`xscl.language.regex`).  The
factors of all expressions are found as words; then each candidate is tested.  Expressions without a
factor are tested on every text.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import TypeAlias

import ahocorasick

from xscl.language.regex import RegularExpression, expression

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


class AffixIndex:
    """A set of prefixes, or `at_end` of suffixes, none of them empty.

    They are found by hash, for each length that one with the first (last) character of a text has.
    """

    __slots__ = ("_at_end", "_lengths", "_live")

    def __init__(self, *, at_end: bool) -> None:
        self._at_end = at_end
        self._live: dict[str, str] = {}  # to themselves: the stored objects are returned
        self._lengths: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def _lengths_like(self, text: str) -> Counter[int]:
        return self._lengths[text[-1:] if self._at_end else text[:1]]

    def add(self, word: str) -> None:
        """Insert a new word."""
        self._live[word] = word
        self._lengths_like(word)[len(word)] += 1

    def remove(self, word: str) -> None:
        """Remove a word."""
        del self._live[word]
        lengths = self._lengths_like(word)
        lengths[len(word)] -= 1
        if not lengths[len(word)]:
            del lengths[len(word)]

    def within(self, text: str) -> set[str]:
        """Return the words with which a text begins, or ends."""
        live, lengths = self._live, self._lengths.get(text[-1:] if self._at_end else text[:1], ())
        ends = (text[-n:] if self._at_end else text[:n] for n in lengths)
        return {live[end] for end in ends if end in live}


class ExpressionIndex:
    """A set of regular expressions with the same flags."""

    __slots__ = ("_by_factor", "_factors", "_flags")

    def __init__(self, flags: str) -> None:
        self._flags = flags
        self._factors = SubstringIndex()
        self._by_factor: dict[str, dict[str, RegularExpression]] = {}

    def add(self, pattern: str) -> None:
        """Insert a new expression."""
        compiled = expression(pattern, self._flags)
        known = self._by_factor.setdefault(compiled.factor, {})
        if not known and compiled.factor:
            self._factors.add(compiled.factor)
        known[pattern] = compiled

    def remove(self, pattern: str) -> None:
        """Remove an expression."""
        factor = expression(pattern, self._flags).factor
        known = self._by_factor[factor]
        del known[pattern]
        if not known:
            del self._by_factor[factor]
            if factor:
                self._factors.remove(factor)

    def within(self, text: str) -> set[str]:
        """Return the expressions that match somewhere in a text."""
        factors = self._factors.within(text.casefold()) if len(self._factors) else set()
        if "" in self._by_factor:
            factors = {*factors, ""}
        if not factors:
            return set()
        encoded = text.encode()
        return {
            pattern
            for factor in factors
            for pattern, compiled in self._by_factor[factor].items()
            if compiled.within_bytes(encoded)
        }


TextSearch: TypeAlias = "SubstringIndex | AffixIndex | ExpressionIndex"
