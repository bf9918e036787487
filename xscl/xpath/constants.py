"""The constants that conditions compare the answer to one question with.

There are as many of them as there are conditions; `suitable` finds those that
suit an answer without looking at the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from weakref import WeakValueDictionary

from xscl.xpath.atoms import FARTHEST, Constant, Question, is_plain, place_of
from xscl.xpath.substrings import Substrings
from xscl.xpath.values import number

CELLS = 64  # of one width, that are looked up at most


class Constants:
    """The constants of one question; those of equality and order need not be known."""

    __slots__ = (
        *("__weakref__", "_lengths", "_uses", "_widths", "_words"),
        *("known", "ordered", "plain", "question"),
    )

    def __init__(self, question: Question) -> None:
        self.question = question
        self.ordered = question.ordered
        self.known = question.kind in ("contains", "starts-with", "cell")
        self.plain = is_plain(question.path)
        self._uses: dict[Constant, tuple[Constant, int]] = {}
        self._words = Substrings()
        self._lengths: Counter[int] = Counter()
        self._widths: Counter[int] = Counter()

    def learn(self, constant: Constant) -> Constant:
        """Take note of a constant, one that is known already once more; return what equals it.

        What is returned is the object that `suitable` finds: comparing two of them takes no
        look at their texts, which are seldom in the processor's cache.
        """
        if not self.known:
            return constant
        constant, uses = self._uses.get(constant, (constant, 0))
        self._uses[constant] = constant, uses + 1
        if not uses:
            self._count(constant, 1)
            if self.question.kind == "contains" and isinstance(constant, str):
                self._words.add(constant)
        return constant

    def forget(self, constant: Constant) -> None:
        """Undo one `learn`."""
        if not self.known:
            return
        constant, uses = self._uses[constant]
        if uses > 1:
            self._uses[constant] = constant, uses - 1
            return
        del self._uses[constant]
        self._count(constant, -1)
        if self.question.kind == "contains" and isinstance(constant, str):
            self._words.remove(constant)

    def _count(self, constant: Constant, by: int) -> None:
        """Count the lengths of prefixes, and the widths of cells."""
        if isinstance(constant, str):
            self._lengths[len(constant)] += by
            self._lengths = +self._lengths if by < 0 else self._lengths
        elif isinstance(constant, tuple):
            self._widths[constant[0]] += by
            self._widths = +self._widths if by < 0 else self._widths

    def suitable(self, texts: Sequence[str]) -> Set[Constant]:
        """Return constants, among them those of conditions that hold; `texts` are the answer."""
        match self.question.kind:
            case "=":
                return frozenset(texts)
            case "number":
                return frozenset(numbers(texts))
            case "contains":
                within = self._words.within
                return within(texts[0]) if len(texts) == 1 else set().union(*map(within, texts))
            case "starts-with":
                lengths = self._lengths
                return {text[:size] for text in texts for size in lengths if size <= len(text)}
            case _:
                return self._cells(list(numbers(texts)))

    def _cells(self, values: list[float]) -> Set[Constant]:
        """Return the cells that lie between the least and the greatest of some values."""
        if not values:
            return frozenset()
        low, high = min(values), max(values)
        if not -FARTHEST < low <= high < FARTHEST:
            return self._uses.keys()
        places = [(w, place_of(low, w), place_of(high, w)) for w in self._widths]
        if any(last - first > CELLS for _, first, last in places):
            return self._uses.keys()
        return {(w, n) for w, first, last in places for n in range(first, last + 1)}

    def extreme(self, texts: Sequence[str]) -> str | float | None:
        """Return the value that suits more bounds than any other of an answer; None without."""
        farthest = min if self.question.kind in ("<", "<=") else max
        if self.question.numeric:
            return farthest(numbers(texts), default=None)
        return farthest(texts, default=None)


def numbers(texts: Sequence[str]) -> Iterator[float]:
    """Yield the XPath numbers of texts, but of those that are none."""
    return (value for value in map(number, texts) if not math.isnan(value))


class Questions:
    """The constants of all questions that some index asks."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[Question, Constants] = WeakValueDictionary()

    def __getitem__(self, question: Question) -> Constants:
        constants = self._known.get(question)
        if constants is None:
            constants = self._known[question] = Constants(question)
        return constants
