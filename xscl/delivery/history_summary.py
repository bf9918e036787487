"""The sentence about the matches with which a new subscription begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xscl.time_format import moment

if TYPE_CHECKING:
    from xscl.client import answers
    from xscl.subscriptions.match import DocumentSource, Match

TITLE = 100
"""Maximum number of characters of the newest match's title."""


def history_summary(
    found: Sequence[Match | answers.Match], span: str, told: Callable[[int], str] = moment
) -> str:
    """Return a line: the number of matches with which a subscription begins, and the newest.

    `span` is their period as text; `told` returns a time in ticks as text.
    """
    if not found:
        return f"No match in the last {span}; new ones will follow"
    newest = max(found, key=lambda match: match.t1)
    sources: Sequence[DocumentSource | answers.Source] = newest.sources
    titles = (source.title or source.document for source in reversed(sources))
    title = " ".join(next(titles, "").split())  # a match of instants has no documents
    if len(title) > TITLE:
        title = f"{title[: TITLE - 1].rstrip()}…"
    said = ", ".join(filter(None, (title, told(newest.t1))))
    return f"{len(found):,} in the last {span}, the newest: {said}; new ones will follow"
