"""Diagnosis: why a query has no match among the kept documents.

The newest documents of each block are examined, so the cost does not depend on the length of the
past.  If each block has a document that matches its pattern, the closest combination of such
documents is explained, one condition after another.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xscl.errors import TooLong
from xscl.inspection.closest import Closeness
from xscl.inspection.names_seen import NearName
from xscl.inspection.reasons import diagnosis_heading, diagnosis_lines
from xscl.inspection.why import NONE, Edge, Question, Why, why
from xscl.inspection.why.mismatch import Mismatch, mismatch
from xscl.inspection.why.question import Known, known_document, needed_blocks
from xscl.language.unparse import unparse
from xscl.shredding.batch.bind import bind
from xscl.store.queries.stream_documents import count_documents, newest_documents
from xscl.store.store import Store

DOCUMENTS = 200
"""Maximum number of documents of a stream that are examined, the newest first."""
BYTES = 2_000_000
"""Maximum size of these documents; one is examined in any case."""
EXAMINED = 30
"""Maximum number of combinations of documents that are examined condition by condition."""
SECONDS = 2.0
"""Seconds of CPU after which no more documents and combinations are examined."""
TRIAL_SECONDS = 10.0
"""Time limit in seconds of the trial that explains operators over time."""


@dataclass(frozen=True, slots=True)
class BlockFound:
    """A block of a query, with the numbers of documents that were examined and that match it.

    `kept` is the number of documents of its stream.  `needed` is False for what may be absent from
    a match.  If no document matches, `failing` is the part of the block that none passes, and
    `nearest` are the names nearest to the missing one.
    """

    block: str
    stream: str
    kept: int
    examined: int
    matching: int
    needed: bool = True
    failing: str | None = None
    nearest: tuple[NearName, ...] = ()


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The reasons why a query has no match among the kept documents.

    `closest` explains the documents that come nearest to a match; None if a block has no document,
    or the trial of operators over time takes too long.
    """

    query: str
    blocks: tuple[BlockFound, ...]
    closest: Why | None = None

    @property
    def heading(self) -> str:
        """The query, and the answer if its closest documents match."""
        return diagnosis_heading(self)

    def lines(self, waiting: int = 0) -> Iterator[str]:
        """Yield the diagnosis as text: a line for each block, then the closest documents.

        `waiting` documents are not consumed yet; they may be of a stream that has none.
        """
        return diagnosis_lines(self, waiting)

    def as_dict(self) -> dict[str, Any]:
        """Return the diagnosis as JSON values."""
        closest = None if self.closest is None else self.closest.as_dict()
        return {"query": self.query, "blocks": [asdict(one) for one in self.blocks]} | {
            "closest": closest
        }


def diagnose(
    store: Store, question: Question, *, updates: bool, begin: int, match: Why | None = None
) -> Diagnosis:
    """Return why a query has no match among the kept documents.

    The `question` has no documents yet; its `attempt` raises TooLong.  With a subscription only
    what that one sees can match.  `updates` lets new versions match, `begin` is the earliest time
    of documents.  `match` explains a match that it has.
    """
    return _Diagnosis(store, question, updates, begin).made(match)


class _Diagnosis:
    """One diagnosis while documents are examined."""

    def __init__(self, store: Store, question: Question, updates: bool, begin: int) -> None:
        self._store = store
        self._asked = question
        self._updates = updates
        self._begin = begin
        self._until = time.thread_time() + SECONDS
        self._needed = needed_blocks(question.query)

    def made(self, closest: Why | None) -> Diagnosis:
        """Examine the documents; `closest` explains a match, if there is one."""
        query = self._asked.query
        documents = {stream: self._documents(stream) for stream in query.streams}
        kept = {stream: self._kept(stream) for stream in query.streams}
        blocks, matching = [], {}
        for place, block in enumerate(query.normal.blocks):
            if block.is_calendar:
                continue
            known = documents[block.stream]
            found = [
                one
                for one in known
                if bind(query.patterns[place], one.tree, {})[query.patterns[place].main]
            ]
            failing = None if found or not known else mismatch(block, [one.tree for one in known])
            matching[place] = found
            failed = failing or Mismatch("")
            blocks.append(
                BlockFound(
                    *(unparse(block), block.stream, kept[block.stream], len(known), len(found)),
                    *(place in self._needed, failed.text or None, failed.nearest),
                )
            )
        if closest is None and self._needed and all(matching[place] for place in self._needed):
            closest = self._closest({place: matching[place] for place in sorted(self._needed)})
        return Diagnosis(self._asked.label, tuple(blocks), closest)

    def _kept(self, stream: str) -> int:
        return count_documents(self._store, stream, begin=self._begin, updates=self._updates)

    def _documents(self, stream: str) -> list[Known]:
        """Return the newest documents of a stream, within the bounds."""
        rows = newest_documents(
            self._store, stream, begin=self._begin, updates=self._updates, limit=DOCUMENTS
        )
        found: list[Known] = []
        size = 0
        for row in rows:
            size += len(row["xml"])
            if found and (size > BYTES or time.thread_time() > self._until):
                break
            found.append(known_document(row, bytes(row["xml"])))
        return found

    def _closest(self, matching: Mapping[int, Sequence[Known]]) -> Why | None:
        """Explain the combination of documents with the fewest failing conditions."""
        best: tuple[tuple[int, int], Question] | None = None
        closeness = Closeness(self._asked.query)
        for number, chosen in enumerate(closeness.combinations(matching)):
            if number == EXAMINED or (best is not None and time.thread_time() > self._until):
                break
            question = replace(self._question(chosen), attempt=lambda _: ())
            rank = _failing(why(question).edges), number
            if best is None or rank < best[0]:
                best = rank, question
        if best is None:
            return None
        documents = dict(enumerate(best[1].documents))
        chosen = {place: one for place, one in documents.items() if one is not None}
        try:
            question = self._question(chosen)
            return why(*([question.in_own_time()] if question.counts_in_own_time else []), question)
        except TooLong:
            return None

    def _question(self, chosen: Mapping[int, Known]) -> Question:
        documents = [chosen.get(place) for place in range(len(self._asked.query.normal.blocks))]
        names = [NONE if one is None else one.stored.id for one in documents]
        return self._asked.about(names, documents, False, "none of its matches is kept")


def _failing(edges: Sequence[Edge]) -> int:
    return sum(not edge.holds for edge in edges)
