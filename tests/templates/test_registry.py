"""The index of what is registered, built join by join and read again from the storage."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from templates.model.join_graph import (
    FOLLOWED_BY,
    JOIN,
    LEFT,
    RIGHT,
    Edge,
    JoinGraph,
    Node,
    TemporalRelation,
    relation_of,
)
from templates.registry.members import TemplateRows
from templates.registry.registry import UNDESIGNATED, Registry
from tests.templates.memory_storage import MemoryStorage

TWO = JoinGraph(
    (Node(0, None), Node(0, 0), Node(0, 0), Node(1, None), Node(1, 3), Node(1, 3)),
    (Edge(1, 4), Edge(2, 5)),
)
ONE = JoinGraph((Node(0, None), Node(1, None)), (Edge(0, 1),))
UNLIKE = JoinGraph(
    (Node(0, None), Node(0, 0), Node(0, 0), Node(1, None), Node(1, 3), Node(1, 3)),
    (Edge(1, 4), Edge(2, 5, "!=")),
)
FILTER = JoinGraph((Node(0, None, True),))
EVER = FOLLOWED_BY.within(None)
JOINS: list[tuple[JoinGraph, str, TemporalRelation]] = [
    (TWO, "abcdef", JOIN.within(5)),
    (TWO, "abcdeg", FOLLOWED_BY.within(7)),
    (TWO, "abcdeg", FOLLOWED_BY.within(8)),
    (TWO, "abcdeg", relation_of(FOLLOWED_BY.number, 3, 7)),
    (TWO, "hbcdef", EVER),
    (UNLIKE, "abcdef", FOLLOWED_BY.within(5)),
    (ONE, "af", FOLLOWED_BY.within(9)),
    (ONE, "ag", EVER),
    (FILTER, "a", EVER),
    (FILTER, "k", EVER),
]


def built(storage: MemoryStorage, *, one_by_one: bool = False) -> tuple[Registry, list[int]]:
    registry = Registry(storage)
    qids = []
    for graph, variables, relation in (*JOINS, JOINS[0]):
        placed = registry.add(graph, tuple(variables), relation)
        qids.append(placed.qid)
        if one_by_one:
            registry.save()
    registry.save()
    return registry, qids


def known(registry: Registry) -> dict[str, object]:
    """The description of a registry's content."""
    pairs = range(1, len(registry.pairs._firsts))
    return {
        "rows": registry.rows(),
        "named": registry.pairs.named(pairs),
        "described": [registry.pairs.describe(pair) for pair, _, _ in registry.pairs.named(pairs)],
        "kept": [bool(registry.retention.keeps[pair] >= 0) for pair in pairs],
        "keeps": registry.retention.keeps.tolist(),
        "joined": [registry.retention.joined(side).tolist() for side in (LEFT, RIGHT)],
        "bounds": registry.retention.horizon(),
        "back": registry.retention.looks_back,
        "firing": {
            (pair, sided): [m.template for m in registry.firing.reached([pair], two_sided=sided)]
            for pair in pairs
            for sided in (False, True)
        },
        "driving": [
            registry.firing.driving(dict.fromkeys(pairs, 3), back).edges.tolist()
            for back in (False, True)
        ],
        "members": {number: of(members) for number, members in registry.members.items()},
    }


def of(members: TemplateRows) -> dict[str, object]:
    everything = np.arange(1 << 8)
    present = np.unique((everything[:, None] % 16 << 31) | everything[None, :] % 16)
    touched = members.touched(np.union1d(present, everything))
    return {
        "columns": members.columns,
        "touched": {name: column.tolist() for name, column in touched.items()},
    }


def recounted(registry: Registry) -> dict[str, object]:
    """The counts of a registry, computed from its rows alone."""
    pairs = range(1, len(registry.pairs._firsts))
    rows = registry.rows().values()
    graphs = {number: one.template.graph for number, one in registry.members.items()}
    joined = [
        (side, row.pairs[ends[side]])
        for row in rows
        for ends in graphs[row.template].value_joins
        for side in (LEFT, RIGHT)
    ]
    keeps = {
        pair: [r.keep for r in rows if pair in r.pairs and graphs[r.template].two_sided]
        for pair in pairs
    }
    return {
        "columns": {
            number: [
                Counter(row.pairs[place] for row in rows if row.template == number)
                for place, _ in enumerate(graph.pairs)
            ]
            for number, graph in graphs.items()
        },
        "joined": [[joined.count((side, pair)) for pair in pairs] for side in (LEFT, RIGHT)],
        "keeps": [max(keeps[pair], default=-1) for pair in pairs],
        "back": any(row.relation.looks_back for row in rows),
    }


def counted(registry: Registry) -> dict[str, object]:
    """The counts of a registry."""
    pairs = slice(1, len(registry.pairs._firsts))
    return {
        "columns": {number: one.columns for number, one in registry.members.items()},
        "joined": [registry.retention.joined(side)[pairs].tolist() for side in (LEFT, RIGHT)],
        "keeps": registry.retention.keeps[pairs].tolist(),
        "back": registry.retention.looks_back,
    }


@pytest.mark.parametrize("one_by_one", [False, True])
def test_rows_are_counted_as_they_come_and_go(one_by_one: bool) -> None:
    registry, qids = built(MemoryStorage(), one_by_one=one_by_one)
    assert counted(registry) == recounted(registry)
    for qid in qids:
        registry.remove(qid)
        assert counted(registry) == recounted(registry)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_what_is_read_again_is_what_was_built(one_by_one: bool) -> None:
    registry, qids = built(MemoryStorage(), one_by_one=one_by_one)
    kept = MemoryStorage()
    built(kept)
    loaded = Registry(kept)
    loaded.load([(qid, qids.count(qid)) for qid in set(qids)])
    assert known(loaded) == known(registry)
    assert sorted(loaded.take_changed(), key=repr) == sorted(registry.take_changed(), key=repr)
    for qid in qids:
        assert loaded.remove(qid) == registry.remove(qid)
        assert known(loaded) == known(registry)
    assert not loaded.rows()


def test_a_replica_gets_and_loses_rows_as_the_registry_does() -> None:
    registry, replica = Registry(MemoryStorage()), Registry(MemoryStorage())
    qids: list[int] = []

    def add(joins: list[tuple[JoinGraph, str, TemporalRelation]]) -> None:
        for graph, variables, relation in joins:
            placed = registry.add(graph, tuple(variables), relation)
            qids.append(placed.qid)
        registry.save()
        new = qids[-len(joins) :]
        replica.add_stored(registry.stored(new), [(qid, 1) for qid in new])

    add(JOINS[:2])
    add(JOINS[2:6])
    for gone in (qids.pop(0), qids.pop(2)):
        assert replica.remove(gone) == registry.remove(gone)
    add(JOINS[6:])
    assert known(replica) == known(registry)
    assert sorted(replica.take_changed(), key=repr) == sorted(registry.take_changed(), key=repr)
    for qid in qids:
        assert replica.remove(qid) == registry.remove(qid)
        assert known(replica)["members"] == known(registry)["members"]
    assert not replica.rows()


def test_designated_equalities_are_stored_with_their_rows() -> None:
    kept = MemoryStorage()
    registry, qids = built(kept)
    assert {registry.lead(qid) for qid in qids} == {UNDESIGNATED}
    registry.designate({qids[1]: 1, qids[3]: 0})
    loaded = Registry(kept)
    loaded.load([(qid, qids.count(qid)) for qid in set(qids)])
    assert known(loaded) == known(registry)
    assert {qid: loaded.lead(qid) for qid in qids if loaded.lead(qid) != UNDESIGNATED} == {
        qids[1]: 1,
        qids[3]: 0,
    }
