"""Windows as people write them: with a unit."""

from __future__ import annotations

from xscl.errors import QueryError
from xscl.language.parser import parse
from xscl.language.scope import walk
from xscl.language.syntax import FollowedBy, Join


def refuse_bare_windows(text: str) -> None:
    """Raise QueryError for a window without a unit: 10 what?

    Bare numbers are ticks, which are right in a library and a trap for people.
    """
    for node in walk(parse(text)):
        if isinstance(node, Join | FollowedBy) and node.window.ticks and node.window.unit is None:
            ticks = node.window.ticks
            raise QueryError.at(
                node.window.span.start,
                f"the window {ticks} has no unit",
                text,
                hint=f"write '{ticks} s' or '{ticks} min'; the units are ms, s, min, h, d, w",
            )
