"""Calendars as blocks: `AT 'cron expression' [ZONE 'zone']`, with an instant in place of a node.

The stream of such a block is that of the instants; its only step stands for the instant, and binds
it if it has a variable.  The value is the local time as text.
"""

from __future__ import annotations

import re

from xscl.language.faults import fault
from xscl.language.syntax import Block, Span, Step

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def calendar_block(source: str, written: Span, step: Step) -> Block:
    """Return the block of the calendar at a span of a text; raises QueryError with the place.

    `step` stands for the instant, with the variable if it has one.
    """
    # These imports are not at the top: they load the event core and the library for cron.
    from cep_core import AlgebraError
    from cep_core.algebra.calendars import calendar

    found = list(_QUOTED.finditer(source, written.start, written.end))
    texts = [(one[0][1:-1], one.start() + 1) for one in found]
    (text, at), (zone, zone_at) = (*texts, ("UTC", written.end))[:2]
    try:
        known = calendar(text, zone, at, zone_at)
    except AlgebraError as error:
        place = written if error.span is None else Span(*error.span)
        raise fault(source, place, error.message, error.hint) from None
    return Block(known.name, (step,), written)


def calendar_words(name: str) -> str:
    """Return a calendar in words, by the name of its stream."""
    from cep_core.algebra.calendars import calendar_of

    return calendar_of(name).words
