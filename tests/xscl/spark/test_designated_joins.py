"""The designated join: which subscriptions have one, and which of several equalities it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

import xscl
from xscl.documents.results import Subscription
from xscl.shredding.nodes.tree import string_value
from xscl.spark.designated_joins import (
    Equality,
    designated,
    equalities,
    relaxed,
    shared_values,
)

DIVIDED = (
    "S//a->x FOLLOWED BY{x=y, 9} S//a->y",
    "S//a->x JOIN{x=y, 4} S//b->y",
    "S//e[./a->x][./b->u] FOLLOWED BY{x=y AND u=v} S//e[./a->y][./b->v]",
    "S//e[./a->x][.//a->u] JOIN{x=y AND u=v, 6} S//e[./a->y][.//a->v]",
    "S//e[./a->x][./b->u] JOIN{x=y AND u != v, 6} S//e[./a->y][./b->v]",
    "SELECT DISTINCT <m>{x}</m> FROM S//a[.='u']->x JOIN{x=y} S//e/@k->y",
)
WHOLE = (
    "S//a->x",
    "S//e[@k][./a->x][./b->u] FOLLOWED BY{x=y AND contains(u, v)} S//e[./a->y][./b->v]",
    "S//a->x NEXT{x=y} S//a->y",
    "S//a->x FOLLOWED BY{x=y OR x=z} S//e[./a->y][./b->z]",
    "(S//a->x FOLLOWED BY{x=y, 5} S//b->y) FOLLOWED BY{y=z, 5} S//a->z",
    "S//a->x NOT FOLLOWED BY{x=y, 3} S//b->y",
    "S//a->x FOLLOWED BY{lower-case(x)=lower-case(y), 5} S//b->y",
    "SELECT <e><a>{x}</a></e> FROM S//a->x FOLLOWED BY{x=y, 5} R//a->y PUBLISH P",
)


def found(engine: xscl.Engine, name: str) -> list[Equality]:
    return equalities(engine.host.state.registry, subscription(engine, name))


def subscription(engine: xscl.Engine, name: str) -> Subscription:
    return engine.host.state.subscriptions[name]


def one_each(pairs: Sequence[tuple[str, str]]) -> list[float]:
    return [1.0] * len(pairs)


def test_only_joins_whose_documents_share_a_value_are_divided() -> None:
    with xscl.Engine() as engine:
        for query in (*DIVIDED, *WHOLE):
            engine.subscribe(query[:99].replace("/", "-"), query)
        some = [one.query for one in engine.subscriptions if found(engine, one.name)]
    assert some == list(DIVIDED)


def test_joins_of_nodes_with_the_same_definitions_are_not_designated() -> None:
    """Which of two such joins is which may differ between engines."""
    with xscl.Engine() as engine:
        engine.subscribe("twice", "S//e[./a->x][./a->u] JOIN{x=y AND u=v} S//e[./a->y][./a->v]")
        assert found(engine, "twice") == []


@pytest.mark.parametrize("query", DIVIDED)
def test_the_documents_of_a_match_share_the_value(query: str) -> None:
    leaves = "<a>u</a><a>v</a><b>u</b><b>w</b>"
    with xscl.Engine() as engine:
        engine.subscribe("join", query)
        for number in range(1, 4):
            xml = f'<r><e k="u">{leaves}</e></r>'.encode()
            assert engine.push(xscl.Document("S", f"d{number}", number, xml)).accepted == 1
        rows = engine.host.transactions.store.scan("result").to_pylist()
        tree = engine.host.state.documents.tree
        for one in found(engine, "join"):
            before, after = one.places
            for row in rows:
                value = string_value(tree(row["doc1"]).items[row["nodes"][before]])
                assert value == string_value(tree(row["doc2"]).items[row["nodes"][after]]) != ""
        assert rows


def test_a_definition_without_conditions_selects_at_least_its_nodes() -> None:
    assert relaxed("S//e[@k='1']/a[b]") == "S//e/a"
    assert relaxed("#composite") == ""


def test_the_rarest_join_of_kept_documents_is_designated() -> None:
    query = "S//e[./kind->k][./title->t] FOLLOWED BY{k=l AND t=u, 9} S//e[./kind->l][./title->u]"
    values = {
        "S//e/kind": Counter({"news": 8}),
        "S//e/title": Counter(f"t{number}" for number in range(8)),
    }
    with xscl.Engine() as engine:
        engine.subscribe("rare", query)
        among = found(engine, "rare")
    chosen = designated(among, lambda pairs: shared_values(values, pairs))
    assert chosen is not None
    assert (chosen.first, chosen.second) == ("S//e/title", "S//e/title")
    first = designated(among, one_each)
    assert first is not None
    assert first.first == "S//e/kind", "among equally rare joins it is the first"
    assert designated([], one_each) is None
