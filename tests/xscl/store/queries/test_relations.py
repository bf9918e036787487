"""Declarations of the relations."""

import re

from xscl import Engine
from xscl.store.queries.relations import (
    LENT,
    PUBLIC,
    RELATIONS,
    relations_for,
    relations_of_template,
)


def test_a_relation_names_what_its_query_reads() -> None:
    names = {*LENT, "out_1", *(one.name for one in RELATIONS)}
    with Engine() as engine:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        graph = engine.host.state.registry.members[1].template.graph
    for one in (*RELATIONS, *relations_of_template(1, graph)):
        read = set(re.findall(r"(?:FROM|JOIN) ([\w.]+)", one.query))
        assert {f"state.{table}" for table in one.tables} == {n for n in read if "." in n}, one.name
        assert set(one.over) == read & names, one.name


def test_a_relation_stands_after_those_that_it_reads() -> None:
    known = set(LENT)
    for one in RELATIONS:
        assert known.issuperset(one.over)
        known.add(one.name)


def test_the_relations_for_a_query_are_those_that_it_needs() -> None:
    assert [one.name for one in relations_for({"late"})] == ["arrival", "missed", "late"]
    assert [one.name for one in relations_for({"r_l"})] == ["named_pair", "value_join", "R_L"]
    assert relations_for({"relations"}) == []
    assert len(relations_for({name.lower() for name in PUBLIC})) == len(RELATIONS)
