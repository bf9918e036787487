"""The vocabulary of streams: names of elements and attributes in kept documents, with samples.

It is read from the newest documents whose texts are kept, within a bound of documents and bytes,
so its cost does not depend on the length of the past.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from lxml import etree

from cep_core.algebra import number_of, text_of
from feeds.xml.xmlparse import parse
from xscl.errors import QueryError
from xscl.inspection.reasons import SeenName, names_text
from xscl.language import syntax
from xscl.language.functions import DATE_TIME, seconds
from xscl.language.names import PREFIXES
from xscl.language.parser import parse as parse_query
from xscl.language.scope import bound_steps, walk
from xscl.language.syntax import NameTest, Path, Step
from xscl.language.unparse import unparse
from xscl.plurals import counted
from xscl.shredding.automaton.pattern import pattern
from xscl.shredding.nodes import AttributeNode, DocumentTree, Item, number_nodes, string_value
from xscl.store.queries.documents import newest_documents
from xscl.store.queries.tables import EARLIEST
from xscl.store.store import Store

K = TypeVar("K")
T = TypeVar("T")

DOCUMENTS = 300
"""Maximum number of documents that are read."""
BYTES = 4_000_000
"""Maximum size of the documents that are read; one is read in any case."""
PATHS = 300
"""Maximum number of paths of a vocabulary, those in most documents first."""
SAMPLES = 4
"""Maximum number of sample values of a path."""
LONGEST = 80
"""Maximum length of a sample value; longer ones are left out."""
STREAMS = 100
"""Maximum number of streams whose vocabularies are kept in memory."""
QUICK, REUSED = 0.02, 5.0
"""Seconds of CPU above which a vocabulary is reused, and for how many seconds."""


@dataclass(frozen=True, slots=True)
class SeenPath:
    """A path that was seen: its steps as a query writes them, from the root.

    `documents` is the number of documents that have it, `samples` are its most frequent values.
    """

    path: tuple[str, ...]
    documents: int
    samples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The paths in the newest `documents` of a stream, in document order of their first use.

    `names` has the number of documents with each name, those of paths that are left out included.
    """

    documents: int
    paths: tuple[SeenPath, ...]
    names: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CachedReading(Generic[T]):
    """A vocabulary, or a value computed from it, as of the number `arrived` of documents.

    `read_at` is a time of `time.monotonic`, `cost` the seconds of CPU that the reading took.
    """

    found: T
    arrived: int
    read_at: float
    cost: float


class Vocabularies:
    """The vocabularies of streams, reused while nothing arrives.

    An editor asks at each key.  A vocabulary that was slow to read is reused for some seconds even
    while documents arrive.  Any thread may ask.
    """

    def __init__(self) -> None:
        self._streams: dict[str, CachedReading[Vocabulary]] = {}

    def of(self, store: Store, stream: str, arrived: int) -> Vocabulary:
        """Return the vocabulary of a stream, a cached one while `arrived` is the same.

        `arrived` is the number of documents so far.
        """
        return reused(self._streams, stream, arrived, lambda: vocabulary(store, stream))


def reused(known: dict[K, CachedReading[T]], key: K, arrived: int, read: Callable[[], T]) -> T:
    """Return the reading kept under a key, such as a stream's vocabulary, or `read` it and keep it.

    It is read again if documents have arrived since, but if that was slow, only after a while.
    """
    one = known.get(key)
    if one is not None and (
        one.arrived == arrived or (one.cost > QUICK and time.monotonic() - one.read_at < REUSED)
    ):
        return one.found
    if len(known) >= STREAMS:
        known.clear()
    began = time.thread_time()
    found = read()
    known[key] = CachedReading(found, arrived, time.monotonic(), time.thread_time() - began)
    return found


def vocabulary(store: Store, stream: str) -> Vocabulary:
    """Return the vocabulary of a stream, read from its newest documents."""
    trees = [number_nodes(parse(xml)) for xml in _newest(store, stream)]
    names = Counter[str]()
    for tree in trees:
        names.update({path[-1] for path in steps_of(tree)})
    return Vocabulary(len(trees), _paths(trees), names)


def steps_of(tree: DocumentTree) -> Iterator[tuple[str, ...]]:
    """Yield for each node, in their order, its path: the names of nodes from the root to it."""
    paths: list[tuple[str, ...]] = []
    for item, parent in zip(tree.items, tree.parents, strict=True):
        above = () if parent < 0 else paths[parent]
        paths.append((*above, name_written(item)))
        yield paths[-1]


def leaf_value(item: Item) -> str:
    """Return the value of an attribute or of an element without children; "" for other nodes."""
    if isinstance(item, etree._Element) and len(item) > 0:
        return ""
    return " ".join(string_value(item).split())


def _newest(store: Store, stream: str) -> Iterator[bytes]:
    """Yield the texts of a stream's newest documents, at most `DOCUMENTS`, about `BYTES` bytes."""
    size = 0
    rows = newest_documents(store, stream, begin=EARLIEST, updates=True, limit=DOCUMENTS)
    for xml in (bytes(row["xml"]) for row in rows):
        if size and size + len(xml) > BYTES:
            return
        size += len(xml)
        yield xml


def _paths(trees: Iterable[DocumentTree]) -> tuple[SeenPath, ...]:
    """Return the `PATHS` most frequent paths, in the order of their first use in documents."""
    documents = Counter[tuple[str, ...]]()
    values: dict[tuple[str, ...], Counter[str]] = {}
    for tree in trees:
        paths = list(steps_of(tree))
        documents.update(set(paths))
        for path, item in zip(paths, tree.items, strict=True):
            counted = values.setdefault(path, Counter())
            text = leaf_value(item)
            if 0 < len(text) <= LONGEST:
                counted[text] += 1
    common = dict(documents.most_common(PATHS))
    return tuple(
        SeenPath(path, common[path], tuple(text for text, _ in counted.most_common(SAMPLES)))
        for path, counted in values.items()
        if path in common
    )


# -- Names that were seen: their notation in queries, and those nearest to a name --------------

NEAREST = 3
"""Maximum number of near names."""
_LIKE, _WORSE = 0.6, 0.1
"""Minimum similarity of a near name, as difflib measures it, and how much less than the best."""


def name_written(item: Item) -> str:
    """Return the name of a node as a query writes it: `title`, `@id`, `dc:creator`, `*:x`."""
    name = qualified_name(item)
    uri = name.namespace or ""
    test = NameTest(name.localname, uri if not uri or uri in PREFIXES else None)
    return step_written(Step(test, attribute=isinstance(item, AttributeNode)))


def qualified_name(item: Item) -> etree.QName:
    """Return the local name of a node, and its namespace."""
    assert isinstance(item, AttributeNode | etree._Element)
    return etree.QName(item.name if isinstance(item, AttributeNode) else item)


def step_written(step: Step) -> str:
    """Return the name of a step as a query writes it, without axis, conditions and variable."""
    return unparse(Path((Step(step.test, attribute=step.attribute),))).removeprefix("./")


def nearest_names(name: str, seen: Mapping[str, int]) -> tuple[SeenName, ...]:
    """Return the seen names nearest to a name, the nearest first.

    Prefixes, case and the `@` of attributes do not count.  `seen` has for each name the number of
    documents with it.
    """
    wanted = _bare(name)
    likeness = {
        other: difflib.SequenceMatcher(None, _bare(other), wanted).ratio()
        for other in seen
        if other != name
    }
    least = max(_LIKE, max(likeness.values(), default=0.0) - _WORSE)
    near = sorted(
        (other for other, ratio in likeness.items() if ratio >= least),
        key=lambda other: (-likeness[other], -seen[other], other),
    )
    return tuple(SeenName(other, seen[other]) for other in near[:NEAREST])


def is_seen(step: Step, name: str, seen: Collection[str]) -> bool:
    """Return True if a step's name was seen; one seen as `*:x` counts as `x` with any prefix.

    `name` is that of the step as a query writes it.
    """
    if not step.test.uri and step.test.uri is not None:
        return name in seen
    if step.test.uri is None:
        ending = f"{'@' if step.attribute else ''}{step.test.local}"
        return any(other == ending or _local(other) == ending for other in seen)
    return name in seen or f"{'@' if step.attribute else ''}*:{step.test.local}" in seen


def is_name_of(step: Step, seen: str) -> bool:
    """Return True if a name that was seen passes the name test of a step."""
    if step.attribute is not seen.startswith("@"):
        return False
    return step.test.local is None or is_seen(step, step_written(step), (seen,))


def _local(name: str) -> str:
    """Return a name without its prefix; the `@` of an attribute stays."""
    at = "@" if name.startswith("@") else ""
    return at + name.removeprefix("@").rpartition(":")[2]


def _bare(name: str) -> str:
    return name.removeprefix("@").rpartition(":")[2].casefold()


# -- Names in a query that were never seen ---------------------------------------------------

# Names that were never seen are no errors, as a document with them may come.
# Most such names are misspelt, so the nearest names that were seen are shown with each.
# Comparisons are reported, too, if their values are numbers in different notations, or no dates.
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
    """Compares the names and comparisons of a query with what was seen in its streams.

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
        parsed = list(walk(parse_query(query)))
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
        """Yield a warning for each step whose name no document has; none for an empty stream."""
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

        Such a comparison compares as times values that are no dates, or as texts numbers in
        different notations: right for keys, and wrong for amounts, as `40` and `40.00` differ.
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
        """By variable, the stream and the steps from the root to each node that it is bound to.

        Streams without documents are left out.
        """
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
        """Return the seen paths to the nodes of an operand; empty unless it is one path."""
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
    """Return a value of each side, so that both are numbers in different notations.

    A pair of equal numbers is preferred.  None without a pair, or if some value is no number.
    """
    if any(number_of(text) is None for text in (*ones, *others)):
        return None
    pairs = [pair for pair in product(sorted(ones), sorted(others)) if _differ(*pair)]
    return min(pairs, key=lambda pair: number_of(pair[0]) != number_of(pair[1]), default=None)


def _differ(one: str, other: str) -> bool:
    """Return True if two numbers differ in notation; False if both are as xscl prints numbers."""
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
