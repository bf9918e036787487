"""Joins by a comparison of texts give what a test of each pair of documents gives."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from templates.state import value_joins
from templates.text import text_pass
from tests.examples import examples
from tests.joining import in_database

WORDS = ("rust", "streams", "and", "us", "Go", "a")


@dataclass(frozen=True, slots=True)
class Item:
    """A document: its time, its channel, and its titles."""

    number: int
    time: int
    channel: str
    titles: tuple[str, ...]

    def document(self, streams: str) -> xscl.Document:
        titles = "".join(f"<t>{title}</t>" for title in self.titles)
        text = f"<item><c>{self.channel}</c>{titles}</item>"
        stream = streams[self.number % len(streams)]
        return xscl.Document(stream, f"d{self.number}", self.time, text.encode())


def _jaccard(one: str, other: str) -> float:
    mine, others = {*one.lower().split()}, {*other.lower().split()}
    return len(mine & others) / len(mine | others) if mine | others else 0.0


Test = Callable[[str, str], bool]
TESTS: dict[str, Test] = {
    "contains(u, t)": lambda t, u: t in u,
    "contains(t, u)": lambda t, u: u in t,
    "starts-with(u, t)": lambda t, u: u.startswith(t),
    "ends-with(t, u)": lambda t, u: t.endswith(u),
    "contains(lower-case(u), lower-case(t))": lambda t, u: t.lower() in u.lower(),
    "jaccard(tokens(t), tokens(u)) > 0.4": lambda t, u: _jaccard(t, u) > 0.4,
    "0.5 <= jaccard(tokens(u), tokens(t))": lambda t, u: _jaccard(t, u) >= 0.5,
    "contains(u, t) AND t != u": lambda t, u: t in u and t != u,
    "contains(u, t) AND starts-with(t, 'r')": lambda t, u: t in u and t.startswith("r"),
    "contains(u, t) AND NOT ends-with(u, t)": lambda t, u: t in u and not u.endswith(t),
    "contains(u, t) OR contains(t, u)": lambda t, u: t in u or u in t,
    "contains(u, t) AND matches(u, 's.*s')": lambda t, u: t in u and u.count("s") > 1,
}
CHANNEL = {"": False, " AND c = d": True}


@st.composite
def histories(draw: st.DrawFn) -> list[Item]:
    """Return items in the order of time, some at the same time."""
    texts = st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join)
    gaps = draw(st.lists(st.sampled_from((0, 1, 1, 2, 9)), min_size=2, max_size=12))
    return [
        Item(
            number,
            sum(gaps[: number + 1]),
            draw(st.sampled_from("pq")),
            tuple(draw(st.lists(texts, max_size=2, unique=True))),
        )
        for number, _ in enumerate(gaps)
    ]


def expected(
    items: Sequence[Item], streams: str, test: Test, same: bool, ordered: bool, window: int
) -> set[str]:
    """Return each match: two documents and the texts of two nodes."""
    count = len(streams)
    return {
        f"d{one.number} d{other.number} {t} {u}"
        for one in items
        for other in items
        if one is not other
        and (one.number % count, other.number % count) == (0, count - 1)
        and abs(one.time - other.time) <= window
        and (not ordered or one.time < other.time)
        and (not same or one.channel == other.channel)
        for t in one.titles
        for u in other.titles
        if test(t, u)
    }


@examples(5)
@given(
    items=histories(),
    predicate=st.sampled_from([*TESTS]),
    channel=st.sampled_from([*CHANNEL]),
    ordered=st.booleans(),
    window=st.sampled_from((1, 3, 10)),
    size=st.sampled_from((1, 2, 20)),
    reopened=st.integers(0, 12),
    way=st.sampled_from(("", "database", "parts", "dropped")),
    streams=st.sampled_from(("S", "ST")),
)
def test_text_joins_equal_brute_force(
    items: list[Item],
    predicate: str,
    channel: str,
    ordered: bool,
    window: int,
    size: int,
    reopened: int,
    way: str,
    streams: str,
) -> None:
    """A file is closed and opened again midway; a second query shares what is shared."""
    operator = "FOLLOWED BY" if ordered else "JOIN"
    left, right = "S//item->x[./c->c][./t->t]", f"{streams[-1]}//item->y[./c->d][./t->u]"
    if " OR " in predicate:
        predicate, test = f"({predicate})", TESTS[predicate]
    else:
        test = TESTS[predicate]
    shape = "<m>{string(t)}|{string(u)}</m>"
    query = f"SELECT {shape} FROM {left} {operator}{{{predicate}{channel}, {window}}} {right}"
    other = query.replace("item->x", 'item->x[./c = "p"]')
    found: dict[str, list[str]] = {"all": [], "some": []}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        if way == "parts":
            patch.setattr(value_joins, "PART", 1)
            patch.setattr(text_pass, "PART", 1)
        kept = 0 if way == "dropped" else None
        path = Path(folder) / "state.sqlite"
        with in_database() if way == "database" else nullcontext():
            for part, first in ((items[:reopened], True), (items[reopened:], False)):
                with xscl.Engine(path, kept_memory=kept) as engine:
                    if first:
                        engine.subscribe("all", query)
                        engine.subscribe("some", other)
                    for start in range(0, len(part), size):
                        pushed = [item.document(streams) for item in part[start : start + size]]
                        for match in engine.push(pushed).matches:
                            found[match.subscription].append(_words(match))
    every = expected(items, streams, test, CHANNEL[channel], ordered, window)
    p = {f"d{item.number}" for item in items if item.channel == "p"}
    assert sorted(found["all"]) == sorted(set(found["all"]))
    assert {*found["all"]} == every
    assert {*found["some"]} == {one for one in every if one.split()[0] in p}


def _words(match: xscl.Match) -> str:
    t, u = match.xml().decode().removeprefix("<m>").removesuffix("</m>").split("|")
    return f"{match.documents[0]} {match.documents[1]} {t} {u}"


def test_beyond_the_bound_of_compared_characters_a_document_has_no_match(
    engine: xscl.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_pass, "CHARACTERS", 60)
    engine.subscribe("within", "S//a->t FOLLOWED BY{contains(u, t), 99} T//a->u")
    engine.subscribe("equal", "S//a->t FOLLOWED BY{t = u, 99} T//a->u")
    for number in range(5):
        engine.push(xscl.Document("S", f"s{number}", number, f"<a>week {number}</a>".encode()))
    long = " ".join(f"week {number}" for number in range(5))
    assert not engine.push(xscl.Document("T", "long", 10, f"<a>{long}</a>".encode()))
    stopped = engine.stopped("within")
    assert stopped is not None
    assert (stopped.documents, stopped.latest) == (1, "T/long")
    assert engine.stopped("equal") is None
    found = engine.push(xscl.Document("T", "short", 11, b"<a>week 1</a>"))
    assert {match.documents for match in found} == {("s1", "short")}
    assert len(found) == 2


def test_indexes_of_texts_count_against_the_budget_of_the_join_state() -> None:
    query = "S//i[./t->t] FOLLOWED BY{contains(u, t), 1000} S//i[./t->u]"

    def batch(first: int) -> list[xscl.Document]:
        texts = (f"<i><t>title {number}.</t></i>" for number in range(first, first + 50))
        return [
            xscl.Document("S", f"d{first + at}", first + at, text.encode())
            for at, text in enumerate(texts)
        ]

    with xscl.Engine() as free, xscl.Engine(kept_memory=60_000) as bounded:
        for engine in (free, bounded):
            engine.subscribe("q", query)
            for first in range(0, 150, 50):
                engine.push(batch(first))
        free_state, state = free.state.processor.state, bounded.state.processor.state
        assert free_state.memory.whole
        assert free_state.memory.nbytes < 60_000 < free_state.nbytes
        assert state.nbytes > state.memory.nbytes
        assert not state.memory.whole
        late = [xscl.Document("S", "late", 999, b"<i><t>a title 7. and title 120.</t></i>")]
        found = [
            sorted(match.documents for match in engine.push(late)) for engine in (free, bounded)
        ]
        assert found == [[("d120", "late"), ("d7", "late")]] * 2
