"""Findings: the results of a cell's transactions, collected to the answer to a task."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from templates.batch_join import FOUND
from xscl.cluster.answers import (
    ANSWER,
    COMPOSITE,
    PUBLISHED,
    composite_number,
    instant_number,
    moved,
    published_number,
    renumbered,
)
from xscl.documents.composite_events import Composite
from xscl.documents.document_log import LEVELS
from xscl.documents.results import Subscription
from xscl.engine.ingest import LateDocument
from xscl.engine.state import MADE_FROM, EngineState
from xscl.planning.operators.instants import stream_and_second


def _all(_: EngineState, found: pa.Table) -> pa.Table:
    """Return all results: those of a slice."""
    return found


@dataclass(slots=True)
class Findings:
    """Collects what the transactions of a task have found; `keys` are of those that answer here.

    `own` returns the results of a transaction that belong to the cell.
    """

    keys: frozenset[str]
    own: Callable[[EngineState, pa.Table], pa.Table] = _all
    _results: list[pa.Table] = field(default_factory=list)
    _readers: dict[int, list[Subscription]] = field(default_factory=dict)
    _composites: list[Composite] = field(default_factory=list)
    _published: list[dict[str, Any]] = field(default_factory=list)
    _instants: list[dict[str, Any]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _cuts: list[tuple[str, int, int]] = field(default_factory=list)
    _late: list[LateDocument] = field(default_factory=list)

    def observe(self, state: EngineState, found: pa.Table, late: Sequence[LateDocument]) -> None:
        """Add the results of a transaction, before its commit."""
        for arrivals in state.arrived:
            if len(arrivals) and arrivals.docs[0] >= MADE_FROM:
                self._describe(state, arrivals.docs.tolist(), arrivals.xml)
        found = self.own(state, found)
        for qid in pc.unique(found["qid"]).to_pylist():
            sharers = state.subscriptions.by_qid.get(qid, ())
            here = (one for one in sharers if one.key in self.keys)
            self._readers[qid] = sorted(here, key=lambda one: one.key)
        read = [qid for qid, readers in self._readers.items() if readers]
        results = found.filter(pc.is_in(found["qid"], pa.array(read, pa.int32())))
        if results.num_rows:
            self._results.append(self._translated(state, results))
        if state.dataflow.cuts.pending:
            self._add_cuts(state)
        self._late += (
            (self._known(state, [doc])[doc], watermark, lateness)
            for doc, watermark, lateness in late
        )

    def _translated(self, state: EngineState, found: pa.Table) -> pa.Table:
        made = {
            number
            for name in ("doc1", "doc2")
            for number in pc.unique(found[name]).to_pylist()
            if number >= MADE_FROM
        }
        return renumbered(found, self._known(state, made)) if made else found

    def _known(self, state: EngineState, numbers: Iterable[int]) -> Mapping[int, int]:
        """Describe what has some numbers of the cell, and return all numbers in the answer."""
        new = {one for one in numbers if one >= MADE_FROM and one not in self._numbers}
        parts = state.composites.of(new) if new else {}
        documents = [number for number in sorted(new) if parts[number].docs == (number,)]
        composites = sorted(new.difference(documents))
        within = {
            doc for number in composites for doc in (*parts[number].docs, *parts[number].bases)
        }
        documents += (one for one in within if one >= MADE_FROM and one not in self._numbers)
        self._describe(state, sorted(set(documents)))
        for number in sorted(one for one in within if one < 0 and one not in self._numbers):
            stream, second = stream_and_second(number)
            self._numbers[number] = instant_number(len(self._instants))
            calendar = state.composite_ids.definition(stream)
            self._instants.append({"calendar": calendar, "second": second})
        for number in composites:
            self._numbers[number] = composite_number(len(self._composites))
            self._composites.append(moved(parts[number], self._numbers))
        return {one: self._numbers.get(one, one) for one in (*numbers, *new)}

    def _describe(
        self, state: EngineState, docs: Sequence[int], texts: Sequence[bytes] = ()
    ) -> None:
        """Add published documents, with their texts if they are new."""
        if not docs:
            return
        asked = ", ".join(map(str, docs))
        rows = state.store.fetch(
            "SELECT doc, id, given, streams, ts, clock, rank, first, version, history"
            f" FROM state.document WHERE doc IN ({asked}) ORDER BY doc"
        )
        xml = dict(zip(docs, texts, strict=True)) if texts else {}
        names = [one.name for one in PUBLISHED]
        for doc, *row in rows:
            self._numbers[doc] = published_number(len(self._published))
            values = (*row, xml.get(doc))
            self._published.append(dict(zip(names, values, strict=True)))

    def _add_cuts(self, state: EngineState) -> None:
        """Add which documents were cut of which joins of the subscriptions that answer here."""
        subscribed = state.dataflow.subscribed
        docs_of = defaultdict[int, list[int]](list)
        for rank, qids in state.dataflow.cuts.pending.items():
            for qid in qids:
                docs_of[qid].append(rank // LEVELS)
        for one in state.subscriptions:
            if one.key in self.keys:
                for place, qid in enumerate(subscribed.qids(one)):
                    self._cuts += ((one.key, place, doc) for doc in sorted(docs_of.get(qid, ())))

    def table(self) -> pa.Table:
        """Return the answer (`ANSWER`)."""
        results = pa.concat_tables([FOUND.empty_table(), *self._results]).combine_chunks()
        (rows,) = results.to_struct_array().chunks or [pa.array([], pa.struct(FOUND))]
        readers = [
            {"qid": qid, "key": one.key, "outputs": [name for _, name in one.outputs]}
            for qid, some in sorted(self._readers.items())
            for one in some
        ]
        cuts = [dict(zip(("key", "row", "doc"), one, strict=True)) for one in self._cuts]
        names = "doc", "watermark", "lateness"
        late = [dict(zip(names, one, strict=True)) for one in self._late]
        fields = [one.name for one in COMPOSITE]
        composites = [dict(zip(fields, one, strict=True)) for one in self._composites]
        columns = (readers, composites, self._published, self._instants, cuts, late)
        listed = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
        arrays = [
            pa.array([one], kind) for one, kind in zip(columns, ANSWER.types[1:], strict=True)
        ]
        return pa.Table.from_arrays([listed, *arrays], schema=ANSWER)
