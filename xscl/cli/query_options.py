"""Checks of queries and of options about them: language, durations, names that were never seen.

The parser takes as long to load as a request does, so it is loaded only for a text that may be
wrong.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import cast, get_args

from xscl.cli.output import UsageError, warn
from xscl.cli.service import OpenedService
from xscl.client import UnseenName
from xscl.client.calls import Language
from xscl.inspection.reasons import names_text
from xscl.language.names import UNITLESS
from xscl.time_format import UNITS

LANGUAGES = get_args(Language)
_DURATION = re.compile(rf"\s*[0-9]{{1,9}}\s*({'|'.join(UNITS)})\s*")


def known_language(language: str) -> Language:
    """Return the language of a subscription; raises UsageError for another one."""
    refuse_unknown_language(language, LANGUAGES)
    return cast(Language, language)


def refuse_unknown_language(language: str, spoken: Collection[str]) -> None:
    """Raise UsageError for a `--language` that a command does not know."""
    if language not in spoken:
        from xscl.errors import near_miss

        hint = near_miss(language, spoken) or f"one of {', '.join(spoken)}"
        raise UsageError(f"there is no language {language}", hint=hint)


def refuse_bare_duration(text: str | None, option: str = "--since") -> None:
    """Raise UsageError for a duration without a unit, QueryError for what is no duration."""
    if text is None or _DURATION.fullmatch(text):
        return
    if text.strip().isdecimal():
        raise UsageError(f"{option} {text} has no unit", hint=f"write '{text} d' or '{text} h'")
    from xscl.language.parser import parse_window

    parse_window(text)


def refuse_bare_windows(text: str) -> None:
    """Raise QueryError for a window of a query in XSCL without a unit."""
    if re.search(UNITLESS, text):
        from xscl.language import parser

        parser.refuse_bare_windows(text)


def warn_of_unmatched_blocks(service: OpenedService, query: str) -> None:
    """Report each block of a query in XSCL that no kept document matches, and its failing part."""
    for block in service.diagnose(query, is_name=False).blocks:
        if block.needed and block.examined and not block.matching:
            near = f"near: {names_text(block.nearest)}" if block.nearest else None
            warn(f"no kept document matches {block.block}: {block.failing}", near)


def warn_of_unseen_names(service: OpenedService, query: str) -> Sequence[UnseenName]:
    """Warn of names in a query in XSCL that were never seen, and return them.

    Raises QueryError.
    """
    found = service.check(query).warnings
    for one in found:
        warn(f"warning: line {one.line}, column {one.column}: {one.message}", one.hint)
    return found
