"""Shares of subscriptions in the time of the plan: they add up, whatever is shared and changed."""

from __future__ import annotations

import pytest

import xscl

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
