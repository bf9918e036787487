"""CEL in the same engine: over documents, beside XSCL, and published both ways."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep_core.events import VALUES
from feeds.documents import Document
from tests.examples import examples
from tests.xscl.engine.player import cut, engine_after
from xscl.engine.facade import Engine
from xscl.errors import DocumentError, NameTaken, QueryError, StreamCycle, XsclError
from xscl.planning.event_queries import composite_of_row

FLAT = {"k": str, "v": float}


def flat(number: int, time: int, key: str, value: int, stream: str = "S") -> Document:
    text = f"<e><k>{key}</k><v>{value}</v></e>"
    return Document(stream, f"d{number}", time * 1_000, text.encode())


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Document], int]:
    """Draw documents on two streams, and how late they may come."""
    lateness = draw(st.integers(0, 2))
    documents: list[Document] = []
    now = 0
    for number in range(draw(st.integers(5, 10))):
        now += draw(st.integers(0, 2))
        back = draw(st.integers(0, lateness))
        key, value = draw(st.sampled_from("aaab")), draw(st.integers(0, 4))
        stream = draw(st.sampled_from("SR"))
        documents.append(flat(number, max(0, now - back), key, value, stream))
    return documents, lateness * 1_000


CUTS = st.just([True] * 10) | st.lists(st.booleans(), min_size=10, max_size=10)


# -- Published both ways ---------------------------------------------------------------------

FILTERED = "SELECT k, v FROM FILTER{v > 1}(S) PUBLISH big"
JOINED = (
    "SELECT <hit><key>{string(x)}</key>{y}</hit>"
    " FROM big//big->a[./k->x] JOIN{x = y, 5 ms} R//e->b[./k->y] PUBLISH hits"
)
COUNTED = "SELECT * FROM hits NEXT{$1.key = $2.key} hits PUBLISH again"
READ = "again//again->a[./key->x] FOLLOWED BY{x = y, 9 ms} S//e->b[./k->y]"


def chained(engine: Engine, lateness: int = 0) -> None:
    """Register CEL over documents, XSCL over CEL, CEL over XSCL, and XSCL over that."""
    for name in "SR":
        engine.stream(name, attributes=FLAT, lateness=lateness)
    engine.subscribe("filtered", FILTERED, language="cel")
    engine.subscribe("joined", JOINED)
    engine.subscribe("counted", COUNTED, language="cel")
    engine.subscribe("read", READ)


def found_by(
    documents: Sequence[Document], cuts: Sequence[bool], lateness: int, path: Path | None = None
) -> set[tuple[Any, ...]]:
    """Return the matches of the chain; with a path the engine is opened anew at each cut."""
    with engine_after(cut(documents, cuts), partial(chained, lateness=lateness), path) as engine:
        engine.flush()
        return {(m.subscription, m.id, m.t0, m.t1, m.documents, m.xml()) for m in engine.matches()}


@pytest.mark.hypothesis
def test_what_is_published_does_not_depend_on_batch_cuts() -> None:
    """Each link of the chain matches in some case, the first in a third of them."""
    cases, matched = 0, Counter[str]()

    @examples(5)
    @given(streams(), CUTS)
    def property_holds(drawn: tuple[list[Document], int], cuts: list[bool]) -> None:
        nonlocal cases
        documents, lateness = drawn
        once = found_by(documents, [False] * 10, lateness)
        assert found_by(documents, cuts, lateness) == once
        cases += 1
        matched.update({name for name, *_ in once})

    property_holds()
    assert 3 * matched["filtered"] >= cases, matched
    assert matched["read"], matched


def chain_documents() -> list[Document]:
    return [
        flat(1, 1, "a", 2, "S"),
        flat(2, 2, "a", 0, "R"),
        flat(3, 3, "b", 1, "S"),
        flat(4, 4, "a", 3, "R"),
        flat(5, 8, "a", 1, "S"),
        flat(6, 9, "c", 1, "S"),
    ]


def test_a_chain_through_both_languages(tmp_path: Path) -> None:
    found = found_by(chain_documents(), [False] * 6, 0)
    texts = sorted((name, xml.decode()) for name, *_, xml in found)
    assert [one for one in texts if one[0] in ("filtered", "counted")] == [
        ("counted", "<again><key_1>a</key_1><k_1>a</k_1><key>a</key><k>a</k></again>"),
        ("filtered", "<big><k>a</k><v>2</v></big>"),
    ]
    assert [name for name, _ in texts if name in ("joined", "read")] == ["joined", "joined", "read"]
    assert found_by(chain_documents(), [True] * 6, 0, tmp_path / "state.sqlite") == found


# -- Streams and their attributes ------------------------------------------------------------


def test_values_that_are_none_of_their_type_are_null(engine: Engine) -> None:
    texts = [b"<e><i>7</i><f> 2.50 </f><b>true</b></e>", b"<e i='x' f='' b='yes'/>", b"<e/>"]
    engine.stream("S", attributes={"i": int, "f": float, "b": bool})
    engine.subscribe("all", "SELECT * FROM S", language="cel")
    pushed = [Document("S", f"d{n}", n, text) for n, text in enumerate(texts)]
    found = [match.xml() for match in engine.push(pushed)]
    assert found == [b"<result><i>7</i><f>2.5</f><b>true</b></result>", b"<result/>", b"<result/>"]


def test_a_new_version_is_no_event(engine: Engine) -> None:
    engine.stream("S", attributes=FLAT)
    engine.subscribe("all", "SELECT k FROM S", language="cel")
    assert len(engine.push(flat(1, 1, "a", 1))) == 1
    assert len(engine.push(flat(1, 2, "b", 1))) == 0


def test_it_sees_what_arrives_after_it_was_registered(engine: Engine) -> None:
    engine.stream("S", attributes=FLAT)
    engine.subscribe("one", "SELECT * FROM S NEXT{$1.k = $2.k} S", language="cel")
    engine.push(flat(1, 1, "a", 1))
    engine.subscribe("two", "SELECT * FROM S NEXT{$1.k = $2.k} S", language="cel")
    engine.push(flat(2, 2, "a", 2))
    assert [match.subscription for match in engine.flush()] == ["one"]


def test_what_is_late_is_shown(engine: Engine) -> None:
    engine.stream("S", attributes=FLAT)
    engine.subscribe("next", "SELECT * FROM S NEXT{$1.k = $2.k} S", language="cel")
    engine.push([flat(1, 5, "a", 1), flat(2, 3, "a", 1)])
    assert engine.sql("SELECT docid FROM late").to_pylist() == [{"docid": "d2"}]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT * FROM T", QueryError, "there is no stream T"),
        ("SELECT nokey FROM S", QueryError, "there is no attribute nokey"),
        ("SELECT * FROM S PUBLISH S", QueryError, "publishes S and reads it"),
        ("SELECT * FROM S PUBLISH big", NameTaken, "there is a stream big already"),
        ("SELECT k FROM back PUBLISH fed", StreamCycle, "a cycle"),
        ("SELECT * FROM S PUBLISH µ", DocumentError, "'µ' cannot be the name of a stream"),
        ("SELECT k AS x² FROM S", XsclError, "'x²' cannot be the name of an element"),
    ],
)
def test_what_is_refused(engine: Engine, text: str, error: type[XsclError], message: str) -> None:
    engine.stream("S", attributes=FLAT)
    engine.stream("back", attributes=FLAT)
    engine.subscribe("filtered", FILTERED, language="cel")
    engine.subscribe("loop", "SELECT <e/> FROM fed//e PUBLISH back")
    before = engine.sql("FROM subscriptions").to_pylist()
    with pytest.raises(error, match=message):
        engine.subscribe("wrong", text, language="cel")
    assert engine.sql("FROM subscriptions").to_pylist() == before
    assert [m.subscription for m in engine.push(flat(1, 1, "a", 2))] == ["filtered"]


# -- Removal ---------------------------------------------------------------------------------


def test_the_values_of_a_run_are_json_with_numbers_as_they_are_alone() -> None:
    row = (0, 1, 2) + (None,) * (VALUES - 3) + ((1.5e22, 2.0, 0.5, None, True, "é", math.nan),)
    (text,) = composite_of_row(row).values
    assert text == '[15000000000000000000000, 2, 0.5, null, true, "é", null]'
    assert json.loads(text) == [1.5e22, 2, 0.5, None, True, "é", None]


@pytest.mark.parametrize(
    ("missed", "hint"), [("T", "PUT /v1/streams/T with"), ("FILTER{q > 1}(S)", "there are v")]
)
def test_only_of_a_stream_the_attributes_are_missed(engine: Engine, missed: str, hint: str) -> None:
    engine.stream("S", attributes={"v": float})
    with pytest.raises(QueryError) as refused:
        engine.subscribe("e", f"SELECT * FROM {missed}", language="cel")
    assert hint in (refused.value.hint or "")
