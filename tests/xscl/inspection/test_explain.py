"""`explain` names the evaluator of each operator of a query."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import xscl
from xscl import Engine
from xscl.store.queries.relations import MEANINGS, RELATION_OF_RELATIONS, RELATIONS, meaning

A, B = "S//a->x[./k->k1]", "S//b->y[./k->k2]"
EQUAL = f"{A} JOIN{{k1 = k2, 5 s}} {B}"
STAGE_2 = "stage 2 (template N, DuckDB above 64 documents)"


@pytest.fixture(scope="module")
def engine() -> Iterator[xscl.Engine]:
    with xscl.Engine() as engine:
        yield engine


@pytest.mark.parametrize(
    ("query", "evaluators"),
    [
        (EQUAL, [STAGE_2]),
        (f"{A} FOLLOWED BY{{k1 = k2 AND k1 != 'u', 5 s}} {B}", [STAGE_2]),
        (f"{A} JOIN{{contains(k1, k2), 5 s}} {B}", [STAGE_2]),
        (f"{A} JOIN{{NOT contains(k1, k2), 5 s}} {B}", [f"{STAGE_2}, Refine (residual test)"]),
        (f"{A} FOLLOWED BY{{k1 < k2, 5 s}} {B}", [f"{STAGE_2}, Refine (residual test)"]),
        ("S//a->x", [f"stage 1 (automaton), {STAGE_2}"]),
        (f"{A} NEXT{{k1 = k2}} {B}", ["core: Sequence"]),
        (f"{A} NOT FOLLOWED BY{{k1 = k2, 5 s}} {B}", ["core: Absence"]),
        (f"{A} FOLD{{k1 = k2, 1 = 1, $.c + 1 AS c}} {B}", ["core: Iterate"]),
        (
            f"({A} NEXT{{k1 = k2}} {B}) JOIN{{k3 = k1, 5 s}} S//c->z[./k->k3]",
            ["core: Sequence", STAGE_2],
        ),
    ],
)
def test_each_operator_has_an_evaluator(
    engine: xscl.Engine, query: str, evaluators: list[str]
) -> None:
    engine.subscribe("one", query)
    text = engine.explain("one")
    engine.unsubscribe("one")
    named = [
        re.sub(r"template \d+", "template N", line)
        for line in text.splitlines()
        if line.startswith("evaluated by: ")
    ]
    assert named == [f"evaluated by: {evaluator}" for evaluator in evaluators], text


@pytest.mark.parametrize(
    "no", ["NOT FOLLOWED BY{k1 = k2, 5 s} {}", "FOLLOWED BY{k1 = k2, 5 s} {} ELSE"]
)
def test_absences_on_streams_that_are_not_live_are_warned_of(no: str) -> None:
    query = f"L//a->x[./k->k1] {no.replace('{}', B)}"
    with xscl.Engine() as engine:
        engine.subscribe("made", "S//b->x PUBLISH P")
        engine.stream("L", live=True)
        (warning,) = _warnings_of_time(engine, query)
        assert warning.startswith(
            "warning: an absence is reported only when a later document arrives: 'S' is not live;"
        )
        published = query.replace("S//", "P//")
        assert _warnings_of_time(engine, published) == [warning], "the input of P is not live"
        both = query.replace("L//", "T//")
        assert "'T', 'S' are not live" in (told := _warnings_of_time(engine, both)[0])
        assert "'xscl stream set T --live' and 'xscl stream set S --live' let a service" in told
        assert not _warnings_of_time(engine, EQUAL), "it waits for no time"
        engine.stream("S", live=True)
        assert not _warnings_of_time(engine, query)
        assert not _warnings_of_time(engine, published)


def _warnings_of_time(engine: xscl.Engine, query: str) -> list[str]:
    return [line for line in engine.explain(query).splitlines() if "not live" in line]


def test_each_column_of_each_relation_has_a_meaning() -> None:
    with Engine() as engine:
        engine.subscribe("q", "S//a[./x->x] FOLLOWED BY{x = y, 1 d} S//b[./y->y]")
        names = [one.name for one in RELATIONS if one.what]
        columns = {
            (name, column)
            for name in (*names, "R_T_1", "R_out_1")
            for column in engine.sql(f"FROM {name} LIMIT 0").schema.names
        }
    described = RELATION_OF_RELATIONS.name
    columns |= {(described, column) for column in ("relation", "column", "type", "what")}
    assert all(meaning(*column) for column in columns)
    used = {f"{name}.{column}" for name, column in columns} & MEANINGS.keys()
    used |= {column for name, column in columns if f"{name}.{column}" not in used}
    assert MEANINGS.keys() <= used
    assert meaning("R_T_1", "var12") == meaning("R_bin", "var1")
    assert meaning("documents", "nothing") == ""


@pytest.mark.parametrize("right", ["S//b->y", "AT '0 9 * * *'->t", "(S//b NEXT S//c)"])
def test_a_join_without_an_equality_shows_no_constants(engine: xscl.Engine, right: str) -> None:
    text = engine.explain(f"S//a->x JOIN{{9 h}} {right}")
    assert "(any) = (any)" in text
    assert '"" = ""' not in text
