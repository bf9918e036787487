"""Every way of joining gives what the oracle says: in memory, selectively, Algorithm 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from templates import columns, processor
from templates.bounded_answers import Enumeration
from templates.evaluators import ConjunctiveQueries
from templates.model import conjunctive_query
from templates.state import value_joins
from templates.state.join_state import JoinState
from tests.examples import examples
from tests.joining import by_algorithm_1, in_database
from tests.oracle.evaluation import matches
from tests.oracle.queries import Case
from tests.strategies.language import joins
from tests.xscl.engine.player import played
from xscl import Engine

CUTS = st.lists(st.booleans(), min_size=1, max_size=6)


def agrees(
    case: Case, cuts: list[bool], seen: Counter[str], make: Callable[[], Engine] = Engine
) -> None:
    """Compare an engine with the oracle, and count the case, and whether it has matches."""
    found = played(case, cuts, make).found
    assert len(found) == len(set(found))
    assert set(found) == set(matches(case.events, case.lateness))
    seen["cases"] += 1
    seen["with matches"] += bool(found)


def enough(seen: Counter[str], *limits: str) -> None:
    """Fail unless a third of the cases had matches, and each of some limits was reached."""
    assert 3 * seen["with matches"] >= seen["cases"] > 0, seen
    assert all(seen[limit] for limit in limits), seen


def watch(patch: pytest.MonkeyPatch, owner: type, name: str, reached: Callable[..., None]) -> None:
    """Wrap a method so that it records its arguments and its result."""
    method = getattr(owner, name)

    @wraps(method)
    def watched(*given: Any) -> Any:
        result = method(*given)
        reached(result, *given)
        return result

    patch.setattr(owner, name, watched)


@pytest.mark.hypothesis
def test_joining_by_what_drives_and_in_parts() -> None:
    seen = Counter[str]()

    @examples(8)
    @given(case=joins(), cuts=CUTS, database=st.booleans(), long=st.sampled_from((0, 1, 32)))
    def property_holds(case: Case, cuts: list[bool], database: bool, long: int) -> None:
        with pytest.MonkeyPatch.context() as patch, in_database(database):
            patch.setattr(value_joins, "FEW", 0)
            patch.setattr(value_joins, "PART", 1)
            patch.setattr(value_joins, "LONG", long)
            agrees(case, cuts, seen)

    property_holds()
    enough(seen)


@pytest.mark.hypothesis
@pytest.mark.parametrize("limit", ["MOST", "SMALL_BATCH"])
def test_joining_by_either_evaluator(limit: str) -> None:
    """Batches of several documents go to DuckDB; what would be too much in memory is divided."""
    seen = Counter[str]()

    @examples(12)
    @given(case=joins(), cuts=CUTS)
    def property_holds(case: Case, cuts: list[bool]) -> None:
        def reached(*_: Any) -> None:
            seen[limit] += 1

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(value_joins, "FEW", 0)
            if limit == "MOST":
                watch(patch, Enumeration, "answer", reached)
                patch.setattr(columns, "MOST", 1)
                patch.setattr(conjunctive_query, "IN_DATABASE", 1)
            else:
                watch(patch, ConjunctiveQueries, "answers", reached)
                patch.setattr(processor, "SMALL_BATCH", 1)
            agrees(case, cuts, seen)

    property_holds()
    enough(seen, limit)


@pytest.mark.hypothesis
def test_joining_what_was_dropped_from_memory() -> None:
    seen = Counter[str]()

    def fetched(_: None, cache: JoinState, *__: Any) -> None:
        seen["read again"] += cache.fetches > 0

    @examples(5)
    @given(case=joins(), cuts=CUTS, budget=st.sampled_from((0, 1_000)), all_joins=st.booleans())
    def property_holds(case: Case, cuts: list[bool], budget: int, all_joins: bool) -> None:
        with pytest.MonkeyPatch.context() as patch:
            watch(patch, JoinState, "_fetch", fetched)
            if not all_joins:
                patch.setattr(value_joins, "FEW", 0)
            agrees(case, cuts, seen, partial(Engine, kept_memory=budget))

    property_holds()
    enough(seen, "read again")


@pytest.mark.hypothesis
def test_algorithm_1() -> None:
    seen = Counter[str]()

    @examples(5)
    @given(case=joins(), cuts=CUTS)
    def property_holds(case: Case, cuts: list[bool]) -> None:
        with by_algorithm_1():
            agrees(case, cuts, seen)

    property_holds()
    enough(seen)
