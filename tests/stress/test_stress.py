"""Mixed clients at once: nothing ends, nothing fails but honestly, nothing is lost or doubled."""

from __future__ import annotations

import pytest

from tests.stress.program import run
from tests.stress.service import PLANTED

PATIENCE = 50.0
"""Seconds for SIGTERM here, ten times what is promised: other tests run beside."""


def test_many_clients_at_once() -> None:
    report = run(1, 20, stops_within=PATIENCE)
    assert not report.wrong, report
    assert report.documents > 0
    assert report.matches > 0


@pytest.mark.slow
def test_many_clients_for_half_an_hour() -> None:
    report = run(2, 1_800, stops_within=PATIENCE)
    assert not report.wrong, report


def test_matches_that_are_read_through_the_engines_connection_are_noticed() -> None:
    """The fault that ended the first release under ordinary use."""
    report = run(1, 120, program=PLANTED, stops_within=PATIENCE)
    assert report.wrong
