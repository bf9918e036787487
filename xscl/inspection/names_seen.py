"""Names that were seen: their notation in queries, and the ones nearest to a name."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lxml import etree

from xscl.language.names import PREFIXES
from xscl.language.syntax import NameTest, Path, Step
from xscl.language.unparse import unparse
from xscl.shredding.nodes.tree import AttributeNode, Item

NEAREST = 3
"""Maximum number of near names."""
_LIKE, _WORSE = 0.6, 0.1
"""Minimum similarity of a near name, as difflib measures it, and how much less than the best."""


@dataclass(frozen=True, slots=True)
class SeenName:
    """A name that was seen, with the number of documents that have it."""

    name: str
    documents: int


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
