"""The join processor: all registered joins over one batch of witnesses.

Hong 2009, Algorithms 2 and 4: store the batch, compute the views, evaluate the conjunctive query of
each template that can fire, and forget what no later document can meet.  The caller owns the
storage and its transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from templates.bounded_answers import UNCOUNTED, BoundedAnswers
from templates.columns import (
    Column,
    Columns,
    among,
    chosen,
    columns_of,
    distinct,
    steps,
    together,
    unpack,
    with_valued,
)
from templates.evaluators import ConjunctiveQueries, Evaluator, SmallBatch, arrow_table
from templates.model.conjunctive_query import BACKWARD, FORWARD, R_VJ, BatchView, Views, node
from templates.model.join_graph import INFINITE, LEFT, RIGHT, JoinGraph
from templates.model.relations import TIMES, Witnesses
from templates.model.result_bound import RESULTS, Cut, bounded, grouped
from templates.registry import UNDESIGNATED, Registry
from templates.state.stored_state import StoredState
from templates.state.value_joins import BatchDocuments, Dense, Driven, KeptState, Pass
from templates.storage import RELATIONS, Storage, sql_schema
from templates.template import TemplateRows

if TYPE_CHECKING:
    from templates.text.text_comparisons import TextEdges


SHOWN = 100_000
"""Rows of R_vj of one push that can be read afterwards; the evaluation has no such bound."""

Apart: TypeAlias = Callable[[Column, Column], Column]

FOUND = sql_schema("qid INTEGER, doc1 BIGINT, doc2 BIGINT, nodes INTEGER[]")
NOTHING_FOUND = FOUND.empty_table()


@dataclass(frozen=True, slots=True)
class Pushed:
    """The input and output of stage 2 for the last batch; immutable.

    `bindings` and `times` are the witnesses, `answers` the rows of R_out by template, `made` the
    rows of R_vj by pass.
    """

    bindings: pa.Table
    times: pa.Table
    answers: Mapping[int, Sequence[Columns]]
    made: Mapping[str, Sequence[Columns]]

    @property
    def out(self) -> dict[int, pa.Table]:
        """The rows of R_out as a table for each template, by its number."""
        found = {number: together(parts) for number, parts in self.answers.items()}
        return {number: pa.table(dict(columns)) for number, columns in found.items()}

    def joins(self, name: str) -> pa.Table:
        """Return R_vj of one pass, by the name of its relation (`FORWARD` or `BACKWARD`)."""
        made = self.made.get(name)
        return arrow_table(together(list(made)), R_VJ) if made else R_VJ.empty_table()


class ValuePart(Protocol):
    """The string values whose value joins drive in this process.

    Other processes find the results whose driving value joins have other values.
    """

    def driving(self, weights: Mapping[int, int], *, back: bool) -> Driven:
        """Return the driving value joins, one for each row of R_T.

        `weights` has for each pair of variables of the batch the number of kept links with its
        values.  With `back` the batch is the left side.
        """

    def is_here(self, keys: Column) -> Column:
        """Return a mask of `keys`, numbers of string values: True for those in the part."""


class BatchJoin:
    """One batch through all templates.

    `apart` returns a mask of the pairs of documents that may be joined; None: all.  `evaluator`
    evaluates templates' queries, `of_one` those that may have very many answers, `most` is the
    bound of results.  With a `part` only value joins of its values drive (`state.value_joins`), so
    at least the results that these drive are found.
    """

    def __init__(
        self,
        registry: Registry,
        state: KeptState,
        bindings: pa.Table,
        times: pa.Table,
        *,
        evaluator: Evaluator,
        of_one: SmallBatch,
        most: int,
        apart: Apart | None = None,
        part: ValuePart | None = None,
    ) -> None:
        self.documents = BatchDocuments(times, columns_of(times), state)
        self.columns = with_valued(bindings)
        self.out: dict[int, list[Columns]] = {}
        self._registry = registry
        self.bindings = bindings
        self._apart = apart
        self._part = part
        self._bounded = BoundedAnswers(self.documents, evaluator, of_one, most)
        self._answers = 0  # the number of rows of R_out of all templates
        self.made: dict[str, list[Columns]] = {}  # R_vj in parts, by the name of the pass

    def take(self, found: Iterable[tuple[TemplateRows, Columns]]) -> None:
        """Add rows of R_out to those of their templates, as they are yielded in parts.

        Queries are evaluated meanwhile.
        """
        before = perf_counter()
        for members, columns in found:
            now = perf_counter()
            members.seconds += now - before
            before = now
            self._answers += len(columns["qid"])
            if self._answers > UNCOUNTED:
                columns = self._bounded.within(members.template.graph, columns)
            if len(columns["qid"]):
                self.out.setdefault(members.template.number, []).append(columns)

    def found(self) -> tuple[pa.Table, list[Cut]]:
        """Return the results within the bound (`FOUND`), and the groups that exceed it."""
        parts = [
            _project(together(found), self._registry.members[number].template.graph)
            for number, found in self.out.items()
        ]
        every = pa.concat_tables(parts) if parts else NOTHING_FOUND
        most, cuts = self._bounded.most, list(self._bounded.over)
        if every.num_rows and (every.num_rows > most or cuts):
            every, cuts = bounded(grouped(every, self.documents.ranks), most, cuts)
        return every.select(FOUND.names), cuts

    # -- One side --------------------------------------------------------------------------

    def filter(self) -> None:
        """Evaluate the templates with one side, which read the documents of the batch only."""
        if not self._registry.firing.filters:
            return
        arrived = distinct(self.columns["pair"])
        pairs = set(arrived.tolist())
        reached = self._registry.firing.reached(pairs, two_sided=False)
        live = [members for members in reached if members.can_fire(pairs, pairs)]
        self.take(self._bounded.answers(live, arrived, BatchView(self.columns)))

    # -- Two sides: R_vj -------------------------------------------------------------------

    def join(self, usable: Column, *, back: bool) -> None:
        """Evaluate the templates with two sides (Algorithm 4, line 9).

        `back`: also in the pass that has the batch on the left side.  `usable` is a mask of the
        batch's bindings whose values another document has, too.
        """
        texts = self._registry.texts
        # Rows of compared texts are usable even if no other document has an equal value.
        if texts is not None:
            pairs = self.columns["pair"]
            sides = (texts.near(pairs, side) for side in (LEFT, RIGHT))
            usable = np.logical_or.reduce((usable, *sides))
        if not usable.any():
            return
        for views in (FORWARD, BACKWARD) if back else (FORWARD,):
            self._pass(views, usable)

    def _pass(self, views: str, usable: Column) -> None:
        back, times = views is BACKWARD, self.documents.columns
        asked = self._registry.retention.joined[LEFT if back else RIGHT][self.columns["pair"]] > 0
        batch = chosen(self.columns, np.flatnonzero(usable & asked))
        half = Pass(
            self.documents.state.memory,
            self._registry.retention.horizon(),
            times,
            back,
            int(times["doc"].min()),
            self.exceeding,
            None if self._part is None else self._part.is_here,
        )
        texts = self._registry.texts
        if texts is not None:
            compares = texts.near(batch["pair"], LEFT if back else RIGHT)
            if compares.any():
                self._take_joins(views, self._text_joins(half, texts, chosen(batch, compares)))
                batch = chosen(batch, ~compares)
        of = self._registry.firing if self._part is None else self._part
        self._take_joins(views, half.joins(batch, partial(of.driving, back=back)))

    def _text_joins(self, half: Pass, edges: TextEdges, batch: Columns) -> Iterator[Columns]:
        # imported on demand, since few queries compare texts
        from templates.text.text_pass import TextPass

        state = self.documents.state
        assert isinstance(state, StoredState), "only an engine's state has indexes of texts"
        return TextPass(half, state, edges, self.cut).joins(batch)

    def _take_joins(self, views: str, parts: Iterable[Columns | Dense]) -> None:
        """Evaluate the templates over R_vj of the pass `views`, part by part."""
        shown = self.made.setdefault(views, [])
        size = sum(len(one["docs"]) for one in shown)
        for joins in parts:
            if isinstance(joins, Dense):
                self._answer_dense(joins)
                continue
            joins = self._joinable(joins)
            size += len(joins["docs"])
            if size <= SHOWN:
                shown.append(joins)
            if len(joins["docs"]):
                self._answer(joins)

    def _joinable(self, joins: Columns) -> Columns:
        """Return the rows of R_vj whose two documents may be joined (`apart`)."""
        if self._apart is None or not len(joins["docs"]):
            return joins
        docs, place = np.unique(joins["docs"], return_inverse=True)
        apart = self._apart(*unpack(docs))
        return joins if apart.all() else chosen(joins, apart[place])

    # -- Two sides: the templates' queries -------------------------------------------------

    def _answer(self, joins: Columns) -> None:
        """Evaluate the templates that may have answers, over the rows `joins` of R_vj."""
        left, right = set(joins["pair1"].tolist()), set(joins["pair2"].tolist())
        live = self._registry.firing.joined(left, right)
        views = Views(joins)
        if any(members.others for members in live):
            bindings = self.documents.bindings(np.concatenate((joins["doc1"], joins["doc2"])))
            views = Views(joins, bindings)
            either = set(distinct(bindings["pair"]).tolist())
            live = [m for m in live if m.can_fire(left | either, right | either)]
        self.take(self._bounded.answers(live, distinct(joins["pairs"]), views))

    def _answer_dense(self, dense: Dense) -> None:
        """Evaluate the templates over two documents of which no R_vj was made."""
        times = self.documents.distance(dense.left, dense.right)
        if times is None:
            return
        docs = dense.left, dense.right
        if self._apart is not None and not self._apart(*np.array(docs)[:, None]).all():
            return
        for members in self._registry.firing.reached(_ends(dense.edges), two_sided=True):
            rows = members.any_of(dense.edges)
            self.take(self._bounded.dense(members, rows, docs, times))

    def cut(self, doc: int, edges: Column) -> None:
        """Cut the joins of a newcomer `doc` that need one of `edges`.

        The search for these value joins was not completed, so answers would be missing.
        """
        (rank,) = self.documents.ranks(np.array([doc])).tolist()
        for members in self._registry.firing.reached(_ends(edges), two_sided=True):
            for qid in members.any_of(edges)["qid"].tolist():
                self._bounded.exceed(Cut(qid, rank))

    def exceeding(self, rank: int, edges: Column) -> Column:
        """Return a mask: True for each of the value joins `edges` that only cut joins need.

        These are the joins over the bound of results with the newcomer of this `rank`.
        """
        over = self._bounded.exceeding(rank)
        found = np.full(len(edges), len(over) > 0)
        if found.any():
            for members in self._registry.firing.reached(_ends(edges), two_sided=True):
                for place, _ in enumerate(members.template.graph.equalities):
                    which, rows = members.having(f"e{place}", edges)
                    found[which[~among(members.column("qid", rows), over)]] = False
        return found


def _project(rows: Columns, graph: JoinGraph) -> pa.Table:
    """Return the rows of R_out with the bindings of the output nodes only, without duplicates.

    They are in the order of results: by doc2, doc1, qid, and then the nodes.
    """
    nodes = list(map(node, graph.outputs))
    names = ["doc2", "doc1", "qid", *nodes]
    rows = chosen(rows, np.lexsort([rows[name] for name in reversed(names)]))
    if len(nodes) < len(graph.nodes):
        rows = chosen(rows, steps(*[rows[name] for name in names]))
    size = len(rows["qid"])
    listed = np.stack([rows[name] for name in nodes], axis=1) if nodes else np.empty((size, 0))
    offsets = np.arange(size + 1, dtype=np.int32) * len(nodes)
    of_nodes = pa.ListArray.from_arrays(offsets, pa.array(listed.ravel().astype(np.int32)))
    columns = [pa.array(rows["qid"], pa.int32()), pa.array(rows["doc1"]), pa.array(rows["doc2"])]
    return pa.table([*columns, of_nodes], schema=FOUND)


def _ends(edges: Column) -> set[int]:
    """Return the pairs of variables of value joins, which are packed as (left, right)."""
    return set(distinct(np.concatenate(unpack(edges))).tolist())


# -- Batch after batch -----------------------------------------------------------------------

SMALL_BATCH = 64
"""Largest number of documents in a batch whose queries NumPy evaluates, not DuckDB."""


class JoinedBatch(NamedTuple):
    """The results of a batch (`FOUND`), and the joins that exceed the bound (`Cut`).

    Further the numbers of the documents that are kept with bindings, ascending.
    """

    found: pa.Table
    cuts: list[Cut]
    stored: Column


class Processor:
    """Stage 2: from the witnesses of a batch to the rows of every registered join.

    The queries run over R_vj, made from R_L and R_R (Algorithm 4).
    `budget` is how many bytes of the join state may be in memory; None: all of it.
    A join has at most `most` answers with an arriving document, or none (`result_bound`).
    `pushed` are the input and output of the last batch, to be read between two pushes, `documents`
    its documents; `state` is the join state, whose `evict` the caller calls.
    """

    evaluation = BatchJoin
    documents: BatchDocuments

    def __init__(
        self,
        storage: Storage,
        registry: Registry,
        *,
        budget: int | None = None,
        most: int = RESULTS,
    ) -> None:
        self.most = most
        self._registry = registry
        self.state = StoredState(storage, registry, budget)
        self._queries = ConjunctiveQueries()
        self._small_batch = SmallBatch(self._queries)
        self.pushed = Pushed(RELATIONS["binding"].empty_table(), TIMES.empty_table(), {}, {})

    def template_of(self, qid: int) -> int:
        """Return the number of the template of the join whose row of R_T is `qid`."""
        return self._registry.row(qid).template

    @property
    def result_rows(self) -> dict[str, int]:
        """The number of rows of R_out since the start, by the name of the evaluator."""
        return {"duckdb": self._queries.made, "smallbatch": self._small_batch.made}

    # -- One batch -------------------------------------------------------------------------

    def join(self, witnesses: Witnesses, apart: Apart | None = None) -> JoinedBatch:
        """Store a batch; return the results that it completes, and the cuts (`BatchJoin.found`).

        The column `nodes` has the bindings of the template's output nodes in its order;
        rows are distinct.  doc1 and doc2 are the same for a join of one side.
        Rows of R_T with a designated equality are evaluated elsewhere.
        `apart` says which pairs of documents may be joined; None: all.
        Raises EvaluationError; the caller then rolls back.
        """
        times = witnesses.times
        bindings, usable = self.state.intern(witnesses)
        batch = self.evaluation(
            self._registry,
            self.state,
            bindings,
            times,
            evaluator=self._small_batch if times.num_rows <= SMALL_BATCH else self._queries,
            of_one=self._small_batch,
            most=self.most,
            apart=apart,
        )
        back = self._looks_back(times)
        stored = self.state.add(bindings, times, batch.columns, batch.documents.columns)
        try:
            batch.filter()
            batch.join(usable, back=back)
            found, cuts = batch.found()
        finally:
            if self._queries.lent:
                self._queries.release()
        self.pushed = Pushed(bindings, times, batch.out, batch.made)
        self.documents = batch.documents
        elsewhere = self._registry.elsewhere.rows
        # Rows that are evaluated elsewhere may share pairs with rows that are evaluated here.
        if len(elsewhere):
            here = ~among(found["qid"].to_numpy().astype(np.int64), elsewhere)
            found = found.filter(pa.array(here))
            cuts = [cut for cut in cuts if self._registry.lead(cut.qid) == UNDESIGNATED]
        return JoinedBatch(found, cuts, stored)

    def _looks_back(self, times: pa.Table) -> bool:
        """Return True if documents with these times may be left sides of kept right sides."""
        latest = INFINITE if self._registry.retention.looks_back else self.state.newest.time
        return bool((times["ts"].to_numpy() < latest).any())

    def bounded(self, found: pa.Table, cuts: Sequence[Cut]) -> tuple[pa.Table, list[Cut]]:
        """Return the results of several batches within the bound, and the cuts.

        `found` has the columns of groups (`GROUP`), which are counted over all batches; `cuts` are
        those that the batches had.
        """
        return bounded(found, self.most, cuts)
