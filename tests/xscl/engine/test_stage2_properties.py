"""Every way of joining gives what the oracle says: in memory, selectively, Algorithm 1."""

from __future__ import annotations

from collections import Counter
from functools import partial, wraps
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates import columns, processor
from templates.bounded_answers import Enumeration
from templates.evaluators import ConjunctiveQueries
from templates.model import conjunctive_query
from templates.state import value_joins
from templates.state.join_state import JoinState
from tests.algorithm_1 import ProcessorOfBase
from tests.examples import examples
from tests.oracle.evaluation import matches
from tests.oracle.queries import Case
from tests.strategies.language import KINDS, joins
from tests.xscl.engine.player import played
from xscl import Engine
from xscl.engine import state
from xscl.planning.operators import refine

CUTS = st.lists(st.booleans(), min_size=1, max_size=6)


Settings = dict[tuple[object, str], tuple[object, ...]]
"""The settings of a way of joining, each with its possible values."""


class Way(NamedTuple):
    """A way of joining: the number of cases, what is set for it, and the method that it reaches.

    `memory` is that of the join state.
    """

    number: int
    settings: Settings
    reached: tuple[type, str] | None = None
    memory: tuple[int | None, ...] = (None,)
    cases: st.SearchStrategy[Case] = joins()


FEW = (value_joins, "FEW")
SMALL_BATCH = (processor, "SMALL_BATCH")
ONE_BY_ONE: Settings = {(columns, "MOST"): (1,), (conjunctive_query, "IN_DATABASE"): (1,)}
IN_PARTS: Settings = {(value_joins, "PART"): (1,), (value_joins, "LONG"): (0, 1, 32)}
WAYS = {
    "what drives, in parts": Way(
        8, {FEW: (0,), **IN_PARTS, SMALL_BATCH: (-1, processor.SMALL_BATCH)}
    ),
    "what would be too much is divided": Way(
        12, {FEW: (0,), **ONE_BY_ONE}, (Enumeration, "answer")
    ),
    "batches of several go to DuckDB": Way(
        12, {FEW: (0,), SMALL_BATCH: (1,)}, (ConjunctiveQueries, "answers")
    ),
    "dropped from memory": Way(
        5, {FEW: (0, value_joins.FEW)}, (JoinState, "_fetch"), memory=(0, 1_000)
    ),
    "residual predicates keep no values": Way(
        12, {(refine, "MOST_CHARACTERS"): (-1,)}, cases=KINDS["residuals"]
    ),
    "Algorithm 1": Way(5, {(state, "Processor"): (ProcessorOfBase,)}),
}


def watch(patch: pytest.MonkeyPatch, owner: type, name: str, seen: Counter[str]) -> None:
    """Count the calls of a method, of one that reads dropped rows those that have read some."""
    method = getattr(owner, name)

    @wraps(method)
    def watched(self: Any, *given: Any) -> Any:
        result = method(self, *given)
        seen["reached"] += not isinstance(self, JoinState) or self.fetches > 0
        return result

    patch.setattr(owner, name, watched)


@pytest.mark.hypothesis
@pytest.mark.parametrize("name", WAYS)
def test_each_way_of_joining_finds_what_the_oracle_finds(name: str) -> None:
    """A third of the cases have matches."""
    way, seen = WAYS[name], Counter[str]()
    values = {place: st.sampled_from(several) for place, several in way.settings.items()}

    @examples(way.number)
    @given(way.cases, CUTS, st.fixed_dictionaries(values), st.sampled_from(way.memory))
    def property_holds(
        case: Case, cuts: list[bool], settings: dict[tuple[object, str], object], memory: int | None
    ) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for (owner, attribute), value in settings.items():
                patch.setattr(owner, attribute, value)
            if way.reached is not None:
                watch(patch, *way.reached, seen)
            found = played(case, cuts, partial(Engine, kept_memory=memory)).found
        assert len(found) == len(set(found))
        assert set(found) == set(matches(case.events, case.lateness))
        seen["cases"] += 1
        seen["with matches"] += bool(found)

    property_holds()
    assert 3 * seen["with matches"] >= seen["cases"] > 0, seen
    assert way.reached is None or seen["reached"], seen
