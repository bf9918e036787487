"""Mixed clients at once: nothing ends, nothing fails but honestly, nothing is lost or doubled."""

from __future__ import annotations

import statistics

import pytest

from tests.examples import usually
from tests.stress.faults import KINDS
from tests.stress.hostile import drill
from tests.stress.machine import is_available
from tests.stress.program import run
from tests.stress.service import PLANTED

PATIENCE = 50.0
"""Seconds for SIGTERM here, ten times what is promised: other tests run beside."""


@pytest.mark.parametrize("seconds", usually([2, 60], 2))
def test_many_clients_at_once(seconds: int) -> None:
    report = run(1, seconds, stops_within=PATIENCE)
    assert not report.wrong, report
    assert report.documents > 0
    assert report.matches > 0


@pytest.mark.slow
@pytest.mark.skipif(
    not is_available(),
    reason="the library that steps the clock is compiled, and loaded by LD_PRELOAD:"
    " what stays untested without it are faults of a real service, not of the simulated one",
)
@pytest.mark.parametrize("mounts", [True, False], ids=["tmpfs", "library"])
def test_faults_of_the_machine_and_of_the_service(mounts: bool) -> None:
    """Both variants make writes fail by the library if no file system can be mounted."""
    report = run(3, 90, stops_within=PATIENCE, faults=KINDS, mounts=mounts)
    assert not report.wrong, report
    assert set(report.faults) == set(KINDS)
    assert report.matches > 0


@pytest.mark.slow
def test_many_clients_for_half_an_hour() -> None:
    report = run(2, 1_800, stops_within=PATIENCE)
    assert not report.wrong, report


@pytest.mark.slow
def test_threads_that_share_the_connection_that_writes_are_noticed() -> None:
    """A fault of this kind ended the first release under ordinary use."""
    report = run(1, 120, program=PLANTED, stops_within=PATIENCE)
    assert report.wrong


@pytest.mark.slow
def test_hostile_documents_and_connections_of_one_client() -> None:
    """The bounds, at ten times of what is promised in seconds: other tests may run beside."""
    figures = drill(10, stops_within=PATIENCE)
    assert not figures.wrong, figures
    assert statistics.quantiles(figures.requests, n=20)[-1] < 10, figures
    assert figures.growth < 200_000_000, figures
