"""The names and values of kept documents, for completion."""

from __future__ import annotations

from xscl import Document, Engine, Retention
from xscl.inspection.vocabulary import DOCUMENTS, PATHS, SeenPath, vocabulary
from xscl.store.queries.documents import documents_by_stream


def engine_with(*documents: str, streams: tuple[str, ...] = ("S",)) -> Engine:
    engine = Engine(retention=Retention.of(history="30 d"))
    engine.push(
        Document(streams, f"d{number}", number, xml.encode())
        for number, xml in enumerate(documents, 1)
    )
    return engine


def seen(engine: Engine) -> dict[str, SeenPath]:
    return {"/".join(one.path): one for one in vocabulary(engine.state.store, "S").paths}


def test_paths_have_their_documents_and_most_frequent_values() -> None:
    engine = engine_with(
        "<i><t>sea</t><t>gale</t><e u='1'/></i>", "<i><t>sea</t></i>", "<i><n>7</n></i>"
    )
    found = seen(engine)
    assert found["i"] == SeenPath(("i",), 3)
    assert found["i/t"] == SeenPath(("i", "t"), 2, ("sea", "gale"))
    assert found["i/e/@u"] == SeenPath(("i", "e", "@u"), 1, ("1",))
    assert found["i/n"].samples == ("7",)


def test_documents_are_counted_by_stream_as_they_come_and_leave() -> None:
    engine = engine_with("<i/>", streams=("S", "T"))
    store = engine.state.store
    assert documents_by_stream(store) == {"S": 1, "T": 1}
    engine.push(Document("T", f"t{number}", number, b"<i/>") for number in range(3))
    assert documents_by_stream(store) == {"S": 1, "T": 4}
    store.fetch("DELETE FROM state.document WHERE id = 'd1'")
    engine.push(Document("T", "t3", 3, b"<i/>"))
    assert documents_by_stream(store) == {"T": 4}
    assert documents_by_stream(Engine().state.store) == {}


def test_the_newest_documents_are_read_within_the_bounds() -> None:
    wide = "".join(f"<n{number}/>" for number in range(PATHS + 50))
    engine = engine_with(f"<w>{wide}</w>", *(f"<i><v>{n}</v></i>" for n in range(DOCUMENTS)))
    found = vocabulary(engine.state.store, "S")
    assert found.documents == DOCUMENTS
    assert {one.path[0] for one in found.paths} == {"i"}
    engine.push(Document("S", "wide", 10_000, f"<w>{wide}</w>".encode()))
    assert len(vocabulary(engine.state.store, "S").paths) == PATHS
