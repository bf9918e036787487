"""CEL in the same engine: over documents, beside XSCL, and published both ways."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from feeds.documents import Document
from xscl.engine import Engine
from xscl.errors import NameTaken, QueryError, StreamCycle, StreamInUse, XsclError
from xscl.match import Match

FLAT = {"k": str, "v": float}
PAIRS = (
    (
        "SELECT * FROM FILTER{v > 2 AND k != 'b'}(S)",
        "S//e[./v > 2][./k != 'b'][./k->k2][./v->v2]",
    ),
    (
        "SELECT * FROM S NEXT{$1.k = $2.k} S",
        "S//e[./k->k1][./v->v1] NEXT{k1 = k2} S//e[./k->k2][./v->v2]",
    ),
    (
        "SELECT * FROM FILTER{v > 1}(S) NEXT{$1.k != $2.k AND $1.v < $2.v} S",
        "S//e[./k->k1][./v->v1][./v > 1] NEXT{k1 != k2 AND number(v1) < number(v2)}"
        " S//e[./k->k2][./v->v2]",
    ),
    (
        "SELECT * FROM S NEXT{$1.v + 1 = $2.v} R",
        "S//e[./k->k1][./v->v1] NEXT{v1 + 1 = v2} R//e[./k->k2][./v->v2]",
    ),
    (
        "SELECT * FROM S JOIN{$1.k = $2.k AND $1.v < $2.v, 3 ms} R",
        "S//e[./k->k1][./v->v1] JOIN{k1 = k2 AND number(v1) < number(v2), 3 ms}"
        " R//e[./k->k2][./v->v2]",
    ),
    (
        "SELECT * FROM (S NEXT{$1.k = $2.k} R) NEXT{$1.v < $2.v} S",
        "(S//e[./k->k0][./v->v0] NEXT{k0 = k1} R//e[./k->k1][./v->v1])"
        " NEXT{number(v1) < number(v2)} S//e[./k->k2][./v->v2]",
    ),
)


def flat(number: int, time: int, key: str, value: int, stream: str = "S") -> Document:
    text = f"<e><k>{key}</k><v>{value}</v></e>"
    return Document(stream, f"d{number}", time * 1_000, text.encode())


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Document], int]:
    """Draw documents on two streams, and how late they may come."""
    lateness = draw(st.integers(0, 2))
    documents: list[Document] = []
    now = 0
    for number in range(draw(st.integers(1, 14))):
        now += draw(st.integers(0, 2))
        back = draw(st.integers(0, lateness))
        key, value = draw(st.sampled_from("abc")), draw(st.integers(0, 4))
        stream = draw(st.sampled_from("SR"))
        documents.append(flat(number, max(0, now - back), key, value, stream))
    return documents, lateness * 1_000


def values(match: Match, variables: Sequence[str]) -> tuple[object, ...]:
    found = (match.bindings[name][0].value for name in variables)
    return match.t0, match.t1, *found


@given(streams(), st.sampled_from(PAIRS), st.lists(st.booleans(), min_size=14, max_size=14))
def test_the_same_query_in_both_languages(
    drawn: tuple[list[Document], int], pair: tuple[str, str], cuts: list[bool]
) -> None:
    documents, lateness = drawn
    with Engine() as engine:
        for name in "SR":
            engine.stream(name, attributes=FLAT, lateness=lateness)
        engine.subscribe("cel", pair[0], language="cel")
        engine.subscribe("xscl", pair[1])
        batch: list[Document] = []
        for document, cut in zip(documents, cuts, strict=False):
            batch.append(document)
            if cut:
                engine.push(batch)
                batch = []
        engine.push(batch)
        engine.flush()
        found: dict[str, set[tuple[object, ...]]] = {"cel": set(), "xscl": set()}
        for match in engine.matches():
            named = sorted(match.bindings, key=lambda name: (name[1:], name[:1]))
            if match.subscription == "cel":
                named = list(match.bindings)
            found[match.subscription].add(values(match, named))
    event(f"{pair[0]}: {'matches' if found['xscl'] else 'nothing'}")
    assert found["cel"] == found["xscl"]
