"""Shares of subscriptions in the time of the plan: they add up, whatever is shared and changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples

PAIR = "S//a[./t->t] FOLLOWED BY{t = u, 1 h} S//b[./t->u]"
QUERIES = {
    "pair": PAIR,
    "equal": PAIR,
    "alike": "S//a[./k->t] FOLLOWED BY{t = u, 2 h} S//b[./k->u]",
    "filter": "R//c->c",
    "publisher": "R//c[./t->t] FOLLOWED BY{t = u, 1 h} S//b[./t->u] PUBLISH pairs",
    "next": "S//a[./t->t] NEXT{t = u} S//b[./t->u]",
    "over results": "pairs//*->x NEXT S//b->y",
    "absent": "S//a[./t->t] NOT FOLLOWED BY{t = u, 1 min} S//b[./t->u]",
    "quiet": "Q//d->d",
}
CHANGES: dict[str, Callable[[xscl.Engine, str], object]] = {
    "pause": lambda engine, name: engine.edit(name, paused=True),
    "resume": lambda engine, name: engine.edit(name, paused=False),
    "edit": lambda engine, name: engine.edit(name, "S//a[./z->z]"),
    "remove": lambda engine, name: engine.unsubscribe(name, cascade=True),
}


def subscribed(engine: xscl.Engine) -> None:
    for name, query in QUERIES.items():
        engine.subscribe(name, query)
    engine.stream("events", attributes={"n": str})
    engine.subscribe("sase", "EVENT SEQ(events a, events b) WITHIN 5 seconds", language="sase")


def push(engine: xscl.Engine, first: int = 0) -> None:
    texts = {"S": ("a", "b"), "R": ("c",), "events": ("e",)}
    documents = [
        xscl.Document(
            stream,
            f"{stream}{name}{number}",
            (first + number) * 1_000_000,
            f"<{name}><t>{number // 2}</t><k>k</k><n>{number}</n></{name}>".encode(),
        )
        for number in range(8)
        for stream, names in texts.items()
        for name in names
    ]
    engine.push(documents)


def shares(engine: xscl.Engine) -> dict[str, float]:
    return engine.queries.cost_shares([one.name for one in engine.subscriptions])


def expect_counted(engine: xscl.Engine) -> None:
    """Compare the counts of users with those of all subscriptions, one by one."""
    state = engine.state
    plan = state.dataflow.subscribed
    operators = [one for each in state.subscriptions for one in plan.operators(each)]
    assert plan.users == Counter(operators)
    templates = [one for each in state.subscriptions for one in plan.templates(each)]
    assert plan.template_users == Counter(templates)


def test_shares_add_up_to_one_and_what_is_shared_is_divided() -> None:
    with xscl.Engine() as engine:
        subscribed(engine)
        assert set(shares(engine).values()) == {0.0}
        push(engine)
        engine.flush()
        found = shares(engine)
        assert sum(found.values()) == pytest.approx(1)
        assert found["pair"] == found["equal"] > 0
        assert 0 < found["quiet"] < found["filter"]  # nothing has come on its stream
        assert all(share > 0 for share in found.values())
        seconds = {node.name: node.seconds for node in engine.plan().nodes}
        assert sum(seconds.values()) > 0
        assert seconds["S"] == 0


@examples(16)
@given(st.lists(st.tuples(st.sampled_from([*CHANGES]), st.sampled_from([*QUERIES])), max_size=5))
@pytest.mark.hypothesis
def test_users_are_counted_through_every_change(changes: list[tuple[str, str]]) -> None:
    with xscl.Engine() as engine:
        subscribed(engine)
        for number, (change, name) in enumerate(changes):
            if name not in [one.name for one in engine.subscriptions]:
                continue
            if change == "edit" and name == "publisher":  # its readers would be orphans
                continue
            CHANGES[change](engine, name)
            expect_counted(engine)
            push(engine, 100 * number)
        assert sum(shares(engine).values()) == pytest.approx(1 if changes else 0, abs=1)
        for one in list(engine.subscriptions):
            if one.name in [each.name for each in engine.subscriptions]:
                engine.unsubscribe(one.name, cascade=True)
        expect_counted(engine)
        assert not engine.state.dataflow.subscribed.users
