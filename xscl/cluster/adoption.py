"""The answers of all cells to a batch, as results of the driver's engine."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from feeds.documents import Document
from templates.batch_join import FOUND
from xscl.cluster.answers import (
    Answer,
    composite_number,
    instant_number,
    moved,
    published_number,
    renumbered,
)
from xscl.documents.composite_events import joined
from xscl.documents.document_log import DocumentOrigin
from xscl.documents.results import Subscription
from xscl.engine.ingest import LateDocument
from xscl.engine.state import EngineState
from xscl.planning.operators.instants import document_number


class Adoption:
    """The answers of all cells to one batch, as results of the driver's engine."""

    def __init__(self, state: EngineState, answers: Sequence[pa.Table]) -> None:
        """Read the answers, and accept what was published; `state` is that of a transaction."""
        self._state = state
        self._answers = [Answer(one) for one in answers]
        documents = self._publish() if any(one.published for one in self._answers) else {}
        self._numbers = [self._numbered(one, documents) for one in self._answers]

    def results(self) -> pa.Table:
        """Return the results (`FOUND`), each once.

        Subscriptions that share results may be in several cells.
        """
        each = zip(self._answers, self._numbers, strict=True)
        found = [self._adopted(answer, numbers) for answer, numbers in each]
        of_cells = [set(pc.unique(one["qid"]).to_pylist()) for one in found]
        repeated = {qid for qid, cells in Counter(chain(*of_cells)).items() if cells > 1}
        table = pa.concat_tables([FOUND.empty_table(), *found])
        return _distinct(table, repeated) if repeated else table

    def late(self) -> list[LateDocument]:
        """Return the documents that operators over time of some cell have missed."""
        each = zip(self._answers, self._numbers, strict=True)
        found = (
            (numbers.get(doc, doc), watermark, lateness)
            for answer, numbers in each
            for doc, watermark, lateness in answer.late
        )
        return list(dict.fromkeys(found))

    def note_cuts(self) -> None:
        """Note at which documents the bound of results has cut a subscription."""
        planned = self._state.dataflow.subscribed
        for key, row, doc in chain.from_iterable(one.cuts for one in self._answers):
            if (known := self._subscription(key)) is not None:
                self._state.dataflow.cuts.adopt(planned.qids(known)[row], {doc: ""})

    def _subscription(self, key: str) -> Subscription | None:
        subscriptions = self._state.subscriptions
        return subscriptions.get(subscriptions.name_of(key))

    def _publish(self) -> dict[str, int]:
        """Accept new published documents; return the numbers of all by their ids.

        They are numbered in the order in which a cell has published them: that of one engine, if
        the cell has all publishers.  So the cell that has published most comes first.
        """
        answers = sorted(self._answers, key=lambda one: -len(one.published))
        described = [one for answer in answers for one in answer.published]
        new: dict[str, dict[str, Any]] = {}
        for one in described:
            if one["xml"] is not None:
                new.setdefault(one["id"], one)
        if new:
            rows = list(new.values())
            arrivals = self._state.documents.accept(
                [
                    Document(tuple(r["streams"]), r["given"], r["ts"], r["xml"], r["history"])
                    for r in rows
                ],
                [DocumentOrigin(r["clock"], r["rank"], r["first"], r["version"]) for r in rows],
            ).arrivals
            if len(arrivals):
                self._state.arrived.append(arrivals)
        ids = pa.array([one["id"] for one in described], pa.string())
        store = self._state.store
        store.lend("asked", pa.table({"id": ids}))
        return dict(store.fetch("SELECT id, doc FROM state.document SEMI JOIN asked USING (id)"))

    def _numbered(self, answer: Answer, documents: Mapping[str, int]) -> dict[int, int]:
        """Return the driver's numbers of what an answer describes."""
        numbers = {
            published_number(place): documents[one["id"]]
            for place, one in enumerate(answer.published)
        }
        for place, (calendar, second) in enumerate(answer.instants):
            stream = self._state.composite_ids.number(calendar)
            numbers[instant_number(place)] = document_number(stream, second)
        for place, composite in enumerate(answer.composites):
            here = moved(composite, numbers)
            numbers[composite_number(place)] = self._state.composites.number(here)
        return numbers

    def _adopted(self, answer: Answer, numbers: Mapping[int, int]) -> pa.Table:
        """Return the results of an answer, with the numbers of the driver."""
        found = renumbered(answer.results, numbers) if numbers else answer.results
        if not found.num_rows:
            return found
        receivers = self._receivers(answer)
        qids, at = np.unique(found["qid"].to_numpy(), return_inverse=True)
        others = [sorted(receivers.get(qid, {})) for qid in qids.tolist()]
        rows = np.repeat(np.arange(len(at)), np.array([len(some) for some in others])[at])
        here = np.array([qid for place in at.tolist() for qid in others[place]], np.int32)
        place = found.schema.get_field_index("qid")
        taken = found.take(rows)
        table = taken.set_column(place, FOUND.field("qid"), pa.array(here, pa.int32()))
        orders = {
            other: order
            for some in receivers.values()
            for other, order in some.items()
            if order is not None
        }
        return self._ordered(table, orders) if orders else table

    def _receivers(self, answer: Answer) -> dict[int, dict[int, _Order | None]]:
        """Return, by the qids of a cell, those here, with the order of variables if it differs."""
        found = defaultdict[int, dict[int, _Order | None]](dict)
        for qid, key, names in answer.readers:
            if (one := self._subscription(key)) is not None:
                here = [name for _, name in one.outputs]
                order = None if here == names else _Order([names.index(n) for n in here], one.split)
                found[qid][one.qid] = order
        return found

    def _ordered(self, table: pa.Table, orders: Mapping[int, _Order]) -> pa.Table:
        """Return results whose nodes are in the order of the variables here."""
        rows = table.to_pylist()
        numbers = {row[name] for row in rows if row["qid"] in orders for name in ("doc1", "doc2")}
        parts = self._state.composites.of(numbers)
        for row in rows:
            if (order := orders.get(row["qid"])) is None:
                continue
            one, other, nodes = row["doc1"], row["doc2"], row["nodes"]
            if len(nodes) == len(order.places):  # both sides are documents
                row["nodes"] = [nodes[place] for place in order.places]
                continue
            whole = joined(parts, one, other, nodes, order.split)
            bound = [place for place in order.places if place < len(whole.nodes)]
            whole = whole._replace(nodes=tuple(whole.nodes[place] for place in bound))
            row["doc1"] = row["doc2"] = self._state.composites.number(whole)
            row["nodes"] = []
        return pa.Table.from_pylist(rows, schema=FOUND)


def _distinct(found: pa.Table, repeated: Collection[int]) -> pa.Table:
    """Return results without the repetitions among those of some streams."""
    known = set[tuple[object, ...]]()
    stays = np.ones(found.num_rows, np.bool_)
    among = pc.is_in(found["qid"], pa.array(sorted(repeated), pa.int32())).to_numpy()
    places = np.flatnonzero(among)
    rows = found.take(places).to_pylist()
    for place, row in zip(places.tolist(), rows, strict=True):
        key = row["qid"], row["doc1"], row["doc2"], tuple(row["nodes"])
        stays[place] = key not in known
        known.add(key)
    return found.filter(pa.array(stays))


class _Order(NamedTuple):
    """The places, in a cell's order, of the variables here; `split` are of the first document."""

    places: Sequence[int]
    split: int
