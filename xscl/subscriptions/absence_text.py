"""Absences in words: what a match says of the sides that have no answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from cep_core import is_calendar
from xscl.language import normalform as nf
from xscl.language.names import owner_name
from xscl.language.syntax import Block
from xscl.time_format import duration


def absences(form: nf.NormalForm, blocks: Sequence[Block], there: Set[int]) -> Iterator[str]:
    """Yield in words each side of an ELSE or NOT FOLLOWED BY that is missing in a result.

    `form` is the query of the result, `blocks` are its blocks, `there` are the components that the
    result has.  Streams have the names that their owner uses.
    """
    if isinstance(form, nf.Scan | nf.CalendarForm):
        return
    sides = form.left, form.right
    if not isinstance(form, nf.AbsenceForm):
        for side in sides:
            yield from absences(side, blocks, there)
        return
    lower, upper = form.relation.lower, form.relation.upper
    for at, side in enumerate(sides):
        # A result of NOT FOLLOWED BY never has the right side, so that side counts as missing here.
        if there.isdisjoint(nf.components(side)):
            span = _span(-upper, -lower) if at == 0 else _span(lower, upper)
            yield from _missing(side, blocks, span)
        elif form.otherwise or at == 0:
            yield from absences(side, blocks, there)


def _missing(side: nf.NormalForm, blocks: Sequence[Block], span: str) -> Iterator[str]:
    names = (blocks[component].stream for component in nf.components(side))
    streams = dict.fromkeys(owner_name(name) for name in names if not is_calendar(name))
    either = any(isinstance(form, nf.AbsenceForm) and form.otherwise for form in nf.forms(side))
    if streams:
        named = (" or " if either else " with ").join(streams)
        yield f"nothing of {named} that fits came {span}"


def _span(first: int, last: int) -> str:
    """Return in words the interval of time in which the missing side could have come.

    `first` and `last` are its ends, in ticks after the side that came; below 0: before it.
    """
    if first in (0, 1, -last):
        return f"within {duration(last)}"
    if last in (-1, 0):
        return f"in the {duration(-first)} before"
    if first > 0:
        return f"from {duration(first)} to {duration(last)} after"
    if last < 0:
        return f"from {duration(-first)} to {duration(-last)} before"
    return f"from {duration(-first)} before to {duration(last)} after"
