"""Diagnosis: why a query has no match among the kept documents.

The newest documents of each block are examined, so the cost does not depend on the length of the
past.  If each block has a document that matches its pattern, the closest combination of such
documents is explained, one condition after another.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from xscl.errors import TooLong
from xscl.inspection.reasons import Diagnosis, ExaminedBlock, Why
from xscl.inspection.why import NONE, WhyQuestion, why
from xscl.inspection.why.mismatch import Mismatch, mismatch
from xscl.inspection.why.question import KnownDocument, known_document, needed_blocks, paired_blocks
from xscl.inspection.why.values import Choices
from xscl.language.functions import number
from xscl.language.names import with_prefixes
from xscl.language.parser import parse
from xscl.language.scope import distinct_names, here, rewritten, variables, walk
from xscl.language.syntax import Comparison, Operand
from xscl.language.unparse import unparse
from xscl.language.valuejoin import is_numeric
from xscl.planning.compile import CompiledQuery
from xscl.shredding.batch.bind import bind
from xscl.shredding.conditions.residual import texts_of
from xscl.shredding.nodes import COMPARISONS
from xscl.store.queries.documents import count_documents, newest_documents
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


def diagnose(
    store: Store, question: WhyQuestion, *, updates: bool, begin: int, match: Why | None = None
) -> Diagnosis:
    """Return why a query has no match among the kept documents.

    The `question` has no documents yet; its `attempt` raises TooLong.  If it has a subscription,
    only documents that this one sees can match.  `updates` lets new versions match, `begin` is the
    earliest time of documents, in ticks.  `match` explains a match that
    the subscription has; it becomes `closest`.
    """
    return _Diagnosis(store, question, updates, begin).made(match)


class _Diagnosis:
    """Examines documents for one diagnosis."""

    def __init__(self, store: Store, question: WhyQuestion, updates: bool, begin: int) -> None:
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
            kept = count_documents(
                self._store, block.stream, begin=self._begin, updates=self._updates
            )
            examined = ExaminedBlock(
                block=with_prefixes(unparse(block), query.prefixes),
                stream=block.stream,
                kept=kept,
                examined=len(known),
                matching=len(found),
                needed=place in self._needed,
                failing=failed.text or None,
                nearest=failed.nearest,
            )
            blocks.append(examined)
        # Of an outer join no block is needed, but one of them has a document.
        # A query of calendars may need none either: its instants have no documents to show.
        shown = self._needed or not query.calendars
        wanted = sorted(paired_blocks(query.normal.form)) if shown else ()
        if closest is None and wanted and all(matching[place] for place in wanted):
            closest = self._closest({place: matching[place] for place in wanted})
        one = self._asked.subscription
        version = 1 if one is None else one.version
        return Diagnosis(self._asked.label, tuple(blocks), closest, version)

    def _documents(self, stream: str) -> list[KnownDocument]:
        """Return the newest documents of a stream, at most `DOCUMENTS` and about `BYTES` bytes."""
        rows = newest_documents(
            self._store, stream, begin=self._begin, updates=self._updates, limit=DOCUMENTS
        )
        found: list[KnownDocument] = []
        size = 0
        for row in rows:
            size += len(row["xml"])
            if found and (size > BYTES or time.thread_time() > self._until):
                break
            found.append(known_document(row, bytes(row["xml"])))
        return found

    def _closest(self, matching: Mapping[int, Sequence[KnownDocument]]) -> Why | None:
        """Explain the combination of documents with the fewest failing conditions.

        Return None if that takes too long.
        """
        best: tuple[tuple[int, int], WhyQuestion] | None = None
        closeness = Closeness(self._asked.query)
        try:
            for at, chosen in enumerate(closeness.combinations(matching)):
                if at == EXAMINED or (best is not None and time.thread_time() > self._until):
                    break
                question = replace(self._question(chosen), attempt=lambda _: ())
                rank = sum(not edge.holds for edge in why(question).edges), at
                if best is None or rank < best[0]:
                    best = rank, question
            if best is None:
                return None
            documents = dict(enumerate(best[1].documents))
            chosen = {place: one for place, one in documents.items() if one is not None}
            question = self._question(chosen)
            return why(*([question.in_own_time()] if question.counts_in_own_time else []), question)
        except TooLong:
            return None

    def _question(self, chosen: Mapping[int, KnownDocument]) -> WhyQuestion:
        documents = [chosen.get(place) for place in range(len(self._asked.query.normal.blocks))]
        names = [NONE if document is None else document.stored.id for document in documents]
        return self._asked.about(names, documents, False)


# -- Combinations of documents that come close to a match ------------------------------------

# A beam search: the documents of one block after another join the best combinations so far.
# Combinations are ranked by the comparisons between their documents, then by distance in time.

BEAM = 60
"""Number of combinations that are kept from block to block."""
VALUES = 40
"""Maximum number of values of a variable in a document that are compared."""

_LEAST = 0.2
"""The least distance of texts that are not equal."""


class _Values(NamedTuple):
    """The values of an operand in a document: texts, and their words in small letters."""

    texts: frozenset[str]
    words: frozenset[str]


@dataclass(order=True, slots=True)
class _Combination:
    distance: float
    span: int
    chosen: dict[int, KnownDocument] = field(compare=False)


class Closeness:
    """Measures how close combinations of documents come to a match of one query."""

    def __init__(self, query: CompiledQuery) -> None:
        self._query = query
        self._between: dict[int, list[tuple[int, Comparison]]] = {}  # earlier block by later
        self._known: dict[tuple[int, int, Operand], _Values] = {}
        self._choices: dict[tuple[int, int], Choices] = {}
        expression = distinct_names(parse(query.source).expression)
        for node in walk(expression):
            if isinstance(node, Comparison):
                sides = [self._place(side) for side in (node.left, node.right)]
                known = [side for side in sides if side is not None]
                if len(set(known)) == 2:
                    self._between.setdefault(max(known), []).append((min(known), node))

    def combinations(
        self, documents: Mapping[int, Sequence[KnownDocument]]
    ) -> Iterator[Mapping[int, KnownDocument]]:
        """Yield combinations of one document for each block, the closest to a match first.

        `documents` and combinations are by the number of the block.
        """
        beam = [_Combination(0.0, 0, {})]
        for place, candidates in documents.items():
            longer = [
                one
                for before in beam
                for known in candidates
                if (one := self._extended(before, place, known)) is not None
            ]
            beam = sorted(longer)[:BEAM] if place else longer
        yield from (one.chosen for one in sorted(beam))

    def _place(self, operand: Operand) -> int | None:
        """Return the block of the only variable of an operand; None if it has none or several."""
        names = variables(operand)
        return self._query.normal.places.get(names[0]) if len(names) == 1 else None

    def _extended(
        self, before: _Combination, place: int, known: KnownDocument
    ) -> _Combination | None:
        """Return a combination with a document for one more block, whose number is `place`.

        None if the combination has a version of the document already.
        """
        if any(one.stored.base == known.stored.base for one in before.chosen.values()):
            return None
        chosen = {**before.chosen, place: known}
        distance = before.distance
        for earlier, comparison in self._between.get(place, ()):
            if earlier in chosen:
                sides = (self._values(chosen, side) for side in (comparison.left, comparison.right))
                distance += _distance(comparison, *sides)
        times = [one.stored.ts for one in chosen.values()]
        return _Combination(distance, max(times) - min(times), chosen)

    def _values(self, chosen: Mapping[int, KnownDocument], operand: Operand) -> _Values:
        place = self._place(operand)
        assert place is not None, "only operands of one block are compared"
        key = place, chosen[place].stored.doc, operand
        if key not in self._known:
            choices = self._choices.get(key[:2])
            if choices is None:
                trees = {place: chosen[place].tree}
                choices = self._choices[key[:2]] = Choices(self._query.patterns, trees)
            texts, (name,) = texts_of(rewritten(operand, here)), variables(operand)
            found = [text for item in choices.items(name) for text in texts(item)][:VALUES]
            words = (word for text in found for word in text.casefold().split())
            self._known[key] = _Values(frozenset(found), frozenset(words))
        return self._known[key]


def _distance(comparison: Comparison, left: _Values, right: _Values) -> float:
    """Return the distance of two operands' values from satisfying a comparison, from 0 to 1.

    It is 0 if some values satisfy the comparison, and 1 if an operand has no values.
    """
    operator = comparison.operator
    if not left.texts or not right.texts:
        return 1.0
    if operator == "=":
        common = len(left.words & right.words) / max(1, len(left.words | right.words))
        return 0.0 if left.texts & right.texts else 1.0 - common * (1.0 - _LEAST)
    if operator != "!=" and (is_numeric(comparison.left) or is_numeric(comparison.right)):
        return _order_distance(operator, map(number, left.texts), list(map(number, right.texts)))
    holds = COMPARISONS[operator]
    return 1.0 - any(holds(text, other) for text in left.texts for other in right.texts)


def _order_distance(operator: str, lefts: Iterable[float], rights: Sequence[float]) -> float:
    """Return the smallest gap by which numbers miss an order, relative to their size.

    0 if some pair of them is in the order, 1 without numbers.
    """
    sign = 1 if operator in ("<", "<=") else -1
    gaps = [
        sign * (left - other) / (1.0 + abs(left) + abs(other)) for left in lefts for other in rights
    ]
    return min((max(0.0, gap) for gap in gaps if gap == gap), default=1.0)
