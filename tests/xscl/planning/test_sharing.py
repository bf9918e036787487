"""Sharing in the plan: m-ops, operators, indexes; removal leaves nothing behind.

Operators over time join their m-ops by the same rules as CEL's (Hong 2009, Table 5.1), joins by
their template (section 6.4.3), blocks by their stream.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

import xscl
from tests.plan_graph import graph
from tests.xscl.stored_tables import stored_tables
from xscl import Document

MANY = 1_000
SOME = 60


def item(number: int, **leaves: str | int) -> Document:
    """Return a feed item with some leaves; its number is its time."""
    body = "".join(f"<{name}>{value}</{name}>" for name, value in leaves.items())
    return Document("S", f"d{number}", number, f"<item>{body}</item>".encode())


def mops(engine: xscl.Engine, kind: str) -> list[dict[str, Any]]:
    """Return the m-ops of one kind."""
    found: list[dict[str, Any]] = graph(engine.state.dataflow.core.plan)["mops"]
    return [mop for mop in found if mop["kind"] == kind]


def sizes(engine: xscl.Engine) -> dict[str, list[int]]:
    """Return the number of operators of the m-ops of each kind."""
    plan = graph(engine.state.dataflow.core.plan)
    found: dict[str, list[int]] = {}
    for mop in plan["mops"]:
        found.setdefault(mop["kind"], []).append(len(mop["operators"]))
    return found


def delivered(matches: Iterable[xscl.Match]) -> set[tuple[str, tuple[str, ...]]]:
    """Return who got which documents."""
    return {(match.subscription, match.documents) for match in matches}


def referring(constant: int) -> str:
    """Return a subscription to the next item that refers to one with a certain title."""
    return (
        f"S//item[./title->t][./link->l] NEXT{{t = 'const{constant}' AND contains(d, l)}}"
        " S//item[./description->d]"
    )


def test_a_thousand_constants_are_one_select_and_one_sequence(engine: xscl.Engine) -> None:
    engine.subscribe_many((f"q{n}", referring(n)) for n in range(MANY))
    assert sizes(engine) == {
        "xpath_scan": [2],
        "template_join": [1, 1],  # two leaves on the left, one on the right: two templates
        "attributes": [1, 1],
        "select": [MANY],
        "sequence": [MANY],
        "collect": [MANY],
    }
    (select,) = mops(engine, "select")
    assert select["index_entries"] == MANY
    assert {one["indexes"] for one in select["operators"]} == {
        "predicate index: hash on 1 equality"
    }
    for scan in mops(engine, "xpath_scan")[0]["operators"]:
        assert scan["uses"] == MANY + 1  # every query, and the one join above it
    found = engine.push(
        [
            item(1, title="const17", link="http://x/1", description=""),
            item(2, title="none of them", link="http://x/2", description=""),
            item(3, title="const400", link="http://x/3", description="no link"),
        ]
    )
    assert not found
    assert engine.state.dataflow.core.stats()["waiting"] == 2  # d3, as a left and as a right row
    found = engine.push([item(4, description="http://x/1 and http://x/3"), item(5)])
    assert delivered(found) == {("q17", ("d1", "d4")), ("q400", ("d3", "d4"))}
    assert engine.state.dataflow.core.stats()["instances"] == 0


def test_an_instance_is_kept_once_for_all_whom_it_serves(engine: xscl.Engine) -> None:
    for limit in range(SOME):
        engine.subscribe(f"q{limit}", numbered(limit))
    (sequence,) = mops(engine, "sequence")
    assert len(sequence["operators"]) == SOME
    engine.push([item(1, n=SOME // 2, k="a"), item(2)])
    assert engine.state.dataflow.core.stats()["instances"] == 1
    (select,) = mops(engine, "select")
    assert {one["indexes"] for one in select["operators"]} == {
        "predicate index: sorted list on an inequality"
    }
    found = engine.push([item(3, k="a"), item(4)])
    assert delivered(found) == {(f"q{n}", ("d1", "d3")) for n in range(SOME // 2)}


def numbered(limit: int) -> str:
    return f"S//item[./n->n][./k->x] NEXT{{n > {limit} AND x = y}} S//item[./k->y]"


def test_folds_above_what_differs_share_their_m_op(engine: xscl.Engine) -> None:
    for n in range(SOME):
        engine.subscribe(
            f"q{n}",
            f"(S//item[./title->t][./link->k] NEXT{{t = 'const{n}' AND contains(d, k)}}"
            " S//item[./description->d][./link->l_1])"
            " FOLD{contains($2.e, $.l)} S//item[./description->e][./link->l]",
        )
    assert sizes(engine)["sequence"] == [SOME]
    assert sizes(engine)["iterate"] == [SOME]
    found = engine.push(
        [
            item(1, title="const7", link="L1"),
            item(2, link="L2", description="of L1"),
            item(3, link="L3", description="of L2"),
            item(4, link="L4", description="of L3"),
            item(5),
        ]
    )
    assert delivered(found) == {("q7", ("d1", "d2", "d3")), ("q7", ("d1", "d2", "d4"))}


def test_conditions_of_a_block_are_operators_of_one_scan(engine: xscl.Engine) -> None:
    for n in range(SOME):
        engine.subscribe(f"q{n}", f"S//item[k = {n}][./l->x] NEXT{{x = y}} S//item[./l->y]")
    assert sizes(engine) == {
        "xpath_scan": [SOME + 1],
        "template_join": [SOME + 1],
        "attributes": [SOME + 1],
        "sequence": [SOME],
        "collect": [SOME],
    }
    found = engine.push([item(1, k=3, l="v"), item(2, k=4, l="v"), item(3)])
    assert delivered(found) == {("q3", ("d1", "d2"))}


# -- Joins and chains -------------------------------------------------------------------------


def chain(leaf: str, window: int) -> str:
    return (
        f"S//item[./{leaf}->x] FOLLOWED BY{{x = y, {window}}} S//item[./{leaf}->y]"
        f" FOLLOWED BY{{y = z, {window}}} S//item[./{leaf}->z]"
    )


def test_chains_have_one_join_for_each_template(engine: xscl.Engine) -> None:
    for n in range(SOME):
        engine.subscribe(f"q{n}", chain("abc"[n % 3], n + 1))
    # one for the pairs, one for a pair and a third item
    assert sizes(engine) == {"xpath_scan": [3], "template_join": [SOME, SOME]}
    found = engine.push([item(number, a="v", b=number) for number in (1, 2, 4)])
    assert delivered(found) == {
        (f"q{n}", ("d1", "d2", "d4")) for n in range(SOME) if n % 3 == 0 and n + 1 >= 2
    }


# -- Equal subscriptions ----------------------------------------------------------------------

EQUAL = {
    "chain": (
        "S//item[./a->{0}] FOLLOWED BY{{{0} = {1}, 5}} S//item[./a->{1}]"
        " FOLLOWED BY{{{1} = {2}, 5}} S//item[./a->{2}]"
    ),
    "residual": (
        "S//item->{0}[./a->{1}] FOLLOWED BY{{{1} = {2} AND {1} != 'w', 5}} S//item[./a->{2}]"
    ),
    "NEXT": "S//item->{0}[./a->{1}] NEXT{{{1} = {2} AND {1} != 'w'}} S//item->{3}[./a->{2}]",
    "FOLD": (
        "S//item[./a->{0}] FOLD{{{0} = {1} AND $.{2} < 2, $.{2} < 9, $.{2} + 1 AS {2}}}"
        " S//item[./a->{1}]"
    ),
    "NOT FOLLOWED BY": "S//item[./a->{0}] NOT FOLLOWED BY{{{0} = {1}, 5}} S//item[./a->{1}]",
    "ELSE": "S//item[./a->{0}] FOLLOWED BY{{{0} = {1}, 5}} S//item[./a->{1}] ELSE",
}
USERS = {"u": ("p", "q", "r", "s"), "v": ("v1", "v2", "v3", "v4"), "w": ("s", "r", "q", "p")}


@pytest.mark.parametrize("text", EQUAL.values(), ids=EQUAL)
def test_equal_subscriptions_are_the_same_operators(engine: xscl.Engine, text: str) -> None:
    engine.subscribe("first", text.format("a", "b", "c", "d"))
    alone = sizes(engine)
    for user, names in USERS.items():
        engine.subscribe(user, text.format(*names))
    assert sizes(engine) == alone
    found = [*engine.push([item(number, a="v") for number in (1, 2, 4)]), *engine.flush()]
    documents = {match.documents for match in found}
    assert documents
    assert delivered(found) == {(user, one) for user in ("first", *USERS) for one in documents}
    assert len({match.id for match in found}) == len(found)


def test_the_order_of_conditions_makes_no_other_operator(engine: xscl.Engine) -> None:
    engine.subscribe("one", "S//item[./a->x][./b->y] NEXT{x = 'v' AND y = z} S//item[./b->z]")
    alone = sizes(engine)
    engine.subscribe("two", "S//item[./b->y][./a->x] NEXT{z = y AND x = 'v'} S//item[./b->z]")
    assert sizes(engine)["xpath_scan"] == alone["xpath_scan"]
    assert sizes(engine)["template_join"] == alone["template_join"]


# -- Removal ----------------------------------------------------------------------------------

KEPT = {"document", "meta", "progress"}  # what was seen, and how far: not a subscription's
OFTEN = 10


def populate(engine: xscl.Engine) -> list[str]:
    """Subscribe to all kinds of queries, several of each; return their names."""
    texts = [text.format("x", "y", "z", "t") for text in EQUAL.values()]
    texts += [referring(n) for n in range(OFTEN)]
    texts += [chain("a", n + 1) for n in range(OFTEN)]
    texts += ["S//item[./a->x] FOLLOWED BY{x = y, 9} S//item[./a->y] PUBLISH pairs"]
    texts += ["pairs//item[./a->x] NEXT{x = y} S//item[./a->y]"]
    names = [f"q{number}" for number in range(len(texts))]
    engine.subscribe_many(zip(names, texts, strict=True))
    return names


def tables(engine: xscl.Engine) -> set[str]:
    """Return the tables of the state that have rows."""
    found = stored_tables(engine.transactions.store)
    return {name for name, rows in found.items() if rows.num_rows}


def emptied() -> xscl.Engine:
    """Return an engine whose subscriptions are gone, while much was waited for."""
    engine = xscl.Engine()
    names = populate(engine)
    found = engine.push([item(n, a="v", title=f"const{n}", link=f"L{n}") for n in range(1, 5)])
    assert found
    assert engine.state.dataflow.core.stats()["instances"]
    assert engine.state.dataflow.core.stats()["waiting"]
    for name in reversed(names):
        engine.unsubscribe(name, purge=True)
    return engine


def test_who_goes_takes_nothing_from_those_who_stay() -> None:
    documents = [item(n, a="v", title=f"const{n}", link=f"L{n}") for n in range(1, 5)]
    later = [item(5, a="v", description="of L1 and L3"), item(30)]
    with xscl.Engine() as whole, xscl.Engine() as half:
        names = populate(whole)
        populate(half)
        whole.push(documents)
        half.push(documents)
        gone = {name for number, name in enumerate(names) if number % 2 and number < len(EQUAL) + 9}
        for name in gone:
            half.unsubscribe(name)
        stay = {one for one in delivered(whole.push(later)) if one[0] not in gone}
        assert len({name for name, _ in stay}) > OFTEN
        assert delivered(half.push(later)) == stay


def test_after_the_last_one_plan_and_tables_are_empty() -> None:
    with emptied() as engine:
        assert tables(engine) == KEPT
        assert sizes(engine) == {}
        counts = engine.state.dataflow.core.stats()
        for what in ("operators", "mops", "channels", "instances", "index_entries", "waiting"):
            assert counts[what] == 0, what
        assert not engine.flush()
        assert not engine.push(item(40, a="v"))


# -- Shares of the cost --------------------------------------------------------------------


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


def test_shares_add_up_to_one_and_what_is_shared_is_divided(engine: xscl.Engine) -> None:
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
