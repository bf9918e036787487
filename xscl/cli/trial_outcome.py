"""The outcome of `xscl try`: matches, or the reasons why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xscl.delivery.message import MatchFields
from xscl.inspection.diagnosis import Diagnosis


class TrialOutcome(NamedTuple):
    """The matches of a tried query; without any, `diagnosis` has the reasons.

    `late` documents came too late for the query, whose streams have a `lateness` in ticks.
    """

    matches: Sequence[MatchFields]
    diagnosis: Diagnosis | None = None
    late: int = 0
    lateness: int = 0
