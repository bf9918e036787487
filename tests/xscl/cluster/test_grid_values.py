"""A grid over documents that bind several nodes with few values: matches meet in many cells.

The histories have late documents, versions, duplicates, subscriptions that come and go, publishers
that begin to write a stream which subscriptions of the grid read, and edits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from templates.model.result_bound import RESULTS
from tests.examples import examples, until
from tests.xscl.cluster.histories import cluster, delivered
from tests.xscl.cluster.test_grid_properties import DEALS, GROUPS, WIDTH, DealToGrid
from xscl.cluster import cell_host
from xscl.store.consumed_offsets import DIRECT, BatchKey

SPREAD = (
    "S//a->x FOLLOWED BY{x=y, 9} S//a->y",
    "S//a->x JOIN{x=y, 4} S//b->y",
    "S//a->x JOIN{x=y} P//a->y",
    "P//a->x FOLLOWED BY{x=y} P//a->y",
    "S//e[./a->x][./b->u] FOLLOWED BY{x=y AND u=v} S//e[./a->y][./b->v]",
    "S//e[./a->x][.//a->u] JOIN{x=y AND u=v, 6} S//e[./a->y][.//a->v]",
    "S//e[./a->x][./b->u] JOIN{x=y AND u != v, 6} R//e[./a->y][./b->v]",
    "SELECT DISTINCT <m>{x}</m> FROM S//a[.='u']->x JOIN{x=y} S//e/@k->y",
    "R//a->x JOIN{x=y, 5} S//a->y",
)
SLICED = (
    "S//e[@k][./a->x][./b->u] FOLLOWED BY{x=y AND contains(u, v)} S//e[./a->y][./b->v]",
    "S//a->x NEXT{x=y} S//a->y",
    "S//a->x FOLLOWED BY{x=y OR x=z} S//e[./a->y][./b->z]",
    "(S//a->x FOLLOWED BY{x=y, 5} S//b->y) FOLLOWED BY{y=z, 5} S//a->z",
    "S//a->x NOT FOLLOWED BY{x=y, 3} S//b->y",
    "S//a->x FOLLOWED BY{lower-case(x)=lower-case(y), 5} S//b->y",
)
PUBLISHING = (
    "SELECT <e><a>{x}</a></e> FROM S//b->x PUBLISH P",
    "SELECT <e><a>{x}</a><a>u</a></e> FROM S//a->x FOLLOWED BY{x=y, 5} R//a->y PUBLISH P",
)
QUERIES = (*SPREAD, *SLICED, *PUBLISHING, *PUBLISHING)


class Action(NamedTuple):
    """A batch of documents, or a change of a subscription."""

    kind: str
    name: str = ""
    query: str = ""
    updates: bool = False
    documents: tuple[xscl.Document, ...] = ()


VALUES = st.sampled_from("uuvvwU")
LEAVES = st.lists(st.tuples(st.sampled_from("aaabb"), VALUES), min_size=3, max_size=6)
DOCUMENTS = st.tuples(
    st.sampled_from((("S",), ("S",), ("S",), ("R",), ("P",), ("S", "R"), ("S", "P"))),
    st.integers(1, 20),  # an id twice: another version, or a duplicate
    st.sampled_from((0, 1, 1, 2, -2)),
    VALUES,
    LEAVES,
)


@st.composite
def histories(
    draw: st.DrawFn, *, edits: bool = False, others: Sequence[str] = QUERIES
) -> list[Action]:
    """Return a strategy of actions: three subscriptions begin before all documents."""
    first: list[str] = draw(st.lists(st.sampled_from(SPREAD), min_size=3, max_size=3, unique=True))
    later: list[str] = []
    if others:
        later = draw(st.lists(st.sampled_from(others), min_size=2, max_size=3))
    begun, clock = [f"q{number}" for number in range(3)], 0
    actions = [
        Action("subscribe", name, query, draw(st.booleans()))
        for name, query in zip(begun, first, strict=True)
    ]
    for _ in range(draw(st.integers(3, 5))):
        if draw(st.booleans()) and later:
            begun.append(f"q{len(begun)}")
            actions.append(Action("subscribe", begun[-1], later.pop(), draw(st.booleans())))
        if draw(st.integers(0, 9)) == 0:
            actions.append(Action("unsubscribe", draw(st.sampled_from(begun))))
        if edits and draw(st.booleans()):
            kind = draw(st.sampled_from(("pause", "resume", "edit", "edit")))
            query = draw(st.sampled_from(others))
            actions.append(Action(kind, draw(st.sampled_from(begun)), query))
        batch = []
        for stream, number, step, key, leaves in draw(st.lists(DOCUMENTS, min_size=2, max_size=4)):
            clock = max(0, clock + step)
            text = "".join(f"<{tag}>{value}</{tag}>" for tag, value in leaves)
            xml = f'<r><e k="{key}">{text}</e></r>'.encode()
            batch.append(xscl.Document(stream, f"d{number}", clock, xml))
        actions.append(Action("push", documents=tuple(batch)))
    return actions


def bind(monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    """Set the bound of results of all engines."""
    engine = partial(xscl.Engine, result_bound=bound)
    monkeypatch.setattr(cell_host, "Engine", engine)
    monkeypatch.setattr(xscl, "Engine", engine)


def play(
    engine: xscl.Engine, push: Callable[[Sequence[xscl.Document]], object], actions: list[Action]
) -> list[str]:
    """Make all actions; return the errors of those that are refused."""
    refused = []
    for one in actions:
        try:
            match one.kind:
                case "push":
                    push(one.documents)
                case "subscribe":
                    engine.subscribe(one.name, one.query, updates=one.updates)
                case "unsubscribe":
                    engine.unsubscribe(one.name)
                case "edit":
                    engine.edit(one.name, one.query)
                case _:
                    engine.edit(one.name, paused=one.kind == "pause")
        except xscl.XsclError as error:
            refused.append(error.code)
    return refused


def stops(engine: xscl.Engine, names: Sequence[str]) -> dict[str, object]:
    """Return where the bound of results has cut some subscriptions."""
    planned = engine.host.state.dataflow.subscribed
    return {one.name: planned.stopped(one) for one in engine.subscriptions if one.name in names}


def assert_same(actions: list[Action], deal: DealToGrid) -> Counter[str]:
    """Compare grid and single engine; return the number of matches by subscription."""
    numbers = count(1)
    with cluster(1, lambda _: 0, deal, groups=GROUPS, width=WIDTH) as driver:

        def consume(batch: Sequence[xscl.Document]) -> None:
            number = next(numbers)
            driver.consume(batch, BatchKey(DIRECT, number, number))

        refused = play(driver.engine, consume, actions)
        driver.flush()
        found = delivered(driver.engine)
        stopped = stops(driver.engine, deal.placed)
    with xscl.Engine() as engine:
        assert play(engine, engine.push, actions) == refused
        engine.flush()
        assert found == delivered(engine)
        assert stopped == stops(engine, deal.placed)
    return Counter({name: len(found.get(name, ())) for name in deal.placed if name})


VARIANTS = {
    "usual": (histories(), RESULTS),
    # All begin at once: a single engine also counts partners that a later one does not see.
    "bound": pytest.param(histories(others=()), 2, marks=pytest.mark.slow),
    "edits": pytest.param(histories(edits=True), RESULTS, marks=pytest.mark.slow),
}


@pytest.mark.hypothesis
@pytest.mark.parametrize(("drawn", "bound"), VARIANTS.values(), ids=VARIANTS)
def test_matches_that_meet_in_several_cells_are_those_of_one_engine(
    drawn: st.SearchStrategy[list[Action]], bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    matched = Counter[str]()
    bind(monkeypatch, bound)

    @examples(12)
    @given(drawn, DEALS)
    def property_holds(actions: list[Action], deals: list[tuple[int, int]]) -> None:
        matched.update(assert_same(actions, DealToGrid(deals)))

    property_holds()
    until(lambda: matched.total() > 0, property_holds)
    assert matched.total() > 0
