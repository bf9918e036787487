"""Names in a query that were never seen: streams without documents, elements in no document.

They are no errors, as a document with them may come.  Most are misspelt, so each has the nearest
names that were seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from xscl.errors import QueryError
from xscl.inspection.names_seen import NearName, names_text, nearest_names, step_written
from xscl.inspection.vocabulary import Vocabulary
from xscl.language.parser import parse
from xscl.language.scope import bound_steps, walk
from xscl.language.syntax import Block, Span, Step, VariablePath
from xscl.plurals import counted

MOST = 20
"""Maximum number of names that are reported."""


@dataclass(frozen=True, slots=True)
class UnseenName:
    """A name in a query that was never seen, at its place in the text.

    `kind` tells names of streams from those of elements and attributes.
    """

    kind: Literal["stream", "name"]
    name: str
    message: str
    line: int
    column: int
    nearest: tuple[NearName, ...]

    @property
    def hint(self) -> str | None:
        """The nearest names as text."""
        return f"did you mean {names_text(self.nearest)}?" if self.nearest else None

    def as_dict(self) -> dict[str, Any]:
        """Return the warning as JSON values."""
        return {**asdict(self), "hint": self.hint}


def unseen_names(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> tuple[UnseenName, ...]:
    """Return the names in a query that were never seen, in the order of the text.

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
        if seen.documents and not _is_seen(step, name, seen.names):
            documents = counted(seen.documents, "document")
            message = f"{name!r} is not in the newest {documents} of {stream!r}"
            near = nearest_names(name, seen.names)
            yield _placed(query, step.span, "name", name, message, near)


def _is_seen(step: Step, name: str, seen: Mapping[str, int]) -> bool:
    """Return True if a step's name was seen; names of other namespaces count for any prefix."""
    if not step.test.uri and step.test.uri is not None:
        return name in seen
    if step.test.uri is None:
        ending = f"{'@' if step.attribute else ''}{step.test.local}"
        return any(other == ending or _local(other) == ending for other in seen)
    return name in seen or f"{'@' if step.attribute else ''}*:{step.test.local}" in seen


def _local(name: str) -> str:
    """Return a name without its prefix; the `@` of an attribute stays."""
    at = "@" if name.startswith("@") else ""
    return at + name.removeprefix("@").rpartition(":")[2]


def _placed(
    query: str,
    span: Span,
    kind: Literal["stream", "name"],
    name: str,
    message: str,
    nearest: tuple[NearName, ...],
) -> UnseenName:
    place = QueryError.at(span.start, message, query)
    return UnseenName(kind, name, message, place.line, place.column, nearest)
