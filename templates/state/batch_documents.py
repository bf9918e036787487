"""The documents of a batch and the kept ones: their times and their bindings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from templates.columns.columns import Column, Columns, among, chosen, distinct
from templates.state.join_state import JoinState
from templates.state.value_joins import measures_of


class KeptState(Protocol):
    """The owner of the join state that a batch is joined with."""

    @property
    def memory(self) -> JoinState:
        """The join state in memory."""


@dataclass(frozen=True, slots=True)
class BatchDocuments:
    """Documents of a batch, by their times (R_docTSW, with its columns), beside the join state."""

    times: pa.Table
    columns: Columns
    state: KeptState

    def ranks(self, docs: Column) -> Column:
        """Return the places of documents in the order of arrival.

        It is -1 for documents that are neither in the batch nor kept.
        """
        numbers, place = np.unique(docs, return_inverse=True)
        times = self.columns
        here = among(numbers, times["doc"])
        found = np.full(len(numbers), -1, np.int64)
        found[here] = times["rank"][np.searchsorted(times["doc"], numbers[here])]
        if not here.all():
            found[~here] = self.state.memory.ranks(numbers[~here])
        return found[place]

    def bindings(self, docs: Column) -> Columns:
        """Return all bindings of some documents."""
        memory = self.state.memory
        names = ("doc", "pair", "node1", "node2", "key", "valued")
        return memory.rows(memory.of_documents(distinct(docs)), names)

    def distance(self, left: int, right: int) -> Columns | None:
        """Return what `in_time` reads of two documents; None: they are versions of one."""
        memory = self.state.memory
        rows = memory.of_documents(distinct(np.array([left, right])))
        known = memory.rows(rows, ("doc", "start", "ts", "clock", "rank", "base"))
        one, other = (chosen(known, np.flatnonzero(known["doc"] == d)[:1]) for d in (left, right))
        if one["base"][0] == other["base"][0]:
            return None
        return {**measures_of(one, other), "doc1": one["doc"], "doc2": other["doc"]}
