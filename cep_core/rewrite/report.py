"""A report of rewriting in words: the pattern as written and as planned, with costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cep_core.rewrite.cost import Rates, estimate
from cep_core.rewrite.pattern import Next, Pattern, in_words, iterated, sources_of

_MOST = 6  # operands of which all forms are shown
_SHOWN = 4  # forms beside the one that was taken


def binding(written: Pattern) -> tuple[str, ...]:
    """Return a line for `explain` if a run stands before the last part of a sequence."""
    if any(isinstance(one.left, Next) and iterated(one.left) for one in _nexts(written)):
        return (f"; binds to the left: {in_words(written)}",)
    return ()


def report(written: Pattern, planned: Pattern, rates: Rates) -> tuple[str, ...]:
    """Return lines for `explain`: costs before and after, and of other forms of a sequence."""
    before, after = estimate(written, rates), estimate(planned, rates)
    if before is None or after is None:
        return ()
    streams = dict.fromkeys(source.stream for source in sources_of(written))
    known = ", ".join(f"{stream} {rates[stream]:g}" for stream in streams)
    lines = [f"rates  {known} events/s", f"cost {before.cost:g}  {in_words(written)}  as written"]
    if planned != written:
        lines.append(f"cost {after.cost:g}  {in_words(planned)}  as planned")
    lines += [f"cost {cost:g}  {words}" for cost, words in _others(written, planned, rates)]
    return tuple(lines)


def _others(written: Pattern, planned: Pattern, rates: Rates) -> list[tuple[float, str]]:
    """Return other ways to put the parentheses of a sequence of sources, the cheapest first."""
    operands = list(_operands(planned))
    if not isinstance(planned, Next) or len(operands) > _MOST:
        return []
    if any(one.filters for one in _nexts(planned)):
        return []
    known = {in_words(written), in_words(planned)}
    found = []
    for form in _forms(operands):
        words, one = in_words(form), estimate(form, rates)
        if words not in known and one is not None:
            found.append((one.cost, words))
    return sorted(found)[:_SHOWN]


def _nexts(pattern: Pattern) -> Iterator[Next]:
    if isinstance(pattern, Next):
        yield pattern
        yield from _nexts(pattern.left)
        yield from _nexts(pattern.right)


def _operands(pattern: Pattern) -> Iterator[Pattern]:
    if isinstance(pattern, Next):
        yield from _operands(pattern.left)
        yield from _operands(pattern.right)
    else:
        yield pattern


def _forms(operands: Sequence[Pattern]) -> Iterator[Pattern]:
    """Yield all ways to put parentheses."""
    if len(operands) == 1:
        yield operands[0]
    for place in range(1, len(operands)):
        for left in _forms(operands[:place]):
            for right in _forms(operands[place:]):
                yield Next(left, right)
