"""The answer: whether the documents match, and the edges that decide it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from xscl.inspection.reasons import why_lines
from xscl.inspection.why.examination import Examination
from xscl.inspection.why.question import Edge, Question


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


def why(*questions: Question) -> Why:
    """Explain why a query matches the documents of its blocks, or why not.

    Of several questions about the same documents, the first counts whose answer has a reason.
    """
    question, edges = questions[0], Examination(questions[0]).edges()
    for other in questions[1:]:
        if question.found is False and _hold(edges):
            question, edges = other, Examination(other).edges()
    if question.found is False and _hold(edges):
        text = f"{question.label} has the match"
        edges = (*edges, Edge("registration", text, False, question.lost))
    return Why(question.label, question.names, _hold(edges), edges)


def _hold(edges: Sequence[Edge]) -> bool:
    return all(edge.holds for edge in edges)
