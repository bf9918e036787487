"""Queries as they are given on the command line."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from xscl.cli.output import Misuse
from xscl.engine import Engine
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
    rows = engine.sql(
        "SELECT stream FROM watermarks WHERE documents > 0 UNION SELECT name FROM state.stream"
        " UNION SELECT publish FROM subscriptions WHERE publish IS NOT NULL"
    ).to_pylist()
    known = {row["stream"] for row in rows}
    (reads,) = (one.reads for one in engine.subscriptions if one.name == name)
    yield from mistyped(reads, known)


def mistyped(reads: Iterable[str], known: Collection[str]) -> Iterator[str]:
    """Yield a warning for each stream of which nothing is known, while a near one is."""
    for stream in reads:
        near = difflib.get_close_matches(stream, known, n=1, cutoff=0.75)
        if stream not in known and near:
            yield f"warning: nothing is known of the stream {stream!r}; is {near[0]!r} meant?"
