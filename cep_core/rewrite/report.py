"""A report of rewriting in words: the pattern as written and as planned, with costs."""

from __future__ import annotations

from collections.abc import Iterator

from cep_core.rewrite.cost import Rates, estimate
from cep_core.rewrite.pattern import Next, Pattern, in_words, iterated, sources_of


def binding(written: Pattern) -> tuple[str, ...]:
    """Return a line for `explain` if a run stands before the last part of a sequence."""
    if any(isinstance(one.left, Next) and iterated(one.left) for one in _nexts(written)):
        return (f"; binds to the left: {in_words(written)}",)
    return ()


def report(written: Pattern, planned: Pattern, rates: Rates) -> tuple[str, ...]:
    """Return lines for `explain`: costs before and after."""
    before, after = estimate(written, rates), estimate(planned, rates)
    if before is None or after is None:
        return ()
    streams = dict.fromkeys(source.stream for source in sources_of(written))
    known = ", ".join(f"{stream} {rates[stream]:g}" for stream in streams)
    lines = [f"rates  {known} events/s", f"cost {before.cost:g}  {in_words(written)}  as written"]
    if planned != written:
        lines.append(f"cost {after.cost:g}  {in_words(planned)}  as planned")
    return tuple(lines)


def _nexts(pattern: Pattern) -> Iterator[Next]:
    if isinstance(pattern, Next):
        yield pattern
        yield from _nexts(pattern.left)
        yield from _nexts(pattern.right)
