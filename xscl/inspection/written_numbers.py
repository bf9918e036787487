"""Equalities of variables whose values were seen to be numbers that are written differently.

`=` and `!=` between values of documents compare texts.  That is right for keys, and wrong for
amounts: `40` and `40.00` are different texts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product

from cep_core.algebra import number_of, text_of
from xscl.inspection.names_seen import is_name_of
from xscl.inspection.vocabulary import Vocabulary
from xscl.language.scope import walk
from xscl.language.syntax import (
    And,
    Block,
    Comparison,
    Condition,
    Decorated,
    Exists,
    Operand,
    Path,
    Query,
    Step,
    VariablePath,
)
from xscl.language.unparse import unparse

Chain = tuple[str, tuple[Step, ...]]
"""A stream, and the steps from the root of its documents to a node."""


def differently_written(
    query: Query, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[tuple[Comparison, str, str, str]]:
    """Yield each such comparison, two values that were seen, and the comparison of numbers.

    `streams` has the numbers of documents, `vocabulary` returns that of a stream.
    """
    chains = defaultdict[str, list[Chain]](list)
    for block in walk(query):
        if isinstance(block, Block) and not block.is_calendar and streams.get(block.stream):
            for name, steps in _bound(block.steps, ()):
                chains[name].append((block.stream, steps))
    for one in walk(query):
        if not isinstance(one, Comparison) or one.operator not in ("=", "!="):
            continue
        ones, others = (_seen(side, chains, vocabulary) for side in (one.left, one.right))
        pair = _pair(ones, others) if _are_numbers(ones) and _are_numbers(others) else None
        if pair is not None:
            left, right = (f"number({unparse(side)})" for side in (one.left, one.right))
            yield one, *pair, f"{left} {one.operator} {right}"


def _bound(
    steps: Sequence[Step], above: tuple[Step, ...]
) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Yield the variables that steps bind, and the steps from the root to each."""
    for number, step in enumerate(steps, 1):
        chain = (*above, *steps[:number])
        if step.variable is not None:
            yield step.variable, chain
        for condition in step.conditions:
            for path in _paths(condition):
                yield from _bound(path.steps, chain)


def _paths(condition: Condition) -> Iterator[Path]:
    """Yield the paths of a condition that may bind variables."""
    match condition:
        case Exists(path):
            yield path
        case And(parts):
            for part in parts:
                yield from _paths(part)
        case _:
            pass


def _seen(
    operand: Operand,
    chains: Mapping[str, Sequence[Chain]],
    vocabulary: Callable[[str], Vocabulary],
) -> set[str]:
    """Return the samples of a variable's values, or of a path at one."""
    match operand:
        case VariablePath(name, Path(steps, None)):
            below = steps
        case Decorated(_, name):
            below = ()
        case _:
            return set()
    return {
        sample
        for stream, steps in chains.get(name, ())
        for path in vocabulary(stream).paths
        if _leads((*steps, *below), path.path)
        for sample in path.samples
    }


def _leads(steps: Sequence[Step], path: Sequence[str]) -> bool:
    """Return True if steps select the nodes of a path that was seen."""
    places = {0}
    for step in steps:
        names = [at for at, name in enumerate(path) if is_name_of(step, name)]
        places = {
            at + 1
            for at in names
            if at in places or (step.descendant and any(place <= at for place in places))
        }
    return len(path) in places


def _are_numbers(texts: Collection[str]) -> bool:
    return bool(texts) and all(number_of(text) is not None for text in texts)


def _pair(ones: Collection[str], others: Collection[str]) -> tuple[str, str] | None:
    """Return two values of which one side would write the other's number in another way."""
    pairs = [pair for pair in product(sorted(ones), sorted(others)) if _differ(*pair)]
    return min(pairs, key=lambda pair: number_of(pair[0]) != number_of(pair[1]), default=None)


def _differ(one: str, other: str) -> bool:
    """Return True if two numbers are written in different styles, not both in the shortest."""
    if _is_shortest(one) and _is_shortest(other):
        return False
    if (_fraction(one), _has_exponent(one)) != (_fraction(other), _has_exponent(other)):
        return True
    return len(one) != len(other) and (_is_padded(one) or _is_padded(other))


def _is_shortest(text: str) -> bool:
    return text == text_of(number_of(text))


def _fraction(text: str) -> int:
    """Return the number of digits behind the point."""
    return len(text.lower().partition("e")[0].partition(".")[2])


def _has_exponent(text: str) -> bool:
    return "e" in text.lower()


def _is_padded(text: str) -> bool:
    """Return True for a number with a sign or zeros in front that it could do without."""
    return text[:1] == "+" or (text.lstrip("-")[:1] == "0" and text.lstrip("-")[1:2].isdigit())
