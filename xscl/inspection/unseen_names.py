"""Names in a query that were never seen: streams without documents, elements in no document.

They are no errors, as a document with them may come.  Most are misspelt, so each has the nearest
names that were seen.  A comparison of numbers that were seen to be written differently is reported
like a name, and one of times whose values were seen to be no dates.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any, Literal, TypeAlias

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


StepChain: TypeAlias = tuple[str, tuple[syntax.Step, ...]]
"""A stream, and the steps from the root of its documents to a node."""


class QueryNames:
    """The names and comparisons of a query, beside what was seen in the streams that it reads.

    `streams` are the known ones, with the numbers of their documents; `vocabulary` returns that of
    a stream.
    """

    def __init__(
        self, query: str, streams: Mapping[str, int], vocabulary: Callable[[str], Vocabulary]
    ) -> None:
        """Parse the query; raises QueryError."""
        self._query = query
        self._streams = streams
        self._vocabulary = vocabulary
        parsed = list(walk(parse(query)))
        blocks = [one for one in parsed if isinstance(one, syntax.Block)]
        self._blocks = [block for block in blocks if not block.is_calendar]
        self._operands = [one for one in parsed if isinstance(one, syntax.VariablePath)]
        self._comparisons = [one for one in parsed if isinstance(one, syntax.Comparison)]

    def warnings(self) -> tuple[QueryWarning, ...]:
        """Return warnings about the names that were never seen, in the order of the text.

        Those about comparisons (`doubtful`) follow.
        """
        return tuple(dict.fromkeys((*self._unseen(), *self.doubtful())))[:MOST]

    def _unseen(self) -> Iterator[QueryWarning]:
        stream_of: dict[str | None, str] = {}
        for block in self._blocks:
            stream_of |= {step.variable: block.stream for step in bound_steps(block)}
            near = nearest_names(block.stream, self._streams)
            if block.stream not in self._streams and (near or any(self._streams.values())):
                message = f"nothing is known of the stream {block.stream!r}"
                yield self._warning("stream", block.stream, block.span, message, near)
            yield from self._steps(block.stream, block.steps)
        for one in self._operands:
            if one.variable in stream_of:
                yield from self._steps(stream_of[one.variable], one.path)

    def _steps(self, stream: str, node: object) -> Iterator[QueryWarning]:
        """Yield the names of steps that are in no document of a stream, unless it has none."""
        if not self._streams.get(stream):
            return
        seen = self._vocabulary(stream)
        for step in walk(node):
            if isinstance(step, syntax.Step) and step.derived is None and step.test.local:
                name = step_written(step)
                if seen.documents and not is_seen(step, name, seen.names):
                    documents = counted(seen.documents, "document")
                    message = f"{name!r} is not in the newest {documents} of {stream!r}"
                    near = nearest_names(name, seen.names)
                    yield self._warning("name", name, step.span, message, near)

    def doubtful(self) -> Iterator[QueryWarning]:
        """Yield warnings about comparisons that the values seen so far make doubtful.

        They compare as times what are no dates, or as texts what are numbers, written in different
        ways: that is right for keys, and wrong for amounts, as `40` and `40.00` are different.
        """
        for compared in self._comparisons:
            for call in walk(compared):
                if isinstance(call, syntax.Call) and call.function == DATE_TIME:
                    yield from self._without_dates(compared, call.arguments[0])
        for compared in self._comparisons:
            if compared.operator in ("=", "!="):
                yield from self._differently_written(compared)

    def _without_dates(
        self, compared: syntax.Comparison, operand: syntax.Operand
    ) -> Iterator[QueryWarning]:
        paths, name = self._paths_seen(operand), unparse(operand)
        samples = [sample for path in paths for sample in path.samples]
        if paths and all(seconds(sample) is None for sample in samples):
            value = f"values such as '{min(samples)}'" if samples else "nodes without a text"
            message = f"{name} is compared as a time, and {value} were seen, which are no dates"
            hint = f"time({name}) is the time of its document"
            yield self._warning("comparison", unparse(compared), compared.span, message, hint=hint)

    def _differently_written(self, compared: syntax.Comparison) -> Iterator[QueryWarning]:
        sides, text = (compared.left, compared.right), unparse(compared)
        seen = ({s for path in self._paths_seen(side) for s in path.samples} for side in sides)
        if (pair := _pair(*seen)) is not None:
            values = " and ".join(f"'{value}'" for value in pair)
            message = f"{text} compares texts, and values such as {values} were seen"
            numbers = f" {compared.operator} ".join(f"number({unparse(side)})" for side in sides)
            hint = f"compare numbers with {numbers}"
            yield self._warning("comparison", text, compared.span, message, hint=hint)

    def _warning(
        self,
        kind: Literal["stream", "name", "comparison"],
        name: str,
        span: syntax.Span,
        message: str,
        near: tuple[SeenName, ...] = (),
        hint: str | None = None,
    ) -> QueryWarning:
        hint = f"did you mean {names_text(near)}?" if near else hint
        place = QueryError.at(span.start, "", self._query)
        return QueryWarning(kind, name, message, place.line, place.column, near, hint)

    @cached_property
    def _chains(self) -> Mapping[str, Sequence[StepChain]]:
        """The nodes that each variable is bound to, in streams that have documents."""
        chains = defaultdict[str, list[StepChain]](list)
        for block in self._blocks:
            if self._streams.get(block.stream):
                found = pattern(block)
                for number, node in enumerate(found.nodes):
                    if node.variable is not None:
                        steps = tuple(found.nodes[above].step for above in found.chain(number))
                        chains[node.variable].append((block.stream, steps))
        return chains

    def _paths_seen(self, operand: syntax.Operand) -> list[SeenPath]:
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
            for stream, steps in self._chains.get(name, ())
            for path in self._vocabulary(stream).paths
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
