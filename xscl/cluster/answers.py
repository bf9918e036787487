"""Answers of cells: the results of the entries of a task, and how the driver stores them.

Documents have the driver's numbers in all cells.  What a cell has made itself, composites and
published documents, has numbers of its own, so an answer describes it:

    MADE_FROM + 2 i       composite i of the answer
    MADE_FROM + 2 i + 1   published document i of the answer

An answer is an Arrow file with one row of lists.  It follows from the log alone: equal bytes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from feeds.documents import Document
from templates.batch_join import FOUND
from xscl.documents.composite_events import Composite, composite_of, joined
from xscl.documents.document_log import LEVELS, DocumentOrigin
from xscl.documents.results import Subscription
from xscl.engine.ingest import LateDocument
from xscl.engine.state import MADE_FROM, EngineState

_COMPOSITE = pa.struct(
    [
        ("docs", pa.list_(pa.int64())),
        ("nodes", pa.list_(pa.int32())),
        ("vals", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("start", "ts", "clock", "rank", "first")),
        ("version", pa.int32()),
        ("bases", pa.list_(pa.int64())),
    ]
)
_PUBLISHED = pa.struct(
    [
        ("id", pa.string()),
        ("given", pa.string()),
        ("streams", pa.list_(pa.string())),
        *((name, pa.int64()) for name in ("ts", "clock", "rank", "first")),
        ("version", pa.int32()),
        ("history", pa.bool_()),
        ("xml", pa.binary()),  # null if it was published before these entries
    ]
)
ANSWER = pa.schema(
    {
        "results": pa.list_(pa.struct(FOUND)),
        "readers": pa.list_(
            pa.struct({"qid": pa.int32(), "key": pa.string(), "outputs": pa.list_(pa.string())})
        ),
        "composites": pa.list_(_COMPOSITE),
        "published": pa.list_(_PUBLISHED),
        "cuts": pa.list_(pa.struct({"key": pa.string(), "row": pa.int32(), "doc": pa.int64()})),
        "late": pa.list_(
            pa.struct({name: pa.int64() for name in ("doc", "watermark", "lateness")})
        ),
    }
)
"""`readers`: the keys of the subscriptions that have the results of a `qid` of the cell, and the
variables of these in their order, which another engine may have in another one: equal embeddings of
a query in its template are told apart by what was registered before.  A cut is one of the `row`-th
row of R_T of a subscription."""


# -- In a cell -----------------------------------------------------------------------------


@dataclass(slots=True)
class Findings:
    """Collects what the transactions of a task have found; `keys` are of those that answer here."""

    keys: frozenset[str]
    _results: list[pa.Table] = field(default_factory=list)
    _readers: dict[int, list[Subscription]] = field(default_factory=dict)
    _composites: list[Composite] = field(default_factory=list)
    _published: list[dict[str, Any]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _cuts: list[tuple[str, int, int]] = field(default_factory=list)
    _late: list[LateDocument] = field(default_factory=list)

    def observe(self, state: EngineState, found: pa.Table, late: Sequence[LateDocument]) -> None:
        """Add the results of a transaction, before its commit."""
        for arrivals in state.arrived:
            if len(arrivals) and arrivals.docs[0] >= MADE_FROM:
                self._describe(state, arrivals.docs.tolist(), arrivals.xml)
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
        return _renumbered(found, self._known(state, made)) if made else found

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
        for number in composites:
            self._numbers[number] = MADE_FROM + 2 * len(self._composites)
            self._composites.append(_moved(parts[number], self._numbers))
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
        names = [one.name for one in _PUBLISHED]
        for doc, *row in rows:
            self._numbers[doc] = MADE_FROM + 2 * len(self._published) + 1
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
        fields = [one.name for one in _COMPOSITE]
        composites = [dict(zip(fields, one, strict=True)) for one in self._composites]
        columns = (readers, composites, self._published, cuts, late)
        listed = pa.ListArray.from_arrays(pa.array([0, len(rows)], pa.int32()), rows)
        arrays = [
            pa.array([one], kind) for one, kind in zip(columns, ANSWER.types[1:], strict=True)
        ]
        return pa.Table.from_arrays([listed, *arrays], schema=ANSWER)


def _moved(one: Composite, numbers: Mapping[int, int]) -> Composite:
    """Return a composite whose documents have other numbers."""
    return one._replace(
        docs=tuple(numbers.get(doc, doc) for doc in one.docs),
        bases=tuple(numbers.get(doc, doc) for doc in one.bases),
    )


def _renumbered(found: pa.Table, numbers: Mapping[int, int]) -> pa.Table:
    """Return results whose documents and composites have other numbers."""
    known = np.array(sorted(numbers), np.int64)
    others = np.array([numbers[one] for one in known.tolist()], np.int64)
    for name in ("doc1", "doc2"):
        column: npt.NDArray[np.int64] = found[name].to_numpy()
        at = np.minimum(np.searchsorted(known, column), len(known) - 1)
        moved = np.where(known[at] == column, others[at], column)
        place = found.schema.get_field_index(name)
        found = found.set_column(place, found.schema.field(name), pa.array(moved, pa.int64()))
    return found


# -- In the driver -------------------------------------------------------------------------


class Adoption:
    """The answers of all cells to one batch, as results of the driver's engine."""

    def __init__(self, state: EngineState, answers: Sequence[pa.Table]) -> None:
        """Read the answers, and accept what was published; `state` is that of a transaction."""
        self._state = state
        self._answers = [_Answer(one) for one in answers]
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
        """Accept new published documents; return the numbers of all by their ids."""
        described = [one for answer in self._answers for one in answer.published]
        new = {one["id"]: one for one in described if one["xml"] is not None}
        if new:
            rows = sorted(new.values(), key=lambda one: (one["rank"], one["id"]))
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

    def _numbered(self, answer: _Answer, documents: Mapping[str, int]) -> dict[int, int]:
        """Return the driver's numbers of what an answer describes."""
        numbers = {
            MADE_FROM + 2 * place + 1: documents[one["id"]]
            for place, one in enumerate(answer.published)
        }
        for place, composite in enumerate(answer.composites):
            moved = _moved(composite, numbers)
            numbers[MADE_FROM + 2 * place] = self._state.composites.number(moved)
        return numbers

    def _adopted(self, answer: _Answer, numbers: Mapping[int, int]) -> pa.Table:
        """Return the results of an answer, with the numbers of the driver."""
        found = _renumbered(answer.results, numbers) if numbers else answer.results
        if not found.num_rows:
            return found
        receivers = self._receivers(answer)
        qids, at = np.unique(found["qid"].to_numpy(), return_inverse=True)
        others = [sorted(receivers.get(qid, {})) for qid in qids.tolist()]
        rows = np.repeat(np.arange(len(at)), np.array([len(some) for some in others])[at])
        moved = np.array([qid for place in at.tolist() for qid in others[place]], np.int32)
        place = found.schema.get_field_index("qid")
        taken = found.take(rows)
        table = taken.set_column(place, FOUND.field("qid"), pa.array(moved, pa.int32()))
        orders = {
            other: order
            for some in receivers.values()
            for other, order in some.items()
            if order is not None
        }
        return self._ordered(table, orders) if orders else table

    def _receivers(self, answer: _Answer) -> dict[int, dict[int, _Order | None]]:
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


class _Answer:
    """An answer as it was read."""

    def __init__(self, table: pa.Table) -> None:
        def rows(name: str) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = table[name][0].as_py()
            return found

        self.results = pa.Table.from_struct_array(table["results"].combine_chunks().flatten())
        self.readers = [(one["qid"], one["key"], one["outputs"]) for one in rows("readers")]
        self.composites = [composite_of(list(one.values())) for one in rows("composites")]
        self.published = rows("published")
        self.cuts = [(one["key"], one["row"], one["doc"]) for one in rows("cuts")]
        self.late = [(one["doc"], one["watermark"], one["lateness"]) for one in rows("late")]
