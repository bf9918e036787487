"""Two engines with the same documents and queries; in one of them executors evaluate joins."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from feeds.documents import Document
from templates.registry.registry import UNDESIGNATED
from xscl.documents.retention import Retention
from xscl.engine.executors import FIRST, RESULTS, ExecutorResults
from xscl.engine.facade import Engine
from xscl.planning.planned_subscriptions import is_leaf
from xscl.shredding.automaton.nfa import Automaton
from xscl.shredding.remote_bindings import compute_bindings, texts_of
from xscl.spark.designation import designated

SECOND = 1_000_000
STATE = ("R_bin", "R_doc", "R_docTS")
Rows = set[tuple[object, ...]]


class Divided:
    """Both engines; `elsewhere` are the names of what executors evaluate, or None for all."""

    def __init__(
        self,
        elsewhere: Collection[str] | None = None,
        *,
        lateness: int = 0,
        history: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self._elsewhere = elsewhere
        self._folder = folder
        self._numbers = FIRST
        self._open()
        for engine in self.engines:
            engine.retain(Retention(history=history))
            for stream in "SR":
                engine.stream(stream, lateness=lateness * SECOND)

    def _open(self) -> None:
        paths = [self._folder and self._folder / name for name in ("one.sqlite", "divided.sqlite")]
        self.one, self.divided = self.engines = [Engine(path) for path in paths]

    def reopen(self) -> None:
        """Restart both engines."""
        self.__exit__()
        self._open()

    def __enter__(self) -> Divided:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self.engines:
            engine.close()

    def subscribe(self, name: str, query: str) -> None:
        for engine in self.engines:
            engine.subscribe(name, query)
        if self._elsewhere is None or name in self._elsewhere:
            with self.divided.transactions.change() as state:
                qid = state.subscriptions[name].qid
                leads = designated(state.registry, [qid], lambda: ())
                assert leads
                state.registry.designate(leads)

    def push(self, documents: Sequence[Document]) -> None:
        """Push documents to both engines, to one with what executors find in them."""
        position = self.one.state.position
        self.one.push(documents)
        registry = self.divided.state.registry
        here = [row for qid, row in registry.rows().items() if registry.lead(qid) == UNDESIGNATED]
        pairs = registry.pairs.described(sorted({pair for row in here for pair in row.pairs}))
        automaton = Automaton()
        automaton.install([pair for pair in pairs if not is_leaf(pair)])
        portion = compute_bindings(automaton, texts_of(documents))
        numbers = range(self._numbers, self._numbers + len(documents))
        self._numbers += len(documents)
        ids = (str(one.id) for one in documents)
        results = self._results(position, dict(zip(ids, numbers, strict=True)))
        found = ExecutorResults(np.array(numbers), portion, results, ())
        self.divided.ingest.push(documents, evaluated=found)

    def _results(self, position: int, new: dict[str, int]) -> pa.Table:
        """Return the new results of joins in the one engine, as executors number documents.

        `new` are the numbers of new documents by id; others have those of the divided engine.
        """
        found = self.one.sql(
            "SELECT r.qid, d1.given AS doc1, d2.given AS doc2, r.nodes,"
            " CASE WHEN d1.doc < d2.doc THEN d1.ts ELSE d2.ts END AS ts"
            " FROM state.result r JOIN state.document d1 ON d1.doc = r.doc1"
            f" JOIN state.document d2 ON d2.doc = r.doc2 WHERE position > {position} AND qid > 0"
        ).to_pylist()
        known = self.divided.sql("SELECT given, doc FROM state.document").to_pylist()
        numbers = {row["given"]: row["doc"] for row in known} | new
        for row in found:
            row["doc1"], row["doc2"] = numbers[row["doc1"]], numbers[row["doc2"]]
        return pa.Table.from_pylist(found, schema=RESULTS)

    def expect_equal(self) -> dict[str, Rows]:
        """Return the rows of all relations of joins, which are equal in both engines.

        One that has witnesses from before a chain may have made results of results of these.  Then
        the last round of its last push was about these only.
        """
        elsewhere = self.divided.state.registry.elsewhere.rows.tolist()
        found, expected = (shown(engine, elsewhere) for engine in self.engines)
        if found["R_docTSW"] and not expected["R_docTSW"]:
            found, expected = ({name: of[name] for name in STATE} for of in (found, expected))
        assert found == expected
        assert match_ids(self.divided) == match_ids(self.one)
        return found


def match_ids(engine: Engine) -> set[str]:
    return {match.id for match in engine.matches()}


def shown(engine: Engine, elsewhere: Collection[int]) -> dict[str, Rows]:
    """Return the rows of all relations of joins.

    Without witnesses that nothing can join any more, and without results that no subscription sees,
    of rows of R_T that are not elsewhere: one engine may find them in witnesses for other rows.
    """
    names = [*STATE, *(f"{name}W" for name in STATE)]
    for number in engine.state.registry.members:
        names += [f"R_T_{number}", f"R_out_{number}"]
    found = {name: rows_of(engine, f"SELECT * FROM {name}") for name in names}
    alive = {row[:3] for row in found["R_bin"]} & still_joined(engine)
    found["R_bin"] = {row for row in found["R_bin"] if row[:3] in alive}
    nodes = {(row[0], node) for row in found["R_bin"] for node in row[3:]}
    found["R_doc"] = {row for row in found["R_doc"] if row[:2] in nodes}
    documents = {row[0] for row in found["R_bin"]}
    found["R_docTS"] = {row for row in found["R_docTS"] if row[0] in documents}
    seen = {(qid, doc) for qid, doc, *_ in witnessed(engine)}
    for name in names:
        if name.startswith("R_out"):
            found[name] = {
                row
                for row in found[name]
                if row[0] in elsewhere or {(row[0], row[1]), (row[0], row[2])} <= seen
            }
    return found


def rows_of(engine: Engine, query: str) -> Rows:
    listed = [tuple(row.values()) for row in engine.sql(query).to_pylist()]
    assert len({*listed}) == len(listed), query
    return {*listed}


def still_joined(engine: Engine) -> Rows:
    """Return the documents and pairs of variables of which witnesses may still be joined.

    An engine deletes the others when it is worth while.
    """
    registry, clock = engine.state.registry, engine.state.store.progress("clock")
    found = Rows()
    for qid, doc, ts in witnessed(engine):
        row = registry.row(qid)
        joins = registry.members[row.template].template.graph.two_sided
        if joins and ts >= clock - row.keep:
            pairs = map(registry.pairs.describe, row.pairs)
            found.update((doc, pair.first, pair.second) for pair in pairs)
    return found


def witnessed(engine: Engine) -> Iterator[tuple[int, str, int]]:
    """Yield the documents with their times that some subscription of each row of R_T sees."""
    state = engine.state
    documents = engine.sql("SELECT doc, id, ts FROM state.document").to_pylist()
    for one in state.subscriptions:
        for qid in state.dataflow.subscribed.qids(one):
            for each in documents:
                if each["doc"] >= one.since:
                    yield qid, each["id"], each["ts"]


def document(number: int, time: float, xml: str, stream: str = "S") -> Document:
    return Document(stream, f"d{number}", int(time * SECOND), xml.encode())
