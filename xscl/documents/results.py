"""Subscriptions and their results: stored rows, converted to objects as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.documents.composite_events import Composite, joined, qualified
from xscl.documents.document_log import StoredDocument
from xscl.documents.lazy import lazy
from xscl.errors import StoreError

XSCL = "xscl"
GONE = -1
"""The arrival of what is no longer kept, which no subscription sees."""
RESULTS_UP_TO = "results_forgotten"
"""The key in `state.meta` of the last position at which a result was deleted for its age."""


WITHOUT_PAST = -2
"""The `backfilled` of a subscription whose history could not be read."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A registered query.

    `qid` is the number of its stream of results: its row in the R_T of its
    `template`, or below 0 (then `template` is 0).  `outputs` are the variables
    that its results bind, in their order, each with the place of its document
    among a result's.  It sees documents whose `first` is at least `since`.
    `ordered`: an operator over time is in it.  `columns` are the attributes of
    what a query in another `language` finds, `events` the schemas (as text) of
    the documents that it reads as events.  One with a history has the number that its
    operators over time are `bound_to`.  Its matches up to the position `backfilled` are of the
    past, except those at the positions `live`: others that share the results had them first.

    `key` is the name in the ids of its matches and in the plan, which a change of the name does not
    change.  `version` counts the queries of the name.  Its results have positions after `after`,
    and up to `until`, if that is set: the end of an earlier version, or the beginning of a pause.
    """

    number: int
    name: str
    query: str
    template: int
    qid: int
    outputs: tuple[tuple[int, str], ...]
    since: int
    distinct: bool = False
    updates: bool = False
    publish: str | None = None
    reads: tuple[str, ...] = ()
    ordered: bool = False
    language: str = XSCL
    columns: tuple[str, ...] = ()
    events: str = ""
    key: str = ""
    version: int = 1
    after: int = 0
    until: int | None = None
    bound_to: int | None = None
    backfilled: int = -1
    live: tuple[int, ...] = ()

    @property
    def is_paused(self) -> bool:
        """True for a registered subscription that is paused."""
        return self.until is not None

    @property
    def is_bounded(self) -> bool:
        """True if positions bound its results."""
        return self.after > 0 or self.until is not None

    def covers(self, position: int) -> bool:
        """Return True if a result at a position can be one of its results."""
        return position > self.after and (self.until is None or position <= self.until)

    @property
    def relational(self) -> bool:
        """True if the query is in an event language, such as CEL."""
        return self.language != XSCL

    @property
    def split(self) -> int:
        """The number of outputs of the first document."""
        return sum(1 for place, _ in self.outputs if not place)


_FIELDS = tuple(one.name for one in fields(Subscription))
_OTHERS = ("outputs", "distinct")  # fields that are not columns of the same name
_SAME = tuple(name for name in _FIELDS if name not in _OTHERS)
_values_of = attrgetter(*_SAME)


def stored_subscriptions(columns: Mapping[str, Sequence[Any]]) -> Iterator[Subscription]:
    """Return the subscriptions of stored columns.

    Two columns have their outputs: the names of the variables, and their places.
    """
    outputs = map(_outputs, columns["places"], columns["outputs"])
    values = {**columns, "outputs": outputs, "distinct": columns["is_distinct"]}
    return map(Subscription, *(values[name] for name in _FIELDS))


@lru_cache(4_096)
def _outputs(places: tuple[int, ...], names: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Return the outputs of a subscription; most are equal to those of others."""
    return tuple(zip(places, names, strict=True))


def subscription_row(one: Subscription) -> dict[str, object]:
    """Return a subscription as a row, whose columns `stored_subscriptions` reads."""
    return {
        **dict(zip(_SAME, _values_of(one), strict=True)),
        "outputs": [name for _, name in one.outputs],
        "places": [place for place, _ in one.outputs],
        "is_distinct": one.distinct,
    }


@dataclass(frozen=True, slots=True)
class Backfill:
    """A backfill that is not complete: of a `subscription`, by its number and its `key`.

    It was registered before the document of the number `doc` arrived, at a `clock`.  Earlier
    matches are marked as backfilled, `most` of them if that is set.  One that is not
    `acknowledged` is dropped when the engine is opened again.
    """

    subscription: int
    key: str
    doc: int
    clock: int
    most: int | None
    acknowledged: bool


@dataclass(frozen=True, slots=True)
class Result:
    """A row of results: documents, None where there is none, and the nodes of each output."""

    position: int
    qid: int
    composite: Composite
    documents: tuple[StoredDocument | None, ...]
    nodes: tuple[tuple[int, ...], ...]

    @property
    def present(self) -> tuple[StoredDocument, ...]:
        """The documents that are present."""
        return tuple(document for document in self.documents if document is not None)


def result_of(group: Sequence[Composite], documents: Mapping[int, StoredDocument]) -> Result:
    """Return composites of the same documents as one result, each variable with all its nodes."""
    head = group[0]
    columns = zip(*(one.nodes for one in group), strict=True)
    numbers = ({n if n < 0 else qualified(n)[1] for n in column} for column in columns)
    nodes = tuple(tuple(sorted(column)) for column in numbers)
    return Result(0, 0, head, tuple(documents.get(doc) for doc in head.sources), nodes)


@dataclass(frozen=True, slots=True)
class ResultAges:
    """Columns of rows: stream, oldest part's arrival, whether a part is an update.

    `repeats` says whether a row has the stream and the documents of the row before it.
    """

    qids: npt.NDArray[np.int32]
    firsts: npt.NDArray[np.int64]
    updated: npt.NDArray[np.bool_]
    repeats: npt.NDArray[np.bool_]


def evicted() -> StoreError:
    """Return the error of a match whose documents are no longer kept."""
    return StoreError(
        "the documents of this match are no longer kept",
        hint="read a match before its subscription is removed, or keep matches longer"
        " (--keep-matches)",
    )


class Results(Sequence[Result]):
    """Rows of the table of results, converted to objects as they are read.

    `rows` has the columns position, qid, doc1, doc2, nodes; `subscribers` are those of a qid, which
    bind the same outputs; `read` returns
    what numbers stand for, as far as it is kept: composites, and the documents of these.  It is
    called once, on first use, in the thread that reads.  A result that is one composite or one
    document has doc1 = doc2.
    """

    def __init__(
        self,
        rows: pa.Table,
        subscribers: Mapping[int, Sequence[Subscription]],
        read: Callable[[set[int]], tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]],
    ) -> None:
        self._rows = rows
        self._subscribers = subscribers
        self._read = read

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> list[Result]: ...
    def __getitem__(self, index: int | slice) -> Result | list[Result]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        row = {name: column[index] for name, column in self._columns.items()}
        sharers = self._subscribers.get(row["qid"])
        split = sharers[0].split if sharers else 0
        composite = joined(self._parts, row["doc1"], row["doc2"], row["nodes"], split)
        return Result(
            row["position"],
            row["qid"],
            composite,
            tuple(self._documents.get(doc) for doc in composite.sources),
            tuple((node if node < 0 else qualified(node)[1],) for node in composite.nodes),
        )

    def position(self, index: int) -> int:
        """Return a row's position."""
        return int(self._rows["position"][index].as_py())

    def age(self, index: int) -> tuple[int, int, bool]:
        """Return a row's stream, its oldest part's arrival, and whether a part is an update."""
        one, two = self._pair(index)
        return (
            self._columns["qid"][index],
            min(one.first, two.first),
            one.version > 1 or two.version > 1,
        )

    def positions(self) -> npt.NDArray[np.int64]:
        """Return the positions of all rows."""
        positions: npt.NDArray[np.int64] = self._rows["position"].to_numpy()
        return positions

    def ages(self) -> ResultAges:
        """Return `age` and `group` of all rows, as columns; the age of evicted ones is `GONE`."""
        qids, ones, others = (self._rows[name].to_numpy() for name in ("qid", "doc1", "doc2"))
        numbers, at = np.unique(np.concatenate((ones, others)), return_inverse=True)
        kept = [(number, self._kept[0].get(number)) for number in numbers.tolist()]
        firsts = np.array([part.first if part else GONE for _, part in kept], np.int64)
        updated = np.array([part is not None and part.version > 1 for _, part in kept], np.bool_)
        docs = [part.docs if part else (number,) for number, part in kept]
        known: dict[tuple[int, ...], int] = {}
        groups = np.array([known.setdefault(one, len(known)) for one in docs], np.int64)
        one, two = at[: len(qids)], at[len(qids) :]
        repeats = np.zeros(len(qids), np.bool_)
        repeats[1:] = np.diff(qids) == 0
        for side in (groups[one], groups[two]):
            repeats[1:] &= np.diff(side) == 0
        return ResultAges(
            qids, np.minimum(firsts[one], firsts[two]), updated[one] | updated[two], repeats
        )

    def group(self, index: int) -> tuple[object, ...]:
        """Return the key shared by the results of one stream with the same documents."""
        one, two = self._pair(index)
        return self._columns["qid"][index], one.docs, two.docs

    def _pair(self, index: int) -> tuple[Composite, Composite]:
        """Return the two parts of a row."""
        docs1, docs2 = self._columns["doc1"], self._columns["doc2"]
        return self._parts[docs1[index]], self._parts[docs2[index]]

    @lazy
    def _columns(self) -> dict[str, list[Any]]:
        names = ("position", "qid", "doc1", "doc2", "nodes")
        return {name: self._rows[name].to_pylist() for name in names}

    @lazy
    def _kept(self) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        return self._read(self._numbers)

    @lazy
    def _found(self) -> tuple[Mapping[int, Composite], Mapping[int, StoredDocument]]:
        if len(self._kept[0]) < len(self._numbers):
            raise evicted()
        return self._kept

    @lazy
    def _numbers(self) -> set[int]:
        docs = (pc.unique(self._rows[name]).to_pylist() for name in ("doc1", "doc2"))
        return set().union(*docs)

    @property
    def _parts(self) -> Mapping[int, Composite]:
        return self._found[0]

    @property
    def _documents(self) -> Mapping[int, StoredDocument]:
        return self._found[1]
