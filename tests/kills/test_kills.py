"""A service that is killed at any point loses nothing, doubles nothing, and comes back by itself.

Rows C1, C2, C4, C14 and C17 of the plan for reliability, each point once and all in one directory,
one after the other; `test_many_kills` has hundreds.  The writer sends every fifth batch twice, and
after a kill some of what was not acknowledged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from feeds.faultpoints import FaultSpec
from tests.examples import usually
from tests.kills.checker import Verdict
from tests.kills.lives import Place, placed
from tests.kills.processes import said
from tests.xscl.polling.scripted import Server, serving
from xscl.engine.facade import Engine

WELL = Verdict()
CREATING = (FaultSpec("before_commit", 1), FaultSpec("before_commit", 3))
BEFORE_THE_STORE = (
    FaultSpec("fetched", 1),
    FaultSpec("spool_half", 3),
    FaultSpec("spool_written", 2),
    FaultSpec("spool_synced", 3),
    FaultSpec("spooled", 1),
    FaultSpec("batch_read", 1),
)
NOT_COMMITTED = (
    FaultSpec("accepted", 1),
    FaultSpec("joined", 2),
    FaultSpec("stored", 1),
    FaultSpec("before_commit", 6),
)
COMMITTED = (
    FaultSpec("after_commit", 6),
    FaultSpec("committed", 1),
    FaultSpec("batch_done", 2),
)
FAILING = (FaultSpec("spool_synced", 3, "EIO"), FaultSpec("before_commit", 6, "EIO"))
SIGNALS = (FaultSpec("joined", 1, "TERM"), FaultSpec("accepted", 1, "INT"))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with placed(tmp_path_factory.mktemp("killed"), server) as made:
        yield made


def kill_again_and_again(place: Place, faults: Sequence[FaultSpec]) -> None:
    for fault in faults:
        place.kill(fault)
    assert place.check() == WELL


def test_c2_killed_while_the_store_is_made(place: Place) -> None:
    kill_again_and_again(place, CREATING)


@pytest.mark.parametrize(
    "faults",
    usually([BEFORE_THE_STORE, NOT_COMMITTED, COMMITTED], NOT_COMMITTED),
    ids=["before_the_store", "not_committed", "committed"],
)
def test_c1_killed_at_a_point(place: Place, faults: Sequence[FaultSpec]) -> None:
    kill_again_and_again(place, faults)


@pytest.mark.parametrize("fault", FAILING, ids=lambda fault: fault.point)
def test_c17_a_point_fails(place: Place, fault: FaultSpec) -> None:
    """It is tried again, or the service ends in order and the next one goes on."""
    life = place.begin(fault)
    code = place.struck(life, "Input/output error")
    assert code in (0, 1), said(life)
    assert place.setting.home.holder() is None
    assert place.check() == WELL


@pytest.mark.parametrize("fault", SIGNALS, ids=lambda fault: fault.action)
def test_c4_a_signal_in_the_midst_of_a_batch_ends_it_in_order(
    place: Place, fault: FaultSpec
) -> None:
    life = place.begin(fault)
    assert place.ended(life) == 0, said(life)
    assert place.setting.home.holder() is None


def test_c14_in_the_end_everything_is_there_once(place: Place) -> None:
    assert place.finish() == WELL
    assert {match.subscription for match in place.found().matches} >= {"pairs", "hits", "next"}


@pytest.mark.slow
def test_c1_killed_while_queries_are_edited(server: Server, tmp_path: Path) -> None:
    points = ("stored", "before_commit", "after_commit", "marked", "committed")
    with placed(tmp_path, server, edits=True) as place:
        for count, point in enumerate(points, 2):
            kill_again_and_again(place, [FaultSpec(point, count), FaultSpec(point, 3 * count)])
        assert place.finish() == WELL
        with Engine(place.setting.home.database) as engine:
            versions = {one.name: one.version for one in engine.subscriptions}
            assert min(versions[name] for name in ("next", "gaps", "news")) > len(points)
            assert len({match.version for match in engine.matches("next")}) > 1
