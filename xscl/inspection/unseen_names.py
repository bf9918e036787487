"""Names in a query that were never seen: streams without documents, elements in no document.

They are no errors, as a document with them may come.  Most are misspelt, so each has the nearest
names that were seen.  A comparison of numbers that were seen to be written differently is reported
like a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from xscl.errors import QueryError
from xscl.inspection.names_seen import (
    NearName,
    is_seen,
    nearest_names,
    step_written,
)
from xscl.inspection.reasons import names_text
from xscl.inspection.vocabulary import Vocabulary
from xscl.inspection.written_numbers import differently_written
from xscl.language.parser import parse
from xscl.language.scope import bound_steps, walk
from xscl.language.syntax import Block, Span, Step, VariablePath
from xscl.language.unparse import unparse
from xscl.plurals import counted

MOST = 20
"""Maximum number of names that are reported."""


@dataclass(frozen=True, slots=True)
class UnseenName:
    """A name in a query that was never seen, at its place in the text.

    `kind` tells names of streams from those of elements and attributes, and from comparisons.
    """

    kind: Literal["stream", "name", "comparison"]
    name: str
    message: str
    line: int
    column: int
    nearest: tuple[NearName, ...]
    hint: str | None
    """The nearest names as text, or what to write instead."""

    def as_dict(self) -> dict[str, Any]:
        """Return the warning as JSON values."""
        return asdict(self)


def unseen_names(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> tuple[UnseenName, ...]:
    """Return the names in a query that were never seen, in the order of the text.

    Comparisons of numbers that were seen to be written differently come behind them.

    `streams` are the known ones, with the numbers of their documents; `vocabulary` returns that of
    a stream.  Raises QueryError.
    """
    found = dict.fromkeys(_unseen(query, streams, vocabulary))
    return tuple(found)[:MOST]


def _unseen(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[UnseenName]:
    parsed = parse(query)
    blocks = [one for one in walk(parsed) if isinstance(one, Block) and not one.is_calendar]
    for block in blocks:
        near = nearest_names(block.stream, streams)
        if block.stream not in streams and (near or any(streams.values())):
            message = f"nothing is known of the stream {block.stream!r}"
            yield _placed(query, block.span, "stream", block.stream, message, near)
        yield from _steps(query, block.stream, block.steps, streams, vocabulary)
    stream_of = {step.variable: block.stream for block in blocks for step in bound_steps(block)}
    for one in walk(parsed):
        if isinstance(one, VariablePath) and one.variable in stream_of:
            stream = stream_of[one.variable]
            yield from _steps(query, stream, one.path, streams, vocabulary)
    yield from doubtful_comparisons(query, streams, vocabulary)


def doubtful_comparisons(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[UnseenName]:
    """Yield the equalities of texts that were seen to be numbers that are written differently.

    Raises QueryError.
    """
    for compared, left, right, numbers in differently_written(parse(query), streams, vocabulary):
        text = unparse(compared)
        yield UnseenName(
            "comparison",
            text,
            f"{text} compares texts, and values such as '{left}' and '{right}' were seen",
            *_place(query, compared.span),
            (),
            f"compare numbers with {numbers}",
        )


def _steps(
    query: str,
    stream: str,
    node: object,
    streams: Mapping[str, int],
    vocabulary: Callable[[str], Vocabulary],
) -> Iterator[UnseenName]:
    """Yield the names of steps that are in no document of a stream, unless it has none at all."""
    if not streams.get(stream):
        return
    seen = vocabulary(stream)
    for step in walk(node):
        if not isinstance(step, Step) or step.derived is not None or step.test.local is None:
            continue
        name = step_written(step)
        if seen.documents and not is_seen(step, name, seen.names):
            documents = counted(seen.documents, "document")
            message = f"{name!r} is not in the newest {documents} of {stream!r}"
            near = nearest_names(name, seen.names)
            yield _placed(query, step.span, "name", name, message, near)


def _placed(
    query: str,
    span: Span,
    kind: Literal["stream", "name"],
    name: str,
    message: str,
    nearest: tuple[NearName, ...],
) -> UnseenName:
    hint = f"did you mean {names_text(nearest)}?" if nearest else None
    return UnseenName(kind, name, message, *_place(query, span), nearest, hint)


def _place(query: str, span: Span) -> tuple[int, int]:
    """Return line and column of a part of a query."""
    place = QueryError.at(span.start, "", query)
    return place.line, place.column
