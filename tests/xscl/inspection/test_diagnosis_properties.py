"""The closest documents of a diagnosis match exactly if the engine delivered a match of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from tests.examples import examples, until
from tests.oracle.queries import Case
from tests.strategies import joins
from tests.strategies import language as drawn
from tests.xscl.inspection.test_why_properties import play
from xscl.inspection import closest, diagnosis
from xscl.inspection.why import NONE
from xscl.inspection.why.temporal_choice import is_over_time
from xscl.planning.compile import compile_query

COMBINATIONS = 300
"""Up to so many combinations all are examined: then a match is found if there is one."""
KINDS: dict[str, st.SearchStrategy[Case]] = {
    "histories": joins.histories(),
    "chains": drawn.chains(),
    "residuals": drawn.residuals(),
    "functions": drawn.functions(),
    "mixes": drawn.mixes(),
    "published": drawn.published(),
}


@pytest.mark.slow
@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", KINDS)
def test_the_closest_documents_match_if_any_do(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "EXAMINED", COMBINATIONS)
    monkeypatch.setattr(diagnosis, "SECONDS", 1e6)
    monkeypatch.setattr(closest, "BEAM", COMBINATIONS)

    said = {True: 0, False: 0}

    @examples(2)
    @given(KINDS[kind])
    def property_holds(case: Case) -> None:
        with xscl.Engine(retention=xscl.Retention.of(history="30000 d")) as engine:
            play(engine, case)
            for one in engine.subscriptions:
                said[compare(engine, one.name, one.query)] += 1

    property_holds()
    until(lambda: min(said.values()) >= 1, property_holds)
    assert min(said.values()) >= 1, said


def compare(engine: xscl.Engine, name: str, text: str) -> bool:
    """Compare the diagnosis of a subscription with its matches; return if documents match."""
    delivered = {match.names for match in engine.matches(name)}
    found, query = engine.why(name), compile_query(text)
    combinations = 1
    for block in found.blocks:
        combinations *= block.matching if block.needed else 1
    if found.closest is None:
        assert not delivered
        return False
    names = tuple(one for one in found.closest.documents if one != NONE)
    if found.closest.matched:
        assert names in delivered, "\n".join(found.lines())
    elif combinations <= COMBINATIONS and not is_over_time(query.normal.form):
        assert not delivered, "\n".join(found.lines())
    return found.closest.matched
