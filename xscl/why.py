"""Why a query matches some documents, or why not.

`why` finds the documents that are asked about, has the query's edges examined, and says it for
people and for programs.  The documents match iff every edge holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from feeds.xmlparse import parse
from xscl.compile import CompiledQuery
from xscl.documents import Stored
from xscl.errors import DocumentError, XsclError
from xscl.examination import Edge, Found, Known, Question, examined
from xscl.history import Trial
from xscl.language.normalform import Absent, Folded, Following, Form, Joined, Scan
from xscl.match import Subscription
from xscl.store import Store
from xscl.xpath.tree import number_nodes

__all__ = ["NONE", "Edge", "Read", "Why", "why"]

NONE = "-"
"""In place of a document: there is none, as after ELSE and NOT FOLLOWED BY."""

Read: TypeAlias = "Callable[[str], bytes]"
"""Gives the text of a document that the engine has taken in and does not keep any more."""


@dataclass(frozen=True, slots=True)
class Why:
    """Whether a query matches some documents, and the edges that decide it."""

    query: str
    documents: tuple[str, ...]
    matched: bool
    edges: tuple[Edge, ...]

    def lines(self) -> Iterator[str]:
        """Yield the answer for people, an edge a line."""
        verb = "matches" if self.matched else "does not match"
        yield f"{self.query} {verb} {', '.join(self.documents)}"
        for edge in self.edges:
            sign = "holds" if edge.holds else "FAILS"
            near = "" if edge.nearest is None else f": {edge.nearest}"
            yield f"  {sign}  {edge.kind:<12}  {edge.text}{near}"

    def as_dict(self) -> dict[str, Any]:
        """Return the answer for programs."""
        return {
            "query": self.query,
            "documents": list(self.documents),
            "matched": self.matched,
            "edges": [
                {"kind": e.kind, "text": e.text, "holds": e.holds, "nearest": e.nearest}
                for e in self.edges
            ],
        }


def why(
    store: Store,
    query: CompiledQuery,
    subscription: Subscription | None,
    names: Sequence[str],
    lateness: Callable[[str], int],
    attempt: Callable[[Trial], Sequence[Found]],
    read: Read | None = None,
) -> Why:
    """Return whether a query matches the documents of its blocks, and why.

    Raises DocumentError for a document that is not known, or whose text is not kept and not given
    by `read`; XsclError for a wrong number of documents.
    """
    wanted = _assigned(query, names)
    known = {name: _known(store, name, read) for name in wanted if name is not None}
    documents = tuple(None if name is None else known[name] for name in wanted)
    edges = examined(Question(query, subscription, documents, lateness, attempt))
    label = "the query" if subscription is None else subscription.name
    return Why(label, tuple(names), all(edge.holds for edge in edges), edges)


def _known(store: Store, name: str, read: Read | None) -> Known:
    rows = store.fetch(
        "SELECT d.doc, d.id, d.ts, d.first, d.version, d.history, d.clock, d.rank, d.base,"
        " d.streams, t.xml FROM state.document d LEFT JOIN state.text t USING (doc) WHERE d.id = ?",
        [name],
    )
    if not rows:
        raise DocumentError(
            f"there is no document {name!r}",
            reason_code="unknown_document",
            hint="xscl sql 'SELECT id FROM documents' lists them",
        )
    *fields, streams, xml = rows[0]
    if xml is None and read is None:
        raise DocumentError(
            f"the text of {name!r} is not kept any more: no subscription needs it",
            reason_code="text_dropped",
        )
    text = read(name) if xml is None and read is not None else bytes(xml)
    return Known(Stored(*fields), tuple(streams), text, number_nodes(parse(text)))


# -- Documents and blocks --------------------------------------------------------------------


def _assigned(query: CompiledQuery, names: Sequence[str]) -> tuple[str | None, ...]:
    """Return the document of each block: named for all, or for those of a match only."""
    given = [None if name == NONE else name for name in names]
    blocks, covered = len(query.normal.blocks), query.components
    found: list[str | None] = [*given, *[None] * (blocks - len(given))]
    if len(given) == len(covered):
        placed: Mapping[int, str | None] = dict(zip(covered, given, strict=True))
        found = [placed.get(place) for place in range(blocks)]
    needed = set(range(blocks)) - set(_optional(query.normal.form))
    if len(found) > blocks or any(found[place] is None for place in needed):
        raise XsclError(
            f"{_counted(len(names), 'document')} for a query of {_counted(blocks, 'block')}",
            hint="name a document for each block, in their order",
        )
    return tuple(found)


def _optional(form: Form) -> Iterator[int]:
    """Yield the components that a match need not have documents of."""
    match form:
        case Scan():
            return
        case Absent(left, right):
            yield from _optional(left)
            yield from _covered(right)
        case Joined() | Following() | Folded():
            yield from _optional(form.left)
            yield from _optional(form.right)
        case _:
            assert_never(form)


def _covered(form: Form) -> Iterator[int]:
    if isinstance(form, Scan):
        yield form.component
    else:
        yield from _covered(form.left)
        yield from _covered(form.right)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
