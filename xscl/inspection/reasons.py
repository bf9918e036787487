"""The answers of `why` and of a diagnosis, as lines of text and as JSON.

It loads no engine: a command prints in the same words what a service has found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from xscl.language.names import EVERYTHING
from xscl.plurals import counted
from xscl.time_format import duration, in_zone

if TYPE_CHECKING:
    from xscl.client import answers

NONE = "-"
"""In place of a document: there is none, as after ELSE and NOT FOLLOWED BY."""

EdgeKind: TypeAlias = Literal["pattern", "value", "time", "order", "registration"]


@dataclass(frozen=True, slots=True)
class Edge:
    """A condition of a match with its truth value; `nearest` has the deciding or closest values."""

    kind: EdgeKind
    text: str
    holds: bool
    nearest: str | None = None
    pending: bool = False
    """True if time may still fulfil it."""


@dataclass(frozen=True, slots=True)
class Why:
    """The result of `why`: if a query matches some documents, with the edges that decide it."""

    query: str
    documents: tuple[str, ...]
    matched: bool
    edges: tuple[Edge, ...]

    def lines(self) -> Iterator[str]:
        """Yield the answer as text, one edge a line."""
        return why_lines(self)

    def as_dict(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {
            "query": self.query,
            "documents": list(self.documents),
            "matched": self.matched,
            "edges": [asdict(edge) for edge in self.edges],
        }


@dataclass(frozen=True, slots=True)
class SeenName:
    """A name that was seen, with the number of documents that have it."""

    name: str
    documents: int


@dataclass(frozen=True, slots=True)
class ExaminedBlock:
    """A block of a query, with the numbers of documents that were examined and that match it.

    `kept` is the number of documents of its stream.  `needed` is False for a block that a match may
    lack.  If no document matches, `failing` is the part of the block that none passes, and
    `nearest` are the names nearest to the missing one.
    """

    block: str
    stream: str
    kept: int
    examined: int
    matching: int
    needed: bool = True
    failing: str | None = None
    nearest: tuple[SeenName, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reasons why a query has no match among the kept documents.

    `closest` explains the documents that come nearest to a match; None if a block has no document,
    or the trial of operators over time takes too long.  It is about the current `version` of a
    subscription: earlier ones may have matches.
    """

    query: str
    blocks: tuple[ExaminedBlock, ...]
    closest: Why | None = None
    version: int = 1

    @property
    def heading(self) -> str:
        """The first line of the text: the query, and the answer if its closest documents match."""
        return diagnosis_heading(self)

    @property
    def lacks_documents(self) -> bool:
        """True if the stream of at least one block has no documents."""
        return any(not block.kept for block in self.blocks)

    def lines(self, waiting: int = 0) -> Iterator[str]:
        """Yield the diagnosis as text: a line for each block, then the closest documents.

        `waiting` documents are not consumed yet; they may be of a stream that has none.
        """
        return diagnosis_lines(self, waiting)

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as JSON values."""
        closest = None if self.closest is None else self.closest.as_dict()
        blocks = [asdict(block) for block in self.blocks]
        return {
            "query": self.query,
            "blocks": blocks,
            "closest": closest,
            "version": self.version,
        }


AnyWhy: TypeAlias = "Why | answers.Why"
AnyDiagnosis: TypeAlias = "Diagnosis | answers.Diagnosis"


def why_lines(found: AnyWhy) -> Iterator[str]:
    """Yield the explanation of some documents, one condition a line."""
    verb = "matches" if found.matched else "does not match"
    waits = not found.matched and all(one.holds or one.pending for one in found.edges)
    yield f"{found.query} {verb} {_documents(found)}{' yet' if waits else ''}"
    for edge in found.edges:
        sign = "holds" if edge.holds else "waits" if edge.pending else "FAILS"
        near = "" if edge.nearest is None else f": {edge.nearest}"
        if edge.pending:  # times in it are of the engine, not values of documents
            near = in_zone(near)
        yield f"  {sign}  {edge.kind:<12}  {edge.text}{near}"


def _documents(found: AnyWhy) -> str:
    """Return the documents of an explanation as text, without the sides that are absent."""
    there = [name for name in found.documents if name != NONE]
    return ", ".join(there) + (" alone" if len(there) < len(found.documents) else "")


def diagnosis_heading(found: AnyDiagnosis) -> str:
    """Return a diagnosis's heading: the query, and the answer if its closest documents match."""
    matched = found.closest is not None and found.closest.matched
    version = "" if found.version == 1 else f"version {found.version} of "
    return f"{version}{found.query} {'has matches' if matched else 'has no match so far'}"


def diagnosis_lines(found: AnyDiagnosis, waiting: int = 0) -> Iterator[str]:
    """Yield a diagnosis: a line for each block, then the closest documents.

    `waiting` documents are not consumed yet; they may be of a stream that has none.
    """
    for block in found.blocks:
        newest = "" if block.examined == block.kept else "the newest "
        documents = f"{newest}{counted(block.examined, 'document')}"
        yield f"  {block.matching:,} of {documents} of {block.stream} match {block.block}"
        if not block.kept and waiting:
            wait = "waits" if waiting == 1 else "wait"
            yield f"        {counted(waiting, 'document')} {wait} to be read: try again soon"
        elif not block.kept:
            tag = "" if block.stream == EVERYTHING else f" --tag {block.stream}"
            yield (
                f"        nothing has come on {block.stream}: 'xscl feeds add URL{tag}' follows a"
                f" feed, 'xscl push --stream {block.stream} FILE' sends documents"
            )
        if block.failing is not None:
            yield f"        {block.failing}"
        if block.nearest:
            yield f"        near: {names_text(block.nearest)}"
    if found.closest is not None:
        _, *edges = why_lines(found.closest)
        closest = "a match" if found.closest.matched else "closest to a match"
        yield f"  {closest}: {_documents(found.closest)}"
        yield from (f"  {line}" for line in edges)


def names_text(nearest: Sequence[SeenName | answers.NearName]) -> str:
    """Return near names as text: `title (15 documents)`."""
    return ", ".join(f"{one.name} ({counted(one.documents, 'document')})" for one in nearest)


def late_note(late: int, lateness: int) -> str:
    """Return a remark on `late` documents that came too late for a tried query; "" for none.

    `lateness` is that of the query, in ticks.
    """
    if not late:
        return ""
    verb = "was" if late == 1 else "were"
    return (
        f"{counted(late, 'document')} {verb} too late for this query (lateness"
        f" {duration(lateness)})"
    )
