"""Every way of joining gives what the oracle says: in memory, selectively, Algorithm 1."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

import xscl
from templates import columns, lending, processor, valuejoins
from tests.examples import examples
from tests.joining import in_database
from tests.oracle import matches
from tests.strategies import Case, cases
from tests.xscl.test_engine_properties import run

CUTS = st.lists(st.booleans(), min_size=1, max_size=6)


def agrees(case: Case, cuts: list[bool]) -> None:
    found = [delivered.match for delivered in run(case, cuts)]
    assert len(found) == len(set(found))
    assert set(found) == set(matches(case.events, case.lateness))


@examples(8)
@given(case=cases(), cuts=CUTS, database=st.booleans(), long=st.sampled_from((0, 1, 32)))
def test_joining_by_what_drives_and_in_parts(
    case: Case, cuts: list[bool], database: bool, long: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, in_database(database):
        patch.setattr(valuejoins, "FEW", 0)
        patch.setattr(valuejoins, "PART", 1)
        patch.setattr(valuejoins, "LONG", long)
        agrees(case, cuts)


@examples(5)
@given(case=cases(), cuts=CUTS)
def test_joining_in_memory_until_it_is_too_much(case: Case, cuts: list[bool]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lending, "FEW_NUMBERS", 1)
        patch.setattr(processor, "FEW_ROWS", 12)
        patch.setattr(columns, "MOST", 6)
        patch.setattr(valuejoins, "FEW", 0)
        agrees(case, cuts)


@examples(5)
@given(case=cases(), cuts=CUTS, budget=st.sampled_from((0, 1_000)), all_joins=st.booleans())
def test_joining_what_was_dropped_from_memory(
    case: Case, cuts: list[bool], budget: int, all_joins: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xscl, "Engine", partial(xscl.Engine, kept_memory=budget))
        if not all_joins:
            patch.setattr(valuejoins, "FEW", 0)
        agrees(case, cuts)


@examples(5)
@given(case=cases(), cuts=CUTS)
def test_algorithm_1(case: Case, cuts: list[bool]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xscl, "Engine", partial(xscl.Engine, views=False))
        agrees(case, cuts)
