"""Names of documents: stream, id and version, whatever other streams have, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from feeds.documents import Document
from tests.examples import examples
from xscl.documents.document_ids import document_name, number_in
from xscl.errors import DocumentError

STREAMS = ("S", "orders", "in.voices")
IDS = ("17", "17@2", "17@1", "a/17", "orders/17", "S/17", "@2", "@", "17@02", "é b", "17\n@3")
PAIRS = "orders//a->x FOLLOWED BY{x = y, 30 d} in.voices//a->y"


@pytest.mark.parametrize(
    ("stream", "id", "number", "name"),
    [
        ("orders", "17", 1, "orders/17"),
        ("orders", "17", 2, "orders/17@2"),
        ("_7.orders", "17", 12, "_7.orders/17@12"),
        ("S", "d1", 1, "d1"),
        ("S", "d1", 2, "d1@2"),
        ("S", "old/d1", 1, "S/old/d1"),
        ("S", "d1@2", 1, "d1@2@1"),
        ("orders", "d1@2", 2, "orders/d1@2@2"),
        ("orders", "a@b", 1, "orders/a@b"),
        ("orders", "a@2\n", 1, "orders/a@2\n"),
    ],
)
def test_a_name_has_the_stream_the_id_and_the_version(
    stream: str, id: str, number: int, name: str
) -> None:
    assert document_name(stream, id, number) == name
    assert number_in(name) == number


def test_names_are_unique() -> None:
    parts = list(product((*STREAMS, "a"), IDS, range(1, 12)))
    assert len({document_name(*one) for one in parts}) == len(parts)
    assert all(number_in(document_name(*one)) == one[2] for one in parts)


# -- What a reader may write ---------------------------------------------------------------------


@pytest.fixture
def engine() -> Iterator[xscl.Engine]:
    """An engine with an order 17 in two versions, an invoice 17, and an order 18."""
    with xscl.Engine(retention=xscl.Retention.of(history="30 d")) as engine:
        engine.push([post("orders", "17", 1), post("in.voices", "17", 1, 2)])
        engine.push([post("orders", "17", 2), post("orders", "18", 1)])
        yield engine


def post(stream: str, id: str, content: int, time: int = 1) -> Document:
    text = f"<a>1</a><!--{stream} {id} {content}-->"
    return Document(stream, id, time, text.encode())


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ("orders/17", ("orders", "17", 1)),
        ("orders/17@1", ("orders", "17", 1)),
        ("orders/17@2", ("orders", "17", 2)),
        ("17@2", ("orders", "17", 2)),
        ("in.voices/17", ("in.voices", "17", 1)),
        ("18", ("orders", "18", 1)),
    ],
)
def test_a_document_is_found_by_its_name_and_by_an_id_that_no_other_has(
    engine: xscl.Engine, text: str, document: tuple[str, str, int]
) -> None:
    assert engine.document(text) == post(*document).xml


def test_an_id_of_two_streams_is_an_error_that_lists_them(engine: xscl.Engine) -> None:
    with pytest.raises(DocumentError, match=r"'17' is the id of 2 documents: in\.voices/17, orde"):
        engine.document("17")
    for unknown in ("17@3", "orders/17@3", "S/17", "nowhere/18", "orders/", "/17", ""):
        assert engine.document(unknown) is None


@pytest.mark.parametrize("text", ["b.xml", "shop/B.xml", "Orders/A17"])
def test_a_path_that_is_not_whole_is_completed_in_the_hint(engine: xscl.Engine, text: str) -> None:
    engine.push([post("orders", "/data/ann/shop/b.xml", 1), post("S", "orders/A17", 1)])
    with pytest.raises(DocumentError) as caught:
        engine.why(PAIRS, text, "17")
    assert str(caught.value.hint).startswith("did you mean ")


def test_names_and_ids_of_matches_stay_after_a_restart_and_a_purge(tmp_path: Path) -> None:
    kept = xscl.Retention.of(history="30 d")
    first, second = post("orders", "17", 1), post("orders", "17", 2)
    with xscl.Engine(tmp_path / "state.sqlite", retention=kept) as engine:
        engine.subscribe("all", "orders//a->x", updates=True)
        engine.push([post("S", "17", 1), first])
        (found,) = engine.matches("all")
    with xscl.Engine(tmp_path / "state.sqlite", retention=kept) as engine:
        assert [(one.id, one.names) for one in engine.matches("all")] == [(found.id, found.names)]
        (later,) = engine.push([first, second])
        engine.unsubscribe("all", purge=True)
        assert engine.push([first, second]).unchanged == 2
        engine.subscribe("all", "orders//a->x", updates=True, since="30 d")
        assert [one.names for one in engine.matches("all")] == [found.names, later.names]
        assert later.names == ("orders/17@2",)


# -- Any order -----------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Document], list[Document], list[int]]:
    """Return documents in two orders that are the same for each stream, and the sizes of pushes."""
    posts = st.tuples(st.sampled_from(STREAMS), st.sampled_from(IDS), st.integers(1, 3))
    one = [post(*drawn) for drawn in draw(st.lists(posts, min_size=2, max_size=14))]
    order = draw(st.permutations([document.stream for document in one]))
    waiting = {name: [each for each in one if each.stream == name] for name in STREAMS}
    other = [waiting[str(name)].pop(0) for name in order]
    return one, other, draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))


def played(documents: Sequence[Document], cuts: Sequence[int]) -> dict[str, object]:
    """Return all that shows names, after a check that each one is that of its document."""
    with xscl.Engine(retention=xscl.Retention.of(history="30 d")) as engine:
        engine.subscribe("pairs", PAIRS.replace("FOLLOWED BY", "JOIN"), updates=True)
        for stream in STREAMS:
            engine.subscribe(stream, f"{stream}//a->x", updates=True)
        at = 0
        while at < len(documents):
            size = cuts[at % len(cuts)]
            engine.push(documents[at : at + size])
            at += size
        rows = engine.sql("SELECT docid, stream, id, version FROM documents").to_pylist()
        assert len({row["docid"] for row in rows}) == len(rows)
        assert len({tuple(row.values())[1:] for row in rows}) == len(rows)
        texts = {(one.stream, one.id, one.xml) for one in documents}
        assert len(rows) == len(texts)
        for row in rows:
            text = engine.document(row["docid"])
            assert (row["stream"], row["id"], text) in texts
            assert engine.why(row["stream"], row["docid"]).matched
        matches = list(engine.matches())
        for match in matches:
            assert match.names == tuple(one.document for one in match.sources)
            assert match.documents == tuple(
                one.id if one.version == 1 else f"{one.id}@{one.version}" for one in match.sources
            )
            assert {node.document for of in match.bindings.values() for node in of} == {
                *match.names
            }
            if match.subscription == "pairs":
                assert engine.why("pairs", *match.names).matched
        in_sql = engine.sql("SELECT docids, documents FROM matches").to_pylist()
        assert [tuple(row["docids"]) for row in in_sql] == [one.names for one in matches]
        assert [tuple(row["documents"]) for row in in_sql] == [one.documents for one in matches]
        tried = {match.names for match in engine.try_query("pairs")}
        assert tried == {one.names for one in matches if one.subscription == "pairs"}
        joined = engine.sql("SELECT DISTINCT docid FROM R_docTS").to_pylist()
        return {
            "documents": {tuple(row.values()) for row in rows},
            "matches": sorted((one.id, one.names) for one in matches),
            "joined": sorted(row["docid"] for row in joined),
        }


@pytest.mark.hypothesis
@examples(16)
@given(histories())
def test_names_and_matches_do_not_depend_on_the_order_among_streams(
    history: tuple[list[Document], list[Document], list[int]],
) -> None:
    one, other, cuts = history
    assert played(one, cuts) == played(other, [1])
