"""Constants come and go: those that suit a text are the ones that a look at each finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from xscl.shredding.conditions.atoms import NodeQuestion, QuestionKind
from xscl.shredding.conditions.constants import ConstantSet

TEXTS = ("x", "xy", "xyz", "xyzz", "zxy", "zxyz", "y", "yx", "z", "")
HOLDS: dict[QuestionKind, Callable[[str, str], bool]] = {
    "starts-with": str.startswith,
    "contains": str.__contains__,
}


def agree(constants: ConstantSet, learnt: set[str], holds: Callable[[str, str], bool]) -> None:
    for text in TEXTS:
        assert constants.suitable([text]) == {one for one in learnt if holds(text, one)}, text


@pytest.mark.parametrize("kind", HOLDS)
def test_what_suits_is_found_whatever_comes_and_goes(kind: QuestionKind) -> None:
    """A constant that was learnt twice is there until it was forgotten twice."""
    source, constants, uses = Random(kind), ConstantSet(NodeQuestion(kind)), Counter[str]()
    twice = False
    for _ in range(300):
        if uses and source.random() < 0.5:
            word = source.choice(sorted(uses.elements()))
            constants.forget(word)
            uses = +(uses - Counter([word]))
        else:
            word = "".join(source.choices("xyz", k=source.randint(1, 3)))
            constants.learn(word)
            uses[word] += 1
            twice = twice or uses[word] > 1
        agree(constants, set(uses), HOLDS[kind])
    assert twice
