"""The constants that conditions compare the answer to one question with.

There are as many as conditions; `suitable` finds those that an answer satisfies
without testing the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any
from weakref import WeakValueDictionary

from cep_core.algebra import DecimalOrDouble
from cep_core.algebra.function_bounds import BeyondBounds, report
from xscl.language.functions import compared, values_through
from xscl.language.unparse import unparse
from xscl.shredding.conditions.atoms import Constant, NodeQuestion, is_plain
from xscl.shredding.conditions.substrings import (
    AffixIndex,
    ExpressionIndex,
    SubstringIndex,
    TextSearch,
)
from xscl.shredding.nodes.names import steps_of


class ConstantSet:
    """The constants that conditions compare with the answers to one question.

    Those of equality and order are not stored.  With `unconditional` some constants may be
    satisfied by an answer without nodes.
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
                pass  # by hash, or by order

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

        A condition of another constant does not hold; those of the returned ones are tested.
        """
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
