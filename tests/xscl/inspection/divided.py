"""Two engines with the same documents and queries; in one of them executors evaluate joins."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from feeds.documents import Document
from tests.xscl.spark.bucket_executors import EngineWithExecutors
from xscl.documents.retention import Retention
from xscl.engine.facade import Engine

SECOND = 1_000_000
STATE = ("R_bin", "R_doc", "R_docTS")
Rows = set[tuple[object, ...]]


class Divided:
    """Both engines; executors evaluate the joins that they can."""

    def __init__(
        self, *, lateness: int = 0, history: int | None = None, folder: Path | None = None
    ) -> None:
        self._folder = folder
        self._open()
        for engine in self.engines:
            engine.retain(Retention(history=history))
            for stream in "SR":
                engine.stream(stream, lateness=lateness * SECOND)

    def _open(self) -> None:
        one, divided = (
            self._folder and self._folder / name for name in ("one.sqlite", "divided.sqlite")
        )
        self.one, self.divided = self.engines = Engine(one), EngineWithExecutors(divided)

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

    def push(self, documents: Sequence[Document]) -> None:
        for engine in self.engines:
            engine.push(documents)

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
    found: dict[str, Rows] = {name: set() for name in names}
    # one statement: the relations that are made anew are made once
    parts = (f"SELECT '{name}' AS name, to_json(r)::VARCHAR AS row FROM {name} r" for name in names)
    for name, row in rows_of(engine, " UNION ALL ".join(parts)):
        found[str(name)].add(tuple(json.loads(str(row)).values()))
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
