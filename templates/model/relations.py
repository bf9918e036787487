"""The relations between stage 1 and stage 2 (Hong 2009, sections 6.3.1 and 6.4.3).

Stage 1 fills `Witnesses`, one batch at a time; stage 2 keeps the rows that may still
be joined.  Variables and string values are interned: a *pair* number identifies two
adjacent variables, a *key* a string value.  The public views
(`R_bin`, `R_doc`, ...) show the texts again.

R_doc has no table: a node's string value is kept with the pairs whose second node it
is.  R_docTS is `state.times`, of the documents that have bindings.

| here     | paper            | columns                                                    |
|----------|------------------|------------------------------------------------------------|
| bindings | R_binW           | doc, pair, node1, node2, value (row of node2's string value) |
| times    | R_docTSW         | doc, start, ts, clock, rank, base, first                   |
| values   | strVal of R_docW | strVal (distinct), docs (documents of the batch that have it) |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from templates.model.join_graph import INFINITE
from templates.storage import RELATIONS, sql_schema

BINDINGS = sql_schema("doc BIGINT, pair INTEGER, node1 INTEGER, node2 INTEGER, value INTEGER")
TIMES = RELATIONS["times"].append(pa.field("first", pa.int64()))
VALUES = sql_schema("strVal VARCHAR, docs INTEGER")


@dataclass(frozen=True, slots=True)
class Witnesses:
    """The witnesses of stage 1 for one batch of documents, as Arrow tables of the schemas above.

    `doc` numbers documents in the order of arrival, and composites, which are joined like
    documents.  In `times`, [`start`, `ts`] is the interval of event time (of a document a point),
    and `clock` the largest event time that arrived earlier.  `rank` orders arrivals; a derived
    document follows its newest part.  The versions of a document share `base`, and `first` is the
    smallest arrival number among a document's parts.
    """

    bindings: pa.Table
    times: pa.Table
    values: pa.Table


class Pair(NamedTuple):
    """Two adjacent variables, by their definitions; `valued`: the second one's value is joined."""

    number: int
    first: str
    second: str
    valued: bool


@dataclass(frozen=True, slots=True)
class Horizon:
    """The bounds of the gap and of the age, in ticks, that no registered join exceeds."""

    lower: int = -INFINITE
    upper: int = INFINITE
    keep: int = INFINITE
