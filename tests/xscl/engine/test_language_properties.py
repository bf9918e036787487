"""The engine equals the oracle of the whole language, however its input is cut or interrupted.

Each history ends with a flush.  What the engine delivers is compared, as a multiset, with what
`tests.oracle` finds by brute force.  A published document is known by its match.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.examples import examples, until, usually
from tests.oracle.evaluation import Match, matches
from tests.oracle.queries import Case, Push
from tests.strategies.language import KINDS, histories, joins
from tests.xscl.engine.player import CUTS, agrees, played, played_in_file

CASES = {**KINDS, "patterns": joins(), "people come and go": histories()}


@st.composite
def interrupted(draw: st.DrawFn, cases: st.SearchStrategy[Case]) -> tuple[Case, int]:
    """Return a case and the number of events before a pause in its midst.

    Documents that came before the pause match with some that came after it.
    """
    case = draw(cases)
    found = matches(case.events, case.lateness)
    pauses = [place for place in range(1, len(case.events)) if _spans(case, place, found)]
    assume(pauses)
    return case, draw(st.sampled_from(pauses))


def _spans(case: Case, pause: int, found: Iterable[Match]) -> bool:
    """Test for a match across the pause, without documents that arrive on both sides of it."""
    before, after = (
        {event.document.id for event in events if isinstance(event, Push)}
        for events in (case.events[:pause], case.events[pause:])
    )
    old, new = before - after, after - before
    return any(old & {*documents} and new & {*documents} for _, documents, _ in found)


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", CASES)
def test_engine_equals_oracle(kind: str) -> None:
    """A third of the cases have matches."""
    cases = [0, 0]

    @examples(12)
    @given(CASES[kind], CUTS)
    def property_holds(case: Case, cuts: list[bool]) -> None:
        player = played(case, cuts, flush=True)
        agrees(player, case, nodes_too=kind not in KINDS)
        cases[0] += 1
        cases[1] += bool(player.found)

    until(lambda: 3 * cases[1] >= cases[0] > 0, property_holds)
    assert 3 * cases[1] >= cases[0], f"{cases[1]} of {cases[0]} cases had matches"


@pytest.mark.hypothesis
@pytest.mark.parametrize("kind", usually(CASES, "mixes", "patterns", "people come and go"))
def test_a_file_closed_and_opened_again_changes_nothing(kind: str) -> None:
    @examples(3)
    @given(interrupted(CASES[kind]), CUTS)
    def property_holds(drawn: tuple[Case, int], cuts: list[bool]) -> None:
        case, pause = drawn
        player = played_in_file(case, cuts, pause, flush=True)
        agrees(player, case, nodes_too=kind not in KINDS)

    property_holds()
