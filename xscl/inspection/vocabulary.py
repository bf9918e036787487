"""The vocabulary of streams: names of elements and attributes in kept documents, with samples.

It is read from the newest documents whose texts are kept, within a bound of documents and bytes,
so its cost does not depend on the length of the past.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from lxml import etree

from feeds.xml.xmlparse import parse
from xscl.inspection.reasons import SeenName
from xscl.language.names import PREFIXES
from xscl.language.syntax import NameTest, Path, Step
from xscl.language.unparse import unparse
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
    """A vocabulary, or what follows from it, as of a number of arrivals.

    `cost` is the seconds of CPU that it took.
    """

    found: T
    arrived: int
    read_at: float
    cost: float


class Vocabularies:
    """The vocabularies of streams, reused while nothing arrives.

    An editor asks at each key.  What takes long to read is reused for some seconds even so.  Any
    thread may ask.
    """

    def __init__(self) -> None:
        self._streams: dict[str, CachedReading[Vocabulary]] = {}

    def of(self, store: Store, stream: str, arrived: int) -> Vocabulary:
        """Return the vocabulary of a stream; `arrived` changes with each document."""
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
    """Return the vocabulary of a stream."""
    trees = [number_nodes(parse(xml)) for xml in _newest(store, stream)]
    names = Counter[str]()
    for tree in trees:
        names.update({path[-1] for path in steps_of(tree)})
    return Vocabulary(len(trees), _paths(trees), names)


def steps_of(tree: DocumentTree) -> list[tuple[str, ...]]:
    """Return the path of each node by its number, without positions."""
    paths: list[tuple[str, ...]] = []
    for item, parent in zip(tree.items, tree.parents, strict=True):
        above = () if parent < 0 else paths[parent]
        paths.append((*above, name_written(item)))
    return paths


def leaf_value(item: Item) -> str:
    """Return the value of an attribute or of an element without children, else no text."""
    if isinstance(item, etree._Element) and len(item) > 0:
        return ""
    return " ".join(string_value(item).split())


def _newest(store: Store, stream: str) -> Iterator[bytes]:
    """Yield the texts of the newest documents of a stream, within the bounds."""
    size = 0
    rows = newest_documents(store, stream, begin=EARLIEST, updates=True, limit=DOCUMENTS)
    for xml in (bytes(row["xml"]) for row in rows):
        if size and size + len(xml) > BYTES:
            return
        size += len(xml)
        yield xml


def _paths(trees: Iterable[DocumentTree]) -> tuple[SeenPath, ...]:
    """Count the paths of documents and their values."""
    documents = Counter[tuple[str, ...]]()
    values: dict[tuple[str, ...], Counter[str]] = {}
    for tree in trees:
        paths = steps_of(tree)
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

    Prefixes, case and the `@` of attributes do not count; `seen` has the numbers of documents.
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
    """Return True if a step's name was seen; names of other namespaces count for any prefix.

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
