"""The constants that conditions compare the answer to one question with.

There are as many as conditions; `suitable` finds those that an answer satisfies without testing the
others.  Words in a text are found anywhere, at an end, or as regular expressions.

Words anywhere are found by incremental Aho-Corasick automata.  An automaton is built for all its
words at once, so one new word would rebuild all.  Words are therefore spread over automata of
growing sizes, each at least eight times that of the next (Bentley and Saxe 1980).  A word is built
into a few of them in its life, a text is read by a few, and the newest words, not yet in any, are
searched one by one.  After as many texts as words all become one automaton, so that a text is read
once.

A regular expression can match only a text that contains its factor (`xscl.language.regex`).  The
factors of all expressions are found as words; then each candidate is tested.  Expressions without a
factor are tested on every text.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain
from operator import itemgetter
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import ahocorasick

from cep_core.algebra import DecimalOrDouble
from cep_core.algebra.function_bounds import BeyondBounds, report
from xscl.language.functions import compared, values_through
from xscl.language.regex import RegularExpression, expression
from xscl.language.unparse import unparse
from xscl.shredding.conditions.atoms import Constant, NodeQuestion, is_plain
from xscl.shredding.nodes import steps_of

RECENT = 32  # the most words that are searched one by one
GROWTH = 8

_WORD = itemgetter(1)  # an automaton yields the end of a word, and the word


class SubstringIndex:
    """A set of words, none of them empty; it finds those that occur in a text."""

    __slots__ = ("_built", "_live", "_read", "_recent")

    def __init__(self) -> None:
        self._live: set[str] = set()
        self._recent: list[str] = []
        self._built: list[ahocorasick.Automaton] = []  # the automata, the largest first
        self._read = 0  # texts that took several searches since all words were in one automaton

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
        """Return those words of the set that occur in a text."""
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
        """Merge the newest words, and automata less than `growth` times as large, into one."""
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

    They are found by hash: a text has a look-up for each length of words with its first (last)
    character.
    """

    __slots__ = ("_at_end", "_lengths", "_live")

    def __init__(self, *, at_end: bool) -> None:
        self._at_end = at_end
        self._live: dict[str, str] = {}  # from each word to its stored object, which is returned
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
        """Return the words of the set with which a text begins, or with `at_end` ends."""
        live, lengths = self._live, self._lengths.get(text[-1:] if self._at_end else text[:1], ())
        ends = (text[-n:] if self._at_end else text[:n] for n in lengths)
        return {live[end] for end in ends if end in live}


class ExpressionIndex:
    """A set of regular expressions with the same flags; it finds those that match in a text."""

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
        """Return the expressions of the set that match somewhere in a text."""
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


# -- The constants of a question -----------------------------------------------------------


class ConstantSet:
    """The constants that conditions compare with the answers to one question.

    Only texts for contains, starts-with, ends-with and matches are in it; other constants are
    looked up in the index of conditions.  If `unconditional`, an answer may satisfy some although
    the question's path selects no node, such as 0 for a count.
    """

    __slots__ = (
        *("__weakref__", "_index", "_uses", "numeric", "ordered", "plain", "question", "steps"),
        "unconditional",
    )

    def __init__(self, question: NodeQuestion) -> None:
        self.question = question
        self.ordered = question.ordered
        self.numeric = question.numeric or question.kind == "interval"
        self.plain = is_plain(question.path)
        self.unconditional = question.through is not None or question.kind == "matches"
        self.steps = steps_of(question.path)
        self._uses: dict[str, tuple[str, int]] = {}
        self._index: TextSearch | None = None
        match question.kind:
            case "contains":
                self._index = SubstringIndex()
            case "starts-with" | "ends-with":
                self._index = AffixIndex(at_end=question.kind == "ends-with")
            case "matches":
                self._index = ExpressionIndex(question.flags)
            case _:
                pass  # equality is found by hash, order by `BoundLevel`

    def learn(self, constant: Constant) -> Constant:
        """Register a constant, or one more use of a known one; return the stored equal object.

        `suitable` returns the same object, so a comparison of two does not read their texts, which
        are seldom in the processor's cache.
        """
        if self._index is None or not isinstance(constant, str):
            return constant
        constant, uses = self._uses.get(constant, (constant, 0))
        self._uses[constant] = constant, uses + 1
        if not uses:
            self._index.add(constant)
        return constant

    def forget(self, constant: Constant) -> None:
        """Undo one `learn`."""
        if self._index is None or not isinstance(constant, str):
            return
        constant, uses = self._uses.pop(constant)
        if uses > 1:
            self._uses[constant] = constant, uses - 1
        else:
            self._index.remove(constant)

    def answer(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the answer of a question whose path selects nodes with these texts."""
        if self.question.through is not None:
            try:
                texts = values_through(self.question.through)(texts)
            except BeyondBounds as error:
                report(f"a condition with {unparse(self.question.through.operand)}", error)
                return ()
        return texts[:1] or ("",) if self.question.first else texts

    def finder(self) -> Callable[[str], Set[Constant]]:
        """Return a function from a text to a superset of the constants that it satisfies."""
        match self.question.kind:
            case "=":
                return lambda text: {text}
            case "number":
                return lambda text: set(numbers((text,)))
            case _:
                assert self._index is not None, "names are of the structure, bounds have extremes"
                return self._index.within

    def suitable(self, texts: Sequence[str]) -> Set[Constant]:
        """Return the constants of the conditions that may hold of some texts of a document.

        A condition with any other constant does not hold; one with a returned one may hold or not.
        """
        return set().union(*map(self.finder(), texts))

    def extremes(self, texts: Sequence[str]) -> tuple[Constant, ...]:
        """Return (least, greatest) of the values of an answer's texts; () if it has none."""
        values: list[Any] = list(numbers(texts) if self.numeric else texts)
        return (min(values), max(values)) if values else ()


def numbers(texts: Sequence[str]) -> Iterator[DecimalOrDouble]:
    """Yield the numbers that texts are compared as, skipping texts that are no numbers."""
    return (value for value in map(compared, texts) if not math.isnan(value))


class QuestionRegistry:
    """Finds the one `ConstantSet` of a question that indexes ask; it is made on first use."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[NodeQuestion, ConstantSet] = WeakValueDictionary()

    def __getitem__(self, question: NodeQuestion) -> ConstantSet:
        constants = self._known.get(question)
        if constants is None:
            constants = self._known[question] = ConstantSet(question)
        return constants
