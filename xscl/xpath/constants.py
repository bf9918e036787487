"""The constants that conditions compare the answer to one question with.

There are as many of them as there are conditions; `suitable` finds those that
suit an answer without looking at the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Set
from weakref import WeakValueDictionary

from xscl.xpath.atoms import Question
from xscl.xpath.substrings import Substrings
from xscl.xpath.values import number


class Constants:
    """The constants of one question; those of equality and order need not be known."""

    __slots__ = ("__weakref__", "_lengths", "_uses", "_words", "ordered", "plain", "question")

    def __init__(self, question: Question) -> None:
        self.question = question
        self.ordered = question.ordered
        path = question.path
        self.plain = path.text is None and not any(step.conditions for step in path.steps)
        self._uses: dict[str, tuple[str, int]] = {}
        self._words = Substrings() if question.kind == "contains" else None
        self._lengths: dict[int, int] | None = {} if question.kind == "starts-with" else None

    def learn(self, constant: str | float) -> str | float:
        """Take note of a constant, one that is known already once more; return what equals it.

        What is returned is the object that `suitable` finds: comparing two of them takes no
        look at their texts, which are seldom in the processor's cache.
        """
        if not isinstance(constant, str) or (self._words is None and self._lengths is None):
            return constant
        known, uses = self._uses.get(constant, (constant, 0))
        self._uses[known] = known, uses + 1
        if self._words is not None:
            self._words.add(known)
        elif self._lengths is not None and not uses:
            self._lengths[len(known)] = self._lengths.get(len(known), 0) + 1
        return known

    def forget(self, constant: str | float) -> None:
        """Undo one `learn`."""
        if not isinstance(constant, str) or (self._words is None and self._lengths is None):
            return
        known, uses = self._uses[constant]
        if uses > 1:
            self._uses[known] = known, uses - 1
            return
        del self._uses[known]
        if self._words is not None:
            self._words.remove(known)
        elif self._lengths is not None:
            self._lengths[len(known)] -= 1
            if not self._lengths[len(known)]:
                del self._lengths[len(known)]

    def suitable(self, texts: Sequence[str]) -> Set[str | float]:
        """Return constants, among them those of conditions that hold; `texts` are the answer."""
        if self._words is not None:
            within = self._words.within
            return within(texts[0]) if len(texts) == 1 else set().union(*map(within, texts))
        if self._lengths is not None:
            lengths = self._lengths
            return {text[:length] for text in texts for length in lengths if length <= len(text)}
        if self.question.kind == "number":
            return frozenset(numbers(texts))
        return frozenset(texts)

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
