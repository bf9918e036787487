"""The constants that conditions compare the answer to one question with.

There are as many as conditions; `suitable` finds those that an answer satisfies
without testing the others.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from cep_core.algebra import DecimalOrDouble
from cep_core.algebra.function_bounds import BeyondBounds, report
from xscl.language.functions import compared, values_through
from xscl.language.unparse import unparse
from xscl.shredding.conditions.atoms import Constant, NodeQuestion, is_plain
from xscl.shredding.conditions.substrings import SubstringIndex
from xscl.shredding.nodes.names import steps_of

if TYPE_CHECKING:
    from xscl.shredding.conditions.expressions import ExpressionIndex


class ConstantSet:
    """The constants of one question; those of equality and order need not be known.

    With `unconditional` some of them may suit an answer without nodes.
    """

    __slots__ = (
        *("__weakref__", "_lengths", "_uses", "_words", "known", "numeric", "ordered", "plain"),
        *("_expressions", "question", "steps", "unconditional"),
    )

    def __init__(self, question: NodeQuestion) -> None:
        self.question = question
        self.ordered = question.ordered
        self.numeric = question.numeric or question.kind == "interval"
        self.known = question.kind in ("contains", "starts-with", "ends-with", "matches")
        self.plain = is_plain(question.path)
        self.unconditional = question.through is not None or question.kind == "matches"
        self.steps = steps_of(question.path)
        self._uses: dict[str, tuple[str, int]] = {}
        self._words = SubstringIndex()
        self._expressions: ExpressionIndex | None = None
        if question.kind == "matches":
            from xscl.shredding.conditions.expressions import ExpressionIndex  # loads RE2

            self._expressions = ExpressionIndex(question.flags)
        self._lengths: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by `_end`

    def learn(self, constant: Constant) -> Constant:
        """Register a constant, or one more use of a known one; return the stored equal object.

        `suitable` returns the same object, so a comparison of two does not read their texts, which
        are seldom in the processor's cache.
        """
        if not self.known or not isinstance(constant, str):
            return constant
        constant, uses = self._uses.get(constant, (constant, 0))
        self._uses[constant] = constant, uses + 1
        if not uses:
            if self._expressions is not None:
                self._expressions.add(constant)
                return constant
            if self.question.kind == "contains":
                self._words.add(constant)
            else:
                self._lengths[self._end(constant)][len(constant)] += 1
        return constant

    def _end(self, text: str) -> str:
        """Return the character by which affixes are kept: the first one, of suffixes the last."""
        return text[-1:] if self.question.kind == "ends-with" else text[:1]

    def forget(self, constant: Constant) -> None:
        """Undo one `learn`."""
        if not self.known or not isinstance(constant, str):
            return
        constant, uses = self._uses[constant]
        if uses > 1:
            self._uses[constant] = constant, uses - 1
            return
        del self._uses[constant]
        if self._expressions is not None:
            self._expressions.remove(constant)
            return
        if self.question.kind == "contains":
            self._words.remove(constant)
            return
        lengths = self._lengths[self._end(constant)]
        lengths[len(constant)] -= 1
        if not lengths[len(constant)]:
            del lengths[len(constant)]

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
        """Return a function from a text to constants, a superset of the satisfied ones."""
        match self.question.kind:
            case "=":
                return lambda text: {text}
            case "number":
                return lambda text: set(numbers((text,)))
            case "contains":
                return self._words.within
            case "starts-with":
                uses, lengths = self._uses, self._lengths
                return lambda t: {
                    uses[s][0] for n in lengths.get(t[:1], ()) if (s := t[:n]) in uses
                }
            case "ends-with":
                uses, lengths = self._uses, self._lengths
                return lambda t: {
                    uses[s][0] for n in lengths.get(t[-1:], ()) if (s := t[-n:]) in uses
                }
            case "matches":
                assert self._expressions is not None
                return self._expressions.matching
            case _:
                raise AssertionError("names are known from the structure, bounds by extremes")

    def suitable(self, texts: Sequence[str]) -> Set[Constant]:
        """Return a superset of the constants of conditions that hold; `texts` are the answer."""
        return set().union(*map(self.finder(), texts))

    def extremes(self, texts: Sequence[str]) -> tuple[Constant, ...]:
        """Return the least and the greatest value of an answer, nothing if it has none."""
        values: list[Any] = list(numbers(texts) if self.numeric else texts)
        return (min(values), max(values)) if values else ()


def numbers(texts: Sequence[str]) -> Iterator[DecimalOrDouble]:
    """Yield the numbers that texts are compared as, skipping texts that are no numbers."""
    return (value for value in map(compared, texts) if not math.isnan(value))


class QuestionRegistry:
    """The constants of all questions that some index asks."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[NodeQuestion, ConstantSet] = WeakValueDictionary()

    def __getitem__(self, question: NodeQuestion) -> ConstantSet:
        constants = self._known.get(question)
        if constants is None:
            constants = self._known[question] = ConstantSet(question)
        return constants
