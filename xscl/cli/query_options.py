"""Checks of options about queries: their language, and durations."""

from __future__ import annotations

from collections.abc import Collection

from xscl.cli.output import UsageError
from xscl.language.faults import near_miss
from xscl.language.parser import parse_window


def refuse_unknown_language(language: str, spoken: Collection[str]) -> None:
    """Raise UsageError for a `--language` that a command does not know."""
    if language not in spoken:
        hint = near_miss(language, spoken) or f"one of {', '.join(spoken)}"
        raise UsageError(f"there is no language {language}", hint=hint)


def refuse_bare_duration(since: str | None) -> None:
    """Raise UsageError for a `--since` without a unit, QueryError for what is no duration."""
    if since is None:
        return
    if since.strip().isdecimal():
        raise UsageError(f"--since {since} has no unit", hint=f"write '{since} d' or '{since} h'")
    parse_window(since)
