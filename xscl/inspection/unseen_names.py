"""Names in a query that were never seen: streams without documents, elements in no document.

They are no errors, as a document with them may come.  Most are misspelt, so each has the nearest
names that were seen.  A comparison of numbers that were seen to be written differently is reported
like a name, and one of times whose values were seen to be no dates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Literal

from cep_core.algebra import number_of, text_of
from xscl.errors import QueryError
from xscl.inspection.reasons import SeenName, names_text
from xscl.inspection.vocabulary import (
    SeenPath,
    Vocabulary,
    is_name_of,
    is_seen,
    nearest_names,
    step_written,
)
from xscl.language import syntax
from xscl.language.functions import DATE_TIME, seconds
from xscl.language.parser import parse
from xscl.language.scope import bound_steps, walk
from xscl.language.unparse import unparse
from xscl.plurals import counted
from xscl.shredding.automaton.pattern import pattern

MOST = 20
"""Maximum number of names that are reported."""


@dataclass(frozen=True, slots=True)
class QueryWarning:
    """A warning about a name or a comparison in a query, with its place in the text.

    `kind` tells names of streams, names of elements and attributes, and comparisons apart.
    """

    kind: Literal["stream", "name", "comparison"]
    name: str
    message: str
    line: int
    column: int
    nearest: tuple[SeenName, ...]
    hint: str | None
    """The nearest names as text, or what to write instead."""

    def as_dict(self) -> dict[str, Any]:
        """Return the warning as JSON values."""
        return asdict(self)


def unseen_names(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> tuple[QueryWarning, ...]:
    """Return warnings about the names in a query that were never seen, in the order of the text.

    Those about comparisons (`doubtful_comparisons`) follow.

    `streams` are the known ones, with the numbers of their documents; `vocabulary` returns that of
    a stream.  Raises QueryError.
    """
    found = dict.fromkeys(_unseen(query, streams, vocabulary))
    return tuple(found)[:MOST]


def _unseen(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[QueryWarning]:
    parsed = parse(query)
    blocks = [
        node for node in walk(parsed) if isinstance(node, syntax.Block) and not node.is_calendar
    ]
    for block in blocks:
        near = nearest_names(block.stream, streams)
        if block.stream not in streams and (near or any(streams.values())):
            message = f"nothing is known of the stream {block.stream!r}"
            yield _placed(query, block.span, "stream", block.stream, message, near)
        yield from _steps(query, block.stream, block.steps, streams, vocabulary)
    stream_of = {step.variable: block.stream for block in blocks for step in bound_steps(block)}
    for one in walk(parsed):
        if isinstance(one, syntax.VariablePath) and one.variable in stream_of:
            stream = stream_of[one.variable]
            yield from _steps(query, stream, one.path, streams, vocabulary)
    yield from doubtful_comparisons(query, streams, vocabulary)


def doubtful_comparisons(
    query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[QueryWarning]:
    """Yield warnings about comparisons that the values seen so far make doubtful.

    These compare as texts what are numbers, written in different ways, or as times what are no
    dates.  Raises QueryError.
    """
    for compared, operand, sample in without_dates(parse(query), streams, vocabulary):
        value = "nodes without a text" if sample is None else f"values such as '{sample}'"
        name = unparse(operand)
        yield QueryWarning(
            "comparison",
            unparse(compared),
            f"{name} is compared as a time, and {value} were seen, which are no dates",
            *_place(query, compared.span),
            (),
            f"time({name}) is the time of its document",
        )
    for compared, left, right, numbers in differently_written(parse(query), streams, vocabulary):
        text = unparse(compared)
        yield QueryWarning(
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
) -> Iterator[QueryWarning]:
    """Yield the names of steps that are in no document of a stream, unless it has none at all."""
    if not streams.get(stream):
        return
    seen = vocabulary(stream)
    for step in walk(node):
        if not isinstance(step, syntax.Step) or step.derived is not None or step.test.local is None:
            continue
        name = step_written(step)
        if seen.documents and not is_seen(step, name, seen.names):
            documents = counted(seen.documents, "document")
            message = f"{name!r} is not in the newest {documents} of {stream!r}"
            near = nearest_names(name, seen.names)
            yield _placed(query, step.span, "name", name, message, near)


def _placed(
    query: str,
    span: syntax.Span,
    kind: Literal["stream", "name"],
    name: str,
    message: str,
    nearest: tuple[SeenName, ...],
) -> QueryWarning:
    hint = f"did you mean {names_text(nearest)}?" if nearest else None
    return QueryWarning(kind, name, message, *_place(query, span), nearest, hint)


def _place(query: str, span: syntax.Span) -> tuple[int, int]:
    """Return line and column of a part of a query."""
    place = QueryError.at(span.start, "", query)
    return place.line, place.column


# -- Equalities of numbers that are written differently --------------------------------------

# `=` and `!=` between values of documents compare texts.  That is right for keys, and wrong for
# amounts: `40` and `40.00` are different texts.

Chain = tuple[str, tuple[syntax.Step, ...]]
"""A stream, and the steps from the root of its documents to a node."""


def differently_written(
    query: syntax.Query, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[tuple[syntax.Comparison, str, str, str]]:
    """Yield each equality of texts that are numbers, written in different ways.

    With it come two values that were seen, and the comparison of numbers to use instead.  `streams`
    has the numbers of documents, `vocabulary` returns that of a stream.
    """
    chains = _chains(query, streams)
    for node in walk(query):
        if not isinstance(node, syntax.Comparison) or node.operator not in ("=", "!="):
            continue
        seen = [
            {sample for path in _paths_seen(side, chains, vocabulary) for sample in path.samples}
            for side in (node.left, node.right)
        ]
        if (pair := _pair(*seen)) is not None:
            left, right = (f"number({unparse(side)})" for side in (node.left, node.right))
            yield node, *pair, f"{left} {node.operator} {right}"


def without_dates(
    query: syntax.Query, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
) -> Iterator[tuple[syntax.Comparison, syntax.Operand, str | None]]:
    """Yield each comparison with an operand that is read as a time, and was never seen to be one.

    With it comes a value that was seen, None for nodes that have no text of their own.
    """
    chains = _chains(query, streams)
    for node in walk(query):
        for call in walk(node) if isinstance(node, syntax.Comparison) else ():
            if not isinstance(call, syntax.Call) or call.function != DATE_TIME:
                continue
            (operand,) = call.arguments
            paths = _paths_seen(operand, chains, vocabulary)
            samples = [sample for path in paths for sample in path.samples]
            if paths and all(seconds(sample) is None for sample in samples):
                yield node, operand, min(samples, default=None)


def _chains(query: syntax.Query, streams: Mapping[str, int]) -> Mapping[str, Sequence[Chain]]:
    """Return the nodes that each variable is bound to, in streams that have documents."""
    chains = defaultdict[str, list[Chain]](list)
    for block in walk(query):
        if isinstance(block, syntax.Block) and not block.is_calendar and streams.get(block.stream):
            found = pattern(block)
            for number, node in enumerate(found.nodes):
                if node.variable is not None:
                    steps = tuple(found.nodes[above].step for above in found.chain(number))
                    chains[node.variable].append((block.stream, steps))
    return chains


def _paths_seen(
    operand: syntax.Operand,
    chains: Mapping[str, Sequence[Chain]],
    vocabulary: Callable[[str], Vocabulary],
) -> list[SeenPath]:
    """Return the paths, of those that were seen, of a variable's nodes, or of a path at one."""
    match operand:
        case syntax.VariablePath(name, syntax.Path(steps, None)):
            below = steps
        case syntax.DecoratedName(_, name):
            below = ()
        case _:
            return []
    return [
        path
        for stream, steps in chains.get(name, ())
        for path in vocabulary(stream).paths
        if _leads((*steps, *below), path.path)
    ]


def _leads(steps: Sequence[syntax.Step], path: Sequence[str]) -> bool:
    """Return True if steps select the nodes of a path that was seen."""
    places = {0}
    for step in steps:
        names = [at for at, name in enumerate(path) if is_name_of(step, name)]
        places = {
            at + 1
            for at in names
            if at in places or (step.descendant and any(place <= at for place in places))
        }
    return len(path) in places


def _pair(ones: Collection[str], others: Collection[str]) -> tuple[str, str] | None:
    """Return two values of which one side would write the other's number in another way.

    None unless all values are numbers.
    """
    if any(number_of(text) is None for text in (*ones, *others)):
        return None
    pairs = [pair for pair in product(sorted(ones), sorted(others)) if _differ(*pair)]
    return min(pairs, key=lambda pair: number_of(pair[0]) != number_of(pair[1]), default=None)


def _differ(one: str, other: str) -> bool:
    """Return True if two numbers are written in different styles, not both in the shortest."""
    if all(text == text_of(number_of(text)) for text in (one, other)):
        return False
    if _style(one) != _style(other):
        return True
    return len(one) != len(other) and (_is_padded(one) or _is_padded(other))


def _style(text: str) -> tuple[int, bool]:
    """Return the number of digits behind the point, and whether there is an exponent."""
    mantissa, sign, _ = text.lower().partition("e")
    return len(mantissa.partition(".")[2]), bool(sign)


def _is_padded(text: str) -> bool:
    """Return True for a number with a sign or zeros in front that it could do without."""
    return text[:1] == "+" or (text.lstrip("-")[:1] == "0" and text.lstrip("-")[1:2].isdigit())
