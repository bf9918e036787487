"""Queries as they are given on the command line."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from xscl.cli.output import Misuse, complain
from xscl.engine import Engine
from xscl.language.faults import near_miss
from xscl.language.parser import parse_window


def query_text(argument: str) -> str:
    """Return the text of a query: the argument, or after an @ the contents of a file."""
    if not argument.startswith("@"):
        return argument
    path = Path(argument[1:])
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Misuse(f"the query file {path} cannot be read: {reason}") from None


def refuse_unspoken(language: str, spoken: Collection[str]) -> None:
    """Raise Misuse for a `--language` that a command does not speak."""
    if language not in spoken:
        hint = near_miss(language, spoken) or f"one of {', '.join(spoken)}"
        raise Misuse(f"there is no language {language}", hint=hint)


def refuse_bare_duration(since: str | None) -> None:
    """Raise Misuse for a `--since` without a unit, QueryError for what is no duration."""
    if since is None:
        return
    if since.strip().isdecimal():
        raise Misuse(f"--since {since} has no unit", hint=f"write '{since} d' or '{since} h'")
    parse_window(since)


def unknown_streams(engine: Engine, name: str) -> Iterator[str]:
    """Yield a warning for each stream of a subscription that looks like one mistyped.

    Nothing is known of it, while another has almost the same name.
    """
    (reads,) = (one.reads for one in engine.subscriptions if one.name == name)
    yield from mistyped(reads, _known_streams(engine))


def _known_streams(engine: Engine) -> set[str]:
    rows = engine.sql(
        "SELECT stream FROM watermarks WHERE documents > 0 UNION SELECT name FROM state.stream"
        " UNION SELECT publish FROM subscriptions WHERE publish IS NOT NULL"
    ).to_pylist()
    return {row["stream"] for row in rows}


def is_word(text: str) -> bool:
    """Whether a query is one word, as names of subscriptions are."""
    return re.fullmatch(r"[\w.-]+", text.strip()) is not None


def tell_word(text: str) -> None:
    """Warn that a word is no name and is read as a query."""
    name = text.strip()
    complain(f"warning: there is no subscription of that name: {name!r} is taken as a query")


def tell_unknown_word(engine: Engine, text: str) -> None:
    """Warn of a query of one word that is neither a subscription nor a stream of the engine."""
    if not is_word(text) or any(one.name == text for one in engine.subscriptions):
        return
    if text.strip() not in _known_streams(engine):
        tell_word(text)


def mistyped(reads: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield a warning for each stream of which nothing is known, while a near one is."""
    for stream in reads:
        near = difflib.get_close_matches(stream, known, n=1, cutoff=0.75)
        if stream not in known and near:
            yield f"warning: nothing is known of the stream {stream!r}; is {near[0]!r} meant?"
