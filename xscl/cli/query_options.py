"""Checks of queries and of options about them: language, durations, names that were never seen."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xscl.cli.output import UsageError, warn
from xscl.cli.service import Service
from xscl.inspection.names_seen import names_text
from xscl.inspection.unseen_names import UnseenName
from xscl.language.faults import near_miss
from xscl.language.parser import parse_window


def refuse_unknown_language(language: str, spoken: Collection[str]) -> None:
    """Raise UsageError for a `--language` that a command does not know."""
    if language not in spoken:
        hint = near_miss(language, spoken) or f"one of {', '.join(spoken)}"
        raise UsageError(f"there is no language {language}", hint=hint)


def refuse_bare_duration(text: str | None, option: str = "--since") -> None:
    """Raise UsageError for a duration without a unit, QueryError for what is no duration."""
    if text is None:
        return
    if text.strip().isdecimal():
        raise UsageError(f"{option} {text} has no unit", hint=f"write '{text} d' or '{text} h'")
    parse_window(text)


def warn_of_unmatched_blocks(service: Service, query: str) -> None:
    """Remark on blocks of a query in XSCL that no kept document matches, with what they lack."""
    for one in service.diagnose(query, None, named=False).unmatched:
        near = f"near: {names_text(one.nearest)}" if one.nearest else None
        warn(f"no kept document matches {one.block}: {one.failing}", near)


def warn_of_unseen_names(service: Service, query: str) -> Sequence[UnseenName]:
    """Warn of names in a query in XSCL that were never seen, and return them.

    Raises QueryError.
    """
    found = service.unseen_names(query)
    for one in found:
        warn(f"warning: line {one.line}, column {one.column}: {one.message}", one.hint)
    return found
